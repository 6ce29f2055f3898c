"""The form of a text: lists, numbered points, headings, parts."""

from __future__ import annotations

import re

STRUCTURES = ("list", "numbers", "headings", "parts")
"""What each bit of ``structure_of`` says, the lowest first."""

LEAST = 2
"""Items, points or headings from which they are the form of a text; blank lines for parts."""

_MARK = re.compile(
    r"\n[ \t]*(?:(?P<list>[-*•‣–])[ \t]+\S|(?P<numbers>\(?\d{1,2}[.):])"
    r"|(?P<headings>#{1,6})[ \t]+\S)"
)
_BLANK = re.compile(r"\n\s*\n")
LONGEST = 1 << 16
"""Characters of a text that are looked at."""


def structure_of(text: str) -> int:
    """Return the forms of a text as bits, in the order of ``STRUCTURES``."""
    if "\n" not in text:
        return 0
    text = text[:LONGEST].strip()
    said = [str(mark.lastgroup) for mark in _MARK.finditer("\n" + text)]
    if text.count("\n\n") >= LEAST:
        said += ["parts"] * len(_BLANK.findall(text))
    return sum(1 << bit for bit, name in enumerate(STRUCTURES) if said.count(name) >= LEAST)
