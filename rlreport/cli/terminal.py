"""Print to the terminal, with control characters replaced.

File names, field names and model output may contain control characters that move the cursor,
overwrite lines or hide text.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

import click

from rlreport.text.clean import REPLACEMENT, printable
from rlreport.text.messages import Joined, message, phrases, plural, told
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.check.finding import Finding, Verdict
    from rlreport.pipeline import Report
    from rlreport.tables import BadLine, Tables

LISTED = 10  # maximum number of unreadable lines to print; the data page lists them all


def say(line: str = "", *, err: bool = False) -> None:
    """Print one line, in which unprintable characters and line ends become U+FFFD."""
    # If standard error cannot be written, the exit status must not change.
    with suppress(OSError) if err else nullcontext():
        click.echo(printable(line).replace("\n", REPLACEMENT), err=err)


def say_error(message: str) -> None:
    """Print an error; indent all lines but the first, so that none looks like another message."""
    with suppress(OSError):
        click.echo("rlreport: " + printable(message).replace("\n", "\n  "), err=True)


def say_click_error(error: click.ClickException) -> None:
    """Print an error of click, without control characters in the arguments that it quotes."""
    output = StringIO()
    error.show(file=output)
    with suppress(OSError):
        click.echo(printable(output.getvalue()), err=True, nl=False)


def say_json(document: bytes) -> None:
    """Print a JSON document with unprintable characters escaped."""
    text = document.decode()
    if printable(text) != text:
        text = "".join(c if printable(c) == c else json.dumps(c)[1:-1] for c in text)
    click.echo(text, nl=False)


def print_report(report: Report) -> None:
    """Print about a report: log lines that were skipped, warnings, the verdict, its path."""
    from rlreport.about.several_runs import SEVERAL_RUNS
    from rlreport.bake.notes import NOTES
    from rlreport.deliver.publish import page_at
    from rlreport.draw.custom import CHARTS
    from rlreport.read.detect import FORMAT

    translate = report.language.of
    for line in skipped_lines(report.tables):
        say(translate(line), err=True)
    printed_kinds = (FORMAT, SEVERAL_RUNS, CHARTS, NOTES)
    for text in dict.fromkeys(
        note.text for note in report.tables.notes if note.kind in printed_kinds
    ):
        say(translate(message("warning: {note}", note=text)), err=True)
    for line in (*report.left_out, *verdict_lines(replace(report.verdict, not_run=[]))):
        say(translate(line))
    steps, responses = len(report.tables.steps), len(report.tables.responses)
    metrics = len(report.tables.metrics.columns) - 1
    sizes = phrases(
        [
            byte_size(report.size),
            plural("{count} response", "{count} responses", responses)
            if responses
            else plural("{count} metric", "{count} metrics", metrics),
            plural("{count} step", "{count} steps", steps),
        ]
    )
    path = page_at(report.out, "index.html") if report.form == "folder" else report.out
    say(f"{path}  {translate(sizes)}")


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return lines with the verdict, the findings, muted findings, and the checks not run."""
    lines = [verdict.sentence]
    for finding in verdict.findings:
        indent = "    " if finding.explained_by else "  "
        values = {
            "head": f"{indent}{finding.severity:8} {finding.id}",
            "title": finding.title,
            "step": finding.onset.step if finding.onset else None,
        }
        lines.append(
            told("{head}: {title} (since step {step})", values)
            if finding.onset
            else told("{head}: {title}", values)
        )
        lines += [Joined("", [f"{indent}         ", line]) for line in _example_lines(finding)]
    for muted in verdict.muted:
        facts = {"id": muted.finding.id, "reason": muted.reason, "title": muted.finding.title}
        lines.append(message("  muted    {id}: {reason} ({title})", **facts))
    for check in verdict.not_run:
        lines.append(message("  not run  {id}: needs {needs}", id=check.id, needs=check.needs))
    return lines


def _example_lines(finding: Finding) -> list[str]:
    """Return a line per quoted example; [] if the finding is a note or explained by another."""
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
    """Return a message for each of the first LISTED unreadable lines, and one for the others."""
    lines = [
        message("left out: {place}: {reason}", place=location(bad), reason=bad.reason)
        for bad in tables.bad_lines[:LISTED]
    ]
    if (other_count := tables.bad_count - len(lines)) > 0:
        lines.append(
            message("left out: {count:count} more, see the report's data page", count=other_count)
        )
    return lines


def location(bad: BadLine) -> str:
    """Return an unreadable line's location as "file:line"; the file alone if it has no number."""
    return f"{bad.file}:{bad.line}" if bad.line else bad.file
