"""Compare verdicts on runs with their known truth: level, findings, lead and onset.

    python benchmarks/judge_runs.py RUNS... [--json | --rows | --growing] [--sentences]
    python benchmarks/judge_runs.py --cases 300

Each of RUNS is a folder with ``truth.json`` beside its logs, or a folder of such folders. All keys
of a truth are optional, and what it does not mention is not judged:

``level`` (first words of the verdict that are right), ``expected`` or ``must`` (ids that must be
found, at any severity), ``not_expected`` or ``must_not`` (ids that must be no warning), ``absent``
(ids that must not even be a note), ``lead`` (ids that may lead; empty: none may), ``onset`` ([low,
high] for the onset of the finding that leads; also for that of one that must be found in a real
run, or without ``lead``) and ``steps`` (how many must be read). A truth with ``words`` is that of
a real run: what its authors say. Exit status 1 when anything is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.curves import CASES, Case
from rlreport.check import judge
from rlreport.check.finding import ToldFinding
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.verdict import Verdict
from rlreport.errors import RlreportError
from rlreport.metrics.find import find_and_read
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs
from rlreport.read.trl_folders import Trainer
from rlreport.summarise.run import summarise
from rlreport.system.workers import Progress
from rlreport.tables import Tables

BASES = ("simulated", "real")
CUT = 5  # steps between two cuts of a growing log


@dataclass
class Outcome:
    """The result of comparing the verdict on one run with its truth."""

    name: str
    base: str
    sentence: str
    lead: str | None
    expected: list[str]
    missed: list[str]
    unexpected: list[str]
    false: list[str]
    level_right: bool | None = None
    lead_right: bool | None = None
    onset: int | None = None
    interval: list[int] | None = None
    distance: int = 0
    steps: int | None = None
    details: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether nothing that the truth mentions is wrong."""
        wrong = self.missed or self.false or self.distance
        return (
            not wrong and self.level_right is not False and self.lead_right is not False
        )


def read(folder: Path) -> Tables:
    """Read the logs of a folder and the metrics beside them."""
    options = ReadOptions(workers=1)
    metrics = find_and_read([folder], ())
    trainer = Trainer(metrics.paths, metrics.table)
    scan = read_logs([folder], options, GaeOptions(), Progress(), trainer=trainer)
    return summarise(scan, metrics)


def verdict_on(tables: Tables) -> Verdict:
    """Return the verdict in English words."""
    return with_texts(judge(Run(tables)))


def truth_of(folder: Path) -> dict[str, Any]:
    """Read a run's ``truth.json``, which has one of two forms."""
    truth: dict[str, Any] = json.loads(
        (folder / "truth.json").read_text(encoding="utf-8")
    )
    truth.setdefault("expected", truth.get("must", []))
    truth.setdefault("not_expected", truth.get("must_not", []))
    return truth


def warnings(verdict: Verdict) -> dict[str, ToldFinding]:
    """Return the findings of warning or worse by id."""
    return {
        finding.id: finding
        for finding in verdict.findings
        if finding.severity != "info"
    }


def compare(folder: Path) -> Outcome:
    """Judge a run and compare the verdict with its truth; without rollouts it is "Not read"."""
    truth = truth_of(folder)
    try:
        tables = read(folder)
        steps: int | None = len(tables.steps)
        verdict = verdict_on(tables)
    except RlreportError as error:
        verdict = Verdict("unjudged", sentence=f"Not read: {error}")
        steps = None
    found = {finding.id: finding for finding in verdict.findings}
    expected = list(truth["expected"])
    if "steps" in truth:
        expected.append(f"{truth['steps']} steps")
    outcome = Outcome(
        folder.name,
        BASES["words" in truth],
        verdict.sentence,
        verdict.lead,
        expected,
        [name for name in expected if name not in {*found, f"{steps} steps"}],
        truth["not_expected"],
        sorted(
            warnings(verdict).keys() & set(truth["not_expected"])
            | found.keys() & set(truth.get("absent", ()))
        ),
        interval=truth.get("onset"),
        steps=steps,
        details=[
            f"{f.severity} {f.id} {f.explained_by or ''} {f.onset}: {f.title}"
            for f in verdict.findings
        ],
    )
    if levels := truth.get("level"):
        outcome.level_right = verdict.sentence.startswith(tuple(levels))
    if (leads := truth.get("lead")) is not None:
        outcome.lead_right = verdict.lead in (leads or [None])
    if outcome.interval:
        _judge_onset(outcome, verdict, found)
    return outcome


def _judge_onset(
    outcome: Outcome, verdict: Verdict, found: dict[str, ToldFinding]
) -> None:
    """Set the distance of the onset from its interval; it is large if there is no onset."""
    low, high = outcome.interval or (0, 0)
    names: list[str | None] = [verdict.lead]
    if outcome.base == "real" or outcome.lead_right is None:
        names = [*(finding.id for finding in verdict.findings[:1]), *outcome.expected]
    onsets = [found[name].onset for name in names if name in found]
    steps = [onset.step for onset in onsets if onset]
    distances = {step: max(low - step, 0, step - high) for step in steps}
    outcome.onset = min(steps, key=distances.__getitem__, default=None)
    outcome.distance = 999 if outcome.onset is None else distances[outcome.onset]


def folders(given: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders with a ``truth.json``, among those given and their subfolders."""
    for path in given:
        if (path / "truth.json").exists():
            yield path
        else:
            yield from sorted(truth.parent for truth in path.glob("*/truth.json"))


def print_outcome(one: Outcome, sentences: bool, findings: bool) -> None:
    """Print a line about a run, and the errors of its verdict."""
    parts = [
        f"{one.name:34} found {len(one.expected) - len(one.missed)}/{len(one.expected)}"
    ]
    parts.append(f"lead {'WRONG ' if one.lead_right is False else ''}{one.lead or '-'}")
    if one.interval:
        off = f" OFF {one.distance}" if one.distance else ""
        parts.append(f"onset {one.onset} in {one.interval}{off}")
    parts.append(f"{one.steps} steps")
    parts += ["LEVEL"] * (one.level_right is False)
    parts += [f"MISSED {', '.join(one.missed)}"] if one.missed else []
    parts += [f"FALSE {', '.join(one.false)}"] if one.false else []
    print("  ".join(parts))
    if sentences:
        print(f"    {one.sentence}")
    for line in one.details if findings else ():
        print(f"      {line}")


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a line with the numbers of expected findings found, false warnings and right leads."""
    expected = sum(len(one.expected) for one in outcomes)
    missed = sum(len(one.missed) for one in outcomes)
    false = sum(len(one.false) for one in outcomes)
    counts = [f"found {expected - missed} of {expected}", f"false warnings {false}"]
    for name, right in (
        ("level", [one.level_right for one in outcomes if one.level_right is not None]),
        ("lead", [one.lead_right for one in outcomes if one.lead_right is not None]),
        ("onset", [one.distance == 0 for one in outcomes if one.interval]),
    ):
        counts += [f"{name} right {sum(right)} of {len(right)}"] if right else []
    return f"{len(outcomes)} {outcomes[0].base} runs: {', '.join(counts)}"


def print_rows(outcomes: Sequence[Outcome]) -> None:
    """Print for each row of runs, named ``<row>_<i>``, how many were found, false and right."""
    rows: dict[str, list[Outcome]] = {}
    for one in outcomes:
        rows.setdefault(one.name.rpartition("_")[0] or one.name, []).append(one)
    print(
        f"{'row':26}{'runs':>6}{'found':>10}{'false':>7}{'level':>9}{'lead':>9}{'onset':>9}"
    )
    for name, runs in rows.items():
        expected = sum(len(one.expected) for one in runs)
        found = expected - sum(len(one.missed) for one in runs)
        rights = [
            [one.level_right for one in runs if one.level_right is not None],
            [one.lead_right for one in runs if one.lead_right is not None],
            [one.distance == 0 for one in runs if one.interval],
        ]
        cells = [f"{sum(right)}/{len(right)}" if right else "-" for right in rights]
        false = sum(bool(one.false) for one in runs)
        print(f"{name:26}{len(runs):6}{f'{found}/{expected}':>10}{false:7}", end="")
        print("".join(f"{cell:>9}" for cell in cells))


def moved(first: ToldFinding, later: ToldFinding) -> bool:
    """Return whether a later onset lies outside the first interval."""
    if not first.onset or not later.onset:
        return False
    return not first.onset.low <= later.onset.step <= first.onset.high


def grow(folder: Path) -> tuple[int, int, list[str]]:
    """Judge a run cut off at every fifth step.

    Returns:
        Cuts judged, cuts of a healthy run that warn, and what a faulty run's later cuts take
        back: the name that led before, or an onset outside its first interval.
    """
    truth = truth_of(folder)
    tables = read(folder)
    healthy = not truth["expected"]
    steps = tables.steps["step"].tolist()
    named: dict[str, ToldFinding] = {}
    lost: list[str] = []
    warned = 0
    cuts = range(CUT, len(steps) + CUT, CUT)
    for count in cuts:
        last = steps[min(count, len(steps)) - 1]
        verdict = verdict_on(tables.between(steps[0], last + 1))
        loud = warnings(verdict)
        if healthy:
            warned += bool(loud.keys() & set(truth["not_expected"]))
            lost += [f"step {last}: {verdict.sentence}"] if loud else []
            continue
        for name, first in named.items():
            if name not in loud:
                lost.append(f"{name} not named at step {last}: {verdict.sentence}")
            elif moved(first, loud[name]):
                lost.append(
                    f"{name} at {last}: {loud[name].onset}, at first {first.onset}"
                )
        if verdict.lead in truth["expected"] and verdict.lead in loud:
            named.setdefault(verdict.lead, loud[verdict.lead])
    return len(cuts), warned, lost


def print_growing(runs: Sequence[Path]) -> bool:
    """Print how verdicts change as logs grow; return whether too many do."""
    total = 0
    warned = 0
    faulty = 0
    unstable = 0
    for folder in runs:
        cuts, warnings_of, lost = grow(folder)
        if truth_of(folder)["expected"]:
            faulty, unstable = faulty + 1, unstable + bool(lost)
        else:
            total, warned = total + cuts, warned + warnings_of
        for line in lost:
            print(f"{folder.name}: {line}")
    print(
        f"{warned} of {total} cuts of healthy runs warn; {unstable} of {faulty} faulty runs change"
    )
    return unstable > 0 or warned > 0.02 * total


def print_cases(count: int, cases: dict[str, Case] = CASES) -> bool:
    """Judge ``count`` runs of each case; return whether more than 3% of any case are wrong."""
    bad = False
    for name, case in cases.items():
        words: Counter[str] = Counter()
        wrong = 0
        for seed in range(count):
            verdict = verdict_on(
                case.make(np.random.default_rng([seed, *name.encode()]))
            )
            words[f"{verdict.level} {verdict.lead or ''}".rstrip()] += 1
            wrong += not case.accepts(verdict.sentence, verdict.lead)
        bad |= wrong > 0.03 * count
        said = ", ".join(
            f"{word} {times / count:.0%}" for word, times in words.most_common()
        )
        print(f"{name:28} wrong {wrong / count:6.1%}   {said}", flush=True)
    return bad


def main() -> int:
    """Print the table or JSON; return exit status 1 if anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true", help="outcomes as JSON")
    parser.add_argument(
        "--rows", action="store_true", help="a line for all runs <row>_<i>"
    )
    parser.add_argument(
        "--growing", action="store_true", help="cut off at every fifth step"
    )
    parser.add_argument(
        "--cases", type=int, default=0, help="runs of each case of lab/curves.py"
    )
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument(
        "--sentences", action="store_true", help="with the verdicts in words"
    )
    parser.add_argument("--findings", action="store_true", help="with every finding")
    given = parser.parse_args()
    if given.cases:
        names = [name for name in CASES if (given.only or "") in name]
        return int(print_cases(given.cases, {name: CASES[name] for name in names}))
    runs = list(folders(given.runs))
    if given.growing:
        return int(print_growing(runs))
    outcomes = [compare(folder) for folder in runs]
    if given.json:
        print(
            json.dumps([asdict(one) for one in outcomes], indent=1, ensure_ascii=False)
        )
    elif given.rows:
        print_rows(outcomes)
    else:
        for one in outcomes:
            print_outcome(one, given.sentences, given.findings)
    for base in BASES:
        if of_base := [one for one in outcomes if one.base == base]:
            print(
                summary(of_base),
                file=sys.stderr if given.json else sys.stdout,
            )
    return int(not all(one.right for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
