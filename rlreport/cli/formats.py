"""``rlreport formats``."""

from __future__ import annotations

import click


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
        click.echo(f"{form.id:16} {form.description}")
        click.echo(f"{'':16} {', '.join(form.files)}")
