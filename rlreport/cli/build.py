"""``rlreport build``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from rlreport.cli.options import OUT, fail_on_option, options
from rlreport.deliver import FORMS, form_of
from rlreport.errors import OutputError, UsageError
from rlreport.options import BuildOptions

FAILED = 1  # exit status if a finding reaches the severity of ``--fail-on``


class BuildCommand(click.Command):
    """A click command that accepts both ``--redact`` and ``--redact=names``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; ``--redact=names`` sets the parameter ``redact`` to "names"."""
        values = {arg.removeprefix("--redact=") for arg in args if arg.startswith("--redact=")}
        if values - {"names"}:
            raise click.BadOptionUsage("redact", "give --redact or --redact=names", ctx)
        rest = super().parse_args(ctx, ["--redact" if a == "--redact=names" else a for a in args])
        if "--redact=names" in args:
            ctx.params["redact"] = "names"
        return rest


@click.command(cls=BuildCommand, short_help="Build the report of the rollout LOGS.")
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=OUT,
    default=Path("report"),
    show_default=True,
    help="Output path, or URL such as s3://bucket/run. The suffix selects the format: none = "
    "folder, .html = one file, .eml = mail, .md = Markdown with a folder of pictures, .zip = "
    "zipped folder. '-' writes to standard output and needs --format.",
)
@options(BuildOptions)
@fail_on_option
def build(logs: tuple[str, ...], out: Path | str, fail_on: Any, **given: Any) -> None:
    """Build the report of the rollout LOGS: files, folders or globs of .jsonl, .gz, .zst, .zip.

    \b
    Examples:
      rlreport build logs/ -o report
      rlreport build 'logs/rank_*.jsonl' -o report --title "ppo, kl 0.08"
      rlreport build logs/ -o report --fail-on critical --quiet
      rlreport build logs/ -o run.html --max-size 10MB
      rlreport build logs/ -o run.eml --to team@example.org
    """
    from rlreport.api import build as build_report
    from rlreport.cli.terminal import print_report

    with ExitStack() as stack:
        if str(out) == "-":
            out = stack.enter_context(_to_standard_output(given["form"]))
            given["quiet"] = True
        report = build_report(logs, out, **given)
    if not given["quiet"]:
        print_report(report)
    if fail_on and report.verdict.reaches(fail_on):
        sys.exit(FAILED)


@contextmanager
def _to_standard_output(form: str | None) -> Iterator[Path]:
    """Yield the path of a temporary file, then copy its content to standard output."""
    if form is None:
        raise UsageError(f"-o -: select the format with --format: {', '.join(FORMS)}")
    output_format = form_of(Path(), form)
    if output_format.folder or output_format.pictures:
        raise UsageError(f"-o -: --format {form} is more than one file; give an output path")
    if sys.stdout.isatty():
        raise UsageError("-o -: standard output is a terminal; redirect it to a file or a pipe")
    with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
        out = Path(folder) / f"report{output_format.suffix}"
        yield out
        try:
            with out.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"-o -: cannot be written: {error.strerror}") from error
