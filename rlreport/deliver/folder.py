"""The folder form: pages, shared assets and exported files."""

from __future__ import annotations

from pathlib import Path

from rlreport.bake.pages import Page
from rlreport.deliver.form import Builder, Form

IN_MANIFEST = 8
"""Bytes that the manifest takes for a file besides its name."""


class Folder(Form):
    """A folder of pages that open from ``file://`` and from any static host."""

    id = "folder"
    folder = True
    default_size = 100_000_000
    pages = True

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """A page as (path below the root, bytes)."""
        content = page.html.encode("utf-8", "replace")
        return (page.path, content), len(content) + len(page.path) + IN_MANIFEST

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        for path, content in builder.files():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)


FORM = Folder()
