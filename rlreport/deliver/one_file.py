"""A report as one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from rlreport.deliver.forms import Builder
from rlreport.draw.bundle import vega_bundle
from rlreport.pages.html import environment, gzip_base64
from rlreport.pages.page import Page
from rlreport.pages.scripts import assets
from rlreport.pages.table import Shell
from rlreport.text.language import Language

_NODE = Markup(
    '<script type="application/octet-stream" class="view" data-view="{}" data-title="{}">'
    "{}</script>\n"
)


def encode_view(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path, HTML) of a page, and its size; all but the overview as gzip in a <script>."""
    node = page.html.encode("utf-8", "replace")
    if page.view:
        node = _NODE.format(page.view, page.title, gzip_base64(node)).encode(
            "utf-8", "replace"
        )
    return (page.path, node), len(node)


def write_file(builder: Builder, path: Path) -> None:
    """Write one HTML file; pages other than the overview, and Vega, are embedded compressed."""
    with path.open("wb") as file:
        file.writelines(document(builder))


def document(builder: Builder, *, charts: bool = True) -> Iterator[bytes]:
    return assemble(
        builder.frame(),
        (node for _, node in builder.pages()),
        builder.nodes(),
        language=builder.options.language,
        charts=charts,
    )


def assemble(
    frame: Shell,
    views: Iterator[bytes],
    nodes: Iterable[tuple[str, str, str]] = (),
    *,
    language: Language,
    charts: bool = True,
) -> Iterator[bytes]:
    """Yield the parts of an HTML file; ``views`` come from ``encode_view``, the overview first."""
    shared = assets(language)
    csp = _policy(shared.style, shared.one_file, shared.vega)
    parts = (
        environment(language)
        .get_template("one_file.html")
        .generate(
            shell=replace(frame, csp=csp),
            style=Markup(shared.style),
            script=Markup(shared.one_file),
            overview=Markup(next(views).decode()),
            vega=gzip_base64(vega_bundle().encode(), level=6) if charts else "",
            nodes=nodes,
            views=(Markup(view.decode()) for view in views),
        )
    )
    for part in parts:
        yield part.encode("utf-8", "replace")


def _policy(style: str, *scripts: str) -> str:
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src "
        f"{_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    )
