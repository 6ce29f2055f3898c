"""Runs that were restarted log some steps twice; late validation is no restart."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from rlreport.read.tables import Scan
from rlreport.summarise.tokens import step_bigrams
from tests.reading import kinds, read, row, token_figures, tokens, write

OLDER = [
    tokens("old", "x", step=step, turns=[{"role": "assistant", "text": "a", "sampled": True},
                                         {"role": "tool", "text": "b", "sampled": False}])
    for step in range(10)
]  # fmt: skip
NEWER = [tokens("new", "y", step=step) for step in range(5, 15)]


def steps_of(scan: Scan, split: int) -> list[int]:
    return scan.responses.loc[scan.responses["validation"] == split, "step"].tolist()


def test_validation_of_an_earlier_step_is_no_restart(tmp_path: Path) -> None:
    rows = [row(step) for step in range(20)]
    rows[10:10] = [row(5, split="val"), row(5, split="val")]
    path = write(tmp_path / "a.jsonl", rows)
    for restarts in ("all", "last"):
        scan = read(path, restarts=restarts)
        assert "restart" not in kinds(scan)
        assert steps_of(scan, 0) == list(range(20))
        assert steps_of(scan, 1) == [5, 5]


def test_validation_that_a_restart_logged_again_counts_once(tmp_path: Path) -> None:
    def attempt(steps: range, reward: float) -> list[dict]:
        own = [row(step, reward=reward) for step in steps]
        own[1:1] = [row(5, split="val", reward=reward)]
        return own

    path = write(tmp_path / "a.jsonl", [*attempt(range(5, 15), 0.0), *attempt(range(5, 20), 1.0)])
    scan = read(path, restarts="last")
    assert steps_of(scan, 0) == list(range(5, 20))
    assert steps_of(scan, 1) == [5]
    assert set(scan.responses["reward"]) == {1.0}


@pytest.mark.parametrize("lines", ["a.jsonl", "a.jsonl.gz"])
def test_what_a_restart_replaced_is_in_no_sum(lines: str, tmp_path: Path) -> None:
    import gzip

    def written(name: str, rows: list[dict]) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder / "a.jsonl", rows)
        if lines.endswith(".gz"):
            path.with_name(lines).write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        return folder

    restarted = read(written("restarted", OLDER + NEWER), restarts="last")
    alone = read(written("alone", OLDER[:5] + NEWER))
    assert "restart" in kinds(restarted)
    for name in ("positions", "tools"):
        pd.testing.assert_frame_equal(getattr(restarted, name), getattr(alone, name))
    pd.testing.assert_frame_equal(token_figures(restarted), token_figures(alone))
    pd.testing.assert_frame_equal(
        step_bigrams(restarted.ngrams, restarted.responses),
        step_bigrams(alone.ngrams, alone.responses),
    )
    places = ["offset", "line", "line_hash"]
    left = restarted.responses.drop(columns=places, errors="ignore")
    pd.testing.assert_frame_equal(left, alone.responses.drop(columns=places, errors="ignore"))
    assert restarted.fields == alone.fields


def test_a_cached_scan_with_the_replaced_rows_is_not_taken_for_one_without(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", OLDER + NEWER)
    rows = {
        restarts: len(read(path, restarts=restarts, cache=str(tmp_path / "kept")).responses)
        for restarts in ("all", "last", "all", "last")
    }
    assert rows == {"all": 20, "last": 15}
