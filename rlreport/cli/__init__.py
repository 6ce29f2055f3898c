"""The command line: one module per command, imported on first use."""

from __future__ import annotations

import click

from rlreport.cli.group import LazyGroup

COMMANDS = ("build", "cache", "check", "checks", "compare", "formats", "index", "inspect", "watch")
"""Each is a function in the module of its name."""


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,
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
