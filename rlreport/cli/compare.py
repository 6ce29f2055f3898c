"""``rlreport compare``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rlreport.cli.say import say
from rlreport.cli.shared import (
    PLACE,
    SIZE,
    language_option,
    options_of_reading,
    read_options,
)
from rlreport.deliver import FORMS
from rlreport.errors import UsageError
from rlreport.text.language import Language

FAIL_ON = ("worse", "guardrail", "new-critical", "any")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="BASE... NEW")
@options_of_reading
@language_option
@click.option(
    "-o",
    "--out",
    type=PLACE,
    default=Path("comparison"),
    show_default=True,
    help="Where the comparison goes; its suffix chooses the form, as in 'rlreport build'.",
)
@click.option(
    "--format",
    "form",
    metavar="FORM",
    help=f"Form of the comparison, whatever the suffix: {', '.join(FORMS)}.",
)
@click.option(
    "--pair-by",
    default="prompt",
    show_default=True,
    metavar="FIELD",
    help="What prompts are paired by: prompt (its text), group (the logged group_id), or a "
    "further logged field such as id.",
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(FAIL_ON),
    help="Exit with status 1 when this happened (repeatable).",
)
@click.option(
    "--margin",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Loss of reward that --fail-on worse lets pass.",
)
@click.option(
    "--require-evidence",
    is_flag=True,
    help="Exit with status 3 when nothing is shown either way.",
)
@click.option("--title", metavar="TEXT", help="Name of the comparison; those of the runs if none.")
@click.option("--max-size", type=SIZE, metavar="SIZE", help="Size it may have, e.g. 10MB.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resampling."
)
@click.option(
    "--thresholds",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with thresholds of the checks; see 'rlreport checks'.",
)
@click.option("--redact", is_flag=True, help="Leave all text of prompts and responses out.")
@click.option("--stamp", is_flag=True, help="Show the time of building (else same bytes).")
@click.option("--to", multiple=True, metavar="ADDRESS", help="Recipient of the mail (repeatable).")
@click.option("--from", "sender", metavar="ADDRESS", help="Sender of the mail.")
@click.option("--subject", metavar="TEXT", help="Subject of the mail.")
@click.option(
    "--github-summary",
    is_flag=True,
    help="Also append the summary to the job's page, in GitHub Actions.",
)
def compare(runs: tuple[str, ...], out: Path | str, **given: Any) -> None:
    """Compare the run NEW with BASE: logs, or earlier reports (folder, .zip, .html).

    Give BASE several times for several seeds. Exit status: 0; 1 when --fail-on met something;
    2 for unusable input; 3 when --require-evidence found none. The comparison is written first.

    \b
    Examples:
      rlreport compare main-report/ logs/ -o comparison
      rlreport compare seed1/ seed2/ seed3/ new/ -o comparison.html
      rlreport compare main.zip logs/ -o comment.md --fail-on worse --margin 0.01
    """
    from rlreport.cli.terminal import Terminal
    from rlreport.comparing import build_comparison
    from rlreport.deliver.publish import page_at
    from rlreport.options import MailOptions, ReportOptions

    if len(runs) < 2:
        raise UsageError("compare: give BASE and NEW, logs or earlier reports")
    read, figures = read_options(given)
    terminal = Terminal(quiet=given.pop("quiet"))
    language = Language(given.pop("lang"))
    mail = MailOptions(given.pop("to"), given.pop("sender"), given.pop("subject"))
    asked = {
        key: given.pop(key)
        for key in ("pair_by", "fail_on", "margin", "require_evidence", "thresholds", "form")
    }
    made = build_comparison(
        runs[:-1],
        runs[-1],
        out,
        read=read,
        figures=figures,
        report=ReportOptions(**given, mail=mail, language=language),
        progress=terminal.progress,
        **asked,
    )
    if not terminal.quiet:
        say(language.of(made.sentence))
        for note in made.notes:
            say(f"  {language.of(note)}")
        if made.gate_sentence:
            say(language.of(made.gate_sentence))
        page = page_at(made.out, "compare.html") if made.form == "folder" else made.out
        say(f"{page}")
    if made.gate.exit:
        sys.exit(made.gate.exit)
