"""prime-rl's stream of traces: updates reach the tables, and what was not used is left out."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlreport.check import run_checks
from rlreport.summarise import summarise
from rlreport.system.stores import zstd
from tests.net import DUMPS
from tests.reading import read, write
from tests.test_frameworks import by_step

DUMP = DUMPS / "prime_rl"


@pytest.mark.parametrize("packed", [False, True])
def test_one_file_of_traces_and_one_of_each_producers_updates_are_the_same_run(packed, tmp_path):
    wanted = read(DUMP / "stream")
    traces = DUMP / "stream" / "monitors" / "file" / "traces"
    for folder in (traces / "stream", *(traces / "annotations").glob("*[!l]")):
        data = b"".join(unpacked(chunk) for chunk in sorted(folder.iterdir()))
        file = tmp_path / "traces" / folder.relative_to(traces).with_suffix(".jsonl")
        file.parent.mkdir(parents=True, exist_ok=True)
        if packed:
            file, data = file.with_suffix(".jsonl.zst"), zstd.compress(data)
        file.write_bytes(data)
    scan = read(tmp_path)
    assert by_step(scan) == {4: 1.0}
    columns = ["reward", "advantage_mean", "mismatch_ratio", "log_weight"]
    assert scan.responses[columns].equals(wanted.responses[columns])
    assert left_out(scan) == left_out(wanted)


WITHOUT = [(), ("trainer",), ("trainer", "orchestrator")]


@pytest.mark.parametrize("missing", WITHOUT, ids=["all", "no_trainer", "no_updates"])
def test_of_a_trace_s_branches_one_that_was_trained_on_counts(missing, tmp_path):
    """Compacted contexts, a dropped summary and sub-agents, of which prime-rl trains on all but
    the summary; the writer was given the rewards 1, 0 and 0.25, and 9 of a trace it left out."""
    folder = shutil.copytree(DUMPS / "prime_rl_branches", tmp_path / "run")
    for producer in missing:
        shutil.rmtree(folder / "monitors" / "file" / "traces" / "annotations" / producer)
    scan = read(folder)
    trained = scan.responses[scan.responses["validation"] == 0]
    of_branches = scan.responses[scan.responses["validation"] == 2]
    if len(missing) < 2:
        assert by_step(scan) == {4: pytest.approx(1.25 / 3)}  # trained on a step after it was made
        assert left_out(scan) == {"filtered_out": 1, "untrained": 1}  # a trace counts once
        assert trained["advantage_mean"].tolist() == pytest.approx([7 / 12, -5 / 12, -1 / 6], 1e-3)
        assert (len(trained), len(of_branches)) == (3, 5)
    else:
        assert by_step(scan) == {3: pytest.approx((1.25 + 9) / 4)}
        assert (len(trained), len(of_branches)) == (4, 6)
    assert set(trained["group"]) == {0} and 0 not in set(of_branches["group"])
    names = scan.extras["branch"].fillna("").groupby(scan.responses["rollout"]).agg(list).tolist()
    assert names[:3] == [
        ["", "compaction_attempt", "subagent", "compaction"],
        ["", "subagent"],
        ["compaction", "compaction_attempt"],  # the second summary failed, and ended the trace
    ]
    counted = scan.rollouts.read(range(3))
    assert [one.conversation[-1].words for one in counted] == ["It is 4.", "It is 5.", "2+2 is 4."]


def left_out(scan: Any) -> dict[str, int]:
    kinds = ("filtered_out", "untrained", "failed")
    return {note.kind: note.count for note in scan.notes if note.kind in kinds}


def unpacked(file: Path) -> bytes:
    with file.open("rb") as stream:
        return zstd.ZstdFile(stream).read() if file.suffix == ".zst" else stream.read()


def episode(trace: str, step: int, group: str, reward: float) -> dict[str, Any]:
    rng = random.Random(trace)
    sampled = [rng.uniform(-2, 0) for _ in range(24)]
    nodes = [
        {"message": {"role": "user", "content": f"Task {group}"}, "sampled": False,
         "token_ids": [1, 2], "mask": [False, False]},
        {"parent": 0, "message": {"role": "assistant", "content": f"It is {rng.random()}."},
         "sampled": True, "token_ids": list(range(5, 29)), "mask": [True] * 24,
         "logprobs": sampled},
    ]  # fmt: skip
    return {
        "id": f"e{trace}", "env": {"id": "calc"}, "task": {"type": "T", "data": {}}, "ok": True,
        "group": {"id": group}, "run": {"type": "train", "id": "r", "work":
            {"type": "train", "step": step}},
        "traces": [{"id": trace, "nodes": nodes, "rewards": {"r": {"score": reward, "weight": 1}},
                    "info": {}, "is_completed": True}],
    }  # fmt: skip


def run(folder: Path, noise: float, steps: int = 24, each: int = 8) -> Path:
    """Write a run with its updates, some packed; the trainer's logprobs are off by ``noise``."""
    rng = random.Random(0)
    stream, updates, trained = [], [], []
    for step in range(steps):
        for n in range(each):
            one = episode(f"t{step}-{n}", max(step - 1, 0), f"g{n // 4}", rng.random())
            stream.append(one)
            info = {"train": {"effective": n != 0, "trained_at_step": step}, "advantage": 0.5}
            trace = one["traces"][0]
            updates.append({"version": 1, "trace_id": trace["id"], "info": info, "branches": []})
            logprobs = [v + rng.gauss(0, noise) for v in trace["nodes"][1]["logprobs"]]
            branch = {"index": 0, "trainer_logprobs": [None, None, *logprobs]}
            trained.append(updates[-1] | {"info": {}, "branches": [branch]})
    traces = folder / "monitors" / "file" / "traces"
    for place, rows in (("stream", stream), ("annotations/orchestrator", updates),
                        ("annotations/trainer", trained)):  # fmt: skip
        (traces / place).mkdir(parents=True)
        lines = [json.dumps(row).encode() + b"\n" for row in rows]
        half = len(lines) // 2
        frames = [zstd.compress(b"".join(lines[:half][k::2])) for k in range(2)]
        (traces / place / "00000.jsonl.zst").write_bytes(b"".join(frames))
        (traces / place / "00001.jsonl").write_bytes(b"".join(lines[half:]))
    return folder


def updates_of(folder: Path) -> Path:
    return folder / "monitors/file/traces/annotations"


def append(folder: Path, *updates: dict[str, Any] | bytes) -> None:
    chunk = updates_of(folder) / "trainer" / "00001.jsonl"
    write(chunk, [chunk.read_bytes(), *updates])


def remarks(scan: Any) -> list[str]:
    return [note.text for note in scan.notes if note.kind == "format"]


@pytest.mark.parametrize(("noise", "found"), [(0.0, False), (1.2, True)])
def test_a_mismatch_in_the_updates_is_found(tmp_path: Path, noise: float, found: bool) -> None:
    folder = run(tmp_path / "run", noise)
    tables = summarise(read(folder))
    ids = {finding.id for finding in run_checks(tables).findings}
    assert ("engine_mismatch" in ids) == found, ids
    assert len(tables.responses) == 24 * 7
    assert tables.steps["step"].tolist() == list(range(24))
    for chunk in folder.rglob("00000.jsonl.zst"):  # beside its packed copy a chunk counts once
        chunk.with_suffix("").write_bytes(unpacked(chunk))
    assert len(read(folder).responses) == 24 * 7


HOSTILE = [
    b"{\n", b"[]\n", b'{"trace_id": 5}\n', b'{"trace_id": "t0-1", "info": []}\n',
    b'{"trace_id": "t0-1", "branches": {"index": 0}}\n',
    b'{"trace_id": "t0-1", "info": {"train": 5}, "branches": [{"index": 9}, {"index": true}]}\n',
    b'{"trace_id": "t0-1", "branches": [{"index": 0, "advantages": "x", "entropies": [1e999]}]}\n',
    b'{"trace_id": "t0-1", "info": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n",
    b"\xff\xfe" * 50,
]  # fmt: skip


@pytest.mark.parametrize("lines", [HOSTILE, *([line] for line in HOSTILE)])
def test_a_bad_update_costs_nothing_but_itself(tmp_path: Path, lines: list[bytes]) -> None:
    folder = run(tmp_path / "run", 0.0, steps=2)
    bad = [
        {"trace_id": "t1-1", "branches": [{"index": 0, name: [None, None, value, *[-0.5] * 23]}]}
        for name in ("trainer_logprobs", "entropies", "advantages")
        for value in (None, "x", 10**400)
    ]
    append(folder, *bad, *lines)
    # Neither this file of other updates nor ids that JSON escapes change what is read.
    update = {"trace_id": "t0-1", "info": {"train": {"effective": True, "trained_at_step": 50}}}
    write(updates_of(folder) / "trainer" / "00000.jsonl.bak", [update])
    for file in folder.rglob("00001.jsonl"):
        file.write_bytes(file.read_bytes().replace(b'"t1-', b'"\\u0074\\u0031-'))
    scan = read(folder)
    assert scan.responses["response_tokens"].tolist() == [24.0] * 14
    assert sorted(set(scan.responses["step"])) == [0, 1]
    assert scan.bad_lines == []
    if lines is HOSTILE:
        assert "4 lines of trainer/00001.jsonl are not updates" in remarks(scan)[0]


def test_what_updates_lack_is_missing_and_what_a_newer_writer_adds_is_named(tmp_path) -> None:
    folder = run(tmp_path / "run", 0.0, steps=4)
    added = [{"index": 0, "value_estimates": [None, None, *[0.5] * 24]}]
    append(folder, {"trace_id": "t2-1", "info": {"loss": {"weight": 2}}, "branches": added})
    unread = next(note.text for note in read(folder).notes if note.kind == "not_taken")
    assert "traces.info.loss" in unread and "traces.nodes.value_estimates" in unread
    for name in ("nodes.logprobs", "nodes.message", "nodes.token_ids", "nodes.mask", "rewards"):
        assert f"traces.{name} " not in unread
    trainer = updates_of(folder) / "trainer" / "00001.jsonl"
    trainer.write_text(re.sub(r'.*"t3-.*\n', "", trainer.read_text()))
    # The sampler does not take the trainer's place.
    known = read(folder).responses.groupby("step")["surprisal_mean"].count()
    assert known.tolist() == [7, 7, 7, 0]
    for file in (updates_of(folder) / "orchestrator").iterdir():
        file.unlink()
    scan = read(folder)  # without marks of use every trace is a training row
    assert len(scan.responses) == 32 and scan.responses["step"].max() == 2  # as logged


@pytest.mark.parametrize("kept", [0, -20])
@pytest.mark.parametrize("chunk", ["trainer/00002.jsonl.zst", "orchestrator/00000.jsonl.zst"])
def test_of_a_damaged_chunk_of_updates_what_is_before_the_damage_is_read(tmp_path, chunk, kept):
    folder = run(tmp_path / "run", 0.0, steps=4)
    path = updates_of(folder) / chunk
    data = path.read_bytes() if path.exists() else zstd.compress(b"{}\n" * 9)
    path.write_bytes(data[:kept] or b"no zstandard at all")
    assert 0 < len(read(folder).responses) <= 28
    assert f"{chunk} ends early" in remarks(read(folder))[0]
