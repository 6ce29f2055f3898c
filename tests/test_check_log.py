"""Checks of the log, of grades and of the trainer's NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.about.several_runs import SEVERAL_RUNS
from rlreport.check.finding import Onset
from rlreport.check.verdict import run_checks
from rlreport.tables import Note, Tables
from tests.check_cases import INDEX, SIGN, SIZE, STEP, find, severity, tables, title
from tests.tables_builder import make_tables

STEPS = 40
RISE = np.arange(STEPS) / STEPS


def _with_metrics(broken: dict[str, list[int]], mean: Any = RISE, **columns: Any) -> Tables:
    made = tables(**columns)
    frame = pd.DataFrame({"step": np.arange(STEPS), "reward": mean})
    for name, steps in broken.items():
        frame[name] = np.where(np.isin(np.arange(STEPS), steps), np.nan, 0.5)
    return replace(made, metrics=frame, metrics_broken=broken)


@pytest.mark.parametrize(
    ("metric", "steps", "expected"),
    [
        ("loss", range(35, 40), "critical"),
        ("grad_norm", range(10, 13), "critical"),
        ("actor/grad_norm", [10], "info"),
        ("loss", [39], "warning"),
        ("loss", range(3), "info"),  # mixed precision looks for its loss scale
        ("entropy", range(35, 40), "warning"),
        ("kl", range(40), None),  # never logged a number
        ("loss", range(1, 40, 2), None),  # logged at every other step
        ("speed", range(40), None),
    ],
)
def test_nan_of_the_trainer(metric: str, steps: Any, expected: str | None) -> None:
    made = _with_metrics({metric: list(steps)})
    assert severity("nan_metrics", made) == expected


def test_a_nan_before_the_reward_dies_leads_and_explains_its_death() -> None:
    alive = RISE + 0.02 * np.random.default_rng(0).normal(size=STEPS)
    dead = np.where(np.arange(STEPS) < 31, alive + 1, 0.0)
    made = _with_metrics(
        {"loss": [30]},
        dead,
        reward=np.where(STEP < 31, SIGN + STEP / 10, -9.0),
        response_tokens=np.where(STEP < 31, 40.0 + INDEX, 1024.0),
    )
    verdict = run_checks(made)
    assert verdict.lead == "nan_metrics"
    assert verdict.sentence.startswith("Broken: NaN since step 30.")
    collapse = next(f for f in verdict.findings if f.id == "reward_collapse")
    assert collapse.explained_by == "nan_metrics"
    assert verdict.findings[0].facts["series_from"] == "metrics"


def _missing(where: Any, reward: Any = None, kind: int = 2, **columns: Any) -> Tables:
    paid = SIGN + STEP / 10 if reward is None else reward
    return tables(
        reward=np.where(where, np.nan, paid), missing_grade=np.where(where, kind, 0), **columns
    )


def test_one_missing_grade_is_a_note() -> None:
    result = find("missing_grades", _missing((STEP == 7) & (INDEX == 0), kind=1))
    assert (result.severity, result.onset) == ("info", Onset(7, 7, 7))
    assert "1 of 4,000 responses" in title(result)
    assert severity("missing_grades", tables()) is None
    assert severity("nan_metrics", _missing((STEP == 7) & (INDEX == 0), kind=1)) is None


def test_a_judge_that_is_down_is_a_warning_with_its_steps() -> None:
    down = (STEP >= 20) & (STEP < 25) & (INDEX < 60)
    result = find("missing_grades", _missing(down, prompt_id=INDEX // 4))
    assert (result.severity, result.rank) == ("warning", "cause")
    assert (result.onset, result.until) == (Onset(20, 20, 20), 24)
    assert "The judge was down" in title(result)
    assert "Groups graded only in part: 75, of" in title(result)


def test_what_the_policy_or_the_parser_did_is_told_from_a_judge_that_is_down() -> None:
    late = STEP >= 32
    worse = find("missing_grades", _missing(late & (INDEX < 60), SIGN + np.where(late, -3.0, 3.0)))
    assert "the policy got worse" in title(worse)
    assert worse.rank == "note"
    cut = late & (INDEX < 60)
    tokens = np.where(cut, 900.0, 100.0)
    unread = find("missing_grades", _missing(cut, response_tokens=tokens))
    assert "could not parse them" in title(unread)


def test_masked_responses_are_never_warned_of() -> None:
    assert severity("missing_grades", _missing(INDEX < 50, kind=3)) == "info"


def test_several_runs_are_a_warning() -> None:
    note = Note(SEVERAL_RUNS, "a/ and b/ look like 2 runs", 1)
    assert severity("mixed_runs", replace(tables(), notes=[note])) == "warning"
    assert severity("mixed_runs", tables()) is None


def test_uneven_groups_need_ids() -> None:
    group = STEP * 25 + INDEX // 4
    even = tables(prompt_id=INDEX // 4, group=group, group_hash=group + 1)
    assert severity("uneven_groups", even) is None
    own = STEP * SIZE + INDEX
    split = find("uneven_groups", tables(prompt_id=INDEX // 4, group=own, group_hash=own + 1))
    assert "several group ids" in title(split)
    kept = (INDEX % 40 != 0) | (STEP % 2 == 0)
    columns = {"step": STEP, "prompt_id": INDEX // 4, "group": group, "group_hash": group + 1}
    uneven = make_tables({name: values[kept] for name, values in columns.items()})
    result = find("uneven_groups", uneven)
    assert "usual 4 responses: sizes are 3 to 4." in title(result)


def test_texts_of_one_largest_length_were_cut() -> None:
    chars = np.where(INDEX < 30, 500, 100 + INDEX)
    assert severity("cut_texts", tables(response_chars=chars)) == "info"
    same = tables(response_chars=chars, response_hash=np.where(INDEX < 30, 1, INDEX))
    assert severity("cut_texts", same) is None  # one text, repeated
    assert severity("cut_texts", tables(response_chars=np.where(INDEX < 10, 500, 100))) is None


def test_columns_that_end_are_named() -> None:
    made = tables(ref_reward=np.where(STEP < 20, 1.0, np.nan))
    made.extras["tool"] = np.where(STEP < 30, 1.0, np.nan)
    made.extras["rare"] = np.where((STEP < 30) & (INDEX == 0), 1.0, np.nan)
    result = find("lost_columns", made)
    assert (result.onset, result.facts["names"]) == (Onset(20, 20, 20), ("ref_reward", "tool"))
