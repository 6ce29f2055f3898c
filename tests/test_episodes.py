"""Episodes that passed: a burst or a dip of some steps, from which a figure came back."""

from typing import Any

import numpy as np
import pytest

from rlreport.check import findings_json, run_checks
from rlreport.check.finding import Severity, ToldFinding
from rlreport.check.verdict import Verdict
from rlreport.tables import Tables
from tests.schemas import validate
from tests.tables_builder import make_tables

STEPS = 100
EACH = 40
STEP = np.repeat(np.arange(STEPS), EACH)
BURST = (STEP >= 40) & (STEP < 55)
CUT_OFF = np.where(BURST, 0.35, 0.02)
RNG = np.random.default_rng(4)
NOISE = RNG.normal(size=len(STEP))
LUCK = RNG.random(len(STEP))
RISING = STEP / STEPS + 0.2 * NOISE


def run(**columns: Any) -> Tables:
    usual = {"reward": RISING, "response_tokens": 100 * np.exp(0.2 * NOISE)}
    return make_tables({"step": STEP, **usual, **columns})


def episodes(verdict: Verdict) -> list[ToldFinding]:
    return [one for one in verdict.findings if one.id == "passing_episode"]


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "longer responses": (
        {"response_tokens": np.where(BURST, 300, 100) * np.exp(0.2 * NOISE)},
        "The mean length was 3",
    ),
    "shorter responses": (
        {"response_tokens": np.where(BURST, 40, 100) * np.exp(0.2 * NOISE)},
        "The mean length was 4",
    ),
    "entropy": (
        {"surprisal_mean": np.where(BURST, 0.9, 0.3) * np.exp(0.2 * NOISE)},
        "Entropy was 0.9",
    ),
    "cut-off responses": (
        {"finished": np.where(CUT_OFF < LUCK, 1.0, 0.0)},
        "3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_episode_is_a_note_with_its_first_and_last_step(case: str) -> None:
    columns, words = CASES[case]
    verdict = run_checks(run(**columns))
    (note,) = episodes(verdict)
    assert note.severity is Severity.INFO
    assert note.title.startswith(words)
    assert note.onset is not None
    assert note.onset.low <= 40 <= note.onset.high + 1
    assert note.until == 54
    assert f"in steps {note.onset.step}–54" in note.title
    assert "came back" in note.title or " before, " in note.title
    assert verdict.level == "healthy"
    validate(findings_json(verdict), "findings")


@pytest.mark.parametrize(
    "length",
    [
        np.full(len(STEP), 100.0),
        np.where(STEP >= 40, 300, 100),  # it stays
        np.where(BURST, 150, 100),  # small
        np.where((STEP >= 20) & (STEP < 70), 300, 100),  # half of the run
        np.where(STEP == 40, 300, 100),  # a single step
        np.where(STEP >= 90, 300, 100),  # it is not over
        np.where(BURST, 300, np.where(STEP < 40, 100, 250)),  # it did not come back
    ],
    ids="none stays small long single last higher".split(),
)
def test_what_is_no_passing_episode_is_none(length: Any) -> None:
    assert not episodes(run_checks(run(response_tokens=length * np.exp(0.2 * NOISE))))


def test_what_another_check_tells_is_not_told_twice() -> None:
    reward = np.where(BURST, 0.2, 1.0) + 0.2 * NOISE
    entropy = np.where(BURST, 5.0, 0.3) * np.exp(0.2 * NOISE)
    verdict = run_checks(run(reward=reward, surprisal_mean=entropy))
    assert {"reward_collapse", "entropy_explosion"} <= {
        one.id for one in verdict.findings
    }
    assert not episodes(verdict)


def test_several_episodes_are_one_note_in_their_order() -> None:
    later = (STEP >= 70) & (STEP < 80)
    columns = {
        "response_tokens": np.where(later, 300, 100) * np.exp(0.2 * NOISE),
        "surprisal_mean": np.where(BURST, 0.9, 0.3) * np.exp(0.2 * NOISE),
    }
    (note,) = episodes(run_checks(run(**columns)))
    assert note.title.index("Entropy was") < note.title.index("the mean length was")
