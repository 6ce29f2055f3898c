"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import click

from rlreport.cli.group import LazyGroup

COMMANDS = {
    "build": "rlreport.cli.build:build",
    "cache": "rlreport.cli.cache:cache",
    "check": "rlreport.cli.check:check",
    "checks": "rlreport.cli.checks:checks",
    "compare": "rlreport.cli.compare:compare",
    "formats": "rlreport.cli.formats:formats",
    "index": "rlreport.cli.index:index",
    "inspect": "rlreport.cli.inspect:inspect",
    "watch": "rlreport.cli.watch:watch",
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="rlreport", prog_name="rlreport")
def main() -> None:
    """Static HTML reports of RL runs on language models, from their rollout logs.

    \b
    Examples:
      rlreport build logs/ -o report            a folder of pages
      rlreport build 'logs/*.jsonl.gz' -o run.html   one file
      rlreport compare main/ logs/ -o diff.md   this run against that one
      rlreport index runs/ -o runs/index.html   many reports on one page
      rlreport inspect logs/                    what is in the logs
    """
