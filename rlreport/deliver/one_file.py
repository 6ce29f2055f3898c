"""A report as one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport.deliver.form import Deliverable, Form
from rlreport.text.language import Language

if TYPE_CHECKING:
    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.html import Node
    from rlreport.pages.page import RenderedPage
    from rlreport.pages.table import Shell


def encode_view(page: RenderedPage) -> EncodedPage:
    """Encode a page as part of one file: the overview as HTML, others as gzip in a <script>.

    Scripts show these when the reader opens them; without scripts there is the overview.
    """
    from markupsafe import Markup

    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.html import gzip_base64

    content = page.html.encode("utf-8", "replace")
    if page.view:  # "" for the overview
        node = Markup(
            '<script type="application/octet-stream" class="view" data-view="{}" data-title="{}">'
            "{}</script>\n"
        )
        html = node.format(page.view, page.title, gzip_base64(content))
        if page.tokens:  # not within the view: other pages read them, too
            tokens = Markup(
                '<script type="application/octet-stream" class="tokens-data" data-step="{}">{}'
                "</script>\n"
            )
            html += tokens.format(page.step, page.tokens)
        content = html.encode("utf-8", "replace")
    return EncodedPage(page.path, content, len(content))


def write_file(report: Deliverable, path: Path) -> None:
    """Write one HTML file; pages other than the overview, and Vega, are embedded compressed."""
    with path.open("wb") as file:
        file.writelines(document(report))


def document(report: Deliverable, *, charts: bool = True) -> Iterator[bytes]:
    """Yield the parts of a report's HTML file; ``charts``: with Vega for interactive charts."""
    return assemble(
        report.frame(),
        (page.content for page in report.pages()),
        report.nodes(),
        language=report.options.language,
        charts=charts,
    )


def assemble(
    frame: Shell,
    views: Iterator[bytes],
    nodes: Iterable[Node] = (),
    *,
    language: Language,
    charts: bool = True,
) -> Iterator[bytes]:
    """Yield the parts of an HTML file.

    Args:
        frame: title and navigation.
        views: pages from ``encode_view``, the overview first.
        nodes: data elements.
        language: language of the report.
        charts: whether Vega is included, for interactive charts.
    """
    from markupsafe import Markup

    from rlreport.draw.bundle import vega_bundle
    from rlreport.pages.html import environment, gzip_base64
    from rlreport.pages.scripts import assets

    shared = assets(language)
    # Scripts unpack Vega into a script element, whose text the policy must allow, too.
    csp = _policy(shared.style, shared.one_file, shared.vega)
    template = environment(language).get_template("one_file.html")
    parts = template.generate(
        shell=replace(frame, csp=csp),
        style=Markup(shared.style),
        script=Markup(shared.one_file),
        # It is taken first; ``views`` below yields the others.
        overview=Markup(next(views).decode()),
        vega=gzip_base64(vega_bundle().encode(), level=6) if charts else "",
        nodes=nodes,
        views=(Markup(view.decode()) for view in views),
    )
    for part in parts:
        yield part.encode("utf-8", "replace")


def _policy(style: str, *scripts: str) -> str:
    """Return a Content-Security-Policy that allows only these texts as style and scripts."""
    allowed_scripts = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {allowed_scripts}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    import hashlib

    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


FORM = Form(
    id="html",
    words="one file",
    write=write_file,
    encode=encode_view,
    suffix=".html",
    one_file=True,
    pages=True,
)
