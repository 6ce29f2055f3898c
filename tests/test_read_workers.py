"""Reading side by side: the same tables, bounded waste, and progress by bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlreport.errors import RlreportError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.logs import read_logs
from tests.reading import read, tokens, write


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files of several tasks."""
    folder = tmp_path_factory.mktemp("big")
    line = tokens(*[f"t{i}" for i in range(200)])
    one = write(folder / "one", [line]).read_bytes()
    (folder / "one").unlink()
    for rank in range(2):
        (folder / f"rank_{rank}.jsonl").write_bytes(one * 4000)
    return folder


def test_workers_and_one_process_read_the_same(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlreport.read.logs.LEAST_BYTES", 0)
    monkeypatch.setattr("rlreport.read.splits._TASK_BYTES", 10**7)
    monkeypatch.setattr("rlreport.read.splits.plan_splits.__kwdefaults__", {"split_bytes": 10**7})
    two = read_logs([big], ReadOptions(workers=2), FigureOptions())
    one = read(big)
    assert two.responses.equals(one.responses)
    assert two.tokens.equals(one.tokens)
    assert len(two.responses) == 8000


def test_an_error_of_ours_in_a_process_reaches_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RlreportError("said so")

    monkeypatch.setattr("rlreport.read.logs.Scanner.scan", fail)
    with pytest.raises(RlreportError, match="said so"):
        read(write(tmp_path / "a.jsonl", [tokens("a")]))


def test_progress_adds_up_to_all_bytes(big: Path) -> None:
    class Counted:
        done = total = 0.0

        def phase(self, name: str, total: float, unit: str) -> Counted:
            self.total = total
            return self

        def advance(self, amount: float) -> None:
            self.done += amount

        def say(self, line: str) -> None: ...

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *error: object) -> None:
            return None

    counted = Counted()
    read_logs([big], ReadOptions(workers=1), FigureOptions(), counted)
    assert counted.done == counted.total == sum(f.stat().st_size for f in big.iterdir())
