"""Values per token of a batch of rows, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import LARGEST_NUMBER, TOKEN_ARRAYS
from rlreport.figures.ragged import Floats, Ints, lengths_of, offsets_of, row_sums
from rlreport.figures.tokens import LOGGED, TokenFigures, token_figures
from rlreport.options import GaeOptions
from rlreport.read.record import TokenFields
from rlreport.read.remarks import LogPosition, Remarks
from rlreport.read.vocabulary import Ids, Numbers
from rlreport.tables import NoteKind

# A log-probability above this marks padding; rounding alone never reaches it
PADDING_LOGP = 1e-3
_NAN = np.float64(np.nan).tobytes()
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class TokenRows:
    """The tokens of R rows as flat arrays of N tokens in total."""

    rows: Ints  # int64 (R,), rows of the batch that have tokens
    offsets: Ints  # int64 (R + 1,), where each row's tokens begin
    numbers: Numbers  # token string -> id
    ids: Ids  # int32 (N,), of the token strings; that of "" in rows that log none
    has_strings: Bools  # bool (R,), whether the row logs token strings
    # field of TOKEN_ARRAYS -> float64 (N,), finite or NaN; only fields that are logged
    arrays: dict[str, Floats]
    nan_values: Ints  # int64 (R,), number of values logged as NaN, infinite or null
    # (N,), whether the policy sampled the token; None for all
    sampled: Bools | None = None
    # (R,), whether the row logs ``sampled``; None if no row does
    masked: Bools | None = None

    @property
    def lengths(self) -> Ints:
        return lengths_of(self.offsets)

    def marks(self, token: str) -> Bools:
        """Return which tokens equal ``token``, bool (N,)."""
        return np.equal(self.ids, self.numbers[token])

    def last_tokens(self, rows: Bools) -> Ids:
        """Return the ids of the last token of each of these rows, which have tokens."""
        return self.ids[self.offsets[1:][rows] - 1]

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
        """Return the same rows with only the tokens in ``keep``, bool (N,)."""
        sizes = row_sums(keep.astype(np.float64), self.offsets).astype(np.int64)
        # Values of tokens that are dropped do not count as missing.
        nan_values = self.nan_values
        dropped = np.flatnonzero(~keep)
        for flat in self.arrays.values():
            missing = dropped[np.isnan(flat[dropped])]
            if len(missing):
                row_of_missing = np.searchsorted(self.offsets, missing, "right") - 1
                nan_values = nan_values - np.bincount(
                    row_of_missing, minlength=len(nan_values)
                )
        return replace(
            self,
            offsets=offsets_of(sizes),
            ids=self.ids[keep],
            arrays={name: flat[keep] for name, flat in self.arrays.items()},
            # Of an array that a row lacks, NaN was not counted, but is subtracted.
            nan_values=np.maximum(nan_values, 0),
            sampled=None if self.sampled is None else self.sampled[keep],
        )


def token_rows(
    fields: Sequence[TokenFields],
    numbers: Numbers,
    pad_tokens: Sequence[str],
    remarks: Remarks | None = None,
    positions: Sequence[LogPosition] = (),
) -> TokenRows | None:
    """Concatenate the tokens of a batch's rows, without padding; return None if no row has any.

    ``fields`` has an entry per row of the batch, ``numbers`` the ids of their token strings.
    ``positions`` is where each row is in the logs: at the first of them, ``remarks`` counts padding
    of each kind.
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
        numbers=numbers,
        ids=_ids(row_fields, numbers),
        has_strings=np.array([row.ids is not None for row in row_fields], dtype=bool),
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


def _ids(fields: Sequence[TokenFields], numbers: Numbers) -> Ids:
    """Return ``TokenRows.ids`` of rows with tokens."""
    no_string = np.int32(numbers[""]).tobytes()
    data = [no_string * row.size if row.ids is None else row.ids for row in fields]
    return np.frombuffer(b"".join(data), np.int32)


def _arrays(
    fields: Sequence[TokenFields], offsets: Ints
) -> tuple[dict[str, Floats], Ints]:
    """Return ``TokenRows.arrays`` and ``nan_values`` of rows with tokens.

    A row without an array that others have gets NaN, which is not counted.
    """
    arrays: dict[str, Floats] = {}
    nan_values = np.zeros(len(fields), dtype=np.int64)
    for name in TOKEN_ARRAYS:
        logged = [row.arrays.get(name) for row in fields]
        is_logged = [values is not None for values in logged]
        if not any(is_logged):
            continue
        data = [
            _NAN * row.size if values is None else values
            for values, row in zip(logged, fields, strict=True)
        ]
        flat = np.frombuffer(b"".join(data), np.float64)
        finite = np.abs(flat) <= LARGEST_NUMBER  # False for NaN
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            invalid = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(is_logged, invalid, 0)
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
    tokens: TokenRows, sentinels: Bools, pad_tokens: Sequence[str]
) -> Bools:
    """Return which tokens except ``sentinels`` are padding at either end of a row, bool (N,)."""
    is_pad: Bools = np.zeros(len(sentinels), dtype=bool)
    for number in tokens.numbers.known(pad_tokens):
        is_this = tokens.ids == number
        is_pad |= is_this
    if not is_pad.any():  # as usual
        return is_pad
    # A row without token strings has no pad tokens.
    is_pad &= ~sentinels & np.repeat(tokens.has_strings, tokens.lengths)
    # Padding may stand before or behind sentinels, which will be dropped, too.
    is_content = ~(is_pad | sentinels)
    # Tokens of content up to each token, and before and with its row
    up_to = np.cumsum(is_content)
    up_to_offset = np.concatenate([[0], up_to])[tokens.offsets]
    before_row = np.repeat(up_to_offset[:-1], tokens.lengths)
    with_row = np.repeat(up_to_offset[1:], tokens.lengths)
    is_pad &= (up_to == before_row) | (up_to == with_row)
    return is_pad


def _fold_rewards(
    rewards: Floats, sampled: Bools, *, offsets: Ints, sampled_offsets: Ints
) -> Floats:
    """Return the rewards of sampled tokens, with those of other tokens added.

    The reward of another token is added to the last sampled token before it in its row, or to the
    row's first one. A row without a sampled token loses its rewards. ``offsets`` of the rows are
    among all tokens, ``sampled_offsets`` among the sampled ones.
    """
    row = np.repeat(np.arange(len(offsets) - 1), lengths_of(offsets))
    # For each token, the number of the sampled token that takes its reward
    last_sampled = np.cumsum(sampled) - 1
    target = np.clip(last_sampled, sampled_offsets[row], sampled_offsets[row + 1] - 1)
    # In a row without sampled tokens, the target is a token of another row.
    has_sampled = lengths_of(sampled_offsets)[row] > 0
    moved = np.flatnonzero(~sampled & np.isfinite(rewards) & has_sampled)
    added = np.bincount(target[moved], rewards[moved], int(sampled_offsets[-1]))
    return rewards[sampled] + added
