"""Prompts won and lost: their table, and the pairs of responses for mail and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.columns import STEP
from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.comparison.words import signed
from rlreport.pages.compare.heads import BASE, NEW, of_sides
from rlreport.pages.listed import PROMPT_TEXT, PromptText, prompt_prefixes
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    name_cell,
    table,
)
from rlreport.text.clean import one_line, shared_beginning
from rlreport.text.messages import Joined, figure, message, plural, translatable
from rlreport.text.numbers import MISSING

# Maximum characters of each prompt and response on a comparison's page, which has hundreds
MAX_CHARACTERS = 20_000
# Characters of a response's end, which the list shows. Twin of that in
# static/js/list/text-parts.js
END_CHARS = 110
LONGEST_NAME = 80  # Characters of a prompt as a title
_LAST = MAX_CHARACTERS // 4  # characters that are kept of the end of a longer one

_NUMBER = ColumnView(
    "n", "#", help=message("the clearest difference first"), written="count"
)
_REWARD_TERM = STEP["reward_mean"].term
_DELTA = ColumnView(
    "delta",
    message("Difference"),
    help=message("NEW − BASE, mean rewards of the window"),
    term=_REWARD_TERM,
)
_REWARD = ColumnView(
    "",
    "",
    help=message("mean reward of the prompt in the window"),
    term=_REWARD_TERM,
)
_NEAREST = message("the response whose reward is nearest to the prompt's mean")
# Changes of ``Comparison.prompt_changes`` that a row of the list names
_BADGES = {
    "improved": translatable("improved"),
    "regressed": translatable("regressed"),
}


def flip_numbers(labels: Labels) -> tuple[ColumnView, ...]:
    """Return the columns of numbers: the difference, and the mean reward of each side."""
    return (_DELTA, *of_sides(_REWARD, labels))


@dataclass(frozen=True, slots=True)
class Pair:
    """The responses of both runs to a prompt."""

    name: str  # of the prompt: a short line of it
    change: str  # of its mean reward
    prompt: str
    base: str
    new: str
    # ends of both responses, a line each
    base_end: str
    new_end: str


def flips_table(flips: Sequence[Flip], outcome: Outcome) -> TableView:
    """Return the table of prompts won and lost, numbered from 1, with the ends of responses."""
    labels = outcome.labels
    ids = range(1, len(flips) + 1)
    columns: Columns = {_NUMBER: map(name_cell, ids)}
    columns |= attribute_columns(flips, flip_numbers(labels))
    prefixes = shared_prefixes(flips)
    columns[PROMPT_TEXT] = [_listed_prompt(flip, prefixes) for flip in flips]
    for key, side, name, texts in (
        ("ref_response", BASE, labels.base, [flip.base_text for flip in flips]),
        ("response", NEW, labels.new, [flip.new_text for flip in flips]),
    ):
        columns[_response_column(key, side, name)] = map(_response_cell, texts)
    changes = outcome.comparison.prompt_changes
    change_of = dict(zip(changes["pair"].tolist(), changes["change"], strict=True))
    return table(
        "flips",
        message("Prompts won and lost"),
        columns,
        ids=ids,
        hrefs=(f"#r={number}" for number in ids),  # open the response panel
        badges=[_badges(change_of.get(flip.pair, "")) for flip in flips],
    )


def _response_column(key: str, side: str, name: str) -> ColumnView:
    return ColumnView(
        key,
        message("Response of {name}", name=name),
        message("{side}, its end", side=side),
        kind="text",
        help=_NEAREST,
    )


def _badges(change: str) -> list[str]:
    return [message(_BADGES[change])] if change in _BADGES else []


def _response_cell(text: str | None) -> str | Cell:
    if text is None:
        return Cell(MISSING, None, message("not in the report"))
    if len(text) <= END_CHARS:
        return text
    return Cell(_cut(text[:-END_CHARS]), end=text[-END_CHARS:])


def shared_prefixes(flips: Sequence[Flip]) -> tuple[str, ...]:
    """Return the beginnings that most prompts have, which the list hides."""
    return prompt_prefixes(flip.prompt for flip in flips if flip.prompt)


def _listed_prompt(flip: Flip, prefixes: Sequence[str]) -> str:
    text = _prompt(flip)
    return PromptText(text, prefixes) if text == flip.prompt else text


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
    return Joined("\n", [text[: MAX_CHARACTERS - _LAST], cut, text[-_LAST:]])


def pairs_of(flips: Sequence[Flip]) -> list[Pair]:
    """Return the responses to the prompts won or lost whose texts are kept."""
    with_texts = [flip for flip in flips if None not in (flip.base_text, flip.new_text)]
    prompts = [flip.prompt or "" for flip in with_texts]
    # What all prompts begin with, such as an instruction, tells none from the others.
    shared = 0
    if len(prompts) > 1:
        shared = shared_beginning(min(prompts), max(prompts))
    return [_pair(flip, shared) for flip in with_texts]


def _pair(flip: Flip, shared: int) -> Pair:
    """Return the responses to a prompt, of which ``shared`` characters are those of all."""
    prompt = _prompt(flip)
    change = message(
        "{change} (reward {base} → {new})",
        change=signed(flip.delta),
        base=figure(flip.base),
        new=figure(flip.new),
    )
    base = flip.base_text or ""
    new = flip.new_text or ""
    return Pair(
        name=_name(prompt, shared),
        change=change,
        prompt=prompt,
        base=_cut(base),
        new=_cut(new),
        base_end=_end(base),
        new_end=_end(new),
    )


def _name(prompt: str, shared: int) -> str:
    """Return a short line that tells a prompt from others, which share its beginning."""
    if shared < LONGEST_NAME // 2:
        return one_line(prompt, LONGEST_NAME)
    # From the beginning of the word that differs
    start = max(prompt.rfind(space, 0, shared) for space in (" ", "\n")) + 1
    if shared - start > LONGEST_NAME // 2:
        start = shared
    return one_line(f"…{prompt[start:]}", LONGEST_NAME)


def _end(text: str) -> str:
    """Return the end of a response as one line."""
    line = one_line(text[-MAX_CHARACTERS:], MAX_CHARACTERS)
    return line if len(line) <= END_CHARS else f"…{line[-END_CHARS:]}"
