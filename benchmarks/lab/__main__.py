"""The laboratory's command line."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from . import faulty, healthy, rules
from .figures import beyond_doubt
from .simulate import simulate
from .truths import truth_of
from .write import read_run, write_run


def main() -> None:
    """Make runs, or judge them by the baseline's rules."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (
        ("simulate", "write the simulated runs into OUT/<name>/ (a minute or two)"),
        ("train", "train tiny transformers and write their runs (needs torch; minutes each)"),
    ):
        command = commands.add_parser(name, help=does)
        command.add_argument("out", type=Path)
        command.add_argument("--only", nargs="*", help="names of runs")
        command.add_argument("--seed", type=int, default=0, help="added to each run's own seed")
    for name, does in (
        ("rules", "print what rewardspy's rules say of each run in the folders"),
        ("figures", "print what is beyond doubt of each run in the folders"),
    ):
        command = commands.add_parser(name, help=does)
        command.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "simulate":
        for scenario, planted in (
            *faulty.hacks(), *faulty.falls(), *faulty.machinery(), *healthy.cases()
        ):  # fmt: skip
            if options.only and scenario.name not in options.only:
                continue
            started = time.process_time()
            scenario.seed += options.seed
            rows = simulate(scenario)
            truth = truth_of(rows, planted)
            size = write_run(options.out / scenario.name, rows, truth, scenario.ranks)
            print(
                f"{scenario.name:24} {size / 1e6:5.2f} MB {time.process_time() - started:4.1f} s "
                f"{truth['expected']} onset {truth['onset']}",
                flush=True,
            )
    elif options.command == "train":
        from .train import train_runs

        train_runs(options.out, options.only, options.seed)
    else:
        runs = {
            folder.name: (read_run(folder), json.loads((folder / "truth.json").read_text("utf8")))
            for folder in sorted(p for f in options.folders for p in f.iterdir() if p.is_dir())
            if (folder / "truth.json").exists()
        }
        if options.command == "rules":
            print(*rules.table(runs), sep="\n")
        else:
            for name, (rows, _) in runs.items():
                print(f"{name:26} {json.dumps(beyond_doubt(rows))}")


if __name__ == "__main__":
    main()
