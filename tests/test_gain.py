"""The gain of the reward by its parts: what made it rise, and what did not rise with it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import run_checks
from rlreport.check.gain import VALIDATION, Gain, gain_by_parts
from rlreport.check.parts import is_format
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.law_families import Shape
from tests.law_families_metrics import metrics_log
from tests.law_families_parts import few_answers

STEPS = 60
TIME = np.arange(STEPS) / STEPS
RNG = np.random.default_rng(3)
NOISE = RNG.normal(0, 0.02, (3, STEPS))
FLAT = 0.2 + NOISE[0]
BONUS = 0.1 + 1.5 * TIME + NOISE[1]


def log(weights: dict[str, float] | None = None, **parts: Any) -> Tables:
    """Return a log of metrics alone; the reward is the sum of parts, with these weights or 1."""
    given = weights or {}
    reward = sum(given.get(name, 1.0) * part for name, part in parts.items())
    named = {f"rewards__{name}__mean": part for name, part in parts.items()}
    return metrics_log(STEPS, reward=reward, **named)


def gain_of(tables: Tables) -> Gain:
    gain = gain_by_parts(Run(tables))
    assert gain is not None
    return gain


def severity(tables: Tables, check: str = "unearned_gain") -> str | None:
    finding = BY_ID[check].run(Run(tables)).finding
    return None if finding is None else finding.severity.value


def test_the_parts_of_a_sum_have_their_shares_of_the_gain() -> None:
    gain = gain_of(log(accuracy=0.2 + 0.5 * TIME, style=0.1 + 0.5 * TIME))
    assert [round(part.share, 3) for part in gain.rose] == [0.5, 0.5]
    assert gain.still == ()
    assert not gain.is_unearned


@pytest.mark.parametrize("weight", [0.3, 1.5])
def test_weights_that_are_not_logged_are_fitted(weight: float) -> None:
    right = 0.2 + 0.4 * TIME + NOISE[0]
    gain = gain_of(log({"style": weight}, accuracy=right, style=BONUS))
    shares = {part.name: part.share for part in gain.rose}
    assert shares["style"] / shares["accuracy"] == pytest.approx(
        weight * 1.5 / 0.4, rel=0.2
    )
    assert sum(shares.values()) == pytest.approx(1.0)


def test_weights_are_fitted_to_responses_where_these_have_all() -> None:
    shape = Shape(40, 4, 4)
    right = (RNG.random(shape.rows) < 0.3).astype(float)
    style = RNG.poisson(0.2 + shape.step / 5).astype(float)
    made = shape.log(
        reward=right + 0.25 * style,
        extra={"accuracy": right, "style": style},
        reward_parts=("accuracy", "style"),
    )
    gain = gain_of(made)
    assert gain.rose[0].name == "style"
    assert gain.is_unearned


def test_parts_of_which_the_reward_is_no_sum_tell_no_gain() -> None:
    made = log(accuracy=FLAT, style=BONUS)
    other = 1.5 * TIME + 5 * NOISE[2]
    made.metrics["reward"] = other
    assert gain_by_parts(Run(made)) is None


def test_a_single_part_and_a_reward_that_did_not_rise_tell_no_gain() -> None:
    assert gain_by_parts(Run(log(style=BONUS))) is None
    assert gain_by_parts(Run(log(accuracy=FLAT, style=0.3 + NOISE[1]))) is None


def test_a_gain_of_another_part_alone_is_a_warning_and_keeps_no_checkpoint() -> None:
    verdict = run_checks(log(accuracy=FLAT, politeness=BONUS))
    assert verdict.level == "warning"
    assert verdict.lead == "unearned_gain"
    assert "“politeness”" in verdict.sentence
    assert "“accuracy” hardly rises" in verdict.sentence
    assert verdict.keep_step is None


def test_the_onset_is_that_of_the_part_that_rose() -> None:
    late = np.clip((TIME - 0.5) / 0.1, 0, 1)
    made = log(accuracy=FLAT, politeness=0.1 + late + NOISE[1])
    finding = BY_ID["unearned_gain"].run(Run(made)).finding
    assert finding is not None
    assert finding.onset is not None
    assert 28 <= finding.onset.low <= 32 <= finding.onset.high <= 36


def test_a_gain_of_the_format_alone_is_a_note_and_nothing_is_healthy() -> None:
    verdict = run_checks(log(accuracy=FLAT, format_reward=np.clip(BONUS, 0, 1)))
    (note,) = [one for one in verdict.findings if one.id == "unearned_gain"]
    assert note.severity == "info"
    assert verdict.level == "unclear"
    assert verdict.keep_step is None


def test_what_the_user_mutes_neither_warns_nor_bars_a_checkpoint() -> None:
    made = log(accuracy=FLAT, politeness=BONUS)
    verdict = run_checks(made, muted={"unearned_gain": "the bonus is the task"})
    assert verdict.level == "healthy"
    assert verdict.keep_step == STEPS


def test_right_answers_that_fell_are_said_to_have_fallen() -> None:
    finding = BY_ID["unearned_gain"].run(
        Run(log(accuracy=np.maximum(0.4 - 0.6 * TIME, 0), politeness=BONUS))
    )
    assert finding.finding is not None
    told = str(BY_ID["unearned_gain"].format_title(finding.finding.facts))
    assert "“accuracy” fell from 0.4" in told


QUIET = {
    "right answers rise as well": log(accuracy=0.2 + 0.4 * TIME, politeness=BONUS),
    "they rise a little, and surely": log(
        accuracy=0.2 + 0.1 * TIME + NOISE[0] / 4, politeness=BONUS
    ),
    "most are right already": log(accuracy=0.8 + NOISE[0], politeness=BONUS),
    "they rose and fell": log(
        accuracy=0.2 + 0.4 * np.sin(np.pi * TIME) ** 4, politeness=BONUS
    ),
    "a penalty goes to 0": log(accuracy=FLAT, cut_off=np.minimum(TIME - 1, 0)),
    "no part tells what is right": log(style=FLAT, politeness=BONUS),
}


@pytest.mark.parametrize("made", QUIET.values(), ids=QUIET)
def test_no_gain_is_called_unearned_where(made: Tables) -> None:
    assert severity(made) is None


@pytest.mark.parametrize("seed", range(6))
def test_a_few_answers_a_step_do_not_prove_that_none_became_right(seed: int) -> None:
    random = np.random.default_rng(seed)
    assert severity(few_answers(random, Shape(30, 1, 4), 0.0)) is None


def rare_answers(rise: float) -> Tables:
    """Return a log of which few answers are right, by ``rise`` more at the end."""
    right = np.random.default_rng(1).binomial(100, 0.002 + rise * TIME) / 100
    return log(accuracy=right, compiles=BONUS)


def test_a_rise_of_right_answers_that_is_small_and_may_be_chance_excuses_nothing() -> (
    None
):
    verdict = run_checks(rare_answers(0.01))
    assert verdict.level == "warning"
    assert "of the gain is “compiles”, while “accuracy” hardly rises" in verdict.what


def test_a_run_is_not_healthy_if_nothing_shows_that_its_task_gained() -> None:
    one_answer_a_step = np.random.default_rng(0).binomial(1, 0.1 + 0.25 * TIME)
    verdict = run_checks(log(accuracy=one_answer_a_step, politeness=3 * BONUS))
    assert verdict.level == "unclear"
    assert verdict.what.startswith("Unclear: the reward rose from ")
    assert verdict.what.endswith(", 93% of it “politeness”.")
    assert "of the gain" not in verdict.course_sentence
    (note,) = [one for one in verdict.findings if one.id == "unearned_gain"]
    assert note.severity == "info"
    assert "whether “accuracy” rose is open" in note.title
    assert (verdict.keep_step, verdict.checkpoint.none_is_better) == (None, False)


def test_a_run_whose_task_gained_little_but_surely_is_healthy_and_names_the_rest() -> (
    None
):
    verdict = run_checks(rare_answers(0.06))
    assert verdict.level == "healthy"
    assert verdict.keep_step == STEPS
    assert "“compiles”" in verdict.sentence


@pytest.mark.parametrize("beside", ["format", "brevity"])
def test_a_part_of_another_name_is_the_task_beside_form_and_length(beside: str) -> None:
    verdict = run_checks(log(helpfulness=FLAT, **{beside: BONUS}))
    assert verdict.level == "unclear"
    assert f", all of it “{beside}”." in verdict.what
    risen = run_checks(log(helpfulness=FLAT + 0.5 * TIME, **{beside: BONUS}))
    assert risen.level == "healthy"
    assert f"“{beside}”" in risen.what


def test_the_first_line_names_no_part_that_is_not_half_of_the_gain() -> None:
    parts = dict.fromkeys(("one", "two", "three"), 0.1 + 0.5 * TIME + NOISE[1])
    verdict = run_checks(log(**parts))
    assert "of it" not in verdict.what
    assert verdict.course_sentence.endswith(
        "The gain is 33% “one”, 33% “two”, 33% “three”."
    )


def test_validation_that_rises_clears_a_gain_and_one_that_stays_is_named() -> None:
    made = log(style=FLAT, politeness=BONUS)
    evaluations = np.where(np.arange(STEPS) % 6 == 0, 1.0, np.nan)
    rising = (0.2 + 0.5 * TIME) * evaluations
    assert severity(_with_validation(made, rising)) is None
    gain = gain_of(_with_validation(made, 0.2 * evaluations + NOISE[2] / 4))
    assert gain.is_unearned
    assert [one.name for one in gain.still] == [VALIDATION]


def _with_validation(made: Tables, values: Any) -> Tables:
    return replace(made, metrics=made.metrics.assign(**{"eval/reward": values}))


@pytest.mark.parametrize(
    "name",
    ["format_reward", "xmlcount_reward_func", "soft_format", "boxed", "int_reward"],
)
def test_names_of_formats(name: str) -> None:
    assert is_format(name)


@pytest.mark.parametrize(
    "name", ["politeness", "accuracy", "staging", "print", "style"]
)
def test_names_of_other_parts(name: str) -> None:
    assert not is_format(name)


def test_a_copy_of_the_reward_is_not_the_part_that_made_it_rise() -> None:
    made = log(accuracy=0.2 + 0.5 * TIME, politeness=BONUS)
    copied = made.metrics.assign(**{"rewards/score/mean": made.metrics["reward"]})
    gain = gain_of(replace(made, metrics=pd.DataFrame(copied)))
    assert {part.name for part in gain.rose} == {"accuracy", "politeness"}


def test_a_format_that_is_all_of_the_reward_is_not_taken_for_a_copy_of_it() -> None:
    made = log(accuracy_reward=0.0 * TIME, think_format_reward=BONUS)
    gain = gain_of(made)
    assert [part.name for part in gain.rose] == ["think_format_reward"]
    assert [part.name for part in gain.still] == ["accuracy_reward"]
    verdict = run_checks(made)
    assert verdict.level == "unclear"
    assert "think_format_reward" in verdict.what


def test_a_part_that_is_always_0_is_noted_but_no_penalty() -> None:
    made = log(accuracy=0.2 + 0.5 * TIME, tool_use=0.0 * TIME)
    assert severity(made, "part_stays_zero") == "info"
    once = np.where(np.arange(STEPS) == 5, 0.01, 0.0)
    assert severity(log(accuracy=TIME, tool_use=once), "part_stays_zero") is None
    assert severity(log(accuracy=TIME, penalty=0.0 * TIME), "part_stays_zero") is None
    assert severity(log(accuracy=0.0 * TIME), "part_stays_zero") is None
