"""Numbers in the words of titles: short, with the precision they mean."""

from __future__ import annotations

import math


def figure(value: float) -> str:
    """Return the number with three significant digits, without an exponent where it reads well."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share as whole per cent, with a decimal where it is below one per cent."""
    if not math.isfinite(share):
        return "–"
    return (
        f"{share:.1%}".replace("%", " %") if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")
    )


def count(number: int, noun: str) -> str:
    """Return "1 step" or "3 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def repr_text(text: str) -> str:
    """Return a text in quotes on one line."""
    return "“" + " ".join(text.split()) + "”"
