"""The folder format and the zip format: pages, shared assets and exported files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from rlreport import __version__
from rlreport.bake.pages import Page
from rlreport.deliver.form import Builder, Form

MANIFEST_BYTES = 8
"""Bytes of a file's entry in the manifest besides its name."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold; a real one would make every build differ."""

_FILE_MODE = 0o100644 << 16
_UNIX = 3
_LEVEL = 9
_HEADERS = 76
"""Bytes of a file's local and central headers in a zip besides its name."""


class Folder(Form):
    """A folder of pages that open from ``file://`` and from any static host."""

    id = "folder"
    folder = True
    default_size = 100_000_000
    pages = True

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """Return a page as (path below the root, bytes), and its size."""
        content = page.html.encode("utf-8", "replace")
        return (page.path, content), len(content) + len(page.path) + MANIFEST_BYTES

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        for path, content in builder.files():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)


class Zip(Form):
    """A zip with the files of the folder at its root; equal reports have equal bytes."""

    id = "zip"
    suffix = ".zip"
    mark = b"rlreport "
    default_size = 100_000_000
    pages = True

    def owns(self, start: bytes, end: bytes) -> bool:
        """Return whether the comment at the end of a zip has the mark."""
        return start.startswith(b"PK") and self.mark in end[-64:]

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """Return a page as (path below the root, bytes), and its packed size."""
        content = page.html.encode("utf-8", "replace")
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed = len(packer.compress(content)) + len(packer.flush())
        return (page.path, content), packed + 2 * len(page.path) + _HEADERS

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        with zipfile.ZipFile(place, "w") as archive:
            for path, content in builder.files():
                entry = zipfile.ZipInfo(path, _EPOCH)
                entry.create_system = _UNIX
                entry.external_attr = _FILE_MODE
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
            archive.comment = self.mark + __version__.encode()


FOLDER = Folder()
ZIP = Zip()
