"""The page of flips: which responses a reward function of the user (``--score``) grades anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlreport.check.flips import (
    Effect,
    Flip,
    Flips,
    effect,
    flips,
    flips_by_block,
)
from rlreport.check.graded import BlockCounts, rows_of_all
from rlreport.check.laws import Bools
from rlreport.check.run import Run
from rlreport.draw.chart import Chart
from rlreport.figures.ragged import Floats, Ints
from rlreport.pages.answers import (
    REWARD,
    STEPS,
    chosen_rows,
    count_cell,
    examples_table,
    steps_cell,
    with_text,
)
from rlreport.pages.charts import drawn_charts
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.page import Addresses, Page
from rlreport.pages.table import Cell, Columns, ColumnView, TableView, table
from rlreport.tables import Rescoring
from rlreport.text.messages import figure, message, plural, sentences, span, whole

MOST_FLIPS = 8  # Maximum number of responses listed of a kind of flip

_SECOND = ColumnView("valid_reward", message("Second reward"))
_MEAN = message("mean over responses with both rewards")


@dataclass(frozen=True, slots=True)
class FlipsView:
    """What the page of flips shows; a table is None where nothing of it is known."""

    function: str  # the function's name, with its file
    summary: list[str]
    charts: list[Chart]
    blocks: TableView | None
    examples: list[TableView]
    unscored: TableView | None


class _Judged(NamedTuple):
    """What the page needs of a run; row numbers are those of the table of all responses."""

    flips: Flips
    effect: Effect | None
    blocks: list[BlockCounts[Flip]]
    rows: dict[Flip, Ints]  # those that moved most first, unless answers are graded


def flips_view(report: RunReport, addresses: Addresses) -> FlipsView:
    about = _rescoring(report.run)
    judged = report.once("flips", lambda: _judged(report.run))
    return FlipsView(
        function=about.function,
        summary=list(_summary(judged, about)),
        charts=drawn_charts(report).flips,
        blocks=_blocks_table(judged, about) if judged.blocks else None,
        examples=list(_examples(report, judged, about, addresses)),
        unscored=_unscored_table(about, addresses) if about.unscored else None,
    )


def flips_sentence(report: RunReport) -> str:
    """Return how far both rewards agree, for other pages; "" without a second reward by a function.

    It is the sentence of the page of flips.
    """
    about = report.run.tables.rescoring
    if about is None:
        return ""
    judged = report.once("flips", lambda: _judged(report.run))
    return _agreement(judged, about)


def _is_rescored(run: JudgedRun) -> bool:
    return run.tables.rescoring is not None


def _rescoring(run: JudgedRun) -> Rescoring:
    about = run.tables.rescoring
    assert about is not None  # else there is no such page
    return about


PAGE = Page("flips", message("Flips"), flips_view, _is_rescored)


def _judged(judged: JudgedRun) -> _Judged:
    tables = judged.tables.without_step_in_progress()
    run = Run(tables, judged.thresholds)
    found = flips(run)
    steps = judged.tables.responses["step"].to_numpy(np.int64)
    rows = {
        kind: rows_of_all(run, _ordered(found, kind, is_in), steps)
        for kind, is_in in found.of.items()
    }
    return _Judged(found, effect(run), flips_by_block(run), rows)


def _ordered(found: Flips, kind: Flip, is_in: Bools) -> Ints:
    """Return the rows of a kind of flip; where ranks are compared, the largest changes first."""
    rows = np.flatnonzero(is_in)
    if found.right is not None:
        return rows
    by = found.moved[rows] if kind is Flip.LOST else -found.moved[rows]
    ordered: Ints = rows[np.argsort(by, kind="stable")]
    return ordered


def _summary(judged: _Judged, about: Rescoring) -> Iterator[str]:
    if about.missing:
        text = message("{one:capital}.", one=about.missing)
        rest = message("Both curves and all counts are of scored responses only.")
        yield sentences([text, rest])
    if judged.effect is not None:
        yield effect_sentence(judged.effect, about.function)
    agreement = _agreement(judged, about)
    if agreement:
        yield agreement


def effect_sentence(found: Effect, function: str) -> str:
    """Return a sentence on the means of the reward and of the function's."""
    second = _mean_text(found.second)
    reward = _mean_text(found.reward)
    places = {
        "function": function,
        "steps": span(found.steps),
        "second": second,
        "rows": found.rows,
    }
    if second == reward:
        return message(
            "The mean reward over {steps} and that of {function} are equal: {second} "
            "({rows:count} responses with both).",
            **places,
        )
    return message(
        "With {function}, the mean reward over {steps} is {second}, not {reward} "
        "({rows:count} responses with both).",
        reward=reward,
        **places,
    )


def _mean_text(mean: float) -> str:
    return whole(mean) if mean.is_integer() else figure(mean)


def _agreement(judged: _Judged, about: Rescoring) -> str:
    """Return a sentence on how far both rewards agree, "" where nothing can be said."""
    found = judged.flips
    count = int(found.is_known.sum())
    if math.isnan(found.agreement):
        return ""
    if found.right is None:
        return message(
            "The ranks of {count:count} responses by the reward and by {function} have a "
            "correlation of {correlation:figure}.",
            count=count,
            function=about.function,
            correlation=found.agreement,
        )
    return message(
        "The reward and {function} agree on {share:percent} of {count:count} responses: "
        "{lost:count} right ones are wrong by {function}, {won:count} wrong ones are right.",
        function=about.function,
        share=found.agreement,
        count=count,
        lost=int(found.of[Flip.LOST].sum()),
        won=int(found.of[Flip.WON].sum()),
    )


_KNOWN = ColumnView(
    "known",
    message("With both rewards"),
    help=message("responses that have a reward, and a second one"),
    written="count",
)
# Flip -> label of its column
_GRADED = {
    Flip.LOST: message("Right, now wrong"),
    Flip.WON: message("Wrong, now right"),
    Flip.BOTH_RIGHT: message("Right by both"),
    Flip.BOTH_WRONG: message("Wrong by both"),
}
_RANKED = {Flip.LOST: message("Ranked lower"), Flip.WON: message("Ranked higher")}


def _blocks_table(judged: _Judged, about: Rescoring) -> TableView:
    """Return both means and the counts of flips by block of steps, the whole run last."""
    blocks = judged.blocks
    found = judged.flips
    names = [steps_cell(block.steps) for block in blocks]
    names[-1] = Cell(message("Whole run"))
    columns: Columns = {STEPS: names}
    for column, values in {REWARD: found.reward, _SECOND: found.second}.items():
        columns[_with_help(column, _MEAN)] = _means(values, blocks)
    labels = _RANKED if found.right is None else _GRADED
    for kind, label in labels.items():  # flips first: a narrow screen shows no more
        column = ColumnView(kind.value, label)
        columns[column] = [count_cell(block, kind) for block in blocks]
    columns[_KNOWN] = [block.known for block in blocks]
    caption = message("The reward and {function}", function=about.function)
    return table("flips", caption, columns, note=_meaning(found, about))


def _with_help(column: ColumnView, help: str) -> ColumnView:
    return ColumnView(column.key, column.label, help=help)


def _means(values: Floats, blocks: list[BlockCounts[Flip]]) -> list[float]:
    means = []
    for block in blocks:
        of_block = values[block.rows]
        known = of_block[np.isfinite(of_block)]
        means.append(float(known.mean()) if len(known) else math.nan)
    return means


def _meaning(found: Flips, about: Rescoring) -> str:
    """Return what right and wrong mean, or how ranks are compared."""
    if found.right is None:
        return message(
            "A response is ranked lower or higher if its rank among all changes by at least a "
            "tenth of them."
        )
    return message(
        "Right is the highest value: {reward} of the reward, {second} of {function}.",
        reward=_mean_text(found.right[0]),
        second=_mean_text(found.right[1]),
        function=about.function,
    )


def _examples(
    report: RunReport, judged: _Judged, about: Rescoring, addresses: Addresses
) -> Iterator[TableView]:
    """Yield a table of responses for each direction in which any flip."""
    for kind, caption in _captions(judged.flips, about.function).items():
        rows = judged.rows[kind]
        if not len(rows):
            continue
        if judged.flips.right is None:
            listed = with_text(report, rows)[:MOST_FLIPS].tolist()
            rule = message("those whose ranks change most")
        else:
            listed = chosen_rows(report, rows, MOST_FLIPS)
            rule = message("one per prompt, spread over the steps")
        yield examples_table(
            report,
            kind.value,
            caption,
            listed,
            addresses,
            of=len(rows),
            rule=rule,
            rewards={REWARD: "reward", _SECOND: "valid_reward"},
        )


def _captions(found: Flips, function: str) -> Mapping[Flip, str]:
    if found.right is None:
        return {
            Flip.LOST: message("Ranked lower by {function}", function=function),
            Flip.WON: message("Ranked higher by {function}", function=function),
        }
    return {
        Flip.LOST: message(
            "Right by the reward, wrong by {function}", function=function
        ),
        Flip.WON: message(
            "Wrong by the reward, right by {function}", function=function
        ),
    }


_REASON = ColumnView("reason", message("Reason"), kind="text")
_COUNT = ColumnView("count", message("Responses"), written="count")
_FIRST = ColumnView("first", message("First response"), kind="link")


def _unscored_table(about: Rescoring, addresses: Addresses) -> TableView:
    """Return the table of reasons why responses have no second reward."""
    columns: Columns = {
        _REASON: [one.reason for one in about.unscored],
        _COUNT: [one.rows for one in about.unscored],
        _FIRST: [
            Cell(
                message("step {step}, response {n}", step=one.step, n=one.n),
                float(one.step),
                href=addresses.response(one.step, one.n),
            )
            for one in about.unscored
        ],
    }
    missing = about.responses - about.scored
    caption = plural(
        "{count} response without a second reward",
        "{count} responses without a second reward",
        missing,
    )
    return table("unscored", caption, columns)
