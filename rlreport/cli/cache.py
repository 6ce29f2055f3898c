"""``rlreport cache``."""

from __future__ import annotations

from pathlib import Path

import click

from rlreport.errors import UsageError
from rlreport.text.numbers import byte_size


@click.command()
@click.argument("folder", metavar="[DIR]", default="auto")
@click.option("--clear", is_flag=True, help="Remove all entries; other files in DIR stay.")
def cache(folder: str, clear: bool) -> None:
    """Print the size of the cache in DIR, by default that of the user, or clear it.

    \b
    Examples:
      rlreport cache                    the cache of --cache auto
      rlreport cache .cache --clear
    """
    from rlreport.store import store_at

    if folder != "auto" and not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder")
    store = store_at(folder)
    count, size = store.entries()
    if clear:
        store.clear()
    verb = "removed from" if clear else "in"
    click.echo(f"{count:,} entries, {byte_size(size)}, {verb} {store.folder}")
