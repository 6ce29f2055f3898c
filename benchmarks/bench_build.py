"""Time whole builds against their baselines, and measure the memory of the process tree.

    python benchmarks/bench_build.py small LOGS   against ``import pandas, altair``, best of five
    python benchmarks/bench_build.py large LOGS   against loading the same logs as a live board does

The live board's loading is what RLLoggingBoard does with a log before it shows anything, in our
own words: parse every line with ``json``, keep every value in Python lists by step, and compute
log-ratio, its "kl" and probabilities a row at a time, as lists.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peak_memory import measured


def board_loading(logs: Path) -> float:
    """Return the seconds to load the logs as a live board does."""
    began = time.perf_counter()
    by_step: dict[int, dict[str, list[object]]] = {}
    for log in sorted(logs.glob("*.jsonl")):  # noqa: PLR1702
        with log.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                step = by_step.setdefault(row["step"], {})
                for key, value in row.items():
                    step.setdefault(key, []).append(value)
                if "logprobs" in row and "ref_logprobs" in row:
                    logp = np.array(row["logprobs"])
                    ref = np.array(row["ref_logprobs"])
                    ratio = logp - ref
                    kl = np.exp(ratio) - 1 - ratio
                    for name, values in (("log_ratio", ratio), ("kl", kl)):
                        step.setdefault(name, []).append(values.tolist())
                        step.setdefault(f"avg_{name}", []).append(np.nanmean(values))
                        step.setdefault(f"sum_{name}", []).append(np.nansum(values))
                    step.setdefault("probs", []).append(np.exp(logp).tolist())
                    step.setdefault("ref_probs", []).append(np.exp(ref).tolist())
    return time.perf_counter() - began


def main() -> None:
    """Run one of the two comparisons and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["small", "large"])
    parser.add_argument("logs", type=Path)
    parser.add_argument("--workers", default="0")
    parser.add_argument("--suffix", default="", help="form of the report, e.g. .html")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / f"report{options.suffix}")
        build = [
            sys.executable,
            "-m",
            "rlreport",
            "build",
            str(options.logs),
            "-o",
            out,
            "-q",
        ]
        build += ["--workers", options.workers]
        if options.what == "small":
            imports = [sys.executable, "-c", "import pandas, altair"]
            times = [(measured(imports).wall, measured(build).wall) for _ in range(5)]
            yardstick, whole = (min(column) for column in zip(*times, strict=True))
            print(
                f"import pandas, altair {yardstick:.2f} s, build {whole:.2f} s",
                end=": ",
            )
            print(f"{whole / yardstick:.2f} times")
            return
        size = sum(log.stat().st_size for log in options.logs.glob("*.jsonl")) / 1e6
        result = measured(build)
        whole = result.wall
        print(
            f"{size:,.0f} MB: build {whole:.2f} s, peak {result.peak_pss / 1e6:,.0f} MB "
            "(process tree, PSS)"
        )
        loading = board_loading(options.logs)
        print(
            f"loading as a live board {loading:.2f} s ({size / loading:.0f} MB/s)",
            end=": ",
        )
        print(f"the build is {loading / whole:.2f} times as fast")


if __name__ == "__main__":
    main()
