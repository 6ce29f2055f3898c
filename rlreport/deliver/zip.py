"""The zip form: the folder, zipped, the same bytes every time."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from rlreport import __version__
from rlreport.bake.pages import Page
from rlreport.deliver.form import Builder, Form

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold; a real one would make every build differ."""
_FILE_MODE = 0o100644 << 16
_UNIX = 3
_LEVEL = 9
_HEADERS = 76
"""Bytes of a file's headers, local and central, besides its name."""


class Zip(Form):
    """A zip with the files of the folder form at its root, ``index.html`` first."""

    id = "zip"
    suffix = ".zip"
    mark = b"rlreport "
    default_size = 100_000_000
    pages = True

    def owns(self, start: bytes, end: bytes) -> bool:
        """A zip has its mark in the comment at its end."""
        return start.startswith(b"PK") and self.mark in end[-64:]

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """A page as (path below the root, bytes)."""
        content = page.html.encode("utf-8", "replace")
        return (page.path, content), _packed_size(page.path, content)

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        with zipfile.ZipFile(place, "w") as archive:
            for path, content in builder.files():
                entry = zipfile.ZipInfo(path, _EPOCH)
                entry.create_system = _UNIX
                entry.external_attr = _FILE_MODE
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
            archive.comment = self.mark + __version__.encode()


def _packed_size(path: str, content: bytes) -> int:
    """Bytes of a file in the archive: packed, with its two headers."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return len(packer.compress(content)) + len(packer.flush()) + 2 * len(path) + _HEADERS


FORM = Zip()
