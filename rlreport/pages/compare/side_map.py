"""The map of prompts × sides, and how many prompts improved, regressed or did neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Flip, Outcome, prompt_numbers
from rlreport.comparison.prompt_words import (
    CHANGES,
    PromptCounts,
    counted,
    labelled_counts,
    no_single_prompt,
    prompt_counts,
)
from rlreport.draw.cells import COLOURS
from rlreport.draw.chart import finite_or_none
from rlreport.draw.side_map import SideMap, cells_on_page, side_map
from rlreport.pages.compare.flips import shared_prefixes
from rlreport.pages.html import packed_json
from rlreport.pages.listed import PromptText
from rlreport.pages.page_data import SideMapData
from rlreport.summarise.prompt_courses import FEW_RESPONSES
from rlreport.text.clean import shortened
from rlreport.text.language import Language
from rlreport.text.messages import message, plural, sentences
from rlreport.text.numbers import written

NAME_CHARS = 80  # of a prompt in the tip of a cell


@dataclass(frozen=True, slots=True)
class SideMapView:
    """The map as drawn, with its legend and the counts above it."""

    counts: list[tuple[str, int]]
    rule: str  # how prompts were told apart
    labels: Labels
    cells: Markup
    unit: str
    colours: tuple[str, ...]  # of the legend, classes of the style sheet
    low: str  # what its first and its last colour stand for
    high: str
    note: str
    data: str  # packed ``SideMapData``, for the script


def side_map_view(
    outcome: Outcome, flips: Sequence[Flip], language: Language
) -> SideMapView | None:
    """Return the map, None if prompts are not paired.

    ``flips``: prompts won or lost that the page lists.
    """
    changes = outcome.comparison.prompt_changes
    drawn = side_map(changes)
    if drawn is None:
        return None
    counts = prompt_counts(outcome.comparison)
    scale = drawn.scale
    low = written(scale.low)
    high = written(scale.high)
    if scale.is_clipped:
        low = f"≤ {low}"
        high = f"≥ {high}"
    data = _data(drawn, outcome, flips)
    return SideMapView(
        counts=labelled_counts(counts),
        rule=_rule(counts),
        labels=outcome.labels,
        cells=Markup(
            cells_on_page(drawn, _described(drawn, outcome, counts), language)
        ),
        unit=message("mean reward in the window"),
        colours=COLOURS,
        low=low,
        high=high,
        note=_note(drawn, counts),
        data=packed_json(language.of(data)),
    )


def _described(drawn: SideMap, outcome: Outcome, counts: PromptCounts) -> str:
    """Return the map in words, for screen readers."""
    labels = outcome.labels
    what = plural(
        "Map of {count} prompt, colour: mean reward with {base} and with {new}.",
        "Map of {count} prompts, colour: mean reward with {base} and with {new}.",
        len(drawn.pairs),
        base=labels.base,
        new=labels.new,
    )
    return sentences([what, message("{counts}.", counts=counted(counts))])


def _rule(counts: PromptCounts) -> str:
    """Return how prompts were told apart, and what the counts do not say."""
    few = no_single_prompt(counts)
    if few:
        return message(
            "{few:capital}: the counts say whether a mean is lower or higher, not whether by "
            "chance.",
            few=few,
        )
    told = message(
        "Improved and regressed: the responses of both runs to a prompt differ by a test at a "
        "false discovery rate of 5% over all prompts."
    )
    parts = [told]
    if counts.responses < FEW_RESPONSES:
        only_large = plural(
            "With {count} response per prompt and side, only large changes can be told.",
            "With {count} responses per prompt and side, only large changes can be told.",
            counts.responses,
        )
        parts.append(only_large)
    return sentences(parts)


def _note(drawn: SideMap, counts: PromptCounts) -> str:
    """Return the order of the columns, and how many were left out."""
    parts = [
        message(
            "A column is a prompt: on the left what NEW lost most, on the right what it won most."
        )
    ]
    if counts.can_tell:
        bars = message(
            "The bars below mark the prompts that improved (up) and regressed (down)."
        )
        parts.append(bars)
    if len(drawn.pairs) < drawn.of:
        some = message(
            "{some:count} of {all:count} prompts are shown, at even distances in this order.",
            some=len(drawn.pairs),
            all=drawn.of,
        )
        parts.append(some)
    return sentences(parts)


def _data(drawn: SideMap, outcome: Outcome, flips: Sequence[Flip]) -> SideMapData:
    """Return what the script of the map needs, a value per column in the lists.

    ``rows`` has the row of each prompt in the list of ``flips``, from 1; 0 if it is not listed.
    """
    rows = {flip.pair: row for row, flip in enumerate(flips, start=1)}
    numbers = prompt_numbers(outcome.new)
    prefixes = shared_prefixes(flips)
    prompts = {flip.pair: flip.prompt or "" for flip in flips}
    names = []
    for pair in drawn.pairs:
        brief = PromptText(prompts.get(pair, ""), prefixes).brief
        names.append(shortened(" ".join(brief.split()), NAME_CHARS))
    return {
        "prompts": [numbers.get(pair, 0) for pair in drawn.pairs],
        "names": names,
        "rows": [rows.get(pair, 0) for pair in drawn.pairs],
        "base": [finite_or_none(value) for value in drawn.base.tolist()],
        "new": [finite_or_none(value) for value in drawn.new.tolist()],
        "change": drawn.change,
        "words": {change: message(words) for change, words in CHANGES.items()},
        "sides": [outcome.labels.base, outcome.labels.new],
    }
