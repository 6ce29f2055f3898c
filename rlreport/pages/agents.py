"""Tables of agents' turns and of environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from rlreport.check.course import course_of
from rlreport.check.series import Series
from rlreport.columns import STEP
from rlreport.draw.run_charts import tool_label
from rlreport.draw.sparkline import sparkline
from rlreport.figures.turns import ERROR_KINDS, ToolCounts
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.listed import REWARD_PATH, TOOLS
from rlreport.pages.page import Addresses
from rlreport.pages.plan import TOOL_ERRORS
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    number_cell,
    table,
)
from rlreport.summarise.environments import (
    Environments,
    environment_steps,
    environments_of,
)
from rlreport.tables import Tables, length_column, listed_tool
from rlreport.text.messages import message, plural, span

MOST_TOOLS = 20  # Maximum number of tools in the table, those with the most answers


class ErrorRates(NamedTuple):
    """Shares of a tool's answers that are errors; NaN without answers."""

    overall: float = np.nan
    first: float = np.nan  # of the first window of steps
    last: float = np.nan


class Turns(NamedTuple):
    """A row of the table: all turns of the policy, of one tool, or of other roles in training."""

    name: str
    turns: float  # number of turns, NaN if unknown
    size: float  # total length of these turns in tokens, or in characters if no tokens are logged
    sized: float  # number of turns included in ``size``
    # the tool's name in ``tools_used``, None for turns of others
    tool: str | None = None
    errors: ErrorRates = ErrorRates()
    kind: str = ""  # kind of most of its errors
    empty: float = np.nan  # share of its answers that hold nothing


_WHO = ColumnView("who", message("Turns of"), kind="link")
_TURNS = ColumnView("turns", message("Turns"), written="count")
_PER_RESPONSE = ColumnView("per_response", message("Turns per response"))
_KIND = ColumnView("kind", message("Most errors"), kind="text")
_EMPTY = ColumnView("empty", message("Empty answers"), written="share")


def turns_table(run: JudgedRun, addresses: Addresses) -> TableView | None:
    """Return the table of turns in training responses, None if no tools were called.

    Its rows are those of ``_turns``: the policy, each tool, other roles.
    """
    tools = run.tables.tools
    training = run.tables.training().responses
    rollouts = training[training["turns"].notna()]
    if tools.empty or rollouts.empty:
        return None
    has_token_counts = rollouts["env_tokens"].notna().any() and tools["ranges"].any()
    in_tokens = bool(has_token_counts)  # else lengths are in characters
    rows = list(_turns(run, rollouts, in_tokens=in_tokens))
    columns: Columns = {
        _WHO: [Cell(row.name, row.name) for row in rows],
        _TURNS: [row.turns for row in rows],
        _PER_RESPONSE: [row.turns / len(rollouts) for row in rows],
    }
    columns |= _size_columns(rows, in_tokens=in_tokens)
    columns |= _error_columns(rows, run, addresses)
    if any(row.kind for row in rows):
        columns[_KIND] = [row.kind for row in rows]
    if tools["empty"].any():
        columns[_EMPTY] = [row.empty for row in rows]
    left_out = tools["tool"].nunique() - MOST_TOOLS
    note = ""
    if left_out > 0:
        note = plural(
            "{count} tool that is called less often is not listed.",
            "{count} tools that are called less often are not listed.",
            left_out,
        )
    return table(
        "turns",
        message("Turns and tools"),
        columns,
        hrefs=[row.tool and addresses.responses(_filter_by(row.tool)) for row in rows],
        note=note,
    )


def _size_columns(rows: Sequence[Turns], *, in_tokens: bool) -> Columns:
    """Return the mean length of a row's turns, and their share of the length of all turns.

    ``size`` of a row is the total length of its turns, ``sized`` the number of turns whose length
    is known. ``in_tokens``: whether lengths are in tokens, not in characters.
    """
    unit = message("tokens") if in_tokens else message("characters")
    mean = message("mean over turns")
    size = ColumnView("size", message("Length of a turn"), unit, help=mean)
    share = ColumnView("share", message("Share of all"), unit, written="share")
    total = sum(row.size for row in rows)
    return {
        size: [row.size / row.sized if row.sized else np.nan for row in rows],
        share: [row.size / total if total else np.nan for row in rows],
    }


def _error_columns(
    rows: Sequence[Turns], run: JudgedRun, addresses: Addresses
) -> Columns:
    """Return the error rates over all steps and, unless they are the same, of both windows."""
    overall = ColumnView(
        "errors",
        message("Error rate"),
        written="share",
        help=message("share of a tool's answers that are errors"),
    )
    columns: Columns = {overall: [_error_rate(row, addresses) for row in rows]}
    # Windows of steps, each as (first step, last step); a short run has one and the same.
    first, last = run.windows
    if first < last:
        label = message("Error rate at first")
        at_first = ColumnView("errors_first", label, span(first), written="share")
        columns[at_first] = [_rate_cell(row.errors.first) for row in rows]
        label = message("Error rate at last")
        at_last = ColumnView("errors_last", label, span(last), written="share")
        columns[at_last] = [_rate_cell(row.errors.last) for row in rows]
    return columns


def _turns(
    run: JudgedRun, rollouts: pd.DataFrame, *, in_tokens: bool
) -> Iterator[Turns]:
    """Yield the rows of the table: the policy, the tools with the most answers, other roles.

    ``rollouts`` are the training responses with turns; the table of tools has a row per step and
    tool. ``in_tokens``: whether lengths are in tokens, not in characters.
    """
    tools = run.tables.tools
    turns = float(rollouts["turns"].sum())
    of_policy = rollouts["response_tokens" if in_tokens else "response_chars"]
    # Of the policy, the length of all turns is known.
    yield Turns(message("the policy"), turns, float(of_policy.sum()), turns)
    sums = tools.groupby("tool")[list(ToolCounts._fields)].sum()
    sums = sums.sort_values("answers", ascending=False, kind="stable")
    first, last = run.windows
    overall = _error_shares(tools)
    at_first = _error_shares(tools[tools["step"].between(*first)])
    at_last = _error_shares(tools[tools["step"].between(*last)])
    for name, totals in sums.iloc[:MOST_TOOLS].iterrows():
        yield Turns(
            name=tool_label(name),
            turns=totals["answers"],
            size=totals["tokens" if in_tokens else "chars"],
            # Tokens are counted in answers whose token range is logged.
            sized=totals["ranges" if in_tokens else "answers"],
            tool=listed_tool(name),
            errors=ErrorRates(
                overall=float(overall.get(name, np.nan)),
                first=float(at_first.get(name, np.nan)),
                last=float(at_last.get(name, np.nan)),
            ),
            kind=_most_errors(totals),
            empty=totals["empty"] / totals["answers"],
        )
    if in_tokens:
        # Tokens that neither the policy nor a tool wrote; in how many turns is not logged.
        rest = float(rollouts["env_tokens"].sum() - sums["tokens"].sum())
        if rest > 0:
            yield Turns(message("others (user, template)"), np.nan, rest, 0.0)


def _filter_by(tool: str) -> str:
    """Return the state of a list of the responses in which a tool answered, with errors first."""
    return urlencode({f"has.{TOOLS.key}": tool, "sort": f"-{TOOL_ERRORS}"})


def _error_rate(row: Turns, addresses: Addresses) -> Cell:
    """Return the error rate over all steps, linked to the tool's responses with errors."""
    cell = _rate_cell(row.errors.overall)
    if row.tool and row.errors.overall > 0:
        state = f"{_filter_by(row.tool)}&min.{TOOL_ERRORS}=1"
        return cell._replace(href=addresses.responses(state))
    return cell


def _rate_cell(rate: float) -> Cell:
    return number_cell(rate, "share", message("no answers"))


def _most_errors(totals: pd.Series) -> str:
    """Return the kind of more than half of a tool's errors, "" if none is that common."""
    kind = max(ERROR_KINDS, key=lambda kind: float(totals[kind]))
    return message(ERROR_KINDS[kind]) if totals[kind] > totals["errors"] / 2 else ""


def _error_shares(tools: pd.DataFrame) -> pd.Series:
    """Return the share of each tool's answers that are errors, by the tool's name."""
    sums = tools.groupby("tool")[["answers", "errors"]].sum()
    return sums["errors"] / sums["answers"]


_ENVIRONMENT = ColumnView("environment", message("Environment"), kind="link")
_SHARE = ColumnView("share", message("Share of responses"), written="share")
_REWARD_FIRST = ColumnView("reward_first", message("First reward"))
_REWARD_BEST = ColumnView("reward_best", message("Best reward"))
_REWARD_LAST = ColumnView("reward_last", message("Last reward"))
_FINISHED = ColumnView("finished", message("Finished"), written="share")


def environments_table(report: RunReport, addresses: Addresses) -> TableView | None:
    """Return the table of environments in training responses, None if there are not several."""
    tables = report.run.tables.without_step_in_progress().training()
    environments = environments_of(tables)
    if environments is None:
        return None
    steps = environment_steps(tables, environments)
    # Environments are numbered in the order of ``labels``, each a part of the table of steps.
    numbers = sorted(steps["environment"].unique())
    parts = [steps[steps["environment"] == number] for number in numbers]
    names = environments.labels[: len(parts)]
    sizes = np.array([part["responses"].sum() for part in parts])
    rewards = [_window_means(part, "reward") for part in parts]
    lengths = [_window_means(part, "length") for part in parts]
    paths = [sparkline(part["reward"].to_numpy(np.float64)) for part in parts]
    finished = tables.responses["finished"].groupby(environments.index).mean()
    not_above = message("not above the last by more than chance")
    columns: Columns = {
        _ENVIRONMENT: [Cell(name, name) for name in names],
        _SHARE: sizes / sizes.sum(),
        REWARD_PATH: map(Cell, paths),
        _REWARD_FIRST: [means.first for means in rewards],
        _REWARD_BEST: [number_cell(m.best, why_missing=not_above) for m in rewards],
        _REWARD_LAST: [means.last for means in rewards],
    }
    columns |= _length_columns(tables, lengths)
    columns[_FINISHED] = finished.drop(-1, errors="ignore")  # -1: in no environment
    hrefs = [_environment_href(name, environments, report, addresses) for name in names]
    return table("environments", message("By environment"), columns, hrefs=hrefs)


def _length_columns(tables: Tables, lengths: Sequence[_WindowMeans]) -> Columns:
    """Return the first and the last length of each environment, in tokens or in characters."""
    unit = STEP[f"{length_column(tables.responses)}_mean"].unit
    first = ColumnView("length_first", message("First length"), unit)
    last = ColumnView("length_last", message("Last length"), unit)
    return {
        first: [means.first for means in lengths],
        last: [means.last for means in lengths],
    }


def _environment_href(
    name: str, environments: Environments, report: RunReport, addresses: Addresses
) -> str | None:
    """Return the address of an environment's responses, None for those in no list."""
    key = report.shared.environment
    if not key or name not in environments.names:
        return None
    return addresses.responses(urlencode({f"has.{key}": name}))


class _WindowMeans(NamedTuple):
    """Means of the first, best and last window."""

    first: float = np.nan
    best: float = np.nan  # NaN unless it is above the last by more than chance
    last: float = np.nan


def _window_means(by_step: pd.DataFrame, column: str) -> _WindowMeans:
    """Return the means by window of a column of one environment's steps, NaN if too few.

    ``by_step`` has a row per step.
    """
    steps = by_step["step"].to_numpy(np.int64)
    values = by_step[column].to_numpy(np.float64)
    course = course_of(Series(steps, values), column)
    if course is None:
        return _WindowMeans()
    # ``lost``: the last mean is below the best by more than chance.
    best = course.top.value if course.lost else np.nan
    return _WindowMeans(course.first.value, best, course.last.value)
