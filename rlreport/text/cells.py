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
# Code points that take two cells, as hexadecimal ranges: East Asian characters and emoji
_WIDE = """
1100-115f 231a-231b 23e9-23ec 25fd-25fe 2614-2615 2648-2653 267f 2693 26a1 26aa-26ab 26bd-26be
26c4-26c5 26ce 26d4 26ea 26f2-26f3 26f5 26fa 26fd 2705 270a-270b 2728 274c 274e 2753-2755 2757
2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 2e80-303e 3041-33ff 3400-4dbf 4e00-a4cf a960-a97c
ac00-d7a3 f900-faff fe30-fe6f ff01-ff60 ffe0-ffe6 1f300-1f64f 1f680-1f6ff 1f7e0-1f7eb
1f900-1f9ff 1fa70-1faff 20000-3fffd
"""
_ENDS = [part.split("-") for part in _WIDE.split()]
_FIRST = [int(ends[0], 16) for ends in _ENDS]
_LAST = [int(ends[-1], 16) for ends in _ENDS]
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
    if code < _FIRST[0]:
        return False
    return code <= _LAST[bisect_right(_FIRST, code) - 1]


@lru_cache(maxsize=4096)
def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


@lru_cache(maxsize=4096)
def is_in_word(character: str) -> bool:
    """Return whether a character is part of a longer word: a letter or digit, no wide one."""
    is_letter = character == "_" or unicodedata.category(character)[0] in "LNM"
    return is_letter and not is_wide(character)
