"""Read what fast parsers refuse: odd JSON, and values of the wrong type that mean something."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

LARGEST_STEP = 2**53


class RowError(Exception):
    """A row that cannot be used; the message is the reason shown to the user."""


def load_object(line: bytes) -> tuple[dict[str, Any], bool]:
    """Parse a line that should hold one JSON object.

    Returns:
        the object, and whether only the lenient parser of the standard library took it (NaN,
        Infinity, lone surrogates, integers beyond 64 bits).

    Raises:
        RowError: it is no JSON object.
    """
    lenient = False
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _load_lenient(line)
        lenient = True
    if not isinstance(value, dict):
        raise RowError(f"not an object but {_kind(value)}")
    return value, lenient


def _load_lenient(line: bytes) -> object:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"not valid UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise RowError("holds NUL bytes")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RowError(f"not valid JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise RowError(f"not valid JSON: {error}") from None


def step_of(value: object) -> tuple[int, bool]:
    """Return a training step, and whether it was logged as something else than an integer.

    Raises:
        RowError: it is no integer, or one that no float64 holds exactly.
    """
    step: int
    coerced = not isinstance(value, int)
    if isinstance(value, bool) or value is None:
        raise RowError(f"step is {json.dumps(value)}")
    if isinstance(value, int):
        step = value
    elif isinstance(value, float) and value.is_integer():
        step = int(value)
    elif isinstance(value, str):
        try:
            step = int(value)
        except ValueError:
            raise RowError(f"step is not an integer: {_shown(value)}") from None
    else:
        raise RowError(f"step is not an integer: {_shown(value)}")
    if abs(step) > LARGEST_STEP:
        raise RowError("step is beyond ±2^53")
    return step, coerced


def number_of(value: object) -> tuple[float, bool]:
    """Return a number (NaN for null and what overflows), and whether it was logged as text.

    Raises:
        ValueError: it is no number at all.
    """
    if value is None:
        return math.nan, False
    if isinstance(value, (bool, int, float)):
        try:
            return float(value), False
        except OverflowError:
            return math.nan, False
    if isinstance(value, str):
        if value in ("True", "true", "False", "false"):
            return float(value in ("True", "true")), True
        return float(value), True
    raise ValueError(_kind(value))


def floats_of(values: object) -> tuple[NDArray[np.float64], bool]:
    """Return a list of numbers as float64 (T,), and whether text or booleans stood among them.

    A list of lists that holds as many numbers as lists, such as one of one number each, is
    taken for a flat one.

    Raises:
        ValueError: it is no list of numbers.
    """
    if not isinstance(values, list):
        raise ValueError(_kind(values))
    if set(map(type, values)) <= {float}:
        return np.array(values, dtype=np.float64), False
    flat = values
    if any(isinstance(value, list) for value in values):
        flat = list(_flattened(values))
        if len(flat) != len(values):
            raise ValueError("a list of lists")
    odd = any(isinstance(value, (str, bool)) for value in flat)
    return np.array([number_of(value)[0] for value in flat], dtype=np.float64), odd


def _flattened(values: list[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        else:
            yield value


def text_of(value: object, name: str) -> str:
    """Return a text.

    Raises:
        RowError: it is something else.
    """
    if not isinstance(value, str):
        raise RowError(f"{name} is not text but {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = {dict: "an object", list: "a list", str: "text", int: "a number", float: "a number"}
    return kinds.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
