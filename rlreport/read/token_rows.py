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
                with suppress(ValueError):
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
        keep = self.sampled
        if keep is None:
            return self
        tokens = self._select(keep)
        rewards = self.arrays.get("token_rewards")
        if rewards is not None:
            tokens.arrays["token_rewards"] = _fold_rewards(
                rewards, keep, self.offsets, tokens.offsets
            )
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

    def _select(self, keep: Bools) -> TokenRows:
        sizes = row_sums(keep.astype(np.float64), self.offsets).astype(np.int64)
        nan_values = self.nan_values
        for flat in self.arrays.values():
            dropped = np.isnan(flat) & ~keep
            if dropped.any():
                sums = row_sums(dropped.astype(np.float64), self.offsets)
                nan_values = nan_values - sums.astype(np.int64)
        strings = list(self.strings)
        for i in np.flatnonzero(sizes != self.lengths).tolist():
            row = strings[i]
            if row:
                kept = keep[self.offsets[i] : self.offsets[i + 1]].tobytes()
                first = kept.find(1)
                stop = kept.rfind(1) + 1
                whole = stop - first == sizes[i]  # only padding is dropped
                strings[i] = row[first:stop] if whole else list(compress(row, kept))
        return TokenRows(
            self.rows,
            offsets_of(sizes),
            strings,
            self.texts,
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
    """Concatenate rows' tokens without padding (counted in ``remarks``); None if no row has any."""
    rows = np.array(
        [i for i, row in enumerate(fields) if row.size >= 0], dtype=np.int64
    )
    if not len(rows):
        return None
    row_fields = [fields[i] for i in rows.tolist()]
    offsets = offsets_of(np.array([row.size for row in row_fields], dtype=np.int64))
    strings = [
        row.tokens[: row.size] if row.uneven and row.tokens is not None else row.tokens
        for row in row_fields
    ]
    texts = [row.text for row in row_fields]
    arrays, nan_values = _arrays(row_fields, offsets)
    tokens = TokenRows(
        rows, offsets, strings, texts, arrays, nan_values, *_masks(row_fields)
    )
    drop = _sentinels(tokens)
    padding = _end_padding(tokens, drop, pad_tokens)
    for kind, mask in ((NoteKind.SENTINEL, drop), (NoteKind.PADS, padding)):
        hits = np.flatnonzero(mask)
        if remarks is not None and len(hits):
            first = rows[np.searchsorted(offsets, hits[0], side="right") - 1]
            remarks.add(kind, positions[first], len(hits))
    drop |= padding
    return tokens._select(~drop) if drop.any() else tokens


def _arrays(
    fields: Sequence[TokenFields], offsets: Ints
) -> tuple[dict[str, Floats], Ints]:
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
        finite = np.abs(flat) <= LARGEST_NUMBER
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            invalid = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(logged, invalid, 0)
        arrays[name] = flat
    return arrays, nan_values


def _masks(fields: Sequence[TokenFields]) -> tuple[Bools, Bools] | tuple[None, None]:
    masked = np.array([row.mask is not None for row in fields], dtype=bool)
    if not masked.any():
        return None, None
    masks = [row.mask if row.mask is not None else b"\1" * row.size for row in fields]
    return np.frombuffer(b"".join(masks), dtype=np.uint8).astype(bool), masked


def _sentinels(tokens: TokenRows) -> Bools:
    """Return which sampled tokens have a logprob or ref_logprob above PADDING_LOGP, bool (N,)."""
    drop = np.zeros(int(tokens.offsets[-1]), dtype=bool)
    for name in ("logprobs", "ref_logprobs"):
        logp = tokens.arrays.get(name)
        if logp is not None:
            drop = drop | (logp > PADDING_LOGP)
    # A trainer may log any number for an environment's token.
    if tokens.sampled is not None:
        drop &= tokens.sampled
    return drop


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
        dropped = sentinels[start:end]
        first = 0
        stop = len(strings)
        while first < stop and (strings[first] in pad_tokens or dropped[first]):
            first += 1
        while stop > first and (strings[stop - 1] in pad_tokens or dropped[stop - 1]):
            stop -= 1
        padding[start : start + first] = True
        padding[start + stop : end] = True
    return padding & ~sentinels


def _fold_rewards(rewards: Floats, sampled: Bools, old: Ints, new: Ints) -> Floats:
    """Return rewards of sampled tokens, with those of others added; offsets ``old`` and ``new``."""
    row = np.repeat(np.arange(len(old) - 1), np.diff(old))
    # The place among sampled tokens of the last one before each token, or of the row's first
    place = np.clip(np.cumsum(sampled) - 1, new[row], new[row + 1] - 1)
    has_sampled = np.diff(new)[row] > 0
    paid = np.flatnonzero(~sampled & np.isfinite(rewards) & has_sampled)
    added = np.bincount(place[paid], rewards[paid], int(new[-1]))
    return rewards[sampled] + added
