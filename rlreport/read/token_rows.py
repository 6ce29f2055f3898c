"""Values per token of a batch of rows, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import LARGEST_NUMBER, TOKEN_ARRAYS
from rlreport.figures.ragged import Floats, Ints, offsets_of, row_sums
from rlreport.figures.tokens import LOGGED, TokenFigures, token_figures
from rlreport.options import GaeOptions
from rlreport.read.record import TokenFields
from rlreport.read.remarks import LogPosition, Remarks
from rlreport.tables import NoteKind

# A log-probability above this marks padding; rounding alone never reaches it
PADDING_LOGP = 1e-3
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class TokenRows:
    """The tokens of R rows as flat arrays of N tokens in total."""

    rows: Ints  # int64 (R,), rows of the batch that have tokens
    offsets: Ints  # int64 (R + 1,), where each row's tokens begin
    # token strings of each row; None for a row that logs none
    strings: list[list[str] | None]
    # each row's token strings as logged, joined; "" for a row that logs none
    texts: list[str]
    # field of TOKEN_ARRAYS -> float64 (N,), finite or NaN; only fields that are logged
    arrays: dict[str, Floats]
    nan_values: Ints  # int64 (R,), number of values logged as NaN, infinite or null
    # (N,), whether the policy sampled the token; None for all
    sampled: Bools | None = None
    # (R,), whether the row logs ``sampled``; None if no row does
    masked: Bools | None = None

    def marks(self, token: str) -> Bools:
        """Return which tokens equal ``token``, bool (N,)."""
        places: list[int] = []
        starts = self.offsets[:-1].tolist()
        for strings, text, start in zip(self.strings, self.texts, starts, strict=True):
            # Searching the text is faster than ``index``, and ``index`` than a loop over tokens.
            if strings and token in text:
                place = -1
                with suppress(ValueError):  # raised when there is no further one
                    while True:
                        place = strings.index(token, place + 1)
                        places.append(start + place)
        marks = np.zeros(int(self.offsets[-1]), dtype=bool)
        marks[places] = True
        return marks

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def sampled_only(self) -> TokenRows:
        """Return only the tokens that the policy sampled.

        The reward of an environment token is added to the preceding sampled token (or to the
        row's first sampled token), so that the sum of rewards per row stays the same.
        """
        if self.sampled is None:
            return self
        tokens = self._only(self.sampled)
        rewards = self.arrays.get("token_rewards")
        if rewards is not None:
            tokens.arrays["token_rewards"] = _fold_rewards(
                rewards,
                self.sampled,
                offsets=self.offsets,
                sampled_offsets=tokens.offsets,
            )
        # All tokens that are left were sampled.
        tokens.sampled = tokens.masked = None
        return tokens

    def figures(self, gae: GaeOptions) -> TokenFigures:
        """Return log-ratios, advantages etc., (N,); call it on the result of ``sampled_only``."""
        logged = {
            LOGGED[name]: flat for name, flat in self.arrays.items() if name in LOGGED
        }
        return token_figures(
            TokenFigures(logged), self.offsets, gamma=gae.gamma, lam=gae.lam
        )

    def _only(self, keep: Bools) -> TokenRows:
        """Return the same rows with only the tokens in ``keep``, bool (N,).

        ``texts`` stay those of all tokens: ``marks`` only looks up there whether a token may occur.
        """
        sizes = row_sums(keep.astype(np.float64), self.offsets).astype(np.int64)
        # Values of tokens that are dropped do not count as missing.
        nan_values = self.nan_values
        for flat in self.arrays.values():
            is_dropped_nan = np.isnan(flat) & ~keep
            if is_dropped_nan.any():
                sums = row_sums(is_dropped_nan.astype(np.float64), self.offsets)
                nan_values = nan_values - sums.astype(np.int64)
        strings = list(self.strings)
        for i in np.flatnonzero(sizes != self.lengths).tolist():
            row_strings = strings[i]
            if row_strings:
                of_row = keep[self.offsets[i] : self.offsets[i + 1]]
                strings[i] = _kept_strings(row_strings, of_row, int(sizes[i]))
        return TokenRows(
            rows=self.rows,
            offsets=offsets_of(sizes),
            strings=strings,
            texts=self.texts,
            arrays={name: flat[keep] for name, flat in self.arrays.items()},
            # Of an array that a row lacks, NaN was not counted, but is subtracted.
            nan_values=np.maximum(nan_values, 0),
            sampled=None if self.sampled is None else self.sampled[keep],
            masked=self.masked,
        )


def _kept_strings(strings: list[str], keep: Bools, count: int) -> list[str]:
    """Return the strings of a row's tokens in ``keep``, of which there are ``count``."""
    kept = keep.tobytes()  # 1 or 0 per token
    first = kept.find(1)
    stop = kept.rfind(1) + 1
    if stop - first == count:
        # Only tokens at the ends are dropped, as padding is: a slice is faster.
        return strings[first:stop]
    return list(compress(strings, kept))


def token_rows(
    fields: Sequence[TokenFields],
    pad_tokens: frozenset[str],
    remarks: Remarks | None = None,
    positions: Sequence[LogPosition] = (),
) -> TokenRows | None:
    """Concatenate the tokens of a batch's rows, without padding; return None if no row has any.

    ``fields`` has an entry per row of the batch, ``positions`` where each is in the logs: at the
    first of them, ``remarks`` counts padding of each kind.
    """
    # -1 is the size of rows without tokens; 0 that of empty lists.
    rows = np.array(
        [i for i, row in enumerate(fields) if row.size >= 0], dtype=np.int64
    )
    if not len(rows):
        return None
    row_fields = [fields[i] for i in rows.tolist()]
    offsets = offsets_of(np.array([row.size for row in row_fields], dtype=np.int64))
    arrays, nan_values = _arrays(row_fields, offsets)
    sampled, masked = _masks(row_fields)
    tokens = TokenRows(
        rows=rows,
        offsets=offsets,
        strings=[_strings_of(row) for row in row_fields],
        texts=[row.text for row in row_fields],
        arrays=arrays,
        nan_values=nan_values,
        sampled=sampled,
        masked=masked,
    )
    sentinels = _sentinels(tokens)
    padding = _end_padding(tokens, sentinels, pad_tokens)
    for kind, mask in ((NoteKind.SENTINEL, sentinels), (NoteKind.PADS, padding)):
        hits = np.flatnonzero(mask)
        if remarks is not None and len(hits):
            # The row whose tokens begin last at or before the first such token
            first_row = rows[np.searchsorted(offsets, hits[0], side="right") - 1]
            remarks.add(kind, positions[first_row], len(hits))
    drop = sentinels | padding
    return tokens._only(~drop) if drop.any() else tokens


def _strings_of(row: TokenFields) -> list[str] | None:
    """Return a row's token strings, cut to its shortest array; None if it logs none."""
    if row.uneven and row.tokens is not None:
        return row.tokens[: row.size]
    return row.tokens


def _arrays(
    fields: Sequence[TokenFields], offsets: Ints
) -> tuple[dict[str, Floats], Ints]:
    """Return ``TokenRows.arrays`` and ``nan_values`` of rows with tokens.

    A row without an array that others have gets NaN, which is not counted.
    """
    arrays: dict[str, Floats] = {}
    nan_values = np.zeros(len(fields), dtype=np.int64)
    for name in TOKEN_ARRAYS:
        parts = [row.arrays.get(name) for row in fields]
        logged = np.array([part is not None for part in parts], dtype=bool)
        if not logged.any():
            continue
        data = b"".join(
            part[: row.size]
            if part is not None
            else np.full(row.size, np.nan).tobytes()
            for part, row in zip(parts, fields, strict=True)
        )
        flat = np.frombuffer(data, dtype=np.float64)
        finite = np.abs(flat) <= LARGEST_NUMBER  # False for NaN
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            invalid = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(logged, invalid, 0)
        arrays[name] = flat
    return arrays, nan_values


def _masks(fields: Sequence[TokenFields]) -> tuple[Bools, Bools] | tuple[None, None]:
    """Return ``TokenRows.sampled`` and ``masked``; a row without a mask has sampled tokens only."""
    masked = np.array([row.mask is not None for row in fields], dtype=bool)
    if not masked.any():
        return None, None
    masks = [row.mask if row.mask is not None else b"\1" * row.size for row in fields]
    return np.frombuffer(b"".join(masks), dtype=np.uint8).astype(bool), masked


def _sentinels(tokens: TokenRows) -> Bools:
    """Return which sampled tokens have a logprob or ref_logprob above PADDING_LOGP, bool (N,)."""
    is_sentinel = np.zeros(int(tokens.offsets[-1]), dtype=bool)
    for name in ("logprobs", "ref_logprobs"):
        logp = tokens.arrays.get(name)
        if logp is not None:
            is_sentinel = is_sentinel | (logp > PADDING_LOGP)
    # A trainer may log any number for an environment's token.
    if tokens.sampled is not None:
        is_sentinel &= tokens.sampled
    return is_sentinel


def _end_padding(
    tokens: TokenRows, sentinels: Bools, pad_tokens: frozenset[str]
) -> Bools:
    """Return which tokens except ``sentinels`` are padding at either end of a row, bool (N,)."""
    padding = np.zeros(len(sentinels), dtype=bool)
    starts = tokens.offsets[:-1].tolist()
    for strings, start in zip(tokens.strings, starts, strict=True):
        if not strings:
            continue
        end = start + len(strings)
        is_sentinel = sentinels[start:end]
        # Padding may stand before or behind sentinels, which will be dropped, too.
        first = 0
        stop = len(strings)
        while first < stop and (strings[first] in pad_tokens or is_sentinel[first]):
            first += 1
        while stop > first and (
            strings[stop - 1] in pad_tokens or is_sentinel[stop - 1]
        ):
            stop -= 1
        padding[start : start + first] = True
        padding[start + stop : end] = True
    return padding & ~sentinels


def _fold_rewards(
    rewards: Floats, sampled: Bools, *, offsets: Ints, sampled_offsets: Ints
) -> Floats:
    """Return the rewards of sampled tokens, with those of other tokens added.

    The reward of another token is added to the last sampled token before it in its row, or to the
    row's first one. A row without a sampled token loses its rewards. ``offsets`` of the rows are
    among all tokens, ``sampled_offsets`` among the sampled ones.
    """
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # For each token, the number of the sampled token that takes its reward
    last_sampled = np.cumsum(sampled) - 1
    target = np.clip(last_sampled, sampled_offsets[row], sampled_offsets[row + 1] - 1)
    # In a row without sampled tokens, the target is a token of another row.
    has_sampled = np.diff(sampled_offsets)[row] > 0
    moved = np.flatnonzero(~sampled & np.isfinite(rewards) & has_sampled)
    added = np.bincount(target[moved], rewards[moved], int(sampled_offsets[-1]))
    return rewards[sampled] + added
