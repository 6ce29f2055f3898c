"""Texts in cells of CSV files: never formulas or numbers, and read back as they were."""

from __future__ import annotations

import math
import re

_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


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
