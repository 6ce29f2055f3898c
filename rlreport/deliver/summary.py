"""Parts shared by short forms of a report (mail, Markdown), and the HTML of a notebook cell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.notes import render_notes
from rlreport.bake.overview_page import overview_view
from rlreport.bake.pages import Addresses, environment
from rlreport.bake.report import ReportBuilder
from rlreport.bake.views import KeyFigure
from rlreport.deliver import Builder
from rlreport.draw.chart import Chart, Place
from rlreport.draw.svg import png
from rlreport.text.language import Language

# Maximum size in bytes of a report embedded in a notebook; larger ones are only linked
MOST_EMBEDDED = 5_000_000

_USUAL = ("kl", "length", "reward_distribution", "surprisal", "win_rate", "eos", "distinct_2")
_BARS = "▁▂▃▄▅▆▇█"
_TREND_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as a PNG image; ``name`` is its file name without suffix."""

    name: str
    title: str
    description: str
    png: bytes


def overview(builder: ReportBuilder) -> dict[str, Any]:
    """Return the values for the template of the overview page, translated and without links."""
    view = overview_view(builder, Addresses(), builder.charts, builder.texts.extremes)
    view |= {"notes": render_notes(builder.author_notes).html}
    return builder.options.language.of(view)


def pictures(builder: Builder, most: int, *, width: int) -> list[Picture]:
    """Draw the most important charts: of the verdict, the reward, other findings, common ones.

    Args:
        builder: the report; or a comparison, whose charts are drawn in their order.
        most: maximum number of pictures.
        width: displayed width in pixels.
    """
    language = builder.options.language
    return builder.once(
        ("pictures", most, width),
        lambda: [
            Picture(chart.name, chart.title, chart.description, png(chart, width, language.font))
            for chart in language.of(_ranked_charts(builder)[:most])
        ],
    )


def trend(values: NDArray[np.float64]) -> str:
    """Return a sparkline of up to 20 block characters, with a dot where values are missing."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0)
    if largest > 0:
        # Without this, sums and differences of very large rewards could overflow.
        values = values / largest
    parts = np.array_split(values, min(_TREND_COLUMNS, len(values)))
    finite_parts = [part[np.isfinite(part)] for part in parts]
    means = [float(part.mean()) if len(part) else None for part in finite_parts]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join("·" if mean is None else _BARS[round((mean - low) * scale)] for mean in means)


def _ranked_charts(builder: Builder) -> list[Chart]:
    if not isinstance(builder, ReportBuilder):
        return list(builder.charts)
    names = {"reward", *_USUAL, *(name for f in builder.verdict.findings for name in f.charts)}
    subjects = names - {chart.name for chart in builder.charts}  # drawn from trainer metrics only
    charts = [c for c in builder.charts if c.name in names or c.subject in subjects]
    # Sorting is stable: in each place the charts keep the order of the overview.
    return sorted(charts, key=lambda chart: get_args(Place).index(chart.place))


def notebook_html(
    out: Path | str,
    form: str,
    level: str,
    sentence: str,
    figures: Sequence[KeyFigure],
    language: Language,
) -> str:
    """Return verdict, key figures and the one-file report as HTML for a notebook cell.

    The report is in a sandboxed frame, so its scripts can access neither the notebook nor the
    network. Notebooks that are not trusted show everything except the frame.
    """
    name = href = str(out)
    document = ""
    if isinstance(out, Path):
        if form == "html" and out.is_file() and out.stat().st_size <= MOST_EMBEDDED:
            # Without a base, links to fragments would lead to the notebook.
            base = '<head><base href="about:srcdoc">'
            document = out.read_text("utf-8", "replace").replace("<head>", base, 1)
        page = out / "index.html" if out.is_dir() else out
        name, href = page.as_posix(), _address(page)
    template = environment(language).get_template("notebook.html")
    return template.render(
        level=level,
        sentence=language.of(sentence),
        figures=language.of(list(figures)),
        name=name,
        href=href,
        document=document,
    )


def _address(page: Path) -> str:
    """Return the URL of a file relative to the current folder, where the notebook is."""
    try:
        return "./" + quote(Path(os.path.relpath(page)).as_posix())
    except ValueError:  # another drive
        return page.resolve().as_uri()
