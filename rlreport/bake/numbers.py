"""Numbers as pages show them: counts, shares and changes, each with its exact value."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rlreport.bake.views import Change, Num
from rlreport.text.numbers import MINUS, MISSING, significant


def whole(value: float) -> str:
    """Writes a count: no decimals, thousands separated."""
    return MISSING if math.isnan(value) else f"{value:,.0f}".replace("-", MINUS)


def percent(value: float) -> str:
    """Writes a share as a percentage with at most one decimal."""
    if math.isnan(value):
        return MISSING
    shown = 100 * value
    decimals = 0 if shown in (0.0, 100.0) or abs(shown) >= 99.95 else 1
    return f"{shown:.{decimals}f} %".replace("-", MINUS)


def exact(value: float) -> str:
    """The value itself, as short as repr() makes it."""
    if math.isnan(value):
        return "not a number or not logged"
    value = float(value)
    # Beyond, a float no longer tells whole numbers apart.
    return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


_WRITTEN = {"": significant, "count": whole, "share": percent}
"""How numbers of each kind are written."""


def number(value: float | None, kind: str = "", why_missing: str = "not in the log") -> Num:
    """Makes a shown number; ``kind`` is "", "count" or "share"."""
    if value is None or math.isnan(value):
        return Num(MISSING, why_missing, None)
    value = float(value)
    return Num(_WRITTEN[kind](value), exact(value), value)


def change(now: float, then: float, since: str, kind: str = "") -> Change | None:
    """The change from ``then`` to ``now``, or None when either is missing."""
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    text = _WRITTEN[kind](delta)
    flat = not any(c in "123456789∞" for c in text.split("e")[0])
    direction = "flat" if flat else ("up" if delta > 0 else "down")
    words = {"flat": "unchanged", "up": "up", "down": "down"}[direction]
    shown = "±0" if flat else (f"+{text}" if delta > 0 else text)
    size = "" if flat else f" by {text.lstrip(MINUS)}"
    return Change(since, Num(shown, exact(delta), delta), direction, f"{words}{size} since {since}")


def size(count: float) -> str:
    """Bytes in words: "1.4 MB" (decimal units, as ``--max-size`` counts)."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def steps_in_words(steps: Iterable[int]) -> str:
    """Steps as short text: "3, 5 and 8" or "3–40 (12 steps)"."""
    listed = sorted(steps)
    if len(listed) > 4:
        return f"{listed[0]}–{listed[-1]} ({len(listed)} steps)"
    if len(listed) < 2:
        return ", ".join(map(str, listed))
    return ", ".join(map(str, listed[:-1])) + f" and {listed[-1]}"
