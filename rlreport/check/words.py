"""Messages and the numbers in them: short, with the precision they mean.

Every sentence is one literal with named places, passed through ``message`` (or marked with
``marked`` where it is filled later), so that another language is a gettext catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, ClassVar

from rlreport.check.finding import Facts
from rlreport.text.numbers import MISSING, written


def message(literal: str, **places: object) -> str:
    """Return the message with its places filled; places hold finished text."""
    return literal.format(**places)


def told(literal: str, facts: Facts) -> str:
    """Return the message with its places filled from facts: ``{share:percent} of responses``.

    How a fact is written stands behind the colon: figure, percent, count, quoted; a list of
    texts is quoted one by one. A fact that is absent is "–".
    """
    return _FACTS.vformat(literal, (), facts)


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


class _FactFormatter(Formatter):
    WRITTEN: ClassVar[dict[str, Callable[[object], str]]] = {
        "": str,
        "figure": figure,
        "percent": percent,
        "count": whole,
        "quoted": quoted,
    }

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return MISSING
        if isinstance(value, tuple):
            return listed([self.format_field(part, format_spec) for part in value])
        return self.WRITTEN[format_spec](value)


_FACTS = _FactFormatter()
