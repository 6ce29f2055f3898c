"""Why rollouts ended: only those that ended by themselves are finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from rlreport.comparison.reports import response_data
from rlreport.figures.metadata import Ending, ending_of
from rlreport.read.tables import Scan
from rlreport.tables import Tables
from tests.net import dumps
from tests.reading import kinds, read, row, write

TURNS = [{"role": "assistant", "text": "Let me see.", "sampled": True}]
LIMITS = ["max_turns", "max_turns_reached", "MAX_TURNS_EXCEEDED", "turn limit", "max_steps",
          "TerminationReason.MAX_TURNS_EXCEEDED"]  # fmt: skip


def finished(scan: Scan) -> list[float]:
    return scan.responses["finished"].tolist()


def cut_off(scan: Scan) -> list[float]:
    return response_data(cast("Tables", scan))["cut_off"].tolist()


@pytest.mark.parametrize("field", ["finish_reason", "stop_condition", "termination_reason"])
def test_a_conversation_at_the_limit_of_turns_is_neither_finished_nor_cut_off(field, tmp_path):
    rows = [row(turns=TURNS, **{field: reason}) for reason in ("done", *LIMITS)]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert finished(scan) == [1.0] + [0.0] * len(LIMITS)
    assert cut_off(scan) == [0.0] * len(rows)
    assert scan.responses["at_turn_limit"].tolist() == [0.0] + [1.0] * len(LIMITS)
    assert "reasonless" not in kinds(scan)


def test_every_other_logged_reason_is_no_limit_of_turns(tmp_path: Path) -> None:
    rows = [row(finish_reason=other) for other in ("stop", "length", "error", "sunspots")]
    rows += [row(), row(finish_reason="max_turns")]
    limits = read(write(tmp_path / "a.jsonl", rows)).responses["at_turn_limit"]
    np.testing.assert_array_equal(limits, [0, 0, 0, 0, np.nan, 1])
    limits = read(write(tmp_path / "b.jsonl", rows[:-1])).responses["at_turn_limit"]
    assert limits.isna().all()


def test_limits_of_tokens_cut_off_and_errors_only_stop(tmp_path: Path) -> None:
    limits = ("max_prompt_length_exceeded", "context_length", "prompt_too_long")
    errors = ("timeout", "error", "has_error", "aborted", "cancelled")
    rows = [row(finish_reason=reason) for reason in ("stop", *limits, *errors)]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert finished(scan) == [1.0] + [0.0] * 8
    assert cut_off(scan) == [0.0] + [1.0] * 3 + [0.0] * 5


def test_what_is_not_completed_is_not_finished_whatever_its_last_reply_says(tmp_path: Path) -> None:
    rows = [
        row(is_completed=True),
        row(is_completed=False),
        row(is_completed=False, finish_reason="stop"),
        row(is_completed=True, stop_condition="max_turns_reached"),
        row(finish_reason="stop", termination_reason="max_turns"),
        row(is_completed=False, finish_reason="length"),
    ]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert finished(scan) == [1, 0, 0, 0, 0, 0]
    assert cut_off(scan) == [0, 0, 0, 0, 0, 1]


def test_an_unknown_reason_is_unknown() -> None:
    assert ending_of("sunspots") is ending_of("unknown") is ending_of("x" * 10**6) is None
    assert ending_of(7) is ending_of({"type": "stop"}) is None
    assert ending_of("Max-Tokens") is Ending.CUT_OFF


def change(path: Path, edit: Any) -> None:
    """Edit every second object of a log of lines or of JSON documents."""
    for log in sorted(p for p in path.rglob("*.json*") if p.is_file()):
        texts = [log.read_text()] if log.suffix == ".json" else log.read_text().splitlines()
        objects = [json.loads(text) for text in texts]
        for obj in objects[:: 2 if len(objects) > 1 else 1]:
            edit(obj)
        log.write_text("".join(json.dumps(obj) + "\n" for obj in objects))


def stopped_traces(**end: Any) -> Any:
    return lambda obj: [trace.update(end) for trace in obj["traces"]]


@pytest.mark.parametrize(
    ("dump", "edit"),
    [
        ("verifiers-eval", stopped_traces(is_completed=False, stop_condition=None)),
        ("verifiers-eval", stopped_traces(stop_condition="max_turns")),
        ("written-verifiers_old", lambda obj: obj.update(is_truncated=False, is_completed=False)),
        ("written-verifiers_old", lambda obj: obj.update(stop_condition="max_turns_reached")),
        ("rllm-episodes", lambda obj: obj.update(termination_reason="max_turns_exceeded")),
        ("skyrl", lambda obj: obj.update(stop_reason="max_turns")),
        ("open_instruct", lambda obj: obj.update(finish_reason="abort")),
        ("verl", lambda obj: obj.update(termination_reason="MAX_TURNS_EXCEEDED")),
    ],
)
def test_every_format_counts_a_stopped_rollout_as_not_finished(dump, edit, tmp_path):
    logs = shutil.copytree(dumps()[dump], tmp_path / "logs")
    before = finished(read(logs))
    change(logs, edit)
    scan = read(logs)
    assert np.nansum(finished(scan)) < np.nansum(before) or np.isnan(before).all()
    assert 0.0 in finished(scan)
    assert (scan.responses["stopped"] == 1).any()
