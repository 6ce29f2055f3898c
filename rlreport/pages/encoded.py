"""Pages as an output form writes them; those of steps wait for it in a temporary file."""

from __future__ import annotations

import os
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from rlreport.read.spool import cannot_write

_IN_MEMORY = 4 << 20  # bytes up to which there is no file


class EncodedPage(NamedTuple):
    """A page as an output form writes it."""

    path: str  # in a report folder, e.g. ``steps/100.html``
    content: bytes
    weight: int  # bytes that the page takes in the output, with what lies beside it
    # (path, content) of the script with its step's tokens; in one file ``content`` has them
    beside: tuple[str, bytes] | None = None

    def load(self) -> EncodedPage:
        return self


class StoredPage(NamedTuple):
    """A page whose contents are in a file, which is open."""

    page: EncodedPage  # without contents
    file: IO[bytes]
    start: int  # of the page's content in the file; that of what lies beside it follows
    size: int
    size_beside: int

    @property
    def weight(self) -> int:
        return self.page.weight

    def load(self) -> EncodedPage:
        """Return the page with its contents."""
        self.file.seek(self.start)
        page = self.page._replace(content=self.file.read(self.size))
        if page.beside is None:
            return page
        path, _ = page.beside
        return page._replace(beside=(path, self.file.read(self.size_beside)))


class PageFile:
    """An unnamed temporary file for pages, all of which together may have 100 MB.

    It is deleted with its last page.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY, prefix="rlreport-")  # noqa: SIM115 - pages keep it open

    def put(self, page: EncodedPage) -> StoredPage:
        """Write the contents of a page; OutputError if there is no room for temporary files."""
        path, beside = page.beside or ("", b"")
        try:
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(page.content)
            self._file.write(beside)
            self._file.flush()  # here, where a full disk is reported
        except OSError as error:
            raise cannot_write(error) from None
        empty = page._replace(content=b"", beside=(path, b"") if page.beside else None)
        return StoredPage(empty, self._file, start, len(page.content), len(beside))
