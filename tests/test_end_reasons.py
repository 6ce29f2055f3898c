"""Why rollouts ended: only those that ended by themselves are finished."""

import json
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from rlreport.check import run_checks
from rlreport.comparison.data_file import response_data
from rlreport.figures.turns import Ending
from rlreport.read.tables import Scan
from rlreport.summarise.run import summarise
from rlreport.tables import Tables
from tests.net import dumps
from tests.reading import kinds, read, row, write
from tests.tables_builder import charts_of_run, table_of_rows, tables_of

TURNS = [{"role": "assistant", "text": "Let me see.", "sampled": True}]
LIMITS = [
    "max_turns",
    "max_turns_reached",
    "MAX_TURNS_EXCEEDED",
    "turn limit",
    "max_steps",
    "TerminationReason.MAX_TURNS_EXCEEDED",
]


def finished(scan: Scan) -> list[float]:
    return scan.responses["finished"].tolist()


def cut_off(scan: Scan) -> list[float]:
    return response_data(cast("Tables", scan))["cut_off"].tolist()


def ended(field: str, *reasons: str) -> list[dict[str, Any]]:
    return [{field: reason} for reason in reasons]


ENDS: dict[Ending, list[dict[str, Any]]] = {
    Ending.FINISHED: [{"finish_reason": "stop"}, {"is_completed": True}],
    Ending.CUT_OFF: [
        *ended(
            "finish_reason",
            "max_prompt_length_exceeded",
            "context_length",
            "prompt_too_long",
        ),
        {"is_completed": False, "finish_reason": "length"},
    ],
    Ending.TURN_LIMIT: [
        *ended("finish_reason", *LIMITS),
        *ended("stop_condition", *LIMITS),
        *ended("termination_reason", *LIMITS),
        {"is_completed": True, "stop_condition": "max_turns_reached"},
        {"finish_reason": "stop", "termination_reason": "max_turns"},
    ],
    Ending.ERROR: ended("finish_reason", "error", "has_error"),
    Ending.ABORTED: ended("finish_reason", "timeout", "aborted", "cancelled"),
    Ending.UNFINISHED: [
        {"is_completed": False},
        {"is_completed": False, "finish_reason": "stop"},
    ],
}


def test_only_what_ended_by_itself_is_finished_and_only_limits_of_tokens_cut_off(
    tmp_path: Path,
):
    rows = []
    expected = []
    for ending, rollouts in ENDS.items():
        for fields in rollouts:
            rows.append(row(turns=TURNS, **fields))
            expected.append(ending)
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert scan.responses["ending"].tolist() == expected
    assert finished(scan) == [float(ending == Ending.FINISHED) for ending in expected]
    assert cut_off(scan) == [float(ending == Ending.CUT_OFF) for ending in expected]
    limits = scan.responses["at_turn_limit"].fillna(0.0).tolist()
    assert limits == [float(ending == Ending.TURN_LIMIT) for ending in expected]
    assert "reasonless" not in kinds(scan)


def change(path: Path, edit: Any) -> None:
    """Edit every second object of a log of lines."""
    for log in sorted(path.rglob("*.jsonl")):
        objects = [json.loads(text) for text in log.read_text().splitlines()]
        for obj in objects[::2]:
            edit(obj)
        log.write_text("".join(json.dumps(obj) + "\n" for obj in objects))


def stopped_traces(**end: Any) -> Any:
    def edit(obj: Any) -> None:
        for trace in obj["traces"]:
            trace.update(end)

    return edit


@pytest.mark.parametrize(
    ("dump", "edit"),
    [
        ("verifiers-eval", stopped_traces(is_completed=False, stop_condition=None)),
        ("verifiers-eval", stopped_traces(stop_condition="max_turns")),
        (
            "written-verifiers_old",
            lambda obj: obj.update(is_truncated=False, is_completed=False),
        ),
        (
            "written-verifiers_old",
            lambda obj: obj.update(stop_condition="max_turns_reached"),
        ),
        ("verl", lambda obj: obj.update(termination_reason="MAX_TURNS_EXCEEDED")),
    ],
)
def test_formats_count_a_stopped_rollout_as_not_finished(dump, edit, tmp_path):
    logs = shutil.copytree(dumps()[dump], tmp_path / "logs")
    before = finished(read(logs))
    change(logs, edit)
    scan = read(logs)
    after = finished(scan)
    assert np.nansum(after) < np.nansum(before) or np.isnan(before).all()
    assert 0.0 in after
    stopped = {Ending.TURN_LIMIT, Ending.ERROR, Ending.ABORTED, Ending.UNFINISHED}
    assert stopped & set(scan.responses["ending"])


def unfinished(tmp_path: Path, numbers: Sequence[int], **fields: Any) -> Scan:
    """Read a log of 24 steps, each with responses of these numbers of turns, not completed."""
    rows = [
        row(step, turns=TURNS * turns, **{"is_completed": False, **fields})
        for step, turns in product(range(24), numbers)
    ]
    return read(write(tmp_path / "a.jsonl", rows))


def test_unfinished_conversations_that_pile_up_at_the_most_turns_ended_at_their_limit(
    tmp_path,
):
    scan = unfinished(tmp_path, [16] * 7 + [5])
    assert scan.responses["ending"].tolist()[:8] == [Ending.MOST_TURNS] * 7 + [
        Ending.UNFINISHED
    ]
    assert scan.responses["at_turn_limit"].tolist()[:8] == [1.0] * 7 + [0.0]
    assert set(finished(scan)) == set(cut_off(scan)) == {0.0}
    (finding,) = [
        f for f in run_checks(summarise(scan)).findings if f.id == "turn_limit"
    ]
    assert finding.title == (
        "88% of conversations seem to hit the turn limit (88% at the start), judged by their "
        "number of turns, as no reason is logged."
    )


@pytest.mark.parametrize(
    ("numbers", "fields"),
    [
        ([3] * 8, {}),  # too few turns for a limit
        ([2, 3, 4, 5, 6, 7, 8, 9], {}),  # too few conversations of as many turns
        ([16] * 8, {"is_completed": True}),
        ([16] * 8, {"is_completed": None}),  # a game may always last as many turns
        ([16] * 8, {"finish_reason": "length"}),
    ],
)
def test_no_limit_of_turns_is_inferred_otherwise(numbers, fields, tmp_path):
    scan = unfinished(tmp_path, numbers, **fields)
    assert Ending.MOST_TURNS not in set(scan.responses["ending"])
    assert not (scan.responses["at_turn_limit"] == 1).any()


CALL: dict[str, Any] = {"name": "search", "arguments": {"query": "a"}}
CALLING = [
    {"role": "assistant", "text": "", "sampled": True, "calls": [CALL]},
    {"role": "tool", "tool": "search", "text": "b", "sampled": False},
]


def reasonless(
    tmp_path: Path, calls: Sequence[int], stopped: Sequence[bool], late: int = 24
) -> Scan:
    """Read a log without reasons of 24 steps of conversations with so many calls.

    Those that are stopped end in the tool's answer. From step ``late`` on, the first ones are
    replaced by the last one, which makes the last one more frequent.
    """
    rows = []
    for step in range(24):
        for index in range(len(calls)):
            chosen = index if step < late or index % 2 else len(calls) - 1
            ending = [] if stopped[chosen] else TURNS
            turns = CALLING * calls[chosen] + ending
            rows.append(row(step, turns=turns))
    return read(write(tmp_path / "a.jsonl", rows))


def test_conversations_without_a_reason_are_stopped_if_only_the_longest_end_in_answers(
    tmp_path,
):
    turns = [2, 3, 1, 2, 4, 8]
    scan = reasonless(tmp_path, turns, [False] * 5 + [True], late=12)
    endings = scan.responses["ending"].to_numpy()
    assert (endings[:5] != Ending.MOST_TURNS).all()
    assert endings[5] == Ending.MOST_TURNS
    assert scan.responses["at_turn_limit"].tolist()[:6] == [0.0] * 5 + [1.0]
    findings = run_checks(summarise(scan)).findings
    (finding,) = [one for one in findings if one.id == "turn_limit"]
    assert finding.title == (
        "67% of conversations seem to hit the turn limit (17% at the start), judged by their "
        "number of turns, as no reason is logged."
    )


FEW_TURNS = [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("calls", "stopped"),
    [
        ([8] * 6, [True] * 6),  # as many turns in every rollout
        ([2, 3, 4, 5, 8, 8], [True] * 6),  # a tool that ends the task
        ([2, 3, 4, 5, 8, 8], [False] * 6),  # a long procedure
        (FEW_TURNS, [False] * 4 + [True] * 2),
        ([2] * 59 + [8], [False] * 59 + [True]),  # a rare long one
    ],
)
def test_no_limit_of_turns_is_inferred_where_lengths_are_those_of_the_task(
    calls, stopped, tmp_path
):
    scan = reasonless(tmp_path, calls, stopped)
    assert Ending.MOST_TURNS not in set(scan.responses["ending"])
    assert scan.responses["at_turn_limit"].isna().all()


def test_the_chart_shows_the_share_of_each_ending_by_step() -> None:
    endings: list[int] = [
        Ending.FINISHED,
        Ending.TURN_LIMIT,
        Ending.TURN_LIMIT,
        Ending.ABORTED,
        0,
    ]
    endings += [Ending.FINISHED] * 5
    rows = [{"step": i // 5, "ending": end} for i, end in enumerate(endings)]
    chart = charts_of_run(tables_of(table_of_rows(rows)))["eos"]
    assert chart.title == "How responses end"
    values = pd.DataFrame(chart.spec["data"]["values"])
    shares = values.pivot(index="step", columns="series", values="value").to_dict(
        "list"
    )
    assert shares == {
        "ending_by_itself": [0.25, 1.0],
        "ending_at_the_turn_limit": [0.5, 0.0],
        "ending_aborted": [0.25, 0.0],
    }


def test_a_log_without_other_endings_has_the_chart_of_finished_responses() -> None:
    rows = []
    for i in range(20):
        is_cut = i % 2
        end = {"ending": 1 + is_cut, "finished": float(1 - is_cut)}
        rows.append({"step": i // 5, **end})
    chart = charts_of_run(tables_of(table_of_rows(rows)))["eos"]
    assert chart.title == "Finished responses"


def test_filtered_rollouts_are_counted_by_step_and_in_no_figure(tmp_path: Path) -> None:
    filtered = {"filtered_out": True, "reward": 100.0, "response": "Never trained."}
    rows = [
        row(step, **(filtered if n < step else {}))
        for step, n in product(range(3), range(4))
    ]
    scan = read(write(tmp_path / "a.jsonl", rows))
    steps = summarise(scan).steps
    assert steps["filtered_rollouts"].tolist() == [0, 1, 2]
    assert steps["responses"].tolist() == [4, 3, 2]
    assert set(scan.responses["reward"]) == {1.0}
    again = read(write(tmp_path / "a.jsonl", [*rows, *rows]), restarts="last")
    assert again.filtered == {1: 1, 2: 2}
