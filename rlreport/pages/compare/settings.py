"""The settings in which two compared runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.about.card import redacted_text
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import Difference, settings_that_differ
from rlreport.pages.compare.heads import BASE, NEW
from rlreport.pages.table import Columns, ColumnView, TableView, table
from rlreport.text.clean import one_line
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING

MOST_SHOWN = 8  # settings that are not folded
LONGEST_NAME = 40

_SETTING = ColumnView("name", message("Setting"), kind="text")


@dataclass(frozen=True, slots=True)
class SettingsView:
    """Tables of the settings that differ, None for none: the first ones, the rest, and others."""

    first: TableView | None
    rest: TableView | None
    versions: TableView | None  # also defaults, names and locations


def settings_view(outcome: Outcome) -> SettingsView:
    relevant, others = settings_that_differ(outcome.base, outcome.new)
    return SettingsView(
        first=_settings_table(
            "settings", message("What differs"), relevant[:MOST_SHOWN], outcome
        ),
        rest=_settings_table(
            "other-settings", message("Other settings"), relevant[MOST_SHOWN:], outcome
        ),
        versions=_settings_table(
            "versions",
            message("Package versions, defaults, names and locations"),
            others,
            outcome,
        ),
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
