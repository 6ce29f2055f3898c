"""What the compiled module offers; each function says in ``_scan.pyx`` what it is a twin of."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_Hashes = NDArray[np.uint64]
_Rewards = tuple[float, float, float, float]
_Values = tuple[int, str, str, _Rewards, str | None, str | int | None, float]

INTERFACE: int
KINDS: dict[str, int]

def finite_sums(flat: _Floats, offsets: _Ints) -> tuple[_Floats, _Floats]: ...
def row_moments(flat: _Floats, offsets: _Ints) -> tuple[_Floats, _Floats, _Floats]: ...
def row_extremes(flat: _Floats, offsets: _Ints) -> tuple[_Floats, _Floats, _Floats]: ...
def gae(rewards: _Floats, values: _Floats, offsets: _Ints, gamma: float, lam: float) -> _Floats: ...
def sum_tokens(
    rows: _Ints,
    offsets: _Ints,
    ids: _Ids,
    kl: _Floats | None,
    ratio: _Floats | None,
    prob: _Floats | None,
    ref_prob: _Floats | None,
    value: _Floats | None,
    returns: _Floats | None,
    common: _Ints,
    rare: _Ints | None,
) -> int: ...
def penalty_sums(x: _Floats, y: _Floats, offsets: _Ints) -> _Floats: ...
def add_positions(
    offsets: _Ints, value: _Floats, returns: _Floats, counts: _Ints, sums: _Ints
) -> None: ...
def distinct_bigrams(ids: _Ids, offsets: _Ints, hashes: _Hashes) -> tuple[_Hashes, _Ints]: ...

class _Numbering(Protocol):
    def numbers(self, strings: list[str]) -> _Ids: ...

class RawTable: ...

class TokenBuffers:
    def append(
        self, row: int, size: int, ids: _Ids | None, columns: Sequence[memoryview | None]
    ) -> None: ...
    def take(
        self,
    ) -> tuple[
        _Ints, _Ints, _Ids, NDArray[np.bool_], list[_Floats | None], _Ints, list[int], int
    ]: ...

class LineParser:
    def __init__(
        self,
        buffers: TokenBuffers,
        table: RawTable,
        vocabulary: _Numbering,
        fields: Sequence[tuple[str, int]],
        finish_reasons: Mapping[str, float],
        longest_extra: int,
    ) -> None: ...
    def read(
        self, data: bytes, start: int, stop: int
    ) -> tuple[_Values, Sequence[tuple[str, float | str]], Sequence[str], bool, bool] | None: ...
    def keep(self, row: int) -> None: ...
