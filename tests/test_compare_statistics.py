"""Comparing runs by prompt: false alarms, power and intervals, on made-up tables of rewards."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.comparison.compare import Side, compare_runs
from rlreport.comparison.data_file import trainer_rows
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import flips
from rlreport.comparison.statistics import (
    Effect,
    at_equal_kl,
    difference_band,
    paired_effect,
    relabel_p,
    shrunk,
    unpaired_effect,
)
from rlreport.figures.significance import holm
from tests.running import in_ci


def unpaired(base: Any, new: Any) -> Effect:
    """Compare means by prompt, (prompts,) or (runs, prompts) a side; prompts have equal ids."""
    return unpaired_effect(_runs_of(base), _runs_of(new))


def _runs_of(side: Any) -> list[pd.Series]:
    return [pd.Series(run) for run in np.atleast_2d(side)]


def rewards(random, prompts, responses, drop, share=0.3):
    """Binary rewards of two runs by prompt; a share of the prompts loses ``drop`` in the second."""
    ability = random.beta(1.5, 1.5, prompts)
    lost = random.random(prompts) < share
    after = np.where(lost, np.clip(ability - drop, 0, 1), ability)
    base = random.random((prompts, responses)) < ability[:, None]
    new = random.random((prompts, responses)) < after[:, None]
    return base.mean(axis=1), new.mean(axis=1), lost


@pytest.mark.parametrize(
    ("drop", "least", "most"),
    [
        (0, 0, 0.05),
        (0.10, 0.47, 1),
        (0.17, 0.84, 1),
        (0.25, 0.95, 1),
    ],
)
def test_a_loss_on_some_prompts_is_found_as_often_as_a_paired_test_can(
    drop, least, most
):
    random = np.random.default_rng(7)
    is_found = []
    for _ in range(300):
        base, new, _ = rewards(random, 128, 16, drop)
        is_found.append(paired_effect(base, new).high < 0)
    assert least <= np.mean(is_found) <= most


def test_the_prompts_that_lost_most_head_the_list():
    random = np.random.default_rng(3)
    hits = []
    for _ in range(60):
        ability = random.beta(1.5, 1.5, 128)
        lost = random.random(128) < 0.3
        sides = []
        lower = np.clip(ability - 0.25, 0, 1)
        for chance in (ability, np.where(lost, lower, ability)):
            reward = (random.random((16, 128)) < chance).astype(float).ravel()
            pair = np.tile(np.arange(128, dtype=np.uint64), 16)
            table = {"step": 0, "n": np.arange(2048), "split": "train", "pair": pair}
            sides.append(Side("run", pd.DataFrame({**table, "reward": reward})))
        listed = flips(compare_runs(sides[:1], sides[1:]), most=10)
        hits.append(lost[[flip.pair for flip in listed]].sum())
    assert np.mean(hits) >= 8


def test_a_large_difference_of_few_responses_does_not_head_the_list():
    differences = np.array([0.5, -0.5, 0.6, -0.6, 0.7])
    errors = np.array([0.1, 0.1, 0.1, 0.1, 0.9])
    sizes = np.abs(shrunk(differences, errors))
    assert sizes[4] == sizes.min()
    assert sizes[2] > sizes[0]


@pytest.mark.parametrize(
    ("size", "t"), [(400, 1.966), (5000, 1.960)]
)  # resampled in groups
def test_the_interval_is_students_where_differences_are_normal(size, t):
    difference = np.random.default_rng(11).normal(0.3, 1, size)
    effect = paired_effect(np.zeros(size), difference)
    half = t * difference.std(ddof=1) / np.sqrt(size)
    assert effect.value == pytest.approx(difference.mean())
    assert effect.low == pytest.approx(
        difference.mean() - half, abs=0.4 / np.sqrt(size)
    )
    assert effect.high == pytest.approx(
        difference.mean() + half, abs=0.4 / np.sqrt(size)
    )


def test_few_binary_pairs_need_the_exact_test_as_well():
    base = np.array([1.0] * 5 + [0.0] * 5)
    new = np.array([0.0] * 5 + [0.0] * 5)
    # Five losses of five that changed: the exact p is 1/16.
    effect = paired_effect(base, new)
    assert effect.high == 0
    assert effect.p >= 1 / 16
    eight_lost = np.r_[np.zeros(8), np.ones(4)]
    assert paired_effect(np.ones(12), eight_lost).high < 0


@pytest.mark.parametrize("compared", [paired_effect, unpaired])
def test_two_prompts_give_no_interval(compared):
    two = compared(np.zeros(2), np.array([0.4, 0.5]))
    assert np.isnan(two.low) and np.isnan(two.high) and two.p == 1


REWARDS = {
    "p = 0.005": lambda random, size: random.binomial(1, 0.005, size).astype(float),
    "of six": lambda random, size: random.binomial(6, 0.007, size) / 6,
    "normal": lambda random, size: random.normal(size=size),
    "p = 0.5": lambda random, size: random.binomial(1, 0.5, size).astype(float),
    "Pareto 1.5": lambda random, size: random.pareto(1.5, size),
    "equal": lambda random, size: np.full(size, 2 / 3),
}


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("rewards", "prompts"),
    [
        *product(REWARDS, [3, 10, 50]),
        ("equal", 4),
        ("p = 0.005", 400),
    ],
)
@pytest.mark.ci
def test_equal_runs_are_seldom_told_apart_in_any_design(rewards, prompts, paired, runs):
    random = np.random.default_rng(20)
    wrong = 0
    for _ in range(400):
        *bases, new = REWARDS[rewards](random, (runs + 1, prompts))
        if runs == 1:
            effect = (paired_effect if paired else unpaired)(bases[0], new)
        elif paired:
            effect = paired_effect(np.stack(bases), new)
        else:
            effect = unpaired(bases, new)
        if effect.low > 0 or effect.high < 0:
            wrong += 1
            assert effect.p <= 0.05
    assert wrong / 400 <= 0.06


@pytest.mark.parametrize(
    ("base", "new", "of", "fisher"),
    [
        (0, 3, 100, 0.2462311),
        (0, 5, 100, 0.0593834),
        (0, 6, 100, 0.0289302),
        (0, 3, 3, 0.1),
    ],
)
def test_binary_rewards_of_other_prompts_need_fishers_exact_test(base, new, of, fisher):
    left = np.repeat([1.0, 0.0], [base, of - base])
    right = np.repeat([1.0, 0.0], [new, of - new])
    effect = unpaired(left, right)
    assert relabel_p(left, right) == pytest.approx(fisher, rel=1e-5)
    assert effect.p >= fisher * (1 - 1e-5)
    assert (effect.low > 0) == (fisher <= 0.05)


def test_prompts_that_differ_by_nothing_else_are_evidence_if_they_are_many():
    for compared, enough in ((paired_effect, 6), (unpaired, 4)):
        few = compared(np.zeros(enough - 1), np.ones(enough - 1))
        many = compared(np.zeros(enough), np.ones(enough))
        assert few.low <= 0 < few.high and np.isnan(few.mde)
        assert many.low == many.high == 1 and many.mde == 0


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (3000, 2500),
        (40, 600),
        (20_000, 20_000),
    ],
)
def test_many_other_prompts_change_sides_in_cells_and_give_the_same_p(base, new):
    random = np.random.default_rng(3)
    left = random.normal(0, 1, base)
    right = random.normal(0, 1, new)
    error = np.sqrt(1 / base + 1 / new)
    p_of = {0.0: 1.0, 1.0: 0.3173, 1.96: 0.05, 3.0: 0.0027}
    for z, p in p_of.items():
        shifted = right - right.mean() + left.mean() + z * error
        tolerance = 0.1 if p > 0.05 else 0.03
        assert relabel_p(left, shifted) == pytest.approx(p, abs=tolerance)


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (60, 200),
        (60, 60),
        (900, 1300),
        (5, 7),
    ],
    ids=str,
)
def test_swapped_sides_have_the_same_p_and_the_mirrored_interval(base, new):
    for seed in range(5):
        random = np.random.default_rng([seed, base])
        left = [pd.Series(random.random(base))]
        shift = 4 * np.sqrt((1 / base + 1 / new) / 12) / 2
        others = np.arange(new) + 10_000
        right = [pd.Series(random.random(new) + shift, others)]
        effects = [(unpaired_effect(left, right), unpaired_effect(right, left))]
        if base == new:
            before = left[0].to_numpy()
            after = right[0].to_numpy()
            effects.append((paired_effect(before, after), paired_effect(after, before)))
        for there, back in effects:
            assert 0.0004 < there.p < 0.9  # near the limit, where draws decide
            assert there.p == back.p
            assert (there.value, there.low, there.high) == (
                -back.value,
                -back.high,
                -back.low,
            )


@pytest.mark.parametrize("seeds", [2, *in_ci(3, 5)])
@pytest.mark.parametrize(
    "spread", [None, 0.3, 0.03], ids=["paired", "other", "equal prompts"]
)
def test_with_several_seeds_equal_runs_are_told_apart_no_more_often_than_the_level_says(
    seeds, spread
):
    random = np.random.default_rng(seeds)
    found = 0
    runs = 200 if spread is None else 300
    for _ in range(runs):
        run = random.normal(0, 0.03, (seeds + 1, 1))
        prompts = random.normal(0.5, spread or 0.3, (seeds + 1 if spread else 1, 64))
        *bases, new = prompts + run + random.normal(0, 0.1, (seeds + 1, 64))
        if spread:
            effect = unpaired(bases, new)
        else:
            effect = paired_effect(np.stack(bases), new)
            outside = effect.low > 0 or effect.high < 0
            assert outside == (effect.p <= 0.05) or abs(effect.p - 0.05) < 0.01
        found += effect.low > 0 or effect.high < 0
    assert found / runs <= 0.08


@pytest.mark.parametrize(
    ("seeds", "t"),
    [
        (2, 12.7062),
        (3, 4.30265),
        (6, 2.57058),
    ],
)
def test_over_seeds_the_interval_is_students_for_one_run_more(seeds, t):
    # Every prompt of a run earns the same, so that prompts leave no doubt: only runs do.
    means = np.random.default_rng(seeds).normal(0.5, 0.1, seeds + 1)
    of_base = means[:-1]
    of_new = means[-1]
    base = np.stack([np.full(40, mean) for mean in of_base])
    effect = paired_effect(base, np.full(40, of_new))
    half = t * of_base.std(ddof=1) * np.sqrt(1 + 1 / seeds)
    assert effect.value == pytest.approx(of_new - of_base.mean())
    assert effect.low == pytest.approx(effect.value - half)
    assert effect.high == pytest.approx(effect.value + half)
    assert effect.mde > half


def responses(rewards, **columns):
    """A response for each prompt and step, with a column for each table of (prompts, steps)."""
    prompt, step = (index.ravel() for index in np.indices(np.shape(rewards)))
    tables = {"reward": rewards, **columns}
    values = {name: np.ravel(table) for name, table in tables.items()}
    return pd.DataFrame({"pair": prompt.astype(np.uint64), "step": step, **values})


def test_the_band_misses_an_equal_curve_anywhere_in_few_runs():
    random = np.random.default_rng(9)
    missed = 0
    for run in range(120):
        base = responses(random.random((40, 12)))
        new = responses(random.random((40, 12)))
        band = difference_band(base, new, np.arange(12), paired=True, seed=run)
        if np.any(band.low > 0) or np.any(band.high < 0):
            missed += 1
    assert missed / 120 <= 0.12


def test_the_band_marks_the_steps_that_differ():
    random = np.random.default_rng(1)
    base = random.random((64, 10))
    steps = np.arange(10)
    loss = np.where(steps >= 6, 0.2, 0.0)
    new = base + random.normal(0, 0.05, (64, 10)) - loss
    band = difference_band(responses(base), responses(new), steps, paired=True)
    assert np.flatnonzero(band.high < 0).tolist() == [6, 7, 8, 9]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    "kept",
    [
        (slice(0, 1), slice(0, 1)),
        (slice(0, 0), slice(0, 0)),
        (slice(0, 1), slice(5, 6)),
        (slice(0, 12), slice(0, 12)),
    ],
    ids=["one prompt", "no prompt", "other prompts", "all prompts"],
)
def test_curves_with_gaps_have_a_band_where_there_is_one_and_no_warning(paired, kept):
    random = np.random.default_rng(0)

    def side(prompts, gap):
        values = np.full((12, 4), np.nan)
        values[prompts] = random.normal(size=values[prompts].shape)
        values[:, gap] = np.nan
        return responses(values, kl_k1=values)

    gap = 2
    base, new = (side(prompts, gap) for prompts in kept)
    band = difference_band(base, new, np.arange(4), paired=paired)
    assert np.isnan(band.difference[gap])
    assert np.isnan(band.low[gap])
    assert np.isnan(band.high[gap])
    known = np.isfinite(band.low)
    assert (band.low[known] <= band.difference[known]).all()
    assert (band.difference[known] <= band.high[known]).all()
    at_equal_kl(base, new, "reward")


@pytest.mark.parametrize("paired", [True, False])
def test_steps_with_fewer_than_three_prompts_have_a_difference_without_a_band(paired):
    rewards = np.random.default_rng(0).random((3, 4))
    rewards[1:, 0] = rewards[2:, 1] = np.nan
    band = difference_band(
        responses(rewards), responses(rewards**2), np.arange(4), paired=paired
    )
    assert np.isfinite(band.difference).all()
    assert (
        np.isfinite(band.low).tolist()
        == np.isfinite(band.high).tolist()
        == [False] * 2 + [True] * 2
    )
    assert (band.low[2:] < band.high[2:]).all()


def test_holm_is_what_the_paper_says():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def path(kl, reward):
    """A run of ten prompts whose steps have these means."""
    rewards = np.tile(reward, (10, 1))
    return responses(rewards, kl_k1=np.tile(kl, (10, 1)))


def test_at_equal_kl_a_run_that_only_went_further_is_no_better():
    def further(kl):
        steps = np.linspace(0, kl, 9)
        return path(steps, np.sqrt(steps))

    found = at_equal_kl(further(4), further(16), "reward")
    assert found is not None
    assert found.effect == pytest.approx(0, abs=1e-9)
    assert found.overlap == pytest.approx(0.5)


def test_at_no_equal_kl_there_is_nothing_to_compare():
    near = path([0, 1], [0, 1])
    far = path([4, 9], [0, 1])
    assert at_equal_kl(near, far, "reward") is None


def gradient_run(seed: int, factor: float = 1.0, spike: float = 0.0) -> Side:
    random = np.random.default_rng(seed)
    norms = factor * np.exp(random.normal(0, 1.2, 300))
    norms[290] = spike or norms[290]
    steps = np.arange(300)
    responses = pd.DataFrame(
        {"step": steps, "n": 0, "split": "train", "reward": 0.5, "prompt_id": steps % 9}
    )
    responses["pair"] = responses["prompt_id"].astype(np.uint64)
    metrics = pd.DataFrame({"step": steps, "grad_norm": norms})
    return Side("run", responses, trainer=trainer_rows(metrics))


def gradient_guardrail(base: Side, new: Side) -> Guardrail:
    figures = compare_runs([base], [new]).guardrails
    return next(one for one in figures if one.id == "gradient_norm")


def test_one_huge_gradient_norm_does_not_decide_how_runs_differ() -> None:
    found = gradient_guardrail(gradient_run(1), gradient_run(2, spike=1e16))
    assert found.ratio is not None and found.level == "none"
    assert found.new < 3 and abs(found.effect.value) < 2
    last = gradient_run(1).trainer["trainer:grad_norm"].iloc[-60:]
    mean = np.exp(np.log(last).mean())
    assert found.base == pytest.approx(mean, rel=0.2)


def test_gradient_norms_that_span_decades_are_told_apart_by_geometric_means() -> None:
    base = gradient_run(1)
    new = gradient_run(2, factor=8.0)
    found = gradient_guardrail(base, new)
    assert found.level == "worse"
    assert found.effect.value == pytest.approx(found.new - found.base)
    assert 0 < found.effect.low < found.effect.value < found.effect.high
    ratio = found.ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(found.new / found.base)
    assert 1 < ratio.low < ratio.value < ratio.high
    same = gradient_guardrail(gradient_run(1), gradient_run(1))
    assert (same.effect.value, same.level) == (0, "none")
