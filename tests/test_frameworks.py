"""Dumps that the frameworks' own code wrote (``tests/data/frameworks``): what their rows are, is
kept in ``tests/data/net/rows``; here is what those files do not say, such as what checks find."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlreport.options import BuildOptions
from rlreport.pipeline import check_logs
from rlreport.read.tables import Scan
from tests.format_table import rows_in
from tests.net import DUMPS, PICKLED, dumps
from tests.reading import read

TWO_SOURCES = {"nemo_rl", "written-prime_rl_tokens", "verifiers-eval", "verifiers-prime",
               "prime_rl-stream"}  # fmt: skip
"""Logs with the log-probabilities of both the sampler and the trainer."""

FOUND = {
    "written-rlboard": {"broken_log"},  # arrays of unequal length
    "inspect": {"tool_errors", "uneven_groups"},
    "nemo_rl": {"engine_mismatch", "mismatch_by_turn"},
    **{log: {"uneven_groups"} for log in ("agilerl", "areal", "art", "lm_eval", "slime_export")},
    **{log: {"engine_mismatch"} for log in TWO_SOURCES - {"nemo_rl", "written-prime_rl_tokens"}},
}
"""Log to the checks that find in it what its writer was given; of the others, none does."""

WARNINGS = {"engine_mismatch", "tool_errors"}
"""Checks that need no more steps than these logs have; other logs are unjudged."""

NO_REPORT = {*PICKLED, "miles-dashboard_columns"}


@pytest.mark.parametrize("name", sorted(dumps().keys() - NO_REPORT))
def test_checks_find_in_a_log_nothing_but_what_was_written(name: str) -> None:
    verdict = check_logs([dumps()[name]], BuildOptions(workers=1))
    found = {finding.id for finding in verdict.findings}
    assert found == FOUND.get(name, set())
    assert verdict.level == ("warning" if found & WARNINGS else "unjudged")
    needs = {check.id: check.needs for check in verdict.not_run}
    lacks = "sampler and trainer logprobs of the same tokens"
    assert needs.get("engine_mismatch") == (None if name in TWO_SOURCES else lacks)


def note(scan: Scan, kind: str) -> str:
    return next(note.text for note in scan.notes if note.kind == kind)


def by_step(scan: Scan, column: str = "reward") -> dict[int, float]:
    judged = scan.responses[scan.responses["validation"] == 0]
    means = judged.groupby("step")[column].mean()
    return dict(zip(means.index.tolist(), means.tolist(), strict=True))


# TRL


def test_trl_without_its_state_says_what_was_taken(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl" / "completions", tmp_path / "completions")
    scan = read(tmp_path)
    assert len(scan.responses) == 12
    assert note(scan, "format").endswith(
        "`length_reward`, `letter_reward`, `temperature_reward_hint`"
    )


def test_trl_says_where_its_mean_is_another(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl", tmp_path / "run")
    state = tmp_path / "run" / "trainer_state.json"
    text = json.loads(state.read_text())
    for entry in text["log_history"]:
        if "reward" in entry:
            entry["reward"] = 9.0
    state.write_text(json.dumps(text))
    assert "the trainer's is 9" in note(read(tmp_path), "format")


def test_rollouts_given_to_write_are_read_in_place_of_trl_s(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl", tmp_path / "run")
    (tmp_path / "run" / "rollouts").mkdir()
    own = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
    (tmp_path / "run" / "rollouts" / "rank_0.jsonl").write_text(json.dumps(own) + "\n")
    assert len(read(tmp_path).responses) == 1
    assert len(read(tmp_path / "run" / "completions", split="val").responses) == 8


# verifiers and prime-rl


def test_prime_rl_reads_each_rollout_once_and_marks_what_was_trained() -> None:
    rows = rows_in(DUMPS / "verifiers" / "prime")
    assert [row.get("trained") for _, row in rows] == [True, False, False, False, None]
    effective = DUMPS / "verifiers" / "prime" / "rollouts" / "step_3" / "train" / "effective"
    assert by_step(read(effective)) == {3: 1.0}


# The others


def test_skyrl_counts_trajectories_and_not_their_turns(tmp_path: Path) -> None:
    folder = DUMPS / "skyrl" / "dumped_evals"
    scan = read(folder)
    # At step 6 prompts do not repeat what came before: the index tells trajectories.
    for step in (4, 6):
        kept = folder / f"global_step_{step}_evals" / "aggregated_results.jsonl"
        truth = json.loads(kept.read_text())["eval/calc/avg_score"]
        assert by_step(scan)[step] == pytest.approx(truth) == pytest.approx(2 / 3)
    # Several samples of a prompt have its index, too: then the mean is that of rows.
    shutil.copytree(folder / "global_step_6_evals", tmp_path / "global_step_6_evals")
    means = tmp_path / "global_step_6_evals" / "aggregated_results.jsonl"
    means.write_text('{"eval/calc/avg_score": 0.4}')
    assert by_step(read(tmp_path)) == {6: pytest.approx(0.4)}
    assert by_step(read(folder / "eval_only")) == {0: 0.5}


@pytest.mark.parametrize("good", [1, 5])
def test_a_row_without_a_needed_key_costs_itself_alone(good: int, tmp_path: Path) -> None:
    rows = [{"input": "2+2?", "output": "4", "gts": "4", "score": 1.0, "step": 1}] * good
    rows.insert(0, {"input": "2+2?", "output": "4", "gts": "4", "step": 1})
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = read(tmp_path)
    assert len(scan.responses) == good
    assert [(bad.line, bad.reason) for bad in scan.bad_lines] == [(1, "no verl row: no `score`")]
