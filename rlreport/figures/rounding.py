"""Round figures, so that they are the same on any machine.

The last bit of ``exp`` or ``log`` depends on the processor, and that of a sum on its order. Figures
that are equal but for such an error must not be ordered by it, nor cross a limit, nor differ in an
export. Each is therefore rounded once, where its table is made: to 10 significant digits, of which
an error of one unit in the last place (10⁻¹⁶) changes one in a million. A difference is rounded to
10⁻¹⁰ of its largest operand, because that is how far its own digits can be trusted: 0.3 − 0.2 − 0.1
is 0, not −2.8e-17. Logged numbers stay as they are.

Digits are decimal, so that 0.1 stays 0.1 and exports are short. That takes 50 ns for each value.
Rounding to 34 bits would take 5 ns, but make 0.09999999999854 of 0.1.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DIGITS = 10

# Powers of ten as read from text: ``power`` computes some of them with an error in the last bit
_LOWEST = -307
_HIGHEST = 308
_POWERS_OF_TEN = [float(f"1e{power}") for power in range(_LOWEST, _HIGHEST + 1)]
_POWERS = np.array(_POWERS_OF_TEN)
# Powers of ten up to this one are exact in float64
_EXACT_POWER = 22
# A half is rounded up, and so is what lies slightly below it. Else errors would decide about the
# mean of 256 rewards with three decimals, whose eleventh and last digit is a 5.
_HALF = 0.5029
# Scaled values this near to a half may be on its other side: their error is below 10⁻¹⁵ of them
_NEAR_HALF = 1e-3
# Differences are rounded to this part of their largest operand: to a power of ten that is no larger
_PART = 1e-10
_PART_POWER = -10


def significant(values: ArrayLike, digits: int = DIGITS) -> Floats:
    """Return the values rounded to ``digits`` significant digits; halves away from zero.

    NaN, infinite and subnormal values stay what they are. A larger value never becomes smaller
    than a smaller one.
    """
    exact = np.asarray(values, np.float64)
    # The exponent of the first digit, minus the number of digits after it: that of the last one
    return _in_units(exact, _exponents(exact) - (digits - 1))


def as_formatted(values: ArrayLike, digits: int) -> Floats:
    """Return ``float(f"{value:.{digits}g}")`` of each value, for what is shown; up to 12 digits.

    ``significant`` is for figures that are compared: its halves do not depend on errors.
    """
    exact = np.asarray(values, np.float64)
    exponents = _exponents(exact) - (digits - 1)
    is_fraction = exponents < 0
    powers = _POWERS[np.abs(exponents).clip(0, _EXACT_POWER) - _LOWEST]
    with np.errstate(over="ignore", invalid="ignore"):
        in_units = np.where(is_fraction, exact * powers, exact / powers)
        units = np.rint(in_units)
        nearest = np.where(is_fraction, units / powers, units * powers)
        # The format knows on which side of a half the exact value is.
        is_near_half = np.abs(np.abs(in_units - units) - 0.5) < _NEAR_HALF
    is_inexact = is_near_half | (np.abs(exponents) > _EXACT_POWER)
    is_rounded = np.isfinite(exact) & (exact != 0)
    for place in np.argwhere(is_rounded & is_inexact).tolist():
        nearest[tuple(place)] = float(f"{exact[tuple(place)]:.{digits}g}")
    return np.where(is_rounded, nearest, exact)


def first_least(values: Floats) -> int:
    """Return the index of the least of ``significant(values)``, the first of equal ones.

    The values are not negative. Only those that may be equal to the least are rounded, which is
    much faster.
    """
    # Ten digits are equal only of numbers that differ by less than a part in 10⁸.
    near = np.flatnonzero(values <= values.min() * (1 + 1e-8))
    return int(near[np.argmin(significant(values[near]))])


def settled(values: ArrayLike, *operands: ArrayLike) -> Floats:
    """Return differences rounded to 10⁻¹⁰ of their largest operand; smaller ones are 0."""
    exact = np.asarray(values, np.float64)
    largest = np.abs(exact)
    for operand in operands:
        largest = np.fmax(largest, np.abs(np.asarray(operand, np.float64)))
    return _in_units(exact, _exponents(largest) + _PART_POWER)


def beyond_rounding(values: ArrayLike, scale: ArrayLike) -> Floats:
    """Return the values, 0 where they are below 10⁻¹⁰ of ``scale``.

    What remains of sums that cancel is an error in the last place of the summands. Likewise, equal
    numbers differ from their computed mean, so that their standard deviation is not quite 0.
    """
    exact = np.asarray(values, np.float64)
    return np.where(np.abs(exact) < _PART * np.abs(scale), 0.0, exact)


def difference(left: ArrayLike, right: ArrayLike) -> Floats:
    """Return ``left − right``, rounded as ``settled`` does."""
    with np.errstate(invalid="ignore"):  # infinity − infinity
        return settled(np.subtract(left, right), left, right)


def rounded(value: float) -> float:
    """Return one number rounded to 10 significant digits.

    It is what ``significant`` returns, computed with Python's numbers: an array of one takes ten
    times as long, and checks round thousands.
    """
    value = float(value)
    size = abs(value)
    if not 0 < size < math.inf:
        return value + 0.0
    first_digit = bisect_right(_POWERS_OF_TEN, size) - 1 + _LOWEST
    exponent = first_digit - (DIGITS - 1)
    if exponent <= _LOWEST:  # subnormal
        return value
    power = _POWERS_OF_TEN[abs(exponent) - _LOWEST]
    is_fraction = exponent < 0
    units = math.floor((size * power if is_fraction else size / power) + _HALF)
    if abs(exponent) > _EXACT_POWER:
        nearest = float(f"{units}e{exponent}")
    else:
        nearest = units / power if is_fraction else units * power
    return math.copysign(nearest, value) if nearest < math.inf else value


def change(before: float, after: float) -> float:
    """Return ``after − before`` of two numbers, rounded as ``settled`` does."""
    return float(difference(after, before))


def exact_product(counts: Floats, values: Floats) -> Floats:
    """Return the matrix product ``counts @ values``, the same on any machine.

    ``counts`` are whole numbers, (m, n); ``values`` have shape (n,) or (n, k). The order in which
    a processor adds up a product does not matter if no addition is rounded. The values are
    therefore rounded first: to a power of two so small that about 12 digits of the largest remain,
    and so large that all sums of products are whole multiples below 2⁵³, hence exact.
    """
    largest = np.abs(values).max(axis=0, initial=0.0)
    most = np.abs(counts).sum(axis=1).max(initial=1.0)
    # A sum of products is at most ``most`` · ``largest`` (of its column): below 2 to the sum of
    # these exponents e, where 2^(e − 1) <= x < 2^e.
    _, exponent_of_values = np.frexp(largest)
    _, exponent_of_counts = np.frexp(most)
    # In units of 2^unit, such a sum is below 2⁵³.
    unit = exponent_of_values + exponent_of_counts - 53
    whole = np.rint(np.ldexp(values, -unit))
    return np.asarray(np.ldexp(counts @ whole, unit))


def _exponents(values: Floats) -> Ints:
    """Return e with 10^e <= |value| < 10^(e + 1), by comparison: ``log10`` may be off by a bit."""
    index = np.searchsorted(_POWERS, np.abs(values), side="right") - 1
    return index + _LOWEST


def _in_units(values: Floats, exponents: Ints) -> Floats:
    """Return the values as the nearest multiples of 10^exponent, halves away from zero.

    NaN, infinite and subnormal values, and those that would become infinite, stay what they are.
    """
    sizes = np.abs(values)
    is_rounded = np.isfinite(values) & (sizes > 0) & (exponents > _LOWEST)
    exponents = np.where(is_rounded, exponents, 0)
    powers = _POWERS[np.abs(exponents) - _LOWEST]  # entry 0 has the exponent _LOWEST
    # 10^−e is not exact in float64, but 10^e is up to 10²²: use that instead.
    is_fraction = exponents < 0
    with np.errstate(over="ignore", invalid="ignore"):
        in_units = np.where(is_fraction, sizes * powers, sizes / powers)
        units = np.floor(in_units + _HALF)
        # Dividing by an exact power of ten gives the float64 that is nearest to the decimal.
        nearest = np.where(is_fraction, units / powers, units * powers)
    inexact = is_rounded & (np.abs(exponents) > _EXACT_POWER)
    if inexact.any():
        # Parsing a decimal gives the nearest float64, but takes longer.
        pairs = zip(units[inexact].tolist(), exponents[inexact].tolist(), strict=True)
        nearest[inexact] = [float(f"{whole:.0f}e{power}") for whole, power in pairs]
    # Rounded up, the largest numbers would be infinite.
    is_rounded &= np.isfinite(nearest)
    # Adding 0 turns −0, which exports would show, into 0.
    return np.where(is_rounded, np.copysign(nearest, values), values) + 0.0
