"""Format numbers for display.

``static/js/shared/format.js`` is the same in JavaScript; a test compares the two.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

MISSING = "–"
MINUS = "−"
NOT_LOGGED = "not logged, not a number, or not in the sample"

# How the numbers of a column are formatted; ``written`` explains the kinds
NumberKind = Literal["number", "count", "share"]

_DIGITS = 3
_LEAST_PLAIN = 1e-4
_MOST_PLAIN = 1e9
_MOST_WHOLE = 1e15


def written(value: float, kind: NumberKind = "number") -> str:
    """Format a number for display.

    A ``number`` has three significant digits, but all digits of its integer part; below 1e-4 and
    from 1e9 on it is scientific ("1.23e−5"). A ``count`` has no decimals; from 1e15 on it is a
    ``number``. A ``share`` is a fraction: it is shown in percent with one decimal ("100%" has
    none), or three significant digits below 1%. Halves are rounded away from zero, thousands are
    separated by commas, the minus sign is U+2212, NaN is "–" and infinity "∞".
    """
    if math.isnan(value):
        return MISSING
    if kind == "count":
        return fixed(value, 0) if abs(value) < _MOST_WHOLE else _significant(value)
    if kind == "share":
        return f"{_percentage(100 * value)}%"
    return _significant(value)


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def short(value: float, digits: int) -> str:
    """Format with ``digits`` digits, but all whole ones below 10⁶: "0.36", "1,250", "5.1 × 10⁷"."""
    if not math.isfinite(value) or value == 0:
        return written(value)
    # Such as "3.6" and "-01": what remains after rounding
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    # From 0.0001 to 999,999, a plain number is shorter, or as easy to read.
    if not -4 <= power < 6:
        text = mantissa.replace("-", MINUS).removesuffix(".0")
        return f"{text} × 10{str(power).translate(_SUPERSCRIPTS)}"
    return fixed(value, max(0, digits - 1 - power))


def exact(value: float) -> str:
    """Return the shortest text that programs parse to exactly this value; NOT_LOGGED for NaN."""
    if math.isnan(value):
        return NOT_LOGGED
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"  # also for −0
    text = repr(float(value)).removesuffix(".0")
    # Shorter than Python writes it: 1e16 instead of 1e+16, 1e-7 instead of 1e-07
    return text.replace("e+", "e").replace("e-0", "e-")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    plural = "" if number == 1 else "s"
    return f"{written(number, 'count')} {noun}{plural}"


def byte_size(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is at least one: "1.5 MB"."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.3g} {unit}"
    count /= 1000
    return f"{count:.3g} GB"


def _significant(value: float) -> str:
    """Format with three significant digits, but all digits of the integer part."""
    size = abs(value)
    if size == 0:
        return "0"
    if math.isinf(size):
        return "∞" if value > 0 else f"{MINUS}∞"
    if not _LEAST_PLAIN <= size < _MOST_PLAIN:
        return _scientific(value)
    # None from 100 on, one more below 100, below 10 and so on
    decimals = len(_WITH_FEWER_DECIMALS) - bisect_right(_WITH_FEWER_DECIMALS, size)
    return fixed(value, decimals)


def _least_rounded_to(power: int) -> float:
    """Return the least number that _DIGITS digits round to 10^power: 9.995, as 10.0 is shown."""
    nearest = float(f"9.995e{power - 1}")  # may be below the half
    is_above = f"{nearest:.{_DIGITS - 1}e}".startswith("1")
    return nearest if is_above else math.nextafter(nearest, math.inf)


# Numbers from which on one decimal fewer is shown, ascending: about 0.001, 0.01, … 100
_WITH_FEWER_DECIMALS = [_least_rounded_to(power) for power in range(-3, _DIGITS)]


def _percentage(percentage: float) -> str:
    """Format a percentage as the kind ``share`` of ``written`` does, without the "%"."""
    size = abs(percentage)
    # What one decimal would show as "100.0" is "100".
    if 99.95 <= size < 100.05:
        return fixed(percentage, 0)
    if 1 <= size < _MOST_PLAIN:
        return fixed(percentage, 1)
    return _significant(percentage)


def fixed(value: float, decimals: int) -> str:
    """Format with fixed decimals: "0.60"; halves are rounded away from zero, as in browsers."""
    rounded: float | Decimal = value
    # Python's own formatting would round a half to the even digit.
    is_half = abs(value) * 10.0**decimals % 1 == 0.5
    if is_half:
        unit = Decimal(1).scaleb(-decimals)  # of the last decimal: 0.01 for two
        rounded = Decimal(value).quantize(unit, ROUND_HALF_UP)
    text = f"{rounded:,.{decimals}f}"  # rounds all others
    if text[0] != "-":
        return text
    # A number that is rounded to −0 loses its sign.
    is_zero = not text.strip("-0.")
    return text.replace("-", "" if is_zero else MINUS)


def _scientific(value: float) -> str:
    """Format like "1.23e−5"; halves are rounded away from zero."""
    exact_value = Decimal(value)
    # The unit of the last digit that is shown; ``adjusted`` is the exponent of the first digit.
    unit = Decimal(1).scaleb(exact_value.adjusted() - (_DIGITS - 1))
    rounded = exact_value.quantize(unit, ROUND_HALF_UP)
    mantissa, exponent = f"{rounded:.{_DIGITS - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
