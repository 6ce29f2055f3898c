"""The page of the grader: which answers earn what, for readers who judge the grader themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import quantities
from rlreport.check.course import Course, course_of
from rlreport.check.graded import (
    BlockCounts,
    EqualSets,
    Outcome,
    equal_sets,
    outcomes,
    outcomes_by_block,
    reward_range,
    rows_of_all,
)
from rlreport.check.judges.labels import LEAST_ROWS
from rlreport.check.parts import metrics_of_parts
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.draw.sparkline import sparkline
from rlreport.figures.ragged import Ints
from rlreport.pages.answers import (
    END,
    RESPONSE,
    REWARD,
    STEPS,
    chosen_rows,
    count_cell,
    end_of,
    examples_table,
    response_cell,
    steps_cell,
    with_text,
)
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.extremes import responses_of
from rlreport.pages.flips import flips_sentence
from rlreport.pages.listed import PROMPT_TEXT, listed_prompt
from rlreport.pages.page import Addresses, Page
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    Link,
    TableView,
    number_cell,
    table,
)
from rlreport.tables import RowRole, Tables
from rlreport.text.messages import figure, message, plural, sentences, whole

MOST_SETS = 5  # Maximum number of sets of equal responses listed
MOST_PARTS = 30  # Maximum number of parts of the reward listed
PROMPT_CHARS = 120


@dataclass(frozen=True, slots=True)
class GraderView:
    """What the page of the grader shows; a table is None where nothing of it is known."""

    summary: list[str]  # how many responses have the outcomes to look at
    outcomes: TableView | None
    examples: list[TableView]
    parts: TableView | None
    equal: str  # how many equal responses have different rewards, "" without equal ones
    unequal: TableView | None
    unknown: list[str]  # what the page does not tell, and why
    # how far a reward function of the user agrees, and where that is shown; None without one
    flips: Link | None


class _Graded(NamedTuple):
    """What the page needs of a run; row numbers are those of the table of all responses."""

    blocks: list[BlockCounts[Outcome]]
    lowest: float
    highest: float
    responses: int  # number of training responses that are judged
    rows: dict[Outcome, Ints]
    parts: dict[str, Series]
    reward: Series  # the whole reward, which the parts are compared with
    equal: EqualSets


def grader_view(report: RunReport, addresses: Addresses) -> GraderView:
    graded = report.once("graded", lambda: _graded(report.run))
    agreement = flips_sentence(report)
    return GraderView(
        summary=list(_summary(graded)),
        outcomes=_outcomes_table(graded) if graded.blocks else None,
        examples=list(_examples(report, graded, addresses)),
        parts=_parts_table(graded) if graded.parts else None,
        equal=_equal_sentence(graded.equal),
        unequal=_unequal_table(report, graded.equal, addresses),
        unknown=_unknown(report.run.tables, graded),
        flips=Link(agreement, addresses.page("flips")) if agreement else None,
    )


def _is_graded(run: JudgedRun) -> bool:
    """Return whether training responses log labels and rewards, or parts of the reward."""
    if not run.has_responses:
        return False
    metrics = run.tables.metrics.columns[1:]  # without the step
    if metrics_of_parts(map(str, metrics)):
        return True
    responses = run.tables.responses
    has_both = responses["label_hit"].notna() & responses["reward"].notna()
    parts = run.tables.extras[run.tables.reward_parts].select_dtypes(["number", "bool"])
    has_part = parts.notna().any(axis=1)
    is_training = responses["validation"] == RowRole.TRAINING
    return bool((is_training & (has_both | has_part)).any())


PAGE = Page("grader", message("Grader"), grader_view, _is_graded)


def _graded(judged: JudgedRun) -> _Graded:
    """Compute what the page needs once: its tables are written anew for each size of a report."""
    tables = judged.tables.without_step_in_progress()
    run = Run(tables, judged.thresholds)
    steps = judged.tables.responses["step"].to_numpy(np.int64)
    lowest, highest = reward_range(run)
    rows = {
        outcome: rows_of_all(run, np.flatnonzero(is_in), steps)
        for outcome, is_in in outcomes(run).items()
    }
    equal = equal_sets(run)
    return _Graded(
        blocks=outcomes_by_block(run),
        lowest=lowest,
        highest=highest,
        responses=len(run.responses),
        rows=rows,
        parts=quantities.reward_parts(run),
        reward=quantities.reward(run),
        equal=equal._replace(rows=rows_of_all(run, equal.rows, steps)),
    )


def _summary(graded: _Graded) -> Iterator[str]:
    """Yield sentences on the whole run: how many of the responses to look at there are."""
    if not graded.blocks:
        return
    of_run = graded.blocks[-1]
    counts = of_run.counts
    if Outcome.RIGHT in counts:
        yield plural(
            "All responses earn {reward}; {count} of {all:count} ends with its label.",
            "All responses earn {reward}; {count} of {all:count} end with their label.",
            counts[Outcome.RIGHT],
            reward=_reward_text(graded.lowest),
            all=of_run.known,
        )
        return
    low = counts[Outcome.LOW_RIGHT] + counts[Outcome.LOW_WRONG]
    best = counts[Outcome.BEST_RIGHT] + counts[Outcome.BEST_WRONG]
    if low:
        yield plural(
            "{count} of {all:count} responses with the lowest reward, {reward}, ends with its "
            "label.",
            "{count} of {all:count} responses with the lowest reward, {reward}, end with their "
            "label.",
            counts[Outcome.LOW_RIGHT],
            all=low,
            reward=_reward_text(graded.lowest),
        )
    if best:
        yield plural(
            "{count} of {all:count} responses with the best reward, {reward}, ends with its label.",
            "{count} of {all:count} responses with the best reward, {reward}, end with their "
            "label.",
            counts[Outcome.BEST_RIGHT],
            all=best,
            reward=_reward_text(graded.highest),
        )


def _reward_text(reward: float) -> str:
    return whole(reward) if reward.is_integer() else figure(reward)


_LABELLED = ColumnView(
    "labelled",
    message("With a label"),
    help=message(
        "responses with a reward and a label that answers can be compared with"
    ),
    written="count",
)
# Outcome -> label and help of its column
_COLUMNS = {
    Outcome.BEST_RIGHT: (
        message("Best reward, ends with label"),
        message("the best reward of the run, and the response ends with its label"),
    ),
    Outcome.BEST_WRONG: (
        message("Best reward, other answer"),
        message(
            "the best reward of the run, but the response does not end with its label"
        ),
    ),
    Outcome.LOW_RIGHT: (
        message("Lowest reward, ends with label"),
        message("the lowest reward of the run, but the response ends with its label"),
    ),
    Outcome.LOW_WRONG: (
        message("Lowest reward, other answer"),
        message(
            "the lowest reward of the run, and the response does not end with its label"
        ),
    ),
    Outcome.OTHER: (
        message("Other rewards"),
        message("neither the best reward of the run nor the lowest"),
    ),
    Outcome.RIGHT: (
        message("Ends with its label"),
        message("the response ends with its label"),
    ),
    Outcome.WRONG: (
        message("Other answer"),
        message("the response does not end with its label"),
    ),
}


def _outcomes_table(graded: _Graded) -> TableView:
    """Return the counts and shares of outcomes by block of steps, the whole run last."""
    blocks = graded.blocks
    names = [steps_cell(block.steps) for block in blocks]
    names[-1] = Cell(message("Whole run"))
    columns: Columns = {
        STEPS: names,
        _LABELLED: [block.known for block in blocks],
    }
    for outcome, count in blocks[-1].counts.items():
        if outcome is Outcome.OTHER and not count:
            continue
        label, explanation = _COLUMNS[outcome]
        column = ColumnView(outcome.value, label, help=explanation)
        columns[column] = [count_cell(block, outcome) for block in blocks]
    compared = message(
        "A response ends with its label if its final answer is the logged label: what it marks as "
        "its answer (in a tag or a box, after “Answer:”), otherwise its last words."
    )
    too_few = message(
        "Blocks of steps have at least {least:count} responses with a label.",
        least=LEAST_ROWS,
    )
    note = sentences([compared, too_few if len(blocks) == 1 else ""])
    return table("outcomes", message("Rewards and labels"), columns, note=note)


def _examples(
    report: RunReport, graded: _Graded, addresses: Addresses
) -> Iterator[TableView]:
    """Yield a table of responses for each outcome that a grader without faults hardly has."""
    for outcome, caption in _captions(graded).items():
        rows = graded.rows[outcome]
        if len(rows):
            listed = chosen_rows(report, rows)
            yield examples_table(
                report, outcome.value, caption, listed, addresses, of=len(rows)
            )


def _captions(graded: _Graded) -> dict[Outcome, str]:
    """Return the outcomes to show examples of, each with its caption."""
    lowest = _reward_text(graded.lowest)
    highest = _reward_text(graded.highest)
    unpaid = message("Reward {reward}, ends with its label", reward=lowest)
    overpaid = message("Reward {reward}, does not end with its label", reward=highest)
    if Outcome.LOW_RIGHT in graded.rows:
        return {Outcome.LOW_RIGHT: unpaid, Outcome.BEST_WRONG: overpaid}
    # Without a higher reward, 0 and less are the lowest rewards of usual graders.
    if graded.lowest <= 0:
        return {Outcome.RIGHT: unpaid}
    return {Outcome.WRONG: overpaid}


_PART = ColumnView("part", message("Part"), kind="text")
_PATH = ColumnView("path", message("Over the steps"), kind="path")
_AT_STEPS = message("the steps of this level")


def _level_columns(name: str, label: str) -> tuple[ColumnView, ColumnView]:
    """Return the columns of a level and of its steps."""
    return (
        ColumnView(name, label, help=message("mean over the responses of these steps")),
        ColumnView(f"{name}_steps", message("Steps"), help=_AT_STEPS),
    )


_FIRST = _level_columns("first", message("First"))
_HIGHEST = _level_columns("highest", message("Highest"))
_LAST = _level_columns("last", message("Last"))


def _parts_table(graded: _Graded) -> TableView:
    """Return the course of each part of the reward, below that of the whole reward."""
    names = list(graded.parts)
    listed: dict[str, Series] = {message("the whole reward"): graded.reward}
    listed |= {name: graded.parts[name] for name in names[:MOST_PARTS]}
    courses: dict[str, Course] = {}
    for name, series in listed.items():
        course = course_of(series, name)
        if course is not None:
            courses[name] = course
    note = ""
    if len(names) > MOST_PARTS:
        note = message(
            "{some:count} of {all:count} parts.", some=MOST_PARTS, all=len(names)
        )
    return table(
        "reward-parts",
        message("Parts of the reward"),
        _course_columns(courses),
        note=note,
    )


def _course_columns(courses: Mapping[str, Course]) -> Columns:
    lines = [sparkline(course.values, course.steps) for course in courses.values()]
    columns: Columns = {_PART: list(courses), _PATH: map(Cell, lines)}
    levels = {
        _FIRST: [course.first for course in courses.values()],
        _HIGHEST: [course.curve.highest for course in courses.values()],
        _LAST: [course.last for course in courses.values()],
    }
    for (value, steps), of_courses in levels.items():
        columns[value] = [number_cell(level.value) for level in of_courses]
        columns[steps] = [steps_cell(level.steps) for level in of_courses]
    return columns


def _equal_sentence(equal: EqualSets) -> str:
    if not equal.set_count:
        return ""
    return message(
        "{sets:count} of {of:count} sets of equal responses to one prompt in one step have "
        "different rewards.",
        sets=equal.unequal_count,
        of=equal.set_count,
    )


_EQUAL = ColumnView("equal", message("Equal response"), kind="link")
_EQUAL_REWARD = ColumnView("equal_reward", message("Its reward"))
_SIZE = ColumnView(
    "size", message("Responses"), help=message("responses of the set"), written="count"
)


def _unequal_table(
    report: RunReport, equal: EqualSets, addresses: Addresses
) -> TableView | None:
    """Return two responses of each set with the largest differences of rewards, None without."""
    if not equal.unequal_count:
        return None
    pairs = _pairs(report, equal)
    lows = pairs["low"].tolist()
    highs = pairs["high"].tolist()
    rollouts = responses_of(report, [*lows, *highs])
    prefixes = report.shared.prefixes
    columns: Columns = {
        RESPONSE: [response_cell(report, row, rollouts, addresses) for row in lows],
        REWARD: pairs["low_reward"],
        _EQUAL: [response_cell(report, row, rollouts, addresses) for row in highs],
        _EQUAL_REWARD: pairs["high_reward"],
        _SIZE: pairs["size"],
        PROMPT_TEXT: [listed_prompt(rollouts[r], prefixes, PROMPT_CHARS) for r in lows],
        END: [end_of(rollouts[row]) for row in lows],
    }
    note = ""
    if not lows:
        note = message("The report has the text of none of these responses.")
    elif len(lows) < equal.unequal_count:
        note = message(
            "{some:count} of {all:count} sets: those with the largest differences.",
            some=len(lows),
            all=equal.unequal_count,
        )
    caption = message("Equal responses with different rewards")
    return table("equal-responses", caption, columns, note=note)


def _pairs(report: RunReport, equal: EqualSets) -> pd.DataFrame:
    """Return the lowest and the highest response of each listed set, by their difference.

    Columns: ``low`` and ``high`` are rows of the table of responses, ``low_reward`` and
    ``high_reward`` what they earn, ``size`` the number of responses of the set.
    """
    frame = pd.DataFrame(
        {"row": equal.rows, "set": equal.set_of, "reward": equal.rewards}
    )
    frame["size"] = frame.groupby("set")["row"].transform("size")
    frame = frame[frame["row"].isin(with_text(report, equal.rows))]
    frame = frame.sort_values(["set", "reward", "row"], kind="stable")
    lowest = frame.drop_duplicates("set")
    highest = frame.drop_duplicates("set", keep="last")
    pairs = pd.DataFrame(
        {
            "low": lowest["row"].to_numpy(),
            "high": highest["row"].to_numpy(),
            "low_reward": lowest["reward"].to_numpy(),
            "high_reward": highest["reward"].to_numpy(),
            "size": lowest["size"].to_numpy(),
        }
    )
    difference = pairs["high_reward"] - pairs["low_reward"]
    pairs = pairs.assign(difference=difference)[difference > 0]
    return pairs.sort_values(
        ["difference", "low"], ascending=[False, True], kind="stable"
    ).head(MOST_SETS)


def _unknown(tables: Tables, graded: _Graded) -> list[str]:
    """Return what the page does not tell, and why."""
    unknown = []
    if not graded.blocks:
        unknown.append(_why_no_labels(tables))
    else:
        labelled = graded.blocks[-1].known
        if labelled < graded.responses:
            text = message(
                "{some:count} of {all:count} responses have no reward, or no label that answers "
                "can be compared with: a number, a choice or a few words.",
                some=graded.responses - labelled,
                all=graded.responses,
            )
            unknown.append(text)
    if not graded.parts:
        unknown.append(message("The log has no parts of the reward (reward_parts)."))
    if not graded.equal.set_count:
        text = message(
            "No two responses of a step to one prompt are equal, so whether equal ones earn the "
            "same is not known."
        )
        unknown.append(text)
    return unknown


def _why_no_labels(tables: Tables) -> str:
    if not tables.fields.get("ground_truth"):
        return message(
            "Which answers are right is not known: ground_truth is not logged."
        )
    return message(
        "Which answers are right is not known: no response has a reward and a label that answers "
        "can be compared with, such as a number, a choice or a few words."
    )
