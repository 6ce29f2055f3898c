"""Figures are rounded once, by a rule that errors in the last place do not change."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlreport.figures import ragged, rounding
from rlreport.figures import tokens as token
from rlreport.figures.grouped import Grouped

NUMBERS = st.floats(-1.7e308, 1.7e308, allow_subnormal=False)


def text_of(value: float) -> str:
    """The digits of a float without sign, point and exponent."""
    mantissa = repr(value).partition("e")[0]
    return mantissa.lstrip("-").replace(".", "").strip("0")


@given(NUMBERS)
def test_a_figure_has_ten_digits_and_is_at_most_half_a_unit_away(value: float) -> None:
    found = rounding.rounded(value)
    assert len(text_of(found)) <= 10 or abs(value) < 1e-290
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(value)
        away = Decimal(found) - Decimal(value)
        unit = Decimal(1).scaleb(exact.adjusted() - 9) if value else Decimal(1)
        assert abs(away) <= unit * Decimal("0.504")


# Numbers near the half between two of ten digits, about which another rule would decide otherwise
HALVES = st.builds(
    lambda whole, part, power: (whole + part) * 10.0**power,
    whole=st.integers(10**9, 10**10 - 1),
    part=st.floats(0.49, 0.51),
    power=st.integers(-300, 290),
)


@given(st.one_of(st.floats(), HALVES))
@example(-0.0)
@example(1.7976931348623157e308)
def test_one_number_is_rounded_as_many_are(value: float) -> None:
    one = np.float64(rounding.rounded(value))
    assert one.tobytes() == rounding.significant(value).tobytes()


@given(NUMBERS, NUMBERS)
def test_a_larger_number_is_never_rounded_to_a_smaller_one(
    one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert rounding.rounded(low) <= rounding.rounded(high)


@given(
    st.integers(0, 40),
    st.floats(1e-300, 1e300),
    st.floats(-2e-8, 2e-8),
)
def test_the_first_least_is_that_of_the_rounded_values(
    seed: int, least: float, spread: float
) -> None:
    random = np.random.default_rng(seed)
    near = least * (1 + spread * random.random(30))
    with_zeros = near * random.integers(0, 3, 30)
    for values in (near, with_zeros, np.zeros(3)):
        first = int(np.argmin(rounding.significant(values)))
        assert rounding.first_least(values) == first


@given(st.decimals(-(10**6), 10**6, places=3))
def test_logged_decimals_stay_as_they_are(number: Decimal) -> None:
    assert rounding.rounded(float(number)) == float(number)


def test_what_is_no_number_or_has_no_digits_stays() -> None:
    kept = [math.inf, -math.inf, 0.0, 5e-324]
    assert rounding.significant(kept).tolist() == kept
    assert math.isnan(rounding.rounded(math.nan))
    assert str(rounding.rounded(-0.0)) == "0.0"


@pytest.mark.parametrize(
    "exact", [0.12300390625, 0.1 + 2**-33, 1.0, 100.0, 1 / 3, 2.5e-11, 7e30]
)
def test_one_unit_in_the_last_place_changes_no_figure(exact: float) -> None:
    """Among these are halves of the tenth digit, as means of numbers with few digits often are."""
    near = np.array([np.nextafter(exact, 0), exact, np.nextafter(exact, np.inf)])
    assert len(set(rounding.significant(near).tolist())) == 1
    assert len(set(rounding.significant(-near).tolist())) == 1


HALVES = st.integers(-(10**8), 10**8).map(lambda number: number / 2)


@given(st.lists(st.floats() | HALVES), st.integers(1, 12))
def test_what_is_shown_has_the_digits_of_its_format(
    values: list[float], digits: int
) -> None:
    found = rounding.as_formatted(values, digits).tolist()
    assert list(map(repr, found)) == [
        repr(float(f"{value:.{digits}g}")) for value in values
    ]


@pytest.mark.parametrize("value", [0.1234565, 1.234565, 999999.5, 1e23, 5e-324, 2.5])
def test_a_half_is_shown_as_its_exact_value_is_formatted(value: float) -> None:
    columns = [[value], [-value]]
    expected = [[float(f"{column[0]:.6g}")] for column in columns]
    assert rounding.as_formatted(columns, 6).tolist() == expected


def test_a_difference_below_its_operands_digits_is_nothing() -> None:
    assert 0.3 - (0.1 + 0.2) != 0
    assert rounding.difference(0.3, 0.1 + 0.2) == 0
    assert rounding.difference(0.7, 0.6) == 0.1
    differences = rounding.difference([1e6, 1e-3], [1e6 + 1e-5, 0.0])
    assert differences.tolist() == [0.0, 1e-3]
    assert rounding.change(5e-12, 8e-12) == 3e-12
    assert math.isnan(rounding.change(1.0, math.nan))


def test_equal_values_have_no_variance_whatever_their_mean() -> None:
    values = np.array([0.1, 0.1, 0.1, 0.1 + 1e-6, 0.1, 0.1])
    assert values[:3].std() > 0
    groups = Grouped(np.array([0, 3]), 6)
    found = groups.std(values)
    assert found[0] == 0
    assert found[1] == pytest.approx(values[3:].std())
    offsets = np.array([0, 3, 6, 6])
    _, _, squares = ragged.row_moments(values, offsets)
    assert squares[0] == 0
    assert squares[1] == pytest.approx(values[3:].var() * 3)
    assert np.isnan(squares[2])


def test_the_position_of_the_largest_is_the_first_of_values_equal_to_ten_digits() -> (
    None
):
    rows = [
        [0.1, 0.7, np.nextafter(0.7, 1), np.nan, 0.6],
        [-2.0, -3.0],
        [np.inf, np.inf],
        [0, 0],
    ]
    flat = np.concatenate(rows)
    offsets = np.array([0, 5, 7, 9, 9, 11])
    largest, position = ragged.row_first_maxima(flat, offsets)
    np.testing.assert_array_equal(largest, [0.7, -2.0, np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(position, [1, 0, 0, np.nan, 0])


RATIOS = st.floats(-3, 3).filter(lambda ratio: abs(ratio) > 1e-15)


@given(RATIOS, st.sampled_from([-math.inf, math.inf]))
def test_k3_is_exact_and_hardly_moved_by_an_error_of_expm1(
    ratio: float, to: float
) -> None:
    with localcontext() as context:
        context.prec = 60
        exact = float(Decimal(-ratio).exp() - 1 + Decimal(ratio))
    original = np.expm1
    found = token.k3(np.array([ratio]))[0]
    assert found == pytest.approx(exact, rel=1e-14, abs=1e-300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "expm1", lambda values: np.nextafter(original(values), to))
        assert token.k3(np.array([ratio]))[0] == pytest.approx(
            found, rel=4e-15, abs=1e-300
        )


def test_a_product_of_counts_is_the_same_in_any_order() -> None:
    random = np.random.default_rng(0)
    counts = random.integers(0, 9, (50, 300)).astype(np.float64)
    scales = 10.0 ** np.arange(-3, 4)
    values = random.normal(size=(300, 7)) * scales
    found = rounding.exact_product(counts, values)
    for _ in range(5):
        order = random.permutation(300)
        again = rounding.exact_product(counts[:, order], values[order])
        assert (found == again).all()
    np.testing.assert_allclose(found, counts @ values, rtol=1e-9, atol=1e-9)
    of_nothing = rounding.exact_product(counts[:, :0], values[:0, 0])
    assert of_nothing.tolist() == [0.0] * 50


def test_values_that_cancel_have_the_mean_0() -> None:
    values = np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3 + 3e-9])
    assert values[:3].sum() != 0
    found = Grouped(np.array([0, 3]), 6).mean(values)
    assert found[0] == 0
    assert found[1] == pytest.approx(1e-9, rel=1e-6)
