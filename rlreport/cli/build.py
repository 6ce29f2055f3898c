"""``rlreport build``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlreport.cli.shared import (
    PLACE,
    SIZE,
    judging_options,
    language_option,
    mutes,
    read_options,
    reading_options,
)
from rlreport.deliver import FORMS, form_of
from rlreport.errors import OutputError, UsageError
from rlreport.text.language import Language

if TYPE_CHECKING:
    from rlreport.cli.terminal import Terminal
    from rlreport.pipeline import Report

FAILED = 1
"""Exit status when ``--fail-on`` met such a finding."""


if TYPE_CHECKING:
    from rlreport.cli.terminal import Terminal
    from rlreport.pipeline import Report

FAILED = 1
"""Exit status when ``--fail-on`` met such a finding."""


class BuildCommand(click.Command):
    """Takes ``--redact=names`` beside ``--redact``, which takes no value from the next argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments, see the class."""
        given = ["--redact-names" if arg == "--redact=names" else arg for arg in args]
        return super().parse_args(ctx, given)


@click.command(cls=BuildCommand)
@reading_options
@click.option(
    "-o",
    "--out",
    type=PLACE,
    default=Path("report"),
    show_default=True,
    help="Where the report goes; its suffix chooses the form: none is a folder, .html one file, "
    ".eml a mail, .md Markdown with pictures beside it, .zip the folder zipped; '-' is standard "
    "output, with --format. A URL such as s3://bucket/report is written to last of all.",
)
@click.option(
    "--format",
    "form",
    metavar="FORM",
    help=f"Form of the report, whatever the suffix: {', '.join(FORMS)}.",
)
@click.option(
    "--title", metavar="TEXT", help="Name of the run; the log folder's name unless given."
)
@click.option(
    "--band",
    type=click.FloatRange(0, 10),
    default=1.0,
    show_default=True,
    help="Factor of the ± std band on charts.",
)
@click.option(
    "--max-responses",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Responses shown a step; figures always come from all.",
)
@click.option("--max-size", type=SIZE, metavar="SIZE", help="Size the report may have, e.g. 10MB.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the sample."
)
@click.option(
    "--charts",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE.py",
    help="Python file with charts of your own, which is run (repeatable); see docs/charts.md.",
)
@click.option(
    "--config",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of the run for its card: .yaml, .json or .toml (repeatable); found beside "
    "the logs unless given. What looks like a secret is left out.",
)
@click.option(
    "--meta",
    multiple=True,
    metavar="KEY=VALUE",
    help="A further entry of the run's card (repeatable).",
)
@click.option(
    "--git", is_flag=True, help="Put commit and branch of the current folder on the card."
)
@click.option("--merge", is_flag=True, help="Folders that look like several runs are one run.")
@click.option(
    "--in-progress",
    is_flag=True,
    help="The newest step is still written: draw it apart, and judge the run without it.",
)
@judging_options
@language_option
@click.option(
    "--redact",
    is_flag=True,
    help="Leave all text of prompts and responses out; --redact=names: names of further fields "
    "and of files too.",
)
@click.option("--redact-names", is_flag=True, hidden=True)
@click.option("--stamp", is_flag=True, help="Show the time of building (else same bytes).")
@click.option("--to", multiple=True, metavar="ADDRESS", help="Recipient of the mail (repeatable).")
@click.option("--from", "sender", metavar="ADDRESS", help="Sender of the mail.")
@click.option(
    "--subject", metavar="TEXT", help="Subject of the mail; run and verdict unless given."
)
@click.option(
    "--github-summary",
    is_flag=True,
    help="Also append a summary to the job's page, in GitHub Actions.",
)
def build(logs: tuple[str, ...], out: Path | str, **given: Any) -> None:
    """Build the report of the rollout LOGS: files, folders or globs of .jsonl, .gz, .zst.

    \b
    Examples:
      rlreport build logs/ -o report
      rlreport build 'logs/rank_*.jsonl' -o report --title "ppo, kl 0.08"
      rlreport build logs/ -o report --fail-on critical --quiet
      rlreport build logs/ -o run.html --max-size 10MB
      rlreport build logs/ -o run.eml --to team@example.org
    """
    fail_on = given["fail_on"]
    with ExitStack() as stack:
        quiet = given["quiet"]
        if str(out) == "-":
            out, quiet = stack.enter_context(_to_standard_output(given["form"])), True
        terminal, report = build_once(logs, out, given, quiet=quiet)
    terminal.finished(report)
    if fail_on and report.verdict.reaches(fail_on):
        sys.exit(FAILED)


def build_once(
    logs: tuple[str, ...], out: Path | str, given: dict[str, Any], *, quiet: bool
) -> tuple[Terminal, Report]:
    """Builds a report as the command line asks for it.

    Args:
        logs: the logs.
        out: where the report goes.
        given: the command's other parameters; they are taken out.
        quiet: say nothing but errors.

    Raises:
        RlreportError: an option, the logs or the place cannot be used.
    """
    from rlreport.options import CardOptions, MailOptions, ReportOptions
    from rlreport.progress import Silent, Spoken
    from rlreport.workers import Workers

    read, figures = read_options(given)
    form, thresholds = given.pop("form"), given.pop("thresholds")
    del given["quiet"], given["fail_on"]
    language = Language(given.pop("lang"))
    given["redact"] |= given["redact_names"]
    mail = MailOptions(given.pop("to"), given.pop("sender"), given.pop("subject"))
    card = CardOptions(given.pop("config"), _pairs(given.pop("meta")), given.pop("git"))
    progress = Silent() if quiet else Spoken()
    with Workers(read.workers, read.ray, progress.say) as workers:
        from rlreport.cli.terminal import Terminal
        from rlreport.pipeline import build_report

        muted = mutes(given.pop("mute"))
        terminal = Terminal(quiet=quiet, language=language)
        report = build_report(
            logs,
            out,
            read=read,
            figures=figures,
            report=ReportOptions(**given, mail=mail, card=card, language=language),
            thresholds=thresholds,
            muted=muted,
            form=form,
            progress=terminal.progress,
            workers=workers,
        )
    return terminal, report


def _pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [pair.partition("=") for pair in given]
    for name, equals, _ in pairs:
        if not (equals and name.strip()):
            raise UsageError("--meta: write KEY=VALUE, for example --meta kl_coef=0.05")
    return tuple((name.strip(), value) for name, _, value in pairs)


@contextmanager
def _to_standard_output(form: str | None) -> Iterator[Path]:
    """Yields a place for a report, which goes to standard output when it is whole."""
    if form is None:
        raise UsageError(f"-o -: name the form with --format: {', '.join(FORMS)}")
    chosen = form_of(Path(), form)
    if chosen.folder or chosen.pictures:
        raise UsageError(f"-o -: --format {form} is more than one file; give it a name")
    if sys.stdout.isatty():
        raise UsageError("-o -: standard output is a terminal; send it to a file or a program")
    with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
        out = Path(folder) / f"report{chosen.suffix}"
        yield out
        try:
            with out.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"-o -: cannot be written: {error.strerror}") from error
