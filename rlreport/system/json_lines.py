"""Write rows with Python values of any kind, such as arrays and dates, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import attrgetter
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from rlreport.errors import UsageError

# So that both encoders below ask ``_plain`` for the same values
_OPTIONS = (
    orjson.OPT_NON_STR_KEYS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_APPEND_NEWLINE
)
# Methods that convert a value to plain ones: of arrays and tensors, of Polars, of Arrow
_CONVERSIONS = ("tolist", "to_list", "as_py")


def json_line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of JSON, in which NaN and infinity are numbers as Python writes them.

    A value of a kind that JSON has no form for becomes an object with the name of its class, which
    readers report as an unrecognized field.

    Raises:
        UsageError: the values are nested too deeply, or contain themselves.
    """
    with suppress(TypeError):  # lone surrogates, integers beyond 64 bits, deep nesting
        line = orjson.dumps(row, default=_plain, option=_OPTIONS)
        # orjson writes null for NaN, too, which is another value.
        if b"null" not in line:
            return line
    try:
        return json.dumps(_with_text_keys(row), default=_plain).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"values cannot be written as JSON: {error}") from None


def _with_text_keys(value: Any) -> Any:
    """Return a value with all keys of dicts as texts, as ``json`` refuses others."""
    if isinstance(value, dict):
        return {column_name(key): _with_text_keys(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        # Long lists of numbers have no keys, and are not copied.
        has_nested = any(isinstance(one, dict | list | tuple) for one in value)
        return [*map(_with_text_keys, value)] if has_nested else value
    return value


def column_name(key: object) -> str:
    """Return the name of a column as text; the levels of a tuple are joined by slashes."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bytes):
        return key.decode(errors="replace")
    if isinstance(key, tuple):
        return "/".join(name for name in map(column_name, key) if name)
    return str(key)


def is_missing(value: object) -> bool:
    """Return whether a cell of a data frame is empty: None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # comparing a signalling NaN is an error
    is_number = isinstance(value, float | np.floating)
    return is_number and bool(value != value)


def _plain(value: Any) -> Any:
    """Return a value as one that JSON has, or that ``_plain`` is called with again."""
    if is_missing(value):
        return float("nan") if isinstance(value, np.floating | Decimal) else None
    for kind, convert in _BY_KIND.items():
        if isinstance(value, kind):
            return convert(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    for name in _CONVERSIONS:
        if hasattr(type(value), name):
            return getattr(value, name)()
    return _placeholder(value)


def _plain_scalar(value: np.generic) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else float(value / np.timedelta64(1, "s"))
    if isinstance(value, np.floating):  # also those that ``item`` leaves as they are
        return float(value)
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    return _placeholder(value)


def _text(value: bytes | bytearray) -> object:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _placeholder(value)


def _placeholder(value: object) -> dict[str, str]:
    return {"python": type(value).__name__}


# Kind of values -> how they are converted
_BY_KIND: dict[type, Callable[[Any], Any]] = {
    np.generic: _plain_scalar,
    Decimal: float,
    datetime: datetime.isoformat,  # before dates, as a datetime is a date, too
    date: date.isoformat,
    timedelta: timedelta.total_seconds,
    Enum: attrgetter("value"),
    UUID: str,
    PurePath: str,
    Mapping: dict,
    bytes: _text,
    bytearray: _text,
    # Their own order differs from run to run.
    set: partial(sorted, key=repr),
    frozenset: partial(sorted, key=repr),
}


def names_of_columns(keys: Any, of: str) -> list[str]:
    """Return the names of columns as texts; raise UsageError if two are equal.

    ``of`` is what has the columns, for the error.
    """
    names = [column_name(key) for key in keys]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        listed = ", ".join(map(repr, twice[:5]))
        raise UsageError(f"{of}: several columns have the name {listed}; rename them")
    return names
