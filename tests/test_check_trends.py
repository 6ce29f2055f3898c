"""Checks that compare the start of a run with its end, at, just under and just over thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from rlreport.check.finding import NotRun
from rlreport.check.registry import CHECKS
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.check_cases import (
    INDEX,
    SIGN,
    SIZE,
    STEP,
    STEPS,
    WINDOW,
    find,
    moved,
    run,
    severity,
    share,
    tables,
    title,
)
from tests.tables_builder import make_tables, sample


def _collapsing(end: float) -> Tables:
    """The reward is 0, then 1, then ``end``, with little noise inside a step."""
    level = np.select([STEP < 10, STEP < 28], [0.0, 1.0], end)
    return tables(reward=level + 0.01 * SIGN)


@pytest.mark.parametrize(("end", "expected"), [(0.51, None), (0.5, None), (0.49, "warning")])
def test_reward_collapse_asks_for_half_of_the_gain(end: float, expected: str | None) -> None:
    assert severity("reward_collapse", _collapsing(end)) == expected


@pytest.mark.parametrize(
    ("peak", "end", "expected"),
    [(0, 0.0, "critical"), (3, -0.5, "critical"), (20, 0.4, "warning"), (20, 0.9, None)],
)
def test_a_fall_is_a_fall_wherever_the_peak_lies(peak: int, end: float, expected: str) -> None:
    rise = np.minimum(STEP / max(peak, 1), 1.0) if peak else np.ones(len(STEP))
    fall = np.clip((STEP - peak) / (STEPS - WINDOW - peak), 0, 1)
    reward = rise + (end - 1) * fall
    assert severity("reward_collapse", tables(reward=reward + 0.1 * SIGN)) == expected


def test_a_dip_that_recovers_is_no_collapse() -> None:
    dip = np.where((STEP > 15) & (STEP < 22), -1.0, 0.0)
    assert severity("reward_collapse", tables(reward=1 + dip + 0.1 * SIGN)) is None


@pytest.mark.parametrize(("gain", "expected"), [(0.0, "info"), (0.1, "info"), (1.0, None)])
def test_reward_stalled_asks_for_a_gain_beyond_chance(gain: float, expected: str | None) -> None:
    noise = np.random.default_rng(3).normal(size=len(STEP))
    assert severity("reward_stalled", tables(reward=noise + gain * STEP / STEPS)) == expected


def test_a_reward_that_fell_is_not_said_not_to_rise() -> None:
    finding = find("reward_stalled", tables(reward=moved(1.0, 0.2) + 0.1 * SIGN))
    assert title(finding) == "The reward fell: 1.00 at first, 0.200 at the end."


@pytest.mark.parametrize(("wins", "expected"), [(0.49, "info"), (0.5, "info"), (0.51, None)])
def test_reward_stalled_compares_wins_with_losses(wins: float, expected: str | None) -> None:
    gap = np.where(share(wins, wins) == 1, 1.0, -1.0)
    reward = STEP / STEPS
    assert severity("reward_stalled", tables(reward=reward, ref_reward=reward - gap)) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1.0, 0.21, None),
        (1.0, 0.2, None),
        (1.0, 0.19, "warning"),
        (2.0, 0.31, None),
        (2.0, 0.3, None),
        (2.0, 0.29, "warning"),
    ],
)
def test_entropy_collapse(first: float, last: float, expected: str | None) -> None:
    made = tables(surprisal_mean=moved(first, last), logp_tokens=16.0)
    assert severity("entropy_collapse", made) == expected


def _longer(ratio: float, r: float) -> Tables:
    """Lengths that vary by a token in each step, and rewards that correlate with them at r."""
    other = np.where(INDEX % 4 < 2, 1.0, -1.0)
    reward = r * SIGN + np.sqrt(1 - r * r) * other
    return tables(response_tokens=moved(40, 40 * ratio) + SIGN, reward=reward)


@pytest.mark.parametrize(("ratio", "expected"), [(1.49, None), (1.5, "warning"), (1.51, "warning")])
def test_length_hacking_asks_for_longer_responses(ratio: float, expected: str | None) -> None:
    assert severity("length_hacking", _longer(ratio, 0.8)) == expected


@pytest.mark.parametrize(
    ("r", "expected"), [(0.39, None), (0.4 + 1e-9, "warning"), (0.41, "warning")]
)
def test_length_hacking_asks_that_length_be_paid(r: float, expected: str | None) -> None:
    assert severity("length_hacking", _longer(2.0, r)) == expected


def test_length_that_ran_into_the_limit_is_still_seen_to_be_paid() -> None:
    tokens = np.where(STEP < 30, 40 + STEP + 5 * SIGN, 128.0)
    assert severity("length_hacking", tables(response_tokens=tokens, reward=SIGN)) == "warning"


@pytest.mark.parametrize(("ratio", "expected"), [(0.51, None), (0.5, None), (0.49, "warning")])
def test_length_collapse(ratio: float, expected: str | None) -> None:
    assert severity("length_collapse", tables(response_tokens=moved(100, 100 * ratio))) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0.0, 0.1, None), (0.0, 0.11, "warning"), (0.3, 0.3, "info"), (0.3, 0.05, None)],
)
def test_stubs(first: float, last: float, expected: str | None) -> None:
    tokens = np.where(share(first, last) == 1, 3.0, 20.0)
    assert severity("length_collapse", tables(response_tokens=tokens)) == expected


def test_four_tokens_are_no_stub() -> None:
    assert severity("length_collapse", tables(response_tokens=4.0)) is None


def test_length_checks_fall_back_to_characters() -> None:
    made = tables(response_chars=moved(100, 10).astype(int))
    result = find("length_collapse", made)
    assert "characters" in title(result)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0.0, 0.19, None),
        (0.0, 0.2, "warning"),
        (0.5, 0.5, None),
        (0.51, 0.51, "warning"),
        (0.6, 0.3, None),
    ],
)
def test_missing_eos(first: float, last: float, expected: str | None) -> None:
    assert severity("missing_eos", tables(finished=1 - share(first, last))) == expected


@pytest.mark.parametrize(
    ("before", "after", "rose", "expected"),
    [
        (0.5, 0.5, 1.0, "info"),
        (0.5, 0.51, 1.0, "info"),
        (0.5, 0.49, 1.0, None),
        (0.5, 0.6, 0.0, None),
    ],
)
def test_not_sharpening(before: float, after: float, rose: float, expected: str | None) -> None:
    reward = moved(0, rose) + SIGN * moved(before, after)
    assert severity("not_sharpening", tables(reward=reward)) == expected


def test_a_reward_of_two_values_need_not_narrow() -> None:
    assert severity("not_sharpening", tables(reward=share(0.1, 0.6))) is None


def _texts(distinct: int) -> list[list[str]]:
    """Ten bigrams a response; in the last window only ``distinct`` responses of a step differ."""
    texts = []
    for step, i in zip(STEP.tolist(), INDEX.tolist(), strict=True):
        name = i % distinct if step >= STEPS - WINDOW else i
        texts.append([f"{step}.{name}.{k}" for k in range(11)])
    return texts


@pytest.mark.parametrize(("distinct", "expected"), [(71, None), (70, None), (69, "warning")])
def test_diversity_collapse_by_distinct_bigrams(distinct: int, expected: str | None) -> None:
    made = tables()
    made.ngrams = sample(_texts(distinct))
    assert severity("diversity_collapse", made) == expected


@pytest.mark.parametrize(("rose", "expected"), [(0.5, "info"), (0.0, "warning")])
def test_less_variety_of_a_checked_run_that_learns_is_a_note(rose: float, expected: str) -> None:
    right = np.random.default_rng(5).random(len(STEP)) < 0.2 + rose * STEP / STEPS
    made = tables(reward=right.astype(float))
    made.ngrams = sample(_texts(50))
    assert severity("diversity_collapse", made) == expected


def test_short_responses_are_compared_at_equal_numbers_of_bigrams() -> None:
    rng = np.random.default_rng(0)
    lengths = moved(60, 6).astype(int)
    made = tables()
    made.ngrams = sample([[str(u) for u in rng.integers(0, 15, n)] for n in lengths])
    assert severity("diversity_collapse", made) is None


@pytest.mark.parametrize(("bigrams", "expected"), [(199, None), (200, "warning")])
def test_few_bigrams_are_not_judged(bigrams: int, expected: str | None) -> None:
    per_step = np.full(STEPS, 25)
    per_step[-1] -= 200 - bigrams
    step = np.arange(STEPS)
    texts = []
    for s, n in zip(step.tolist(), per_step.tolist(), strict=True):
        texts.append([f"{s}.{k if s < STEPS - WINDOW else k % 2}" for k in range(n + 1)])
    made = make_tables({"step": step, "reward": step * 0.1}, texts=texts)
    assert severity("diversity_collapse", made) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0.1, 0.5, None), (0.1, 0.51, "warning"), (0.6, 0.6, None), (0.9, 0.6, None)],
)
def test_diversity_collapse_by_identical_responses(
    first: float, last: float, expected: str | None
) -> None:
    same = share(first, last) == 1
    hashes = np.where(same, STEP, 10_000 + np.arange(len(STEP))).astype(np.uint64)
    assert severity("diversity_collapse", tables(response_hash=hashes)) == expected


def test_equal_answers_to_one_prompt_are_no_lost_diversity() -> None:
    same = share(0.1, 0.9) == 1
    hashes = np.where(same, STEP * 100 + INDEX // 10, 10_000 + np.arange(len(STEP)))
    groups = {"prompt_id": INDEX // 10, "response_hash": hashes.astype(np.uint64)}
    assert severity("diversity_collapse", tables(**groups)) is None


@pytest.mark.parametrize("steps", [1, 4])
def test_trends_of_a_short_run_are_too_short_to_judge(steps: int) -> None:
    kept = steps > STEP
    names = ["surprisal_mean", "logp_tokens", "response_tokens", "finished", "value_tokens"]
    names += ["value_error_mean", "value_error_m2", "return_mean", "return_m2", "value_mean"]
    columns = dict.fromkeys(names, np.ones(kept.sum()))
    made = make_tables({"step": STEP[kept], "reward": SIGN[kept], **columns})
    fed = [check for check in CHECKS if all(need.is_available(Run(made)) for need in check.needs)]
    trends = [check for check in fed if check.trend]
    assert len(trends) >= 6
    for check in trends:
        result = check.run(Run(made))
        assert isinstance(result, NotRun)
        assert f"(this run has {steps})" in result.needs


def test_a_run_of_five_steps_is_judged() -> None:
    step = np.repeat(np.arange(5), SIZE)
    fell = np.select([step < 2, step < 3], [1.0, 0.2], 0.01)
    columns = {"surprisal_mean": fell, "logp_tokens": np.full(len(step), 8.0)}
    made = make_tables({"step": step, "reward": fell, **columns})
    assert not isinstance(run("entropy_collapse", made), NotRun)
