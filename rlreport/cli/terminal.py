"""Print to the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlreport.text.clean import REPLACEMENT, printable
from rlreport.text.durations import duration
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import Joined, listed, message, phrases, plural
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.check.finding import ToldFinding
    from rlreport.check.verdict import Verdict
    from rlreport.flows.build import Report
    from rlreport.flows.compare import ComparisonReport
    from rlreport.tables import BadLine, Tables
    from rlreport.times import Times


LISTED = 10  # maximum number of unreadable lines, or of incomplete steps, to print
MOST_LINES = 10  # maximum number of lines of a verdict unless --verbose prints all


def say(line: str = "", *, err: bool = False) -> None:
    """Print one line, to stderr if ``err``; unprintable characters and line ends become U+FFFD."""
    click.echo(printable(line).replace("\n", REPLACEMENT), err=err)


def say_path(path: Path | str) -> None:
    """Print the path of a report, or its URL, as the last line of a command.

    A terminal gets the whole path, and a link if it is known to show links. A pipe gets the path
    as it was given, without control characters.
    """
    if isinstance(path, str) or not sys.stdout.isatty():
        say(str(path))
        return
    whole = path.absolute()
    text = printable(str(whole)).replace("\n", REPLACEMENT)
    if _shows_links():
        text = f"\x1b]8;;{whole.as_uri()}\x1b\\{text}\x1b]8;;\x1b\\"
    click.echo(text)


def _shows_links() -> bool:
    """Return whether the terminal is one that is known to show links (OSC 8)."""
    environment = os.environ
    if environment.get("TERM") in (None, "dumb") and not environment.get("WT_SESSION"):
        return False
    # GNOME's terminals have them since 0.50, and print them as text before.
    if environment.get("VTE_VERSION", "").isdigit():
        return int(environment["VTE_VERSION"]) >= _FIRST_VTE
    named = environment.get("TERM_PROGRAM") in _LINKING_PROGRAMS
    return named or any(map(environment.get, _LINKING_VARIABLES))


_FIRST_VTE = 5_000
_LINKING_PROGRAMS = ("iTerm.app", "vscode", "WezTerm", "ghostty", "Hyper", "Tabby")
_LINKING_VARIABLES = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM")


def say_error(message: str) -> None:
    """Print an error; indent all lines but the first, so that none looks like another message."""
    click.echo("rlreport: " + printable(message).replace("\n", "\n  "), err=True)


def say_click_error(error: click.ClickException) -> None:
    """Print an error of click, without control characters in the arguments that it quotes."""
    output = StringIO()
    error.show(file=output)
    click.echo(printable(output.getvalue()), err=True, nl=False)


def say_json(document: bytes) -> None:
    """Print a JSON document with unprintable characters escaped."""
    text = document.decode()
    if printable(text) != text:
        text = "".join(map(_json_character, text))
    click.echo(text, nl=False)


def _json_character(character: str) -> str:
    """Return a character as JSON has it: if it cannot be printed, as an escape such as \\u001b."""
    if printable(character) == character:
        return character
    return json.dumps(character)[1:-1]  # without quotation marks


def print_report(report: Report, *, verbose: bool) -> None:
    """Print warnings and unreadable lines to stderr; then the verdict, the sizes and the path."""
    from rlreport.flows.load import reading_warnings
    from rlreport.tables import counted_responses
    from rlreport.text.messages import sentences

    translate = report.language.of
    for line in skipped_lines(report.tables):
        say(translate(line), err=True)
    for text in reading_warnings(report.tables):
        say(translate(message("warning: {note}", note=text)), err=True)
    left_out = [sentences(report.left_out)] if report.left_out else []
    if verbose:
        lines = verdict_lines(report.verdict, report.language)
    else:
        # Besides the verdict there are sizes, what the report leaves out, and the path.
        most = MOST_LINES - 2 - len(left_out)
        lines = short_verdict_lines(report.verdict, report.language, most)
    splits = report.tables.responses["validation"]
    if len(splits):
        content = counted_responses(splits)
    else:
        metrics = len(report.tables.metrics.columns) - 1  # without the step
        content = plural("{count} metric", "{count} metrics", metrics)
    steps = plural("{count} step", "{count} steps", len(report.tables.steps))
    sizes = phrases([byte_size(report.size), content, steps])
    for line in (*lines, sizes, *left_out):
        say(translate(line))
    say_path(page_to_open(report))


def page_to_open(report: Report | ComparisonReport) -> Path | str:
    """Return the path or URL of what a reader opens: of a folder, its first page."""
    from rlreport.deliver.publish import page_at

    if report.form != "folder":
        return report.out
    return page_at(report.out, report.first_page)


def short_verdict_lines(
    verdict: Verdict, language: Language = ENGLISH, most: int = MOST_LINES
) -> list[str]:
    """Return up to ``most`` lines in a language: the verdict in four, findings, what was not run.

    Serious findings that nothing explains come first, notes last. A line counts those that have no
    line of their own.
    """
    from rlreport.check.four_lines import aligned, four_lines

    lines = aligned(four_lines(verdict), language)
    not_run = _not_run_line(verdict)
    room = most - len(lines) - bool(not_run)
    findings = sorted(verdict.findings, key=_importance)
    if len(findings) > room or verdict.close or verdict.muted:
        room -= 1  # for the line that counts the others
    shown = findings[: max(0, room)]
    rest = _rest_line(verdict, findings[len(shown) :])
    others = [*(_finding_line(one, "  ") for one in shown), rest, not_run]
    return [*lines, *(language.of(line) for line in others if line)]


def _importance(finding: ToldFinding) -> tuple[bool, bool, int]:
    """Return what findings are sorted by: notes last, and those that others explain later."""
    is_note = finding.severity == "info"
    return is_note, finding.explained_by is not None, finding.severity.order


def _rest_line(verdict: Verdict, findings: Sequence[ToldFinding]) -> str:
    """Return a line that counts what is not printed, of which ``findings`` are findings."""
    notes = sum(finding.severity == "info" for finding in findings)
    serious = len(findings) - notes
    close = len(verdict.close)
    muted = len(verdict.muted)
    counts = []
    if serious:
        counts.append(plural("{count} more", "{count} more", serious))
    if notes:
        counts.append(plural("{count} note", "{count} notes", notes))
    if close:
        text = plural("{count} close to a limit", "{count} close to a limit", close)
        counts.append(text)
    if muted:
        counts.append(plural("{count} muted", "{count} muted", muted))
    if not counts:
        return ""
    return message("  + {counts} (--verbose prints all)", counts=phrases(counts))


def _not_run_line(verdict: Verdict) -> str:
    count = len(verdict.not_run)
    if not count:
        return ""
    return plural(
        "{count} check needs what is not logged",
        "{count} checks need what is not logged",
        count,
    )


def verdict_lines(verdict: Verdict, language: Language = ENGLISH) -> list[str]:
    """Return the verdict in a language, all of it.

    After its four lines there is a line per finding, example and close limit, and for what checks
    need that did not run.
    """
    from rlreport.check.four_lines import aligned, four_lines
    from rlreport.check.unlogged import by_needs

    lines: list[str] = []
    for finding in verdict.findings:
        # A finding that another one explains follows that one, and is indented below it.
        indent = "    " if finding.explained_by else "  "
        lines.append(_finding_line(finding, indent))
        if not finding.explained_by:
            lines += _example_lines(finding)
    for close in verdict.close:
        line = message("  close    {id}: {title}", id=close.id, title=close.title)
        lines.append(line)
    for muted in verdict.muted:
        facts = {
            "id": muted.finding.id,
            "reason": muted.reason,
            "title": muted.finding.title,
        }
        lines.append(message("  muted    {id}: {reason} ({title})", **facts))
    for needs, ids in by_needs(verdict.not_run):
        line = plural(
            "  not run  needs {needs}: {count} check, {ids}",
            "  not run  needs {needs}: {count} checks, {ids}",
            len(ids),
            needs=needs,
            ids=listed(ids),
        )
        lines.append(line)
    return [*aligned(four_lines(verdict), language), *map(language.of, lines)]


def _example_lines(finding: ToldFinding) -> list[str]:
    """Return the excerpts that show a serious finding, one line each, or that none does."""
    from rlreport.check.four_lines import example_text

    if finding.severity == "info":
        return []
    lines = [
        example_text(example)
        for example in finding.evidence
        if example.excerpt is not None  # else no text of it shows the finding
    ]
    if finding.unseen:
        lines.append(finding.unseen_text)
    # Below the finding's id, which follows its severity in 8 columns and a blank
    return [Joined("", [" " * 11, line]) for line in lines]


def _finding_line(finding: ToldFinding, indent: str) -> str:
    """Return a line such as ``  critical reward_hacking: … (since step 12)``."""
    facts = {
        # Severities fill 8 columns, so that the ids of all findings begin below each other.
        "head": f"{indent}{finding.severity:8} {finding.id}",
        "title": finding.title,
    }
    if finding.onset is None:
        return message("{head}: {title}", **facts)
    return message(
        "{head}: {title} (since step {step})", **facts, step=finding.onset.step
    )


def skipped_lines(tables: Tables) -> list[str]:
    """Return a message for each of the first LISTED unreadable lines, and one for the others."""
    lines = [
        message("left out: {place}: {reason}", place=location(bad), reason=bad.reason)
        for bad in tables.bad_lines[:LISTED]
    ]
    # ``bad_lines`` may not have all of them
    other_count = tables.bad_count - len(lines)
    if other_count > 0:
        lines.append(
            message(
                "left out: {count:count} more, see the report's data page",
                count=other_count,
            )
        )
    return lines


def location(bad: BadLine) -> str:
    """Return where a bad line is, such as ``rank_0.jsonl:12``; for a whole file, only its name."""
    return f"{bad.file}:{bad.line}" if bad.line else bad.file


def time_lines(times: Times) -> Iterator[str]:
    """Yield a line on the dates and durations of a run, and one on the longest phases of a step."""
    facts: list[str] = []
    if times.start is not None:
        zone = "" if times.is_utc else " (unknown time zone)"
        facts.append(f"{times.date(times.start)} to {times.date(times.end)}{zone}")
    if times.seconds is not None:
        facts.append(f"{duration(times.seconds)} in all")
    if times.pause_seconds:
        facts.append(f"{duration(times.pause_seconds)} of it in pauses")
    if times.step_seconds is not None:
        facts.append(f"{duration(times.step_seconds)} per step")
    for one in times.throughput[:1]:
        unit = "tokens/s per GPU" if one.per_gpu else "tokens/s"
        facts.append(f"{one.tokens_per_second:,.4g} {unit}")
    if times.turn_seconds is not None:
        facts.append(f"{duration(times.turn_seconds)} per turn")
    if facts:
        yield ", ".join(facts)
    phases = times.phases[:LISTED]
    if phases:
        named = ", ".join(f"{one.name} {duration(one.seconds)}" for one in phases)
        more = ", …" if len(times.phases) > LISTED else ""
        yield f"per step: {named}{more}"
