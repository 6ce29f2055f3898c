"""Print to the terminal, and make Click options from the fields of ``rlreport.options``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, replace
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlreport.errors import UsageError
from rlreport.options import GaeOptions, ReadOptions, declared
from rlreport.text.clean import REPLACEMENT, printable
from rlreport.text.messages import Joined, message, phrases, plural
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.check.finding import ToldFinding
    from rlreport.check.verdict import Verdict
    from rlreport.flows.build import Report
    from rlreport.tables import BadLine, Tables


LISTED = 10  # maximum number of unreadable lines, or of incomplete steps, to print


def say(line: str = "", *, err: bool = False) -> None:
    """Print one line, to stderr if ``err``; unprintable characters and line ends become U+FFFD."""
    click.echo(printable(line).replace("\n", REPLACEMENT), err=err)


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


def print_report(report: Report) -> None:
    """Print warnings and unreadable lines to stderr; then the verdict, the path and the sizes."""
    from rlreport.deliver.publish import page_at
    from rlreport.tables import counted_responses

    translate = report.language.of
    for line in (*skipped_lines(report.tables), *_warnings(report.tables)):
        say(translate(line), err=True)
    # Checks that could not run are in the report.
    verdict = replace(report.verdict, not_run=[])
    for line in (*report.left_out, *verdict_lines(verdict)):
        say(translate(line))
    splits = report.tables.responses["validation"]
    if len(splits):
        content = counted_responses(splits)
    else:
        metrics = len(report.tables.metrics.columns) - 1  # without the step
        content = plural("{count} metric", "{count} metrics", metrics)
    steps = plural("{count} step", "{count} steps", len(report.tables.steps))
    sizes = phrases([byte_size(report.size), content, steps])
    # Of a folder, the page to open: many terminals make its path a link.
    path = page_at(report.out, "index.html") if report.form == "folder" else report.out
    say(f"{path}  {translate(sizes)}")


def _warnings(tables: Tables) -> list[str]:
    """Return a warning for each note that the user should read at once; others are in the report.

    Logs that changed while they were read come first. A text that several notes have is there once.
    """
    from rlreport.read.changed import change_in_words
    from rlreport.tables import NoteKind

    changes = [
        change_in_words(note) for note in tables.notes if note.kind == NoteKind.CHANGED
    ]
    printed_kinds = (
        NoteKind.FORMAT,
        NoteKind.NO_STEP,
        NoteKind.SEVERAL_RUNS,
        NoteKind.SEVERAL_STARTS,
        NoteKind.CHARTS,
        NoteKind.NOTES,
    )
    texts = [note.text for note in tables.notes if note.kind in printed_kinds]
    distinct_texts = dict.fromkeys(texts)
    return [
        message("warning: {note}", note=text) for text in (*changes, *distinct_texts)
    ]


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the verdict, then a line per finding, example, close limit, and check not run."""
    lines = [line for line in (verdict.headline, verdict.course_text) if line]
    for finding in verdict.findings:
        # A finding that another one explains follows that one, and is indented below it.
        indent = "    " if finding.explained_by else "  "
        lines.append(_finding_line(finding, indent))
        for line in _example_lines(finding):
            # Below the finding's id, which follows its severity in 8 columns and a blank
            lines.append(Joined("", [f"{indent}         ", line]))
    for close in verdict.close:
        text = message("  close    {id}: {title}", id=close.id, title=close.title)
        lines.append(text)
    for muted in verdict.muted:
        facts = {
            "id": muted.finding.id,
            "reason": muted.reason,
            "title": muted.finding.title,
        }
        lines.append(message("  muted    {id}: {reason} ({title})", **facts))
    for check in verdict.not_run:
        text = message("  not run  {id}: needs {needs}", id=check.id, needs=check.needs)
        lines.append(text)
    return lines


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


def _example_lines(finding: ToldFinding) -> list[str]:
    """Return the excerpts that show a serious finding, one line per response, or that none does.

    A line such as ``'fine' → 'aaaa'`` also has the excerpt of a response from before the onset.
    """
    if finding.severity == "info" or finding.explained_by:
        return []
    lines = []
    for example in finding.evidence:
        if example.excerpt is None:  # no text of the response shows the finding
            continue
        text = repr(example.excerpt)
        if example.before and example.before.excerpt is not None:
            text = f"{example.before.excerpt!r} → {text}"
        where = message("step {step}, response {n}", step=example.step, n=example.n)
        lines.append(message("{where}: {text}", where=where, text=text))
    if finding.unseen:
        lines.append(finding.unseen_text)
    return lines


def skipped_lines(tables: Tables) -> list[str]:
    """Return a message for each of the first LISTED unreadable lines, and one for the others."""
    lines = [
        message("left out: {place}: {reason}", place=location(bad), reason=bad.reason)
        for bad in tables.bad_lines[:LISTED]
    ]
    other_count = tables.bad_count - len(
        lines
    )  # ``bad_lines`` may not have all of them
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


Command = TypeVar("Command", bound=Callable[..., Any])

# Names of the options for reading logs, and of those for GAE (``gamma``, ``lam``)
READING = [field.name for field in (*declared(ReadOptions), *declared(GaeOptions))]


def size(value: str | int) -> int:
    """Parse a size such as ``10MB``, ``500kB`` or ``1000`` into bytes (1 kB is 1,000 bytes)."""
    pattern = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kmg]?)b?"
    match = re.fullmatch(pattern, str(value).strip(), re.IGNORECASE)
    size_in_bytes = 0.0  # for a text that does not match: refused like a size of 0
    if match:
        factor = _FACTORS[match["prefix"].lower()]
        size_in_bytes = float(match["number"]) * factor
    if size_in_bytes < 1:
        raise click.BadParameter(f"{value!r} is not a size such as 10MB, 500kB or 1GB")
    return int(size_in_bytes)


_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    help="Exit with status 1 if there is a finding of this severity or worse.",
)


def out_option(default: str, help: str) -> Callable[[Command], Command]:
    """Return the decorator that adds the option ``--out`` to a command."""
    return click.option(
        "-o", "--out", default=default, show_default=True, metavar="PATH", help=help
    )


def options(kind: type, *names: str) -> Callable[[Command], Command]:
    """Return a decorator that adds options of the class ``kind`` to a command, by default all."""

    def add(command: Command) -> Command:
        # Click lists the option that was added last first.
        for field in reversed(declared(kind)):
            if not names or field.name in names:
                command = _option(field)(command)
        return command

    return add


def _option(declaration: Field[Any]) -> Callable[[Command], Command]:
    """Return the decorator that adds the click option for a field of an options class.

    The type of the default selects the kind of option: bool a flag, tuple or dict one that can be
    given several times, others one with a value.
    """
    settings = declaration.metadata  # see ``rlreport.options.option``
    # The default of a dict is made by a factory.
    default = {} if declaration.default is MISSING else declaration.default
    flags = settings["flags"] or [f"--{declaration.name.replace('_', '-')}"]
    if isinstance(default, bool):
        return click.option(
            *flags, declaration.name, is_flag=True, help=settings["help"]
        )
    repeatable = isinstance(default, tuple | dict)
    is_worth_showing = default not in (None, "", (), {})
    return click.option(
        *flags,
        declaration.name,
        metavar=settings.get("metavar"),
        type=_type(settings, default),
        default=None if repeatable else default,
        show_default=settings.get("show", is_worth_showing),
        multiple=repeatable,
        callback=_pairs if isinstance(default, dict) else None,
        help=f"{settings['help']} Repeatable." if repeatable else settings["help"],
    )


def _type(settings: Mapping[str, Any], default: object) -> Any:
    """Return the click type of an option, None for text."""
    if "size" in settings:
        return size
    if "choices" in settings:
        return click.Choice(settings["choices"])
    if "low" in settings:
        range_type = click.FloatRange if isinstance(default, float) else click.IntRange
        return range_type(min=settings["low"], max=settings.get("high"))
    is_file = str(settings.get("metavar")).startswith("FILE")  # also "FILE.py"
    return click.Path() if is_file else None


def _pairs(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Return the dict of a repeated option such as ``--map FIELD=PATH``, as a callback of click.

    If a name is given several times, the last value counts.
    """
    pairs = {}
    # An entry of the configuration (--meta) may be empty; a path or a reason may not.
    may_be_empty = param.metavar == "KEY=VALUE"
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and (value or may_be_empty)):
            raise UsageError(
                f"{param.opts[0]} {text}: must have the form {param.metavar}"
            )
        pairs[name] = value
    return pairs
