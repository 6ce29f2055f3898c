"""``broken_log``: the log itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Severity
from rlreport.check.thresholds import CONTRACT, BrokenLog, Thresholds
from rlreport.check.windows import Ints, step_numbers
from rlreport.check.words import count
from rlreport.tables import Tables

SHOWN = 3
SHARED_STEPS = 0.8
"""Part of a file's steps that another holds too, if both are ranks of one run."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the log: how bad, in words, and the steps it touches."""

    severity: Severity
    text: str
    steps: tuple[int, ...] = ()


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Collect what is wrong with the log; the finding is as severe as the worst of it."""
    limits = thresholds.broken_log
    faults = [
        *_unreadable(tables, limits),
        *_incomplete(tables, limits),
        *_missing_steps(tables, limits),
        *_early_ranks(tables),
        *_unequal_arrays(tables),
    ]
    if not faults:
        return None
    faults.sort(key=lambda fault: fault.severity != "warning")
    title = "; ".join(fault.text for fault in faults)
    return CHECK.finding(
        faults[0].severity,
        title[0].upper() + title[1:],
        steps=[step for fault in faults for step in fault.steps],
    )


def _unreadable(tables: Tables, limits: BrokenLog) -> list[Fault]:
    """Judge lines that could not be read; a torn last line is what a live file looks like."""
    torn = sum(bad.torn for bad in tables.bad_lines)
    bad = tables.bad_count - torn
    faults = []
    if bad > 0:
        lines = max(sum(file.lines for file in tables.files), len(tables.responses) + bad)
        severity: Severity = "warning" if bad > limits.unreadable * lines else "info"
        where = next((line for line in tables.bad_lines if not line.torn), None)
        first = f", first {where.file}:{where.line} ({where.reason})" if where else ""
        faults.append(
            Fault(severity, f"{count(bad, 'line')} of {lines:,} could not be read{first}")
        )
    if torn:
        faults.append(Fault("info", f"{count(torn, 'last line')} torn, as in a file still written"))
    return faults


def _incomplete(tables: Tables, limits: BrokenLog) -> list[Fault]:
    """Find steps with fewer responses than the usual; runs without a usual size are not judged."""
    steps = step_numbers(tables)
    responses = tables.steps["responses"].to_numpy()
    if len(steps) < SHOWN:
        return []
    sizes, times = np.unique(responses, return_counts=True)
    usual = int(sizes[np.argmax(times)])
    if times.max() < limits.usual * len(steps):
        return []
    few = responses < limits.fewer * usual
    faults = []
    inside = steps[:-1][few[:-1]]
    if len(inside):
        text = f"{count(len(inside), 'step')} with fewer than {usual} responses ({_listed(inside)})"
        faults.append(Fault("warning", text, tuple(inside.tolist())))
    if few[-1]:
        text = f"the last step is incomplete: {responses[-1]} of {usual} responses"
        faults.append(Fault("info", text, (int(steps[-1]),)))
    return faults


def _missing_steps(tables: Tables, limits: BrokenLog) -> list[Fault]:
    """Find gaps wider than the usual distance of steps."""
    steps = step_numbers(tables)
    gaps = np.diff(steps)
    if len(gaps) < SHOWN:
        return []
    sizes, times = np.unique(gaps, return_counts=True)
    usual = int(sizes[np.argmax(times)])
    if times.max() < limits.usual * len(gaps):
        return []
    at = np.flatnonzero(gaps >= 2 * usual)
    if not len(at):
        return []
    missing = int((gaps[at] // usual - 1).sum())
    spans = ", ".join(f"{steps[i]} to {steps[i + 1]}" for i in at[:SHOWN].tolist())
    more = ", …" if len(at) > SHOWN else ""
    text = f"{count(missing, 'step')} missing (between {spans}{more})"
    touched = {int(step) for i in at for step in steps[i : i + 2]}
    return [Fault("warning", text, tuple(sorted(touched)))]


def _early_ranks(tables: Tables) -> list[Fault]:
    """Find rank files that stop at least two steps before another that holds the same steps."""
    order = step_numbers(tables)
    files = tables.responses["file"].to_numpy()
    of_row = tables.responses["step"].to_numpy()
    of_file = {file: np.unique(of_row[files == file]) for file in np.unique(files).tolist()}
    if not 1 < len(of_file) <= len(tables.files):
        return []
    early = []
    for file, steps in of_file.items():
        ranks = [
            other
            for name, other in of_file.items()
            if name != file and np.isin(steps, other).mean() >= SHARED_STEPS
        ]
        own = int(steps[-1])
        end = max((int(other[-1]) for other in ranks), default=own)
        if len(steps) >= SHOWN and np.count_nonzero((order > own) & (order <= end)) >= 2:
            early.append((tables.files[file].name, own))
    if not early:
        return []
    names = ", ".join(f"{name} after step {step}" for name, step in early[:SHOWN])
    stop = "stops" if len(early) == 1 else "stop"
    text = f"{count(len(early), 'file')} {stop} early ({names})"
    return [Fault("warning", text, tuple(sorted({step for _, step in early})))]


def _unequal_arrays(tables: Tables) -> list[Fault]:
    """Pass on what the reader cut: arrays of unequal length, as padding makes them."""
    cut = sum(note.count for note in tables.notes if note.kind == "unequal_lengths")
    text = f"token arrays of unequal length in {count(cut, 'response')}"
    return [Fault("info", text)] if cut else []


def _listed(steps: Ints) -> str:
    more = ", …" if len(steps) > SHOWN else ""
    return ", ".join(map(str, steps[:SHOWN].tolist())) + more


CHECK = Check(
    id="broken_log",
    looks_for="holes in the log: unreadable lines, missing or incomplete steps, early ends",
    needs=(),
    charts=(),
    why="Figures from a log with holes describe the rows that survived, not the run.",
    suggestion=(
        "Look at the Data page for each line and its reason; check disk space, the exit of each "
        "rank, and that every writer flushes whole lines."
    ),
    source=CONTRACT,
    judge=judge,
    trend=False,
)
