"""What a command prints about a report or a verdict."""

from __future__ import annotations

from dataclasses import replace

from rlreport.check.finding import Finding, Verdict
from rlreport.cli.say import say
from rlreport.deliver.publish import page_at
from rlreport.pipeline import Report
from rlreport.several_runs import SEVERAL_RUNS
from rlreport.tables import BadLine, Tables
from rlreport.text.messages import Joined, message, phrases, plural, told
from rlreport.text.numbers import byte_size

LISTED = 10
"""Unreadable lines printed; the data page has all."""


def print_report(report: Report) -> None:
    """Print skipped lines, the verdict and the path of a report."""
    translate = report.language.of
    for line in skipped_lines(report.tables):
        say(translate(line), err=True)
    for note in report.tables.notes:
        if note.kind == SEVERAL_RUNS:
            say(translate(message("warning: {note}", note=note.text)), err=True)
    for sentence in report.left_out:
        say(translate(sentence))
    for line in verdict_lines(replace(report.verdict, not_run=[])):
        say(translate(line))
    steps, responses = len(report.tables.steps), len(report.tables.responses)
    sizes = phrases(
        [
            byte_size(report.size),
            plural("{count} response", "{count} responses", responses),
            plural("{count} step", "{count} steps", steps),
        ]
    )
    path = page_at(report.out, "index.html") if report.form == "folder" else report.out
    say(f"{path}  {translate(sizes)}")


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the verdict, the findings with those they explain below, and checks not run."""
    lines = [verdict.sentence]
    for finding in verdict.findings:
        indent = "    " if finding.explained_by else "  "
        places = {
            "head": f"{indent}{finding.severity:8} {finding.id}",
            "title": finding.title,
            "step": finding.onset.step if finding.onset else None,
        }
        lines.append(
            told("{head}: {title} (since step {step})", places)
            if finding.onset
            else told("{head}: {title}", places)
        )
        lines += [Joined("", [f"{indent}         ", line]) for line in example_lines(finding)]
    lines += [
        message(
            "  muted    {id}: {reason} ({title})",
            id=muted.finding.id,
            reason=muted.reason,
            title=muted.finding.title,
        )
        for muted in verdict.muted
    ]
    lines += [
        message("  not run  {id}: needs {needs}", id=check.id, needs=check.needs)
        for check in verdict.not_run
    ]
    return lines


def example_lines(finding: Finding) -> list[str]:
    """Return the evidence of a finding as text; notes and explained findings need none."""
    if finding.severity == "info" or finding.explained_by:
        return []
    lines = []
    for example in finding.evidence:
        if example.excerpt is not None:
            before = example.before.excerpt if example.before else None
            was = f"{before!r} → " if before is not None else ""
            where = message("step {step}, response {n}", step=example.step, n=example.n)
            lines.append(message("{where}: {text}", where=where, text=f"{was}{example.excerpt!r}"))
    return lines


def skipped_lines(tables: Tables) -> list[str]:
    """Return a line for each of the first unreadable lines, and one for the others."""
    lines = [
        message("left out: {place}: {reason}", place=location(bad), reason=bad.reason)
        for bad in tables.bad_lines[:LISTED]
    ]
    more = tables.bad_count - len(lines)
    if more > 0:
        lines.append(
            message("left out: {count:count} more, see the report's data page", count=more)
        )
    return lines


def location(bad: BadLine) -> str:
    """Return file and line number."""
    return f"{bad.file}:{bad.line}" if bad.line else bad.file
