"""Widths of the columns of a list of responses, which are fixed: they fit what most cells hold.

A width is a class of ``static/style.css``, named by its characters: ``ch-16``. The usual width of a
column of numbers, and that of a column of long texts, have no class.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

CHARACTERS = (10, 12, 16, 20, 26, 32)
USUAL = 8  # Characters of a label that the usual column of numbers has room for
MOST_OF_LABEL = 20  # Maximum characters of a line of a label

# Width of columns of short strings, such as how a response ended, which may be of any length
SHORT_STRINGS = "ch-16"

# Of letters, so many times the width of a digit, by which classes are named, is enough
_LETTER = 0.85
_WIDE = frozenset(("W", "F"))  # values of the property of characters that count twice
# All of these characters are among them
_MAYBE_WIDE = re.compile("[\u1100-\U0010ffff]")
_BREAK = re.compile(r"(?<=[_./:\-])|(?<=\s)")


@lru_cache(maxsize=1 << 10)  # all pages of steps have the same labels
def label_width(label: str) -> str:
    """Return the width in which a label has two lines, "" for the usual one of numbers."""
    parts = _BREAK.split(label)
    needs = []
    for place in range(len(parts)):
        first = _characters("".join(parts[:place]))
        second = _characters("".join(parts[place:]))
        needs.append(max(first, second))
    need = min(needs)
    return "" if need <= USUAL else _width(min(need, MOST_OF_LABEL))


def text_width(label: str, texts: Iterable[str]) -> str:
    """Return the width of a column of texts, "" for that of long ones.

    Half of the texts have one line in it, and nine of ten have two.
    """
    lengths = sorted(map(_characters, texts)) or [0]
    usual = lengths[len(lengths) // 2]
    long = lengths[len(lengths) * 9 // 10]
    need = max(usual, math.ceil(long / 2)) * _LETTER
    return _width(max(need, _characters(label)))


def part_width(texts: Iterable[str]) -> str:
    """Return the width that no part of a text exceeds, "" for the usual one of numbers."""
    need = 0
    for text in texts:
        parts = _BREAK.split(text)
        need = max(need, *map(_characters, parts))
    return "" if need <= USUAL else _width(min(need, MOST_OF_LABEL))


def _width(characters: float) -> str:
    for size in CHARACTERS:
        if size >= characters:
            return f"ch-{size}"
    return ""


def _characters(text: str) -> int:
    """Return the width of a text in characters, of which Chinese ones count twice."""
    # Longer texts have the largest width anyway, and the cache must not hold them.
    return _characters_of_short(text.rstrip()[: 4 * CHARACTERS[-1]])


@lru_cache(maxsize=1 << 12)  # the responses to a prompt repeat its text
def _characters_of_short(text: str) -> int:
    widths = map(unicodedata.east_asian_width, _MAYBE_WIDE.findall(text))
    return len(text) + sum(width in _WIDE for width in widths)
