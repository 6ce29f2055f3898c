"""The chosen responses: which they are, and that their texts and tokens are those of the logs."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.choose import extremes
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import UnusableInputError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read import choice
from rlreport.read.choice import MAX_CHOSEN, METRICS, Choice, choose_rows
from rlreport.read.chunk import read_chunk
from rlreport.read.files import ByteRange, find_sources
from rlreport.read.rollouts import EDGE, Rollout, Selection
from rlreport.read.sample import _collect
from rlreport.read.tables import MAX_PROMPTS, Scan
from tests.net import logs
from tests.reading import read, row, tokens, write
from tests.running import SEARCH


def assert_same(left: list[Rollout], right: list[Rollout]) -> None:
    for one, other in zip(left, right, strict=True):
        for item in fields(one):
            if item.name == "figures":
                for name in one.figures.__slots__:
                    values = getattr(one.figures, name), getattr(other.figures, name)
                    np.testing.assert_array_equal(*values)
            elif item.name == "sampled":
                np.testing.assert_array_equal(one.sampled, other.sampled)
            else:
                assert getattr(one, item.name) == getattr(other, item.name), item.name


def test_rows_that_are_read_again_are_those_that_were_kept(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "grpo_math").symlink_to(shared_data / "grpo_math")
    for path in logs(tmp_path).values():
        try:
            kept = read(path)
        except Exception:  # no log, which tests/net.py describes
            continue
        with monkeypatch.context() as patch:
            patch.setattr("rlreport.read.logs.KEPT_BYTES", 0)
            again = read(path)
            cached = [read(path, cache=str(tmp_path / "cache")) for _ in range(2)]
        rows = range(len(kept.responses))
        for other in (again, *cached):
            pd.testing.assert_frame_equal(other.responses, kept.responses)
            assert_same(other.rollouts.read(rows), kept.rollouts.read(rows))
            pd.testing.assert_frame_equal(other.positions, kept.positions)


def run_of(rng: np.random.Generator, steps: int, each: int, length: float) -> pd.DataFrame:
    """Return the response table of a run with random figures."""
    count = steps * each
    table = pd.DataFrame({c.name: np.full(count, np.nan) for c in RESPONSE_COLUMNS})
    place = np.arange(count)
    return table.assign(
        step=place // each,
        n=place % each,
        group=place // 8,
        prompt_id=place // 8,
        file=0,
        offset=place * 1000,
        sub=0,
        validation=0,
        response_tokens=length,
        response_chars=4 * length,
        **{name: rng.normal(size=count) for name in ("reward", "kl_k1", "surprisal_mean")},
    )


@settings(max_examples=8 * SEARCH)
@given(st.integers(1, 120), st.integers(1, 300), st.integers(1, 30_000), st.integers(0, 9))
def test_extremes_of_every_step_are_chosen_within_the_limits(
    steps: int, each: int, length: int, seed: int
) -> None:
    table = run_of(np.random.default_rng(seed), steps, each, length)
    chosen = choose_rows(table, ["a"])
    assert (np.diff(chosen.rows) > 0).all()
    assert len(chosen.rows) <= MAX_CHOSEN
    assert table["response_chars"].to_numpy()[chosen.rows].sum() <= choice.MAX_CHOSEN_BYTES
    for name in set(METRICS) & {"reward", "kl_k1", "surprisal_mean"}:
        by_step = table[name].to_numpy().reshape(steps, each)
        for ends in (by_step.argmin(axis=1), by_step.argmax(axis=1)):
            assert np.isin(np.arange(steps) * each + ends, chosen.rows).all()
    shown = table["prompt_id"].to_numpy()[chosen.rows]
    assert set(range(min(MAX_PROMPTS, int(table["prompt_id"].max()) + 1))) <= set(shown)


@pytest.mark.parametrize(("steps", "each"), [(1, 50_000), (2, 20_000), (20_000, 1)])
def test_the_latest_extremes_of_the_run_are_chosen_however_many_are_equal(
    steps: int, each: int
) -> None:
    rng = np.random.default_rng(0)
    table = run_of(rng, steps, each, 50)
    table["reward"] = rng.integers(0, 2, len(table)).astype(float)
    table["kl_max"] = np.where(rng.random(len(table)) < 0.5, np.nan, rng.integers(0, 3))
    table["reward_gap"] = np.inf
    chosen = choose_rows(table, ["a"]).rows
    assert np.isin([extreme.row for extreme in extremes(table)], chosen).all()


@pytest.mark.parametrize("length", [10, 30_000])
def test_a_run_of_20000_steps_is_chosen_within_the_limits(length: int) -> None:
    table = run_of(np.random.default_rng(0), 20_000, 2, length)
    chosen = choose_rows(table, ["a"])
    assert len(chosen.rows) <= MAX_CHOSEN
    assert table["response_chars"].to_numpy()[chosen.rows].sum() <= choice.MAX_CHOSEN_BYTES


def test_the_choice_repeats_and_small_runs_are_chosen_whole() -> None:
    rng = np.random.default_rng(0)
    small, large = run_of(rng, 10, 100, 300), run_of(rng, 100, 500, 300)
    assert choose_rows(small, ["a"]).rows.tolist() == list(range(1000))
    assert choose_rows(small, ["a"]).whole.all()
    np.testing.assert_array_equal(choose_rows(large, ["a"]).rows, choose_rows(large, ["a"]).rows)


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scan:
    """A run read again with room for the tokens of one response, of two with 3,000."""
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)
    monkeypatch.setattr("rlreport.read.choice.MAX_CHOSEN_BYTES", 200_000)
    words = [f"w{i % 7}" for i in range(3000)]
    rows = [tokens(*words, step=0, reward=1.0), tokens(*words, step=0, reward=0.0), row(1)]
    return read(write(tmp_path / "a.jsonl", rows))


def test_tokens_beyond_the_limit_count_by_their_ends_and_are_not_shown(long: Scan) -> None:
    first, second, third = long.rollouts.read([0, 1, 2])
    assert [len(one.raw_tokens) for one in (first, second, third)] == [3000, 0, 0]
    assert second.response
    sample = long.ngrams
    assert sample is not None
    assert np.diff(sample.offsets).tolist() == [2 * EDGE + 1] * 2
    ends = np.split(sample.units, sample.offsets[1:-1])
    np.testing.assert_array_equal(ends[0], ends[1])


def test_a_pickled_selection_holds_its_responses_only(tmp_path: Path) -> None:
    rows = [tokens(f"t{i}", "x" * 1000, step=i, response="y" * 1000) for i in range(50)]
    rollouts = read(write(tmp_path / "a.jsonl", rows)).rollouts
    data = pickle.dumps(Selection(rollouts, np.array([40, 7])))
    assert len(data) < 8000
    copy, wanted = pickle.loads(data)
    assert_same(copy.read(wanted), rollouts.read(wanted))
    with pytest.raises(LookupError):
        copy.read([1])


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_log_that_changes_before_it_is_read_again_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_log(text: str) -> Path:
        rows = [row(0), row(1, response=text)]
        return write(tmp_path / name, [json.dumps(rows if name == "a.json" else rows[1])])

    def choose_after_change(*arguments: Any) -> Choice:
        write_log("Bye there.")
        return choose_rows(*arguments)

    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)
    monkeypatch.setattr("rlreport.read.logs.choose_rows", choose_after_change)
    with pytest.raises(UnusableInputError, match="changed while it was read"):
        read(write_log("Hi, there."))


@pytest.mark.parametrize("limit", ["logs.MAX_CHOSEN_BYTES", "choice.MAX_CHOSEN_BYTES"])
def test_kept_rows_beyond_the_limit_equal_those_that_are_read_again(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.jsonl.gz"
    rows = [tokens(*["a"] * 3000, step=step, reward=float(step)) for step in range(3)]
    log.write_bytes(gzip.compress(write(tmp_path / "a.jsonl", rows).read_bytes()))
    monkeypatch.setattr(f"rlreport.read.{limit}", 200_000)
    kept = read(log)
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)
    again = read(log)
    np.testing.assert_array_equal(kept.rollouts.lengths, again.rollouts.lengths)
    assert_same(kept.rollouts.read(range(3)), again.rollouts.read(range(3)))


def test_rows_of_a_packed_log_are_kept_up_to_a_limit_only(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [row(step, response="long " * 1000) for step in range(2000)])
    log = find_sources([tmp_path / "a.jsonl"])
    part = ByteRange(0, log.sources[0])
    few, none = (
        read_chunk([part], ReadOptions(), FigureOptions(), keep=keep) for keep in (10**8, 10**6)
    )
    assert sum(part.size for part in few.parts or ()) > 10**7
    assert (none.parts, none.rows) == (None, few.rows)


def test_a_full_disk_of_temporary_files_is_named(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [row(0)] * 10)
    code = (
        "import resource, sys; from tests.reading import read; read(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50)); read(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, str(log)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "OutputError: cannot write temporary files to" in ended.stderr


def test_the_response_table_has_the_documented_columns_and_dtypes(tmp_path: Path) -> None:
    table = read(write(tmp_path / "a.jsonl", [tokens("a", "b"), row(1)])).responses
    assert [(name, str(dtype)) for name, dtype in table.dtypes.items()] == [
        (column.name, column.dtype) for column in RESPONSE_COLUMNS
    ]


@pytest.mark.parametrize("odd", [{}, {"values": ["0.5", 1.0]}, {"prompt_turns": [["user", "hi"]]}])
@pytest.mark.parametrize(
    ("truth", "shown"), [("4", "4"), (4, "4"), (0.5, "0.5"), (None, None), ({"a": 1}, None)]
)
def test_texts_are_read_back_alike_from_usual_and_from_odd_lines(
    tmp_path: Path, odd: dict[str, Any], truth: object, shown: str | None
) -> None:
    rows = [tokens("a", "b", ref_response="ref", ground_truth=truth, **odd)]
    scan = read(write(tmp_path / "a.jsonl", rows))
    (rollout,) = scan.rollouts.read([0])
    assert (rollout.ref_response, rollout.ground_truth) == ("ref", shown)
    assert (rollout.prompt, rollout.response) == (rows[0]["prompt"], rows[0]["response"])
    assert rollout.raw_tokens == ["a", "b"]


def test_a_pickled_selection_has_the_words_and_tokens_of_the_whole(tmp_path: Path) -> None:
    rows = [tokens(*(f"t{i * j % 7}" for j in range(9)), step=i) for i in range(20)]
    whole = Selection(read(write(tmp_path / "a.jsonl", rows)).rollouts, np.array([3, 11, 17]))
    copy = pickle.loads(pickle.dumps(whole))
    expected, found = (_collect(one, ReadOptions()) for one in (whole, copy))
    assert found.strings == expected.strings
    np.testing.assert_array_equal(found.units.ids, expected.units.ids)
