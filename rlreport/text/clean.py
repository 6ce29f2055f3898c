"""Texts as people and programs should see them: without padding, safe to encode and in cells.

Also which tokens are no text: those that end a response, and control tokens.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

REPLACEMENT = "\ufffd"
"""Stands for what is no character: broken bytes, lone surrogates, NUL."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Controls and what XML 1.0 cannot hold, and what turns the direction of the text after it.
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)

EOS_TOKENS = frozenset((
    "</s>", "<eos>", "<EOS>", "[EOS]", "<eod>", "<EOD>", "<eot>", "<EOT>", "<eom>", "<end>",
    "[SEP]", "<|eos|>", "<|EOS|>", "<|eod|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|eom|>",
    "<|end|>", "<|END|>", "<|endoftext|>", "<|end_of_text|>", "<|endofturn|>", "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>", "<|im_end|>", "<|return|>", "<|call|>", "<|user|>", "<|observation|>",
    "<|end▁of▁sentence|>", "<｜end▁of▁sentence｜>", "<|endofassistant|>", "<|end_of_sentence|>",
    "<end_of_turn>", "<turn|>", "<end_of_utterance>", "<end_of_text>", "<end_of_sentence>",
    "<|hy_eos|>", "[e~[", "<eoa>", "<_end>", "<|role_end|>",
))  # fmt: skip
"""Tokens with which a model says that it is done, over the usual model families."""

_SPECIAL = re.compile(
    r"<[|｜][^\s<>]{1,64}[|｜]>"
    r"|<[|｜]?[A-Za-z_▁]{2,24}[|｜]>|<[|｜][A-Za-z_▁]{2,24}>"
    r"|</?s>"
    r"|<(?:pad|unk|bos|eos|eod|eot|eom|mask|cls|sep|sos|end|eoa)>"
    r"|<(?:start|end|begin)_of_[a-z]+>"
    r"|<(?:unused|extra_id_|extra_token_|reserved_|dummy)_?\d+>"
    r"|\[(?:pad|unk|bos|eos|cls|sep|mask|gMASK|sMASK|/?inst|/?avail(?:able)?_tools|tool_calls)\]",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"<[|｜][^|｜<>\s]{1,40}[|｜]>")
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


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


def is_special(token: str) -> bool:
    """Tell whether ``token`` is a control token of a chat template or tokenizer, not text."""
    if not token or token[0] not in "<[":
        return False
    return token in EOS_TOKENS or _SPECIAL.fullmatch(token) is not None


def without_special(text: str) -> str:
    """Return a text without the control tokens of chat templates."""
    return _IN_TEXT.sub(" ", text) if "<|" in text or "<｜" in text else text


def escape(text: str) -> str:
    """Put an apostrophe before a text that programs would change.

    Spreadsheets take a text for a formula, as OWASP says on CSV injection, if it begins with ``=``,
    ``+``, ``-``, ``@`` (or their full-width forms), a tab or a line's end and is not a number.
    Readers of CSV take ``0007`` for 7 and ``true`` for a truth value; ``17`` stays what it is.
    """
    # A text that would be escaped is escaped with apostrophes before it too.
    return f"'{text}" if _changed_by_programs(text.lstrip("'")) else text


def unescape(cell: str) -> str:
    """Return the text that was escaped."""
    return cell[1:] if cell.startswith("'") and _changed_by_programs(cell.lstrip("'")) else cell


def number_as_text(number: float) -> str:
    """Write a number in full, a whole one without decimals."""
    return str(int(number)) if number.is_integer() else str(number)


def _changed_by_programs(text: str) -> bool:
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return True
    try:
        number = float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return not math.isfinite(number) or number_as_text(number) != text
