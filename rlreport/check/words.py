"""Messages and the numbers in them: short, with the precision they mean.

Every sentence is one literal with named places, passed through ``message`` (or marked with
``marked`` where it is filled later), so that another language is a gettext catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlreport.text.numbers import MISSING, written


def message(literal: str, **places: object) -> str:
    """Return the message with its places filled; places hold finished text."""
    return literal.format(**places)


def marked(literal: str) -> str:
    """Mark a literal as a message that is passed on later."""
    return literal


def figure(value: object) -> str:
    """Return the number as pages write it: three significant digits."""
    return written(float(value)) if isinstance(value, int | float) else MISSING


def percent(share: object) -> str:
    """Return a share as whole per cent, with more digits where it is below one per cent."""
    if not isinstance(share, int | float) or not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < 0.01:
        return written(share, "share")
    return f"{written(100 * share, 'count')} %"


def whole(number: object) -> str:
    """Return a count with thousands separated."""
    return written(float(number), "count") if isinstance(number, int | float) else MISSING


def quoted(text: object) -> str:
    """Return a text in quotes on one line."""
    return "“" + " ".join(str(text).split()) + "”"


def listed(items: Sequence[str]) -> str:
    """Return items as a list in a sentence."""
    return ", ".join(items)


def span(steps: object) -> str:
    """Return the first and last step of a window as "steps 48–59"."""
    if not isinstance(steps, tuple):
        return MISSING
    low, high = steps
    if low == high:
        return message("step {step}", step=low)
    return message("steps {low}–{high}", low=low, high=high)
