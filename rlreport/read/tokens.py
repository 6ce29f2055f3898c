"""The concatenated token arrays of many rows, cut to one length and without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import TOKEN_ARRAYS
from rlreport.figures.ragged import Floats, Ints, offsets_of, row_sums
from rlreport.figures.token import TokenFigures, token_figures
from rlreport.options import FigureOptions
from rlreport.read.notes import LogPosition, Remarks
from rlreport.read.rows import TokenFields

PADDING_LOGP = 1e-3
"""A log-probability above this marks padding; rounding alone never reaches it."""

Bools = NDArray[np.bool_]


@dataclass(slots=True)
class TokenRows:
    """Tokens of R rows, N in all.

    Attributes:
        rows: int64 (R,), rows of the batch that have tokens.
        offsets: int64 (R + 1,), where each row's tokens begin.
        strings: token strings of each row; None for rows without.
        arrays: field of TOKEN_ARRAYS -> float64 (N,), finite or NaN; absent fields left out.
        nan_values: int64 (R,), number of values logged as NaN, infinite or null.
        sampled: bool (N,), tokens that the policy sampled; None if it sampled all.
        masked: bool (R,), rows that log which tokens were sampled; None without any.
    """

    rows: Ints
    offsets: Ints
    strings: list[list[str] | None]
    arrays: dict[str, Floats]
    nan_values: Ints
    sampled: Bools | None = None
    masked: Bools | None = None

    def marks(self, token: str) -> Bools:
        """Return which of the N tokens are this one."""
        lists = zip(self.strings, self.lengths.tolist(), strict=True)
        strings = chain.from_iterable([None] * size if own is None else own for own, size in lists)
        return np.fromiter((string == token for string in strings), bool, int(self.offsets[-1]))

    @property
    def lengths(self) -> Ints:
        """Tokens of each row, int64 (R,)."""
        return np.diff(self.offsets)

    def sampled_only(self) -> TokenRows:
        """Return the tokens that the policy sampled.

        A token reward on an environment's token is added to the sampled token before it (or
        to the first, if none is before), so that the row's sum stays the same.
        """
        keep = self.sampled
        if keep is None:
            return self
        tokens = self._select(keep)
        if (rewards := self.arrays.get("token_rewards")) is not None:
            tokens.arrays["token_rewards"] = _fold_rewards(
                rewards, keep, self.offsets, tokens.offsets
            )
        tokens.sampled = tokens.masked = None
        return tokens

    def figures(self, options: FigureOptions) -> TokenFigures:
        """Return every figure per token, (N,) each; to be called on ``sampled_only()``."""
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

    def _select(self, keep: Bools) -> TokenRows:
        sizes = row_sums(keep.astype(np.float64), self.offsets).astype(np.int64)
        nan_values = self.nan_values
        for flat in self.arrays.values():
            dropped = row_sums((np.isnan(flat) & ~keep).astype(np.float64), self.offsets)
            nan_values = nan_values - dropped.astype(np.int64)
        cuts = zip(self.strings, self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        return TokenRows(
            self.rows,
            offsets_of(sizes),
            [own and list(compress(own, keep[start:stop].tolist())) for own, start, stop in cuts],
            {name: flat[keep] for name, flat in self.arrays.items()},
            np.maximum(nan_values, 0),
            None if self.sampled is None else self.sampled[keep],
            self.masked,
        )


def token_rows(
    fields: Sequence[TokenFields],
    pad_tokens: frozenset[str],
    remarks: Remarks | None = None,
    positions: Sequence[LogPosition] = (),
) -> TokenRows | None:
    """Concatenate the token arrays of a batch without padding; None without tokens.

    Dropped values are added to ``remarks``, with the positions of their rows.
    """
    rows = np.array([i for i, one in enumerate(fields) if one.size >= 0], dtype=np.int64)
    if not len(rows):
        return None
    own = [fields[i] for i in rows.tolist()]
    offsets = offsets_of(np.array([one.size for one in own], dtype=np.int64))
    strings = [
        one.tokens[: one.size] if one.uneven and one.tokens is not None else one.tokens
        for one in own
    ]
    tokens = TokenRows(rows, offsets, strings, *_arrays(own, offsets), *_masks(own))
    drop = _sentinels(tokens)
    padding = _end_padding(tokens, drop, pad_tokens)
    for kind, found in (("sentinel", drop), ("pads", padding)):
        hits = np.flatnonzero(found)
        if remarks is not None and len(hits):
            first = rows[np.searchsorted(offsets, hits[0], side="right") - 1]
            remarks.add(kind, positions[first], len(hits))
    drop |= padding
    return tokens._select(~drop) if drop.any() else tokens


def _arrays(fields: Sequence[TokenFields], offsets: Ints) -> tuple[dict[str, Floats], Ints]:
    arrays: dict[str, Floats] = {}
    nan_values = np.zeros(len(fields), dtype=np.int64)
    for name in TOKEN_ARRAYS:
        parts = [one.arrays.get(name) for one in fields]
        logged = np.array([part is not None for part in parts], dtype=bool)
        if not logged.any():
            continue
        data = b"".join(
            bytes(memoryview(part)[: one.size])
            if part is not None
            else np.full(one.size, np.nan).tobytes()
            for part, one in zip(parts, fields, strict=True)
        )
        flat = np.frombuffer(data, dtype=np.float64)
        finite = np.isfinite(flat)
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            odd = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(logged, odd, 0)
        arrays[name] = flat
    return arrays, nan_values


def _masks(fields: Sequence[TokenFields]) -> tuple[Bools, Bools] | tuple[None, None]:
    """Return which tokens were sampled, and which rows log it; None twice if no row does."""
    masked = np.array([one.mask is not None for one in fields], dtype=bool)
    if not masked.any():
        return None, None
    masks = [one.mask if one.mask is not None else b"\1" * one.size for one in fields]
    return np.frombuffer(b"".join(masks), dtype=np.uint8).astype(bool), masked


def _sentinels(tokens: TokenRows) -> Bools:
    """Mark tokens with an impossible log-probability, which trainers use for padding."""
    drop = np.zeros(int(tokens.offsets[-1]), dtype=bool)
    for name in ("logprobs", "ref_logprobs"):
        logp = tokens.arrays.get(name)
        if logp is not None and len(logp) and not logp.max() <= PADDING_LOGP:  # NaN included
            drop |= logp > PADDING_LOGP
    if tokens.sampled is not None:
        drop &= tokens.sampled  # a trainer may log any number for an environment's token
    return drop


def _end_padding(tokens: TokenRows, sentinels: Bools, pad_tokens: frozenset[str]) -> Bools:
    """Mark pad tokens in an unbroken run from a row's first or last token.

    Sentinels in between do not break the run.
    """
    padding = np.zeros(len(sentinels), dtype=bool)
    for strings, start in zip(tokens.strings, tokens.offsets.tolist(), strict=False):
        if not strings:
            continue
        first, stop = 0, len(strings)
        while first < stop and (strings[first] in pad_tokens or sentinels[start + first]):
            first += 1
        while stop > first and (strings[stop - 1] in pad_tokens or sentinels[start + stop - 1]):
            stop -= 1
        padding[start : start + first] = padding[start + stop : start + len(strings)] = True
    return padding & ~sentinels


def _fold_rewards(rewards: Floats, sampled: Bools, old: Ints, new: Ints) -> Floats:
    """Return rewards of the sampled tokens, including those of unsampled tokens that follow."""
    row = np.repeat(np.arange(len(old) - 1), np.diff(old))
    place = np.clip(np.cumsum(sampled) - 1, new[row], new[row + 1] - 1)
    paid = np.flatnonzero(~sampled & np.isfinite(rewards) & (np.diff(new)[row] > 0))
    return rewards[sampled] + np.bincount(place[paid], rewards[paid], int(new[-1]))
