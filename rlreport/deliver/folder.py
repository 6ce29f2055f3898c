"""A report as a folder of pages and files, or as a zip of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport.deliver.form import Deliverable, Form

if TYPE_CHECKING:
    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.page import RenderedPage

_ZIP_LEVEL = 9
# Bytes of a file's local and central headers in a zip besides its name
_ZIP_HEADERS = 76
_MANIFEST_ENTRY = 8  # bytes of a file's entry in the manifest besides its name
_REGULAR_FILE = 0o100644 << 16  # type and permissions, as a zip has them


def encode_page(page: RenderedPage) -> EncodedPage:
    """Encode a page for a folder, in which its weight includes its entry in the manifest."""
    return _encoded(
        page, lambda path, content: len(content) + len(path) + _MANIFEST_ENTRY
    )


def _encoded(page: RenderedPage, weight_of: Callable[[str, bytes], int]) -> EncodedPage:
    """Encode a page and the script with its tokens; ``weight_of`` returns what a file takes."""
    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.page import tokens_script

    # Logged texts may contain lone surrogates, which UTF-8 cannot encode.
    content = page.html.encode("utf-8", "replace")
    tokens = tokens_script(page)
    weight = weight_of(page.path, content)
    if tokens:
        weight += weight_of(*tokens)
    return EncodedPage(page.path, content, weight, tokens)


def write_folder(report: Deliverable, folder: Path) -> None:
    for path, content in report.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def encode_zipped_page(page: RenderedPage) -> EncodedPage:
    """Encode a page for a zip, in which its weight is that of the compressed page.

    The content itself is not compressed: ``write_zip`` does that.
    """
    return _encoded(page, _zipped_size)


def _zipped_size(path: str, content: bytes) -> int:
    # Negative: without zlib's header, as in a zip.
    packed = zlib.compress(content, _ZIP_LEVEL, -zlib.MAX_WBITS)
    # Both headers of a file have its name.
    return len(packed) + 2 * len(path) + _ZIP_HEADERS


def write_zip(report: Deliverable, path: Path) -> None:
    """Write a zip with the report's files at its root; equal reports give equal bytes."""
    import zipfile

    from rlreport import __version__

    with zipfile.ZipFile(path, "w") as archive:
        for name, content in report.files():
            # Without a date it is dated 1980, so that equal reports have equal bytes.
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = _REGULAR_FILE
            archive.writestr(
                entry, content, zipfile.ZIP_DEFLATED, compresslevel=_ZIP_LEVEL
            )
        archive.comment = f"rlreport {__version__}".encode()


FORM = Form(
    id="folder",
    words="folder",
    write=write_folder,
    encode=encode_page,
    folder=True,
    pages=True,
    default_size=100_000_000,
)
ZIP = Form(
    id="zip",
    words="zipped folder",
    write=write_zip,
    encode=encode_zipped_page,
    suffix=".zip",
    pages=True,
    default_size=100_000_000,
)
