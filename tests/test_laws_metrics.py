"""Relations between the trainer's metrics: just over and just under their limits, quiet twins."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import run_checks
from rlreport.check.finding import Finding
from rlreport.check.parts import part_name, tells_right
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.metrics.consoles import console_rows
from rlreport.metrics.find import find_and_read
from rlreport.metrics.progress_bars import Bars
from rlreport.summarise.steps import trainer_steps
from rlreport.tables import Tables
from rlreport.text.language import Language
from tests.law_families import Shape
from tests.law_families_metrics import metrics_log, tools

STEPS = 40
TIME = np.arange(STEPS) / STEPS
NOISE = np.random.default_rng(1).normal(0, 0.02, STEPS)
REWARD = 0.3 + 0.4 * TIME + NOISE
FLAT = 0.5 + NOISE


def found(check: str, tables: Tables) -> Finding | None:
    return BY_ID[check].run(Run(tables)).finding


def severity(check: str, tables: Tables) -> str | None:
    finding = found(check, tables)
    return None if finding is None else finding.severity.value


def log(**metrics: Any) -> Tables:
    return metrics_log(STEPS, **{"reward": REWARD, **metrics})


def clipped(share: float, **metrics: Any) -> Tables:
    return log(
        completions__clipped_ratio=share,
        completions__mean_length=500.0,
        completions__max_length=1000.0,
        **metrics,
    )


CASES_OF_SHARES = [(0.60, False), (0.61, True)]


@pytest.mark.parametrize(("share", "is_found"), CASES_OF_SHARES)
def test_a_share_cut_off_needs_a_mean_length(share: float, is_found: bool) -> None:
    tables = clipped(share)
    assert (severity("clip_share_contradicts", tables) == "info") is is_found
    # What contradicts itself is not told as a finding, and leads no verdict.
    assert (severity("missing_eos", tables) is None) is is_found


def test_a_contradicted_share_leaves_the_verdict_healthy() -> None:
    verdict = run_checks(clipped(0.97))
    assert verdict.level == "healthy"
    assert "missing_eos" in [check.id for check in verdict.not_run]


def test_conversations_are_cut_off_at_other_lengths() -> None:
    assert severity("clip_share_contradicts", clipped(0.97, num_turns=3.0)) is None


def with_lengths(factor: float) -> Tables:
    """Rollouts of 20 steps whose trainer logs ``factor`` times their length."""
    shape = Shape(20, 1, 8)
    tokens = 100.0 + 10 * np.tile(np.arange(8), 20) + shape.step % 3
    tables = shape.log(reward=1.0, response_tokens=tokens)
    by_step = pd.Series(tokens).groupby(shape.step).mean().to_numpy()
    metrics = {"step": 1 + np.arange(20), "completions/mean_length": factor * by_step}
    return replace(tables, metrics=pd.DataFrame(metrics))


@pytest.mark.parametrize("factor", [1.9, 0.55])
def test_sources_that_differ_by_less_than_half_agree(factor: float) -> None:
    assert severity("sources_disagree", with_lengths(factor)) is None


@pytest.mark.parametrize("factor", [2.1, 0.45])
def test_sources_that_differ_by_more_disagree(factor: float) -> None:
    finding = found("sources_disagree", with_lengths(factor))
    assert finding is not None and finding.facts["kind"] == "length"


def test_a_metric_of_unknown_unit_is_not_compared() -> None:
    tables = with_lengths(4.0)
    columns = {"completions/mean_length": "gen_len"}  # maybe characters
    other = replace(tables, metrics=tables.metrics.rename(columns=columns))
    assert severity("sources_disagree", other) is None


def test_a_rise_by_a_contradicted_metric_is_said_to_be_one() -> None:
    tables = with_lengths(1.0)
    rising = np.arange(20) + 3.0
    metrics = pd.DataFrame({"step": 1 + np.arange(20), "reward": rising})
    verdict = run_checks(replace(tables, metrics=metrics))
    assert "which the logged responses contradict" in verdict.sentence


@pytest.mark.parametrize(
    ("zeros", "silent", "is_found"),
    [
        (9, 0.5, True),
        (8, 0.5, False),  # 20% of the steps is not more than 20%
        (30, 1.0, False),  # without a signal there is no gradient
    ],
)
def test_a_gradient_is_missed_where_rewards_in_groups_differ(
    zeros: int, silent: float, is_found: bool
) -> None:
    # Spread over the run
    norm = np.full(STEPS, 0.3)
    norm[np.linspace(0, STEPS - 1, zeros).astype(np.int64)] = 0.0
    tables = log(grad_norm=norm, frac_reward_zero_std=silent)
    finding = found("no_updates", tables)
    assert (finding is not None and finding.facts["kind"] == "trained") is is_found


@pytest.mark.parametrize("spread", [0.3, 0.0])
def test_rewards_that_differ_in_no_group(spread: float) -> None:
    tables = log(grad_norm=0.3, reward_std=0.0, rewards__accuracy__std=spread, loss=0.1)
    finding = found("no_updates", tables)
    assert (finding is not None) == (spread > 0)
    assert finding is None or finding.facts["kind"] == "groups"


def test_a_learning_rate_printed_as_0_beside_a_gradient_is_unknown() -> None:
    assert severity("no_updates", log(learning_rate=0.0, grad_norm=0.3)) is None


def test_a_learning_rate_printed_as_0_is_unknown_where_the_reward_moves() -> None:
    reward = np.linspace(0.1, 1.5, STEPS)
    assert severity("no_updates", log(learning_rate=0.0, reward=reward)) is None
    flat = np.full(STEPS, 0.5)
    assert severity("no_updates", log(learning_rate=0.0, reward=flat)) == "warning"


def ending(level: float, noise: float) -> Tables:
    end = level + noise * np.sign(NOISE)
    return metrics_log(STEPS, reward=np.where(TIME < 0.6, FLAT + 0.5 * TIME, end))


def test_a_reward_that_becomes_a_constant_is_found() -> None:
    assert severity("constant_reward", ending(0.3, 0.0005)) == "warning"


@pytest.mark.parametrize(
    ("level", "noise"),
    [(0.3, 0.01), (1.0, 0.0)],  # noise goes on; the best level of all
)
def test_a_reward_with_noise_or_at_its_best_is_no_constant(
    level: float, noise: float
) -> None:
    assert severity("constant_reward", ending(level, noise)) is None


def test_a_sparse_reward_is_no_constant() -> None:
    sparse = np.zeros(STEPS)
    sparse[[4, 13, 22]] = 0.1
    assert severity("constant_reward", metrics_log(STEPS, reward=sparse)) is None


def test_responses_of_a_token_or_two() -> None:
    just_over = metrics_log(STEPS, reward=-1.0, completion_length=2.6)
    just_under = metrics_log(STEPS, reward=-1.0, completion_length=2.4)
    assert severity("tiny_responses", just_over) is None
    assert severity("tiny_responses", just_under) == "warning"


def test_short_answers_that_earn_different_rewards_are_a_task() -> None:
    assert severity("tiny_responses", log(completion_length=1.0)) is None


def test_a_share_above_1_is_impossible_and_not_judged() -> None:
    rounded = log(completions__clipped_ratio=1.0005)
    assert severity("impossible_values", rounded) is None
    assert severity("missing_eos", rounded) == "warning"
    impossible = log(completions__clipped_ratio=1.01)
    assert severity("impossible_values", impossible) == "info"
    assert severity("missing_eos", impossible) is None


def test_a_metric_of_an_unknown_logger_may_be_a_count() -> None:
    tables = log(truncated_frac=35.0)
    assert severity("impossible_values", tables) is None
    assert severity("missing_eos", tables) is None


def drifting(rise: float, reward: Any) -> Tables:
    return metrics_log(
        STEPS,
        reward=reward,
        kl=np.abs(1.02 * rise * TIME + NOISE / 50),
        completions__mean_length=300 + 50 * NOISE,
    )


def test_rollouts_that_do_not_follow_the_policy() -> None:
    assert severity("stuck_rollouts", drifting(0.12, FLAT)) == "info"
    assert severity("stuck_rollouts", drifting(0.08, FLAT)) is None
    assert severity("stuck_rollouts", drifting(0.5, REWARD)) is None


def of_parts(left: float) -> Tables:
    """Accuracy keeps the part ``left`` of its level; politeness rises all the time."""
    accuracy = 0.4 * np.where(TIME < 0.5, 1.0, left) + NOISE / 4
    politeness = 2 * TIME
    return metrics_log(
        STEPS,
        reward=accuracy + politeness,
        rewards__accuracy_reward__mean=np.maximum(accuracy, 0),
        rewards__politeness__mean=politeness,
        rewards__accuracy_reward__std=0.3,
    )


def test_a_part_that_loses_most_of_its_level() -> None:
    assert severity("part_falls", of_parts(0.45)) == "warning"
    assert severity("part_falls", of_parts(0.58)) is None


def test_a_fallen_part_bars_healthy_and_the_last_checkpoint() -> None:
    verdict = run_checks(of_parts(0.0))
    assert verdict.level == "warning"
    assert "“accuracy_reward” falls" in verdict.sentence
    # Accuracy gained nothing before it fell.
    assert verdict.keep_step is None


def test_a_fall_of_the_whole_reward_is_no_fall_of_a_part() -> None:
    accuracy = np.where(TIME < 0.5, 0.4, 0.0) + np.abs(NOISE)
    tables = metrics_log(
        STEPS, reward=accuracy + NOISE, rewards__accuracy__mean=accuracy
    )
    assert severity("part_falls", tables) is None


def test_accuracy_stands_in_for_validation_under_its_own_name() -> None:
    tables = of_parts(1.5)
    course = run_checks(tables).courses["accuracy"]
    assert (course.name, course.column) == (
        "accuracy_reward",
        "rewards/accuracy_reward/mean",
    )
    evaluated = tables.metrics.assign(eval_reward=TIME)
    courses = run_checks(replace(tables, metrics=evaluated)).courses
    assert "accuracy" not in courses and "validation" in courses


def test_a_single_part_that_is_the_reward_is_no_part() -> None:
    tables = metrics_log(STEPS, reward=REWARD, rewards__accuracy__mean=REWARD)
    assert "accuracy" not in run_checks(tables).courses


@pytest.mark.parametrize(
    ("metric", "part"),
    [
        ("rewards/accuracy_reward/mean", "accuracy_reward"),
        ("train/rewards/Format", "Format"),
        ("reward/correctness_f", "correctness_f"),
        ("env/all/correct", "correct"),
        ("train/agg/all/maths/metrics/correct_answer/mean", "correct_answer"),
        ("train/rollout/format_reward_mean", "format_reward"),
        ("rewards/accuracy/std", None),
        ("eval_rewards/accuracy/mean", None),
        ("val/accuracy_reward", None),
        ("rewards/chosen", None),
        ("reward/overall", None),
        ("rewards/length_penalty/mean", None),
        ("objective/rlhf_reward", None),
        ("objective/non_score_reward", None),
        ("reward/kl", None),
        ("critic/rewards/mean", None),
    ],
)
def test_which_metrics_are_parts(metric: str, part: str | None) -> None:
    assert part_name(metric) == part


@pytest.mark.parametrize("name", ["accuracy", "acc", "correctness_reward_func"])
def test_names_that_tell_what_is_right(name: str) -> None:
    assert tells_right(name)


@pytest.mark.parametrize("name", ["incorrect", "format_accuracy", "place", "accent"])
def test_names_that_do_not(name: str) -> None:
    assert not tells_right(name)


OLD = b"""epoch: 0|step: 0|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0
average reward score: 0.75
-------------------------------------------------------------------------------------
epoch: 0|step: 1|ppo_ep: 1|act_loss: inf|cri_loss: 0.5|unsuper_loss: 0.0
average reward score: -1.5
epoch: 1|step: 0|ppo_ep: 1|act_loss: 0.125|cri_loss: 0.5|unsuper_loss: 0.0
average reward score: 2.0
"""
NEW = (
    b"Epoch: 0 | Step: 7 | PPO Epoch: 1 | Actor Loss: 0.25 | Critic Loss: 0.5\n"
    b"End-to-End => Latency: 2.87s\nAverage reward score: 0.75 | EMA reward score: 0.1\n"
)


def printed_steps(console: bytes) -> dict[int | None, dict[str, str]]:
    """Return step -> metrics as a console prints them."""
    rows = console_rows(enumerate(console.splitlines()), Bars())
    return {row.step: row.cells for row in rows}


def test_steps_of_deepspeed_chat_go_on_counting_in_the_next_epoch() -> None:
    steps = printed_steps(OLD)
    rewards = {step: cells["average_reward_score"] for step, cells in steps.items()}
    assert rewards == {0: "0.75", 1: "-1.5", 2: "2.0"}
    assert steps[1]["act_loss"] == "inf"


def test_newer_lines_of_deepspeed_chat_are_read() -> None:
    assert printed_steps(NEW) == {
        7: {"actor_loss": "0.25", "critic_loss": "0.5", "average_reward_score": "0.75"}
    }


def test_a_console_log_in_a_folder_is_read_as_metrics(tmp_path: Path) -> None:
    (tmp_path / "training.log").write_bytes(OLD)
    table = find_and_read([tmp_path]).table
    assert table["average_reward_score"].tolist() == [0.75, -1.5, 2.0]


def parts_log(**parts: Any) -> Tables:
    """Return metrics of a reward that is the sum of its parts, each by its sign."""
    steps = 60
    random = np.random.default_rng(4)
    metrics = {}
    total = np.zeros(steps)
    for name, (level, weight) in parts.items():
        values = level + random.normal(0, 0.01, steps)
        metrics[f"rewards__{name}"] = values
        total = total + weight * values
    return metrics_log(steps, reward=total, **metrics)


FALLING = np.where(np.arange(60) < 30, 0.5, 0.05)
RISING = np.linspace(0.1, 1.5, 60)


@pytest.mark.parametrize(
    ("weight", "is_told"),
    [(1.0, True), (0.0, False), (-1.0, False)],
    ids=["paid", "not in the reward", "a penalty logged as a positive number"],
)
def test_only_a_part_that_is_paid_can_fall(weight: float, is_told: bool) -> None:
    made = parts_log(helpful=(FALLING, weight), style=(RISING, 1.0))
    result = BY_ID["part_falls"].run(Run(made))
    assert (result.finding is not None) == is_told


def test_a_rate_of_failures_is_no_part_of_the_reward() -> None:
    assert part_name("reward/judge_failed_rate") is None


def test_an_accuracy_that_falls_by_less_than_half_is_told_where_validation_is_missing() -> (
    None
):
    steps = np.arange(40)
    accuracy = np.where(steps < 10, 0.99, 0.64)
    random = np.random.default_rng(2)
    metrics = {
        "accuracy": accuracy + random.normal(0, 0.01, 40),
        "reward": random.normal(0, 0.1, 40),
    }
    verdict = run_checks(metrics_log(40, **metrics))
    (fall,) = [one for one in verdict.findings if one.id == "watched_reward_fall"]
    assert fall.facts["part"] == "accuracy"
    assert verdict.level == "warning"


def test_calls_that_are_no_longer_unparsed_are_no_tool_that_is_disused() -> None:
    check = BY_ID["tool_disuse"]
    random = np.random.default_rng(3)
    made = tools(random, Shape(40, 8, 8), 1.0)
    assert check.run(Run(made)).finding is not None
    names = made.tools["tool"].replace("search", "")
    unparsed = replace(made, tools=made.tools.assign(tool=names))
    assert check.run(Run(unparsed)).finding is None


def dropping(steps: list[int], *, to: float = 0.0, **metrics: Any) -> Tables:
    """A reward that drops in these steps, counted from 1."""
    reward = REWARD.copy()
    reward[np.array(steps) - 1] = to
    return metrics_log(STEPS, reward=reward, **metrics)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([4, 14, 24, 34], "warning"),
        ([8, 16, 24, 32, 40], "warning"),
        ([4, 14, 25, 34], None),  # at unequal distances
        ([4, 14, 24], None),  # the drop of step 34 is missing, and three may be chance
        ([1, 3, 5, 7, 9, 11, 13], None),  # two kinds of batches take turns
    ],
)
def test_drops_recur_at_equal_distances(steps: list[int], expected: str | None) -> None:
    assert severity("recurring_drops", dropping(steps)) == expected


def test_three_drops_after_validations_are_enough() -> None:
    score = np.full(STEPS, np.nan)
    score[[9, 19, 29, 39]] = [0.3, 0.4, 0.5, 0.6]
    made = dropping([11, 21, 31])
    validated = made.metrics.assign(**{"eval/score": score})
    finding = found("recurring_drops", replace(made, metrics=validated))
    assert finding is not None and finding.facts["kind"] == "validation"
    assert finding.facts["distance"] == 10
    assert finding.steps == (11, 21, 31)


def test_drops_to_a_part_of_the_reward_are_a_note() -> None:
    tables = dropping([4, 14, 24, 34], to=0.15)
    assert severity("recurring_drops", tables) == "info"


def padded(**metrics: Any) -> Tables:
    lengths = 300 + 100 * np.sin(np.arange(STEPS))
    return log(
        reward_std=0.4,
        completions__mean_length=lengths,
        completions__max_length=lengths,
        **metrics,
    )


def test_a_mean_length_that_is_the_largest_one_counts_padding() -> None:
    finding = found("impossible_values", padded())
    assert finding is not None and finding.facts["kind"] == "length"


def test_a_length_is_no_sign_of_padding_where_responses_may_be_the_same() -> None:
    made = padded()
    alike = made.metrics.assign(reward_std=0.0)
    assert found("impossible_values", replace(made, metrics=alike)) is None
    fixed = {"completions/mean_length": 5.0, "completions/max_length": 5.0}
    answers = made.metrics.assign(**fixed)
    assert found("impossible_values", replace(made, metrics=answers)) is None


def test_an_accuracy_below_0_is_noted() -> None:
    score = np.linspace(-0.3, 0.4, STEPS)
    finding = found("impossible_values", log(**{"val-core/gsm8k/acc/mean@1": score}))
    assert finding is not None and finding.facts["kind"] == "right"
    assert finding.facts["value"] == pytest.approx(-0.3)


def test_the_unit_of_a_length_that_only_metrics_log_is_translated() -> None:
    lengths = np.where(np.arange(STEPS) < STEPS // 2, 900.0, 4.0) + NOISE
    finding = found("length_collapse", log(response_length__mean=lengths))
    assert finding is not None
    title = BY_ID[finding.id].format_title(finding.facts)
    assert "tokens" in title
    assert "词元" in Language("zh").of(title)


def parts_of(accuracy: object) -> Tables:
    return log(
        rewards__accuracy_reward__mean=accuracy,
        rewards__format_reward__mean=REWARD - 0.1,
    )


NEVER = (0.0, "one")
ACCURACIES = [NEVER, (0.5, "same"), (1.0, None), (FLAT, None)]


@pytest.mark.parametrize(("accuracy", "kind"), ACCURACIES)
def test_a_part_that_tells_right_answers_and_never_changes_is_noted(
    accuracy: object, kind: str | None
) -> None:
    finding = found("part_stays_zero", parts_of(accuracy))
    assert (finding and finding.facts["kind"]) == kind


def test_a_part_that_stays_0_is_noted_though_no_other_part_is_logged() -> None:
    tables = log(rewards__accuracy_reward__mean=0.0)
    finding = found("part_stays_zero", tables)
    assert finding is not None and finding.facts["kind"] == "one"


GAINS = [(0.0, "info"), (0.3, None)]


@pytest.mark.parametrize(("gain", "expected"), GAINS)
def test_a_sampler_that_stays_behind_is_noted(
    gain: float, expected: str | None
) -> None:
    # The trainer moves away from what it samples from, which stays the same.
    distance = 0.001 + 0.03 * TIME + 0.001 * np.abs(NOISE) / 0.02
    tables = metrics_log(
        STEPS,
        reward=0.5 + gain * TIME + NOISE,
        response_length__mean=300 + 200 * NOISE,
        rollout_corr__k3_kl=distance,
    )
    assert severity("stuck_rollouts", tables) == expected


ENDS = [(-70.0, "never"), (0.2, None)]


@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_a_critic_that_never_follows_the_returns_is_noted(
    end: float, kind: str | None
) -> None:
    explained = np.linspace(-70.0, end, STEPS) + NOISE
    finding = found("value_divergence", log(critic__vf_explained_var=explained))
    assert (finding and finding.facts["kind"]) == kind


def test_a_loss_of_the_critic_that_is_always_nan_is_told() -> None:
    made = log(actor__grad_norm=0.3)
    steps = list(range(1, STEPS + 1))
    broken = replace(made, metrics_broken={"critic/vf_loss": steps})
    finding = found("nan_metrics", broken)
    assert finding is not None and finding.severity.value == "warning"
    # Without a reference there is no KL, which may be logged as NaN.
    broken = replace(made, metrics_broken={"actor/kl_loss": steps})
    assert found("nan_metrics", broken) is None


@pytest.mark.parametrize(
    "name", ["policy_staleness/mean", "version_lag/avg", "sample_staleness/mean"]
)
def test_names_of_staleness(name: str) -> None:
    lag = np.where(TIME < 0.4, 1.0, 20.0) + NOISE
    assert severity("stale_rollouts", log(**{name: lag})) == "warning"


@pytest.mark.parametrize("every", [1, 10])
def test_a_gradient_of_one_step_is_not_held_against_the_groups_of_ten(
    every: int,
) -> None:
    """The share of equal groups is a mean over the steps that a row covers, the norm is not."""
    silent = np.tile([0.7, 0.8, 0.6, 0.9], STEPS // 4)
    norm = np.where(np.arange(STEPS) % 10 < 8, 0.0, 0.5)
    made = log(frac_reward_zero_std=silent, grad_norm=norm)
    spaced = made.metrics.assign(step=every * made.metrics["step"])
    steps = trainer_steps(spaced)
    judged = severity("no_updates", replace(made, metrics=spaced, steps=steps))
    assert judged == ("warning" if every == 1 else None)


def test_rewards_that_never_differ_give_no_signal() -> None:
    flat = np.zeros(STEPS)
    made = log(reward=flat, reward_std=flat, loss=flat)
    finding = found("zero_variance_groups", made)
    assert finding is not None
    assert finding.severity.value == "warning"
    assert finding.facts["kind"] == "never"
    # One step with a spread, and it is not known how many groups are equal.
    some = flat.copy()
    some[7] = 0.1
    assert found("zero_variance_groups", log(reward=flat, reward_std=some)) is None
