"""A report as the output of a notebook cell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rlreport.bake.environment import environment
from rlreport.bake.views import KeyFigure
from rlreport.deliver.one_file import FORM as ONE_FILE
from rlreport.text.language import Language

MOST_EMBEDDED = 5_000_000
"""Largest one-file report that is embedded; larger ones are only linked."""


def notebook_html(
    out: Path | str,
    form: str,
    level: str,
    sentence: str,
    figures: Sequence[KeyFigure],
    language: Language,
) -> str:
    """Return verdict, key figures and the one-file report as HTML.

    The one-file report is in a sandboxed frame: its scripts reach neither the notebook nor the
    network. An untrusted notebook drops the frame and keeps the rest.

    Args:
        out: path or URL of the report.
        form: id of its format.
        level: level of the verdict.
        sentence: sentence of the verdict.
        figures: key figures of the run.
        language: language of the report.
    """
    document = ""
    if isinstance(out, str):
        return _markup(level, sentence, figures, language, out, out)
    if form == ONE_FILE.id and out.is_file() and out.stat().st_size <= MOST_EMBEDDED:
        # Without it, links to fragments would lead to the notebook.
        base = '<head><base href="about:srcdoc">'
        document = out.read_text("utf-8", "replace").replace("<head>", base, 1)
    page = out / "index.html" if out.is_dir() else out
    return _markup(level, sentence, figures, language, page.as_posix(), _address(page), document)


def _markup(
    level: str,
    sentence: str,
    figures: Sequence[KeyFigure],
    language: Language,
    name: str,
    href: str,
    document: str = "",
) -> str:
    return (
        environment(language)
        .get_template("notebook.html")
        .render(
            level=level,
            sentence=language.of(sentence),
            figures=language.of(list(figures)),
            name=name,
            href=href,
            document=document,
        )
    )


def _address(page: Path) -> str:
    """Return the URL of a file relative to the current folder, which is that of the notebook."""
    try:
        relative = Path(os.path.relpath(page))
    except ValueError:  # another drive
        return page.resolve().as_uri()
    return "./" + quote(relative.as_posix())
