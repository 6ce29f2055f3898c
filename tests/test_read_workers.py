"""Reading in parallel: the same tables for any number of workers, and progress in bytes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rlreport.errors import RlreportError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.lines import byte_ranges
from rlreport.read.logs import read_logs
from rlreport.system.workers import Progress
from tests.reading import read, tokens, write


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files of several byte ranges."""
    folder = tmp_path_factory.mktemp("big")
    lines = [tokens(*[f"t{i * j % 89}" for i in range(200)], step=j % 20) for j in range(100)]
    rows = write(folder / "rows", lines).read_bytes()
    (folder / "rows").unlink()
    for rank in range(2):
        (folder / f"rank_{rank}.jsonl").write_bytes(rows * 10)
    return folder


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_and_one_process_read_the_same(
    big: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    one = read(big)
    monkeypatch.setattr("rlreport.system.workers.FORK_SECONDS", 0)
    monkeypatch.setattr("rlreport.system.workers.SPAWN_SECONDS", 0)
    assert byte_ranges.__kwdefaults__
    monkeypatch.setitem(byte_ranges.__kwdefaults__, "range_bytes", 25 * 10**5)
    several = read_logs([big], ReadOptions(workers=workers), FigureOptions())
    assert several.responses.equals(one.responses)
    assert several.positions.equals(one.positions)
    assert one.tokens is not None
    assert several.tokens is not None
    assert several.tokens.texts.vocabulary == one.tokens.texts.vocabulary
    for ours, theirs in ((several.tokens, one.tokens), (several.tokens.texts, one.tokens.texts)):
        for item in fields(ours):
            if isinstance(values := getattr(ours, item.name), np.ndarray):
                assert_array_equal(values, getattr(theirs, item.name))
    assert len(several.responses) == 2000


def test_an_error_of_ours_in_a_process_reaches_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RlreportError("the reason")

    monkeypatch.setattr("rlreport.read.logs.read_chunk", fail)
    with pytest.raises(RlreportError, match="the reason"):
        read(write(tmp_path / "a.jsonl", [tokens("a")]))


def test_progress_adds_up_to_all_bytes_and_all_chosen_responses(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)

    class Counting(Progress):
        """One phase after the other."""

        def __init__(self) -> None:
            self.counts: list[list[float]] = []

        def phase(self, name: str, total: float, unit: str):
            self.counts.append([0, total])
            return self

        def advance(self, amount: float) -> None:
            self.counts[-1][0] += amount

        def __enter__(self):
            return self

        def __exit__(self, *error: object) -> None: ...

    counting = Counting()
    read_logs([big], ReadOptions(workers=1), FigureOptions(), counting)
    size = sum(file.stat().st_size for file in big.iterdir())
    assert counting.counts == [[size, size], [2000, 2000]]
