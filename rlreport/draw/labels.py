"""Names, texts and numbers as charts write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlreport.draw.axes import LEAST, MOST
from rlreport.figures.ragged import Floats
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import Message
from rlreport.text.numbers import written

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
LONGEST_NAME = 80
"""Names become names of files."""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of letters, digits and ``_``, with a number where they would be the same.

    Vega reads ``.``, ``[]`` and quotes in a field name as a path and draws nothing. Upper and
    lower case are the same, as they are in the file systems of Windows and macOS.
    """
    taken: set[str] = set()
    result = []
    for name in names:
        base = candidate = _UNSAFE.sub("_", name).strip("_")[:LONGEST_NAME] or "unnamed"
        number = 2
        while candidate.lower() in taken:
            candidate = f"{base}_{number}"
            number += 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def label(text: str, longest: int = 40) -> str:
    """Return a text of the log as one printable line, cut; a message as it is."""
    if isinstance(text, Message):
        return text
    return shortened(printable(" ".join(text.split())), longest)


def figure(value: float, percent: bool = False) -> str:
    """Return three significant digits; a share as a percentage."""
    return written(value, "share" if percent else "number")


def finite_or_none(value: float, digits: int = 6) -> float | None:
    """Return the value as data of a chart: ``digits`` significant, None for NaN and infinities.

    JSON has neither; magnitudes that cannot be drawn are drawn at the edge and as 0.
    """
    if not math.isfinite(value):
        return None
    if abs(value) < LEAST:
        return 0.0
    return float(f"{max(-MOST, min(MOST, value)):.{digits}g}")


def records(columns: Mapping[str, Floats | Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a chart's data: floats as ``finite_or_none``, lists as they are."""
    values = [
        map(finite_or_none, column.tolist()) if isinstance(column, np.ndarray) else column
        for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
