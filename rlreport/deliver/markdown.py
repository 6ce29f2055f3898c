"""The Markdown format: a summary for a pull request, a wiki page or a job summary.

Text is escaped for GitHub and GitLab, so that model output cannot become markup, a link or a
mention. Both turn ``@name``, ``#12``, ``!12`` and similar text into references, and bare URLs into
links. Mail uses some of its parts.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup

from rlreport.deliver.folder import encode_page
from rlreport.deliver.form import Deliverable, Form
from rlreport.errors import OutputError, UsageError
from rlreport.system.own_output import pictures_of
from rlreport.text.clean import printable, shortened
from rlreport.text.language import Language
from rlreport.text.messages import clause

if TYPE_CHECKING:
    import jinja2

    from rlreport.draw.chart import Chart
    from rlreport.pages.author_notes import Notes
    from rlreport.pages.quotes import Quotes
    from rlreport.pages.summary import Line

# Maximum length; a GitHub comment may have 65,536 characters, which leaves room for more text
MOST_CHARACTERS = 60_000

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_PICTURES = 6  # Maximum number of charts with a picture
MANIFEST_BYTES = 200  # Maximum size in bytes of a picture's entry in the manifest
MOST_NOTES = 20_000  # characters of the author's notes as HTML
PICTURE_WIDTH = 720  # in CSS pixels

# Maximum number of steps in a Mermaid chart, and the largest value drawn
STEPS_DRAWN = 24
MOST_DRAWN = 1e9

_ZERO_WIDTH_SPACE = "\u200b"
# A mark that makes what follows it a reference, such as ``@`` in ``@name``
_REFERENCE = re.compile(r'([@#!$%&~^]|\bGH-)(?=[\w"])', re.IGNORECASE)
# The place after which a bare URL is broken: the colon of ``https://``, or ``www``
_ADDRESS = re.compile(r"(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
# Characters that are markup in Markdown
_MARKUP = re.compile(r"([\\`*_\[\]{}|~$])")


def pictures(report: Deliverable, most: int, *, width: int) -> list[Chart]:
    """Return the first ``most`` charts by importance, each with a PNG of ``width`` CSS pixels."""
    from rlreport.draw.svg import png

    language = report.options.language

    def drawn() -> list[Chart]:
        charts = language.of(report.summary().charts(width)[:most])
        return [
            chart if chart.png else replace(chart, png=png(chart, width, language.font))
            for chart in charts
        ]

    # A report may be written several times, with less and less detail.
    return report.once(("pictures", most, width), drawn)


def write_markdown(report: Deliverable, path: Path) -> None:
    """Write a Markdown file and a folder with its charts next to it, within the size limit."""
    limit = report.options.max_size or FORM.default_size
    folder = pictures_of(path)
    charts = pictures(report, MOST_PICTURES, width=PICTURE_WIDTH)
    # ``summary_text`` shortens the text until it fits. If even the shortest text does not, leave
    # out the last picture and try again.
    while True:
        room = limit - sum(len(picture.png) + MANIFEST_BYTES for picture in charts)
        content = summary_text(report, charts, folder.name, most_bytes=room).encode()
        if not charts or len(content) <= room:
            break
        charts = charts[:-1]
    path.write_bytes(content)
    if charts:
        folder.mkdir()
    for picture in charts:
        (folder / f"{picture.name}.png").write_bytes(picture.png)


def summary_file() -> Path:
    name = os.environ.get(SUMMARY_VARIABLE)
    if not name:
        raise UsageError(
            f"--github-summary: {SUMMARY_VARIABLE} is not set; the option needs GitHub Actions"
        )
    return Path(name)


def append_summary(report: Deliverable, file: Path) -> None:
    """Append a report without pictures to the job summary."""
    content = summary_text(report).encode()
    try:
        with file.open("ab") as stream:
            stream.write(b"\n" + content)
    except OSError as error:
        raise OutputError(
            f"{SUMMARY_VARIABLE}: cannot be written: {error.strerror}"
        ) from error


def summary_text(
    report: Deliverable,
    drawn: Sequence[Chart] = (),
    folder: str = "",
    *,
    most_bytes: int = 4 * MOST_CHARACTERS,
) -> str:
    """Return the most detailed Markdown that fits, or else the least detailed.

    Args:
        report: the report of a run, or a comparison.
        drawn: charts whose pictures are in ``folder``.
        folder: name of the folder with the pictures.
        most_bytes: most bytes in UTF-8.
    """
    summary = report.summary()
    template = _environment(report.options.language).get_template(
        summary.markdown_template
    )
    for detail in summary.details:  # the most detailed first
        markdown = template.render(
            view=summary.view,
            run=report.title,
            pictures=drawn,
            folder=_address(folder),
            detail=detail,
            **summary.markdown_values(detail),
        )
        units = len(markdown.encode("utf-16-le")) // 2  # as GitHub counts characters
        if units < MOST_CHARACTERS and len(markdown.encode()) <= most_bytes:
            break
    return markdown  # if none fits, the least detailed


def _address(folder: str) -> str:
    """Return a folder's name as part of an address in Markdown, percent-encoded."""

    def quoted(match: re.Match[str]) -> str:
        return quote(os.fsencode(match[0]))

    return re.sub(r"[^\w.~-]", quoted, folder)


def notes_html(author_notes: str, quotes: Quotes, language: Language) -> Notes:
    """Return the author's notes as HTML that Markdown leaves as it is, cut if they are long.

    A template shows whether they are cut, see ``Notes``.
    """
    from rlreport.pages.author_notes import render_notes

    notes = render_notes(
        author_notes,
        most=MOST_NOTES,
        words=_without_references,
        quotes=quotes,
        language=language,
    )
    # In Markdown an empty line, which code may contain, would end the HTML block.
    block = re.sub(r"\n(?=[ \t]*\n)", "&#10;", notes.html.strip())
    return notes._replace(html=Markup(block))


def mermaid(line: Line) -> Markup:
    """Return a figure over the steps as a Mermaid chart, which comments show without image files.

    It shows up to STEPS_DRAWN values.
    """
    import numpy as np

    from rlreport.draw.chart import evenly

    course = line.course
    # Neither missing values, for which the comparison is false, nor very large ones
    drawable = np.flatnonzero(abs(course.values) < MOST_DRAWN)
    drawn = drawable[evenly(len(drawable), STEPS_DRAWN)]
    ticks = ", ".join(f'"{step}"' for step in course.steps[drawn])
    values = ", ".join(map(_decimal, course.values[drawn]))
    return Markup(
        f'```mermaid\nxychart-beta\n  title "{line.title}"\n  x-axis "{line.axis}" [{ticks}]\n'
        f"  line [{values}]\n```"
    )


def _decimal(value: float) -> str:
    """Return a number to 4 significant digits; Mermaid does not accept exponents."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:f}".rstrip("0").rstrip(".")


@lru_cache(maxsize=8)
def _environment(language: Language) -> jinja2.Environment:
    """Return the Jinja environment whose filters are functions by their names."""
    from rlreport.pages.html import environment

    # A copy: templates of HTML keep their own filters.
    overlay = environment(language).overlay()
    filters = (
        text,
        html_text,
        text_with_code,
        number,
        code,
        clause,
        code_cell,
        fenced,
        mermaid,
        notes_html,
    )
    overlay.filters = {
        **overlay.filters,
        **{function.__name__: function for function in filters},
    }
    return overlay


def text(value: str, longest: int = 400) -> Markup:
    """Return text as one escaped line of at most ``longest`` characters before escaping."""
    line = shortened(_printable(" ".join(value.split())), longest)
    line = _without_references(line)
    return Markup(_MARKUP.sub(r"\\\1", html.escape(line, quote=False)))


def html_text(value: str, longest: int = 400) -> Markup:
    """Return text as ``text`` does, for an element of HTML, in which Markdown is not read."""
    line = shortened(_printable(" ".join(value.split())), longest)
    return Markup(html.escape(_without_references(line), quote=False))


def text_with_code(value: str, longest: int = 400) -> Markup:
    """Return text as ``text`` does, with names of settings in backticks as code spans."""
    parts = shortened(" ".join(value.split()), longest).split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner
        return text(value, longest)
    spans = []
    for index, part in enumerate(parts):
        inner = code(part) if index % 2 and part else text(part)
        before = " " if part.startswith(" ") and not index % 2 else ""
        after = " " if part.endswith(" ") and not index % 2 else ""
        spans.append(f"{before}{inner}{after}")
    return Markup("".join(spans))


def number(value: str) -> Markup:
    return Markup(text(value).replace(" ", "\N{NO-BREAK SPACE}"))


def code(value: str, longest: int = 80) -> Markup:
    """Return model output, cut to ``longest``, as a code span with visible line ends and tabs."""
    line = _printable(value).replace("\n", "↵").replace("\t", "⇥")
    line = _without_references(shortened(line, longest))
    fence = _fence(line, 1)
    if not line.strip():  # a code span of spaces alone would look empty
        return Markup("` ␣ `")
    # Markdown strips one space at each end of a code span, except if it has only spaces.
    return Markup(f"{fence} {line} {fence}")


def code_cell(value: str, longest: int = 80) -> Markup:
    """Return a code span for a table cell, with ``|`` escaped, as it would end the cell."""
    return Markup(code(value, longest).replace("|", "\\|"))


def fenced(value: str, longest: int) -> Markup:
    """Return model output, cut to ``longest`` characters, as a code block of Markdown."""
    block = _printable(value)
    characters_left = len(block) - longest
    if characters_left > 0:
        block = f"{block[:longest]}… ({characters_left:,} characters more)"
    # Longer than any backticks in the block, which would end it.
    fence = _fence(block, 3)
    return Markup(f"{fence}text\n{block}\n{fence}")


def _fence(value: str, least: int) -> str:
    """Return ``least`` or more backticks, more than follow each other in the text."""
    longest = max(map(len, re.findall("`+", value)), default=0)
    return "`" * max(least, longest + 1)


def _printable(value: str) -> str:
    return printable(value.replace("\r\n", "\n").replace("\r", "\n"))


def _without_references(line: str) -> str:
    """Return a line with invisible characters that keep names and URLs from becoming links."""
    line = _REFERENCE.sub(rf"\1{_ZERO_WIDTH_SPACE}", line)
    return _ADDRESS.sub(lambda match: match[0] + _ZERO_WIDTH_SPACE, line)


FORM = Form(
    id="markdown",
    words="Markdown with a folder of pictures",
    write=write_markdown,
    encode=encode_page,
    suffix=".md",
    pictures=True,
    comparable=False,
)
