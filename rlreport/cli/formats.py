"""``rlreport formats``."""

from __future__ import annotations

import click

from rlreport.cli.say import say


@click.command()
def formats() -> None:
    """List the supported log formats and the names of their files.

    \b
    Examples:
      rlreport formats
      rlreport build dumps/ --log-format verl
    """
    from rlreport.formats import formats as known

    for form in known().values():
        say(f"{form.id:16} {form.description}")
        say(f"{'':16} {', '.join(form.files)}")
