"""Rows without a step have the step in the path of their file, and the data page says so."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlreport.options import ReadOptions
from rlreport.read.detect import detect_formats, path_steps
from rlreport.read.limits import ReadLimits
from rlreport.read.listing import find_sources
from rlreport.read.tables import Scan
from rlreport.tables import NoteKind
from tests.reading import kinds, read, row, write
from tests.running import build
from tests.test_read_clusters import zipped


def stepless(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in row(**fields).items() if name != "step"}


def logs(folder: Path, *names: str, rows: int = 2, **fields: object) -> Path:
    for name in names:
        write(
            folder / name,
            [stepless(prompt=f"{name} {i}", **fields) for i in range(rows)],
        )
    return folder


def steps_of(scan: Scan) -> dict[str, list[int]]:
    steps: dict[str, list[int]] = {}
    places = zip(scan.responses["file"], scan.responses["step"], strict=True)
    for file, step in sorted(set(places)):
        name = scan.files[int(file)].name
        steps.setdefault(name, []).append(int(step))
    return steps


FOUND: list[dict[str, int]] = [
    {"step_12/a.jsonl": 12, "step_13/a.jsonl": 13},
    {
        "global_step_12/rank_0.jsonl": 12,
        "global_step_12/rank_1.jsonl": 12,
        "global_step_14/rank_0.jsonl": 14,
    },
    {"iter-12/train_3.jsonl": 12, "iter-13/train_3.jsonl": 13},
    {"x/iteration_000012/a.jsonl": 12, "x/checkpoint-20/a.jsonl": 20},
    {"rollouts_step12.jsonl": 12, "rollouts_step13.jsonl": 13},
    {"rollouts_12.jsonl": 12, "rollouts_13.jsonl": 13, "rollouts_0.jsonl": 0},
    {"12.jsonl": 12, "13.jsonl": 13},
    {"r_12_rank_0.jsonl": 12, "r_12_rank_1.jsonl": 12, "r_13_rank_0.jsonl": 13},
    {"step=12/a.jsonl": 12, "step=13/a.jsonl": 13},
    {"seed_7/r_12.jsonl": 12, "seed_7/r_13.jsonl": 13},
    {"rank_0/r_12.jsonl": 12, "rank_1/r_12.jsonl": 12, "rank_0/r_13.jsonl": 13},
]
NO_STEPS = [
    ("rank_0", "rank_1"),
    ("worker_3", "worker_4"),
    ("seed_1", "seed_2"),
    ("epoch_1", "epoch_2"),
    ("train-00001-of-00002", "train-00002-of-00002"),
    ("sample_1", "sample_2"),
    ("run_12",),
    ("rollouts-shard-00001-of-00002", "rollouts-shard-00002-of-00002"),
    ("a", "b"),
    ("log.rank0", "log.rank1"),
]
"""Names of ranks and of a single file: one step, with a quiet note."""

CHECKPOINT = ("checkpoint-7/a_1", "checkpoint-7/a_2")
DOUBTFUL = [
    ("12/a", "13/a"),
    ("log-2026-01-02", "log-2026-01-03"),
    ("log-20260102", "log-20260103"),
    ("a1x", "a2x"),
    ("aime24", "aime25"),
    ("lr_1e-5", "lr_1e-6"),
    CHECKPOINT,
]
"""Names with numbers that may be steps, which is a warning."""


CASES: list[tuple[dict[str, int], NoteKind]] = []
"""Steps by file, and the note on them."""

for _files in FOUND:
    CASES.append((_files, NoteKind.PATH_STEP))
for _names in NO_STEPS:
    CASES.append(({f"{name}.jsonl": 0 for name in _names}, NoteKind.NO_STEP))
for _names in DOUBTFUL:
    _step = 7 if _names == CHECKPOINT else 0
    CASES.append(({f"{name}.jsonl": _step for name in _names}, NoteKind.FORMAT))


@pytest.mark.parametrize(("names", "kind"), CASES)
def test_a_step_in_the_path_is_read_and_noted_and_other_numbers_are_none(
    names, kind, tmp_path
):
    scan = read(logs(tmp_path / "logs", *names), strict=True)
    assert steps_of(scan) == {name: [step] for name, step in names.items()}
    (note,) = (note for note in scan.notes if note.kind == kind)
    if kind == NoteKind.PATH_STEP:
        assert note.count == len(names)
        assert note.text.endswith(f"such as step {names[str(note.file)]}")
        assert NoteKind.FORMAT not in kinds(scan)
    elif kind == NoteKind.NO_STEP:
        assert note.text.startswith("no row has a step, so the run is one step")
        assert "--map step=FIELD or --step-from-path" in note.text
        assert note.count == 2 * len(names)
        assert {NoteKind.PATH_STEP, NoteKind.FORMAT}.isdisjoint(
            kinds(scan)
        ) and "step" not in scan.fields
    else:
        assert f"all rows have step {max(names.values())}, although" in note.text
        assert "--step-from-path" in note.text


@pytest.mark.parametrize(
    ("names", "logged", "first"),
    [
        (("x_10.jsonl", "x_20.jsonl", "x_final.jsonl"), {}, "x_final.jsonl"),
        (("x_10.jsonl",), {"x_20.jsonl": 20}, "x_10.jsonl"),
        (("x_10.jsonl.zip", "x_20.jsonl.zip", "last.jsonl.zip"), {}, "last.jsonl.zip"),
    ],
)
def test_files_without_a_step_beside_files_with_one_are_warned_about(
    names: tuple[str, ...], logged: dict[str, int], first: str, tmp_path: Path
) -> None:
    for name in names:
        path = logs(tmp_path / "logs", name) / name
        if name.endswith(".zip"):
            zipped(path, {"a.jsonl": path.read_bytes()})
    for name, step in logged.items():
        write(tmp_path / "logs" / name, [row(step), row(step)])
    scan = read(tmp_path / "logs")
    assert sorted({*scan.responses["step"]} - {10}) == [0, 20]
    (note,) = (note for note in scan.notes if note.kind == NoteKind.FORMAT)
    assert note.text.startswith(
        f"2 rows without a step, the first in {first}, are read as step 0"
    )
    assert NoteKind.NO_STEP not in kinds(scan)
    assert scan.fields.get("step", 0) == 2 * len(logged)


@pytest.mark.parametrize(
    ("members", "steps", "noted"),
    [
        (
            {"step_1/r.jsonl": 1, "step_2/r.jsonl": 2, "step_10/r.json": 10},
            {1, 2, 10},
            NoteKind.PATH_STEP,
        ),
        ({"x_1.jsonl": 1, "x_2.jsonl": 2}, {1, 2}, NoteKind.PATH_STEP),
        ({"1/r.jsonl": 0, "2/r.jsonl": 0}, {0}, NoteKind.FORMAT),
        ({"rank_1.jsonl": 0, "rank_2.jsonl": 0}, {0}, NoteKind.NO_STEP),
    ],
)
def test_paths_in_a_zip_are_like_paths_of_files(members, steps, noted, tmp_path):
    def line(name: str) -> str:
        return json.dumps(stepless(prompt=name, response=name)) + "\n"

    zipped(tmp_path / "run.jsonl.zip", {name: line(name) for name in members})
    scan = read(tmp_path, strict=True)
    rollouts = scan.rollouts.read(range(len(members)))
    assert {rollout.response: rollout.step for rollout in rollouts} == members
    assert set(scan.responses["step"]) == steps
    assert noted in kinds(scan)
    if noted == NoteKind.PATH_STEP:
        assert kinds(scan).isdisjoint({NoteKind.FORMAT, NoteKind.NO_STEP})
    if noted == NoteKind.FORMAT:
        scan = read(tmp_path, step_from_path=r"(\d+)/r\.jsonl$")
        assert set(scan.responses["step"]) == {1, 2}
        assert kinds(scan).isdisjoint(
            {NoteKind.PATH_STEP, NoteKind.FORMAT, NoteKind.NO_STEP}
        )


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (("step_1/a.jsonl", "step_2/a.jsonl"), True),
        (("r_1.jsonl", "r_2.jsonl"), True),
        (("step_4/rank_0.jsonl", "step_4/rank_1.jsonl"), False),
        (("r-00001-of-00002.jsonl", "r-00002-of-00002.jsonl"), False),
        (("r_1.jsonl",), False),
    ],
)
def test_rows_of_one_step_in_paths_of_several_are_noted(names, noted, tmp_path):
    for name in names:
        write(tmp_path / name, [row(4)])
    scan = read(tmp_path, strict=True)
    assert set(scan.responses["step"]) == {4}
    notes = [note for note in scan.notes if note.kind == NoteKind.FORMAT]
    assert [
        note.text.startswith("all rows have step 4, although") for note in notes
    ] == [True] * noted
    if noted:
        scan = read(tmp_path, step_from_path=r"_(\d)")
        assert set(scan.responses["step"]) == {1, 2}
        assert NoteKind.FORMAT not in kinds(scan)


def test_mapped_rows_and_messages_have_the_step_of_the_path(tmp_path: Path) -> None:
    logs(tmp_path, "iter_3/a.jsonl", "iter_4/a.jsonl", answer="x")
    scan = read(tmp_path, mapping={"response": "answer"})
    assert sorted(set(scan.responses["step"])) == [3, 4]
    assert NoteKind.PATH_STEP in kinds(scan)


def test_steps_of_paths_are_cached_and_found_in_ranges(tmp_path):
    limits = ReadLimits(range_bytes=64)
    folder = logs(tmp_path / "logs", "r_1.jsonl", "r_2.jsonl", rows=9)
    for _ in range(2):
        scan = read(folder, cache=str(tmp_path / "kept"), limits=limits)
        assert steps_of(scan) == {"r_1.jsonl": [1], "r_2.jsonl": [2]}
    (folder / "r_2.jsonl").unlink()  # now it may be a run of one step
    assert steps_of(read(folder, cache=str(tmp_path / "kept"))) == {"r_1.jsonl": [0]}


def test_many_numbered_files_of_which_some_are_examined(tmp_path: Path) -> None:
    scan = read(logs(tmp_path, *(f"r_{i}.jsonl" for i in range(40)), rows=1))
    assert sorted(scan.responses["step"]) == list(range(40))


def test_steps_of_paths_are_read_by_other_processes(tmp_path: Path) -> None:
    folder = logs(tmp_path, "step_1/a.jsonl", "step_2/a.jsonl")
    formats = detect_formats(find_sources([folder]), ReadOptions()).formats
    one, other = pickle.loads(pickle.dumps(formats))
    assert list(one.steps.values()) == [1]
    assert list(other.steps.values()) == [2]


def test_a_path_has_no_step_by_chance() -> None:
    names = [
        "timestep3/a.jsonl",
        "lr-0.5.jsonl",
        "lr-0.6.jsonl",
        "v2.jsonl",
        "v3.jsonl",
    ]
    assert (
        path_steps([*names, "a_1/b_0001-of-0002.jsonl", "a_2/b_0001-of-0002.jsonl"])
        == {}
    )


def test_a_run_without_steps_is_said_to_be_one_step_on_the_terminal_and_beside_the_verdict(
    tmp_path,
):
    texts = {"prompt": "p", "response": "r"}
    rows = [{**texts, "reward": n / 9, "it": n} for n in range(9)]
    log = write(tmp_path / "log.jsonl", rows)
    out = tmp_path / "out"
    said = "o row has a step, so the run is one step"
    for text in (build(log, out).stderr, (out / "index.html").read_text()):
        assert said in text
        assert "pass --map step=it, or --step-from-path REGEX" in text
    assert said in (out / "data.html").read_text()
    assert said not in build(log, out, "--map", "step=it").stderr
    assert said not in (out / "index.html").read_text()
