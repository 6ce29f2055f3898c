"""Compiled catalogues: ``catalogues/<language>.po`` as ``.mo``.

The ``.mo`` is written when the package is built or installed (``hatch_build.py``); a checkout that
is not installed compiles it in every run, which needs Babel. ``python -m tools.catalogue`` brings
the ``.po`` up to date.
"""

from __future__ import annotations

import io
from pathlib import Path

FOLDER = Path(__file__).with_name("catalogues")


def compiled(po: Path) -> io.BytesIO:
    """Return the ``.mo`` of a catalogue, compiled now if it is missing or older.

    Raises:
        FileNotFoundError: there is no such catalogue.
    """
    mo = po.with_suffix(".mo")
    if mo.exists() and not (po.exists() and po.stat().st_mtime > mo.stat().st_mtime):
        return io.BytesIO(mo.read_bytes())
    return io.BytesIO(make(po))


def make(po: Path) -> bytes:
    """Compile a catalogue; what is fuzzy or untranslated stays English."""
    from babel.messages import mofile, pofile

    made = io.BytesIO()
    with po.open("rb") as file:
        catalog = pofile.read_po(file, locale=po.stem)
    for message in list(catalog):
        if isinstance(message.string, tuple) and not all(message.string):
            catalog.delete(message.id)  # it would be written as English for one
    mofile.write_mo(made, catalog)
    return made.getvalue()


if __name__ == "__main__":
    for catalogue in FOLDER.glob("*.po"):
        catalogue.with_suffix(".mo").write_bytes(make(catalogue))
