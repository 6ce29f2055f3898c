"""Tables of agents' turns and of environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from rlreport.check.course import course_of
from rlreport.check.series import Series
from rlreport.columns import STEP
from rlreport.draw.curves import sparkline
from rlreport.draw.run_charts import tool_label
from rlreport.figures.turns import ERROR_KINDS, ToolCounts
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.listed import REWARD_PATH, TOOLS
from rlreport.pages.page import Addresses
from rlreport.pages.plan import TOOL_ERRORS
from rlreport.pages.table import Cell, ColumnView, TableView, number_cell, table
from rlreport.summarise.environments import environment_steps, environments_of
from rlreport.tables import length_column, listed_tool
from rlreport.text.messages import message, plural, span

MOST_TOOLS = 20  # Maximum number of tools in the table, those with the most answers


class Turns(NamedTuple):
    """A row of the table: all turns of the policy, of one tool, or of other roles in training."""

    name: str
    turns: float  # number of turns, NaN if unknown
    size: float  # total length of these turns in tokens, or in characters if no tokens are logged
    sized: float  # number of turns included in ``size``
    tool: str | None = (
        None  # the tool's name in ``tools_used``, None for turns of others
    )
    # error rates of the tool over all, over the first and over the last steps
    errors: tuple[float, ...] = (np.nan, np.nan, np.nan)
    kind: str = ""  # kind of most of its errors
    empty: float = np.nan  # share of its answers without text


_WHO = ColumnView("who", message("Turns of"), kind="link")
_TURNS = ColumnView("turns", message("Turns"), written="count")
_PER_RESPONSE = ColumnView("per_response", message("Turns per response"))


def turns_table(run: JudgedRun, addresses: Addresses) -> TableView | None:
    """Return the table of turns in training responses, None if no tools were called."""
    tools = run.tables.tools
    training = run.tables.training().responses
    rollouts = training[training["turns"].notna()]
    if tools.empty or rollouts.empty:
        return None
    in_tokens = bool(rollouts["env_tokens"].notna().any() and tools["ranges"].any())
    rows = list(_rows(run, rollouts, in_tokens=in_tokens))
    total = sum(row.size for row in rows)
    unit = message("tokens") if in_tokens else message("characters")
    first, last = run.windows
    size = ColumnView(
        "size", message("Length of a turn"), unit, help=message("mean over turns")
    )
    share = ColumnView("share", message("Share of all"), unit, written="share")
    errors = [
        ColumnView("errors", message("Error rate"), written="share",
                   help=message("share of a tool's answers that are errors")),
        ColumnView("errors_first", message("Error rate at first"), span(first), written="share"),
        ColumnView("errors_last", message("Error rate at last"), span(last), written="share"),
    ]  # fmt: skip
    kind = ColumnView("kind", message("Most errors"), kind="text")
    empty = ColumnView("empty", message("Empty answers"), written="share")
    left_out = tools["tool"].nunique() - MOST_TOOLS
    return table(
        "turns",
        message("Turns and tools"),
        {
            _WHO: [Cell(row.name, row.name) for row in rows],
            _TURNS: [row.turns for row in rows],
            _PER_RESPONSE: [row.turns / len(rollouts) for row in rows],
            size: [row.size / row.sized if row.sized else np.nan for row in rows],
            share: [row.size / total if total else np.nan for row in rows],
            **{
                column: [_error_rate(row, i, addresses) for row in rows]
                for i, column in enumerate(errors if first < last else errors[:1])
            },
            **(
                {kind: [row.kind for row in rows]}
                if any(row.kind for row in rows)
                else {}
            ),
            **({empty: [row.empty for row in rows]} if tools["empty"].any() else {}),
        },
        hrefs=[row.tool and addresses.responses(_filter_by(row.tool)) for row in rows],
        note=plural(
            "{count} tool that is called less often is not listed.",
            "{count} tools that are called less often are not listed.",
            left_out,
        )
        if left_out > 0
        else "",
    )


def _rows(
    run: JudgedRun, rollouts: pd.DataFrame, *, in_tokens: bool
) -> Iterator[Turns]:
    tools = run.tables.tools
    turns = float(rollouts["turns"].sum())
    of_policy = rollouts["response_tokens" if in_tokens else "response_chars"]
    yield Turns(message("the policy"), turns, float(of_policy.sum()), turns)
    sums = tools.groupby("tool")[list(ToolCounts._fields)].sum()
    sums = sums.sort_values("answers", ascending=False, kind="stable")
    windows = [(tools["step"].min(), tools["step"].max()), *run.windows]
    shares = [
        _error_shares(tools[tools["step"].between(*window)]) for window in windows
    ]
    for name, totals in sums.iloc[:MOST_TOOLS].iterrows():
        yield Turns(
            tool_label(name),
            totals["answers"],
            totals["tokens" if in_tokens else "chars"],
            totals["ranges" if in_tokens else "answers"],
            listed_tool(name),
            tuple(float(share.get(name, np.nan)) for share in shares),
            _most_errors(totals),
            totals["empty"] / totals["answers"],
        )
    rest = (
        float(rollouts["env_tokens"].sum() - sums["tokens"].sum()) if in_tokens else 0.0
    )
    if rest > 0:
        yield Turns(message("others (user, template)"), np.nan, rest, 0.0)


def _filter_by(tool: str) -> str:
    """Return the state of a list of the responses in which a tool answered, with errors first."""
    return urlencode({f"has.{TOOLS.key}": tool, "sort": f"-{TOOL_ERRORS}"})


def _error_rate(row: Turns, window: int, addresses: Addresses) -> Cell:
    """Return an error rate; that over all steps links to the tool's responses with errors."""
    cell = number_cell(row.errors[window], "share", message("no answers"))
    if window == 0 and row.tool and row.errors[0] > 0:
        state = f"{_filter_by(row.tool)}&min.{TOOL_ERRORS}=1"
        return cell._replace(href=addresses.responses(state))
    return cell


def _most_errors(totals: pd.Series) -> str:
    """Return the kind of more than half of a tool's errors, "" if none is that common."""
    kind = max(ERROR_KINDS, key=lambda kind: float(totals[kind]))
    return message(ERROR_KINDS[kind]) if totals[kind] > totals["errors"] / 2 else ""


def _error_shares(tools: pd.DataFrame) -> pd.Series:
    sums = tools.groupby("tool")[["answers", "errors"]].sum()
    return sums["errors"] / sums["answers"]


_ENVIRONMENT = ColumnView("environment", message("Environment"), kind="link")
_SHARE = ColumnView("share", message("Share of responses"), written="share")
_FINISHED = ColumnView("finished", message("Finished"), written="share")


def environments_table(report: RunReport, addresses: Addresses) -> TableView | None:
    """Return the table of environments in training responses, None if there are not several."""
    tables = report.run.tables.without_step_in_progress().training()
    if (environments := environments_of(tables)) is None:
        return None
    steps = environment_steps(tables, environments)
    parts = [
        steps[steps["environment"] == i] for i in sorted(steps["environment"].unique())
    ]
    sizes = np.array([part["responses"].sum() for part in parts])
    names = environments.labels[: len(parts)]
    unit = STEP[f"{length_column(tables.responses)}_mean"].unit
    first, best, last = zip(*(_ends(part, "reward") for part in parts), strict=True)
    length_first, _, length_last = zip(
        *(_ends(part, "length") for part in parts), strict=True
    )
    not_above = message("not above the last by more than chance")
    key = report.shared.environment
    finished = tables.responses["finished"].groupby(environments.index).mean()
    return table(
        "environments",
        message("By environment"),
        {
            _ENVIRONMENT: [Cell(name, name) for name in names],
            _SHARE: sizes / sizes.sum(),
            REWARD_PATH: [
                Cell(sparkline(part["reward"].to_numpy(np.float64))) for part in parts
            ],
            ColumnView("reward_first", message("First reward")): first,
            ColumnView("reward_best", message("Best reward")): [
                number_cell(value, why_missing=not_above) for value in best
            ],
            ColumnView("reward_last", message("Last reward")): last,
            ColumnView("length_first", message("First length"), unit): length_first,
            ColumnView("length_last", message("Last length"), unit): length_last,
            _FINISHED: finished.drop(-1, errors="ignore"),
        },
        hrefs=[
            addresses.responses(urlencode({f"has.{key}": name}))
            if key and name in environments.names
            else None
            for name in names
        ],
    )


def _ends(part: pd.DataFrame, column: str) -> tuple[float, ...]:
    """Return the means of the first, best and last window; NaN for a best not above the last."""
    series = Series(part["step"].to_numpy(np.int64), part[column].to_numpy(np.float64))
    course = course_of(series, column)
    if course is None:
        return (np.nan,) * 3
    best = course.best.value if course.lost else np.nan
    return course.first.value, best, course.last.value
