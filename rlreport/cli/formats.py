"""``rlreport formats``."""

from __future__ import annotations

import click

from rlreport.cli.say import say


@click.command()
def formats() -> None:
    """List the log formats that are read, and what their files are called.

    \b
    Examples:
      rlreport formats
      rlreport build dumps/ --log-format verl
    """
    from rlreport.formats import formats as known

    for form in known().values():
        say(f"{form.id:16} {form.description}")
        say(f"{'':16} {', '.join(form.files)}")
