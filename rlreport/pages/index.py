"""The index of many runs and of groups of them, one row each, filled from ``report.json``."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.about.card import card_values
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
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart, curves_of
from rlreport.draw.frame import Frame
from rlreport.draw.sparkline import sparkline
from rlreport.draw.theme import PALETTE
from rlreport.formats.logged import dicts
from rlreport.metrics.roles import roles_of
from rlreport.pages.page import Addresses
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
from rlreport.text.secrets import Scalar

KEYS_SHOWN = 8  # Number of columns of settings that are visible without being selected
MOST_KEYS = 40  # Maximum number of columns of settings
_LONGEST = 600  # Maximum number of characters of a text of a report
# Maximum number of characters of a curve's name, which are its last ones
_LONGEST_LABEL = 40
_FIRST_WINDOW = message("mean of the first values")
_LAST_WINDOW = message("mean of the last values")
_ONSET = message("onset of the lead finding")
_OVER_RESPONSES = message("mean over responses")
_SETTING = message("from the configuration")
_LENGTH_UNIT = STEP["response_tokens_mean"].unit


@dataclass(frozen=True, slots=True)
class Listed:
    """A report in the index, also if it cannot be read."""

    place: str  # path relative to the index, as shown to readers
    href: str  # address of its first page, relative to the index
    # content of its ``report.json``, None if it cannot be read
    about: Mapping[str, Any] | None
    why: str = ""  # the reason why it cannot be read
    form: Literal["folder", "html", "zip"] = "folder"

    @property
    def is_unread(self) -> bool:
        return self.about is None


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
_END_COLUMNS = (
    ColumnView("validation", message("Validation, last"), help=_LAST_WINDOW),
    ColumnView("kl", message("KL, last"), STEP["kl_k1_mean"].unit, help=_LAST_WINDOW),
    ColumnView("length", message("Length, last"), _LENGTH_UNIT, help=_LAST_WINDOW),
    ColumnView("steps", message("Steps"), written="count"),
)
_EVIDENCE = ColumnView("evidence", message("Evidence"), kind="link")
_COLUMNS = (
    ColumnView("run", message("Run"), kind="link"),
    _GROUP,
    _VERDICT,
    ColumnView("sentence", message("What happened"), kind="text"),
    _EVIDENCE,
    ColumnView("since", message("Since step"), help=_ONSET, written="count"),
    _FIRST,
    _BEST,
    _LAST,
    ColumnView(
        "trend", message("Reward over steps"), kind="path", help=_OVER_RESPONSES
    ),
    *_END_COLUMNS,
)
_DETAILS = (
    ColumnView("responses", message("Responses"), hidden=True, written="count"),
    ColumnView("version", message("Built by"), kind="text", hidden=True),
)
_PLACE = ColumnView("place", message("Report"), kind="text", hidden=True)


def grouped(reports: Sequence[Listed], language: Language = ENGLISH) -> list[Group]:
    """Return groups of runs that differ only in their seed.

    Runs belong together if their names are the same but for the seed. Those whose names have no
    seed belong together if their configurations are the same but for the seed. A run that belongs
    to no other is a group of its own.
    """
    rows = [_row(report, language) for report in reports]
    counts = Counter(row["run"] for row in rows)
    groups: dict[str, Group] = {}
    for report, row in zip(reports, rows, strict=True):
        settings = card_values(section(section(report.about or {}, "card"), "entries"))
        name = row["run"]
        # What the names of a group's runs have in common, "" without a seed in the name
        shared = "" if report.is_unread else name_without_seed(name)
        if shared == SEEDS:  # the name says nothing else, but its folder may
            shared = report.place.rpartition("/")[0] or shared
        key = shared or settings_without_seed(settings)
        # The group has no name of its own: it is named after its first run.
        unique_name = name if counts[name] == 1 else report.place
        others = message("{name} and others", name=unique_name)
        # Without a seed in name and configuration, its address keeps the run apart from others.
        group = groups.setdefault(key or report.href, Group(shared or others, []))
        group.runs.append(Run(report, settings, row))
    return [_with_own_name(group) for group in groups.values()]


def _with_own_name(group: Group) -> Group:
    """Return a group with the name of its run if it has a single one."""
    if len(group.runs) > 1:
        return group
    return Group(group.runs[0].row["run"], group.runs)


@dataclass(frozen=True, slots=True)
class RunsView:
    """What an index of reports shows."""

    summary: str
    charts: list[Chart]
    groups: TableView | None  # None if no group has several runs
    table: TableView  # of the runs


def runs_view(groups: Sequence[Group], charts: Sequence[Chart]) -> RunsView:
    """Return what an index shows: ``charts``, and a table of groups if any has several runs."""
    # A report that cannot be read is alone in its group.
    readable = [group for group in groups if not group.runs[0].report.is_unread]
    settings = _differing_settings(readable)
    has_groups = any(len(group.runs) > 1 for group in groups)
    end_columns = _end_columns_with_values(groups)
    return RunsView(
        summary=_summary(groups),
        charts=list(charts),
        groups=_groups_table(readable, end_columns, settings) if has_groups else None,
        table=_runs_table(groups, end_columns, settings),
    )


def _summary(groups: Sequence[Group]) -> str:
    """Return how many reports are listed, and how many of them could not be read."""
    count = 0
    unread = 0
    for group in groups:
        count += len(group.runs)
        unread += len([run for run in group.runs if run.report.is_unread])
    summary = [plural("{count} report.", "{count} reports.", count)]
    if unread:
        summary.append(message("{count:count} could not be read.", count=unread))
    return sentences(summary)


def _end_columns_with_values(groups: Sequence[Group]) -> list[ColumnView]:
    """Return the columns of _END_COLUMNS that any run has a value for."""
    rows: list[Mapping[str, Any]] = []
    for group in groups:
        rows += [run.row for run in group.runs]
    found = []
    for column in _END_COLUMNS:
        values = np.array([row.get(column.key) for row in rows], float)
        if np.isfinite(values).any():
            found.append(column)
    return found


def _runs_table(
    groups: Sequence[Group],
    end_columns: Sequence[ColumnView],
    settings: Mapping[str, bool],
) -> TableView:
    """Return the table of all runs, group by group.

    Args:
        groups: all groups, also those of one run.
        end_columns: those of _END_COLUMNS that any run has a value for.
        settings: those that differ, see ``_differing_settings``.
    """
    runs = []
    group_names = []  # of each run, "" for one that is alone
    for group in groups:
        runs += group.runs
        group_name = group.name if len(group.runs) > 1 else ""
        group_names += [group_name] * len(group.runs)
    has_unique_names = len({run.row["run"] for run in runs}) == len(runs)
    columns: Columns = {}
    for column in _COLUMNS:
        if column == _GROUP:
            if any(group_names):
                columns[column] = group_names
        elif column == _EVIDENCE:
            if any(run.row["evidence"].text for run in runs):
                columns[column] = [run.row["evidence"] for run in runs]
        elif column not in _END_COLUMNS or column in end_columns:
            columns[column] = [_row_cell(run.row, column) for run in runs]
    columns |= _setting_columns([*settings], [run.settings for run in runs])
    # The path tells runs of the same name apart.
    place = replace(_PLACE, hidden=has_unique_names)
    for column in (*_DETAILS, place):
        columns[column] = [run.row.get(column.key) for run in runs]
    note = ""
    if len(settings) > MOST_KEYS:
        places = {"some": MOST_KEYS, "all": len(settings)}
        note = format_message(
            "{some:count} of {all:count} settings that differ have a column.", places
        )
    hrefs = [run.report.href for run in runs]
    return table("runs", message("Runs"), columns, hrefs=hrefs, note=note)


def _row_cell(row: Mapping[str, Any], column: ColumnView) -> Any:
    """Return a run's value for a column; a percentage with its sign."""
    value = row.get(column.key)
    if column.key not in row.get("percentages", ()):
        return value
    cell = number_cell(float(row[column.key]), column.written)
    return cell._replace(text=f"{cell.text}%")


def _groups_table(
    groups: Sequence[Group],
    end_columns: Sequence[ColumnView],
    settings: Mapping[str, bool],
) -> TableView:
    """Return the table of groups, also those of one run; for parameters see ``_runs_table``."""
    name = replace(_GROUP, kind="link")
    count = ColumnView("runs", message("Runs"), written="count")
    columns: Columns = {
        name: [group.name for group in groups],
        count: [len(group.runs) for group in groups],
        _VERDICT: [_verdicts(group) for group in groups],
    }
    for column in (_FIRST, _LAST, *end_columns):
        columns[column] = [_mean_cell(group, column) for group in groups]
    # A setting on which the runs of each group agree has one value per group.
    agreed = [key for key, is_equal in settings.items() if is_equal]
    columns |= _setting_columns(agreed, [group.runs[0].settings for group in groups])
    note = message("Means over the runs of each group; for rewards, also their range.")
    return table("groups", message("Groups of runs"), columns, note=note)


def _verdicts(group: Group) -> str:
    """Return how many runs have each verdict, such as "2 Healthy, 1 Warning"."""
    levels = Counter(run.row["level"] for run in group.runs)
    return listed(
        message("{count}\u00a0{level}", count=count, level=level)
        for level, count in levels.most_common()
    )


def _mean_cell(group: Group, column: ColumnView) -> Cell:
    """Return a group's mean, for different rewards also their range: "0.42 (0.38 to 0.45)"."""
    of_runs = [run.row[column.key] for run in group.runs]
    values = pd.Series(of_runs, dtype=float)
    mean = float(values.mean())
    low = float(values.min())
    high = float(values.max())
    if low == high or column not in (_FIRST, _LAST) or math.isnan(mean):
        return number_cell(mean, column.written)
    places = {"mean": mean, "low": low, "high": high}
    # ``mean`` is what the column is sorted by.
    return Cell(
        format_message("{mean:short} ({low:short} to {high:short})", places), mean
    )


class _GroupRewards(NamedTuple):
    """The rewards by step of a group's runs that have any."""

    group: Group
    rewards: list[pd.Series]

    @property
    def at_end(self) -> float:
        """Mean reward of the runs in their last window."""
        values = [run.row["reward_last"] for run in self.group.runs]
        return float(pd.Series(values, dtype=float).mean())

    @property
    def label(self) -> str:
        """The end of the group's name, in which names mostly differ."""
        # ``shortened`` cuts the end of a text, so that the name is reversed for it.
        return shortened(self.group.name[::-1], _LONGEST_LABEL)[::-1]


def reward_chart(groups: Sequence[Group]) -> Chart | None:
    """Return a chart of mean reward and range per group; None if fewer than two runs have any."""
    found = _rewards_of_groups(groups)
    if sum(len(one.rewards) for one in found) < 2:
        return None
    axis_parts = [_OVER_RESPONSES]
    if any(len(one.rewards) > 1 for one in found):
        axis_parts.append(message("mean and range of a group's runs"))
    # Each curve needs a style of its own.
    omitted = max(0, len(found) - len(PALETTE))
    if omitted:
        places = {"some": len(PALETTE), "all": len(found)}
        axis_parts.append(
            format_message("the {some} of {all} that are highest at the end", places)
        )
        found.sort(key=lambda one: -one.at_end)
        found = found[: len(PALETTE)]
    steps = _all_steps(found)
    chart = curve_chart(
        Frame(steps),
        "reward",
        message("Reward of the runs"),
        _group_curves(found, steps),
        ChartStyle(clauses(axis_parts), wide=True, has_key=True),
        omitted=omitted,
    )
    # The file of an index is without Vega, which draws interactive charts.
    return chart and replace(chart, interactive=False)


def _rewards_of_groups(groups: Sequence[Group]) -> list[_GroupRewards]:
    """Return the rewards of the groups that have any."""
    found = []
    for group in groups:
        all_rewards = [run.row["rewards"] for run in group.runs]
        rewards = [one for one in all_rewards if len(one)]
        if rewards:
            found.append(_GroupRewards(group, rewards))
    return found


def _all_steps(found: Sequence[_GroupRewards]) -> NDArray[np.float64]:
    steps = []
    for one in found:
        steps += [rewards.index for rewards in one.rewards]
    return np.unique(np.concatenate(steps))


def _group_curves(
    found: Sequence[_GroupRewards], steps: NDArray[np.float64]
) -> list[DrawnCurve]:
    """Return the mean reward of each group and, of several runs, their range."""
    tables = []
    for one in found:
        # Runs may log other steps: between those of a run its reward is interpolated, and outside
        # of them it is not known.
        of_runs = [
            np.interp(steps, rewards.index, rewards, left=np.nan, right=np.nan)
            for rewards in one.rewards
        ]
        tables.append(pd.DataFrame(of_runs))
    pairs = zip(found, tables, strict=True)
    means = [(one.label, runs.mean()) for one, runs in pairs]
    curves = curves_of(means)
    return [_with_range(c, runs) for c, runs in zip(curves, tables, strict=True)]


def _with_range(curve: DrawnCurve, runs: pd.DataFrame) -> DrawnCurve:
    """Return a curve with the lowest and highest values of several runs (rows) as a band."""
    if len(runs) < 2:
        return curve
    return replace(curve, low=runs.min().to_numpy(), high=runs.max().to_numpy())


def _rewards(about: Mapping[str, Any]) -> pd.Series:
    """Return the mean rewards by step, ascending, without entries that are not numbers."""
    reward = section(about, "reward")
    steps = _numbers(reward.get("steps"))
    values = _numbers(reward.get("values"))
    pairs = zip(steps, values, strict=False)  # the file may be damaged
    rewards = {step: value for step, value in pairs if math.isfinite(step)}
    return pd.Series(rewards, dtype=float).dropna().sort_index()


def _numbers(values: object) -> list[float]:
    return list(map(_number, values)) if isinstance(values, list) else []


def _row(report: Listed, language: Language) -> dict[str, Any]:
    """Return column key -> value of a report, with ``rewards`` for the chart and its ``level``."""
    about = report.about
    if about is None:
        return {
            "run": report.place,
            "place": report.place,
            "verdict": message("– cannot be read"),
            "sentence": report.why,
            "evidence": Cell(""),
            "version": "",
            "trend": "",
            "rewards": (),
        }
    level, lead = verdict_of(about)
    word = FIRST_WORDS.get(level, _text(level))
    glyph = GLYPHS.get(level, GLYPHS["unjudged"])
    return {
        "place": report.place,
        "run": _text(about.get("run")) or report.place,
        "level": word,
        "verdict": message("{glyph} {level}", glyph=glyph, level=word),
        "sentence": Cell(_sentence(about, language), note=_next(about, language)),
        "evidence": _evidence(report),
        "since": _number(section(lead or {}, "onset").get("step")),
        **_figures(about),
        "steps": _step_count(about),
        "responses": _number(about.get("responses")),
        "version": _text(about["generator"].get("version")),
    }


def _figures(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return column key -> value of a report's rewards and other quantities."""
    courses = _courses(about)
    rewards = _rewards(about)
    return {
        "reward_first": _mean(courses, "reward", "first"),
        "reward_best": _mean(courses, "reward", "best"),
        "reward_last": _mean(courses, "reward", "last"),
        "rewards": rewards,
        "trend": sparkline(rewards.to_numpy()),
        "percentages": _percentages(courses),
        "validation": _mean(courses, "validation", "last"),
        "kl": _mean(courses, "kl", "last"),
        "length": _mean(courses, "length", "last"),
    }


def _sentence(about: Mapping[str, Any], language: Language) -> str:
    """Return what happened, without the level, which has a column of its own.

    ``about`` is the content of a report's ``report.json``.
    """
    level, lead = verdict_of(about)
    if language != ENGLISH:  # a report has its sentence in English alone
        return translatable_title(lead, _text(lead.get("title"))) if lead else ""
    sentence = _text(section(about, "verdict").get("what"))
    # It begins with the level: "Broken: …", "Healthy. …"
    word = FIRST_WORDS.get(level, _text(level))
    sentence = re.sub(rf"^{re.escape(word)}[^.:]*[.:]\s*", "", sentence)
    return sentence[:1].upper() + sentence[1:]


def _next(about: Mapping[str, Any], language: Language) -> str:
    """Return what to do, "" in another language: a report has that in English alone."""
    if language != ENGLISH:
        return ""
    text = _text(section(about, "verdict").get("next"))
    return message("Next: {text}", text=text) if text else ""


def _evidence(report: Listed) -> Cell:
    """Return the cell with a link to the response that shows the verdict, if there is one."""
    assert report.about is not None
    shown = section(section(report.about, "verdict"), "evidence")
    for finding in dicts(report.about.get("findings")):
        if finding.get("id") != shown.get("finding"):
            continue
        examples = dicts(finding.get("evidence"))
        item = shown.get("item")
        if isinstance(item, int) and 0 <= item < len(examples):
            return _response_cell(report, examples[item])
    return Cell("")


def _response_cell(report: Listed, example: Mapping[str, Any]) -> Cell:
    """Return the cell of a response; linked if the report is not zipped and has its step's page."""
    numbers = [example.get(name) for name in ("step", "n", "token", "turn")]
    step, n, token, turn = (one if isinstance(one, int) else None for one in numbers)
    if step is None or n is None:
        return Cell("")
    text = message("step {step}, response {n}", step=step, n=n)
    if report.about is None or report.form == "zip":
        return Cell(text)
    steps = section(report.about, "shown").get("steps")
    pages = frozenset(steps if isinstance(steps, list) else ())
    one_file = report.form == "html"
    root = "" if one_file else report.href.removesuffix("index.html")
    addresses = Addresses(pages, root, one_file)
    href = addresses.response(step, n, token=token, turn=turn)
    if href and one_file:
        href = report.href + href
    return Cell(text, href=href)


def _step_count(about: Mapping[str, Any]) -> int:
    """Return the number of steps with responses, or of all in a run of trainer metrics alone."""
    steps = dicts(about.get("steps"))
    with_responses = [s for s in steps if _number(s.get("responses")) > 0]
    return len(with_responses or steps)


def _differing_settings(groups: Sequence[Group]) -> dict[str, bool]:
    """Return, for each setting that differs, whether the runs of every group agree on it.

    Settings on which they agree come first, then those that differ within a group, and last what
    is only bookkeeping, such as paths. Of each kind, the setting that most runs have is first.
    """
    # Setting -> number of runs that have it
    counts = Counter[str]()
    for group in groups:
        for run in group.runs:
            counts.update(run.settings.keys())
    is_equal = {}
    for key, _ in counts.most_common():
        by_group = [_values_of(key, group) for group in groups]
        if len(set().union(*by_group)) > 1:
            is_equal[key] = all(len(values) == 1 for values in by_group)

    # False comes before True; sorting is stable, so that the most common stay first.
    def rank(key: str) -> tuple[bool, bool]:
        return bool(BOOKKEEPING.search(key)), not is_equal[key]

    return {key: is_equal[key] for key in sorted(is_equal, key=rank)}


def _values_of(key: str, group: Group) -> set[str]:
    """Return the different values of a setting in a group; a missing one counts as another."""
    return {repr(run.settings.get(key, ...)) for run in group.runs}


def _setting_columns(
    keys: Sequence[str], cards: Sequence[Mapping[str, Scalar]]
) -> Columns:
    """Return a column for each of the first MOST_KEYS settings, with a cell per configuration.

    ``cards`` are the configurations of the table's rows: setting -> value.
    """
    columns: Columns = {}
    for number, key in enumerate(keys[:MOST_KEYS]):
        present = [card[key] for card in cards if key in card]
        is_numeric = all(isinstance(value, int | float) for value in present)
        # In Python, a bool is an int.
        has_flags = any(isinstance(value, bool) for value in present)
        column = ColumnView(
            f"card:{key}",
            key,
            kind="number" if is_numeric and not has_flags else "text",
            help=_SETTING,
            hidden=number >= KEYS_SHOWN,
        )
        columns[column] = [_setting_cell(card, column) for card in cards]
    return columns


def _setting_cell(card: Mapping[str, Scalar], column: ColumnView) -> Cell:
    """Return the value of a run's setting, whose name is the label of the column."""
    key = column.label
    if key not in card:
        return Cell(MISSING, exact=message("not in the run's configuration"))
    text = _text("null" if card[key] is None else card[key])
    if column.kind == "text":
        return Cell(text)
    # As it is: 32, not 32.0.
    value = _number(card[key])
    return Cell(text, None if math.isnan(value) else value, text)


def _courses(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return quantity, such as "reward" -> its entry in ``report.json`` with its means by window.

    Lengths in characters and KL per token are left out: the columns of the index have other units.
    """
    courses: dict[str, Mapping[str, Any]] = {}
    for course in dicts(section(about, "verdict").get("course")):
        column = str(section(course, "series").get("column"))
        if column == "response_chars_mean" or "kl_token" in roles_of([column]):
            continue
        courses[str(course.get("quantity"))] = course
    return courses


def _percentages(courses: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the keys of the columns in which a run has percentages."""
    keys = {
        "reward": ("reward_first", "reward_best", "reward_last"),
        "validation": ("validation",),
    }
    found = set[str]()
    for quantity, of_quantity in keys.items():
        if courses.get(quantity, {}).get("unit") == "%":
            found.update(of_quantity)
    return found


def _mean(courses: Mapping[str, Mapping[str, Any]], quantity: str, part: str) -> float:
    """Return a quantity's mean in its ``part``: "first", "best" or "last" window."""
    return _number(section(courses.get(quantity, {}), part).get("value"))


def _number(value: object) -> float:
    """Return a value of JSON as a float, NaN if it is not a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def _text(value: object) -> str:
    return "" if value is None else shortened(safe_text(str(value)), _LONGEST)
