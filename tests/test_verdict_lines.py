"""The four lines of the verdict: what happened, the course, and the checkpoint to keep."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.causes import in_order
from rlreport.check.finding import Finding, Onset, Severity, ToldFinding
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.check.sentence import MAX_WORDS, headline
from rlreport.check.verdict import Verdict
from tests.tables_builder import (
    INDEX,
    SIGN,
    STEP,
    STEPS,
    evaluated,
    make_tables,
    tables,
)

# A reward of 0 and 1, half of each, whose share of 1 is 0.1 at first and 0.9 in the last step
RISING = (INDEX % 100 < 10 + 2 * STEP).astype(float)
DEATH = 30
DYING = np.where(STEP < DEATH, RISING, 0.0)


def found(verdict: Verdict, check: str) -> ToldFinding:
    """Return the finding of a check."""
    return next(one for one in verdict.findings if one.id == check)


def test_what_a_dead_run_shows_at_its_end_follows_from_the_death() -> None:
    spread = np.where(STEP < DEATH, 0.4, 0.0)
    groups_of_ten = STEP * 10 + INDEX % 10
    verdict = run_checks(
        tables(reward=DYING, prompt_id=groups_of_ten, surprisal_mean=spread + 0.5)
    )
    assert verdict.lead == "reward_collapse"
    groups = found(verdict, "zero_variance_groups")
    assert groups.explained_by == "reward_collapse"
    assert groups.rank == "consequence", "as a cause it is judged before the death"
    assert groups.onset is not None
    assert groups.onset.low >= DEATH - 1, "it began no earlier than the death"


def test_a_cause_is_judged_on_what_lies_before_the_death() -> None:
    """Of half of the tokens clipped long before the death, the calm end hides nothing."""
    clipped = np.where((STEP >= 12) & (STEP < DEATH), 0.6, 0.0)
    reward = np.where(STEP < 12, 0.5 + 0.1 * SIGN, 0.2)
    reward = np.where(STEP < DEATH, reward, 0.0)
    verdict = run_checks(
        tables(reward=reward, ratio_tokens=16.0, ratio_mean=1.0, ratio_outside=clipped)
    )
    clip = found(verdict, "ratio_drift")
    assert clip.onset is not None
    assert (clip.rank, clip.onset.step) == ("cause", 12)


def test_a_problem_that_was_there_while_the_run_gained_explains_no_loss() -> None:
    """Entropy is low since step 3, the reward rises until step 30 and then falls."""
    certain = np.where(STEP < 3, 0.9, 0.02)
    reward = np.where(STEP < DEATH, RISING, 0.15 + 0.15 * SIGN)
    verdict = run_checks(tables(reward=reward, surprisal_mean=certain))
    assert verdict.keep_step is not None
    assert verdict.keep_step > 3
    assert verdict.lead == "reward_collapse"
    assert found(verdict, "reward_collapse").explained_by is None
    assert found(verdict, "entropy_collapse").explained_by is None


@pytest.mark.parametrize(
    ("settings", "has_groups"),
    [
        ({}, True),
        ({"algorithm.adv_estimator": "grpo", "loss_type": "grpo"}, True),
        ({"actor.loss_type": "clip", "algorithm.adv_estimator": "gae"}, False),
        ({"advantage_estimator": "reinforce++"}, False),
        ({"loss_type": "no_baseline"}, False),
    ],
)
def test_groups_of_equal_rewards_are_no_fault_of_a_loss_without_group_baseline(
    settings: dict[str, str], has_groups: bool
) -> None:
    pairs = STEP * 50 + INDEX // 2
    made = tables(reward=0.0, prompt_id=pairs)
    result = BY_ID["zero_variance_groups"].run(Run(made, settings=settings))
    assert bool(result.finding) == has_groups
    assert bool(result.needs) != has_groups


NOISE = np.random.default_rng(3).normal(size=len(STEP))
FEW = STEP < 2


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"reward": RISING}, "Keep the last checkpoint."),
        (
            {"reward": DYING},
            f"Keep step {DEATH - 1} or the checkpoint before it.",
        ),
        (
            {"reward": NOISE},
            "No checkpoint is better than the start: nothing was gained.",
        ),
        (
            {"reward": np.where(STEP < 2, 0.5 + 0.5 * SIGN, 0.0)},
            "No checkpoint is better than the start: nothing was gained before the fault.",
        ),
        (
            {"reward": np.nan},
            "The log does not tell which checkpoint is best.",
        ),
    ],
    ids=["gained", "broke", "nothing gained", "broke at once", "ungraded"],
)
def test_the_checkpoint_is_one_sentence_always(columns, sentence) -> None:
    verdict = run_checks(tables(**columns))
    assert verdict.next.endswith(sentence)
    assert verdict.sentence.endswith(sentence)


def test_a_run_of_two_steps_does_not_tell_which_checkpoint_is_best() -> None:
    step = STEP[FEW]
    verdict = run_checks(make_tables({"step": step, "reward": SIGN[FEW]}))
    assert verdict.next == "The log does not tell which checkpoint is best."
    assert verdict.checkpoint.why == "its steps are too few"


def test_the_verdict_in_a_few_words_is_no_advice_where_the_gain_is_the_format() -> None:
    learned = run_checks(tables(reward=RISING, kl_k1=0.1))
    course = learned.courses["reward"]
    assert headline(replace(learned, right_answers=course)) == headline(learned)
    assert headline(learned) == "Healthy"


def test_what_may_be_noise_names_no_checkpoint() -> None:
    """A reward that ends above its start, within noise: neither kept nor called worse."""
    drift = 0.04 * STEP / STEPS
    step_noise = np.random.default_rng(5).normal(size=STEPS)[STEP]
    reward = drift + 0.02 * step_noise + 0.5 * NOISE
    verdict = run_checks(tables(reward=reward))
    assert verdict.keep_step is None
    assert "checkpoint" in verdict.next


def test_where_validation_fell_its_best_checkpoint_is_kept_even_if_the_gain_is_luck() -> (
    None
):
    scores = [50.8, 56.2, 54.8, 46.0, 32.0, 35.0, 9.0, 28.0, 30.0, 18.0, 35.0]
    verdict = run_checks(evaluated(scores))
    assert verdict.lead == "watched_reward_fall"
    assert verdict.what.startswith("Warning: validation falls from 56% to ")
    assert verdict.keep_step in (10, 20)


def test_validation_that_rose_after_the_policy_was_far_away_tells_the_checkpoint() -> (
    None
):
    """Where it never rises again, the checkpoint is one before the distance."""
    rising = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.6, 0.3]
    falling = [0.1, 0.5, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.3]
    kept = {}
    for name, scores in {"rising": rising, "falling": falling}.items():
        run = evaluated(scores)
        far = np.where(run.responses["step"] < 40, 0.1, 60.0)
        verdict = run_checks(replace(run, responses=run.responses.assign(kl_k1=far)))
        assert verdict.lead == "kl_explosion"
        kept[name] = verdict.keep_step
    assert kept["rising"] == 80
    assert kept["falling"] is not None
    assert kept["falling"] < 40


def test_prompts_are_not_called_too_hard_where_the_unpaid_answers_are_right() -> None:
    is_paid = INDEX % 10 == 0
    next_lines = {}
    for name, right in {"format": INDEX % 10 < 8, "answers": is_paid}.items():
        verdict = run_checks(tables(reward=is_paid * 1.0, label_hit=right * 1.0))
        assert verdict.level == "unclear"
        next_lines[name] = verdict.next
    assert next_lines["format"].startswith("Show the answer format in the prompt")
    assert "solved sometimes" in next_lines["answers"]


def test_a_fall_is_told_with_its_levels_and_steps() -> None:
    verdict = run_checks(tables(reward=DYING))
    pattern = (
        rf"Broken: the reward falls from 0\.\d+ to 0 at step {DEATH} and stays there"
    )
    assert re.match(pattern, verdict.what), verdict.what
    assert "from 0.12 (steps 0–2)" in verdict.course_sentence


def test_what_was_there_from_the_first_step_says_so_and_never_rises() -> None:
    verdict = run_checks(tables(reward=RISING, kl_k1=60.0, response_tokens=50.0))
    for finding in verdict.findings:
        if finding.onset is not None and finding.onset.from_start:
            assert not re.search(r"\b(rises|rose|jumps)\b", finding.title), (
                finding.title
            )
            assert not re.search(r"\b(rises|jumps)\b", finding.clause), finding.clause
    kl = found(verdict, "kl_explosion")
    assert kl.onset is not None
    assert kl.onset.from_start
    assert "from the first step on" in verdict.what


def test_the_first_line_and_the_course_have_no_number_twice() -> None:
    verdict = run_checks(tables(reward=RISING, surprisal_mean=0.5))
    numbers = re.findall(r"\d+\.\d+", verdict.what + verdict.course_sentence)
    assert len(numbers) == len(set(numbers))
    assert len(verdict.what.split()) <= MAX_WORDS


def finding(check: str, onset: int, **changes: Any) -> Finding:
    """Return a warning of a check, with its rank and an exact onset."""
    values: dict[str, Any] = {
        "id": check,
        "severity": Severity.WARNING,
        "rank": BY_ID[check].rank,
        "onset": Onset(onset, onset, onset),
    }
    return Finding(**(values | changes))


def leads(*findings: Finding, best_step: int | None = None) -> list[str]:
    """Return the ids of those findings that no other explains, in the order of the report."""
    run = Run(tables(reward=SIGN))
    ordered = in_order(list(findings), run, best_step)
    return [one.id for one in ordered if not one.explained_by]


def test_what_began_before_the_checkpoint_to_keep_explains_no_loss() -> None:
    certain = finding("entropy_collapse", 5)
    fall = finding("watched_reward_fall", 30)
    assert leads(certain, fall) == ["entropy_collapse"]
    assert leads(certain, fall, best_step=20) == [
        "watched_reward_fall",
        "entropy_collapse",
    ]


def test_it_may_explain_what_is_no_loss() -> None:
    certain = finding("diversity_collapse", 5)
    loops = finding("entropy_collapse", 30)
    assert leads(certain, loops, best_step=20) == ["diversity_collapse"]


def test_the_gain_of_a_hack_does_not_excuse_it() -> None:
    hack = finding("length_hacking", 5)
    fall = finding("watched_reward_fall", 30)
    assert leads(hack, fall, best_step=20)[0] == "length_hacking"


def test_findings_that_explain_each_other_in_a_circle_have_one_root() -> None:
    nan = finding("nan_metrics", 29, severity=Severity.CRITICAL)
    dead = finding(
        "reward_collapse", 30, severity=Severity.CRITICAL, facts={"kind": "dead"}
    )
    fall = finding("watched_reward_fall", 30, severity=Severity.CRITICAL)
    loops = finding("loops", 30)
    assert leads(nan, dead, fall, loops) == ["nan_metrics"]


def test_what_was_there_from_the_first_step_has_no_later_cause() -> None:
    hack = finding("reward_hacking_token", 8)
    cut = finding("missing_eos", 0)
    started = replace(cut, onset=Onset(0, 0, 0, from_start=True))
    assert set(leads(hack, started)) == {"reward_hacking_token", "missing_eos"}
