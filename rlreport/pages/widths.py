"""Widths of the columns of a list of responses, which are fixed: they fit what most cells hold.

A width is a class of ``static/style.css``, named by its characters: ``ch-16``. The usual width of a
column of numbers, and that of a column of long texts, have no class.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

CHARACTERS = (10, 12, 16, 20, 26, 32)
USUAL = 9  # Characters of the usual column of numbers
LABEL_LINES = 3  # Maximum lines of a label
FITTING = 0.9  # Share of a column's texts that fit a line

# Width of columns of short strings, such as how a response ended, which may be of any length
SHORT_STRINGS = "ch-16"

_BREAKS = re.compile(r"(?<=[_./:\-])|\s+")


def label_width(label: str) -> str:
    """Return the width for a label, which breaks between words and after "_", ".", "/", ":"."""
    longest = max(map(_characters, _BREAKS.split(label)))
    need = max(longest, math.ceil(_characters(label) / LABEL_LINES))
    if need <= USUAL:
        return ""
    return _width(min(need, CHARACTERS[3]))


def text_width(label: str, texts: Iterable[str]) -> str:
    """Return the width of a column of texts, "" for that of long ones."""
    lengths = sorted(map(_characters, texts))
    fitting = lengths[math.ceil(FITTING * len(lengths)) - 1] if lengths else 0
    return _width(max(fitting, _characters(label)))


def _width(characters: int) -> str:
    for size in CHARACTERS:
        if size >= characters:
            return f"ch-{size}"
    return ""


def _characters(text: str) -> int:
    """Return the width of a text in characters, of which Chinese ones count twice."""
    # Longer texts have the largest width anyway.
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text[: CHARACTERS[-1] + 1]
    )
