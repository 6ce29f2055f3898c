"""Times that programs log: seconds or milliseconds since 1970, or dates with a time (ISO 8601)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

# Keys under which rows have the time at which they were logged, most preferred first
TIME_KEYS = (
    "_timestamp",
    "timestamp",
    "time",
    "datetime",
    "date_time",
    "created_at",
    "ts",
    "wall_time",
)

# Times between 2001 and 2065 are recognized by their size: in seconds, in milliseconds, and so on
_FIRST = 1e9
_LAST = 3e9
_UNITS = (1.0, 1e3, 1e6, 1e9)  # values per second
_LONGEST = 40  # characters of a date with a time
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


class Timestamp(NamedTuple):
    """A time; ``is_utc`` is False for a date of an unknown time zone, read as if it were UTC."""

    seconds: float  # since 1970
    is_utc: bool


def timestamp(value: object) -> Timestamp | None:
    """Return the time that a logged value is, None if it is none for certain.

    Numbers are recognized by their size. Texts need a date and a time of day.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    if not _DATE.fullmatch(value):
        try:
            return _of_number(float(value))
        except ValueError:
            return None
    try:
        parsed = datetime.fromisoformat(value)
        is_utc = parsed.tzinfo is not None
        seconds = (parsed if is_utc else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return Timestamp(seconds, is_utc) if _FIRST <= seconds <= _LAST else None


def _of_number(value: float) -> Timestamp | None:
    for unit in _UNITS:
        # An integer beyond float64 is never in the range.
        if _FIRST * unit <= value <= _LAST * unit:
            return Timestamp(value / unit, is_utc=True)
    return None


def timestamp_in(row: Mapping[str, object]) -> Timestamp | None:
    """Return the time at which a row was logged, by the first of TIME_KEYS that has a time."""
    for key in TIME_KEYS:
        found = timestamp(row.get(key))
        if found is not None:
            return found
    return None


def date_text(seconds: float, *, is_utc: bool) -> str:
    """Return a time as a date, such as ``2026-11-02T10:00:00Z``; no Z in an unknown time zone."""
    date = datetime.fromtimestamp(round(seconds), UTC).replace(tzinfo=None)
    return f"{date.isoformat()}Z" if is_utc else date.isoformat()
