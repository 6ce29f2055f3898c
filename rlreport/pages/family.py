"""The table of a family of runs: the settings that differ beside what came of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Literal

import numpy as np

from rlreport.comparison.run import UNSET, affects_training
from rlreport.comparison.saved import BOOKKEEPING
from rlreport.pages.levels import verdict_cell
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    number_cell,
    table,
)
from rlreport.pages.widths import part_width
from rlreport.text.clean import safe_text, shortened
from rlreport.text.messages import format_message, message, plural, sentences
from rlreport.text.numbers import MISSING

KEYS_SHOWN = 8  # Number of columns of settings that are visible without being selected
MOST_KEYS = 40  # Maximum number of columns of settings
# Maximum number of cells of settings in a table, which limits the columns of one with many rows
MOST_CELLS = 6_000
# Levels differ if by more than so many standard errors of their difference
NOISE = 2.0
_BEST = message("best")
_NEAR_BEST = message("within noise of the best")
# Maximum number of characters of a setting's value
LONGEST_VALUE = 200
_MISSING_SETTING = message("not in the run's configuration")
_LAST_WINDOW = message("mean of the last values")
_BEST_WINDOW = message("best mean of a window")
_NOT_LOGGED = message("not logged")


@dataclass(frozen=True, slots=True)
class Levels:
    """The best and the last level of a score in each run of a row, NaN without one."""

    best: Sequence[float] = ()
    last: Sequence[float] = ()
    # their standard errors, NaN where they are not known
    best_errors: Sequence[float] = ()
    last_errors: Sequence[float] = ()
    is_percentage: bool = False  # whether they are percentages of 100


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """A configuration and what came of it: of a single run, or of runs that share it.

    Attributes:
        name: of the run, or of what its runs have in common.
        levels: the level of each run's verdict, see ``levels.SEVERITY``.
        settings: dotted name -> value in the configuration; {} if it is not known.
        href: address of the run's page, None without one.
        note: muted words below the name, such as "BASE".
        validation: of validation, a score that is not trained on.
        reward: of the trained reward.
        harm: the first step of the lead finding of each run that has one of warning or worse.
        steps: the number of steps of each run, () if it is not to be shown.
    """

    name: str
    levels: Sequence[str]
    settings: Mapping[str, object]
    href: str | None = None
    note: str = ""
    validation: Levels = field(default_factory=Levels)
    reward: Levels = field(default_factory=Levels)
    harm: Sequence[float] = ()
    steps: Sequence[float] = ()


def family_table(
    rows: Sequence[FamilyRow],
    *,
    name: str = "family",
    caption: str = "",
    alone: bool = True,
    ranked: bool = False,
) -> TableView | None:
    """Return a table of settings and outcomes, a row a configuration, that readers can sort.

    Columns: name, settings that differ (KEYS_SHOWN of them are visible, others can be selected),
    the number of runs where a row has several, that of steps where it differs, verdicts, best and
    last validation (the reward where no two rows have one, and beside it where some have none), and
    the first step of harm.

    Args:
        rows: the configurations, in the order in which they are shown.
        name: the table's id on the page.
        caption: its heading, "Settings and outcome" by default.
        alone: whether the table is worth nothing without a setting that differs; the result is
            None then.
        ranked: whether to mark the best row and those that noise alone may set apart from it.
    """
    keys = differing_settings([row.settings for row in rows])
    if len(rows) < 2 or (alone and not any(map(is_relevant, keys))):
        return None
    columns: Columns = {
        ColumnView("run", message("Run"), kind="link"): [
            Cell(row.name, href=row.href, note=row.note) for row in rows
        ]
    }
    columns |= setting_columns(keys, [row.settings for row in rows])
    counts = [len(row.levels) for row in rows]
    if max(counts) > 1:
        columns[ColumnView("runs", message("Runs"), written="count")] = counts
    columns |= _step_columns(rows)
    verdict = ColumnView("verdict", message("Verdict"), kind="level")
    columns[verdict] = [verdict_cell(row.levels) for row in rows]
    columns |= _score_columns(rows)
    if any(map(_finite, (row.harm for row in rows))):
        harm = ColumnView(
            "harm",
            message("First step of harm"),
            help=message(
                "onset of the lead finding of a run that is broken or warned of"
            ),
            written="count",
        )
        columns[harm] = [_harm_cell(row) for row in rows]
    return table(
        name,
        caption or message("Settings and outcome"),
        columns,
        badges=_ranks(rows) if ranked else repeat([]),
        note=columns_note(keys, [row.settings for row in rows]),
    )


def is_relevant(key: str) -> bool:
    """Return whether a setting may change a run's outcome, as a path or a name cannot."""
    return affects_training(key) or not BOOKKEEPING.search(key)


def differing_settings(cards: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the settings that differ between configurations, those that affect training first.

    A configuration that is not known ({}) differs in none. A setting that is missing in one and off
    in another does not differ. What differs between those that have it comes before what only some
    have, and bookkeeping, such as paths, last; of each kind, what most configurations have is
    first.
    """
    known = [card for card in cards if card]
    counts = Counter[str]()
    values: dict[str, set[str | None]] = {}
    for card in known:
        counts.update(card.keys())
        for key, value in card.items():
            values.setdefault(key, set()).add(_compared(value))
    found = []
    for key, count in counts.most_common():
        of_key = values[key] | ({None} if count < len(known) else set())
        if len(of_key) > 1:
            found.append(key)

    def order(key: str) -> tuple[bool, bool, bool]:
        is_partial = not differs_where_set(key, known)
        return not is_relevant(key), is_partial, not affects_training(key)

    # False comes before True; sorting is stable, so that the most common stay first.
    return sorted(found, key=order)


def differs_where_set(key: str, cards: Sequence[Mapping[str, object]]) -> bool:
    """Return whether a setting differs between the configurations that have it."""
    return len({_compared(card[key]) for card in cards if key in card}) > 1


def _folded(
    keys: Sequence[str], cards: Sequence[Mapping[str, object]], shown: int
) -> set[str]:
    """Return the settings whose columns are not visible until they are selected.

    These are bookkeeping, what comes after the first ``shown``, and what only some configurations
    have, unless nothing else differs.
    """
    relevant = list(filter(is_relevant, keys))
    telling = [key for key in relevant if differs_where_set(key, cards)]
    visible = (telling or relevant)[:shown]
    return set(keys) - set(visible)


def _compared(value: object) -> str | None:
    """Return what is compared of a setting's value, None where it is unset."""
    text = "null" if value is None else str(value)
    return None if text in UNSET else text


def columns_note(
    keys: Sequence[str], cards: Sequence[Mapping[str, object]], shown: int = KEYS_SHOWN
) -> str:
    """Return how many of the settings that differ have no column, or a hidden one; "" if none."""
    most = _most_keys(len(cards))
    texts = []
    if len(keys) > most:
        text = format_message(
            "{some:count} of {all:count} settings that differ have a column.",
            {"some": most, "all": len(keys)},
        )
        texts.append(text)
    with_column = keys[:most]
    folded = _folded(with_column, cards, shown)
    partial = [key for key in folded if is_relevant(key)]
    partial = [key for key in partial if not differs_where_set(key, cards)]
    if partial:
        text = plural(
            "{count} setting that only some runs have is hidden; it can be selected.",
            "{count} settings that only some runs have are hidden; they can be selected.",
            len(partial),
        )
        texts.append(text)
    return sentences(texts)


def _most_keys(rows: int) -> int:
    return max(KEYS_SHOWN, min(MOST_KEYS, MOST_CELLS // max(1, rows)))


def setting_columns(
    keys: Sequence[str],
    cards: Sequence[Mapping[str, object]],
    *,
    shown: int = KEYS_SHOWN,
) -> Columns:
    """Return a column for each of the first settings, with a cell for each configuration.

    Args:
        keys: dotted names of the settings; the first of them have a column.
        cards: the configurations of the table's rows.
        shown: how many columns are visible without being selected; see ``_folded``.
    """
    keys = keys[: _most_keys(len(cards))]
    last_parts = Counter(key.rpartition(".")[2] for key in keys)
    folded = _folded(keys, cards, shown)
    columns: Columns = {}
    for key in keys:
        last_part = key.rpartition(".")[2]
        is_clear = last_part and last_parts[last_part] == 1
        numbers = [_number(card[key]) for card in cards if key in card]
        kind = "name" if None in numbers else "number"
        texts = [str(card[key]) for card in cards if key in card]
        column = ColumnView(
            f"card:{key}",
            last_part if is_clear else key,
            kind=kind,
            width=part_width(texts) if kind == "name" else "",
            help=message("{key}, from the configuration", key=key),
            hidden=key in folded,
        )
        columns[column] = [_setting_cell(card, key, column.kind) for card in cards]
    return columns


def _setting_cell(card: Mapping[str, object], key: str, kind: str) -> Cell:
    if key not in card:
        return Cell(MISSING, exact=_MISSING_SETTING)
    value = card[key]
    text = shortened(safe_text("null" if value is None else str(value)), LONGEST_VALUE)
    if kind == "name":
        return Cell(text)
    # Written as it is: 32, not 32.0
    return Cell(text, _number(value), text)


def _number(value: object) -> float | None:
    """Return the number that a setting's value is, also as a text; None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    # "nan" and "1_000" are words.
    is_plain = not isinstance(value, str) or "_" not in value
    return number if math.isfinite(number) and is_plain else None


def _step_columns(rows: Sequence[FamilyRow]) -> Columns:
    """Return the column of the number of steps, {} if it is the same in all runs."""
    counts = [_finite(row.steps) for row in rows]
    if len(set().union(*counts)) < 2:
        return {}
    column = ColumnView("steps", message("Steps"), written="count")
    return {column: [_range_cell(of_row) for of_row in counts]}


def _range_cell(counts: Sequence[float]) -> Cell:
    if len(set(counts)) < 2:
        return number_cell(counts[0] if counts else None, "count")
    places = {"low": min(counts), "high": max(counts)}
    text = format_message("{low:count} to {high:count}", places)
    return Cell(text, max(counts))


def _ranks(rows: Sequence[FamilyRow]) -> list[list[str]]:
    """Return the badges of rows: of the best, and of those that noise alone may set apart from it.

    [] for all if there are none of the latter: the order tells the best one. The last level of
    the score counts; two differ if it is by more than NOISE standard errors of their difference.
    """
    has_validation = sum(bool(_finite(row.validation.last)) for row in rows) >= 2
    scores = [row.validation if has_validation else row.reward for row in rows]
    means = [_mean(score.last) for score in scores]
    errors = [error_of_mean(score.last, score.last_errors) for score in scores]
    badges: list[list[str]] = [[] for _ in rows]
    if not _finite(means):
        return badges
    best = int(np.nanargmax(means))
    for place, (mean, error) in enumerate(zip(means, errors, strict=True)):
        # False if any of them is NaN
        if means[best] - mean <= NOISE * math.hypot(error, errors[best]):
            badges[place] = [_NEAR_BEST]
    if sum(map(len, badges)) < 2:
        return [[] for _ in rows]
    badges[best] = [_BEST]
    return badges


def error_of_mean(values: Sequence[float], errors: Sequence[float]) -> float:
    """Return the standard error of the mean of runs' levels, NaN if it is not known.

    That of several runs is what their spread tells or what the errors of the levels do, whichever
    is larger: two or three runs may agree by chance.
    """
    known = [
        error
        for value, error in zip(values, errors, strict=False)
        if math.isfinite(value)
    ]
    finite = _finite(values)
    count = len(finite)
    if not count:
        return math.nan
    within = math.hypot(*known) / count if len(known) == count else math.nan
    if count == 1:
        return within
    between = float(np.std(finite, ddof=1)) / math.sqrt(count)
    if math.isnan(within):
        return between or math.nan
    return max(within, between)


def _mean(values: Sequence[float]) -> float:
    finite = _finite(values)
    return float(np.mean(finite)) if finite else math.nan


def _score_columns(rows: Sequence[FamilyRow]) -> Columns:
    """Return the columns of validation, and of rewards if not all rows have the former."""

    def cells(scores: Sequence[Levels], level: Literal["best", "last"]) -> list[Cell]:
        return [_score_cell(levels, level) for levels in scores]

    validated = [row for row in rows if _finite(row.validation.last)]
    rewarded = [row for row in rows if _finite(row.reward.last)]
    columns: Columns = {}
    # A single score compares no runs: then rewards are shown instead, if there are any.
    has_validation = len(validated) >= 2 or not rewarded
    if has_validation and validated:
        best = ColumnView(
            "validation_best", message("Validation, best"), help=_BEST_WINDOW
        )
        last = ColumnView("validation", message("Validation, last"), help=_LAST_WINDOW)
        columns[best] = cells([row.validation for row in rows], "best")
        columns[last] = cells([row.validation for row in rows], "last")
    is_complete = has_validation and len(validated) == len(rows)
    if rewarded and not is_complete:
        best = ColumnView("reward_best", message("Reward, best"), help=_BEST_WINDOW)
        last = ColumnView("reward_last", message("Reward, last"), help=_LAST_WINDOW)
        columns[best] = cells([row.reward for row in rows], "best")
        columns[last] = cells([row.reward for row in rows], "last")
    return columns


def _score_cell(levels: Levels, level: Literal["best", "last"]) -> Cell:
    """Return a level: of a single run with its standard error, of several their mean and range."""
    is_best = level == "best"
    values = levels.best if is_best else levels.last
    errors = levels.best_errors if is_best else levels.last_errors
    finite = _finite(values)
    if not finite:
        return number_cell(None, why_missing=_NOT_LOGGED)
    mean = float(np.mean(finite))
    low = min(finite)
    high = max(finite)
    cell = number_cell(mean)
    if low < high:
        places = {"mean": mean, "low": low, "high": high}
        # It is sorted by the mean.
        text = format_message("{mean:short} ({low:short} to {high:short})", places)
        cell = Cell(text, mean)
    percent = "%" if levels.is_percentage else ""
    cell = cell._replace(text=f"{cell.text}{percent}")
    error = error_of_mean(values, errors)
    if len(finite) == 1 and error > 0:
        words = format_message("± {error:short}", {"error": error})
        cell = cell._replace(note=f"{words}{percent}")
    return cell


def _harm_cell(row: FamilyRow) -> Cell:
    """Return the first step of harm in any run of a row, and in how many runs there was harm."""
    steps = _finite(row.harm)
    if not steps:
        return Cell(MISSING, exact=message("no finding of warning or worse"))
    first = number_cell(min(steps), "count")
    if len(row.levels) == 1:
        return first
    words = message(
        "{step} ({some} of {all} runs)",
        step=first.text,
        some=len(steps),
        all=len(row.levels),
    )
    return Cell(words, first.value)


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
