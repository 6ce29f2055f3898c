"""Read one log with rlreport and by other means, side by side; print a Markdown table.

    python -m benchmarks.peers LOG [--python PYTHON] [--runs 2]
        [--rlloggingboard CHECKOUT --board-python PYTHON]

LOG is a folder of ``.jsonl`` files in RLLoggingBoard's format. Each row of the table is a process
of its own: ``rlreport build`` with all cores and with one worker, of this checkout or installed
for ``--python``; RLLoggingBoard's loading, if its code is given (CHECKOUT has
``rl_logging_board.py``, and the Python of ``--board-python`` its requirements);
``pandas.read_json`` and the means of each step; and the floor, which is ``orjson.loads`` of each
line and a float32 array of each of its lists of numbers.

The exit status is 1 if means or the number of rows differ from those of rlreport.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.builds import compile_once, python_of, timed, version_of
from benchmarks.peak_memory import measured

BOARD = Path(__file__).with_name("board.py")
PACKAGES = ("numpy", "pandas", "orjson")

BUILD = "`rlreport build`"
ONE_WORKER = "`rlreport build --workers 1`"
LOADING = "RLLoggingBoard: load the log"
PANDAS = "pandas: `read_json`, means per step"
FLOOR = "floor: orjson, float32 arrays"

# Relative to the largest value of the column; the table of steps is rounded to 10 digits
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Figures:
    """What a peer needed for a log, and what it made of it.

    Attributes:
        cpu: user and system seconds, the fewest of its runs.
        wall: seconds until its end, the fewest of its runs.
        peak: largest sum of the PSS of its processes, in bytes.
        result: number of ``rows``, what it is as ``text``; ``means`` (column -> values by step).
    """

    cpu: float
    wall: float
    peak: int
    result: dict[str, Any]


def commands(
    log: Path, installed: str | None, board: Path | None, board_python: str
) -> dict[str, tuple[str, ...]]:
    """Return peer -> command, which gets the path of the result as its last argument."""
    build = (*python_of(installed), "-m", "rlreport", "build", str(log), "-q")
    script = (sys.executable, "-m")
    peers = {
        BUILD: (*build, "-o"),
        ONE_WORKER: (*build, "--workers", "1", "-o"),
    }
    if board:
        peers[LOADING] = (board_python, str(BOARD), str(board), str(log))
    peers[PANDAS] = (*script, "benchmarks.peers.pandas_means", str(log))
    peers[FLOOR] = (*script, "benchmarks.peers.floor", str(log))
    return peers


def compare(
    peers: dict[str, tuple[str, ...]], runs: int, folder: Path
) -> dict[str, Figures]:
    """Run all peers in turn, ``runs`` times for their seconds and once more for their memory."""
    seconds: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
    for run in range(runs):
        for number, (peer, command) in enumerate(peers.items()):
            result = folder / f"{run}-{number}"
            seconds[peer].append(timed([*command, str(result)]))
    figures = {}
    for number, (peer, command) in enumerate(peers.items()):
        result = folder / f"memory-{number}"
        peak = measured([*command, str(result)]).peak_pss
        cpu, wall = map(min, zip(*seconds[peer], strict=True))
        figures[peer] = Figures(cpu, wall, peak, read_result(result))
    return figures


def read_result(path: Path) -> dict[str, Any]:
    """Return what a peer wrote; of a report, the same from its data files."""
    if path.is_file():
        return dict(json.loads(path.read_text("utf-8")))
    report = json.loads((path / "data" / "report.json").read_text("utf-8"))
    pages = len(list(path.rglob("*.html")))
    shown = report["shown"]["responses"]
    level = report["verdict"]["level"]
    return {
        "rows": report["responses"],
        "text": f"verdict: {level}; {pages:,} pages with {shown:,} responses",
        "steps": pd.read_csv(path / "data" / "steps.csv").to_dict("list"),
    }


def difference(result: dict[str, Any], ours: dict[str, Any]) -> float:
    """Return the largest difference of means from ours, relative to the largest of the column."""
    if result["rows"] != ours["rows"]:
        return np.inf
    found = [0.0]
    for column, means in result.get("means", {}).items():
        expected = np.array(ours["steps"][column])
        if len(means) != len(expected):
            return np.inf
        scale = np.abs(expected).max() or 1.0
        found.append(np.abs(means - expected).max() / scale)
    return float(np.max(found))  # NaN if there is one


def describe(result: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return what a peer found in words, and whether its means are those of rlreport."""
    if "means" not in result:
        return str(result["text"])
    off = difference(result, ours)
    equal = f"equal to {off:.0e}" if off <= TOLERANCE else f"DIFFERENT by {off:.0e}"
    return f"{result['text']}: {equal}"


def table(figures: dict[str, Figures]) -> list[str]:
    """Return the lines of the Markdown table."""
    floor = figures[FLOOR].cpu
    ours = figures[BUILD].result
    lines = [
        "| | CPU | CPU / floor | wall | peak memory | result |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for peer, needed in figures.items():
        cells = (
            peer,
            f"{needed.cpu:.1f} s",
            f"{needed.cpu / floor:.1f}",
            f"{needed.wall:.1f} s",
            f"{needed.peak / 1e6:,.0f} MB",
            describe(needed.result, ours),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def conditions(
    log: Path, figures: dict[str, Figures], rlreport: str, load: float
) -> list[str]:
    """Return lines on log, machine and versions; ``load`` is the load average before."""
    files = sorted(log.glob("*.jsonl"))
    size = sum(path.stat().st_size for path in files)
    rows = figures[BUILD].result["rows"]
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    python = f"Python {platform.python_version()}"
    cores = os.cpu_count() or 1
    # Beyond half a core, other work delays what is measured
    remark = "" if load < 0.5 else ", so wall seconds are too long"
    lines = [
        f"- Log: {size / 1e6:,.0f} MB in {len(files)} files, {rows:,} responses.",
        f"- Machine: {cores} cores, {processor()}; load average before: {load:.1f}{remark}.",
        f"- Versions: rlreport {rlreport}, {', '.join([python, *packages])}.",
    ]
    if LOADING in figures:
        lines.append(f"- RLLoggingBoard: {figures[LOADING].result['versions']}.")
    return lines


def processor() -> str:
    """Return the name of the processor's model."""
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print the table and how it was measured; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--python", help="Python of an environment with rlreport")
    parser.add_argument("--rlloggingboard", type=Path, metavar="CHECKOUT")
    parser.add_argument("--board-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args(arguments)
    compile_once()
    load = os.getloadavg()[0]
    board = (given.rlloggingboard, given.board_python)
    peers = commands(given.log, given.python, *board)
    with tempfile.TemporaryDirectory() as folder:
        figures = compare(peers, given.runs, Path(folder))
    ours = figures[BUILD]
    ratio = ours.cpu / figures[FLOOR].cpu
    print(f"Measured on {datetime.date.today()}:\n")
    print(*table(figures), sep="\n")
    print(f"\nCPU of `rlreport build` / CPU of the floor: {ratio:.2f}\n")
    print(*conditions(given.log, figures, version_of(given.python), load), sep="\n")
    print(
        f"- Timed rounds: {given.runs}, of which the minimum counts. Memory: largest sum of PSS "
        "over the processes, in another round."
    )
    results = [needed.result for needed in figures.values()]
    same = all(difference(result, ours.result) <= TOLERANCE for result in results)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
