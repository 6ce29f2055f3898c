"""Prompts won and lost: their table, and the pairs of responses for mail and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.columns import STEP
from rlreport.comparison import words
from rlreport.comparison.outcome import Flip
from rlreport.pages.listed import PROMPT_TEXT
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    name_cell,
    table,
)
from rlreport.text.messages import Joined, figure, message, plural
from rlreport.text.numbers import MISSING

# Maximum characters of each prompt and response on a comparison's page, which has hundreds
MAX_CHARACTERS = 20_000
_END = MAX_CHARACTERS // 4  # characters that are kept of the end of a longer one

_REWARD = message("mean reward of the prompt in the window")
_REWARD_TERM = STEP["reward_mean"].term
FLIP_NUMBERS = (
    ColumnView(
        "delta",
        message("Difference"),
        help=message("NEW − BASE, mean rewards of the window"),
        term=_REWARD_TERM,
    ),
    ColumnView("base", message("BASE"), help=_REWARD, term=_REWARD_TERM),
    ColumnView("new", message("NEW"), help=_REWARD, term=_REWARD_TERM),
)
_NEAREST = message("the response whose reward is nearest to the prompt's mean")
_NUMBER = ColumnView(
    "n", "#", help=message("the clearest difference first"), written="count"
)
_NEW_TEXT = ColumnView(
    "response", message("NEW's response"), kind="text", help=_NEAREST
)
_BASE_TEXT = ColumnView(
    "ref_response", message("BASE's response"), kind="text", help=_NEAREST
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The responses of both runs to a prompt."""

    title: str
    prompt: str
    base: str
    new: str


def flips_table(flips: Sequence[Flip]) -> TableView:
    """Return the table of prompts won and lost, numbered from 1, with their responses."""
    ids = range(1, len(flips) + 1)
    columns: Columns = {_NUMBER: map(name_cell, ids)}
    columns |= attribute_columns(flips, FLIP_NUMBERS)
    columns[PROMPT_TEXT] = map(_prompt, flips)
    columns[_NEW_TEXT] = [_response_cell(flip.new_text) for flip in flips]
    columns[_BASE_TEXT] = [_response_cell(flip.base_text) for flip in flips]
    hrefs = (f"#r={number}" for number in ids)  # open the response panel
    return table(
        "flips", message("Prompts won and lost"), columns, ids=ids, hrefs=hrefs
    )


def _response_cell(text: str | None) -> str | Cell:
    if text is None:
        return Cell(MISSING, None, message("not in the report"))
    return _cut(text)


def _prompt(flip: Flip) -> str:
    if flip.prompt is None:
        return message("[prompt {number:count}]", number=flip.number)
    return _cut(flip.prompt)


def _cut(text: str) -> str:
    """Cut the middle of a long text: its end has the answer."""
    left = len(text) - MAX_CHARACTERS
    if left <= 0:
        return text
    cut = plural("[{count} character left out]", "[{count} characters left out]", left)
    return Joined("\n", [text[: MAX_CHARACTERS - _END], cut, text[-_END:]])


def pair_of(flip: Flip) -> Pair:
    """Return the responses to a prompt won or lost, with its rewards as the title."""
    title = message(
        "{change} (reward {base} → {new})",
        change=words.signed(flip.delta),
        base=figure(flip.base),
        new=figure(flip.new),
    )
    return Pair(
        title=title,
        prompt=_prompt(flip),
        base=_cut(flip.base_text or ""),
        new=_cut(flip.new_text or ""),
    )
