"""Numbers of views: what is shown, the exact value, and changes in words."""

from __future__ import annotations

import math

from rlreport.bake.views import Change, Num
from rlreport.text.numbers import MINUS, MISSING, Kind, exact, written


def number(value: float | None, kind: Kind = "number", why_missing: str = "not in the log") -> Num:
    """Makes a shown number; ``kind`` says how it is written."""
    if value is None or math.isnan(value):
        return Num(MISSING, why_missing, None)
    value = float(value)
    return Num(written(value, kind), exact(value), value)


def change(now: float, then: float, since: str, kind: Kind = "number") -> Change | None:
    """The change from ``then`` to ``now``, or None when either is missing."""
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    text = written(delta, kind)
    flat = not any(c in "123456789∞" for c in text.split("e")[0])
    direction = "flat" if flat else ("up" if delta > 0 else "down")
    words = {"flat": "unchanged", "up": "up", "down": "down"}[direction]
    shown = "±0" if flat else (f"+{text}" if delta > 0 else text)
    size = "" if flat else f" by {text.lstrip(MINUS)}"
    return Change(since, Num(shown, exact(delta), delta), direction, f"{words}{size} since {since}")
