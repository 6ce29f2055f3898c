"""What stands above the list of prompts: how many improved, and the map of prompts × steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup

from rlreport.check.trust import OVERPAID
from rlreport.draw import strips
from rlreport.draw.cells import COLOURS
from rlreport.draw.chart import finite_or_none
from rlreport.draw.prompt_map import (
    PromptMap,
    cells_on_page,
    prompt_map,
    prompts_recur,
    scale_of,
)
from rlreport.draw.strips import Steps
from rlreport.pages.context import RunReport
from rlreport.pages.html import packed_json
from rlreport.pages.listed import PromptText
from rlreport.pages.moved import moved_of, moved_steps
from rlreport.pages.page import Addresses
from rlreport.pages.page_data import PromptMapData
from rlreport.summarise.prompt_courses import (
    FEW_RESPONSES,
    PromptCourse,
    counts_of,
    measure_of,
    usual_side,
)
from rlreport.tables import RowRole, Tables
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.clean import shortened
from rlreport.text.messages import message, phrases, plural, sentences, translatable
from rlreport.text.numbers import written

NAME_CHARS = 80  # of a prompt in the tip of a cell

COURSE_WORDS = {
    PromptCourse.IMPROVED: translatable("Improved"),
    PromptCourse.REGRESSED: translatable("Regressed"),
    PromptCourse.NEVER: translatable("Never solved"),
    PromptCourse.ALWAYS: translatable("Always solved"),
    PromptCourse.UNCLEAR: translatable("No clear change"),
}


class Count(NamedTuple):
    """How many prompts have a course; the label selects them in the list."""

    label: str
    prompts: int


@dataclass(frozen=True, slots=True)
class MapView:
    """The map as drawn, with its legend."""

    head: Markup  # labels of the rules
    cells: Markup
    axis: Markup
    unit: str
    colours: tuple[str, ...]  # of the legend, classes of the style sheet
    low: str  # what its first and its last colour stand for
    high: str
    note: str
    data: str  # packed ``PromptMapData``, for the script


@dataclass(frozen=True, slots=True)
class PromptCoursesView:
    """Counts of prompts by course, and the map; without both, why they are missing."""

    lead: str
    counts: list[Count]
    rule: str  # how they were told apart
    map: MapView | None
    missing: str


def prompt_courses_view(report: RunReport, addresses: Addresses) -> PromptCoursesView:
    """Return what the page of prompts shows above its list."""
    tables = report.run.tables
    drawn = prompt_map(tables.responses, tables.prompts)
    if drawn is None:
        return PromptCoursesView("", [], "", None, _missing(tables))
    counts = counts_of(tables.prompts["course"])
    return PromptCoursesView(
        lead=_lead(drawn, tables),
        counts=[
            Count(message(words), counts[course])
            for course, words in COURSE_WORDS.items()
            if counts[course]
            or course in (PromptCourse.IMPROVED, PromptCourse.REGRESSED)
        ],
        rule=_rule(report, drawn),
        map=_map_view(report, drawn, addresses),
        missing="",
    )


def courses_in_words(tables: Tables) -> str:
    """Return how many prompts have which course as a sentence, "" if prompts do not recur."""
    if not prompts_recur(tables.prompts):
        return ""
    counts = counts_of(tables.prompts["course"])
    total = sum(counts.values())
    words = {
        PromptCourse.IMPROVED: plural(
            "{count} improved", "{count} improved", counts[PromptCourse.IMPROVED]
        ),
        PromptCourse.REGRESSED: plural(
            "{count} regressed", "{count} regressed", counts[PromptCourse.REGRESSED]
        ),
        PromptCourse.NEVER: plural(
            "{count} never solved", "{count} never solved", counts[PromptCourse.NEVER]
        ),
        PromptCourse.ALWAYS: plural(
            "{count} always solved",
            "{count} always solved",
            counts[PromptCourse.ALWAYS],
        ),
        PromptCourse.UNCLEAR: plural(
            "{count} without a clear change",
            "{count} without a clear change",
            counts[PromptCourse.UNCLEAR],
        ),
    }
    parts = [text for course, text in words.items() if counts[course]]
    return message(
        "Of {prompts}: {parts}.",
        prompts=plural(
            "{count} prompt seen at several steps",
            "{count} prompts seen at several steps",
            total,
        ),
        parts=phrases(parts),
    )


def courses_json(tables: Tables) -> dict[str, int | str] | None:
    """Return the counts for ``report.json``, None if no prompt was seen at several steps."""
    counts = counts_of(tables.prompts["course"])
    if not sum(counts.values()):
        return None
    return {
        "measure": measure_of(tables.responses),
        **{course.name.lower(): count for course, count in counts.items()},
    }


def course_labels(courses: pd.Series) -> list[str]:
    """Return the label of each course, "" of prompts that were seen at one step only."""
    labels = {int(course): message(words) for course, words in COURSE_WORDS.items()}
    return [labels.get(int(course), "") for course in courses]


def _missing(tables: Tables) -> str:
    """Return why there is no map."""
    recurring = sum(counts_of(tables.prompts["course"]).values())
    hint = message("More epochs, or an evaluation on the same prompts, would give one.")
    if not recurring:
        none = message(
            "No prompt has rewards at several steps, so there is no map of prompts over the steps."
        )
        return sentences([none, hint])
    few = plural(
        "Only {count} of {total:count} prompts has rewards at several steps, so there is no map of "
        "prompts over the steps.",
        "Only {count} of {total:count} prompts have rewards at several steps, so there is no map "
        "of prompts over the steps.",
        recurring,
        total=_total(tables),
    )
    return sentences([few, hint])


def _total(tables: Tables) -> int:
    """Return the number of prompts of the training and of validation."""
    return int((tables.prompts["validation"] != RowRole.BRANCH).sum())


def _lead(drawn: PromptMap, tables: Tables) -> str:
    """Return of how many prompts the map can tell, in words."""
    total = _total(tables)
    if drawn.of == total:
        return plural(
            "{count} prompt has rewards at several steps.",
            "{count} prompts have rewards at several steps.",
            total,
        )
    return plural(
        "{count} of {total:count} prompts has rewards at several steps.",
        "{count} of {total:count} prompts have rewards at several steps.",
        drawn.of,
        total=total,
    )


def _rule(report: RunReport, drawn: PromptMap) -> str:
    """Return how prompts were told apart, and what the counts do not say."""
    test = message("rank-sum test")
    if drawn.measure == "solved":
        test = message("Fisher's exact test")
    told = message(
        "Improved and regressed: the last third of a prompt's steps against the first one, "
        "{test}, at a false discovery rate of 5%.",
        test=test,
    )
    parts = [told]
    side = usual_side(report.run.tables.prompts)
    if side < FEW_RESPONSES:
        few = plural(
            "With {count} response in each third, only large changes can be told.",
            "With {count} responses in each third, only large changes can be told.",
            side,
        )
        parts.append(few)
    lead = report.run.verdict.leading
    if lead is not None and lead.id in OVERPAID:
        unearned = message(
            "The finding “{name}” says that these rewards are not earned.",
            name=lead.name,
        )
        parts.append(unearned)
    return sentences(parts)


def _map_view(report: RunReport, drawn: PromptMap, addresses: Addresses) -> MapView:
    """Return the map and its axes, drawn, and its data for scripts."""
    language = report.run.options.language
    of_run = moved_steps(report, moved_of(report))
    low, high = drawn.bins.extent
    # An interval would tint the cells.
    inside = [
        replace(rule, within=None) for rule in of_run.rules if low <= rule.step <= high
    ]
    steps = Steps(strips.axis_of(low, high), tuple(inside))
    ends = _ends(drawn)
    return MapView(
        head=Markup(strips.head_on_page(steps, language)),
        cells=Markup(cells_on_page(drawn, steps, _described(drawn, report), language)),
        axis=Markup(strips.axis_on_page(steps)),
        unit=_unit(drawn),
        colours=COLOURS,
        low=ends[0],
        high=ends[1],
        note=_note(drawn),
        data=packed_json(language.of(_data(report, drawn, addresses))),
    )


def _unit(drawn: PromptMap) -> str:
    if drawn.measure == "solved":
        return message("share of responses that are right")
    return message("mean reward")


def _described(drawn: PromptMap, report: RunReport) -> str:
    """Return the map in words, for screen readers."""
    what = plural(
        "Map of {count} prompt over the steps, colour: {unit}.",
        "Map of {count} prompts over the steps, colour: {unit}.",
        len(drawn.prompts),
        unit=_unit(drawn),
    )
    return sentences([what, courses_in_words(report.run.tables)])


def _ends(drawn: PromptMap) -> tuple[str, str]:
    """Return what the first and the last colour stand for."""
    scale = scale_of(drawn)
    if drawn.measure == "solved":
        return "0%", "100%"
    low = written(scale.low)
    high = written(scale.high)
    return (f"≤ {low}", f"≥ {high}") if scale.is_clipped else (low, high)


def _note(drawn: PromptMap) -> str:
    """Return the order of the rows, and what was left out or put together."""
    parts = [
        message(
            "A row is a prompt; those that gained most from the first to the last third of their "
            "steps are above."
        )
    ]
    if len(drawn.prompts) < drawn.of:
        parts.append(
            message(
                "{some:count} of {all:count} prompts are shown, at even distances in this order.",
                some=len(drawn.prompts),
                all=drawn.of,
            )
        )
    if drawn.gap:
        parts.append(
            plural(
                "The lowest row is of validation.",
                "The lowest {count} rows are of validation.",
                drawn.validation,
            )
        )
    if drawn.bins.width > 1:
        parts.append(
            message("A column is {width} logged steps.", width=drawn.bins.width)
        )
    return sentences(parts)


def _data(report: RunReport, drawn: PromptMap, addresses: Addresses) -> PromptMapData:
    """Return the cells of the map for scripts, row by row."""
    limits = [drawn.bins.limits(column) for column in range(drawn.bins.count)]
    shown = report.listed_prompts
    values = drawn.total if drawn.measure == "solved" else drawn.means
    rounded = [finite_or_none(value) for value in values.ravel().tolist()]
    linked = [int(prompt_id in shown) for prompt_id in drawn.prompts]
    return {
        "prompts": drawn.prompts,
        "names": _names(report, drawn.prompts),
        "linked": linked,
        "low": [low for low, _ in limits],
        "high": [high for _, high in limits],
        "count": drawn.count.ravel().tolist(),
        "value": rounded,
        "measure": drawn.measure,
        "training": len(drawn.prompts) - drawn.validation,
        "gap": drawn.gap,
        "row": drawn.row_height,
        "address": addresses.prompt("{prompt}"),
    }


def _names(report: RunReport, prompts: list[int]) -> list[str]:
    """Return the beginning of each prompt, without what most prompts share."""
    table = report.run.tables.prompts.set_index("prompt_id")["prompt"]
    names = []
    for text in table.reindex(prompts).astype(str).tolist():
        whole = turns_as_text(turns(text)) or text
        brief = PromptText(whole, report.shared.prefixes).brief
        names.append(shortened(" ".join(brief.split()), NAME_CHARS))
    return names
