"""The index of many runs and of groups of them, one row each, filled from ``report.json``."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.about.card import card_values
from rlreport.about.secrets import Scalar
from rlreport.check.finding import GLYPHS
from rlreport.check.sentence import translatable_title
from rlreport.check.verdict import FIRST_WORDS
from rlreport.columns import STEP
from rlreport.comparison.saved import (
    BOOKKEEPING,
    SEEDS,
    name_without_seed,
    section,
    settings_without_seed,
    verdict_of,
)
from rlreport.draw.chart import Chart
from rlreport.draw.curves import ChartStyle, Frame, curve_chart, curves_of, sparkline
from rlreport.draw.theme import PALETTE
from rlreport.formats.logged import dicts
from rlreport.metrics.roles import roles_of
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    number_cell,
    table,
)
from rlreport.text.clean import safe_text, shortened
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import (
    clauses,
    format_message,
    listed,
    message,
    plural,
    sentences,
)
from rlreport.text.numbers import MISSING

KEYS_SHOWN = 8
MOST_KEYS = 40
_LONGEST = 600
_LONGEST_LABEL = (
    40  # Maximum number of characters of a curve's name, which are its last ones
)
_FIRST_WINDOW = message("mean of the first values")
_LAST_WINDOW = message("mean of the last values")
_ONSET = message("onset of the lead finding")
_OVER_RESPONSES = message("mean over responses")
_SETTING = message("from the configuration")
_LENGTH_UNIT = STEP["response_tokens_mean"].unit


@dataclass(frozen=True, slots=True)
class Listed:
    place: str  # path relative to the index, as shown to readers
    href: str  # address of its first page, relative to the index
    about: (
        Mapping[str, Any] | None
    )  # content of its ``report.json``, None if it cannot be read
    why: str = ""  # the reason why it cannot be read


class Run(NamedTuple):
    report: Listed
    settings: Mapping[str, Scalar]  # dotted name -> value in its configuration
    row: Mapping[str, Any]  # key of a column -> value


class Group(NamedTuple):
    name: str
    runs: list[Run]  # runs that differ in their seed alone, or a single run


_GROUP = ColumnView("group", message("Group"), kind="text")
_VERDICT = ColumnView("verdict", message("Verdict"), kind="text")
_FIRST = ColumnView("reward_first", message("Reward, first"), help=_FIRST_WINDOW)
_BEST = ColumnView(
    "reward_best", message("Reward, best"), help=message("best mean of a window")
)
_LAST = ColumnView("reward_last", message("Reward, last"), help=_LAST_WINDOW)
_ENDS = (
    ColumnView("validation", message("Validation, last"), help=_LAST_WINDOW),
    ColumnView("kl", message("KL, end"), STEP["kl_k1_mean"].unit, help=_LAST_WINDOW),
    ColumnView("length", message("Length, end"), _LENGTH_UNIT, help=_LAST_WINDOW),
    ColumnView("steps", message("Steps"), written="count"),
)
_COLUMNS = (
    ColumnView("run", message("Run"), kind="link"),
    _GROUP,
    _VERDICT,
    ColumnView("sentence", message("What happened"), kind="text"),
    ColumnView("since", message("Since step"), help=_ONSET, written="count"),
    _FIRST,
    _BEST,
    _LAST,
    ColumnView(
        "trend", message("Reward over steps"), kind="path", help=_OVER_RESPONSES
    ),
    *_ENDS,
)
_DETAILS = (
    ColumnView("responses", message("Responses"), hidden=True, written="count"),
    ColumnView("version", message("Built by"), kind="text", hidden=True),
)
_PLACE = ColumnView("place", message("Report"), kind="text", hidden=True)


def grouped(reports: Sequence[Listed], language: Language = ENGLISH) -> list[Group]:
    """Return groups of runs that differ only in seed, by their names or else configurations."""
    rows = [_row(report, language) for report in reports]
    counts = Counter(row["run"] for row in rows)
    groups: dict[str, Group] = {}
    for report, row in zip(reports, rows, strict=True):
        settings = card_values(section(section(report.about or {}, "card"), "entries"))
        name = row["run"]
        shared = name_without_seed(name) if report.about else ""
        if shared == SEEDS:  # the name says nothing else, but its folder may
            shared = report.place.rpartition("/")[0] or shared
        key = shared or settings_without_seed(settings)
        others = message(
            "{name} and others", name=name if counts[name] == 1 else report.place
        )
        group = groups.setdefault(key or report.href, Group(shared or others, []))
        group.runs.append(Run(report, settings, row))
    # A single run keeps its name.
    return [
        g if len(g.runs) > 1 else Group(g.runs[0].row["run"], g.runs)
        for g in groups.values()
    ]


def runs_view(groups: Sequence[Group]) -> dict[str, Any]:
    """Return {"summary", "table" of runs, "groups": their table, None if none has several runs}."""
    runs = [run for group in groups for run in group.runs]
    names = [
        group.name if len(group.runs) > 1 else ""
        for group in groups
        for _ in group.runs
    ]
    readable = [group for group in groups if group.runs[0].report.about]
    settings = _differing_settings(readable)
    place = replace(_PLACE, hidden=len({run.row["run"] for run in runs}) == len(runs))
    columns: Columns = {
        column: [run.row.get(column.key) for run in runs] for column in _COLUMNS
    }
    columns[_GROUP] = names
    if not any(names):
        del columns[_GROUP]
    ends = [end for end in _ENDS if np.isfinite(np.array(columns[end], float)).any()]
    for end in {*_ENDS}.difference(ends):
        del columns[end]
    columns |= _setting_columns([*settings], [run.settings for run in runs])
    columns |= {
        column: [run.row.get(column.key) for run in runs]
        for column in (*_DETAILS, place)
    }
    summary = [plural("{count} report.", "{count} reports.", len(runs))]
    if broken := sum(run.report.about is None for run in runs):
        summary.append(message("{count:count} could not be read.", count=broken))
    shown = {"some": MOST_KEYS, "all": len(settings)}
    note = format_message(
        "{some:count} of {all:count} settings that differ have a column.", shown
    )
    note = note if len(settings) > MOST_KEYS else ""
    hrefs = [run.report.href for run in runs]
    return {
        "summary": sentences(summary),
        "groups": _groups_table(readable, ends, settings) if any(names) else None,
        "table": table("runs", message("Runs"), columns, hrefs=hrefs, note=note),
    }


def _groups_table(
    groups: Sequence[Group], ends: Sequence[ColumnView], settings: Mapping[str, bool]
) -> TableView:
    columns: Columns = {
        replace(_GROUP, kind="link"): [group.name for group in groups],
        ColumnView("runs", message("Runs"), written="count"): [
            len(group.runs) for group in groups
        ],
        _VERDICT: [_verdicts(group) for group in groups],
    }
    for column in (_FIRST, _LAST, *ends):
        columns[column] = [_mean_cell(group, column) for group in groups]
    between = [key for key, is_equal in settings.items() if is_equal]
    columns |= _setting_columns(between, [group.runs[0].settings for group in groups])
    note = message("Means over the runs of each group; for rewards, also their range.")
    return table("groups", message("Groups of runs"), columns, note=note)


def _verdicts(group: Group) -> str:
    """Return how many runs have each verdict, such as "2 Healthy, 1 Warning"."""
    levels = Counter(run.row["level"] for run in group.runs)
    return listed(
        message("{count}\u00a0{level}", count=n, level=w)
        for w, n in levels.most_common()
    )


def _mean_cell(group: Group, column: ColumnView) -> Cell:
    """Return a group's mean, for different rewards also their range: "0.42 (0.38 to 0.45)"."""
    values = pd.Series([run.row[column.key] for run in group.runs], dtype=float)
    mean, low, high = (
        float(value) for value in (values.mean(), values.min(), values.max())
    )
    if low == high or column not in (_FIRST, _LAST) or math.isnan(mean):
        return number_cell(mean, column.written)
    places = {"mean": mean, "low": low, "high": high}
    return Cell(
        format_message("{mean:short} ({low:short} to {high:short})", places), mean
    )


def reward_chart(groups: Sequence[Group]) -> Chart | None:
    """Return a chart of mean reward and range per group; None if fewer than two runs have any."""
    each = (
        (g, [rewards for run in g.runs if len(rewards := run.row["rewards"])])
        for g in groups
    )
    found = [(group, rewards) for group, rewards in each if rewards]
    if sum(len(rewards) for _, rewards in found) < 2:
        return None
    title = message("Reward of the runs")
    axis = [_OVER_RESPONSES]
    if any(len(rewards) > 1 for _, rewards in found):
        axis.append(message("mean and range of a group's runs"))
    if (omitted := max(0, len(found) - len(PALETTE))) > 0:
        places = {"some": len(PALETTE), "all": len(found)}
        axis.append(
            format_message("the {some} of {all} that are highest at the end", places)
        )
        found.sort(
            key=lambda one: (
                -pd.Series([r.row["reward_last"] for r in one[0].runs]).mean()
            )
        )
        found = found[: len(PALETTE)]
    steps = np.unique(
        np.concatenate([r.index for _, rewards in found for r in rewards])
    )
    tables = [
        pd.DataFrame([np.interp(steps, r.index, r, np.nan, np.nan) for r in rewards])
        for _, rewards in found
    ]
    names = [shortened(group.name[::-1], _LONGEST_LABEL)[::-1] for group, _ in found]
    means = curves_of((name, t.mean()) for name, t in zip(names, tables, strict=True))
    curves = [
        replace(mean, low=t.min().to_numpy(), high=t.max().to_numpy())
        if len(t) > 1
        else mean
        for mean, t in zip(means, tables, strict=True)
    ]
    frame = Frame(steps)
    text = clauses(axis)
    labels = 150 if max(map(len, names)) < 23 else 280
    chart = curve_chart(
        frame,
        "reward",
        title,
        curves,
        ChartStyle(text, wide=True, labels=labels),
        omitted=omitted,
    )
    return chart and replace(chart, interactive=False)


def _rewards(about: Mapping[str, Any]) -> pd.Series:
    """Return the mean rewards by step, ascending, without entries that are not numbers."""
    both = (section(about, "reward").get(key) for key in ("steps", "values"))
    steps, values = (map(_number, one if isinstance(one, list) else []) for one in both)
    pairs = zip(steps, values, strict=False)
    rewards = {step: value for step, value in pairs if math.isfinite(step)}
    return pd.Series(rewards, dtype=float).dropna().sort_index()


def _row(report: Listed, language: Language) -> dict[str, Any]:
    about = report.about
    place = {"run": report.place, "place": report.place}
    if about is None:
        empty = {"version": "", "trend": "", "rewards": ()}
        return (
            place
            | empty
            | {"verdict": message("– cannot be read"), "sentence": report.why}
        )
    level, lead = verdict_of(about)
    steps = dicts(about.get("steps"))
    courses = _courses(about)
    # In a run of trainer metrics alone, no step has responses.
    steps = [step for step in steps if _number(step.get("responses")) > 0] or steps
    rewards = _rewards(about)
    word = FIRST_WORDS.get(level, _text(level))
    glyph = GLYPHS.get(level, GLYPHS["unjudged"])
    sentence = _text(section(about, "verdict").get("sentence"))
    if language != ENGLISH:  # a report has its sentence in English alone
        sentence = translatable_title(lead, _text(lead.get("title"))) if lead else ""
    elif sentence:  # the column before it has the level
        sentence = re.sub(rf"^{re.escape(word)}[^.:]*[.:]\s*", "", sentence)
        sentence = sentence[:1].upper() + sentence[1:]
    return {
        **place,
        "run": _text(about.get("run")) or report.place,
        "level": word,
        "verdict": message("{glyph} {level}", glyph=glyph, level=word),
        "sentence": sentence,
        "since": _number(section(lead or {}, "onset").get("step")),
        **{
            f"reward_{part}": _mean(courses, "reward", part)
            for part in ("first", "best", "last")
        },
        "rewards": rewards,
        "trend": sparkline(rewards.to_numpy()),
        "validation": _mean(courses, "watched_reward", "last"),
        "kl": _mean(courses, "kl", "last"),
        "length": _mean(courses, "length", "last"),
        "steps": len(steps),
        "responses": _number(about.get("responses")),
        "version": _text(about["generator"].get("version")),
    }


def _differing_settings(groups: Sequence[Group]) -> dict[str, bool]:
    """Return, for each setting that differs, whether the runs of every group agree on it."""
    counts = Counter(
        key for group in groups for run in group.runs for key in run.settings
    )
    is_equal = {}
    for key, _ in counts.most_common():
        values = [
            {repr(run.settings.get(key, ...)) for run in group.runs} for group in groups
        ]
        if len(set().union(*values)) > 1:
            is_equal[key] = all(len(part) == 1 for part in values)
    order = sorted(
        is_equal, key=lambda key: (bool(BOOKKEEPING.search(key)), not is_equal[key])
    )
    return {key: is_equal[key] for key in order}


def _setting_columns(
    keys: Sequence[str], cards: Sequence[Mapping[str, Scalar]]
) -> Columns:
    columns: Columns = {}
    for number, key in enumerate(keys[:MOST_KEYS]):
        present = [card[key] for card in cards if key in card]
        numeric = all(
            isinstance(v, (int, float)) and not isinstance(v, bool) for v in present
        )
        kind = "number" if numeric else "text"
        hidden = number >= KEYS_SHOWN
        column = ColumnView(f"card:{key}", key, kind=kind, help=_SETTING, hidden=hidden)
        columns[column] = [_setting_cell(card, column) for card in cards]
    return columns


def _setting_cell(card: Mapping[str, Scalar], column: ColumnView) -> Cell:
    key = column.label
    if key not in card:
        return Cell(MISSING, exact=message("not in the run's configuration"))
    text = _text("null" if card[key] is None else card[key])
    value = _number(card[key])
    if column.kind == "text":
        return Cell(text)
    return Cell(
        text, None if math.isnan(value) else value, text
    )  # as it is: 32, not 32.0


def _courses(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return quantity -> its means by window, except lengths in characters and KL per token."""
    return {
        str(course.get("quantity")): course
        for course in dicts(section(about, "verdict").get("course"))
        if (column := str(section(course, "series").get("column")))
        != "response_chars_mean"
        and "kl_token" not in roles_of([column])
    }


def _mean(courses: Mapping[str, Mapping[str, Any]], quantity: str, part: str) -> float:
    return _number(section(courses.get(quantity, {}), part).get("value"))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def _text(value: object) -> str:
    return "" if value is None else shortened(safe_text(str(value)), _LONGEST)
