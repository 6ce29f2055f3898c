"""Move results of functions by one unit in the last place, as another processor may.

Which results of ``exp``, ``log``, … are off by one such unit depends on the vector instructions
that NumPy uses, and on the C library. IEEE 754 demands exact rounding of sums, products, quotients
and square roots only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

OF_NUMPY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "power",
    "float_power",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "hypot",
    "logaddexp",
    "sin",
    "tanh",
)
OF_MATH = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "erf",
    "erfc",
    "hypot",
    "lgamma",
    "sin",
    "tanh",
)
WAYS = ("odd", "even")
"""The results that move up: those whose bits have an odd, or an even, number of ones at the end."""

_INTEGERS = {2: np.int16, 4: np.int32, 8: np.int64}


def move(way: str) -> None:
    """Replace the functions in this process, before anything else imports them by name."""
    for name in OF_NUMPY:
        setattr(np, name, _Moved(getattr(np, name), way))
    for name in OF_MATH:
        if hasattr(math, name):  # exp2 and cbrt: from Python 3.11 on
            setattr(math, name, _of_numbers(getattr(math, name), way))


class _Moved:
    """A ufunc with moved results; its other attributes, such as ``reduce``, are as before."""

    def __init__(self, ufunc: np.ufunc, way: str) -> None:
        self._ufunc = ufunc
        self._way = way

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)

    def __call__(self, *args: Any, out: Any = None, **options: Any) -> Any:
        result = self._ufunc(*args, **options)
        if isinstance(result, pd.Series):
            result = pd.Series(
                moved(result.to_numpy(), self._way), result.index, name=result.name
            )
        else:
            result = moved(result, self._way)
        if out is None:
            return result
        target = out[0] if isinstance(out, tuple) else out
        target[...] = result
        return target


def _of_numbers(function: Callable[..., Any], way: str) -> Callable[..., Any]:
    def of_numbers(*args: Any) -> Any:
        result = function(*args)
        return (
            float(moved(np.float64(result), way))
            if isinstance(result, float)
            else result
        )

    return of_numbers


def moved(values: Any, way: str) -> Any:
    """Return float values one unit in the last place up or down; 0, 1 and infinity stay exact."""
    if getattr(values, "dtype", np.dtype(object)).kind != "f":
        return values
    array = np.atleast_1d(np.asarray(values))
    bits = array.view(_INTEGERS[array.dtype.itemsize])
    ones = (bits ^ (bits >> 1) ^ (bits >> 2) ^ (bits >> 3)) & 1
    up = ones == (way == "odd")
    infinity = array.dtype.type(np.inf)
    towards = np.where(up, infinity, -infinity)
    free = np.isfinite(array) & (array != 0) & (array != 1)
    result = np.where(free, np.nextafter(array, towards), array)
    return result.reshape(np.shape(values))[()]
