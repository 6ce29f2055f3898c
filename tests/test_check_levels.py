"""Checks of a level at the end of the run: at, just under and just over each threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Finding, NotRun
from rlreport.check.noise import mean_of
from rlreport.check.run import Run
from rlreport.tables import BadLine, LogFile, Note, Tables
from tests.check_cases import (
    INDEX,
    SIGN,
    SIZE,
    STEP,
    STEPS,
    find,
    moved,
    run,
    severity,
    solve,
    tables,
    title,
)
from tests.tables_builder import make_tables


@pytest.mark.parametrize(
    ("kl", "expected"),
    [(9.99, None), (10.0, None), (10.01, "warning"), (50.0, "warning"), (50.01, "critical")],
)
def test_kl_explosion_judges_the_mean_of_the_last_window(kl: float, expected: str | None) -> None:
    assert severity("kl_explosion", tables(kl_k1=moved(1, kl))) == expected


def test_kl_explosion_does_not_judge_a_mean_that_came_back() -> None:
    assert severity("kl_explosion", tables(kl_k1=moved(30, 5))) is None


def test_kl_explosion_names_the_token_that_is_furthest_out() -> None:
    values = np.where((STEP == STEPS - 1) & (INDEX == SIZE - 1), 90.0, 20.0)
    result = find("kl_explosion", tables(kl_k1=values, kl_max_position=4.0))
    assert result.evidence[0].step == STEPS - 1
    assert [example.token for example in result.evidence] == [4, 4, 4]


@pytest.mark.parametrize(("kl", "expected"), [(10.0, None), (11.0, "warning"), (51.0, "critical")])
def test_kl_explosion_reads_the_trainers_own_kl(kl: float, expected: str | None) -> None:
    metrics = pd.DataFrame({"step": np.arange(STEPS), "objective/kl": kl})
    assert severity("kl_explosion", replace(tables(), metrics=metrics)) == expected
    assert isinstance(run("kl_explosion", tables()), NotRun)


def test_kl_explosion_marks_the_steps_since_the_mean_left_its_start() -> None:
    result = find("kl_explosion", tables(kl_k1=STEP.astype(float)))
    assert result.onset
    assert result.steps == tuple(range(result.onset.step, STEPS))
    assert result.onset.step <= 11
    assert len(result.evidence) == 3


@pytest.mark.parametrize(("mean", "expected"), [(-0.009, None), (-0.01, None), (-0.011, "warning")])
def test_negative_kl_asks_for_more_than_rounding(mean: float, expected: str | None) -> None:
    assert severity("negative_kl", tables(kl_k1=mean)) == expected


@pytest.mark.parametrize(("z", "expected"), [(-2.9, None), (-3.1, "warning")])
def test_negative_kl_asks_for_more_than_chance(z: float, expected: str | None) -> None:
    noise = np.random.default_rng(5).normal(size=len(STEP))

    def z_of(shift: float) -> float:
        run_ = tables(kl_k1=noise + shift)
        kl = run_.responses["kl_k1"].to_numpy()
        return mean_of(run_, kl, Run(run_).last)[1]

    shift = solve(z, z_of, -1, 1)
    assert severity("negative_kl", tables(kl_k1=noise + shift)) == expected


def test_half_of_the_responses_below_zero_is_chance() -> None:
    assert severity("negative_kl", tables(kl_k1=SIGN)) is None


def _critic(explained: float, spread: float = 1.0) -> Tables:
    """Returns of variance 1 in each response, and errors and values of the variance asked for."""
    tokens = 10.0
    return tables(
        value_tokens=tokens,
        return_mean=0.0,
        return_m2=tokens,
        value_error_mean=0.0,
        value_error_m2=tokens * (1 - explained),
        value_mean=0.0,
        value_m2=tokens * spread**2,
    )


@pytest.mark.parametrize(
    ("explained", "expected"),
    [(0.5, None), (0.0, None), (-0.01, "info"), (-0.5, "info"), (-0.51, "warning")],
)
def test_value_divergence_judges_explained_variance(explained: float, expected: str | None) -> None:
    assert severity("value_divergence", _critic(explained)) == expected


def test_a_critic_that_only_follows_itself_is_judged_by_what_came() -> None:
    came = {"mc_return_mean": 0.0, "mc_return_m2": 10.0, "mc_error_mean": 0.0}
    made = _critic(0.9)
    for name, value in {**came, "mc_error_m2": 30.0}.items():
        made.responses[name] = value
    assert severity("value_divergence", made) == "warning"
    made.responses["mc_error_m2"] = 5.0
    assert severity("value_divergence", made) is None


@pytest.mark.parametrize(("spread", "expected"), [(4.9, None), (5.0, None), (5.1, "warning")])
def test_value_divergence_judges_the_spread_of_values(spread: float, expected: str | None) -> None:
    assert severity("value_divergence", _critic(0.5, spread)) == expected


def test_value_divergence_is_quiet_where_returns_no_longer_vary() -> None:
    saturated = tables(
        value_tokens=10.0,
        return_mean=0.0,
        return_m2=moved(10.0, 1e-4),
        value_error_mean=0.0,
        value_error_m2=moved(2.0, 1e-3),
        value_mean=0.0,
        value_m2=moved(10.0, 1e-3),
    )
    assert severity("value_divergence", saturated) is None


@pytest.mark.parametrize(
    ("ratio", "outside", "expected"),
    [
        (1.0, 0.1, None),
        (0.5, 0.1, None),
        (0.49, 0.1, "warning"),
        (2.0, 0.1, None),
        (2.01, 0.1, "warning"),
        (1.0, 0.3, None),
        (1.0, 0.31, "warning"),
    ],
)
def test_ratio_drift(ratio: float, outside: float, expected: str | None) -> None:
    made = tables(ratio_tokens=16.0, ratio_mean=ratio, ratio_outside=outside)
    assert severity("ratio_drift", made) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(1.0, None), (2.5, "warning")])
def test_ratio_drift_reads_the_trainers_own_ratio(ratio: float, expected: str | None) -> None:
    metrics = pd.DataFrame({"step": np.arange(STEPS), "val/ratio": ratio})
    assert severity("ratio_drift", replace(tables(), metrics=metrics)) == expected


def test_ratio_drift_says_what_it_needs() -> None:
    assert isinstance(run("ratio_drift", tables()), NotRun)


@pytest.mark.parametrize(
    ("column", "limit"), [("mismatch_ratio", 1.05), ("mismatch_k3", 1e-3), ("mismatch_prob", 0.01)]
)
@pytest.mark.parametrize(("factor", "expected"), [(0.999, None), (1.0, None), (1.001, "warning")])
def test_engine_mismatch(column: str, limit: float, factor: float, expected: str | None) -> None:
    quiet = {"mismatch_ratio": 1.0, "mismatch_k3": 0.0, "mismatch_prob": 0.0}
    # Eight tokens a response keep the mean over tokens exact.
    made = tables(**{**quiet, column: limit * factor}, mismatch_tokens=8.0)
    assert severity("engine_mismatch", made) == expected


def _groups(alike: int, reward_of_alike: float = 0.0, first: float = 0.5) -> Tables:
    """Each step has 50 groups of two; ``alike`` of them earn the same reward."""
    group = INDEX // 2
    reward = np.where(group < alike, reward_of_alike, np.where(INDEX % 2, 1.0, 0.0))
    reward = np.where(STEP < STEPS // 2, np.where(INDEX % 2, first, 0.0), reward)
    return tables(prompt_id=group, reward=reward)


@pytest.mark.parametrize(("alike", "expected"), [(24, None), (25, None), (26, "warning")])
def test_zero_variance_groups(alike: int, expected: str | None) -> None:
    assert severity("zero_variance_groups", _groups(alike)) == expected


def test_groups_that_all_solve_the_task_after_a_rise_are_only_told() -> None:
    assert severity("zero_variance_groups", _groups(40, reward_of_alike=1.0)) == "info"


def test_groups_that_are_all_best_from_the_start_still_teach_nothing() -> None:
    made = tables(prompt_id=INDEX // 2, reward=1.0)
    finding = find("zero_variance_groups", made)
    assert finding.severity == "warning"
    assert "all responses of the run earn the same reward" in title(finding)


def test_zero_variance_groups_needs_groups_and_no_critic() -> None:
    assert isinstance(run("zero_variance_groups", tables()), NotRun)
    with_critic = tables(prompt_id=INDEX // 2, reward=1.0, value_mean=0.1)
    assert isinstance(run("zero_variance_groups", with_critic), NotRun)


def _losers(losers: int, gap: float = -1.0) -> Tables:
    """100 prompts, each seen in every step; ``losers`` of them never win."""
    reward = np.where(losers > INDEX, gap, np.where(STEP % 2, 1.0, -1.0))
    return tables(prompt_id=INDEX, reward=reward, ref_reward=0.0)


@pytest.mark.parametrize(("losers", "expected"), [(4, None), (5, "info"), (6, "info")])
def test_persistent_losers(losers: int, expected: str | None) -> None:
    assert severity("persistent_losers", _losers(losers)) == expected


def test_a_tie_with_the_reference_is_no_loss() -> None:
    assert severity("persistent_losers", _losers(50, gap=0.0)) is None


@pytest.mark.parametrize(("seen", "judged"), [(4, False), (5, True)])
def test_prompts_seen_too_seldom_are_not_judged(seen: int, judged: bool) -> None:
    made = make_tables(
        {
            "step": np.repeat(np.arange(seen), 20),
            "prompt_id": np.tile(np.arange(20), seen),
            "reward": np.zeros(20 * seen),
            "ref_reward": np.ones(20 * seen),
        }
    )
    assert isinstance(run("persistent_losers", made), Finding) == judged


def test_many_nan_rewards_are_critical_and_their_first_step_is_named() -> None:
    few = (STEP >= 12) & (INDEX == 3)
    once = few & (STEP == 12)
    for some, level in ((few, "warning"), (once, "info")):
        made = tables(reward=np.where(some, np.nan, 1.0), nan_values=some.astype(int))
        assert severity("nan_metrics", made) == level
    bad = (STEP >= 12) & (INDEX >= 3) & (INDEX < 9)
    made = tables(reward=np.where(bad, np.nan, 1.0), nan_values=bad.astype(int))
    result = find("nan_metrics", made)
    assert result.severity == "critical"
    assert "step 12" in title(result)
    assert (result.evidence[0].step, result.evidence[0].n) == (12, 3)


@pytest.mark.parametrize(
    ("steps", "of_logprobs", "of_values"),
    [((30,), "info", "info"), ((30, 31, 32), "critical", "warning"), ((39,), "warning", "warning")],
)
def test_nan_that_lasts_is_critical_in_logprobs_and_a_warning_in_values(
    steps: tuple[int, ...], of_logprobs: str, of_values: str
) -> None:
    bad = np.isin(STEP, steps) & (INDEX == 0)
    known = {"nan_values": bad.astype(int), "response_tokens": 10.0, "surprisal_mean": 1.0}
    logprobs = tables(**known, logp_tokens=np.where(bad, 7.0, 10.0))
    assert severity("nan_metrics", logprobs) == of_logprobs
    assert severity("nan_metrics", tables(**known, logp_tokens=10.0)) == of_values
    assert severity("nan_metrics", tables()) is None


def _log(**changes: object) -> Tables:
    return replace(tables(), **changes)  # type: ignore[arg-type]


def test_unreadable_lines_warn_from_a_thousandth_on() -> None:
    files = [LogFile("a.jsonl", 1, rows=2000, lines=4004, bad=4)]
    line = BadLine("a.jsonl", 17, "not JSON")
    few = _log(files=files, bad_lines=[line] * 4, bad_count=4)
    many = _log(files=files, bad_lines=[line] * 5, bad_count=5)
    assert severity("broken_log", few) == "info"
    assert severity("broken_log", many) == "warning"
    result = find("broken_log", many)
    assert "a.jsonl:17" in title(result)


def test_a_torn_last_line_and_cut_arrays_are_only_told() -> None:
    torn = BadLine("a.jsonl", 4001, "torn", torn=True)
    assert severity("broken_log", _log(bad_lines=[torn], bad_count=1)) == "info"
    cut = Note("unequal_lengths", "cut to the shorter", 3)
    assert severity("broken_log", _log(notes=[cut])) == "info"


@pytest.mark.parametrize(
    ("step", "left", "expected"),
    [(20, 90, None), (20, 89, "warning"), (39, 50, "info"), (39, 90, None)],
)
def test_steps_with_fewer_responses(step: int, left: int, expected: str | None) -> None:
    kept = (step != STEP) | (left > INDEX)
    made = make_tables({"step": STEP[kept], "reward": SIGN[kept]})
    assert severity("broken_log", made) == expected


def test_a_run_whose_steps_have_no_usual_size_is_not_judged_by_it() -> None:
    kept = (20 + STEP * 2) > INDEX
    assert severity("broken_log", make_tables({"step": STEP[kept], "reward": SIGN[kept]})) is None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (range(10), None),
        ([1, *range(100, 1000, 100)], None),
        ([0, 1, 2, 3, 5, 6, 7, 8], "warning"),
        ([0, 1, 3, 7, 8, 20, 21], None),
    ],
)
def test_missing_steps_are_gaps_in_an_even_cadence(steps: list[int], expected: str | None) -> None:
    step = np.repeat(np.array(list(steps)), 4)
    assert severity("broken_log", make_tables({"step": step, "reward": step * 0.1})) == expected


@pytest.mark.parametrize(("end", "expected"), [(38, None), (37, "warning"), (20, "warning")])
def test_a_rank_that_stops_early(end: int, expected: str | None) -> None:
    rank = INDEX % 2
    kept = (rank == 0) | (end >= STEP)
    made = make_tables({"step": STEP[kept], "reward": SIGN[kept], "file": rank[kept]})
    made = replace(made, files=[LogFile("rank_0.jsonl", 1), LogFile("rank_1.jsonl", 1)])
    result = run("broken_log", made)
    found = isinstance(result, Finding) and "rank_1.jsonl" in title(result)
    assert found == (expected is not None)


def test_files_that_follow_each_other_are_no_ranks() -> None:
    made = tables(file=(STEP >= 20).astype(int))
    made = replace(made, files=[LogFile("a.jsonl", 1), LogFile("b.jsonl", 1)])
    assert severity("broken_log", made) is None


def test_level_checks_also_judge_a_single_step() -> None:
    made = make_tables({"step": np.zeros(SIZE), "reward": SIGN[:SIZE], "kl_k1": np.full(SIZE, 60)})
    assert severity("kl_explosion", made) == "critical"
