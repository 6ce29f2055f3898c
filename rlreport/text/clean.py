"""Texts as a person should see them: without padding, safe to encode."""

from __future__ import annotations

import re
from functools import lru_cache

REPLACEMENT = "\ufffd"
"""Stands for what is no character: broken bytes, lone surrogates, NUL."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Controls and what XML 1.0 cannot hold, and what turns the direction of the text after it.
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)


def safe_text(text: str) -> str:
    """Return ``text`` with lone surrogates and NUL replaced by U+FFFD, so UTF-8 can hold it."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(REPLACEMENT, text)
    return text


def printable(text: str) -> str:
    """Return ``text`` with what no chart and no line of Markdown can show replaced by U+FFFD."""
    return _UNPRINTABLE.sub(REPLACEMENT, text)


def shortened(text: str, longest: int) -> str:
    """Return the beginning of a text; what is cut shows as an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clean_text(text: str, pad_tokens: tuple[str, ...]) -> str:
    """Return ``text`` without any pad token, wherever it stands, and safe to encode."""
    # Their few first characters are searched for far faster than all of them.
    for first in _first_characters(pad_tokens):
        if first in text:
            if any(pad and pad in text for pad in pad_tokens):
                text = _any_of(pad_tokens).sub("", text)
            break
    return safe_text(text)


def clean_prompt(text: str, pad_tokens: tuple[str, ...], system_end_token: str | None) -> str:
    """Clean a prompt and drop its system part.

    Everything up to and including the last ``system_end_token`` goes; a prompt that does
    not hold it stays whole.
    """
    if system_end_token:
        text = text.rpartition(system_end_token)[2]
    return clean_text(text, pad_tokens)


@lru_cache(maxsize=64)
def _first_characters(tokens: tuple[str, ...]) -> list[str]:
    return sorted({token[0] for token in tokens if token})


@lru_cache(maxsize=64)
def _any_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    # Longest first, so that a pad token that begins with another one goes as a whole.
    present = sorted((token for token in tokens if token), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, present)) or r"(?!)")
