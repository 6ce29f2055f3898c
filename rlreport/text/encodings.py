"""Find text in UTF-8 that was read in another encoding (mojibake): ``ä½ å¥½``, ``浣犲ソ``.

Bytes of UTF-8 follow rules that bytes of other encodings hardly ever follow by chance. So a text
is encoded again as it was read, and searched for whole characters of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

# With fewer of them, whole characters may be there by chance...
_LEAST = 3
# ... as they are with a smaller share of all bytes beyond ASCII: "é »" of French text has the bytes
# of one, but other accents of that text belong to none
_MOST = 0.6

# Characters that Windows-1252 has for bytes to which Latin-1 gives control characters
_OF_WINDOWS = {
    bytes([byte]).decode("cp1252", "ignore"): byte for byte in range(0x80, 0xA0)
}
_AS_LATIN = {ord(letter): byte for letter, byte in _OF_WINDOWS.items() if letter}


class _Whole(NamedTuple):
    """Whole characters of UTF-8 in bytes: their pattern, first bytes, and largest size."""

    pattern: re.Pattern[bytes]
    first: bytes
    size: int


_IN_LATIN = _Whole(
    re.compile(
        rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef](?!\xa0\xbb)[\x80-\xbf]{2}"
        rb"|[\xf0-\xf4][\x80-\xbf]{3}"
    ),
    bytes(range(0xC2, 0xF5)),
    4,
)
# Only characters of three bytes, as for Chinese, and two of them in a row: bytes of a text that is
# in GBK often look like one of two bytes.
_IN_GBK = _Whole(
    re.compile(rb"(?:[\xe1-\xef][\x80-\xbf]{2}){2,}"), bytes(range(0xE1, 0xF0)), 3
)
_ASCII = bytes(range(128))
# Letters that stand for the first byte of a character, read as Latin-1 or Windows-1252
_FIRST_LETTERS = frozenset(map(chr, _IN_LATIN.first))
# Characters of Chinese that GBK may have made of such bytes
_FIRST_HAN = "\u4e00"
_LAST_HAN = "\u9fff"


def is_misread(text: str, characters: Set[str]) -> bool:
    """Return whether a text was read as Latin-1, Windows-1252 or GBK, but was UTF-8.

    ``characters`` are all of the text that are not ASCII.
    """
    if not characters.isdisjoint(_FIRST_LETTERS):
        latin = text.translate(_AS_LATIN).encode("latin-1", "ignore")
        if _is_utf8(latin, _IN_LATIN):
            return True
    if any(_FIRST_HAN <= character <= _LAST_HAN for character in characters):
        return _is_utf8(text.encode("gbk", "ignore"), _IN_GBK)
    return False


def _is_utf8(encoded: bytes, whole: _Whole) -> bool:
    """Return whether most bytes beyond ASCII belong to whole characters of UTF-8."""
    beyond = encoded.translate(None, _ASCII)
    least = _MOST * len(beyond)
    # Without enough first bytes, the slower search is spared.
    if whole.size * _count(beyond, whole.first) < least:
        return False
    found = b"".join(whole.pattern.findall(encoded))
    return len(found) >= least and _count(found, whole.first) >= _LEAST


def _count(encoded: bytes, wanted: bytes) -> int:
    return len(encoded) - len(encoded.translate(None, wanted))
