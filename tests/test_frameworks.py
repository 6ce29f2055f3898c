"""Dumps that the frameworks' own code wrote (``tests/data/frameworks``): what their rows are, is
kept in ``tests/data/net/rows``; here is what those files do not say, such as what checks find."""

import pickle
import shutil
import sqlite3
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.errors import UnusableInputError
from rlreport.flows.build import check_logs
from rlreport.formats.containers import read_objects
from rlreport.formats.registry import RowError
from rlreport.options import BuildOptions
from rlreport.read.tables import Scan
from tests.format_table import rows_in
from tests.net import DUMPS, PICKLED, dumps
from tests.reading import kinds, read, row, write

MISMATCH = {"verifiers-eval", "verifiers-prime", "prime_rl-stream"}
TWO_SOURCES = {*MISMATCH, "nemo_rl", "written-prime_rl_tokens", "prime_rl_branches"}
"""Logs with the log-probabilities of both the sampler and the trainer."""

FOUND = {
    "written-rlboard": {"broken_log"},  # arrays of unequal length
    "inspect": {"tool_errors"},
    "nemo_gym": {"missing_grades"},  # a judge that failed, a masked sample
    "nemo_rl": {"engine_mismatch"},
    "trl": {"missing_eos"},  # all completions are cut at their largest length
    **{log: {"engine_mismatch"} for log in MISMATCH},
}
"""Log to the checks that find in it what its writer was given; of the others, none does."""

WARNINGS = {"engine_mismatch", "missing_eos", "tool_errors"}
"""Checks that need no more steps than these logs have; other logs are unjudged."""


@pytest.mark.parametrize("name", sorted(dumps().keys() - PICKLED))
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
        "all columns of decimal numbers count as rewards"
    )
    assert scan.reward_parts == [
        "length_reward",
        "letter_reward",
        "temperature_reward_hint",
    ]


def test_rollouts_given_to_write_are_read_in_place_of_trl_s(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl", tmp_path / "run")
    write(tmp_path / "run" / "rollouts" / "rank_0.jsonl", [row(1)])
    assert len(read(tmp_path).responses) == 1
    assert len(read(tmp_path / "run" / "completions", split="val").responses) == 8


# verifiers and prime-rl


def test_what_prime_rl_trained_on_is_read_alone() -> None:
    effective = (
        DUMPS / "verifiers" / "prime" / "rollouts" / "step_3" / "train" / "effective"
    )
    assert by_step(read(effective)) == {3: 1.0}


# The others


def test_a_distillation_without_rewards_is_a_run_and_its_reference_is_the_teacher(
    tmp_path,
):
    gaps = np.linspace(1.0, 0.1, 30)
    log = tmp_path / "steps.jsonl"
    words = ["It", " is", " 4", ",", " as", " 2", "+2", "=4"]
    row = {"prompt": "2+2?", "response": "".join(words), "response_tokens": words}
    arrays = {"logprobs": [-0.5] * 8}
    rows = []
    for step, gap in enumerate(gaps.tolist(), 1):
        of_step = {"step": step, "teacher_logprobs": [-0.5 - gap] * 8}
        rows += [{**row, **arrays, **of_step}] * 4
    scan = read(write(log, rows))
    assert scan.responses.groupby("step").size().tolist() == [4] * 30
    assert by_step(scan, "kl_k1") == pytest.approx(dict(enumerate(8 * gaps, 1)))
    assert "the reference is the teacher" in note(scan, "format")
    verdict = check_logs([log], BuildOptions(workers=1))
    assert verdict.findings == []
    assert verdict.what == "Not judged: no reward is logged."
    passed = {"kl_explosion", "entropy_collapse", "length_collapse"}
    assert passed <= set(verdict.passed)
    assert verdict.courses.keys() == {"kl", "length", "entropy"}


def test_skyrl_counts_rows_where_several_samples_of_a_prompt_have_its_index(
    tmp_path: Path,
) -> None:
    kept = DUMPS / "skyrl" / "dumped_evals" / "global_step_6_evals"
    means = shutil.copytree(kept, tmp_path / kept.name) / "aggregated_results.jsonl"
    means.write_text('{"eval/calc/avg_score": 0.4}')
    assert by_step(read(tmp_path)) == {6: pytest.approx(0.4)}


def skyrl_step(
    folder: Path, step: int, lines: list[tuple[str, str, float, int]]
) -> Path:
    """Write lines as SkyRL does: prompt, response, score and index; return the file."""
    rows = [
        {
            "input_prompt": prompt,
            "output_response": response,
            "score": [0.0, score],
            "stop_reason": "stop",
            "env_class": "calc_env",
            "data_source": "openai/calc",
            "env_extras": {
                "data_source": "openai/calc",
                "extra_info": {"index": index},
            },
        }
        for prompt, response, score, index in lines
    ]
    return write(folder / f"global_step_{step}_evals" / "openai_calc.jsonl", rows)


ASK = "<user>2+2, then double?"
STEP_WISE = [
    (ASK, "<assistant>4", 0.0, 0),
    (f"{ASK}<summary>4<tool>ok", "<assistant>8", 1.0, 0),
    (ASK, "<assistant>5", 0.0, 1),
    (f"{ASK}<summary>5<tool>no", "<assistant>9", 0.0, 1),
    (ASK, "<assistant>8", 1.0, 2),
    (f"{ASK}<summary>8<tool>ok", "<assistant>ok", 1.0, 2),
]


@pytest.mark.parametrize(
    "mean", [2 / 3, None], ids=["with the mean", "without the mean"]
)
def test_skyrl_s_turns_of_one_index_are_one_trajectory(
    mean: float | None, tmp_path: Path
) -> None:
    path = skyrl_step(tmp_path, 2, STEP_WISE)
    if mean is not None:  # the name of the source is written as in a path
        write(
            path.with_name("aggregated_results.jsonl"),
            [{"eval/openai_calc/avg_score": mean}],
        )
    assert by_step(read(tmp_path)) == {2: pytest.approx(2 / 3)}
    first, *_ = [found for _, found in rows_in(tmp_path)]
    assert (first["prompt"], first["response"]) == (ASK, "<assistant>4\n<assistant>8")
    assert [
        (turn["role"], turn["text"], turn["sampled"]) for turn in first["turns"]
    ] == [
        ("assistant", "<assistant>4", True),
        ("environment", "<summary>4<tool>ok", False),
        ("assistant", "<assistant>8", True),
    ]


def test_skyrl_s_samples_of_a_prompt_with_one_index_are_several_trajectories(
    tmp_path: Path,
):
    samples = [(prompt, response, score, 0) for prompt, response, score, _ in STEP_WISE]
    skyrl_step(tmp_path, 2, samples)
    assert len(read(tmp_path).responses) == 3
    samples = [(ASK, f"<assistant>{n}", n % 2, 0) for n in range(4)]
    skyrl_step(tmp_path, 4, samples)
    assert by_step(read(tmp_path)) == {2: pytest.approx(2 / 3), 4: 0.5}


Row = dict[str, Any]


# slime and Miles


def same_as_exported(logs: Path, *apart: str) -> list[Row]:
    """The rows of a dump; those of ``slime_export``, which the net keeps, are among them."""
    rows = [row for _, row in rows_in(logs)]
    for _, exported in rows_in(DUMPS / "slime_export"):
        for one in rows:
            if all(
                one.get(key) == exported.get(key) for key in ("step", "index", "split")
            ):
                assert {
                    k: v for k, v in exported.items() if k not in apart
                }.items() <= one.items()
    return rows


def test_slime_dumps_are_read_without_running_their_pickle() -> None:
    pytest.importorskip("torch")
    assert len(same_as_exported(DUMPS / "slime")) == 9
    scan = read(DUMPS / "slime", split="train")
    assert by_step(scan) == {
        1: np.mean([1.0, 0.0, 0.25]),
        2: np.mean([2.0, 0.0, 0.25]),
    }
    assert scan.bad_count == 0
    assert scan.responses["response_tokens"].tolist() == [4.0, 4.0, 2.0] * 2
    assert by_step(read(DUMPS / "slime", split="eval")) == {2: 5.0}


def test_miles_conversations_are_joined_to_their_samples() -> None:
    pytest.importorskip("torch")
    first, _, third, _ = same_as_exported(DUMPS / "miles", "response")
    assert [
        (turn["role"], turn["text"], turn["tokens"]) for turn in first["turns"]
    ] == [
        ("assistant", "<tool>calc</tool>", [0, 2]),
        ("tool", "4", [2, 4]),
        ("assistant", "It is 4.", [4, 6]),
    ]
    assert first["response"] == "<tool>calc</tool>\nIt is 4."
    assert "turns" not in third
    scan = read(DUMPS / "miles")
    assert len(scan.responses) == 3
    assert {"not_a_log", "sibling"} <= kinds(scan)


def test_without_torch_a_dump_says_how_to_export_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnusableInputError, match=r"needs torch .*python -c"):
        read(DUMPS / "slime")
    scan = read(DUMPS / "miles")
    assert by_step(scan) == {1: 0.5}
    assert any("needs torch" in n.text for n in scan.notes)


class Runs:
    """A pickle that creates a file when it is loaded the usual way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_pickles_run_nothing_and_cost_their_file_only(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    shutil.copytree(DUMPS / "slime", tmp_path / "run")
    touched = tmp_path / "touched"
    folder = tmp_path / "run" / "rollout_data"
    torch.save({"rollout_id": 3, "samples": [Runs(touched)]}, folder / "3.pt")
    (folder / "4.pt").write_bytes(pickle.dumps(Runs(touched)))
    torch.save({"w": torch.ones(3)}, folder / "5.pt")
    with zipfile.ZipFile(folder / "6.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(1 << 20))
    (folder / "7.pt").write_bytes((folder / "1.pt").read_bytes()[:900])
    laugh: list[Any] = ["ha"]
    for _ in range(40):
        laugh = [laugh] * 8
    torch.save({"rollout_id": 8, "samples": [{"prompt": laugh}]}, folder / "8.pt")
    wide = torch.zeros(1).expand(1 << 40)
    torch.save(
        {"rollout_id": 9, "samples": [{"prompt": "p", "tokens": wide}]}, folder / "9.pt"
    )
    scan = read(tmp_path / "run", split="train")
    assert not touched.exists()
    assert len(scan.responses) == 6
    unread = [note for note in scan.notes if note.kind == "not_a_log"]
    said = {str(note.file): note.text for note in unread}
    assert sorted(said) == [f"rollout_data/{i}.pt" for i in range(3, 10)]
    assert all(text.startswith("not read: no ") for text in said.values()), said


def test_cut_dumps_cost_a_reason(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = (DUMPS / "slime" / "rollout_data" / "1.pt").read_bytes()
    for size in range(0, len(data), 290):
        path = tmp_path / "1.pt"
        path.write_bytes(data[:size])
        with pytest.raises(RowError):
            list(read_objects(path.open("rb"), "torch"))


# Trackio and W&B


def test_a_database_is_never_written_to_and_runs_nothing(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trackio", tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    (tmp_path / "run" / "other.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    hostile = sqlite3.connect(tmp_path / "run" / "view.db")
    hostile.execute(
        "CREATE VIEW traces AS WITH RECURSIVE n(run_name) AS (SELECT 1 UNION ALL SELECT run_name"
        " FROM n) SELECT run_name, 1 step, 1 timestamp, 1 key, 1 trace_index, 1 messages,"
        " 1 metadata FROM n"
    )
    hostile.close()
    scan = read(tmp_path / "run")
    assert by_step(scan) == {
        1: np.mean([1.5, 0.0, 1.0, 0.0]),
        2: np.mean([2.5, 0.0, 2.0, 0.0]),
    }
    assert {path: path.read_bytes() for path in before} == before
    refused = {n.file for n in scan.notes if n.kind == "not_a_log"}
    assert refused == {"other.db", "view.db"}
