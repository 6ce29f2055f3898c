"""What moved: the small charts below the verdict, on one axis of steps."""

from __future__ import annotations

from rlreport.check.moved import MovedFigures, moved_figures
from rlreport.check.run import Run
from rlreport.pages.context import RunReport
from rlreport.pages.figures import run_courses


def moved_of(report: RunReport) -> MovedFigures:
    """Return the figures of the run that moved."""
    return report.once("moved", lambda: _moved_of(report))


def _moved_of(report: RunReport) -> MovedFigures:
    run = report.run
    verdict = run.verdict
    lead = next((one for one in verdict.findings if one.id == verdict.lead), None)
    courses = list(verdict.courses.values())
    # Key figures have further courses, which need not be read again.
    known = {course.column for course in courses}
    courses += [one for _, one in run_courses(report) if one.column not in known]
    tables = run.tables.without_step_in_progress()
    return moved_figures(Run(tables), courses, lead, verdict.keep_step)
