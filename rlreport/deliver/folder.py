"""A report as a folder of pages and files, or as a zip of it."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport import __version__

if TYPE_CHECKING:
    from rlreport.pages.page import Page
from rlreport.deliver.forms import Builder

_ZIP_LEVEL = 9
_ZIP_HEADERS = (
    76  # bytes of a file's local and central headers in a zip besides its name
)
_MANIFEST_ENTRY = 8  # bytes of a file's entry in the manifest besides its name


def encode_page(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path in the report, content) of a page, and the bytes it adds to a folder."""
    content = page.html.encode("utf-8", "replace")
    return (page.path, content), len(content) + len(page.path) + _MANIFEST_ENTRY


def write_folder(builder: Builder, folder: Path) -> None:
    for path, content in builder.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def encode_zipped_page(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path in the report, content) of a page, and the bytes it adds to a zip."""
    content = page.html.encode("utf-8", "replace")
    packed = len(zlib.compress(content, _ZIP_LEVEL, -zlib.MAX_WBITS))
    return (page.path, content), packed + 2 * len(page.path) + _ZIP_HEADERS


def write_zip(builder: Builder, path: Path) -> None:
    """Write a zip with the report's files at its root; equal reports give equal bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in builder.files():
            entry = zipfile.ZipInfo(
                name
            )  # dated 1980, so that equal reports have equal bytes
            entry.create_system = 3  # Unix
            entry.external_attr = 0o100644 << 16
            archive.writestr(
                entry, content, zipfile.ZIP_DEFLATED, compresslevel=_ZIP_LEVEL
            )
        archive.comment = f"rlreport {__version__}".encode()
