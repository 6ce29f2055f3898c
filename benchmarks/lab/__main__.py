"""The command line ``python -m benchmarks.lab``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from . import agents, faulty, harder, healthy, hidden
from .figures import beyond_doubt
from .simulate import simulate
from .truths import truth_of
from .write import read_run, write_run


def main() -> None:  # noqa: C901, PLR0912
    """Generate runs, or print their figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (
        ("simulate", "write the simulated runs into OUT/<name>/ (a minute or two)"),
        ("harder", "write harder ones into OUT/faults/<name>/ and OUT/healthy/<name>/"),
        ("hidden", "write faults that a mean hides, and twins, into OUT/planted/ and OUT/healthy/"),
        ("agents", "write runs of an agent, one fault each, and a twin, into OUT"),
        ("train", "train tiny transformers and write their runs (needs torch; minutes each)"),
    ):
        command = commands.add_parser(name, help=does)
        command.add_argument("out", type=Path)
        command.add_argument("--only", nargs="*", help="names of runs")
        command.add_argument("--seed", type=int, default=0, help="added to each run's own seed")
    command = commands.add_parser("figures", help="print what is beyond doubt of each run")
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
    elif options.command == "harder":
        for kind, cases in ("faults", harder.faults), ("healthy", harder.healthy):
            for case in cases(options.seed):
                if not options.only or case.run.name in options.only:
                    harder.write(options.out / kind, case)
    elif options.command == "hidden":
        for path, run in hidden.runs(options.seed, options.only):
            run.write(options.out / path)
    elif options.command == "agents":
        agents.write(options.out, options.seed)
    elif options.command == "train":
        from .train import train_runs

        train_runs(options.out, options.only, options.seed)
    else:
        for folder in sorted(p for f in options.folders for p in f.iterdir() if p.is_dir()):
            if (folder / "truth.json").exists():
                print(f"{folder.name:26} {json.dumps(beyond_doubt(read_run(folder)))}")


if __name__ == "__main__":
    main()
