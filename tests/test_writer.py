"""The writer logs what trainers have at hand, whole lines only, from any thread or process."""

import json
import math
import multiprocessing
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.errors import OutputError, UsageError
from rlreport.system.stores import zstd
from rlreport.writer import RolloutWriter
from tests.reading import read, write

ROW: dict[str, Any] = {
    "step": 1,
    "prompt": "q",
    "response": "a\nb",
    "reward": 0.5,
}


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def tensor(values: Any) -> Any:
    """What a torch tensor offers, in half precision on a device: its numbers are a step away."""
    wide = SimpleNamespace(
        numpy=lambda: np.asarray(values, np.float16).astype(np.float32)
    )
    moved = SimpleNamespace(is_floating_point=lambda: True, float=lambda: wide)
    return SimpleNamespace(
        detach=lambda: SimpleNamespace(cpu=lambda: moved), shape=np.shape(values)
    )


def test_lists_arrays_and_tensors_are_the_same_to_a_reader(tmp_path: Path) -> None:
    numbers = [0.5, -0.25, 1.0]
    wide = np.array([numbers, numbers], dtype=np.float32).T
    with RolloutWriter(tmp_path, rank=3) as writer:
        for values in (
            numbers,
            np.array(numbers),
            wide[:, 0],
            tensor(numbers),
            tuple(numbers),
        ):
            writer.write(**ROW, logprobs=values)
        writer.write(
            **{**ROW, "reward": tensor(0.5)},
            finished=np.bool_(True),
            kl=np.float32(0.5),
        )
        for one in (
            [0.5],
            np.array([0.5]),
            np.array([[0.5]]),
            tensor([0.5]),
        ):
            row = {**ROW, "reward": one, "step": np.int64(1)}
            writer.write(**row, kl=np.array([0.25]))
    rows = logged(tmp_path / "rank_3.jsonl")
    assert rows[6:] == [{**ROW, "kl": 0.25}] * 4
    assert all(row["logprobs"] == numbers for row in rows[:5])
    assert rows[5] == {**ROW, "finished": True, "kl": 0.5}


def test_nan_and_infinity_become_null_but_in_rewards(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path) as writer:
        nan = {**ROW, "reward": math.nan}
        values = np.array([1.0, np.inf, np.nan])
        writer.write(**nan, values=values)
        infinity = {**ROW, "reward": math.inf}
        writer.write(**infinity, note="\ud800", values=[math.nan, 1])
    first, second = logged(writer.path)
    assert first["reward"] == "nan" and first["values"] == [1.0, None, None]
    assert second["reward"] == "inf" and second["values"] == [None, 1]
    assert second["note"] == "\ufffd"


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters()),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from("abcde"), JSON),
    st.text(st.characters(), max_size=20),
)
def test_any_values_are_one_line_of_json(tmp_path_factory, fields, text):
    with RolloutWriter(tmp_path_factory.getbasetemp() / "any") as writer:
        writer.write(**{**ROW, "response": text}, **fields)
    lines = writer.path.read_bytes().split(b"\n")
    writer.path.unlink()
    assert lines[1:] == [b""]
    assert set(json.loads(lines[0])) == {*ROW, *fields}


def test_a_value_that_is_no_data_is_refused(tmp_path: Path) -> None:
    with (
        RolloutWriter(tmp_path) as writer,
        pytest.raises(UsageError, match="object is not text"),
    ):
        writer.write(**ROW, odd=object())
    assert writer.path.read_bytes() == b""


def test_a_restart_continues_a_plain_log_and_closes_its_torn_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "rank_0.jsonl").write_text('{"step": 1}\n{"step": 2, "pro')
    with RolloutWriter(tmp_path) as writer:
        writer.write(**ROW)
    lines = writer.path.read_text().splitlines()
    assert lines[:2] == ['{"step": 1}', '{"step": 2, "pro']
    assert json.loads(lines[2]) == ROW


def work(writer: RolloutWriter, worker: int) -> None:
    for i in range(50):
        writer.write(**{**ROW, "step": i, "response": f"{worker}" * 5000})


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_threads_and_forked_processes_never_mix_their_lines(
    tmp_path: Path, kind: str
) -> None:
    start: Any = threading.Thread
    if kind == "process":
        start = multiprocessing.get_context("fork").Process
    with RolloutWriter(tmp_path) as writer:
        writer.write(**ROW)
        workers = [start(target=work, args=(writer, i)) for i in range(4)]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # fork beside other threads
            for worker in workers:
                worker.start()
        for worker in workers:
            worker.join()
            assert kind == "thread" or worker.exitcode == 0
        writer.write(**ROW)
    rows = logged(writer.path)
    assert len(rows) == 202
    assert all(len(set(row["response"])) in (1, 3) for row in rows)


KILLED = """
import sys
from rlreport.writer import RolloutWriter
writer = RolloutWriter(sys.argv[1])
print("ready", flush=True)
i = 0
while True:
    writer.write(step=i, prompt="q", response="a" * 20000, reward=1.0)
    i += 1
"""


def test_a_killed_process_tears_the_last_line_at_most(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    log = tmp_path / "rank_0.jsonl"
    while log.stat().st_size < 2_000_000:
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    lines = log.read_text().split("\n")[:-1]
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == [*range(len(lines))]


def test_a_full_disk_is_one_clear_error_and_costs_no_other_line(tmp_path: Path) -> None:
    writer = RolloutWriter(tmp_path)
    step = 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(
            OutputError, match=r"rank_0\..* cannot be written: File too large"
        ):
            for step in range(1000):
                writer.write(**{**ROW, "step": step})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    for later in (1001, 1002):
        writer.write(**{**ROW, "step": later})
    writer.close()
    found = read(tmp_path).responses["step"].tolist()
    assert [s for s in found if s != step] == [*range(step), 1001, 1002]


def test_slips_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write a log"):
        RolloutWriter(tmp_path / "file")
    writer = RolloutWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(OutputError, match="closed"):
        writer.write(**ROW)


PAGE = (Path(__file__).parents[1] / "docs" / "frameworks.md").read_text()
BLOCKS = PAGE.split("```python\n")[1:]
# A block in a list is indented.
RECIPES = [textwrap.dedent(block.split("```")[0]) for block in BLOCKS]


def test_the_openrlhf_recipe_logs_each_action_with_its_token(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(next(block for block in RECIPES if "def log_experiences" in block), names)
    # Two prompt tokens, three written ones, one of padding: actions are one fewer than tokens.
    numbers = np.array([[0.0, -0.1, -0.2, -0.3, 0.0]])

    def decode(ids: Any, skip_special_tokens: bool) -> str:
        return " ".join(map(str, ids))

    def convert_ids_to_tokens(ids: Any) -> list[str]:
        return [f"t{i}" for i in ids]

    tokenizer = SimpleNamespace(
        decode=decode, convert_ids_to_tokens=convert_ids_to_tokens
    )
    batch = SimpleNamespace(
        sequences=np.array([[1, 2, 3, 4, 5, 0]]),
        action_mask=np.array([[0, 1, 1, 1, 0]]),
        action_log_probs=numbers,
        base_action_log_probs=numbers,
        rollout_log_probs=None,
        values=None,
        advantages=numbers,
        prompts=["q"],
        labels=["5"],
        info={"reward": [1.0]},
    )
    with RolloutWriter(tmp_path) as writer:
        names["log_experiences"](writer, tokenizer, [batch], 7)
    assert logged(writer.path) == [
        {
            "step": 7,
            "prompt": "q",
            "response": "3 4 5",
            "reward": 1.0,
            "ground_truth": "5",
            "response_tokens": ["t3", "t4", "t5"],
            "logprobs": [-0.1, -0.2, -0.3],
            "ref_logprobs": [-0.1, -0.2, -0.3],
            "advantages": [-0.1, -0.2, -0.3],
        }
    ]


def test_every_recipe_is_python() -> None:
    assert len(RECIPES) == 5
    for block in RECIPES:
        compile(block, "frameworks.md", "exec")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", 2.5),
        ("step", True),
        ("step", "3"),
        ("step", [1, 2]),
        ("reward", [0.5, 1.0]),
        ("reward", np.array([0.5, 1.0])),
        ("reward", []),
        ("ref_reward", [1.0, 2.0]),
        ("ref_logprobs", [-0.5]),
        ("values", np.zeros((1, 3))),
        ("response_mask", [1, 0]),
        ("sampler_logprobs", np.zeros(4)),
        ("reward", "abc"),
        ("reward", {"a": 1}),
        ("prompt", [{"role": "user", "content": "q"}]),
        ("response", None),
    ],
)
def test_what_a_log_cannot_mean_is_refused_when_it_is_written(tmp_path, field, value):
    row = {
        **ROW,
        "response_tokens": ["a", "b", "c"],
        "logprobs": [-0.5] * 3,
        field: value,
    }
    with (
        RolloutWriter(tmp_path) as writer,
        pytest.raises(UsageError, match=rf"^{field} "),
    ):
        writer.write(**row)
    assert logged(tmp_path / "rank_0.jsonl") == []


def flushed(path: Path, rows: int) -> tuple[Path, list[int]]:
    """Write a log whose lines are flushed one by one and whose end was never written."""
    packer: Any = zlib.compressobj(1, zlib.DEFLATED, 31)
    flush = zlib.Z_SYNC_FLUSH
    if path.suffix == ".zst":
        packer = zstd.ZstdCompressor()
        flush = zstd.ZstdCompressor.FLUSH_BLOCK
    sizes = []
    with path.open("wb") as file:
        for step in range(rows):
            line = json.dumps({**ROW, "step": step}).encode() + b"\n"
            file.write(packer.compress(line) + packer.flush(flush))
            sizes.append(file.tell())
    return path, sizes


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_a_compressed_log_of_a_killed_rank_has_lost_no_row(tmp_path, compression):
    path, _ = flushed(tmp_path / f"rank_0.jsonl.{compression}", 3)
    scan = read(tmp_path)
    assert len(scan.responses) == 3
    (bad,) = scan.bad_lines
    assert bad.torn and "ended before" in bad.reason
    torn = write(tmp_path / f"torn.jsonl.{compression}", [path.read_bytes()[:-6]])
    assert len(read(torn).responses) == 2


def test_damage_before_a_flushed_end_is_not_passed_over(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path, rank=1) as whole:
        whole.write(**ROW)
    path, sizes = flushed(tmp_path / "rank_0.jsonl.gz", 2)
    packed = bytearray(path.read_bytes())
    packed[sizes[0]] = 0xFF  # no type of block
    path.write_bytes(packed)
    (bad,) = read(tmp_path).bad_lines
    assert "cannot be read further" in bad.reason
