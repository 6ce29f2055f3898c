"""How numbers are written: three significant digits, a true minus, thousands separated."""

from __future__ import annotations

import math

MISSING = "–"
MINUS = "−"


def significant(value: float, digits: int = 3) -> str:
    """Write ``value`` with ``digits`` significant digits; whole parts are never rounded away.

    Below 1e-4 in magnitude the form is scientific ("1.23e−5"). NaN is "–", infinity "∞".
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude < 1e-4:
        text = f"{value:.{digits - 1}e}"
        mantissa, exponent = text.split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
    if magnitude >= 1e9:
        return f"{value:.{digits - 1}e}".replace("e+", "e").replace("-", MINUS)
    _, exponent = f"{value:.{digits - 1}e}".split("e")  # once rounded: 9.996 is 10.0
    decimals = max(0, digits - 1 - int(exponent))
    return f"{value:,.{decimals}f}".replace("-", MINUS)
