"""Build a report of many objects on three Ray nodes of this machine, and watch the driver's memory.

    python benchmarks/bench_cluster.py FOLDER [--megabytes 5000] [--objects 2000] [--scan]

FOLDER gets copies of one generated log under many names, once.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.generate_log import generate
from rlreport.api import build
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.logs import read_logs

NODES = 3
ROW_BYTES = 28_600


def main() -> None:
    """Print seconds, rows and peaks of memory."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=5000)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--scan", action="store_true", help="read alone, bake nothing")
    parser.add_argument("--local", action="store_true", help="this machine's processes instead")
    given = parser.parse_args()
    size = _copies(given.folder, given.megabytes * 1_000_000, given.objects)
    if given.local:
        _measure(given, size, None)
        return
    from ray.cluster_utils import Cluster

    memory = 600 << 20
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory}
    )
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1, object_store_memory=memory)
    try:
        _measure(given, size, cluster.address)
    finally:
        cluster.shutdown()


def _measure(given: argparse.Namespace, size: int, ray: str | None) -> None:
    peak = _Peak()
    start = time.perf_counter()
    if given.scan:
        scan = read_logs([given.folder], ReadOptions(ray=ray), FigureOptions())
        rows = len(scan.responses)
    else:
        with tempfile.TemporaryDirectory() as out:
            rows = len(build(given.folder, Path(out) / "report", ray=ray).tables.responses)
    seconds = time.perf_counter() - start
    own = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{size / 1e9:.2f} GB in {given.objects:,} files, {rows:,} rows: {seconds:.0f} s, driver's "
        f"CPU {own.ru_utime + own.ru_stime:.0f} s, its memory at most {peak.whole / 1e6:,.0f} MB, "
        f"{peak.private / 1e6:,.0f} MB without what it shares with the object store "
        f"(before: {peak.before / 1e6:,.0f} MB); 500 MB + 300 B a row are "
        f"{500 + 300 * rows / 1e6:,.0f} MB"
    )


class _Peak:
    """Memory of this process, looked at ten times a second."""

    def __init__(self) -> None:
        self.whole = self.private = 0
        self.before = _memory()[0]
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            whole, private = _memory()
            self.whole, self.private = max(self.whole, whole), max(self.private, private)
            time.sleep(0.1)


def _memory() -> tuple[int, int]:
    """Bytes resident, and those of them that are this process's alone."""
    pages = list(map(int, Path("/proc/self/statm").read_text().split()))
    size = os.sysconf("SC_PAGE_SIZE")
    return pages[1] * size, (pages[1] - pages[2]) * size


def _copies(folder: Path, size: int, objects: int) -> int:
    """Fill the folder, unless it is filled; return its bytes."""
    if not folder.exists():
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as made:
            rows = max(1, size // objects // ROW_BYTES)
            generate(Path(made), rows=rows, steps=100, ranks=1)
            (one,) = Path(made).iterdir()
            for i in range(objects):
                shutil.copyfile(one, folder / f"task_{i}.jsonl")
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
