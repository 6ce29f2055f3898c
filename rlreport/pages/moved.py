"""Which figures of a report's run moved, and the axis of steps on which they are drawn."""

from __future__ import annotations

from rlreport.check.moved import MovedFigures, focus_of, moved_figures
from rlreport.check.run import Run
from rlreport.draw import strips
from rlreport.draw.rules import RunRule
from rlreport.draw.strips import Steps
from rlreport.pages.context import RunReport
from rlreport.pages.figures import run_courses
from rlreport.text.messages import message


def moved_of(report: RunReport) -> MovedFigures:
    """Return the figures of the run that moved."""
    return report.once("moved", lambda: _moved_of(report))


def _moved_of(report: RunReport) -> MovedFigures:
    run = report.run
    verdict = run.verdict
    courses = list(verdict.courses.values())
    # Key figures have further courses, which need not be read again.
    known = {course.column for course in courses}
    courses += [one for _, one in run_courses(report) if one.column not in known]
    tables = run.tables.without_step_in_progress()
    return moved_figures(Run(tables), courses, verdict.leading, verdict.keep_step)


def moved_steps(report: RunReport, moved: MovedFigures) -> Steps:
    """Return the axis from the first to the last step of the run, with its rules."""
    numbers = report.run.tables.steps["step"]
    low = float(numbers.iloc[0])
    high = float(numbers.iloc[-1])
    for one in moved.figures:
        low = min(low, float(one.figure.curve.steps[0]))
        high = max(high, float(one.figure.curve.steps[-1]))
    return Steps(strips.axis_of(low, high), rules_of_report(report))


def rules_of_report(report: RunReport) -> tuple[RunRule, ...]:
    """Return the rules of the run: its checkpoint to keep, and the onset of the lead finding."""
    moved = moved_of(report)
    keep = moved.keep
    onset = moved.onset
    rules = []
    if keep is not None:
        words = message("checkpoint to keep: {step:count}", step=keep)
        rules.append(RunRule(keep, words, "healthy", dashed=True))
    if onset is not None:
        words = message("onset: {step:count}", step=onset.step)
        within = None
        if onset.low < onset.high:
            within = (onset.low, onset.high)
            words = message(
                "onset: {step:count} ({low:count}–{high:count})",
                step=onset.step,
                low=onset.low,
                high=onset.high,
            )
        rules.append(
            RunRule(onset.step, words, "critical", dashed=False, within=within)
        )
    return tuple(rules)


def focus_of_report(report: RunReport) -> tuple[float, float] | None:
    """Return the steps to which the chart of the lead finding is limited, None for all."""
    numbers = report.run.tables.steps["step"].to_numpy()
    return focus_of(moved_of(report), numbers)
