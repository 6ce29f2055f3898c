"""Build reports on a Ray cluster of this machine, and measure what grows in the driver.

    python benchmarks/bench_cluster.py FOLDER [--rows 100000 300000] [--tokens 8] [--nodes 2]

FOLDER gets a generated log for each number of rows, unless it is there. Each log is built on the
cluster and by ``--workers``; figures are of the process that was started, without its workers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.generate_log import generate

_STORE_BYTES = 600 << 20  # of the object store of each node
_FILES = 4
_INTERVAL_SECONDS = 0.1


@dataclass
class Driver:
    """Peaks of a process that builds a report, in bytes, and the seconds it took."""

    pss: int = 0  # memory; what is shared with other processes counts in part
    own: int = 0  # of it, without mapped files and object store: what cannot be dropped
    temporary: int = 0  # of files that it holds open, and of files in its TMPDIR
    cpu: float = 0.0  # of this process alone
    wall: float = 0.0


def main() -> None:
    """Print the peaks of each build, and by how much they grow per response."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--tokens", type=int, default=8, help="0: texts and rewards")
    parser.add_argument("--nodes", type=int, default=2)
    given = parser.parse_args()
    logs = {rows: _log(given.folder, rows, given.tokens) for rows in given.rows}
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(given.nodes - 1):
        cluster.add_node(**node)
    try:
        for options in (["--ray", cluster.address], ["--workers", "2"]):
            builds = {rows: _build(log, options) for rows, log in logs.items()}
            _print_growth(options[0], builds)
    finally:
        cluster.shutdown()


def _log(folder: Path, rows: int, tokens: int) -> Path:
    """Generate a log of so many rows unless it is there; return its folder."""
    log = folder / f"{rows}_rows_{tokens}_tokens"
    if not log.exists():
        generate(log, rows=rows, ranks=_FILES, tokens=tokens, short=not tokens)
    return log


def _build(log: Path, options: list[str]) -> Driver:
    """Build the report of a log in a process of its own, and watch it."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "temporary"
        temporary.mkdir()
        report = Path(folder) / "report"
        began = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rlreport",
                "build",
                str(log),
                "-q",
                "-o",
                str(report),
            ]
            + options,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.DEVNULL,
        )
        driver = Driver()
        while process.poll() is None:
            _watch(process.pid, temporary, driver)
            time.sleep(_INTERVAL_SECONDS)
        driver.wall = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"{log}: exit status {process.returncode}")
    return driver


def _watch(pid: int, temporary: Path, driver: Driver) -> None:
    """Raise the peaks of a process to what it has now."""
    proc = Path(f"/proc/{pid}")
    with suppress(OSError, KeyError):  # it may end meanwhile
        smaps = (proc / "smaps_rollup").read_text()
        kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB", smaps, re.MULTILINE))
        driver.pss = max(driver.pss, int(kilobytes["Pss"]) << 10)
        driver.own = max(driver.own, int(kilobytes["Pss_Anon"]) << 10)
        size = _sizes_below(temporary) + _sizes_of_deleted(proc / "fd", temporary)
        driver.temporary = max(driver.temporary, size)
        user, system = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        driver.cpu = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _sizes_below(folder: Path) -> int:
    """Return the bytes of the files in a folder; the workers write some there."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _sizes_of_deleted(descriptors: Path, folder: Path) -> int:
    """Return the bytes of unnamed files that a process has open in a folder."""
    sizes: dict[int, int] = {}  # by inode, as a mapped file is open twice
    for descriptor in descriptors.iterdir():
        with suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith(str(folder)) and target.endswith("(deleted)"):
                status = descriptor.stat()
                sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def _print_growth(how: str, builds: dict[int, Driver]) -> None:
    for rows, driver in builds.items():
        print(
            f"{how}, {rows:,} responses: {driver.pss / 1e6:,.0f} MB (PSS), "
            f"{driver.own / 1e6:,.0f} MB of them its own, temporary files "
            f"{driver.temporary / 1e6:,.0f} MB, CPU {driver.cpu:.0f} s, {driver.wall:.0f} s",
            flush=True,
        )
    fewest = min(builds)
    most = max(builds)
    if fewest == most:
        return
    growth = [
        (getattr(builds[most], name) - getattr(builds[fewest], name)) / (most - fewest)
        for name in ("pss", "own", "temporary")
    ]
    pss, own, temporary = growth
    print(
        f"{how}: per million responses {pss:,.0f} MB (PSS), {own:,.0f} MB of them its own, "
        f"temporary files {temporary:,.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
