"""The settings in which two compared runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.about.card import redacted_text
from rlreport.check.course import Course
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun, Difference, settings_that_differ
from rlreport.pages.compare.heads import BASE, NEW
from rlreport.pages.family import KEYS_SHOWN, FamilyRow, Levels, family_table
from rlreport.pages.table import Columns, ColumnView, TableView, table
from rlreport.text.clean import one_line
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING

LONGEST_NAME = 40  # characters of a run's name at the head of a column
LONGEST_VALUE = 60  # characters of a value that the table of the runs shows in full

_SETTING = ColumnView("name", message("Setting"), kind="text")


@dataclass(frozen=True, slots=True)
class SettingsView:
    """What differs: runs with their settings and outcomes, and folded the settings in full.

    Attributes:
        family: a row a run.
        relevant: settings that may explain a difference, None for none.
        shown: how many of these mail and Markdown show at first.
        more: how many there are beyond those.
        is_cut: whether ``family`` does not show all of these, or not in full.
        versions: other settings that differ, such as names and locations; None for none.
    """

    family: TableView | None
    relevant: TableView | None
    shown: int
    more: int
    is_cut: bool
    versions: TableView | None


def settings_view(outcome: Outcome) -> SettingsView:
    relevant, others = settings_that_differ(outcome.base, outcome.new)
    shown = relevant[:KEYS_SHOWN]
    return SettingsView(
        family=family_table(
            [_row(side, run, shown, outcome) for side, run in _runs(outcome)],
            caption=message("What differs"),
            alone=False,
        ),
        relevant=_settings_table(
            "settings", message("Settings that differ"), relevant, outcome
        ),
        shown=len(shown),
        more=len(relevant) - len(shown),
        is_cut=len(shown) < len(relevant)
        or any(_is_cut(one, redact=outcome.redact) for one in shown),
        versions=_settings_table(
            "versions",
            message("Package versions, defaults, names and locations"),
            others,
            outcome,
        ),
    )


def _is_cut(setting: Difference, *, redact: bool) -> bool:
    """Return whether the table of the runs cuts a setting, or omits it as values look alike."""
    values = [
        _text(setting.key, text, redact=redact) for text in (setting.base, setting.new)
    ]
    return values[0] == values[1] or any(len(text) > LONGEST_VALUE for text in values)


def _runs(outcome: Outcome) -> list[tuple[str, ComparedRun]]:
    """Return each run with the name of its side."""
    bases = [(BASE, run) for run in outcome.bases]
    news = [(NEW, run) for run in outcome.news]
    return [*bases, *news]


def _row(
    side: str, run: ComparedRun, shown: Sequence[Difference], outcome: Outcome
) -> FamilyRow:
    """Return a run as a row of the table of what differs."""
    settings = {
        one.key.removeprefix("config."): _text(
            one.key, run.facts[one.key], redact=outcome.redact
        )
        for one in shown
        if one.key in run.facts
    }
    lead = run.findings.get(run.lead or "")
    harm = [] if lead is None or lead.onset is None else [float(lead.onset.step)]
    return FamilyRow(
        name=run.name,
        note=side,
        levels=[run.level],
        settings=settings,
        validation=_levels(run.side.evaluation),
        reward=_levels(run.side.reward),
        harm=harm,
    )


def _levels(course: Course | None) -> Levels:
    if course is None:
        return Levels()
    return Levels(
        best=[course.top.value],
        last=[course.last.value],
        best_errors=[course.top.se],
        last_errors=[course.last.se],
    )


def _settings_table(
    name: str, caption: str, differences: Sequence[Difference], outcome: Outcome
) -> TableView | None:
    """Return a table of the settings, in columns by run; None if there are none."""
    if not differences:
        return None
    keys = [difference.key for difference in differences]
    columns: Columns = {_SETTING: [key.removeprefix("config.") for key in keys]}
    for key, side, run in (
        ("base", BASE, outcome.base),
        ("new", NEW, outcome.new),
    ):
        head = ColumnView(key, one_line(run.name, LONGEST_NAME), side, kind="text")
        columns[head] = [
            _text(one.key, getattr(one, key), redact=outcome.redact)
            for one in differences
        ]
    return table(name, caption, columns, ids=keys)


def _text(key: str, text: str | None, *, redact: bool) -> str:
    """Return the value of a setting; ``redact``: whether what may be private is hidden."""
    if text is None:
        return MISSING
    return redacted_text(key, text) if redact else text
