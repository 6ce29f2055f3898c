"""The settings in which two compared runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.about.card import redacted_text
from rlreport.comparison.run import Difference
from rlreport.pages.table import (
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
)
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING

CARD = message("Differences in configuration")
VERSIONS = message("Package versions, defaults, names and locations")
_SETTING = ColumnView("name", message("Setting"), kind="text")
_SIDES = (
    ColumnView("base", "BASE", kind="text"),
    ColumnView("new", "NEW", kind="text"),
)


def settings_table(
    name: str, caption: str, differences: Sequence[Difference], *, redact: bool
) -> TableView | None:
    """Return a table of the settings in which the runs differ, None if there are none.

    ``redact``: whether values that may be private are hidden.
    """
    if not differences:
        return None
    keys = [difference.key for difference in differences]
    columns: Columns = {_SETTING: keys}
    for side, texts in attribute_columns(differences, _SIDES).items():
        columns[side] = [
            _setting_text(key, text, redact=redact)
            for key, text in zip(keys, texts, strict=True)
        ]
    return table(name, caption, columns, ids=keys)


def _setting_text(key: str, text: str | None, *, redact: bool) -> str:
    if text is None:
        return MISSING
    return redacted_text(key, text) if redact else text
