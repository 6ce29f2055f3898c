"""Judge the same runs with rlreport and with other tools; print two Markdown tables.

    python -m benchmarks.others [--rl-doctor PYTHON] [--runmedic PYTHON] [--rolloutscope PYTHON]
        [--runs 50] [--logs FOLDER ...]

Each PYTHON is that of an environment in which the tool is installed (a virtual environment's
``bin/python``); a tool that is not given is left out. Judged are ``--runs`` random runs of each
family of ``laboratory``, which have trainer metrics alone, twice as many healthy ones, the sample
logs, and runs with a ``truth.json`` in the folders of ``--logs``, from whose responses the metrics
are computed. All tools but rolloutscope, which reads responses, get the same metrics.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.builds import version_of
from benchmarks.others import ours, rl_doctor, rolloutscope, runmedic
from benchmarks.others.count import NEAR, Counts, count, table
from benchmarks.others.laboratory import draw_all
from benchmarks.others.logs import labelled_logs, sample_logs
from benchmarks.others.runs import LabelledRun, Said

OURS = "rlreport"
OURS_RESPONSES = "rlreport, responses"

PACKAGES = {
    "rl-doctor": "rldoctor",
    "runmedic": "runmedic",
    "rolloutscope": "rolloutscope",
}
"""Tool -> name of its distribution."""

Judge = Callable[[str, Sequence[LabelledRun], Path], list[list[Said]]]
"""Judges runs, given the tool's Python and a folder to write into."""


JUDGES: dict[str, Judge] = {
    "rl-doctor": rl_doctor.judge_metrics,
    "runmedic": runmedic.judge_metrics,
    "rolloutscope": rolloutscope.judge_rollouts,
}
READ_RESPONSES = ("rolloutscope",)

Found = dict[str, list[Said]]
"""Name of a run -> what a tool says of it."""


def judge_all(runs: Sequence[LabelledRun], pythons: dict[str, str]) -> dict[str, Found]:
    """Return what each tool says of the runs that it can read."""
    logged = [run for run in runs if run.rollouts]
    found = {
        OURS: _by_name(runs, ours.judge_metrics(runs)),
        OURS_RESPONSES: _by_name(logged, ours.judge_rollouts(logged)),
    }
    with tempfile.TemporaryDirectory() as temporary:
        for tool, python in pythons.items():
            judge = JUDGES[tool]
            judged = logged if tool in READ_RESPONSES else runs
            folder = Path(temporary) / tool
            folder.mkdir()
            found[tool] = _by_name(judged, judge(python, judged, folder))
    return found


def _by_name(runs: Sequence[LabelledRun], found: Sequence[list[Said]]) -> Found:
    return {run.name: said for run, said in zip(runs, found, strict=True)}


def count_rows(
    runs: Sequence[LabelledRun], found: dict[str, Found]
) -> dict[str, dict[str, Counts]]:
    """Return row -> tool -> counts, of the runs that the tool can read."""
    rows: dict[str, dict[str, Counts]] = {}
    for group in dict.fromkeys(run.group for run in runs):
        members = [run for run in runs if run.group == group]
        rows[group] = {
            tool: count(members, [said[run.name] for run in members])
            for tool, said in found.items()
            if all(run.name in said for run in members)
        }
    return rows


def versions(pythons: dict[str, str]) -> Iterator[str]:
    """Yield each tool with its version."""
    yield f"rlreport {version_of(None)}"
    for tool, python in pythons.items():
        code = f"import importlib.metadata as m; print(m.version({PACKAGES[tool]!r}))"
        printed = subprocess.check_output([python, "-c", code], text=True)
        yield f"{tool} {printed.strip()}"


def details(runs: Sequence[LabelledRun], found: dict[str, Found]) -> Iterator[str]:
    """Yield a line for each run and tool, with all that it says."""
    for run in runs:
        for tool, said in found.items():
            words = map(str, said.get(run.name, ()))
            kinds = ", ".join(sorted(run.kinds)) or "healthy"
            yield f"{run.name} ({kinds}, {run.onset}) {tool}: {' '.join(words)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, and print the tables and how they were made."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.others", description=__doc__.partition("\n")[0]
    )
    for tool in PACKAGES:
        parser.add_argument(f"--{tool}", metavar="PYTHON")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--logs", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--details", action="store_true", help="a line for each run")
    given = parser.parse_args(arguments)
    named = {tool: getattr(given, tool.replace("-", "_")) for tool in PACKAGES}
    pythons = {tool: python for tool, python in named.items() if python}
    runs = [*draw_all(given.runs), *sample_logs(), *labelled_logs(given.logs)]
    found = judge_all(runs, pythons)
    rows = count_rows(runs, found)
    faulty = {run.group for run in runs if run.kinds}
    tools = [OURS, *pythons, OURS_RESPONSES]
    print(f"Measured on {datetime.date.today()} with {', '.join(versions(pythons))}.\n")
    print("With a warning / with one of the right kind (or a note of it) /")
    print(f"that finding names a step at most {NEAR} from the onset:\n")
    shown = {name: row for name, row in rows.items() if name in faulty}
    print(*table(shown, tools, "faulty"), sep="\n")
    print("\nHealthy runs with a warning / with one of more than a plateau:\n")
    shown = {name: row for name, row in rows.items() if name not in faulty}
    print(*table(shown, tools, "healthy"), sep="\n")
    if given.details:
        print("", *details(runs, found), sep="\n")


if __name__ == "__main__":
    main()
