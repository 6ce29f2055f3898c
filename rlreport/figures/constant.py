"""Columns whose values are all equal, such as NaN or 0 in every row, in the memory of one value.

Such a column is a NumPy array with a stride of 0: a read-only view of its only value, which is
used like any other array. A third of the columns of a usual log are of this kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_FEW = 32

Selection = NDArray[np.bool_] | NDArray[np.int64]


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values, (N,); if all are equal, as an array that takes the memory of one.

    Values are compared by their bits: 0 and −0 differ, NaN equals itself.
    """
    if len(values) < 2 or values.dtype.hasobject or is_constant(values):
        return values
    bits = values.view(f"u{values.itemsize}")
    # Most columns that are not constant differ at both ends.
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return values
    return np.broadcast_to(values[0].copy(), values.shape)


def compact_if_long(values: NDArray[Any]) -> NDArray[Any]:
    """Return ``compact(values)``; few values as they are, for they take less than their array.

    Of many small files, each has its columns, and to compare their values takes most of the time.
    """
    return values if len(values) < _FEW else compact(values)


def is_constant(values: NDArray[Any]) -> bool:
    """Return whether ``compact`` found all values, (N,), to be equal."""
    return len(values) > 1 and values.strides == (0,)


def take(values: NDArray[Any], selection: Selection) -> NDArray[Any]:
    """Return the selected values, (N,): a mask, or indices; constant ones stay so."""
    if not is_constant(values):
        return values[selection]
    is_mask = selection.dtype == np.bool_
    count = int(np.count_nonzero(selection)) if is_mask else len(selection)
    return np.broadcast_to(values[0], count)


def take_rows(table: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """Return the selected rows of a table, numbered from 0; constant columns stay so."""
    columns = {
        name: take(column.to_numpy(), selection) for name, column in table.items()
    }
    return pd.DataFrame(columns, copy=False)
