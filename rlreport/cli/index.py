"""``rlreport index``."""

from __future__ import annotations

from pathlib import Path

import click

from rlreport.cli.options import OUT, options
from rlreport.cli.say import say
from rlreport.options import BuildOptions


@click.command()
@click.argument("reports", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=OUT,
    default=Path("index.html"),
    show_default=True,
    help="Path of the page; its links are relative to it.",
)
@click.option("--title", metavar="TEXT", default="", show_default="Runs", help="Title of the page.")
@options(BuildOptions, "lang", "quiet")
def index(reports: tuple[str, ...], out: Path, title: str, lang: str, quiet: bool) -> None:
    """List many REPORTS on one page: folders, .zip, .html, or folders that contain such.

    A report that is broken, or written by a newer version, gets a row that says so.

    \b
    Examples:
      rlreport index runs/ -o runs/index.html
      rlreport index main/ seed1.zip seed2.html -o index.html --title "KL sweep"
    """
    from rlreport.api import index as build_index

    page = build_index(reports, out, title=title, lang=lang)
    if quiet:
        return
    for path, reason in page.unread:
        say(f"not read: {path}: {reason}", err=True)
    say(f"{page.out}  {page.reports:,} {'report' if page.reports == 1 else 'reports'}")
