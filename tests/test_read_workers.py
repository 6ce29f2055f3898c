"""Reading processes: killed, interrupted, or without a parent, they leave nothing behind."""

from __future__ import annotations

import io
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlreport.errors import RlreportError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read import read_logs
from rlreport.read.sources import find_sources
from rlreport.read.splits import Split
from rlreport.read.worker import serve
from tests.reading import read, tokens, write

READ = """
import sys
from rlreport.read import read_logs, workers
from rlreport.options import ReadOptions
workers.LEAST_BYTES = 0
if __name__ == "__main__":
    try:
        read_logs([sys.argv[1]], ReadOptions(workers=3))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two pipes' worth of log: long enough to be caught in the act."""
    folder = tmp_path_factory.mktemp("big")
    line = tokens(*[f"t{i}" for i in range(200)])
    one = write(folder / "one", [line]).read_bytes()
    (folder / "one").unlink()
    for rank in range(2):
        (folder / f"rank_{rank}.jsonl").write_bytes(one * 4000)
    return folder


def start(big: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start reading in a process of its own and wait for the two beside it."""
    process = subprocess.Popen(
        [sys.executable, "-c", READ, str(big)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    children: list[psutil.Process] = []
    while len(children) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
        children = psutil.Process(process.pid).children()
    assert len(children) == 2
    return process, children


def gone(children: list[psutil.Process]) -> bool:
    """Tell whether all have ended."""
    return not psutil.wait_procs(children, timeout=10)[1]


def test_ctrl_c_ends_the_workers(big: Path) -> None:
    process, children = start(big)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert gone(children)


def test_a_killed_worker_is_one_clear_line(big: Path) -> None:
    process, children = start(big)
    children[0].kill()
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said.startswith("RlreportError: a reading process was killed (signal 9")
    assert gone(children)


def test_workers_end_with_their_parent(big: Path) -> None:
    process, children = start(big)
    process.kill()
    process.wait()
    assert gone(children)


def test_workers_and_one_process_read_the_same(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlreport.read.workers.LEAST_BYTES", 0)
    monkeypatch.setattr("rlreport.read.splits.plan_splits.__kwdefaults__", {"split_bytes": 10**7})
    two = read_logs([big], ReadOptions(workers=2), FigureOptions())
    assert two.responses.equals(read(big).responses)
    assert len(two.responses) == 8000


def test_a_worker_serves_splits_until_none_comes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [tokens("a", step=i) for i in range(5)])
    source = find_sources([path]).sources[0]
    orders = [(ReadOptions(), FigureOptions()), Split(0, source, 0, source.size), None]
    incoming = io.BytesIO(b"".join(map(pickle.dumps, orders)))
    outgoing = io.BytesIO()
    serve(incoming, outgoing)
    outgoing.seek(0)
    messages = [pickle.load(outgoing) for _ in range(4)]
    assert [kind for kind, _ in messages] == ["advanced", "advanced", "done", "partial"]
    assert messages[0][1] + messages[1][1] == path.stat().st_size
    assert messages[3][1].rows == 5


def test_an_error_of_ours_in_a_worker_reaches_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RlreportError("said so")

    monkeypatch.setattr("rlreport.read.scan.Scanner.add", fail)
    source = find_sources([write(tmp_path / "a.jsonl", [tokens("a")])]).sources[0]
    orders = [(ReadOptions(), FigureOptions()), Split(0, source)]
    outgoing = io.BytesIO()
    serve(io.BytesIO(b"".join(map(pickle.dumps, orders))), outgoing)
    outgoing.seek(0)
    kind, error = pickle.load(outgoing)
    assert (kind, str(error)) == ("error", "said so")


def test_progress_adds_up_to_all_bytes(big: Path) -> None:
    class Counted:
        done = total = 0.0

        def phase(self, name: str, total: float, unit: str) -> Counted:
            self.total = total
            return self

        def advance(self, amount: float) -> None:
            self.done += amount

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *error: object) -> None:
            return None

    counted = Counted()
    read_logs([big], ReadOptions(workers=1), FigureOptions(), counted)
    assert counted.done == counted.total == sum(f.stat().st_size for f in big.iterdir())
