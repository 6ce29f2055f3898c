"""Relations between labels, rewards and the grader: just beyond a limit, and harmless twins."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.check import progress
from rlreport.check.finding import Finding
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.check.verdict import Verdict
from rlreport.figures.ragged import Floats
from rlreport.flows.build import check_logs
from rlreport.options import BuildOptions
from tests.law_families import Shape
from tests.reading import write

SHAPE = Shape(steps=40, prompts=8, group=4)
ROWS = SHAPE.rows
INDEX = np.arange(ROWS)
LATE = SHAPE.step > 20


def luck(seed: int) -> Floats:
    """Return a random number from 0 to 1 for each response."""
    return np.random.default_rng(seed).random(ROWS)


# A third of the responses is right, in no order that a shift by some rows would keep
RIGHT = np.floor(luck(5) + 1 / 3)


def finding_of(check: str, **columns: Any) -> Finding | None:
    return BY_ID[check].run(Run(SHAPE.log(**columns))).finding


def severity_of(check: str, **columns: Any) -> str | None:
    found = finding_of(check, **columns)
    return None if found is None else found.severity


def hacked(share: float) -> dict[str, Any]:
    """Return a log in which so many of the late best responses miss their label."""
    best = np.flatnonzero((RIGHT == 1) & LATE)
    hit = RIGHT.copy()
    hit[best[luck(9)[: len(best)] < share]] = 0
    return {"reward": RIGHT, "label_hit": hit}


@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.06, None), (0.3, "critical")],
)
def test_late_best_responses_that_miss_their_label(
    share: float, severity: str | None
) -> None:
    assert severity_of("label_lost", **hacked(share)) == severity


def test_what_is_lost_is_dated_and_shown() -> None:
    found = finding_of("label_lost", **hacked(0.5))
    assert found is not None and found.onset is not None
    assert found.onset.low <= 21 <= found.onset.high
    assert found.facts["before"] == 1
    # The first block with such responses begins before them.
    assert found.facts["share"] == pytest.approx(0.55, abs=0.1)
    log = hacked(0.5)
    for example in found.evidence:
        row = (example.step - 1) * 32 + example.n
        assert log["reward"][row] == 1 and log["label_hit"][row] == 0


def test_best_responses_that_never_hit_their_labels_lost_nothing() -> None:
    # Of words, many right answers are written in another way than the label.
    hit = np.where(INDEX % 2, RIGHT, 0.0)
    assert severity_of("label_lost", reward=RIGHT, label_hit=hit) is None


@pytest.mark.parametrize(
    ("best", "low", "severity"),
    [
        (0.95, 0.5, None),
        (0.7, 0.05, None),
        (0.7, 0.3, "warning"),
    ],
)
def test_rewards_follow_labels(best: float, low: float, severity: str | None) -> None:
    chance = luck(1)
    hit = np.where(RIGHT == 1, chance < best, chance < low).astype(float)
    log = {"reward": RIGHT, "label_hit": hit}
    assert severity_of("label_reward_mismatch", **log) == severity


def shifted(away: int) -> dict[str, Any]:
    """Return a log in which each row has the reward of the row so many before, in its step."""
    by_step = RIGHT.reshape(SHAPE.steps, -1)
    reward = np.roll(by_step, away, axis=1).ravel()
    return {"reward": reward, "label_hit": RIGHT}


@pytest.mark.parametrize("away", [-8, -3, 1, 2, 8])
def test_rewards_that_moved_are_found_with_their_distance(away: int) -> None:
    log = shifted(away)
    found = finding_of("rewards_shifted", **log)
    assert found is not None
    assert (found.severity, found.facts["away"]) == ("critical", abs(away))
    assert found.facts["kind"] == ("before" if away > 0 else "after")
    assert found.onset is not None and found.onset.low == 1


@pytest.mark.parametrize("away", [0, 9])
def test_rewards_in_place_or_far_away_are_not_called_shifted(away: int) -> None:
    log = shifted(away)
    assert severity_of("rewards_shifted", **log) is None


@pytest.mark.parametrize(
    ("constant", "share", "severity"),
    [
        (0.0, 0.15, None),
        (0.0, 0.3, "warning"),
        (-1.0, 0.3, "warning"),
        (1.0, 0.3, None),
    ],
)
def test_right_answers_that_earn_nothing(
    constant: float, share: float, severity: str | None
) -> None:
    hit = (luck(2) < share).astype(float)
    log = {"reward": constant, "label_hit": hit}
    assert severity_of("right_answers_unpaid", **log) == severity
    found = finding_of("right_answers_unpaid", **log)
    if found is not None:
        assert found.onset is not None and found.onset.step == 1


def test_right_answers_that_no_longer_earn_anything_are_dated() -> None:
    reward = np.where(LATE, 0.0, RIGHT)
    found = finding_of("right_answers_unpaid", reward=reward, label_hit=RIGHT)
    assert found is not None and found.onset is not None
    assert found.onset.low <= 21 <= found.onset.high


def formatted(first: float, last: float) -> dict[str, Any]:
    """Return a log whose right answers are in the rewarded format in more and more responses."""
    chance = luck(3)
    right = (luck(4) < 0.8).astype(float)
    has_format = chance < np.interp(SHAPE.step, [1, 40], [first, last])
    return {"reward": right * has_format, "label_hit": right}


def test_a_format_that_is_rewarded_is_a_note_and_explains_the_rise() -> None:
    log = formatted(0.2, 0.95)
    assert severity_of("format_rewarded", **log) == "info"
    assert severity_of("label_reward_mismatch", **log) is None
    assert progress.gained_format(Run(SHAPE.log(**log)))


def test_better_answers_are_no_gain_of_format() -> None:
    chance = luck(3)
    share = np.interp(SHAPE.step, [1, 40], [0.2, 0.9])
    right = (chance < share).astype(float)
    made = SHAPE.log(reward=right, label_hit=right)
    assert BY_ID["format_rewarded"].run(Run(made)).finding is None
    assert not progress.gained_format(Run(made))


def tried(late: float, mean_falls: bool = False) -> dict[str, Any]:
    """Return a log of rewards −1, 0 and 1, in which late responses try less often."""
    chance = luck(6)
    reward = np.where(chance < 0.3, 1.0, -1.0)
    share = np.where(LATE, late, 0.95)
    nothing = -2.0 if mean_falls else 0.0
    reward[luck(7) >= share] = nothing
    return {"reward": reward}


def test_doing_nothing_that_pays_better_than_trying() -> None:
    assert severity_of("best_reward_gone", **tried(0.1)) == "warning"
    assert severity_of("best_reward_gone", **tried(0.4)) is None
    assert severity_of("best_reward_gone", **tried(0.1, mean_falls=True)) is None


def equal(wrong: int) -> dict[str, Any]:
    """Return a log of pairs of equal responses, of which so many have different rewards."""
    reward = np.repeat(RIGHT[: ROWS // 2], 2)
    reward[: 2 * wrong : 2] = 1 - reward[: 2 * wrong : 2]
    return {"reward": reward, "response_hash": INDEX // 2}


def test_equal_responses_earn_equal_rewards() -> None:
    pairs = ROWS // 2
    assert severity_of("grader_inconsistent", **equal(0)) is None
    assert severity_of("grader_inconsistent", **equal(int(0.015 * pairs))) is None
    assert severity_of("grader_inconsistent", **equal(int(0.03 * pairs))) == "warning"


def test_a_judge_may_change_its_mind() -> None:
    log = equal(100)
    log["reward"] = log["reward"] + luck(8)
    assert severity_of("grader_inconsistent", **log) == "info"


def test_equal_responses_to_different_tasks_of_one_text_are_not_compared() -> None:
    log = equal(100)
    assert severity_of("grader_inconsistent", **log, label_hit=log["reward"]) is None


def with_parts(folder: Path, part: Any, reward: float = 0.0) -> Verdict:
    """Judge a log in which each fourth response has only such a part of the reward."""
    rows = []
    for i in range(400):
        value = part if i % 4 == 0 else float(i % 3 == 0)
        total = reward if i % 4 == 0 else value
        rows.append(
            {
                "step": i // 16,
                "prompt": f"p{i // 4}",
                "response": f"a response {i}",
                "reward": total,
                "reward_parts": {"code": value, "style": value},
            }
        )
    return check_logs([write(folder / "a.jsonl", rows)], BuildOptions(workers=1))


def severities(verdict: Verdict) -> dict[str, str]:
    return {finding.id: finding.severity for finding in verdict.findings}


def test_rewards_without_any_part_are_missing_grades(tmp_path: Path) -> None:
    verdict = with_parts(tmp_path, None)
    assert severities(verdict)["missing_grades"] == "warning"
    found = next(one for one in verdict.findings if one.id == "missing_grades")
    assert found.facts["parts"] == 100
    assert found.onset is not None and found.onset.step == 0
    assert "100 have a reward of 0" in found.title


@pytest.mark.parametrize(
    ("part", "reward"),
    [(0.0, 0.0), (None, 0.5)],
)
def test_a_part_of_0_or_a_reward_of_other_parts_is_a_grade(
    tmp_path: Path, part: Any, reward: float
) -> None:
    verdict = with_parts(tmp_path, part, reward)
    assert "missing_grades" not in severities(verdict)
