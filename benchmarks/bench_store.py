"""Time reading a log from a store: as one object, and as 2,000 objects.

    python benchmarks/bench_store.py LOG.jsonl [--objects 2000] [--workers 0]

The store is moto's, on this machine, which takes part of the time.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs
from tests.store import BUCKET, Store, serving


def main() -> None:
    """Print wall time, CPU time and transferred bytes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    data = given.log.read_bytes()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as store:
        store.put("one/log.jsonl", data)
        lines = data.splitlines(keepends=True)
        each = -(-len(lines) // given.objects)
        for i in range(0, len(lines), each):
            store.put(f"many/log_{i // each}.jsonl", b"".join(lines[i : i + each]))
        del data, lines
        size = given.log.stat().st_size
        for name in ("one", "many", "one", "many"):
            _measure(store, name, size, given.workers)


def _measure(store: Store, name: str, size: int, workers: int) -> None:
    store.forget()
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF)
    scan = read_logs([f"s3://{BUCKET}/{name}"], ReadOptions(workers=workers), GaeOptions())
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    requests = store.requests()
    print(
        f"{name}: {seconds:.1f} s, own process {after.ru_utime - before.ru_utime:.1f} s, "
        f"{len(scan.files):,} files, {len(scan.responses):,} rows, {len(requests):,} requests, "
        f"{sum(r.sent for r in requests) / size:.3f} x the log's {size / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    main()
