"""Units of text for n-grams where a log holds no tokens; and its form: lists, headings, parts."""

from __future__ import annotations

import re

# Scripts written without blanks between words: each character is a unit.
_UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6"  # Lao
    "\u1000-\u102a\u1780-\u17b3"  # Myanmar, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"  # Han, half-width kana
    "\U00020000-\U0003ffff"
)
# Vowel signs and accents that follow a letter; re's ``\w`` knows none of them.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983"
    "\u09bc\u09be-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd\u0b3c-\u0b4d\u0bbe-\u0bcd\u0c3e-\u0c4d"
    "\u0cbc-\u0ccd\u0d3e-\u0d4d\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd"
    "\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
)
_EMOJI_TAIL = "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
_WORD = f"[^\\W{_UNSPACED}]"
_UNITS = (
    f"{_WORD}+(?:[{_MARKS}'’]+{_WORD}+)*[{_MARKS}]*"
    f"|[{_UNSPACED}][{_MARKS}]*"
    "|[\U0001f1e6-\U0001f1ff]{2}"
    f"|[^\\w\\s]{_EMOJI_TAIL}*(?:\u200d[^\\w\\s]{_EMOJI_TAIL}*)*"
)
_SPACED_UNIT = re.compile(f"\\s?(?:{_UNITS})")


def units(text: str) -> list[str]:
    """Split ``text`` into words, single characters of unspaced scripts, emoji and punctuation.

    Blanks are dropped. An emoji with its modifiers, a flag or a joined sequence is one unit.
    """
    return [unit.lstrip() for unit in spaced_units(text)]


def spaced_units(text: str) -> list[str]:
    """Return the units of ``text``, each with the blank or line break before it."""
    return _SPACED_UNIT.findall(text)


STRUCTURES = ("list", "numbers", "headings", "parts")
"""What each bit of ``structure_of`` says, the lowest first."""

LEAST = 2
"""Items, points or headings from which they are the form of a text; blank lines for parts."""

_MARK = re.compile(
    r"\n[ \t]*(?:(?P<list>[-*•‣–])[ \t]+\S|(?P<numbers>\(?\d{1,2}[.):])"
    r"|(?P<headings>#{1,6})[ \t]+\S)"
)
_BLANK = re.compile(r"\n\s*\n")
LONGEST_FORM = 1 << 16
"""Characters of a text that are looked at."""


def structure_of(text: str) -> int:
    """Return the forms of a text as bits, in the order of ``STRUCTURES``."""
    if "\n" not in text:
        return 0
    text = text[:LONGEST_FORM].strip()
    said = [str(mark.lastgroup) for mark in _MARK.finditer("\n" + text)]
    if text.count("\n\n") >= LEAST:
        said += ["parts"] * len(_BLANK.findall(text))
    return sum(1 << bit for bit, name in enumerate(STRUCTURES) if said.count(name) >= LEAST)
