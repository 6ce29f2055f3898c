"""What a notebook shows of a report: its verdict, its key figures, and the one file."""

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
"""Bytes of the one file that a notebook takes in; a larger one is linked alone."""


def notebook_html(
    out: Path | str,
    form: str,
    level: str,
    sentence: str,
    figures: Sequence[KeyFigure],
    language: Language,
) -> str:
    """Return markup for the output of a cell, without a script of its own.

    The one file stands in a frame whose sandbox gives it an origin of its own: its scripts run
    there, and reach neither the notebook nor the network. A notebook that is not trusted drops
    the frame and keeps the rest.

    Args:
        out: where the report is: a path or a URL.
        form: id of its form.
        level: of the verdict.
        sentence: of the verdict.
        figures: key figures of the run.
        language: of the report.
    """
    document = ""
    if isinstance(out, str):
        return _markup(level, sentence, figures, language, out, out)
    if form == ONE_FILE.id and out.is_file() and out.stat().st_size <= MOST_EMBEDDED:
        # Links that are fragments would otherwise lead to the notebook's own address.
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
    """Return the address of a file as seen from the current folder, which a notebook's is."""
    try:
        seen = Path(os.path.relpath(page))
    except ValueError:  # another drive
        return page.resolve().as_uri()
    return "./" + quote(seen.as_posix())
