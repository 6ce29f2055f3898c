"""What to know before a family of runs is read as a ranking: how unlike they are, and the noise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from rlreport.pages.family import is_relevant
from rlreport.pages.index_groups import Group, score_of
from rlreport.pages.index_metrics import Metric
from rlreport.pages.index_rows import IndexRun
from rlreport.pages.table import ColumnView, RowView, TableView
from rlreport.text.clean import shortened
from rlreport.text.messages import listed, message, plural

# Settings by which the same score may mean another thing: what is rewarded, and the tasks
_REWARD = re.compile(r"reward|grader|verifier|judge", re.IGNORECASE)
# Words of settings that are about how rewards are computed, not about which
_NOT_SCORE = re.compile(
    r"log|timeout|worker|batch|device|gpu|port|cache", re.IGNORECASE
)
_TASK = re.compile(r"prompt|template|dataset|env|task", re.IGNORECASE)
# Scores whose first values are apart by this part of the range of all values start unlike
_APART = 0.5
_MOST_NAMED = 3  # Maximum number of settings that are named
_LONGEST_NAME = 40  # and of characters of one


def family_remarks(groups: Sequence[Group], view: TableView) -> list[str]:
    """Return remarks on a family and its table ``view``."""
    remarks = [_on_steps(groups), _on_settings(view), _on_starts(groups)]
    if any(row.badges for row in view.rows):
        near = message(
            "Within noise of the best: the last level is not lower by more than 2 standard errors "
            "of the difference."
        )
        remarks.append(near)
    if any(map(_has_errors, view.rows)):
        remarks.append(message("±: standard error of the level, over its steps."))
    command = message(
        "To compare two runs prompt by prompt: rlreport compare BASE NEW -o compare.html"
    )
    return [remark for remark in [*remarks, command] if remark]


def _has_errors(row: RowView) -> bool:
    return any(cell.note.startswith("±") for cell in row.cells)


def _runs(groups: Sequence[Group]) -> list[IndexRun]:
    return list(chain.from_iterable(group.runs for group in groups))


def _on_steps(groups: Sequence[Group]) -> str:
    counts = {run.steps for run in _runs(groups)}
    low = min(counts)
    high = max(counts)
    if not low < high:  # NaN
        return ""
    return message(
        "These runs have {low:count} to {high:count} steps.", low=low, high=high
    )


def _on_settings(view: TableView) -> str:
    """Return which settings that differ change what the score means."""
    names = [
        shortened(column.label, _LONGEST_NAME)
        for column in view.columns
        if column.key.startswith("card:") and _changes_score(column)
    ]
    if not names:
        return ""
    named = names[:_MOST_NAMED]
    if len(names) > _MOST_NAMED:
        named.append("…")
    return plural(
        "They differ in {names}: the same score may not mean the same.",
        "They differ in {names}: the same score may not mean the same.",
        len(names),
        names=listed(named),
    )


def _changes_score(column: ColumnView) -> bool:
    key = column.key.removeprefix("card:")
    if not is_relevant(key) or _NOT_SCORE.search(key.rpartition(".")[2]):
        return False
    # A number of prompts or tasks is only a size.
    return bool(_REWARD.search(key) or (column.kind == "name" and _TASK.search(key)))


def _on_starts(groups: Sequence[Group]) -> str:
    """Return that scores are apart from the start, as if runs had other models or tasks."""
    score = score_of(groups)
    metrics = [run.metrics.get(score, Metric()) for run in _runs(groups)]
    metrics = [metric for metric in metrics if len(metric.values)]
    if len(metrics) < 2:
        return ""
    starts = [float(metric.values[0]) for metric in metrics]
    low = min(starts)
    high = max(starts)
    lowest = min(float(metric.values.min()) for metric in metrics)
    highest = max(float(metric.values.max()) for metric in metrics)
    if high - low <= _APART * (highest - lowest):
        return ""
    return message(
        "Their scores differ from the first step on: {low:short} to {high:short}.",
        low=low,
        high=high,
    )
