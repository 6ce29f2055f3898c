"""What clusters write: each oddity costs its own line or file only, and is named."""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from rlreport.errors import StrictError, UnusableInputError, UsageError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.choice import Choice, choose_rows
from rlreport.read.chunk import read_chunk
from rlreport.read.files import ByteRange, Lines, find_sources
from rlreport.system.stores import zstd
from tests.reading import kinds, read, row, token_figures, tokens, write

GOOD = row(0)


def test_torn_last_line_is_said_to_be_torn(tmp_path: Path) -> None:
    scan = read(write(tmp_path / "a.jsonl", [GOOD, GOOD, '{"step": 3, "prom']))
    assert len(scan.responses) == 2
    (bad,) = scan.bad_lines
    assert (bad.file, bad.line, bad.torn) == ("a.jsonl", 3, True)


def test_whole_last_line_without_line_end_is_a_row(tmp_path: Path) -> None:
    text = '{"step": 1, "prompt": "p", "response": "r", "reward": 1}'
    scan = read(write(tmp_path / "a.jsonl", [GOOD, text]))
    assert (len(scan.responses), scan.bad_count) == (2, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not json\n", "not valid JSON"),
        (b'{"step": 1, "prompt": "\xff\xfe"}\n', "not valid UTF-8"),
        (b'{"a": "\x00"}\n', "NUL"),
        (b"[1, 2]\n", "not an object but a list"),
        (b"17\n", "not an object but a number"),
        (b"null\n", "not an object but null"),
        (b"[" * 100_000 + b"\n", "not valid JSON"),
        ({"step": 1, "prompt": "p", "response": "r"}, "no reward"),
        ({"prompt": "p", "response": "r", "reward": 1}, "no step"),
        (row(None), "step is null"),
        (row(True), "step is true"),
        (row(1.5), "step is not an integer: 1.5"),
        (row("twelve"), "step is not an integer: 'twelve'"),
        (row([1]), "step is not an integer"),
        (row(2**60), "step is beyond"),
        (row(10**30), "step is beyond"),
        (row(prompt=None), "prompt is not text but null"),
        (row(response=["a"]), "response is not text but a list"),
        (row(reward="good"), "reward is not a number"),
        (row(reward=[1.0, 2.0]), "reward is not a number"),
        (row(reward={}), "reward is not a number"),
    ],
)
def test_a_line_that_means_nothing_is_named_with_its_reason(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    scan = read(write(tmp_path / "a.jsonl", [GOOD, line, GOOD]))
    assert len(scan.responses) == 2
    (bad,) = scan.bad_lines
    assert (bad.line, bad.torn) == (2, False)
    assert reason in bad.reason
    assert scan.files[0].bad == scan.bad_count == 1


def test_blank_lines_are_no_rows_but_count_as_lines(tmp_path: Path) -> None:
    scan = read(write(tmp_path / "a.jsonl", [GOOD, "\n", "  \n", GOOD]))
    assert scan.responses["line"].tolist() == [1, 4]
    assert scan.bad_count == 0


def test_bom_and_crlf_are_no_part_of_the_rows(tmp_path: Path) -> None:
    line = b'{"step": 1, "prompt": "p", "response": "r", "reward": 2}\r\n'
    scan = read(write(tmp_path / "a.jsonl", [b"\xef\xbb\xbf", line, line]))
    assert scan.responses["reward"].tolist() == [2.0, 2.0]
    assert [r.response for r in scan.rollouts.read([1, 0])] == ["r", "r"]


def test_empty_file_is_noted(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    write(tmp_path / "b.jsonl", [])
    scan = read(tmp_path)
    assert "empty_file" in kinds(scan)
    assert [file.rows for file in scan.files] == [1, 0]


@pytest.mark.parametrize("size", [900, 40_000_000])
def test_line_over_the_limit_is_skipped(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.chunk.MAX_LINE", 500)
    path = write(tmp_path / "a.jsonl", [GOOD, row(response="x" * size), row(5)])
    scan = read(path)
    assert scan.responses["step"].tolist() == [0, 5]
    assert [bad.line for bad in scan.bad_lines] == [2]
    assert scan.bad_lines[0].reason == "longer than 500 bytes"
    assert scan.responses["line"].tolist() == [1, 3]


def test_missing_numbers_in_arrays_are_skipped_by_means(tmp_path: Path) -> None:
    odd = tokens("a", "b", "c", logprobs=[-1.0, math.nan, None], ref_logprobs=[-2.0, -1.0, -1.0])
    scan = read(write(tmp_path / "a.jsonl", [odd]))
    one = scan.responses.iloc[0]
    assert (one["kl_k1"], one["surprisal_mean"], one["logp_tokens"]) == (1.0, 1.0, 1.0)
    assert one["nan_values"] == 2
    table = token_figures(scan)
    assert table["count"].tolist() == [1, 1, 1]
    assert table.loc[["a", "b", "c"], "prob_mean"].notna().tolist() == [True, False, False]


@pytest.mark.parametrize(
    "odd",
    [["a", 1], ["a", None, "b"], ["a", ["b", "c"]], ["a", {"b": "c"}], [["a"], "b"], [1, "a"]],
)
def test_token_arrays_with_other_things_than_strings_cost_no_other_row(
    tmp_path: Path, odd: list[object]
) -> None:
    rows = [tokens("x", "y"), tokens("a", "b", response_tokens=odd), tokens("x", "y")]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert len(scan.responses) == 3
    assert token_figures(scan)["count"].to_dict() == {"x": 2, "y": 2}
    assert "not_tokens" in kinds(scan)
    assert scan.responses["surprisal_mean"].notna().all()
    assert scan.fields["response_tokens"] == 2


def test_lone_surrogates_and_hostile_tokens_survive_both_passes(tmp_path: Path) -> None:
    strings = ['"', "\\", '\\"', "]", '"],', "\\u0041", "\ud800", "", "\n", "🎉", "a" * 300]
    lines = [tokens(*strings, response="x\ud800y"), tokens(*strings)]
    scan = read(write(tmp_path / "a.jsonl", lines))
    counts = token_figures(scan)["count"]
    assert set(counts) == {2}
    assert len(counts) == len(strings)
    rollouts = scan.rollouts.read([0, 1])
    assert rollouts[1].raw_tokens[:6] == strings[:6]
    assert rollouts[0].response == "x\ufffdy"


def test_escaped_and_plain_tokens_are_one(tmp_path: Path) -> None:
    plain = '{"step":0,"prompt":"p","response":"r","reward":1,"response_tokens":["Ġa","b"]}\n'
    scan = read(write(tmp_path / "a.jsonl", [plain, plain.replace("Ġ", "\\u0120")]))
    assert token_figures(scan)["count"].to_dict() == {"Ġa": 2, "b": 2}


def test_a_nested_field_of_the_same_name_is_not_taken_for_the_tokens(tmp_path: Path) -> None:
    line = (
        '{"info":{"response_tokens":["x","y","z"]},"step":0,"prompt":"p","response":"r",'
        '"reward":1,"response_tokens":["a","b"]}\n'
    )
    scan = read(write(tmp_path / "a.jsonl", [line, line]))
    assert set(token_figures(scan).index) == {"a", "b"}


def test_a_restart_is_reported_and_its_older_rows_can_be_left_out(tmp_path: Path) -> None:
    steps = [0, 1, 2, 3, 4, 5, 3, 4, 5, 6]
    path = write(tmp_path / "a.jsonl", [row(step, reward=i) for i, step in enumerate(steps)])
    scan = read(path)
    assert len(scan.responses) == 10
    (note,) = scan.notes
    assert note.kind == "restart"
    assert "3 to 5" in note.text
    last = read(path, restarts="last")
    assert last.responses["step"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert last.responses["reward"].tolist() == [0, 1, 2, 6, 7, 8, 9]
    assert len(last.ngrams.rows) == 7  # type: ignore[union-attr]


def test_rows_in_no_order_are_no_restart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row(int(step)) for step in rng.integers(0, 20, 200)]
    assert read(write(tmp_path / "a.jsonl", rows)).notes == []


def test_identical_rows_are_all_kept(tmp_path: Path) -> None:
    scan = read(write(tmp_path / "a.jsonl", [GOOD] * 5))
    assert len(scan.responses) == 5
    assert scan.responses["response_hash"].nunique() == 1


def test_other_files_in_the_folder_are_left_alone_and_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "trainer_state.json").write_text('{"log_history": [{"loss": 1, "step": 1}]}')
    write(tmp_path / "metrics.jsonl", [{"step": 1, "data": {"loss": 1.0}}])
    scan = read(tmp_path)
    assert [file.name for file in scan.files] == ["a.jsonl"]
    named = {note.file for note in scan.notes}
    assert named == {"README.md", "metrics.jsonl", "trainer_state.json"}


def test_symlinks_neither_loop_nor_count_twice(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "b.jsonl", [GOOD])
    (tmp_path / "run" / "back").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "run" / "latest.jsonl").symlink_to(tmp_path / "run" / "b.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    scan = read(tmp_path)
    assert len(scan.responses) == 1 + ("a.jsonl" in {file.name for file in scan.files})
    assert [bad.file for bad in scan.bad_lines] == ["dangling.jsonl"]


def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    os.mkfifo(tmp_path / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.jsonl"))
    (tmp_path / "linked.jsonl").symlink_to(tmp_path / "pipe.jsonl")
    (tmp_path / "null.jsonl").symlink_to("/dev/zero")
    scan = read(tmp_path)
    assert {bad.file: bad.reason for bad in scan.bad_lines} == {
        "linked.jsonl": "a pipe, not a file: skipped",
        "null.jsonl": "a device, not a file: skipped",
        "pipe.jsonl": "a pipe, not a file: skipped",
        "s.jsonl": "a socket, not a file: skipped",
    }
    assert len(scan.responses) == 1


@pytest.mark.timed
def test_a_long_line_costs_no_more_a_byte_than_a_short_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, response="x" * (16 << 20))])
    (source,) = find_sources([path]).sources
    start = time.process_time()
    (line,) = Lines(ByteRange(0, source, 0, source.size), 1 << 40)
    # Joining each piece to all before it would copy gigabytes.
    assert time.process_time() - start < 2
    assert line.data is not None
    assert len(line.data) == source.size - 1


def test_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    write(tmp_path / "b.jsonl", [GOOD])
    # Whoever tests as root may read everything, so permissions are acted out.
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("b.jsonl"))
    scan = read(tmp_path)
    assert [(bad.file, bad.line) for bad in scan.bad_lines] == [("b.jsonl", 0)]


def test_strict_lists_what_would_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [GOOD, *["broken\n"] * 30])
    with pytest.raises(StrictError) as caught:
        read(path, strict=True)
    assert "a.jsonl:2: not valid JSON" in str(caught.value)
    assert "and 10 more" in str(caught.value)
    assert len(read(write(tmp_path / "b.jsonl", [GOOD]), strict=True).responses) == 1


def test_missing_path_and_useless_input_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(UnusableInputError, match="No rollout log"):
        read(tmp_path)
    write(tmp_path / "a.jsonl", ["x\n"])
    with pytest.raises(UnusableInputError, match=r"a\.jsonl, line 1: not valid JSON"):
        read(tmp_path)


def test_names_are_relative_to_what_was_given(tmp_path: Path) -> None:
    for name in ("one/a.jsonl", "two/deep/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True)
        write(tmp_path / name, [GOOD])
    assert [f.name for f in read(tmp_path).files] == ["one/a.jsonl", "two/deep/b.jsonl"]
    both = read(tmp_path / "one", tmp_path / "two")
    assert [f.name for f in both.files] == ["one/a.jsonl", "two/deep/b.jsonl"]
    assert [f.name for f in read(str(tmp_path / "*" / "*.jsonl")).files] == ["one/a.jsonl"]
    assert [f.name for f in read(tmp_path / "one" / "a.jsonl").files] == ["a.jsonl"]
    assert len(read(tmp_path, tmp_path / "one").responses) == 2


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_logs_stream_in_both_passes(tmp_path: Path, suffix: str) -> None:
    plain = write(tmp_path / "a.jsonl", [tokens("a", "b", step=i, reward=i) for i in range(50)])
    pack = gzip.compress if suffix == "gz" else zstd.compress
    half = plain.read_bytes().index(b"\n", 3_000) + 1
    folder = tmp_path / "packed"
    folder.mkdir()
    # Two members, as a log that was appended to has.
    data = pack(plain.read_bytes()[:half]) + pack(plain.read_bytes()[half:])
    (folder / f"a.jsonl.{suffix}").write_bytes(data)
    packed, wanted = read(folder), read(plain)
    assert packed.responses.equals(wanted.responses)
    order = [49, 3, 20]
    found = packed.rollouts.read(order)
    assert [r.step for r in found] == order
    assert packed.prompt_texts() == ["Say hi."]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_truncated_archive_keeps_what_can_be_unpacked(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    rows = [row(i, response=rng.bytes(50).hex()) for i in range(2000)]
    data = write(tmp_path / "plain", rows).read_bytes()
    pack = gzip.compress if suffix == "gz" else zstd.compress
    whole = pack(data)
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    scan = read(path)
    assert 500 < len(scan.responses) < 2000
    assert all(bad.torn for bad in scan.bad_lines)
    assert 1 <= scan.bad_count <= 2


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_damage_costs_no_line_long_before_it(tmp_path: Path, suffix: str) -> None:
    lines = [json.dumps(row(i)).encode() + b"\n" for i in range(3000)]
    pack = gzip.compress if suffix == "gz" else zstd.compress
    members = [pack(b"".join(lines[at : at + 100])) for at in range(0, 3000, 100)]
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(b"".join(members) + b"neither is this")
    assert len(read(path).responses) == 3000
    path.write_bytes(b"".join([*members[:20], members[20][:-20], *members[21:]]))
    assert len(read(path).responses) > 1700


def test_a_container_cut_short_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    packed = gzip.compress(json.dumps([row(i) for i in range(50)]).encode())
    (tmp_path / "b.json.gz").write_bytes(packed[:-30])
    assert [note.file for note in read(tmp_path).notes] == ["b.json.gz"]
    (tmp_path / "b.json.gz").write_bytes(packed)
    assert len(read(tmp_path).responses) == 51


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "b.jsonl.gz").write_bytes(b"not gzip at all")
    (tmp_path / "c.jsonl.zst").write_bytes(b"not zstd at all")
    assert [bad.file for bad in read(tmp_path).bad_lines] == ["b.jsonl.gz", "c.jsonl.zst"]


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    data = write(tmp_path / "a.jsonl", [tokens("a", step=i) for i in range(20)]).read_bytes()
    memory.pipe("/run/one/a.jsonl", data)
    memory.pipe("/run/b.jsonl.gz", gzip.compress(data))
    scan = read("memory://run")
    assert [file.name for file in scan.files] == ["b.jsonl.gz", "one/a.jsonl"]
    assert len(scan.responses) == 40
    assert next(iter(scan.rollouts.read([39]))).step == 19
    assert len(read("memory://run/one/a.jsonl").responses) == 20
    assert len(read("memory://run/*/*.jsonl").responses) == 20
    assert len(read(f"file://{tmp_path}").responses) == 20
    with pytest.raises(UsageError, match="memory://nothing"):
        read("memory://nothing")


def test_further_scalars_are_capped_with_a_note(tmp_path: Path) -> None:
    scan = read(write(tmp_path / "a.jsonl", [row(**{f"f{i:03}": i for i in range(100)})]))
    assert list(scan.extras.columns) == [f"f{i:03}" for i in range(64)]
    assert "many_extras" in kinds(scan)


def test_system_prompt_and_pad_tokens_are_no_part_of_a_prompt(tmp_path: Path) -> None:
    rows = [row(prompt="<PAD>rules<|end|>Say hi."), row(prompt="other<|end|>Say hi.<PAD>")]
    scan = read(write(tmp_path / "a.jsonl", rows), system_end_token="<|end|>")
    assert scan.responses["prompt_id"].tolist() == [0, 0]
    assert scan.prompt_texts() == ["Say hi."]


def test_a_log_that_changes_before_its_rows_are_read_again_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", [GOOD, row(1)])

    def choose_and_change(*arguments: Any) -> Choice:
        path.write_bytes(b"")
        return choose_rows(*arguments)

    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)
    monkeypatch.setattr("rlreport.read.logs.choose_rows", choose_and_change)
    with pytest.raises(UnusableInputError, match=r"a\.jsonl changed"):
        read(path)


def test_rows_appended_while_reading_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [GOOD, GOOD])
    (source,) = find_sources([path]).sources
    with path.open("ab") as file:
        file.write(path.read_bytes())
    part = ByteRange(0, source, 0, source.size)
    assert read_chunk([part], ReadOptions(), FigureOptions()).rows == 2
