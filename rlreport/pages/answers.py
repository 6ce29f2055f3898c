"""Cells of tables that list some responses as examples, with what they earn and answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from rlreport.check.graded import BlockCounts, Kind
from rlreport.figures.ragged import Ints
from rlreport.pages.context import RunReport
from rlreport.pages.extremes import responses_of
from rlreport.pages.page import Addresses
from rlreport.pages.table import Cell, Columns, ColumnView, TableView, table
from rlreport.read.rollouts import Rollout
from rlreport.text.labels import final_answer
from rlreport.text.messages import message

MOST_EXAMPLES = 3  # Maximum number of responses listed of an outcome
END_CHARS = 240  # Maximum number of characters of a response's end
LABEL_CHARS = 60  # Maximum number of characters of a label
FULL_BAR = 20  # Bars of cells are in twentieths

STEPS = ColumnView("steps", message("Steps"), kind="link")
RESPONSE = ColumnView("which", message("Response"), kind="link")
REWARD = ColumnView("reward", message("Reward"))
LABEL = ColumnView(
    "ground_truth", message("Label"), kind="text", help=message("the end of a long one")
)
END = ColumnView(
    "end",
    message("End of the response"),
    kind="text",
    help=message("or, if its answer stands further up, the text around the answer"),
)


def count_cell(block: BlockCounts[Kind], kind: Kind) -> Cell:
    """Return a count with its share of the block's known responses, which is its bar, too."""
    count = block.counts[kind]
    share = count / block.known
    text = message("{count:count} ({share:percent})", count=count, share=share)
    return Cell(text, share, bar=int(np.ceil(FULL_BAR * share)))


def steps_cell(steps: tuple[int, int]) -> Cell:
    first, last = steps
    text = str(first) if first == last else f"{first}–{last}"
    return Cell(text, float(first))


def chosen_rows(report: RunReport, rows: Ints, most: int = MOST_EXAMPLES) -> list[int]:
    """Choose up to ``most`` of these rows, spread over the steps, of different prompts.

    Only rows with texts are chosen; if pages of steps show any of them, only such rows.
    """
    usable = with_text(report, rows)
    prompts = report.run.tables.responses["prompt_id"].to_numpy()
    chosen: dict[int, int] = {}  # prompt -> row
    for part in np.array_split(usable, min(most, max(len(usable), 1))):
        latest_first = part[::-1].tolist()
        of_new_prompt = [row for row in latest_first if prompts[row] not in chosen]
        if of_new_prompt:
            row = of_new_prompt[0]
            chosen[int(prompts[row])] = row
    return sorted(chosen.values())


def with_text(report: RunReport, rows: Ints) -> Ints:
    """Return which of these rows have a text, of them those that pages of steps show, if any."""
    has_text = report.run.tables.responses["has_texts"].to_numpy()[rows] == 1
    usable: Ints = rows[has_text]
    shown: Ints = usable[np.isin(usable, _shown_rows(report))]
    return shown if len(shown) else usable


def _shown_rows(report: RunReport) -> Ints:
    """Return the rows of the responses that pages of steps show, int64, in no order."""
    return np.concatenate([np.zeros(0, np.int64), *report.shown_rows])


def examples_table(
    report: RunReport,
    name: str,
    caption: str,
    listed: Sequence[int],
    addresses: Addresses,
    *,
    of: int,
    rule: str = "",
    rewards: Mapping[ColumnView, str] = MappingProxyType({REWARD: "reward"}),
) -> TableView:
    """Return a table of responses as examples.

    Args:
        report: the report.
        name: of the table.
        caption: of the table.
        listed: the responses, as rows of the response table; they have texts.
        addresses: relative to the page.
        of: how many responses these are examples of.
        rule: how they were chosen.
        rewards: columns with what they earn -> columns of the response table.
    """
    note = ""
    if not listed:
        note = message("The report has the text of none of these responses.")
    elif len(listed) < of:
        note = _part_in_words(len(listed), of, rule)
    by_row = responses_of(report, listed)
    rollouts = [by_row[row] for row in listed]
    responses = report.run.tables.responses
    columns: Columns = {
        RESPONSE: [response_cell(report, row, by_row, addresses) for row in listed]
    }
    for column, earned in rewards.items():
        columns[column] = responses[earned].to_numpy(np.float64)[listed]
    columns[LABEL] = map(label_cell, rollouts)
    columns[END] = [end_of(rollout) for rollout in rollouts]
    ids = [f"{rollout.step}-{rollout.n}" for rollout in rollouts]
    return table(name, caption, columns, ids=ids, note=note)


def _part_in_words(some: int, of: int, rule: str) -> str:
    if not rule:
        return message("{some:count} of {all:count} responses.", some=some, all=of)
    return message(
        "{some:count} of {all:count} responses: {rule}.", some=some, all=of, rule=rule
    )


def response_cell(
    report: RunReport, row: int, by_row: Mapping[int, Rollout], addresses: Addresses
) -> Cell:
    """Return the name of a response, linked to it if a page of a step shows it."""
    rollout = by_row[row]
    text = message("step {step}, response {n}", step=rollout.step, n=rollout.n)
    is_shown = row in _shown_rows(report)
    href = addresses.response(rollout.step, rollout.n) if is_shown else None
    return Cell(text, float(rollout.step), href=href)


def label_cell(rollout: Rollout) -> str | Cell:
    """Return the end of a label, which is what answers are compared with."""
    label = rollout.ground_truth
    if label is None:  # a list with one item is a label, but no text
        return Cell("–", None, message("not a text"))
    label = " ".join(label.split())
    if len(label) > LABEL_CHARS:
        label = "…" + label[1 - LABEL_CHARS :]
    return label


def end_of(rollout: Rollout) -> str:
    """Return the end of a response or, if its answer stands further up, the text around that."""
    text = rollout.response
    if not rollout.hidden:  # the number of a placeholder is that of all its turns
        text = _last_turn(rollout) or text
    text = " ".join(text.split())
    if not text:
        return message("(empty)")
    if len(text) <= END_CHARS:
        return text
    start = len(text) - END_CHARS + 1
    answer = final_answer(text)
    place = text.rfind(answer.text) if answer.text else -1
    if not answer.is_explicit or place < 0 or place >= start:
        return "…" + text[start:]
    start = max(0, place - END_CHARS // 2)
    part = text[start : start + END_CHARS - 1]
    return ("…" if start else "") + part + "…"


def _last_turn(rollout: Rollout) -> str:
    """Return the last text that the policy wrote in a conversation, "" without turns.

    It is what labels are compared with.
    """
    for turn in reversed(rollout.conversation):
        if turn.sampled and turn.text.strip():
            return turn.text
    return ""
