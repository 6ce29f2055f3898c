"""The commands of ``rlreport``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from rlreport.cli.browser import show_page
from rlreport.cli.command import Command
from rlreport.cli.file_lines import log_lines, metrics_lines
from rlreport.cli.option import (
    fail_on_option,
    open_option,
    option,
    options,
    out_option,
    verbose_option,
)
from rlreport.cli.settings import set_by
from rlreport.cli.terminal import (
    LISTED,
    location,
    page_to_open,
    print_report,
    say,
    say_json,
    say_path,
    short_verdict_lines,
    time_lines,
    verdict_lines,
)
from rlreport.deliver.forms import FORMS
from rlreport.errors import UnusableInputError, UsageError
from rlreport.options import (
    BUILDING,
    CHECKING,
    DEFAULT_LIMIT,
    READING,
    BuildOptions,
    CompareOptions,
)
from rlreport.text.language import Language
from rlreport.text.numbers import counted

if TYPE_CHECKING:
    from rlreport.read.field_list import FileFields
    from rlreport.read.tables import Scan

FAILED = 1  # exit status if a finding reaches the severity of ``--fail-on``


# Options that ``--help`` lists; ``--help-all`` lists all
_CONTENT = ("max_size", "title", "redact", "lang")
_CHECKING = ("thresholds", "mute", "fail_on")
_READING = ("log_format", "mapping", "split", "run", "metrics", "cache")
LISTED_IN_BUILD = (
    "out",
    "open_page",
    *_CONTENT,
    "mapping",
    "mute",
    "fail_on",
    "cache",
    "verbose",
)
_LISTED_IN_COMPARE = (
    "base",
    "new",
    "out",
    "open_page",
    *_CONTENT,
    "mapping",
    "fail_on",
    "margin",
    "cache",
)

_LISTED_IN_INDEX = (
    "out",
    "open_page",
    "rebuild",
    "title",
    "redact",
    "config",
    "lang",
    "limit",
    "mapping",
    "thresholds",
    "mute",
    "quiet",
)

# Eager: files of settings are looked for beside the logs, before options are read.
logs_argument = click.argument("logs", nargs=-1, required=True, is_eager=True)


@click.command(
    cls=Command,
    short_help="Print the findings of the rollout LOGS.",
    listed=(*_READING, *_CHECKING, "as_json", "verbose", "quiet"),
)
@logs_argument
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the findings as JSON.",
    group="Output",
)
@options(BuildOptions, *(name for name in CHECKING if name != "quiet"))
@option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print the first line of the verdict only, and errors.",
    group="Other",
)
@verbose_option
@fail_on_option
def check(
    logs: tuple[str, ...], as_json: bool, verbose: bool, fail_on: Any, **given: Any
) -> None:
    """Run the health checks on the rollout LOGS and print the verdict, without a report.

    \b
    Examples:
      rlreport check logs/
      rlreport check logs/ --verbose
      rlreport check logs/ --json --fail-on warning
      rlreport check logs/ -q
    """
    from rlreport.api import judge
    from rlreport.check import findings_json
    from rlreport.pages.html import canonical_json

    quiet = given["quiet"] or as_json  # JSON comes without progress
    verdict = judge(logs, **{**given, "quiet": quiet})
    language = Language(given["lang"])
    if as_json:
        say_json(canonical_json(findings_json(verdict), indent=True))
    elif quiet:
        say(language.of(verdict.what))
    else:
        lines = verdict_lines if verbose else short_verdict_lines
        for line in lines(verdict, language):
            say(line)
    if fail_on and verdict.reaches(fail_on):
        sys.exit(FAILED)


@click.command(short_help="List the health checks.")
def checks() -> None:
    """List the health checks with their required data, thresholds and sources.

    \b
    Examples:
      rlreport checks
      rlreport build logs/ --thresholds mine.toml
    """
    from rlreport.check.registry import CHECKS

    for check in CHECKS:
        say(f"{check.id}: {check.name}")
        say(f"  needs {', '.join(need.words for need in check.needs) or 'nothing'}")
        for key, limit in check.limits.declared().items():
            unit = f" {limit.unit}" if limit.unit else ""
            say(f"  {key} = {limit.default:g}{unit}: {limit.meaning}")
        say(f"  source: {check.source}")
        say()


@click.command(short_help="List the log formats.")
def formats() -> None:
    """List the supported log formats and the names of their files.

    \b
    Examples:
      rlreport formats
      rlreport build dumps/ --log-format verl
    """
    from rlreport.formats.registry import formats as known_formats

    for log_format in known_formats().values():
        say(f"{log_format.id:16} {log_format.description}")
        say(f"{'':16} {', '.join(log_format.files)}")


@click.command(
    cls=Command,
    short_help="Print what is in the rollout LOGS.",
    listed=(*_READING, "tokenizer", "restarts", "strict", "quiet"),
)
@logs_argument
@options(BuildOptions, *READING, "quiet")
def inspect(logs: tuple[str, ...], **given: Any) -> None:
    """Print what is in the rollout LOGS: files, steps, fields, and lines that cannot be read.

    \b
    Examples:
      rlreport inspect logs/
      rlreport inspect run.jsonl --map reward=score
    """
    from rlreport.flows.load import read_run
    from rlreport.pages.data import note_in_words
    from rlreport.read.field_list import field_lists
    from rlreport.summarise.times import times_of
    from rlreport.system.wandb_runs import local_copies
    from rlreport.system.workers import Progress
    from rlreport.tables import NoteKind

    with local_copies({"logs": logs}) as copies:
        paths = copies["logs"]
        try:
            scan, metrics, _ = read_run(
                paths, given, Progress(given["quiet"]), explain=True
            )
        except UnusableInputError as error:
            # What cannot be read is shown as it is, to find out how to read it.
            lists = field_lists(paths)
            if given["strict"] or not lists:
                raise
            say(str(error))
            _say_field_lists(lists)
            return
    has_rollouts = len(scan.responses) > 0
    if has_rollouts:
        _say_steps(scan)
    else:
        run_count = max(len(metrics.runs), 1)  # ``runs`` is empty for a single one
        say(f"no rollouts; trainer metrics of {counted(run_count, 'run')}")
    times = times_of(scan.responses, scan.extras, metrics)
    _say_section("times", time_lines(times))
    _say_section("files", log_lines(scan.files))
    _say_section("trainer metrics", metrics_lines(metrics.files))
    if has_rollouts:
        _say_section("fields", _field_lines(scan))
    _say_section("notes", map(note_in_words, [*scan.notes, *metrics.notes]))
    not_read = {
        note.file
        for note in scan.notes
        if note.kind == NoteKind.NOT_A_LOG and note.file
    }
    _say_field_lists(field_lists(logs, not_read) if not_read else [])
    bad_lines = (f"{location(bad)}: {bad.reason}" for bad in scan.bad_lines)
    _say_section(f"left out: {scan.bad_count:,}", bad_lines)


def _say_field_lists(files: Iterable[FileFields]) -> None:
    """Print the fields of files that are not read, with an example of each."""
    for file in files:
        lines = [
            f"{field.name:24} {field.kinds:16} {field.example}" for field in file.fields
        ]
        say()
        say(f"not read: {file.name}  {file.what}")
        for line in lines:
            say(f"  {line}")
        if file.next:
            say(file.next)


def _say_section(title: str, lines: Iterable[str]) -> None:
    """Print a title and indented lines, nothing without lines."""
    lines = list(lines)
    if lines:
        say()
        say(title)
    for line in lines:
        say(f"  {line}")


def _say_steps(scan: Scan) -> None:
    """Print how many responses and steps are logged, and which steps are incomplete."""
    from rlreport.summarise.steps import most_common
    from rlreport.tables import RowRole, counted_responses

    roles = scan.responses["validation"]
    step_of_row = scan.responses["step"]
    # What is usual, and when a step is incomplete, is judged by training.
    counts = step_of_row[roles == RowRole.TRAINING].value_counts()  # by step
    usual_count = most_common(counts.to_numpy())
    steps = counted(step_of_row.nunique(), "step")
    line = f"{counted_responses(roles)} over {steps} "
    line += f"({step_of_row.min()}–{step_of_row.max()})"
    if usual_count is not None:
        has_others = (roles != RowRole.TRAINING).any()
        of_training = " of training" if has_others else ""
        line += f", usually {usual_count:,}{of_training} per step"
    say(line)
    # Without a usual number, no step is called incomplete.
    incomplete_steps = sorted(counts.index[counts < (usual_count or 0)])
    if incomplete_steps:
        more = ", …" if len(incomplete_steps) > LISTED else ""
        say(f"incomplete steps: {', '.join(map(str, incomplete_steps[:LISTED]))}{more}")


def _field_lines(scan: Scan) -> Iterator[str]:
    """Yield a line per canonical field, also if it is not logged, then one per other field."""
    from rlreport.fields import CANONICAL, FIELDS

    for field in FIELDS:
        state = _rows_with(field.name, scan)
        optional = "" if field.required else " (optional)"
        yield f"{field.name:18} {state:12} {field.meaning}{optional}"
    for name in map(str, scan.extras.columns):
        if name not in CANONICAL:
            yield f"{name[:40]:18} {counted(scan.fields.get(name, 0), 'row')}   as logged"


def _rows_with(field: str, scan: Scan) -> str:
    """Return how many rows have a field: "all rows", "12 rows", "missing"."""
    count = scan.fields.get(field, 0)
    if count == len(scan.responses):
        return "all rows"
    return counted(count, "row") if count else "missing"


class BuildCommand(Command):
    """A click command that accepts both ``--redact`` and ``--redact=names``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; ``--redact=names`` gives the option ``redact`` the value "names"."""
        with_names = "--redact=names"
        if any(arg.startswith("--redact=") and arg != with_names for arg in args):
            raise click.BadOptionUsage("redact", "give --redact or --redact=names", ctx)
        # To click, the option is a flag, which cannot have a value.
        flags = ["--redact" if arg == with_names else arg for arg in args]
        rest = super().parse_args(ctx, flags)
        if with_names in args:
            ctx.params["redact"] = "names"
        return rest


@click.command(
    cls=BuildCommand,
    short_help="Build the report of the rollout LOGS.",
    listed=LISTED_IN_BUILD,
)
@logs_argument
@out_option(
    "report",
    "Output path, or URL such as s3://bucket/run. The suffix selects the format: "
    + ", ".join(f"{form.suffix or 'none'} = {form.words}" for form in FORMS.values())
    + ".",
)
@open_option
@options(BuildOptions)
@verbose_option
@fail_on_option
def build(
    logs: tuple[str, ...],
    out: str,
    *,
    open_page: bool,
    verbose: bool,
    fail_on: Any,
    **given: Any,
) -> None:
    """Build the report of rollout LOGS or trainer metrics: files, folders, globs or URLs.

    \b
    Examples:
      rlreport build logs/ -o report
      rlreport build 'logs/rank_*.jsonl' -o report --title "ppo, kl 0.08"
      rlreport build logs/ -o report --fail-on critical --quiet
      rlreport build logs/ -o run.html --max-size 10MB
      rlreport build logs/ -o run.eml --to team@example.org
    """
    from rlreport.draw.vega import vega_process

    with vega_process(given["workers"]):  # V8 starts while packages are imported
        from rlreport.api import build as build_report

        report = build_report(
            logs, out, **given, set_by=set_by(click.get_current_context())
        )
    if open_page:
        show_page(page_to_open(report))
    if not given["quiet"]:
        print_report(report, verbose=verbose)
    if fail_on and report.verdict.reaches(fail_on):
        sys.exit(FAILED)


@click.command(
    cls=BuildCommand,
    short_help="List many reports and runs on one page.",
    listed=_LISTED_IN_INDEX,
)
@click.argument("reports", nargs=-1, required=True, is_eager=True)
@out_option("index.html", "Path of the page; its links are relative to it.")
@open_option
@option(
    "--title",
    metavar="TEXT",
    default="",
    show_default="Runs",
    help="Title of the page.",
    group="Content",
    from_file="value",
)
@option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Maximum number of runs of a project of W&B, the newest first.",
    group="Input",
    from_file="value",
)
@option(
    "--rebuild",
    is_flag=True,
    help="Build the reports of all runs again, also those that are up to date.",
    group="Output",
    from_file="value",
)
@options(BuildOptions, *BUILDING)
def index(
    reports: tuple[str, ...],
    out: str,
    *,
    open_page: bool,
    title: str,
    limit: int,
    rebuild: bool,
    **given: Any,
) -> None:
    """List many REPORTS and runs on one page: reports, logs of runs, or folders of both.

    A report of each run that has none is built in a folder beside the page: OUT-reports/RUN/ for
    OUT.html. The next call builds only what has changed; after Ctrl-C it goes on. Reports and runs
    that cannot be read are listed with the reason. Exit status: 0 if at least one can be read.

    \b
    Examples:
      rlreport index runs/ -o runs.html
      rlreport index main/ seed1.zip seed2.html -o index.html --title "KL sweep"
      rlreport index wandb://TEAM/PROJECT --limit 20
    """
    from rlreport.api import index as build_index

    page = build_index(
        reports,
        out,
        title=title,
        limit=limit,
        rebuild=rebuild,
        **given,
        set_by=set_by(click.get_current_context()),
    )
    if open_page:
        show_page(page.out)
    if not given["quiet"]:
        for path, reason in page.unread:
            say(f"not read: {path}: {reason}", err=True)
        counts = {"built": page.built, "up to date": page.kept}
        counts["not read"] = len(page.unread)
        parts = [f"{count:,} {what}" for what, count in counts.items() if count]
        said = f": {', '.join(parts)}" if parts else ""
        say(f"{counted(page.reports, 'report')}{said}")
        say_path(page.out)


@click.command(
    cls=Command,
    short_help="Compare two runs, or two groups of runs.",
    listed=_LISTED_IN_COMPARE,
)
@click.argument("runs", nargs=-1, metavar="[BASE... NEW]", is_eager=True)
@option(
    "--base",
    multiple=True,
    is_eager=True,
    metavar="RUN",
    help="A run of BASE; repeat for its seeds.",
    group="Input",
)
@option(
    "--new",
    multiple=True,
    is_eager=True,
    metavar="RUN",
    help="A run of NEW; repeat for its seeds.",
    group="Input",
)
@out_option(
    "comparison",
    "Output path, or URL such as s3://bucket/run; the suffix selects the format as in "
    "'rlreport build'.",
)
@open_option
@options(CompareOptions)
def compare(
    runs: tuple[str, ...],
    base: tuple[str, ...],
    new: tuple[str, ...],
    out: str,
    *,
    open_page: bool,
    **given: Any,
) -> None:
    """Compare the run NEW with BASE: logs, or earlier reports (folder, .zip, .html).

    Give --base and --new several times for several seeds, or a folder of runs that differ only in
    their seed. Exit status: 1 if a --fail-on condition is met, 2 for unusable input, 3 if
    --require-evidence found no difference, otherwise 0. With status 1 and 3 the comparison is
    still written.

    \b
    Examples:
      rlreport compare main-report/ logs/ -o comparison
      rlreport compare --base a1/ --base a2/ --new b1/ --new b2/ -o seeds.html
      rlreport compare baseline-seeds/ new-seeds/ -o comparison.html
      rlreport compare main.zip logs/ -o comment.md --fail-on worse --margin 0.01
    """
    from rlreport.api import compare as compare_runs

    if not new and runs:  # the last run is NEW, all others are BASE
        base = (*base, *runs[:-1])
        new = runs[-1:]
        runs = ()
    # Runs that are left were given together with --new; "" is an unset variable of a script.
    if runs or not base or not new or not all(new):
        raise UsageError(
            "compare: give two runs, BASE and NEW (logs or earlier reports)"
        )
    comparison = compare_runs(
        base, new, out, **given, set_by=set_by(click.get_current_context())
    )
    if open_page:
        show_page(page_to_open(comparison))
    if not given["quiet"]:
        translate = Language(given["lang"]).of
        say(translate(comparison.sentence))
        for note in comparison.notes:
            say(f"  {translate(note)}")
        if comparison.gate_sentence:
            say(translate(comparison.gate_sentence))
        say_path(page_to_open(comparison))
    if comparison.gate.exit:
        sys.exit(comparison.gate.exit)
