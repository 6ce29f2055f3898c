"""The one-file format: a whole report in a single HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup

from rlreport.bake.assets import assets
from rlreport.bake.pages import Page, environment, packed
from rlreport.bake.views import Shell
from rlreport.deliver import Builder
from rlreport.draw.bundle import vega_bundle
from rlreport.text.language import Language

_NODE = Markup(
    '<script type="application/octet-stream" class="view" data-view="{}" data-title="{}">'
    "{}</script>\n"
)


def encode_view(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path, HTML element) of a page, and the element's size in bytes."""
    node = view_node(page).encode("utf-8", "replace")
    return (page.path, node), len(node)


def write_file(builder: Builder, path: Path) -> None:
    """Write one HTML file; pages other than the overview, and Vega, are embedded compressed."""
    with path.open("wb") as file:
        file.writelines(document(builder))


def view_node(page: Page) -> Markup:
    """Return the HTML element for a page: the overview as plain HTML, other pages compressed."""
    if not page.view:
        return Markup(page.html)
    content = packed(page.html.encode("utf-8", "replace"))
    return _NODE.format(page.view, page.title, content)


def document(builder: Builder, *, charts: bool = True) -> Iterator[bytes]:
    """Yield the HTML file of a report in parts; ``charts`` includes Vega for interactive charts."""
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
    """Yield the HTML file in parts, from the pages given as HTML elements.

    Args:
        frame: title, navigation and assets of the overview page.
        views: the pages as HTML elements from ``view_node``, the overview first.
        nodes: further embedded data: (media type, class, content) of ``script`` elements.
        language: language of the interface.
        charts: include Vega, which draws interactive charts on demand.
    """
    shared = assets(language)
    csp = _policy(shared.style, shared.one_file, shared.vega)
    parts = (
        environment(language)
        .get_template("one_file.html")
        .generate(
            shell=replace(frame, csp=csp),
            style=_inline(shared.style),
            script=_inline(shared.one_file),
            overview=Markup(next(views).decode()),
            vega=_packed_vega() if charts else "",
            nodes=nodes,
            views=(Markup(view.decode()) for view in views),
        )
    )
    for part in parts:
        yield part.encode("utf-8", "replace")


@lru_cache(maxsize=1)
def _packed_vega() -> str:
    return packed(vega_bundle().encode(), level=6)


def _policy(style: str, *scripts: str) -> str:
    """Return a Content-Security-Policy that allows only these scripts and no requests."""
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src "
        f"{_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inline(text: str) -> Markup:
    """Return a style sheet or script as the content of a ``style`` or ``script`` element.

    Raises:
        ValueError: the text could end its element, or the HTML parser would change it, so that its
            hash in the policy fails.
    """
    for forbidden in ("</script", "<!--", "</style", "\r"):
        if forbidden in text.lower():
            raise ValueError(f"an inline asset holds {forbidden!r}")
    return Markup(text)
