"""Clean texts: remove padding and control tokens, replace invalid characters, escape CSV cells."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

REPLACEMENT = "\ufffd"  # U+FFFD, which replaces invalid bytes, lone surrogates and NUL
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Control characters, characters that XML 1.0 excludes, and controls of the text direction.
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)
# C0 without tab and line ends, DEL and C1
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

# End-of-sequence tokens of common model families
EOS_TOKENS = frozenset((
    "</s>", "<eos>", "<EOS>", "[EOS]", "<eod>", "<EOD>", "<eot>", "<EOT>", "<eom>", "<end>",
    "[SEP]", "<|eos|>", "<|EOS|>", "<|eod|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|eom|>",
    "<|end|>", "<|END|>", "<|endoftext|>", "<|end_of_text|>", "<|endofturn|>", "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>", "<|im_end|>", "<|return|>", "<|call|>", "<|user|>", "<|observation|>",
    "<|end▁of▁sentence|>", "<｜end▁of▁sentence｜>", "<|endofassistant|>", "<|end_of_sentence|>",
    "<end_of_turn>", "<turn|>", "<end_of_utterance>", "<end_of_text>", "<end_of_sentence>",
    "<|hy_eos|>", "[e~[", "<eoa>", "<_end>", "<|role_end|>",
))  # fmt: skip

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
_LETTERS = re.compile("[A-Za-z]+")
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def safe_text(text: str) -> str:
    """Return ``text`` with lone surrogates and NUL replaced by U+FFFD, so it encodes as UTF-8."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    # Encoding is much faster than the search for surrogates, which few texts have.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(REPLACEMENT, text)
    return text


def safe_value(value: Any) -> Any:
    """Replace invalid characters (``safe_text``) in all strings and keys of a parsed JSON value."""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, list):
        return [safe_value(item) for item in value]
    if isinstance(value, dict):
        return {safe_text(key): safe_value(item) for key, item in value.items()}
    return value


def printable(text: str) -> str:
    """Return ``text`` with characters that charts and Markdown cannot show replaced by U+FFFD."""
    return _UNPRINTABLE.sub(REPLACEMENT, text)


def without_controls(text: str) -> str:
    r"""Return ``text`` with control characters written out, ESC as ``\x1b``, for CSV files.

    A terminal that shows the file would obey them. Tabs and line ends stay, but not a CR alone,
    after which a terminal writes over the line.
    """
    return _CONTROL.sub(lambda control: f"\\x{ord(control[0]):02x}", text)


def shortened(text: str, longest: int) -> str:
    """Cut a text longer than ``longest`` characters to that length, ending in an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def one_line(text: str, longest: int) -> str:
    """Return a text as one printable line of at most ``longest`` characters."""
    return shortened(printable(" ".join(text.split())), longest)


def shared_beginning(one: str, other: str) -> int:
    """Return with how many characters both texts begin."""
    pairs = zip(one, other, strict=False)
    for place, (a, b) in enumerate(pairs):
        if a != b:
            return place
    return min(len(one), len(other))


def clean_text(text: str, pad_tokens: tuple[str, ...]) -> str:
    """Remove all occurrences of pad tokens, and make the text safe to encode (``safe_text``)."""
    # Few texts have any fragment, of which there are fewer than tokens.
    if any(map(text.__contains__, _fragments(pad_tokens))):
        text = _any_of(pad_tokens).sub("", text)
    return safe_text(text)


def clean_prompt(
    text: str, pad_tokens: tuple[str, ...], system_end_token: str | None
) -> str:
    """Clean a prompt like ``clean_text``, without its part up to the last ``system_end_token``."""
    if system_end_token:
        text = text.rpartition(system_end_token)[2]
    return clean_text(text, pad_tokens)


@lru_cache(maxsize=64)
def _fragments(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return parts of tokens: a text that contains none of them contains none of ``tokens``."""
    fragments: list[str] = []
    # Shorter tokens first: their fragments are often parts of longer tokens, too.
    for token in sorted(filter(None, tokens), key=len):
        if any(fragment in token for fragment in fragments):
            continue
        words = _LETTERS.findall(token)  # "pad" of "<pad>", "[PAD]" and "<|pad|>"
        fragments.append(max(words, key=len, default=token))
    return tuple(fragments)


@lru_cache(maxsize=64)
def _any_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    # Longest first: a token may begin with another one, and must be removed as a whole.
    longest_first = sorted((token for token in tokens if token), key=len, reverse=True)
    # Without tokens, the pattern must match nothing, not the empty string everywhere.
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def is_special(token: str) -> bool:
    """Return whether ``token`` is a control token of a chat template or tokenizer, not text."""
    if not token or token[0] not in "<[":
        return False
    return token in EOS_TOKENS or _SPECIAL.fullmatch(token) is not None


def without_special(text: str) -> str:
    """Replace control tokens of the form ``<|im_start|>`` in a text with spaces."""
    return _IN_TEXT.sub(" ", text) if "<|" in text or "<｜" in text else text


def escape(text: str) -> str:
    """Put an apostrophe before a text that spreadsheets or CSV readers would change.

    Spreadsheets evaluate a text as a formula (CSV injection, see OWASP) if it begins with ``=``,
    ``+``, ``-``, ``@`` (or their full-width forms), a tab or a line end, and is not a number. CSV
    readers convert ``0007`` to 7 and ``true`` to a boolean; ``17`` is not escaped.
    """
    # Leading apostrophes are ignored here, so that ``unescape`` removes only one that was added.
    return f"'{text}" if _changed_by_programs(text.lstrip("'")) else text


def unescape(cell: str) -> str:
    """Return the text that ``escape`` made a cell of."""
    is_escaped = cell.startswith("'") and _changed_by_programs(cell.lstrip("'"))
    return cell[1:] if is_escaped else cell


def number_as_text(number: float) -> str:
    """Return a number as CSV files have it: "17" for 17.0, else as Python writes it."""
    return str(int(number)) if number.is_integer() else str(number)


def _changed_by_programs(text: str) -> bool:
    """Return whether a spreadsheet or CSV reader would change a text, see ``escape``."""
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):  # "-1" is a number
        return True
    try:
        number = float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    # "0007" or "1e3" would be written back in another way, "nan" would be a missing value.
    return not math.isfinite(number) or number_as_text(number) != text
