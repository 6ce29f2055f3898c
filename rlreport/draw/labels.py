"""Names and numbers as charts write them: safe field names, clean labels, short figures."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rlreport.draw.extent import LEAST, MOST
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import Message
from rlreport.text.numbers import written

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
LONGEST_NAME = 80
"""Names become names of files."""


def safe_name(name: str) -> str:
    """Makes a field or chart name of letters, digits and ``_``.

    Vega reads ``.``, ``[]`` and quotes in a field name as a path and draws nothing.
    """
    return _UNSAFE.sub("_", name).strip("_")[:LONGEST_NAME] or "unnamed"


def unique_names(names: Sequence[str]) -> list[str]:
    """Safe names, one for each of ``names``, with a number where they would collide.

    Upper and lower case collide, as they do in the file systems of Windows and macOS.
    """
    taken: set[str] = set()
    result = []
    for name in names:
        base = candidate = safe_name(name)
        number = 2
        while candidate.lower() in taken:
            candidate = f"{base}_{number}"
            number += 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def label(text: str, longest: int = 40) -> str:
    """Text from a log as a chart may show it: one line, printable, cut; ours as it is."""
    if isinstance(text, Message):
        return text
    return shortened(printable(" ".join(text.split())), longest)


def figure(value: float, percent: bool = False) -> str:
    """Three significant digits; a share as a percentage."""
    return written(value, "share" if percent else "number")


def finite_or_none(value: float, digits: int = 6) -> float | None:
    """The value as data of a chart: ``digits`` significant, None for NaN and infinities.

    JSON has neither; magnitudes that cannot be drawn are drawn at the edge and as 0.
    """
    if not math.isfinite(value):
        return None
    if abs(value) < LEAST:
        return 0.0
    return float(f"{max(-MOST, min(MOST, value)):.{digits}g}")
