"""The index of many runs: one row per report, filled from its ``report.json``."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlreport.about.card import Scalar, card_values
from rlreport.check.finding import FIRST_WORDS, GLYPHS
from rlreport.check.verdict import translatable_title
from rlreport.columns import STEP
from rlreport.comparison.reports import section, verdict_of
from rlreport.draw.chart import Chart
from rlreport.draw.curves import Frame, curve_chart, curves_of, sparkline
from rlreport.draw.theme import PALETTE
from rlreport.formats.logged import dicts
from rlreport.metrics.roles import roles_of
from rlreport.pages.views import Cell, Columns, ColumnView, table
from rlreport.text.clean import safe_text, shortened
from rlreport.text.messages import message, plural, sentences
from rlreport.text.numbers import MISSING

KEYS_SHOWN = 6
MOST_KEYS = 40
_LONGEST, _LONGEST_LABEL = 300, 24
_LAST_WINDOW = message("mean of the last values")


@dataclass(frozen=True, slots=True)
class Listed:
    place: str  # path relative to the index, as shown to readers
    href: str  # address of its first page, relative to the index
    about: Mapping[str, Any] | None  # content of its ``report.json``, None if it cannot be read
    why: str = ""  # the reason why it cannot be read


_COLUMNS = (
    ColumnView("run", message("Run"), kind="link"),
    ColumnView("verdict", message("Verdict"), kind="text"),
    ColumnView("sentence", message("What happened"), kind="text"),
    ColumnView(
        "since", message("Since step"), help=message("onset of the lead finding"), written="count"
    ),
    ColumnView("reward_first", message("Reward, first"), help=message("mean of the first values")),
    ColumnView("reward_last", message("Reward, last"), help=_LAST_WINDOW),
    ColumnView("trend", message("Reward over steps"), kind="path"),
    ColumnView("kl", message("KL, end"), STEP["kl_k1_mean"].unit, help=_LAST_WINDOW),
    ColumnView(
        "length", message("Length, end"), STEP["response_tokens_mean"].unit, help=_LAST_WINDOW
    ),
    ColumnView("steps", message("Steps"), written="count"),
)
_LAST = (
    ColumnView("responses", message("Responses"), hidden=True, written="count"),
    ColumnView("version", message("Built by"), kind="text", hidden=True),
)
_PLACE = ColumnView("place", message("Report"), kind="text", hidden=True)


def runs_view(listed: Sequence[Listed]) -> dict[str, Any]:
    cards = [
        card_values(section(section(report.about or {}, "card"), "entries")) for report in listed
    ]
    differing = _varying_keys(
        [card for card, report in zip(cards, listed, strict=True) if report.about]
    )
    keys = differing[:MOST_KEYS]
    settings = [_key_column(key, cards, hidden=i >= KEYS_SHOWN) for i, key in enumerate(keys)]
    rows = [_row(report) for report in listed]
    has_duplicate_names = len({row["run"] for row in rows}) < len(rows)
    place = replace(_PLACE, hidden=not has_duplicate_names)
    broken = sum(report.about is None for report in listed)
    summary = [plural("{count} report.", "{count} reports.", len(listed))]
    if broken:
        summary.append(message("{count:count} could not be read.", count=broken))
    note = ""
    if len(keys) < len(differing):
        note = message(
            "{some:count} of {all:count} settings that differ are columns.",
            some=len(keys),
            all=len(differing),
        )
    columns: Columns = {column: [row.get(column.key) for row in rows] for column in _COLUMNS}
    columns |= {column: [_key_value(card, column) for card in cards] for column in settings}
    columns |= {column: [row.get(column.key) for row in rows] for column in (*_LAST, place)}
    hrefs = [report.href for report in listed]
    runs = table("runs", message("Runs"), columns, hrefs=hrefs, note=note)
    return {"summary": sentences(summary), "table": runs}


def reward_chart(listed: Sequence[Listed]) -> Chart | None:
    """Return a chart of the runs' mean rewards, interpolated; None for fewer than two runs."""
    curves = []
    for report in listed:
        steps_json = _steps(report.about or {})
        points = {
            _number(step.get("step")): _number(step.get("reward_mean")) for step in steps_json
        }
        pairs = sorted((s, r) for s, r in points.items() if math.isfinite(s) and math.isfinite(r))
        if pairs:
            name = _text((report.about or {}).get("run")) or report.place
            curves.append((shortened(name, _LONGEST_LABEL), *np.array(pairs).T))
    if len(curves) < 2:
        return None
    selection = curves[: len(PALETTE)]
    steps = np.unique(np.concatenate([pairs for _, pairs, _ in selection]))
    chart = curve_chart(
        Frame(steps),
        "reward",
        message("Reward of the runs"),
        curves_of(
            (name, np.interp(steps, at, reward, np.nan, np.nan)) for name, at, reward in selection
        ),
        axis=message("mean over responses"),
        wide=True,
        labels=150,
        omitted=len(curves) - len(selection),
    )
    return chart and replace(chart, interactive=False)


def _steps(about: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    steps = dicts(about.get("steps"))
    with_responses = [step for step in steps if _number(step.get("responses")) > 0]
    return with_responses or [
        step for step in steps if math.isfinite(_number(step.get("reward_mean")))
    ]


def _row(report: Listed) -> dict[str, Any]:
    about = report.about
    texts = {"run": report.place, "version": "", "trend": "", "place": report.place}
    if about is None:
        return {**texts, "verdict": message("– cannot be read"), "sentence": report.why}
    level, lead = verdict_of(about)
    steps, courses = _steps(about), _courses(about)
    reward = np.array([_number(step.get("reward_mean")) for step in steps], dtype=np.float64)
    word = FIRST_WORDS.get(level, _text(level))
    return {
        **texts,
        "run": _text(about.get("run")) or report.place,
        "verdict": message(
            "{glyph} {level}", glyph=GLYPHS.get(level, GLYPHS["unjudged"]), level=word
        ),
        "sentence": translatable_title(lead, _text(lead.get("title"))) if lead else "",
        "since": _number(section(lead or {}, "onset").get("step")),
        "reward_first": _mean(courses, "reward", "first"),
        "reward_last": _mean(courses, "reward", "last"),
        "trend": sparkline(reward),
        "kl": _mean(courses, "kl", "last"),
        "length": _mean(courses, "length", "last"),
        "steps": len(steps),
        "responses": _number(about.get("responses")),
        "version": _text(about["generator"].get("version")),
    }


def _varying_keys(cards: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """Return names of settings that differ between runs or that some lack, most_common first."""
    counts = Counter(key for card in cards for key in card)
    return [
        key
        for key, count in counts.most_common()
        if count < len(cards) or len({repr(card[key]) for card in cards}) > 1
    ]


def _key_column(key: str, cards: Sequence[Mapping[str, Scalar]], *, hidden: bool) -> ColumnView:
    present = [card[key] for card in cards if key in card]
    numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in present)
    kind = "number" if numeric else "text"
    return ColumnView(
        f"card:{key}", key, kind=kind, help=message("from the configuration"), hidden=hidden
    )


def _key_value(card: Mapping[str, Scalar], column: ColumnView) -> object:
    key = column.label
    if column.kind == "number" and key in card:
        text, value = _text(card[key]), _number(card[key])  # as it is: 32, not 32.0
        return Cell(text, None if math.isnan(value) else value, text)
    if key not in card:
        return Cell(MISSING, exact=message("not in its configuration"))
    return _text("null" if card[key] is None else card[key])


def _courses(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return quantity ("reward") -> its course, without those in units of their own."""
    courses = dicts(section(about, "verdict").get("course"))
    columns = [str(section(course, "series").get("column")) for course in courses]
    return {
        str(course.get("quantity")): course
        for course, column in zip(courses, columns, strict=True)
        if column != "response_chars_mean" and "kl_token" not in roles_of([column])
    }


def _mean(courses: Mapping[str, Mapping[str, Any]], quantity: str, part: str) -> float:
    return _number(section(courses.get(quantity, {}), part).get("value"))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def _text(value: object) -> str:
    return "" if value is None else shortened(safe_text(str(value)), _LONGEST)
