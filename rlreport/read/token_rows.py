"""The token arrays of a batch side by side: cut, cleaned of padding, one flat array a field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import TOKEN_ARRAYS
from rlreport.figures.ragged import Floats, Ints, offsets_of, row_sums
from rlreport.figures.token import token_figures
from rlreport.options import FigureOptions
from rlreport.read.batch import Batch, RawTokens
from rlreport.rollout import TokenFigures
from rlreport.text.vocabulary import Ids, Vocabulary

LOGP_OF_PADDING = 1e-3
"""A log-probability above this (rounding aside, none can be) marks a padding position."""


@dataclass(slots=True)
class TokenRows:
    """Tokens of R rows, N in all.

    Attributes:
        rows: int64 (R,), which rows of the batch.
        offsets: int64 (R + 1,).
        ids: int32 (N,), numbers in the vocabulary; -1 where a row logs no token strings.
        named: bool (R,), rows with token strings.
        arrays: field of TOKEN_ARRAYS -> float64 (N,), finite or NaN; absent fields left out.
        nan_values: int64 (R,), values that were logged as NaN, infinite or null.
        sampled: bool (N,), tokens that the policy sampled; None where that is all of them.
        masked: bool (R,), rows that log which tokens were sampled.
    """

    rows: Ints
    offsets: Ints
    ids: Ids
    named: NDArray[np.bool_]
    arrays: dict[str, Floats]
    nan_values: Ints
    sampled: NDArray[np.bool_] | None = None
    masked: NDArray[np.bool_] | None = None

    def sampled_only(self) -> TokenRows:
        """Return the tokens that the policy sampled, side by side.

        A token reward on an environment's token counts for the sampled token before it (for
        the first, where none is before), so that what the row was paid stays the same.
        """
        keep = self.sampled
        if keep is None:
            return self
        tokens = self._only(keep)
        if (rewards := self.arrays.get("token_rewards")) is not None:
            folded = _folded(rewards, keep, self.offsets, tokens.offsets)
            tokens.arrays["token_rewards"] = folded
        tokens.sampled = tokens.masked = None
        return tokens

    def without(self, drop: NDArray[np.bool_]) -> TokenRows:
        """Return the other tokens, side by side."""
        return self._only(~drop) if drop.any() else self

    def _only(self, keep: NDArray[np.bool_]) -> TokenRows:
        sizes = np.add.reduceat(np.append(keep, False), self.offsets[:-1], dtype=np.int64)
        sizes[np.diff(self.offsets) == 0] = 0
        nan_values = self.nan_values
        for flat in self.arrays.values():
            nan = np.isnan(flat) & ~keep
            if nan.any():
                odd = row_sums(nan.astype(np.float64), self.offsets).astype(np.int64)
                nan_values = nan_values - odd
        return TokenRows(
            self.rows,
            offsets_of(sizes),
            self.ids[keep],
            self.named,
            {name: flat[keep] for name, flat in self.arrays.items()},
            np.maximum(nan_values, 0),
            None if self.sampled is None else self.sampled[keep],
            self.masked,
        )

    def figures(self, options: FigureOptions) -> TokenFigures:
        """Return every figure per token, (N,) each.

        All that reads figures of tokens reads these (sums by token, the columns of the
        response table, pages), and always of ``sampled_only``.
        """
        arrays = self.arrays
        return token_figures(
            logp=arrays.get("logprobs"),
            ref_logp=arrays.get("ref_logprobs"),
            token_reward=arrays.get("token_rewards"),
            value=arrays.get("values"),
            advantage=arrays.get("advantages"),
            sampler_logp=arrays.get("sampler_logprobs"),
            offsets=self.offsets,
            gamma=options.gamma,
            lam=options.lam,
        )


def token_rows(batch: Batch, vocabulary: Vocabulary) -> TokenRows:
    """Lay the token arrays of a batch side by side, drop padding, and mark what was sampled."""
    rows = np.array(batch.token_rows, dtype=np.int64)
    lengths = np.array(batch.lengths, dtype=np.int64)[rows]
    offsets = offsets_of(lengths)
    ids, named = _ids(batch, lengths, offsets, vocabulary)
    arrays, nan_values = _arrays(batch, lengths, offsets)
    tokens = TokenRows(rows, offsets, ids, named, arrays, nan_values, *_masks(batch, lengths))
    return tokens.without(_padding(tokens, batch, vocabulary))


def _ids(
    batch: Batch, lengths: Ints, offsets: Ints, vocabulary: Vocabulary
) -> tuple[Ids, NDArray[np.bool_]]:
    raw = [tokens for tokens in batch.tokens if isinstance(tokens, RawTokens)]
    numbers, counts = vocabulary.raw_numbers([tokens.text for tokens in raw])
    said = np.array([tokens.strings for tokens in raw], dtype=np.int64)
    if not np.array_equal(counts, said):
        _refuse(batch, counts)
        return _ids(batch, lengths, offsets, vocabulary)
    named = np.array([tokens is not None for tokens in batch.tokens], dtype=bool)
    if len(raw) == len(lengths):
        if len(numbers) != offsets[-1]:
            place = np.arange(len(numbers)) - np.repeat(offsets_of(counts)[:-1], counts)
            numbers = numbers[place < np.repeat(lengths, counts)]
        return numbers, named
    ids = np.full(int(offsets[-1]), -1, dtype=np.int32)
    pieces = iter(np.split(numbers, np.cumsum(counts)[:-1]))
    for i, tokens in enumerate(batch.tokens):
        if tokens is None:
            continue
        own = next(pieces) if isinstance(tokens, RawTokens) else vocabulary.numbers(list(tokens))
        ids[offsets[i] : offsets[i + 1]] = own[: lengths[i]]
    return ids, named


def _refuse(batch: Batch, counts: Ints) -> None:
    """Take from a batch the token arrays that hold something else than strings."""
    found = iter(counts.tolist())
    for i, tokens in enumerate(batch.tokens):
        if isinstance(tokens, RawTokens) and next(found) != tokens.strings:
            batch.diagnostics.add("not_tokens", batch.rows[batch.token_rows[i]].position)
            batch.tokens[i] = None


def _arrays(batch: Batch, lengths: Ints, offsets: Ints) -> tuple[dict[str, Floats], Ints]:
    arrays: dict[str, Floats] = {}
    nan_values = np.zeros(len(lengths), dtype=np.int64)
    for name in TOKEN_ARRAYS:
        buffers = list(batch.arrays[name])
        missing = [i for i, buffer in enumerate(buffers) if buffer is None]
        if len(missing) == len(buffers):
            continue
        for i in missing:
            buffers[i] = memoryview(np.full(lengths[i], np.nan).tobytes())
        flat = np.frombuffer(b"".join(buffers), dtype=np.float64)  # type: ignore[arg-type]
        finite = np.isfinite(flat)
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            logged = np.ones(len(lengths), dtype=bool)
            logged[missing] = False
            odd = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(logged, odd, 0)
        arrays[name] = flat
    return arrays, nan_values


def _padding(tokens: TokenRows, batch: Batch, vocabulary: Vocabulary) -> NDArray[np.bool_]:
    drop = np.zeros(len(tokens.ids), dtype=bool)
    for name in ("logprobs", "ref_logprobs"):
        logp = tokens.arrays.get(name)
        # NaN is not smaller either.
        if logp is not None and len(logp) and not logp.max() <= LOGP_OF_PADDING:
            drop |= logp > LOGP_OF_PADDING
    if tokens.sampled is not None:
        # Of an environment's token a trainer may log any number.
        drop &= tokens.sampled
    _count(drop, "sentinel", tokens, batch)
    pads = vocabulary.pads(tokens.ids)
    if pads is not None and pads.any():
        ends = _at_the_ends(pads | drop, tokens.offsets) & ~drop
        _count(ends, "pads", tokens, batch)
        drop |= ends
    return drop


def _masks(
    batch: Batch, lengths: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | tuple[None, None]:
    """Return which tokens were sampled, and which rows say so; None twice where no row does."""
    masked = np.array([mask is not None for mask in batch.masks], dtype=bool)
    if not masked.any():
        return None, None
    sizes = lengths.tolist()
    masks = [m if m is not None else b"\1" * n for m, n in zip(batch.masks, sizes, strict=True)]
    return np.frombuffer(b"".join(masks), dtype=np.uint8).astype(bool), masked


def _folded(rewards: Floats, sampled: NDArray[np.bool_], old: Ints, new: Ints) -> Floats:
    """Return the rewards of the sampled tokens, with those of what follows each of them."""
    row = np.repeat(np.arange(len(old) - 1), np.diff(old))
    place = np.clip(np.cumsum(sampled) - 1, new[row], new[row + 1] - 1)
    paid = np.flatnonzero(~sampled & np.isfinite(rewards) & (np.diff(new)[row] > 0))
    return rewards[sampled] + np.bincount(place[paid], rewards[paid], int(new[-1]))


def _at_the_ends(marked: NDArray[np.bool_], offsets: Ints) -> NDArray[np.bool_]:
    """Keep of the marked tokens those in an unbroken run from a row's first or last token."""
    result = np.zeros_like(marked)
    hits = np.flatnonzero(marked)
    for row in np.unique(np.searchsorted(offsets, hits, side="right") - 1).tolist():
        inside = marked[offsets[row] : offsets[row + 1]]
        plain = np.flatnonzero(~inside)
        first, last = (plain[0], plain[-1]) if len(plain) else (len(inside), -1)
        result[offsets[row] : offsets[row] + first] = True
        result[offsets[row] + last + 1 : offsets[row + 1]] = True
    return result


def _count(drop: NDArray[np.bool_], kind: str, tokens: TokenRows, batch: Batch) -> None:
    hits = np.flatnonzero(drop)
    if not len(hits):
        return
    first = int(np.searchsorted(tokens.offsets, hits[0], side="right")) - 1
    batch.diagnostics.add(kind, batch.rows[tokens.rows[first]].position, len(hits))
