"""The units of rows: tokens where a row has them, else words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints, offsets_of
from rlreport.read.token_rows import TokenRows
from rlreport.read.vocabulary import Ids, Vocabulary
from rlreport.text.units import units


@dataclass(slots=True)
class UnitRows:
    """Units of R rows, U in all.

    Attributes:
        ids: int32 (U,), numbers in the vocabulary.
        offsets: int64 (R + 1,).
        is_token: bool (R,): the row's units are tokens.
    """

    ids: Ids
    offsets: Ints
    is_token: NDArray[np.bool_]


def words(texts: Sequence[str | None], vocabulary: Vocabulary, longest: int | None) -> UnitRows:
    """Number the words of texts, at most ``longest`` of each; None has none."""
    lists = [units(text)[:longest] if text else [] for text in texts]
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    ids = vocabulary.numbers([unit for row in lists for unit in row])
    return UnitRows(ids, offsets_of(lengths), np.zeros(len(lists), dtype=bool))


def with_tokens(rows: UnitRows, tokens: TokenRows) -> UnitRows:
    """Put the tokens of the rows that have them where their words would be."""
    lengths = np.diff(tokens.offsets)
    if len(tokens.rows) == len(rows.is_token) and tokens.named.all():
        return UnitRows(tokens.ids, tokens.offsets, np.ones(len(lengths), dtype=bool))
    sizes = np.diff(rows.offsets)
    is_token = rows.is_token.copy()
    is_token[tokens.rows[tokens.named]] = True
    own = np.repeat(~is_token, sizes)
    sizes[tokens.rows[tokens.named]] = lengths[tokens.named]
    offsets = offsets_of(sizes)
    ids = np.zeros(int(offsets[-1]), dtype=np.int32)
    inside = np.repeat(is_token, sizes)
    ids[inside] = tokens.ids[np.repeat(tokens.named, lengths)]
    ids[~inside] = rows.ids[own]
    return UnitRows(ids, offsets, is_token)


def some(rows: UnitRows, chosen: Ints, longest: int) -> UnitRows:
    """Return some of the rows, at most ``longest`` units of each."""
    lengths = np.minimum(np.diff(rows.offsets)[chosen], longest)
    offsets = offsets_of(lengths)
    places = np.arange(int(offsets[-1])) + np.repeat(
        rows.offsets[:-1][chosen] - offsets[:-1], lengths
    )
    return UnitRows(rows.ids[places], offsets, rows.is_token[chosen])
