"""The Markdown format: a summary for a pull request, a wiki page or a job summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np

from rlreport.bake.comparison import ComparisonBuilder
from rlreport.bake.environment import environment
from rlreport.bake.overview_page import extreme_number
from rlreport.bake.report import ReportBuilder
from rlreport.bake.views import TableView
from rlreport.choose import Extreme
from rlreport.choose.detail import evenly
from rlreport.columns import STEP
from rlreport.deliver import markdown_text
from rlreport.deliver.form import Builder, Form
from rlreport.deliver.ownership import pictures_of
from rlreport.deliver.summary import Picture, overview, pictures, trend
from rlreport.rollout import Rollout
from rlreport.text.language import Language
from rlreport.text.messages import message

MOST_CHARACTERS = 60_000
"""Limit for a GitHub comment (65,536 characters) with room for text around it."""

_UNSAFE = re.compile(r"[^\w.~-]")
"""Characters to escape in the URL of a picture."""

MOST_PICTURES = 6
PICTURE_WIDTH = 720

_FIRST_FIGURES = ("reward_mean", "kl_k1_mean", "response_tokens_mean", "response_chars_mean")
"""Key figures shown first; the other ones are folded."""

_DRAWN = ("reward_mean", "kl_k1_mean")
"""Figures drawn as Mermaid charts, as a comment has no pictures."""

LEAST_DRAWN, STEPS_DRAWN, MOST_DRAWN = 3, 24, 1e9
"""Fewest steps of a Mermaid chart, most steps, and largest value."""

_STEP_COLUMNS = (
    *("step", "responses", "reward_mean", "ref_reward_mean", "win_rate", "kl_k1_mean"),
    *("response_tokens_mean", "response_chars_mean", "surprisal_mean", "eos_rate", "distinct_2"),
)


@dataclass(frozen=True, slots=True)
class _Detail:
    """Level of detail: rows of steps, extreme responses and their characters, explanations."""

    steps: int
    extremes: int
    chars: int
    reasons: bool


_DETAILS = (
    _Detail(40, 12, 2_000, True),
    _Detail(30, 12, 1_000, True),
    _Detail(20, 12, 400, True),
    _Detail(20, 8, 200, True),
    _Detail(12, 4, 120, True),
    _Detail(12, 0, 0, False),
    _Detail(0, 0, 0, False),
)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Level of detail of a comparison: pairs as one line, pairs in full, characters."""

    telling: int
    pairs: int
    chars: int


_PAIRS = (_Pairs(2, 8, 1_500), _Pairs(2, 4, 800), _Pairs(2, 2, 300), _Pairs(2, 0, 0))


class Markdown(Form):
    """A Markdown file with its charts in a folder next to it."""

    id = "markdown"
    suffix = ".md"
    mark = b"<!-- rlreport "
    pictures = True

    def owns(self, start: bytes, end: bytes) -> bool:
        """Return whether a file begins with the mark; elsewhere it may be quoted."""
        return start.startswith(self.mark)

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        limit = builder.context.report.max_size or self.default_size
        folder = pictures_of(place)
        address = _UNSAFE.sub(lambda found: quote(found[0]), folder.name)
        drawn = pictures(builder, MOST_PICTURES, width=PICTURE_WIDTH)
        while True:
            room = limit - sum(len(picture.png) for picture in drawn)
            text = summary_text(builder, drawn, address, most_bytes=room)
            if not drawn or len(text.encode()) <= room:
                break
            drawn = drawn[:-1]
        place.write_bytes(text.encode())
        if drawn:
            folder.mkdir()
        for picture in drawn:
            (folder / f"{picture.name}.png").write_bytes(picture.png)


def summary_text(
    builder: Builder,
    drawn: Sequence[Picture] = (),
    folder: str = "",
    *,
    most_bytes: int = 4 * MOST_CHARACTERS,
) -> str:
    """Return the report or comparison as Markdown, with as much detail as fits.

    Args:
        builder: the report or comparison.
        drawn: pictures to show.
        folder: URL of their folder.
        most_bytes: maximum bytes of UTF-8; the lowest level of detail may exceed it.

    Returns:
        Fewer than MOST_CHARACTERS characters (counted as UTF-16 units, as GitHub does).
    """
    texts = (
        _of_comparison(builder, drawn, folder)
        if isinstance(builder, ComparisonBuilder)
        else _of_run(builder, drawn, folder)
    )
    for text in texts:
        units = len(text.encode("utf-16-le")) // 2
        if units < MOST_CHARACTERS and len(text.encode()) <= most_bytes:
            break
    return text


def _of_run(builder: ReportBuilder, drawn: Sequence[Picture], folder: str) -> Iterator[str]:
    """Yield the text of a report with less and less detail."""
    view = overview(builder)
    for detail in _DETAILS:
        yield _render(builder, view, detail, drawn, folder)


def _of_comparison(
    builder: ComparisonBuilder, drawn: Sequence[Picture], folder: str
) -> Iterator[str]:
    """Yield the text of a comparison with less and less detail."""
    template = _environment(builder.context.report.language).get_template("compare.md")
    view = builder.view
    for detail in _PAIRS:
        yield template.render(
            stamp=builder.context.stamp,
            run=builder.context.run,
            view=view,
            pictures=drawn,
            folder=folder,
            detail=detail,
        )


def _render(
    builder: ReportBuilder,
    view: dict[str, Any],
    detail: _Detail,
    drawn: Sequence[Picture],
    folder: str,
) -> str:
    context = builder.context
    text: str = (
        _environment(context.report.language)
        .get_template("markdown.md")
        .render(
            stamp=context.stamp,
            run=context.run,
            view=view,
            trends={
                figure.key: trend(context.steps[figure.key].to_numpy(np.float64))
                for figure in view["figures"]
            },
            figures=[figure for figure in view["figures"] if figure.key in _FIRST_FIGURES],
            more_figures=[figure for figure in view["figures"] if figure.key not in _FIRST_FIGURES],
            steps=_steps(view["steps"], detail.steps),
            extremes=context.report.language.of(
                _extremes(builder.texts.extremes[: detail.extremes])
            ),
            lines=list(filter(None, (_line(builder, name) for name in _DRAWN))),
            pictures=drawn,
            folder=folder,
            detail=detail,
        )
    )
    return text


def _line(builder: ReportBuilder, name: str) -> str:
    """Return a figure of the steps as a Mermaid chart, "" if it has too few values."""
    steps, column = builder.context.steps, STEP[name]
    known = steps[steps[name].abs() < MOST_DRAWN]
    if len(known) < LEAST_DRAWN:
        return ""
    kept = known.iloc[evenly(len(known), STEPS_DRAWN)]
    say = builder.context.report.language.of
    return markdown_text.line_chart(
        say(column.title), say(message("step")), kept["step"].tolist(), kept[name].tolist()
    )


def _extremes(
    extremes: Sequence[tuple[Extreme, Rollout]],
) -> list[tuple[list[str], Rollout]]:
    """Return each extreme response once, with the names and values of its extremes."""
    once: dict[tuple[int, int], tuple[list[str], Rollout]] = {}
    for extreme, rollout in extremes:
        which, _ = once.setdefault((rollout.step, rollout.n), ([], rollout))
        which.append(
            message("{name}: {value}", name=extreme.label, value=extreme_number(extreme).text)
        )
    return list(once.values())


def _steps(table: TableView, room: int) -> TableView:
    """Return the table of steps with few columns and evenly chosen rows."""
    places = [i for i, column in enumerate(table.columns) if column.key in _STEP_COLUMNS]
    rows = [table.rows[k] for k in evenly(len(table.rows), room).tolist()]
    return replace(
        table,
        columns=[table.columns[i] for i in places],
        rows=[replace(row, cells=[row.cells[i] for i in places]) for row in rows],
    )


@lru_cache(maxsize=8)
def _environment(language: Language) -> jinja2.Environment:
    """Return the Jinja environment with filters that escape Markdown."""
    made = environment(language).overlay()
    made.filters = {
        **made.filters,
        "text": markdown_text.text,
        "number": markdown_text.number,
        "code": markdown_text.code,
        "code_cell": markdown_text.code_cell,
        "fenced": markdown_text.fenced,
    }
    return made


FORM = Markdown()
