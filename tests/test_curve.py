"""How a curve is read: levels, changes, pieces, events, onsets, and excursions above limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlreport.check.curve import Curve, excursion_of, paired_z, read_curve
from rlreport.check.events import EventKind
from rlreport.check.pieces import PieceKind
from rlreport.check.prepared import Kind
from tests.curve_families import FLAT, LENGTHS, Flat, alarms, power

Floats = NDArray[np.float64]

# Curves of each family that tests read: enough to see a rule that broke, few enough for a minute
CURVES = 40
MANY_CURVES = 400
# Flat families that may be mistaken more often, as docs/checks.md says: they look like changes
HARD = (
    "AR(1), ρ = 0.8",
    "AR(1), ρ = 0.8, and as much sampling noise",
    "carried forward by 5",
)


def read(
    values: object,
    *,
    errors: Floats | None = None,
    kind: Kind = Kind.SERIES,
    steps: NDArray[np.int64] | None = None,
) -> Curve:
    array = np.asarray(values, np.float64)
    if steps is None:
        steps = np.arange(len(array))
    curve = read_curve(steps, array, errors=errors, kind=kind)
    assert curve is not None
    return curve


def noise(count: int, sigma: float = 1.0, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0, sigma, count)


def fall(count: int = 100, start: int = 40, stop: int = 60) -> Floats:
    """A fall from 0.6 to 0.1, with little noise."""
    ramp = np.interp(np.arange(count), [start, stop], [0.6, 0.1])
    return np.asarray(ramp + noise(count, 0.02))


# --- levels -----------------------------------------------------------------------------------


def test_no_finite_value_has_no_curve() -> None:
    values = np.array([np.nan, np.inf, -np.inf])
    assert read_curve(np.arange(3), values) is None


def test_a_single_value_is_its_own_levels_and_has_not_changed() -> None:
    curve = read([0.3])
    assert curve.first.value == curve.last.value == curve.highest.value == 0.3
    assert curve.changed is None
    assert curve.pieces == ()


def test_a_level_is_the_plain_mean_of_the_logged_values_over_its_steps() -> None:
    values = fall()
    curve = read(values)
    for level in (curve.first, curve.last, curve.highest, curve.lowest):
        first, last = level.steps
        assert level.value == pytest.approx(values[first : last + 1].mean())
        assert level.count == last + 1 - first


def test_the_first_level_is_the_first_value_if_the_next_ones_are_on_their_way() -> None:
    lengths = [304.6, 104.9, 39.3, 23.7, *(22 + noise(40))]
    assert read(lengths).first.value == 304.6


def test_the_level_of_an_evaluation_is_one_value() -> None:
    curve = read([0.04, 0.05, 0.25, 0.3, 0.31, 0.29], kind=Kind.EVALUATIONS)
    assert curve.first.value == 0.04
    assert curve.highest.value == 0.31


def test_the_best_of_many_noisy_values_is_not_their_luckiest() -> None:
    curve = read(1 + noise(20_000))
    assert curve.highest.value < 1.1


def test_a_spike_is_an_event_and_no_part_of_a_level() -> None:
    values = 1 + noise(100, 0.01)
    values[97] = 50.0
    curve = read(values)
    spike = curve.event(EventKind.SPIKE)
    assert spike is not None
    assert spike.onset == 97
    assert spike.level == 50.0
    assert curve.last.without == (97,)
    assert curve.last.value == pytest.approx(1.0, abs=0.02)


# --- changes ----------------------------------------------------------------------------------


def test_too_few_values_without_errors_are_not_judged() -> None:
    assert read([0.0, 0.5, 1.0, 1.5]).changed is None


def test_three_values_of_many_responses_are_judged_by_their_errors() -> None:
    curve = read([0.05, 0.2, 0.5], errors=np.full(3, 0.01))
    assert curve.rose
    assert curve.changed == pytest.approx(
        0.45 / (math.sqrt(2) * math.hypot(0.01, 0.01))
    )


def test_five_steps_of_many_responses_rose() -> None:
    rates = np.array([0.055, 0.1, 0.2, 0.35, 0.546])
    errors = np.sqrt(rates * (1 - rates) / 2048)
    found = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        found += read(random.binomial(2048, rates) / 2048, errors=errors).rose
    assert found == 20


def test_a_single_last_value_of_one_is_no_rise_of_zeros() -> None:
    assert not read([0.0] * 11 + [1.0]).rose


@pytest.mark.parametrize("kind", list(Kind))
def test_a_constant_did_not_change(kind: Kind) -> None:
    curve = read(np.full(30, 0.7), kind=kind)
    assert curve.changed == 0
    assert curve.events == ()
    assert curve.is_flat


# --- pieces and events ------------------------------------------------------------------------


def test_a_fall_has_its_onset_interval_levels_and_z() -> None:
    curve = read(fall())
    event = curve.fall
    assert event is not None
    assert event.low <= 41 <= event.high
    assert 40 <= event.onset <= 48
    assert event.before == pytest.approx(0.6, abs=0.03)
    assert event.level == pytest.approx(0.1, abs=0.03)
    assert event.z is not None
    assert event.z < -4
    assert curve.fell


def test_what_fell_to_its_lowest_value_and_stays_is_dead() -> None:
    curve = read(fall())
    assert curve.pieces[-1].kind is PieceKind.DEAD
    dead = curve.event(EventKind.DEAD)
    assert dead is not None
    assert 55 <= dead.onset <= 65


def test_a_valley_is_told_although_the_ends_rose() -> None:
    levels = np.repeat([-10.0, 0.7, -5.0], [40, 20, 40])
    curve = read(levels + noise(100, 0.3))
    assert curve.hump is not None
    assert curve.hump.onset == 40
    assert curve.hump.until == 59


def test_a_rise_is_flat_since_a_step() -> None:
    ramp = np.interp(np.arange(100), [0, 50], [0.1, 0.8])
    since = read(ramp + noise(100, 0.02)).settled_since
    assert since is not None
    assert 40 <= since <= 60


def test_evaluations_that_are_all_below_those_before_fell() -> None:
    before = [50.8, 56.2, 54.8, 45.8]
    values = np.array([*before, 32, 35, 9, 28, 30, 18, 35])
    errors = np.full(len(values), 2.0)
    curve = read(values, errors=errors, kind=Kind.EVALUATIONS)
    assert curve.fall is not None
    assert curve.fall.onset in {3, 4}


def test_a_constant_end_does_not_dilute_the_noise_of_the_rest() -> None:
    values = np.concatenate([0.5 + noise(60, 0.1), np.zeros(140)])
    event = read(values).fall
    assert event is not None
    assert event.low <= 60 <= event.high


def test_values_that_a_logger_carried_forward_are_one_value_each() -> None:
    values = np.repeat(noise(20), 5)
    curve = read(values)
    assert not (curve.rose or curve.fell)
    assert curve.first.steps == (0, 14)


def test_a_size_over_decades_is_read_as_a_logarithm_and_told_as_logged() -> None:
    values = np.geomspace(0.01, 100, 60) * np.exp(noise(60, 0.1))
    curve = read(values, kind=Kind.SIZE)
    assert curve.rose
    assert curve.first.value == pytest.approx(values[: curve.first.count].mean())


# --- limits -----------------------------------------------------------------------------------


def test_an_excursion_is_the_stretch_with_most_steps_beyond_the_limit() -> None:
    values = np.repeat([1.0, 9.0, 1.0], [30, 15, 30])
    found = excursion_of(np.arange(75), values, 4.0)
    assert found is not None
    assert found.steps == (30, 44)
    assert found.before == 1.0
    assert found.is_dated
    assert not found.lasts


def test_an_excursion_from_the_first_step_on_has_no_level_before() -> None:
    found = excursion_of(np.arange(40), np.full(40, 9.0), 4.0)
    assert found is not None
    assert found.from_start
    assert found.lasts


def test_a_level_around_the_limit_has_no_date() -> None:
    values = np.repeat([1.0, 4.4], 20)
    found = excursion_of(np.arange(40), values, 4.0)
    assert found is not None
    assert not found.is_dated


def test_two_steps_beyond_the_limit_are_no_excursion_of_a_longer_run() -> None:
    values = np.repeat([9.0, 1.0], [2, 8])
    assert excursion_of(np.arange(10), values, 4.0) is None


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_of_one_or_two_steps_is_beyond_a_limit_if_all_are(count: int) -> None:
    steps = np.arange(count)
    assert excursion_of(steps, np.full(count, 9.0), 4.0) is not None
    assert excursion_of(steps, np.linspace(0, 9, count), 9.5) is None


def test_a_lower_limit_mirrors_an_upper_one() -> None:
    values = np.repeat([8.0, 1.0], 20)
    below = excursion_of(np.arange(40), values, 4.0, "<")
    above = excursion_of(np.arange(40), -values, -4.0, ">")
    assert below is not None
    assert above is not None
    assert below.steps == above.steps == (20, 39)


# --- paired -----------------------------------------------------------------------------------


def test_the_same_prompts_tell_more_than_their_means() -> None:
    random = np.random.default_rng(0)
    before = random.random(30)
    after = before + 0.15 + random.normal(0, 0.1, 30)
    assert paired_z(before, after) > 5
    assert math.isnan(paired_z(before[:1], after[:1]))


# --- families: docs/checks.md has the tables ----------------------------------------------------


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("family", FLAT, ids=lambda family: family.name)
def test_a_flat_curve_is_rarely_said_to_change(family: Flat, count: int) -> None:
    found = alarms(family, count, CURVES, seed=1)
    allowed = 0.2 if family.name in HARD else 0.05
    assert found.changed <= allowed * CURVES
    assert found.events <= allowed * CURVES


@pytest.mark.ci
@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("family", FLAT, ids=lambda family: family.name)
def test_false_alarms_of_many_flat_curves(family: Flat, count: int) -> None:
    found = alarms(family, count, MANY_CURVES, seed=2)
    allowed = 0.15 if family.name in HARD else 0.03
    assert found.changed <= allowed * MANY_CURVES
    assert found.events <= max(allowed, 0.05) * MANY_CURVES


@pytest.mark.parametrize(
    ("family", "count", "least"),
    [
        ("gradual fall", 30, 0.9),
        ("gradual fall", 100, 0.97),
        ("valley", 100, 0.95),
        ("rise", 30, 0.5),
        ("rise", 100, 0.95),
    ],
)
def test_a_planted_change_is_found(family: str, count: int, least: float) -> None:
    found = power(family, count, CURVES, seed=3)
    assert found.found >= least * CURVES


@pytest.mark.parametrize("family", ["gradual fall", "valley"])
def test_the_onset_interval_covers_the_true_start(family: str) -> None:
    found = power(family, 100, CURVES, seed=4)
    assert found.dated is not None
    assert found.dated >= 0.85 * found.found


# --- invariance and hostile numbers -------------------------------------------------------------


def described(curve: Curve) -> list[tuple[object, ...]]:
    """What a curve did, without its numbers."""
    events = [(one.kind, one.onset, one.low) for one in curve.events]
    pieces = [(piece.kind, piece.steps) for piece in curve.pieces]
    return [*events, *pieces]


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 1000.0, 1e150])
def test_units_change_nothing_but_the_numbers(scale: float) -> None:
    values = fall()
    one = read(values)
    other = read(values * scale)
    assert described(other) == described(one)
    assert other.first.value == pytest.approx(one.first.value * scale)


def test_upside_down_a_fall_is_a_climb() -> None:
    values = fall()
    event = read(values).fall
    mirrored = read(-values).climb
    assert event is not None
    assert mirrored is not None
    assert (event.onset, event.low, event.high) == (
        mirrored.onset,
        mirrored.low,
        mirrored.high,
    )


def test_stretched_time_moves_the_steps_only() -> None:
    values = fall()
    one = read(values).fall
    other = read(values, steps=np.arange(len(values)) * 10 + 7).fall
    assert one is not None
    assert other is not None
    assert other.onset == 10 * one.onset + 7


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
series = st.lists(numbers, min_size=1, max_size=60)
kinds = st.sampled_from(list(Kind))


@settings(max_examples=150, deadline=None)
@given(values=series, kind=kinds)
def test_any_numbers_are_read_without_errors(values: list[float], kind: Kind) -> None:
    with np.errstate(all="ignore"):
        curve = read_curve(np.arange(len(values)), np.array(values), kind=kind)
    if curve is None:
        assert not np.isfinite(values).any()
        return
    assert len(curve) == np.isfinite(values).sum()
    assert curve.lowest.value <= curve.highest.value
    for event in curve.events:
        assert event.low <= event.high


@pytest.mark.parametrize("size", [1e300, 1.0, 1e-320])
def test_extreme_numbers_have_finite_levels(size: float) -> None:
    curve = read([size, -size] * 20)
    assert math.isfinite(curve.first.value)
    assert math.isfinite(curve.last.value)
