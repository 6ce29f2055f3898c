"""Token strings as numbers, which take less memory and are compared faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Ids = NDArray[np.int32]


class Numbers(dict[str, int]):
    """A dict from string to id that assigns ids in the order of first occurrence."""

    def __missing__(self, string: str) -> int:
        self[string] = number = len(self)
        return number

    def of(self, strings: Sequence[str]) -> Ids:
        """Return the ids of strings, (len(strings),)."""
        return np.fromiter(map(self.__getitem__, strings), np.int32, len(strings))

    def known(self, strings: Iterable[str]) -> list[int]:
        """Return the ids of those strings that have one."""
        return [self[string] for string in strings if string in self]

    def renumbered(self, ids: Ids) -> tuple[Ids, list[str]]:
        """Return ids numbered by first occurrence among themselves, and the string of each."""
        new_ids, used = pd.factorize(ids)
        strings = list(self)
        return new_ids.astype(np.int32), [strings[number] for number in used.tolist()]
