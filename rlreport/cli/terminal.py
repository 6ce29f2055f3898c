"""What a command says on the terminal: progress, then where the report is and what it holds."""

from __future__ import annotations

from dataclasses import replace

from rlreport.check.finding import Finding, Verdict
from rlreport.cli.say import say
from rlreport.deliver.store import Out, page_of
from rlreport.pipeline import Report
from rlreport.progress import Progress, Silent, Spoken
from rlreport.read.several_runs import SEVERAL_RUNS
from rlreport.tables import BadLine, Tables
from rlreport.text.numbers import byte_size

LISTED = 10
"""Unreadable lines named on the terminal; the data page has the others."""


class Terminal:
    """Speaks on standard output and error, or not at all when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.progress: Progress = Silent() if quiet else Spoken()

    def finished(self, report: Report) -> None:
        """Says what was left out, the verdict, and where the report is."""
        if self.quiet:
            return
        for line in left_out_lines(report.tables):
            say(line, err=True)
        for note in report.tables.notes:
            if note.kind == SEVERAL_RUNS:
                say(f"warning: {note.text}", err=True)
        for sentence in report.left_out:
            say(sentence)
        steps, responses = len(report.tables.steps), len(report.tables.responses)
        for line in verdict_lines(replace(report.verdict, not_run=[])):
            say(line)
        say(
            f"{entry(report)}  {byte_size(report.size)}, {responses:,} responses, "
            f"{steps:,} {'step' if steps == 1 else 'steps'}"
        )


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, each finding with what it explains below it, and what was not judged."""
    lines = [verdict.sentence]
    for finding in verdict.findings:
        indent = "    " if finding.explained_by else "  "
        since = f" (since step {finding.onset.step})" if finding.onset else ""
        lines.append(f"{indent}{finding.severity:8} {finding.id}: {finding.title}{since}")
        lines += [f"{indent}         {line}" for line in example_lines(finding)]
    for muted in verdict.muted:
        lines.append(f"  muted    {muted.finding.id}: {muted.reason} ({muted.finding.title})")
    lines += [f"  not run  {check.id}: needs {check.needs}" for check in verdict.not_run]
    return lines


def example_lines(finding: Finding) -> list[str]:
    """The evidence of a finding as text; notes and what is folded need none."""
    if finding.severity == "info" or finding.explained_by:
        return []
    lines = []
    for example in finding.evidence:
        if example.excerpt is not None:
            before = example.before.excerpt if example.before else None
            was = f"{before!r} → " if before is not None else ""
            lines.append(f"step {example.step}, response {example.n}: {was}{example.excerpt!r}")
    return lines


def entry(report: Report) -> Out:
    """The file to open."""
    return page_of(report.out, "index.html") if report.form == "folder" else report.out


def left_out_lines(tables: Tables) -> list[str]:
    """One line for each of the first unreadable lines, and one for the others."""
    lines = [f"left out: {place(bad)}: {bad.reason}" for bad in tables.bad_lines[:LISTED]]
    more = tables.bad_count - len(lines)
    if more > 0:
        lines.append(f"left out: {more:,} more, see the report's data page")
    return lines


def place(bad: BadLine) -> str:
    """File and line number."""
    return f"{bad.file}:{bad.line}" if bad.line else bad.file
