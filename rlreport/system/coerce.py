"""Convert logged values to a type; most functions return None for a value of another type.

``number``, ``numbers`` and ``grade`` raise RowError instead, so that wrong rewards are reported.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from rlreport.errors import RowError
from rlreport.text.messages import message

_NULLS = ("", "none", "null")
_WORDS = {
    "true": True,
    "false": False,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
}
_LONGEST_WORD = 5  # characters
# characters of a number in quotes, such as "tensor(0.5, device='cuda:0')"
_LONGEST_QUOTED = 48
# Only with a point or an exponent: "0.5" was a float before it was logged, "4" may be an answer.
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
_TENSOR = re.compile(
    r"(?:tensor|array|np\.float\d*|np\.bool_?|np\.int\d*)\((.*?)(?:, \w+=.*)?\)"
)
_WHOLE = re.compile(r"\s*[-+]?\d{1,18}\s*")


def number(value: object) -> float:
    """Return a number, a text of one, or the only item of a list, as a float.

    Null, the texts ``none`` and ``null``, and "" are NaN. Raise RowError for any other value.
    """
    if type(value) is float:  # as most are
        return value
    if value is None:
        return math.nan
    if isinstance(value, Decimal):  # of Parquet
        value = float(value)
    if isinstance(value, (int, float)):
        converted = real(value)
        # None: an integer beyond float64
        return math.nan if converted is None else converted
    if isinstance(value, list) and len(value) == 1:
        return number(value[0])
    if isinstance(value, str):
        plain = unquoted(value)
        try:
            return math.nan if is_null(plain) else float(plain)
        except ValueError:
            raise RowError(
                message("expected a number, found {value}", value=repr(value[:40]))
            ) from None
    kind = message("a list") if isinstance(value, list) else message("an object")
    raise RowError(message("expected a number, found {value}", value=kind))


def is_null(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NULLS)


def grade(value: object) -> float | None:
    """Return a reward as by ``number``, but None for null (the response was not graded)."""
    return None if is_null(value) else number(value)


def unquoted(value: str) -> str | bool | float:
    """Convert a string such as "True" or "tensor(0.5)", which trainers log, to a bool or float.

    Other strings are returned unchanged, including those of digits only, which may be answers.
    """
    if len(value) > _LONGEST_QUOTED:
        return value
    if len(value) <= _LONGEST_WORD:
        word = _WORDS.get(value.strip().lower())
        if word is not None:
            return word
    tensor = _TENSOR.fullmatch(value)
    inner = tensor[1] if tensor else value  # what stands in its parentheses
    if inner in ("True", "False"):
        return inner == "True"
    # Digits in "tensor(4)" are a number, but "4" may be an answer.
    if _FLOAT.fullmatch(inner) or (tensor and re.fullmatch(r"[-+]?\d+", inner)):
        return float(inner)
    return value


def real(value: object) -> float | None:
    """Return a number as a float; None for another value, or an integer beyond float64."""
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None


def integer(value: object) -> int | None:
    """Return a whole number, also ``"12"`` or ``12.0``, as an int; None for another value."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    return int(value) if isinstance(value, float) and value.is_integer() else None


def text(value: object) -> str:
    """Return a string unchanged, null as "", any other value as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def text_if_any(value: object) -> str | None:
    """Return a value as by ``text``, None for null and empty texts."""
    return None if value is None else text(value) or None


def string(value: object) -> str | None:
    """Return a string unchanged, None for another value."""
    return value if isinstance(value, str) else None


def reals(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are numbers, as floats."""
    converted = {key: real(values[key]) for key in values}
    return {key: value for key, value in converted.items() if value is not None}


def numbers(value: object) -> list[float] | None:
    """Return the items of a list as floats, each as by ``number``; None if it is no list.

    Raise RowError if an item is no number.
    """
    if not isinstance(value, list):
        return None
    try:
        return array("d", value).tolist()  # several times faster than one by one
    except (TypeError, OverflowError):  # an item is not an int or a float
        return list(map(number, value))


def ints(value: object) -> list[int] | None:
    """Return a list of integers unchanged, None for another value."""
    if isinstance(value, list) and {int}.issuperset(map(type, value)):
        return value
    return None


def version_range(versions: Iterable[object] | None) -> int | list[int] | None:
    """Return the policy version of a rollout, or [lowest, highest] if it changed meanwhile.

    ``versions`` are logged for parts of the rollout. Values that are no whole numbers are ignored;
    without any other, None is returned.
    """
    integers = [integer(version) for version in versions or ()]
    logged = [version for version in integers if version is not None]
    if not logged:
        return None
    lowest = min(logged)
    highest = max(logged)
    return lowest if lowest == highest else [lowest, highest]
