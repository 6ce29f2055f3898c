"""The chosen responses: which they are, and that their texts and tokens are those of the logs."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.read import choice
from rlreport.read.choice import MAX_CHOSEN, METRICS, choose_rows
from rlreport.read.rollouts import EDGE, Selection
from rlreport.read.tables import MAX_PROMPTS, Scan
from rlreport.rollout import Rollout
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
