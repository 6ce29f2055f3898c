"""prime-rl's stream of traces: updates reach the tables, and what was not used is left out."""

import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlreport.system.stores import zstd
from tests.net import DUMPS
from tests.reading import read, write
from tests.test_frameworks import by_step

DUMP = DUMPS / "prime_rl"


@pytest.mark.parametrize("packed", [False, True])
def test_one_file_of_traces_and_one_of_each_producers_updates_are_the_same_run(
    packed, tmp_path
):
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
def test_of_a_trace_s_branches_one_that_was_trained_on_counts(missing, run):
    """Compacted contexts, a dropped summary and sub-agents, of which prime-rl trains on all but
    the summary; the writer was given the rewards 1, 0 and 0.25, and 9 of a trace it left out."""
    for producer in missing:
        shutil.rmtree(updates_of(run) / producer)
    scan = read(run)
    trained = scan.responses[scan.responses["validation"] == 0]
    of_branches = scan.responses[scan.responses["validation"] == 2]
    if len(missing) < 2:
        assert by_step(scan) == {
            4: pytest.approx(1.25 / 3)
        }  # trained on a step after it was made
        assert left_out(scan) == {
            "filtered_out": 1,
            "untrained": 1,
        }  # a trace counts once
        assert trained["advantage_mean"].tolist() == pytest.approx(
            [7 / 12, -5 / 12, -1 / 6], 1e-3
        )
        assert (len(trained), len(of_branches)) == (3, 5)
    else:
        assert by_step(scan) == {3: pytest.approx((1.25 + 9) / 4)}
        assert (len(trained), len(of_branches)) == (4, 6)
    assert set(trained["group"]) == {0} and 0 not in set(of_branches["group"])
    names = (
        scan.extras["branch"]
        .fillna("")
        .groupby(scan.responses["rollout"])
        .agg(list)
        .tolist()
    )
    assert names[:3] == [
        ["", "compaction_attempt", "subagent", "compaction"],
        ["", "subagent"],
        [
            "compaction",
            "compaction_attempt",
        ],  # the second summary failed, and ended the trace
    ]
    counted = scan.rollouts.read(range(3))
    assert [one.conversation[-1].words for one in counted] == [
        "It is 4.",
        "It is 5.",
        "2+2 is 4.",
    ]


def left_out(scan: Any) -> dict[str, int]:
    kinds = ("filtered_out", "untrained", "failed")
    return {note.kind: note.count for note in scan.notes if note.kind in kinds}


def unpacked(file: Path) -> bytes:
    with file.open("rb") as stream:
        return zstd.ZstdFile(stream).read() if file.suffix == ".zst" else stream.read()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four traces, of which t0, t1 and t2 were trained on, with their updates."""
    return shutil.copytree(DUMPS / "prime_rl_branches", tmp_path / "run")


def updates_of(folder: Path) -> Path:
    return folder / "monitors/file/traces/annotations"


def append(folder: Path, *updates: dict[str, Any] | bytes) -> None:
    write(updates_of(folder) / "trainer" / "00001.jsonl", updates)


def unpack(folder: Path) -> list[Path]:
    """Write every packed chunk beside itself as it was before."""
    packed = sorted(folder.rglob("00000.jsonl.zst"))
    return [write(chunk.with_suffix(""), [unpacked(chunk)]) for chunk in packed]


def remarks(scan: Any) -> list[str]:
    return [note.text for note in scan.notes if note.kind == "format"]


HOSTILE = [
    b"{\n",
    b"[]\n",
    b'{"trace_id": 5}\n',
    b'{"trace_id": "t0", "info": []}\n',
    b'{"trace_id": "t0", "branches": {"index": 0}}\n',
    b'{"trace_id": "t0", "info": {"train": 5}, "branches": [{"index": 9}, {"index": true}]}\n',
    b'{"trace_id": "t0", "branches": [{"index": 0, "advantages": "x", "entropies": [1e999]}]}\n',
    b'{"trace_id": "t0", "info": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n",
    b"\xff\xfe" * 50,
]


@pytest.mark.parametrize("lines", [HOSTILE, *([line] for line in HOSTILE)])
def test_a_bad_update_costs_nothing_but_itself(run: Path, lines: list[bytes]) -> None:
    wanted = read(run).responses
    names = ("trainer_logprobs", "entropies", "advantages")
    bad = []
    for name, value in product(names, (None, "x", 10**400)):
        branch = {"index": 0, name: [None, None, value, *[-0.5] * 5]}
        bad.append({"trace_id": "t1", "branches": [branch]})
    append(run, *bad, *lines)
    # Neither this file of other updates nor ids that JSON escapes change what is read.
    update = {
        "trace_id": "t0",
        "info": {"train": {"effective": True, "trained_at_step": 50}},
    }
    write(updates_of(run) / "trainer" / "00000.jsonl.bak", [update])
    for file in unpack(run):
        file.write_bytes(file.read_bytes().replace(b'"t1"', b'"\\u0074\\u0031"'))
        file.with_suffix(".jsonl.zst").unlink()
    scan = read(run)
    columns = ["step", "rollout", "response_tokens", "reward"]
    assert scan.responses[columns].equals(wanted[columns])
    assert scan.bad_lines == []
    if lines is HOSTILE:
        assert "4 lines of trainer/00001.jsonl are not updates" in remarks(scan)[0]


def test_a_chunk_beside_its_packed_copy_counts_once(run: Path) -> None:
    wanted = read(run).responses
    assert len(unpack(run)) == 3
    assert len(read(run).responses) == len(wanted)


def test_what_updates_lack_is_missing_and_what_a_newer_writer_adds_is_named(
    run: Path,
) -> None:
    added = [{"index": 1, "value_estimates": [None, None, *[0.5] * 10]}]
    info = {"loss": {"weight": 2}}
    append(run, {"trace_id": "t0", "info": info, "branches": added})
    unread = next(note.text for note in read(run).notes if note.kind == "not_taken")
    assert "traces.info.loss" in unread and "traces.nodes.value_estimates" in unread
    for name in (
        "nodes.trainer_logprobs",
        "nodes.entropies",
        "nodes.advantages",
        "rewards",
    ):
        assert f"traces.{name} " not in unread
    packed = updates_of(run) / "trainer" / "00000.jsonl.zst"
    packed.write_bytes(zstd.compress(re.sub(rb'.*"t2".*\n', b"", unpacked(packed))))
    # The sampler does not take the trainer's place.
    known = read(run).responses.query("validation == 0")["surprisal_mean"].notna()
    assert known.tolist() == [True, True, False]


@pytest.mark.parametrize("kept", [0, -20])
@pytest.mark.parametrize(
    "chunk", ["trainer/00001.jsonl.zst", "orchestrator/00000.jsonl.zst"]
)
def test_of_a_damaged_chunk_of_updates_what_is_before_the_damage_is_read(
    run, chunk, kept
):
    path = updates_of(run) / chunk
    data = path.read_bytes() if path.exists() else zstd.compress(b"{}\n" * 9)
    path.write_bytes(data[:kept] or b"no zstandard at all")
    scan = read(run)
    assert 0 < len(scan.responses) <= 10
    assert f"{chunk} ends early" in remarks(scan)[0]
