"""``rlreport index``."""

from __future__ import annotations

from pathlib import Path

import click

from rlreport.cli.say import say
from rlreport.cli.shared import PLACE, language_option
from rlreport.text.language import Language


@click.command()
@click.argument("reports", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=PLACE,
    default=Path("index.html"),
    show_default=True,
    help="The page; its links are relative to it.",
)
@click.option(
    "--title", metavar="TEXT", default="", show_default="Runs, in the language", help="Its name."
)
@language_option
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def index(reports: tuple[str, ...], out: Path, title: str, lang: str, quiet: bool) -> None:
    """List many REPORTS on one page: folders, .zip, .html, or folders that hold such.

    A report that is broken, or of a newer version, says so in its row.

    \b
    Examples:
      rlreport index runs/ -o runs/index.html
      rlreport index main/ seed1.zip seed2.html -o index.html --title "KL sweep"
    """
    from rlreport.indexing import build_index

    made = build_index(reports, out, title=title, language=Language(lang))
    if quiet:
        return
    for place, why in made.unread:
        say(f"not read: {place}: {why}", err=True)
    say(f"{made.out}  {made.reports:,} {'report' if made.reports == 1 else 'reports'}")
