"""Convert token strings to readable text; split texts into words; detect lists and headings.

Three encodings of token strings are common in logs. *Byte-level* BPE (GPT-2, Llama 3, Qwen)
writes each byte as one printable character: ``Ġthe``, ``Ċ``, ``ä½ł``. *SentencePiece*
(Llama 2, Gemma) writes a space as ``▁`` and lone bytes as ``<0xE4>``. *Plain* strings
were decoded one by one, so a part of a character has become U+FFFD and cannot be restored.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial

from rlreport.text.clean import REPLACEMENT, is_special, safe_text


class Style(Enum):
    """How the token strings of a run are encoded; see the module's docstring."""

    BYTE_LEVEL = "byte-level"
    SENTENCEPIECE = "sentencepiece"
    PLAIN = "plain"


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's map of characters to bytes.

    A byte that is printable in Latin-1 is its own character; the others have those from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    unprintable = [byte for byte in range(256) if byte not in printable]
    for i, byte in enumerate(unprintable):
        alphabet[chr(0x100 + i)] = byte
    return alphabet


# Character in a byte-level BPE token -> the byte that it represents
BYTE_OF = _byte_alphabet()
_BYTES = codecs.charmap_build("".join(sorted(BYTE_OF, key=BYTE_OF.__getitem__)))
_OUTSIDE_ALPHABET = re.compile(f"[^{re.escape(''.join(BYTE_OF))}]")
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Bytes of U+FFFD, which a model may generate itself, split over several tokens
_UFFFD = REPLACEMENT.encode()

_MOST_OTHERS = 0.02  # share of tokens that may look like those of another style


def detect_style(vocabulary: Iterable[str]) -> Style:
    """Detect the encoding of token strings from the distinct tokens of a run.

    They are SentencePiece if some contain ``▁`` or are a byte such as ``<0xE4>``, and almost none
    contain a space. Otherwise they are byte-level if some contain ``Ġ``, ``Ċ`` or bytes that form
    a character, and almost none contain characters outside the byte-level alphabet, such as spaces
    or Chinese ones, which plain text has. ``é`` alone is no evidence, as it also occurs in plain
    text. All others are plain.
    """
    token_count = 0
    sentencepiece = 0
    with_space = 0
    byte_level = 0
    outside_alphabet = 0
    for token in vocabulary:
        if not token or is_special(token):
            continue
        token_count += 1
        # Most tokens are such words, which are the same in all styles.
        if token.isascii() and "<" not in token and " " not in token:
            continue
        # Vocabularies of all styles may have added tokens that are runs of spaces.
        is_text_with_space = " " in token and not token.isspace()
        if "▁" in token or _BYTE_TOKEN.fullmatch(token):
            sentencepiece += 1
        elif is_text_with_space:
            with_space += 1
        # Other ASCII tokens, with "<", are the same in byte-level and plain vocabularies.
        if token.isascii() and " " not in token:
            continue
        if _OUTSIDE_ALPHABET.search(token):
            if not token.isspace():
                outside_alphabet += 1
        elif "Ġ" in token or "Ċ" in token or _holds_utf8(token):
            byte_level += 1
    if sentencepiece and with_space <= _MOST_OTHERS * token_count:
        return Style.SENTENCEPIECE
    if byte_level and outside_alphabet <= _MOST_OTHERS * token_count:
        return Style.BYTE_LEVEL
    return Style.PLAIN


def readable_tokens(raw: Sequence[str], style: Style) -> list[str]:
    """Return the text of each token in ``raw``; the texts concatenated are the response.

    A character that is split over tokens is in the text of the last of them; the others get ``""``.
    Bytes that do not form a character become U+FFFD.
    """
    whole = [text for text in map(_WHOLE_TEXTS[style], raw) if text is not None]
    if len(whole) == len(raw):  # as in most responses
        return whole
    texts: list[str] = []
    parts: list[str] = []  # consecutive tokens whose texts are not in ``texts`` yet
    for token in raw:
        text = whole_text(token, style)
        if text is None:
            parts.append(token)
            continue
        texts += texts_of_parts(parts, style)
        parts = []
        texts.append(text)
    return texts + texts_of_parts(parts, style)


def whole_text(token: str, style: Style) -> str | None:
    """Return a token's text, None if it depends on the tokens beside it.

    It does for a part of a character, and for the empty token, which may be between two parts.
    """
    return _WHOLE_TEXTS[style](token)


def texts_of_parts(raw: Sequence[str], style: Style) -> list[str]:
    """Return the texts of consecutive tokens whose ``whole_text`` is None.

    The tokens before and after them are whole, or there are none: no character reaches beyond.
    """
    encoded = [_bytes_of_part(token, style) for token in raw]
    joined = b"".join(encoded)
    with suppress(UnicodeDecodeError):
        joined.decode()
        return _texts_of_characters(joined, map(len, encoded))
    texts: list[str] = []
    # The decoder keeps the bytes of an incomplete character until the next token completes it.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = b""  # the bytes that the decoder keeps
    for part in encoded:
        text = decoder.decode(part)
        # The model may write a U+FFFD itself, split over several tokens.
        is_generated = (pending + part).startswith(_UFFFD)
        if pending and text.startswith(REPLACEMENT) and not is_generated:
            # The token does not complete the character. The character began in the previous token,
            # whose text gets the U+FFFD that stands for it.
            texts[-1] += REPLACEMENT
            text = text[1:]
        pending, _ = decoder.getstate()
        texts.append(text.replace("\0", REPLACEMENT))
    if pending:  # the character stays incomplete
        texts[-1] += decoder.decode(b"", final=True)
    return texts


def _texts_of_characters(encoded: bytes, sizes: Iterable[int]) -> list[str]:
    """Return the texts of tokens of ``sizes`` bytes, which together are whole characters."""
    texts = []
    start = 0  # of the first character that is not in ``texts``
    stop = 0
    for size in sizes:
        stop += size
        # The last character is left out if the token does not complete it.
        text = encoded[start:stop].decode("utf-8", "ignore")
        start += len(text.encode())
        texts.append(text.replace("\0", REPLACEMENT))
    return texts


@lru_cache(1 << 16)
def _bytes_of_part(raw: str, style: Style) -> bytes:
    encoded = token_bytes(raw, style)
    assert encoded is not None  # a special token is no part of a character
    return encoded


def token_text(raw: str, style: Style) -> str:
    """Return a token as text; bytes that are only part of a character become ``⟨e4 bd⟩`` (hex)."""
    encoded = None if style is Style.PLAIN else token_bytes(raw, style)
    if encoded is None:
        return safe_text(raw)
    text = encoded.decode("utf-8", "rlreport-hex")
    return text.replace("⟩⟨", " ").replace("\0", REPLACEMENT)


def _as_hex(error: UnicodeError) -> tuple[str, int]:
    """Handle an error of decoding: return the bytes in hex, and where decoding goes on."""
    assert isinstance(error, UnicodeDecodeError)
    return f"⟨{error.object[error.start : error.end].hex(' ')}⟩", error.end


codecs.register_error("rlreport-hex", _as_hex)


def token_bytes(raw: str, style: Style) -> bytes | None:
    """Return the UTF-8 bytes that a token stands for, None for a special token."""
    if style is Style.SENTENCEPIECE:
        # Such as <0xE4>, which looks like a special token
        byte = _BYTE_TOKEN.fullmatch(raw)
        if byte:
            return bytes([int(byte[1], 16)])
    if is_special(raw):
        return None
    if style is Style.SENTENCEPIECE:
        raw = raw.replace("▁", " ")
    elif style is Style.BYTE_LEVEL:
        # An added token, such as a run of spaces, is plain text.
        with suppress(UnicodeEncodeError):
            encoded, _ = codecs.charmap_encode(raw, "strict", _BYTES)
            return encoded
    return safe_text(raw).encode()


def _holds_utf8(token: str) -> bool:
    """Return whether a token has two bytes of one character: its first byte and another.

    All of the token's characters must be in the byte-level alphabet.
    """
    # In UTF-8, bytes from C2 to F4 begin a character, and those from 80 to BF continue it.
    follows_first_byte = False
    for character in token:
        byte = BYTE_OF[character]
        if follows_first_byte and 0x80 <= byte <= 0xBF:
            return True
        follows_first_byte = 0xC2 <= byte <= 0xF4
    return False


def _whole_text(token: str, style: Style) -> str | None:
    """Return a token as text, None if it is empty or has only a part of a character."""
    encoded = token_bytes(token, style)
    if encoded is None:  # a special token
        return safe_text(token)
    if not encoded:
        return None
    try:
        return safe_text(encoded.decode())
    except UnicodeDecodeError:
        return None


# Style -> ``whole_text`` of that style, which caches results: a run repeats the same tokens
_WHOLE_TEXTS = {
    style: lru_cache(1 << 18)(partial(_whole_text, style=style)) for style in Style
}


# Scripts without spaces between words, in which each character is a unit of ``units``.
_UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6"  # Lao
    "\u1000-\u102a\u1780-\u17b3"  # Myanmar, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"  # Han, half-width kana
    "\U00020000-\U0003ffff"
)
# Vowel signs and accents that follow a letter; re's ``\w`` does not include them.
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
# Most units are words or signs of ASCII, which are found faster. An apostrophe or a character
# beyond ASCII after them may belong to them.
_ASCII_UNIT = r"(?:[0-9A-Za-z_]++|[!-/:-@\[-^`{-~])(?!['\x80-\U0010ffff])"
_SPACED_UNIT = re.compile(f"\\s?(?:{_ASCII_UNIT}|{_UNITS})")


def units(text: str) -> list[str]:
    """Split ``text`` into words, single characters of unspaced scripts, emoji and punctuation."""
    return [unit.lstrip() for unit in spaced_units(text)]


def spaced_units(text: str) -> list[str]:
    """Split ``text`` like ``units``, but keep up to one white space character before each unit."""
    return _SPACED_UNIT.findall(text)


# Kinds of text structure; entry i is bit i (value 2**i) of the result of ``structure_of``
STRUCTURES = ("list", "numbers", "headings", "parts")

LEAST = 2  # A text has a structure, such as a list, if it has at least this many items of it
# The first character decides for most lines, faster than the groups.
_MARK = re.compile(
    r"\n[ \t]*(?=[-*•‣–(\d#])"
    r"(?:(?P<list>[-*•‣–])[ \t]+\S|(?P<numbers>\(?\d{1,2}[.):])"
    r"|(?P<headings>#{1,6})[ \t]+\S)"
)
_BLANK = re.compile(r"\n\s*\n")
# Structure is detected only in this many characters at the start of a text
LONGEST_FORM = 1 << 16


def structure_of(text: str) -> int:
    """Return the structures of a text as bits: 1 list, 2 numbers, 4 headings, 8 parts.

    A text has a structure if it has LEAST items of it; of parts, LEAST blank lines between them.
    """
    if "\n" not in text:
        return 0
    text = text[:LONGEST_FORM].strip()
    # One entry per item: the name of its structure. Each item begins a line, the first one, too.
    items = [str(mark.lastgroup) for mark in _MARK.finditer("\n" + text)]
    # Counting "\n\n" is a fast test that spares most texts the search for blank lines.
    if text.count("\n\n") >= LEAST:
        items += ["parts"] * len(_BLANK.findall(text))
    structures = 0
    for bit, name in enumerate(STRUCTURES):
        if items.count(name) >= LEAST:
            structures |= 1 << bit
    return structures


def structure_at(text: str, name: str) -> int | None:
    """Return where a text has the first item of a structure; any name but theirs means any one."""
    text = text[:LONGEST_FORM]
    starts = [
        # The match begins at the line break, put before the first line, too.
        mark.start()
        for mark in _MARK.finditer("\n" + text)
        if name not in STRUCTURES or mark.lastgroup == name
    ]
    if name == "parts" or (name not in STRUCTURES and not starts):
        starts = [blank.start() for blank in _BLANK.finditer(text)]
    return starts[0] if starts else None
