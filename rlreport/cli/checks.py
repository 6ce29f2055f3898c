"""``rlreport checks``."""

from __future__ import annotations

import click

from rlreport.cli.say import say


@click.command()
def checks() -> None:
    """List the health checks with their required data, thresholds and sources.

    \b
    Examples:
      rlreport checks
      rlreport build logs/ --thresholds mine.toml
    """
    from rlreport.check.registry import CHECKS, describe

    rows = describe()
    for check in CHECKS:
        say(f"{check.id}: {check.looks_for}")
        say(f"  needs {', '.join(need.words for need in check.needs) or 'nothing'}")
        for row in rows:
            if row.group == check.id:
                unit = f" {row.limit.unit}" if row.limit.unit else ""
                say(f"  {row.limit.key} = {row.value:g}{unit}: {row.limit.meaning}")
        say(f"  source: {check.source}")
        say()
