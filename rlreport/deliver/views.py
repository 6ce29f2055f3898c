"""Packs the pages of the one-file form: each an inert node that the browser unpacks when asked."""

from __future__ import annotations

import base64
import gzip

from markupsafe import Markup

from rlreport.bake.pages import Page

_NODE = Markup(
    '<script type="application/octet-stream" class="view" data-view="{}" data-title="{}">'
    "{}</script>\n"
)


def pack(content: str) -> str:
    """Base64 of gzip of a text: the same text gives the same characters, none of them markup."""
    packed = gzip.compress(content.encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def view_node(page: Page) -> Markup:
    """A page as a node of the one file: the overview as it reads, any other packed.

    A top-level function, so that the worker that baked a page packs it too.
    """
    if not page.view:
        return Markup(page.html)
    return _NODE.format(page.view, page.title, pack(page.html))
