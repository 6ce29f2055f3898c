"""Characters in the cells of a monospace grid: what is shown of a text, and how wide it is.

``static/js/prompts/cells.js`` is the same in JavaScript; a test holds both together.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rlreport.text.clean import REPLACEMENT, printable

_JOINER = "\u200d"
# Characters that show nothing by themselves
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
_VISIBLE = {"\n": "↵", "\t": "⇥", "\u2028": "↵", "\u2029": "↵", "\u00a0": " "}
_MOST_MARKS = 4  # Maximum number of marks on a character
# First and last code points that take two cells: East Asian characters and emoji
_WIDE = (
    (0x1100, 0x115F), (0x231A, 0x231B), (0x23E9, 0x23EC), (0x25FD, 0x25FE), (0x2614, 0x2615),
    (0x2648, 0x2653), (0x267F, 0x267F), (0x2693, 0x2693), (0x26A1, 0x26A1), (0x26AA, 0x26AB),
    (0x26BD, 0x26BE), (0x26C4, 0x26C5), (0x26CE, 0x26CE), (0x26D4, 0x26D4), (0x26EA, 0x26EA),
    (0x26F2, 0x26F3), (0x26F5, 0x26F5), (0x26FA, 0x26FA), (0x26FD, 0x26FD), (0x2705, 0x2705),
    (0x270A, 0x270B), (0x2728, 0x2728), (0x274C, 0x274C), (0x274E, 0x274E), (0x2753, 0x2755),
    (0x2757, 0x2757), (0x2795, 0x2797), (0x27B0, 0x27B0), (0x27BF, 0x27BF), (0x2B1B, 0x2B1C),
    (0x2B50, 0x2B50), (0x2B55, 0x2B55), (0x2E80, 0x303E), (0x3041, 0x33FF), (0x3400, 0x4DBF),
    (0x4E00, 0xA4CF), (0xA960, 0xA97C), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE30, 0xFE6F),
    (0xFF01, 0xFF60), (0xFFE0, 0xFFE6), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF),
    (0x1F7E0, 0x1F7EB), (0x1F900, 0x1F9FF), (0x1FA70, 0x1FAFF), (0x20000, 0x3FFFD),
)  # fmt: skip
_STARTS = [first for first, _ in _WIDE]
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")


class Cell(NamedTuple):
    """A character with its marks."""

    text: str
    width: int  # in cells: 1 or 2
    start: int  # index of the character in the text


def cells(text: str) -> Iterator[Cell]:
    """Yield what is shown of a text: line ends as "↵", what cannot be shown as U+FFFD.

    Marks, joined emoji and skin tones belong to the character before them; a mark without one
    is on U+FFFD.
    """
    shown = ""  # the character so far
    start = 0
    marks = 0
    for index, character in enumerate(printable(text)):
        if shown and _is_part_of(shown, character):
            shown += character
        elif _INVISIBLE.match(character):
            continue
        elif shown and is_mark(character):
            marks += 1
            if marks <= _MOST_MARKS:
                shown += character
        else:
            if shown:
                yield Cell(shown, _width(shown), start)
            shown = _VISIBLE.get(character, character)
            if is_mark(character):
                shown = REPLACEMENT + character
            start = index
            marks = 0
    if shown:
        yield Cell(shown, _width(shown), start)


def _is_part_of(shown: str, character: str) -> bool:
    """Return whether a character is part of a wide one: a joiner, what it joins, or a skin tone."""
    if not is_wide(shown[0]):
        return False
    if character == _JOINER or _SKIN_TONES[0] <= character <= _SKIN_TONES[1]:
        return True
    return shown.endswith(_JOINER) and is_wide(character)


def _width(shown: str) -> int:
    return 2 if is_wide(shown[0]) else 1


@lru_cache(maxsize=4096)
def is_wide(character: str) -> bool:
    """Return whether a character takes two cells."""
    code = ord(character)
    if code < _STARTS[0]:
        return False
    return code <= _WIDE[bisect_right(_STARTS, code) - 1][1]


@lru_cache(maxsize=4096)
def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


@lru_cache(maxsize=4096)
def is_in_word(character: str) -> bool:
    """Return whether a character is part of a longer word: a letter or digit, no wide one."""
    is_letter = character == "_" or unicodedata.category(character)[0] in "LNM"
    return is_letter and not is_wide(character)
