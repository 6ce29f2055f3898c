"""Logged values as numbers, texts and steps, whatever JSON writer they went through."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from rlreport.fields import CANONICAL
from rlreport.formats.base import Row, RowError, Where
from rlreport.formats.taken import Watched, take
from rlreport.sidefiles import load_json
from rlreport.text.messages import message

SHORT = 200
"""Characters; a longer string is text, not a column."""

_NAN = math.nan
_WORDS = {"true": True, "false": False, "nan": _NAN, "inf": math.inf, "-inf": -math.inf}
# Written with a point or an exponent: "0.5" came from a float, "4" may be an answer.
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
_TENSOR = re.compile(r"(?:tensor|array|np\.float\d*|np\.bool_?|np\.int\d*)\((.*?)(?:, \w+=.*)?\)")


def parse_number(value: object) -> float:
    """Return ``value`` as a float: NaN for null, 0 or 1 for booleans, strings parsed.

    Raises:
        RowError: when it is no number at all.
    """
    if isinstance(value, float):
        return value
    if value is None:
        return _NAN
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return _NAN
    if isinstance(value, str):
        plain = unstringed(value)
        if isinstance(plain, str):
            try:
                return _NAN if plain.strip().lower() in ("", "none", "null") else float(plain)
            except ValueError:
                raise RowError(
                    message("{value} stands where a number belongs", value=repr(plain[:40]))
                ) from None
        return float(plain)
    if isinstance(value, list) and len(value) == 1:
        return parse_number(value[0])
    raise RowError(message("a {type} stands where a number belongs", type=type(value).__name__))


def grade(value: object) -> float | None:
    """Return a reward; None where the log has null, as a response has that nobody graded."""
    absent = isinstance(value, str) and value.strip().lower() in ("", "none", "null")
    return None if value is None or absent else parse_number(value)


def required(obj: Mapping[str, Any], key: str) -> float | None:
    """Return the reward under ``key``.

    Raises:
        RowError: the key is absent, or holds no number.
    """
    if key not in obj:
        raise RowError(message("no {field}", field=f"`{key}`"))
    return grade(obj[key])


def numbers(value: object) -> list[float] | None:
    """Return a list of floats, or None when ``value`` is no list (null, absent)."""
    return [parse_number(item) for item in value] if isinstance(value, list) else None


def unstringed(value: str) -> str | bool | float:
    """Undo ``json.dumps(..., default=str)``: "True" and "0.5" back to what they were.

    A string of digits alone stays a string: it may be an answer.
    """
    word = _WORDS.get(value.strip().lower()) if len(value) <= 5 else None
    if word is not None:
        return word
    if len(value) > 48:
        return value
    wrapped = _TENSOR.fullmatch(value)
    inner = wrapped[1] if wrapped else value
    if inner in ("True", "False"):
        return inner == "True"
    if _FLOAT.fullmatch(inner) or (wrapped and re.fullmatch(r"[-+]?\d+", inner)):
        return float(inner)
    return value


def text(value: object) -> str:
    """Return ``value`` as text: strings as they are, null as "", the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)


def present(**fields: object) -> Row:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def text_if_any(value: object) -> str | None:
    """Return ``value`` as text, None for null."""
    return None if value is None else text(value)


def string(value: object) -> str | None:
    """Return ``value`` where it is a string, else None."""
    return value if isinstance(value, str) else None


def real(value: object) -> float | None:
    """Return ``value`` as a float where it is a number, else None."""
    return float(value) if isinstance(value, int | float) else None


def version_range(first: int | None, last: int | None) -> int | list[int] | None:
    """Return the policy's version that sampled, or the first and the last one."""
    if first is None or last is None:
        return None
    return first if first == last else [first, last]


def from_json(value: Any) -> Any:
    """Return the JSON in a string, None where it is none; what is no string as it is."""
    if not isinstance(value, str):
        return value
    try:
        return load_json(value.encode())
    except ValueError:
        return None


def json_object(data: bytes | str) -> Row:
    """Return the object in some JSON; {} for all else, as the torn last line of a growing log."""
    try:
        return mapping(load_json(data.encode() if isinstance(data, str) else data))
    except ValueError:
        return {}


def encoded(value: object) -> bytes:
    """Return bytes that are equal for equal values, to be hashed."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # lone surrogates, integers beyond 64 bits
        return repr(value).encode("utf-8", "surrogatepass")


def ints(value: object) -> list[int] | None:
    """Return a list of token ids, or None when ``value`` is no list of whole numbers."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return None
    return value


def dicts(value: object) -> list[Row]:
    """Return the objects of a list; [] when ``value`` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def integer(value: object) -> int | None:
    """Return ``value`` as a whole number where it is one (``"12"``, ``12.0``), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,18}\s*", value):
        return int(value)
    return None


def step_of(value: object, where: Where, pattern: re.Pattern[str] | None = None) -> int:
    """Return the step a row says, else the one its path says.

    Raises:
        RowError: when neither says one.
    """
    step = integer(value)
    if step is None and pattern is not None:
        step = step_in_path(where.name, pattern)
    if step is None:
        raise RowError(message("no step, neither in the row nor in the path"))
    return step


def step_in_path(name: str, pattern: re.Pattern[str]) -> int | None:
    """Return the number of ``pattern``'s group ``step`` (else its first) in the path."""
    found = pattern.search(name)
    if found is None:
        return None
    groups = found.groupdict()
    return integer(groups.get("step") or next((group for group in found.groups() if group), None))


def columns(obj: Mapping[str, Any], used: Collection[str]) -> Row:
    """Return the further numbers, booleans and short strings of ``obj``, stringified ones mended.

    ``used`` holds the keys that are already mapped, or are text. A key that is a canonical
    field's name and means another thing here becomes ``<key>_logged``.
    """
    found: Row = {}
    for key, value in obj.items():
        if key not in used and is_scalar(value):
            take(obj, key)
            name = f"{key}_logged" if key in CANONICAL else key
            found[name] = unstringed(value) if isinstance(value, str) else value
    return found


def mapping(value: object) -> Row:
    """Return ``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def is_kept(name: str, value: object) -> bool:
    """Tell whether a row keeps it: a canonical field, or a column (a null is one that is empty)."""
    return name in CANONICAL or is_scalar(value)


def is_scalar(value: object) -> bool:
    """Tell whether ``value`` can stand in a column: a number, a boolean, a short string."""
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= SHORT)


def total(parts: Iterable[float]) -> float | None:
    """Return the sum of the parts that are numbers; None when none is."""
    known = [part for part in parts if not math.isnan(part)]
    return math.fsum(known) if known else None


def pick(values: Sequence[Any] | None, mask: Sequence[Any]) -> list[Any] | None:
    """Return the values whose mask is true, as far as both reach."""
    if values is None:
        return None
    return [value for value, keep in zip(values, mask, strict=False) if keep]


def explode(obj: Row, key: str) -> Iterator[Row]:
    """Yield one dict per entry of column ``key``; values that are no column repeat in each.

    Raises:
        RowError: when ``key`` is no list, or a column has another length than it.
    """
    column = obj.get(key)
    if not isinstance(column, list):
        raise RowError(message("{field} is no column", field=f"`{key}`"))
    size = len(column)
    for name, values in obj.items():
        if isinstance(values, list) and len(values) != size:
            raise RowError(
                message(
                    "column {field} has {values} values, {other} has {size}",
                    field=f"`{name}`",
                    values=len(values),
                    other=f"`{key}`",
                    size=size,
                )
            )
    for i in range(size):
        entry = {
            name: values[i] if isinstance(values, list) else values for name, values in obj.items()
        }
        yield obj.entry(entry) if isinstance(obj, Watched) else entry
