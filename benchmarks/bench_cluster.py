"""Build a report on three Ray nodes of this machine, and measure the memory of the driver.

    python benchmarks/bench_cluster.py FOLDER [--megabytes 5000] [--objects 2000] [--tokens 300]

FOLDER gets copies of one generated log under many names, unless it exists.
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
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs

NODES = 3
ROW_BYTES, TOKEN_BYTES = 200, 95


def main() -> None:
    """Print seconds, responses and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=5000)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--scan", action="store_true", help="only read")
    given = parser.parse_args()
    size = _copies(
        given.folder, given.megabytes * 1_000_000, given.objects, given.tokens
    )
    from ray.cluster_utils import Cluster

    memory = 600 << 20
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": memory},
    )
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1, object_store_memory=memory)
    try:
        _measure(given, size, cluster.address)
    finally:
        cluster.shutdown()


def _measure(given: argparse.Namespace, size: int, ray: str) -> None:
    peak = _Peak()
    start = time.perf_counter()
    if given.scan:
        scan = read_logs([given.folder], ReadOptions(ray=ray), GaeOptions())
        rows = len(scan.responses)
    else:
        with tempfile.TemporaryDirectory() as out:
            rows = len(
                build(given.folder, Path(out) / "report", ray=ray).tables.responses
            )
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{size / 1e9:.2f} GB in {given.objects:,} files, {rows:,} responses: {seconds:.0f} s, "
        f"driver's CPU {usage.ru_utime + usage.ru_stime:.0f} s, its memory at most "
        f"{peak.size / 1e6:,.0f} MB (at first {peak.before / 1e6:,.0f} MB); allowed "
        f"{550 + 0.0007 * rows:,.0f} MB"
    )


class _Peak:
    """Measures the peak memory of this process, ten times per second."""

    def __init__(self) -> None:
        self.size = self.before = _memory()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.size = max(self.size, _memory())
            time.sleep(0.1)


def _memory() -> int:
    """Return the resident bytes, including memory shared with the object store."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def _copies(folder: Path, size: int, objects: int, tokens: int) -> int:
    """Write copies of a log into the folder unless it exists; return their bytes."""
    if not folder.exists():
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as generated:
            rows = max(1, size // objects // (ROW_BYTES + TOKEN_BYTES * tokens))
            generate(Path(generated), rows=rows, steps=100, ranks=1, tokens=tokens)
            (one,) = Path(generated).iterdir()
            for i in range(objects):
                shutil.copyfile(one, folder / f"task_{i}.jsonl")
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
