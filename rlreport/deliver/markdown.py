"""The Markdown format: a summary for a pull request, a wiki page or a job summary.

Text is escaped for GitHub and GitLab, so that model output cannot become markup, a link or a
mention. Both turn ``@name``, ``#12``, ``!12`` and similar text into references, and bare URLs into
links. Mail uses some of its parts.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

import jinja2
import numpy as np
from markupsafe import Markup

from rlreport.check.finding import Course
from rlreport.choose import Extreme, evenly
from rlreport.columns import Column
from rlreport.deliver import FORMS, Builder
from rlreport.deliver.publish import pictures_of
from rlreport.draw.chart import Chart, PageSlot
from rlreport.draw.svg import png
from rlreport.errors import OutputError, UsageError
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.pages.notes import render_notes
from rlreport.pages.overview import extreme_number, overview_view, run_courses
from rlreport.pages.report import ReportBuilder
from rlreport.pages.templates import Addresses, environment
from rlreport.pages.views import TableView, listed_prompt
from rlreport.read.rollouts import Rollout
from rlreport.text.clean import printable, shortened
from rlreport.text.language import Language
from rlreport.text.messages import message

_USUAL = ("kl", "length", "reward_distribution", "surprisal", "win_rate", "eos", "distinct_2")


def overview(builder: ReportBuilder) -> dict[str, Any]:
    """Return the values for the template of the overview page, translated and without links."""
    view = overview_view(builder, Addresses(), builder.charts, builder.extremes, builder.figures)
    view |= {"notes": render_notes(builder.author_notes).html}
    return builder.options.language.of(view)


def pictures(builder: Builder, most: int, *, width: int) -> list[Chart]:
    """Return the first ``most`` charts by importance, each with a PNG of ``width`` CSS pixels."""
    language = builder.options.language
    return builder.once(
        ("pictures", most, width),
        lambda: [
            replace(chart, png=png(chart, width, language.font))
            for chart in language.of(_ranked_charts(builder)[:most])
        ],
    )


def _ranked_charts(builder: Builder) -> list[Chart]:
    if not isinstance(builder, ReportBuilder):
        return list(builder.charts)
    names = {"reward", *_USUAL, *(name for f in builder.verdict.findings for name in f.charts)}
    subjects = names - {chart.name for chart in builder.charts}  # drawn from trainer metrics only
    charts = [c for c in builder.charts if c.name in names or c.subject in subjects]
    # Sorting is stable: in each place the charts keep the order of the overview.
    return sorted(charts, key=lambda chart: get_args(PageSlot).index(chart.place))


# Maximum length; a GitHub comment may have 65,536 characters, which leaves room for more text
MOST_CHARACTERS = 60_000

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_PICTURES = 6
MANIFEST_BYTES = 200  # Maximum size in bytes of a picture's entry in the manifest
MOST_NOTES = 20_000  # characters of the author's notes as HTML
PICTURE_WIDTH = 720

# Key figures that are always visible; the others are in a folded section
_FIRST_FIGURES = ("reward_mean", "kl_k1_mean", "response_tokens_mean", "response_chars_mean")

# Figures drawn as Mermaid charts: comments show these without image files
_LINES = ("reward_mean", "kl_k1_mean")

# Minimum and maximum number of steps in a Mermaid chart, and the largest value drawn
LEAST_DRAWN = 3
STEPS_DRAWN = 24
MOST_DRAWN = 1e9

_STEP_COLUMNS = (
    "step",
    "responses",
    "reward_mean",
    "ref_reward_mean",
    "win_rate",
    "kl_k1_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "distinct_2",
)

_ZERO_WIDTH_SPACE = "\u200b"
_REFERENCE = re.compile(r'([@#!$%&~^]|\bGH-)(?=[\w"])', re.IGNORECASE)
_ADDRESS = re.compile(r"(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_\[\]{}|~$])")


class _Detail(NamedTuple):
    """Maximum numbers of examples (responses or prompts), characters of a text, and steps."""

    examples: int
    chars: int
    steps: int = 0


_DETAILS = (
    _Detail(12, 2_000, 40),
    _Detail(12, 1_000, 30),
    _Detail(12, 400, 20),
    _Detail(8, 200, 20),
    _Detail(4, 120, 12),
    _Detail(0, 0, 12),
    _Detail(0, 0, 0),
)
_COMPARISON_DETAILS = (_Detail(8, 1_500), _Detail(4, 800), _Detail(2, 300), _Detail(0, 0))


def write_markdown(builder: Builder, path: Path) -> None:
    """Write a Markdown file and a folder with its charts next to it, within the size limit."""
    limit = builder.options.max_size or FORMS["markdown"].default_size
    folder = pictures_of(path)
    charts = pictures(builder, MOST_PICTURES, width=PICTURE_WIDTH)
    while True:
        room = limit - sum(len(picture.png) + MANIFEST_BYTES for picture in charts)
        content = summary_text(builder, charts, folder.name, most_bytes=room).encode()
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


def append_summary(builder: Builder, file: Path) -> None:
    """Append a report without pictures to the job summary."""
    content = summary_text(builder).encode()
    try:
        with file.open("ab") as stream:
            stream.write(b"\n" + content)
    except OSError as error:
        raise OutputError(f"{SUMMARY_VARIABLE}: cannot be written: {error.strerror}") from error


def summary_text(
    builder: Builder,
    drawn: Sequence[Chart] = (),
    folder: str = "",
    *,
    most_bytes: int = 4 * MOST_CHARACTERS,
) -> str:
    shared = {
        "run": builder.run,
        "pictures": drawn,
        "folder": re.sub(r"[^\w.~-]", lambda match: quote(os.fsencode(match[0])), folder),
    }
    texts = (
        _run_texts(builder, shared)
        if isinstance(builder, ReportBuilder)
        else _comparison_texts(builder, shared)
    )
    for markdown in texts:
        units = len(markdown.encode("utf-16-le")) // 2
        if units < MOST_CHARACTERS and len(markdown.encode()) <= most_bytes:
            break
    return markdown


def _comparison_texts(builder: ComparisonBuilder, shared: dict[str, Any]) -> Iterator[str]:
    template = _environment(builder.options.language).get_template("compare.md")
    for detail in _COMPARISON_DETAILS:
        yield template.render(view=builder.view, detail=detail, **shared)


def _run_texts(builder: ReportBuilder, shared: dict[str, Any]) -> Iterator[str]:
    view = overview(builder)
    language = builder.options.language
    figures = view["figures"]
    template = _environment(language).get_template("markdown.md")
    notes = render_notes(builder.author_notes, most=MOST_NOTES, words=_without_references)
    shared |= {
        "view": view,
        # In Markdown an empty line, which code may contain, would end the HTML block.
        "notes": Markup(re.sub(r"\n(?=[ \t]*\n)", "&#10;", notes.html.strip())),
        "notes_cut": notes.cut,
        "figures": [figure for figure in figures if figure.key in _FIRST_FIGURES],
        "more_figures": [figure for figure in figures if figure.key not in _FIRST_FIGURES],
        "lines": [
            _line_chart(column, course, language.of)
            for column, course in run_courses(builder)
            if column.name in _LINES and len(course.steps) >= LEAST_DRAWN
        ],
    }
    for detail in _DETAILS:
        yield template.render(
            steps=_short_table(view["steps"], detail.steps),
            extremes=language.of(_extremes(builder.extremes[: detail.examples], builder.prefixes)),
            detail=detail,
            **shared,
        )


def _line_chart(column: Column, course: Course, translate: Callable[[str], str]) -> Markup:
    drawn = np.flatnonzero(abs(course.values) < MOST_DRAWN)
    drawn = drawn[evenly(len(drawn), STEPS_DRAWN)]
    ticks = ", ".join(f'"{step}"' for step in course.steps[drawn])
    # Mermaid does not accept exponents.
    numbers = (f"{float(f'{x:.4g}'):f}" for x in course.values[drawn])
    values = ", ".join(number.rstrip("0").rstrip(".") for number in numbers)
    title = translate(column.title)
    axis = translate(message("step"))
    return Markup(
        f'```mermaid\nxychart-beta\n  title "{title}"\n  x-axis "{axis}" [{ticks}]\n'
        f"  line [{values}]\n```"
    )


def _extremes(
    extremes: Sequence[tuple[Extreme, Rollout]], prefixes: Sequence[str]
) -> list[tuple[list[str], Rollout]]:
    by_response: dict[tuple[int, int], tuple[list[str], Rollout]] = {}
    for extreme, rollout in extremes:
        prompt = listed_prompt(rollout, prefixes)
        listed = replace(rollout, prompt=prompt.brief) if prompt.shared else rollout
        labels, _ = by_response.setdefault((rollout.step, rollout.n), ([], listed))
        labels.append(
            message("{name}: {value}", name=extreme.label, value=extreme_number(extreme).text)
        )
    return list(by_response.values())


def _short_table(table: TableView, most: int) -> TableView:
    indices = [i for i, column in enumerate(table.columns) if column.key in _STEP_COLUMNS]
    rows = [table.rows[k] for k in evenly(len(table.rows), most).tolist()]
    return replace(
        table,
        columns=[table.columns[i] for i in indices],
        rows=[replace(row, cells=[row.cells[i] for i in indices]) for row in rows],
    )


@lru_cache(maxsize=8)
def _environment(language: Language) -> jinja2.Environment:
    overlay = environment(language).overlay()
    escapes = (text, number, code, code_cell, fenced)
    overlay.filters = {**overlay.filters, **{escape.__name__: escape for escape in escapes}}
    return overlay


def text(value: str, longest: int = 400) -> Markup:
    """Return text as one escaped line of at most ``longest`` characters before escaping."""
    line = _without_references(shortened(_printable(" ".join(value.split())), longest))
    return Markup(_MARKUP.sub(r"\\\1", html.escape(line, quote=False)))


def number(value: str) -> Markup:
    return Markup(text(value).replace(" ", "\N{NO-BREAK SPACE}"))


def code(value: str, longest: int = 80) -> Markup:
    """Return model output, cut, as a code span with visible line ends and tabs."""
    line = _printable(value).replace("\n", "↵").replace("\t", "⇥")
    line = _without_references(shortened(line, longest))
    fence = _fence(line, 1)
    # Markdown strips one space at each end of a code span, except if it has only spaces.
    return Markup(f"{fence} {line} {fence}") if line.strip() else Markup("` ␣ `")


def code_cell(value: str, longest: int = 80) -> Markup:
    """Return a code span for a table cell, with ``|`` escaped, as it would end the cell."""
    return Markup(code(value, longest).replace("|", "\\|"))


def fenced(value: str, longest: int) -> Markup:
    """Return model output, cut, as a code block; its fence is longer than any backticks in it."""
    block = _printable(value)
    if (characters_left := len(block) - longest) > 0:
        block = f"{block[:longest]}… ({characters_left:,} characters more)"
    fence = _fence(block, 3)
    return Markup(f"{fence}text\n{block}\n{fence}")


def _fence(value: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", value)), default=0)
    return "`" * max(least, longest + 1)


def _printable(value: str) -> str:
    return printable(value.replace("\r\n", "\n").replace("\r", "\n"))


def _without_references(line: str) -> str:
    line = _REFERENCE.sub(rf"\1{_ZERO_WIDTH_SPACE}", line)
    return _ADDRESS.sub(lambda match: match[0] + _ZERO_WIDTH_SPACE, line)
