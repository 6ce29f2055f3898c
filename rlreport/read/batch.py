"""Rows on their way from JSON to numbers: scalars in tuples, token arrays as raw buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rlreport.fields import TOKEN_ARRAYS
from rlreport.read.marks import Marks

NAN = float("nan")


class Row(NamedTuple):
    """The scalars of one row; texts already reduced to hashes and lengths."""

    line: int
    offset: int
    length: int
    sub: int
    step: int
    prompt_hash: int
    prompt_chars: int
    group_hash: int
    reward: float
    ref_reward: float
    valid_reward: float
    ref_valid_reward: float
    response_hash: int
    response_chars: int
    ref_response_chars: float
    finish: float
    nan_values: int


class RawTokens(NamedTuple):
    """The token strings of a row as raw JSON: ``text`` is an array of so many strings."""

    text: bytes
    strings: int


@dataclass(slots=True)
class TokenFields:
    """The token strings and arrays of one row.

    Attributes:
        tokens: the strings, as raw JSON or a list, or None.
        buffers: field of TOKEN_ARRAYS -> bytes of its float64 values.
        size: tokens of the shortest of them all, -1 where the row has none.
        uneven: they are not of the same length.
    """

    tokens: RawTokens | Sequence[str] | None = None
    buffers: dict[str, memoryview] = field(default_factory=dict)
    size: int = -1
    uneven: bool = False

    def fit(self, size: int) -> None:
        """Take in an array of this size."""
        if self.size < 0:
            self.size = size
        elif size != self.size:
            self.uneven = True
            self.size = min(self.size, size)


@dataclass(slots=True)
class Batch:
    """Many rows, field by field; the lists are as long as there are rows, unless said.

    Attributes:
        rows: scalars.
        lengths: tokens of the row after cutting to the shortest array, -1 without any.
        token_rows: numbers of the rows that have token arrays; the next two align with it.
        tokens: token strings: None, a list, or raw JSON.
        arrays: field of TOKEN_ARRAYS to bytes of float64, or None.
        texts: cleaned response where a row has no tokens (its words count then), else None.
        references: cleaned reference response, or None.
        extras: name -> [(row, number or string)], for further scalars.
        reward_parts: names of extras that are parts of the reward.
        fields: canonical field -> rows that carried it, for those that leave no other trace.
        marks: what was repaired or odd.
    """

    rows: list[Row] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    token_rows: list[int] = field(default_factory=list)
    tokens: list[RawTokens | Sequence[str] | None] = field(default_factory=list)
    arrays: dict[str, list[memoryview | None]] = field(
        default_factory=lambda: {name: [] for name in TOKEN_ARRAYS}
    )
    texts: list[str | None] = field(default_factory=list)
    references: list[str | None] = field(default_factory=list)
    extras: dict[str, list[tuple[int, float | str]]] = field(default_factory=dict)
    reward_parts: set[str] = field(default_factory=set)
    fields: dict[str, int] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)

    @property
    def has_tokens(self) -> bool:
        """Any row has token arrays."""
        return len(self.token_rows) > 0

    def add_tokens(self, own: TokenFields) -> None:
        """Add the token fields of the row that comes next."""
        size = own.size
        self.lengths.append(size)
        if size < 0:
            return
        self.token_rows.append(len(self.rows))
        self.tokens.append(own.tokens)
        buffers = own.buffers
        if own.uneven:
            buffers = {name: buffer[: 8 * size] for name, buffer in buffers.items()}
        for name, column in self.arrays.items():
            column.append(buffers.get(name))

    def add_extra(self, name: str, value: float | str) -> None:
        """Add a further scalar of the row that comes next."""
        column = self.extras.get(name)
        if column is None:
            column = self.extras[name] = []
        column.append((len(self.rows), value))

    def count(self, name: str) -> None:
        """Count a row that carries a field which leaves no other trace."""
        self.fields[name] = self.fields.get(name, 0) + 1


def carried(batch: Batch) -> dict[str, int]:
    """Return how many rows carried each canonical field with a value, numbers left out."""
    counts = dict.fromkeys(("step", "prompt", "response"), len(batch.rows))
    counts |= batch.fields
    columns: dict[str, Sequence[object]] = {
        "ref_response": batch.references,
        "response_tokens": batch.tokens,
        **batch.arrays,
    }
    for name, column in columns.items():
        counts[name] = sum(value is not None for value in column)
    return {name: count for name, count in counts.items() if count}
