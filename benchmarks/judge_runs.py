"""Judge folders of runs against their ``truth.json``: recall, false alarms, lead, onset.

    python benchmarks/judge_runs.py RUNS... [--json] [--sentences]

Each of RUNS is a folder with ``truth.json`` beside its logs, or a folder of such folders.
``truth.json``: ``expected`` (ids that must be found, at any severity), ``not_expected`` (ids
that must not come as a warning or worse), ``lead`` (which may lead; empty: none may) and
``onset`` ([low, high] for the onset of the finding that leads, or null). Where it is
silent, both are right. Exit status 1 when anything is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlreport.check import judge
from rlreport.check.finding import Verdict
from rlreport.check.run import Run
from rlreport.check.wording import worded
from rlreport.display import prompt_texts
from rlreport.metrics import metrics_beside
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Silent
from rlreport.read.logs import read_logs
from rlreport.summarise import summarise


@dataclass
class Outcome:
    """How the verdict on one run compares with its truth."""

    name: str
    expected: int
    missed: list[str]
    false: list[str]
    lead: str | None
    lead_right: bool | None
    onset: int | None
    truth: list[int] | None
    distance: int | None
    seconds: float
    sentence: str
    details: list[str] = field(default_factory=list)


def judged(folder: Path) -> tuple[Verdict, float]:
    """Return the verdict on the logs of a folder, and the seconds that judging took."""
    read = ReadOptions(workers=1)
    metrics = metrics_beside([folder], ())
    scan = read_logs([folder], read, FigureOptions(), Silent(), metrics.paths)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    start = time.process_time()
    verdict = worded(judge(Run(tables)))
    return verdict, time.process_time() - start


def compared(folder: Path) -> Outcome:
    """Judge a run and compare the verdict with its truth."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    verdict, seconds = judged(folder)
    found = {finding.id for finding in verdict.findings}
    alarms = {finding.id for finding in verdict.findings if finding.severity != "info"}
    expected = truth.get("expected", [])
    may_lead = truth.get("lead")
    lead_right = None
    if may_lead is not None:
        lead_right = verdict.lead in may_lead if may_lead else verdict.lead is None
    lead = next((f for f in verdict.findings if f.id == verdict.lead), None)
    onset = lead.onset.step if lead and lead.onset else None
    interval, distance = truth.get("onset"), None
    if interval and onset is not None:
        distance = max(interval[0] - onset, 0, onset - interval[1])
    return Outcome(
        folder.name,
        len(expected),
        [name for name in expected if name not in found],
        sorted(alarms & set(truth.get("not_expected", []))),
        verdict.lead,
        lead_right,
        onset,
        interval,
        distance,
        seconds,
        verdict.sentence,
        [
            f"{f.severity} {f.id} {f.explained_by or ''} {f.onset}: {f.title}"
            for f in verdict.findings
        ],
    )


def folders(given: list[Path]) -> Iterator[Path]:
    """Yield the folders with a truth among those given and right below them."""
    for path in given:
        if (path / "truth.json").exists():
            yield path
        else:
            yield from sorted(truth.parent for truth in path.glob("*/truth.json"))


def main() -> int:
    """Print the table, or JSON; return 1 when anything is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="outcomes as JSON")
    parser.add_argument("--sentences", action="store_true", help="with the verdicts in words")
    parser.add_argument("--findings", action="store_true", help="with every finding")
    given = parser.parse_args()
    outcomes = [compared(folder) for folder in folders(given.runs)]
    if given.json:
        print(json.dumps([vars(outcome) for outcome in outcomes], indent=1, ensure_ascii=False))
    else:
        for one in outcomes:
            lead = {None: "-", True: "right", False: "WRONG"}[one.lead_right]
            onset = f"{one.onset} in {one.truth}" if one.truth else "-"
            off = "" if not one.truth or one.distance == 0 else f" OFF {one.distance}"
            missed = f" MISSED {', '.join(one.missed)}" if one.missed else ""
            false = f" FALSE {', '.join(one.false)}" if one.false else ""
            print(
                f"{one.name:32} found {one.expected - len(one.missed)}/{one.expected}"
                f"  lead {lead} ({one.lead})  onset {onset}{off}{missed}{false}"
                f"  {one.seconds:.2f} s"
            )
            if given.sentences:
                print(f"    {one.sentence}")
            if given.findings:
                print(*(f"      {line}" for line in one.details), sep="\n")
    expected = sum(one.expected for one in outcomes)
    lost = sum(len(one.missed) for one in outcomes)
    leads = [one.lead_right for one in outcomes if one.lead_right is not None]
    onsets = [one.distance == 0 for one in outcomes if one.truth]
    far = [one.distance for one in outcomes if one.distance is not None]
    print(
        f"{len(outcomes)} runs: found {expected - lost} of {expected}, "
        f"false alarms {sum(len(one.false) for one in outcomes)}, "
        f"lead right {sum(leads)} of {len(leads)}, onset right {sum(onsets)} of {len(onsets)} "
        f"(total distance {sum(far)} steps)",
        file=sys.stderr if given.json else sys.stdout,
    )
    wrong = missed or not all(leads) or not all(onsets) or any(one.false for one in outcomes)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
