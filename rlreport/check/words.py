"""Messages and the numbers in them: short, with the precision they mean.

Every sentence is one literal with named places, passed through ``message`` (or marked with
``marked`` where it is filled later), so that another language is a gettext catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def message(literal: str, **places: object) -> str:
    """Return the message with its places filled; places hold finished text."""
    return literal.format(**places)


def marked(literal: str) -> str:
    """Mark a literal as a message that is passed on later."""
    return literal


def figure(value: object) -> str:
    """Return the number with three significant digits, without an exponent where it reads well."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def percent(share: object) -> str:
    """Return a share as whole per cent, with a decimal where it is below one per cent."""
    if not isinstance(share, int | float) or not math.isfinite(share):
        return "–"
    text = f"{share:.1%}" if 0 < share < 0.01 else f"{share:.0%}"
    return text.replace("%", " %").replace("-", "−")


def whole(number: object) -> str:
    """Return a count with thousands separated."""
    return f"{number:,}"


def quoted(text: object) -> str:
    """Return a text in quotes on one line."""
    return "“" + " ".join(str(text).split()) + "”"


def listed(items: Sequence[str]) -> str:
    """Return items as a list in a sentence."""
    return ", ".join(items)


def span(steps: tuple[int, int]) -> str:
    """Return the steps of a window: "steps 48–59"."""
    low, high = steps
    if low == high:
        return message("step {step}", step=low)
    return message("steps {low}–{high}", low=low, high=high)
