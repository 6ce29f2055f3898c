"""The form of a text: lists, numbered points, headings, parts."""

from __future__ import annotations

import re

STRUCTURES = ("list", "numbers", "headings", "parts")
"""What each bit of ``structure_of`` says, the lowest first."""

LEAST = 2
"""Items, points or headings from which they are the form of a text; blank lines for parts."""

_LINES = (
    re.compile(r"^[ \t]*[-*•‣–][ \t]+\S", re.MULTILINE),
    re.compile(r"^[ \t]*\(?\d{1,2}[.):]", re.MULTILINE),
    re.compile(r"^[ \t]*#{1,6}[ \t]+\S", re.MULTILINE),
    re.compile(r"\S[ \t]*\n\s*\n(?=\s*\S)"),
)
LONGEST = 1 << 16
"""Characters of a text that are looked at."""


def structure_of(text: str) -> int:
    """Return the forms of a text as bits, in the order of ``STRUCTURES``."""
    if "\n" not in text:
        return 0
    text = text[:LONGEST]
    found = 0
    for bit, lines in enumerate(_LINES):
        if sum(1 for _, _ in zip(lines.finditer(text), range(LEAST), strict=False)) == LEAST:
            found |= 1 << bit
    return found
