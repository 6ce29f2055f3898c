"""Cells with the levels of verdicts, in the colours of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rlreport.check.verdict import FIRST_WORDS
from rlreport.pages.table import Cell, Tag
from rlreport.text.messages import listed, message

# Level of a report that cannot be read
UNREAD = "unread"
# From the one that needs a reader most; also the order in which lists are sorted
SEVERITY = ("critical", "warning", UNREAD, "unclear", "unjudged", "healthy")
WORDS = {**FIRST_WORDS, UNREAD: message("cannot be read")}


def known_level(level: str) -> str:
    """Return a level of SEVERITY; one of another version counts as not judged."""
    return level if level in SEVERITY else "unjudged"


def severity(level: str) -> int:
    """Return the place of a level in SEVERITY, 0 for the one that comes first."""
    return SEVERITY.index(level)


def verdict_cell(levels: Iterable[str]) -> Cell:
    """Return the cell of one run's level, or of the levels of several: "1 Broken, 2 Healthy".

    It is sorted by the level that needs a reader most.
    """
    counts = Counter(sorted(levels, key=severity))
    if not counts:
        return Cell("")
    tags = []
    for level, count in counts.items():
        word = WORDS[level]
        if counts.total() > 1:
            word = message("{count}\u00a0{level}", count=count, level=word)
        tags.append(Tag(level, word))
    text = listed(tag.text for tag in tags)
    return Cell(text, severity(tags[0].level), tags=tuple(tags))
