"""The map of prompts × steps: which cells it has, and how it is drawn as SVG.

A row is a prompt, a column one step or several, and the colour of a cell what the responses to the
prompt earned there. There are at most MOST_PROMPTS × MOST_COLUMNS strokes of about 8 bytes, so up
to 240 kB; a run of 64 prompts and 50 steps takes 10 to 25 kB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.draw.cells import SHARES, Scale, block, scale_of_means
from rlreport.draw.chart import drawable, evenly
from rlreport.draw.direct import escaped
from rlreport.draw.strips import Steps, rule_marks
from rlreport.figures.grouped import ratio
from rlreport.figures.ragged import Floats, Ints
from rlreport.summarise.prompt_courses import Measure, PromptCourse, prompt_values
from rlreport.tables import RowRole
from rlreport.text.language import Language

MOST_PROMPTS = 500
MOST_COLUMNS = 60
# Prompts recur if those that were seen at several steps hold this part of the responses; else only
# chance brought some back
LEAST_PART = 0.1
HEIGHT = 600  # of the map, in pixels, at most
ROW_HEIGHT = 14  # of a row, at most
GAP = 6  # between prompts of the training and those of validation


@dataclass(frozen=True, slots=True)
class StepBins:
    """The columns, each of ``width`` steps that are ``apart`` from each other."""

    first: int
    last: int  # of all steps
    apart: int
    width: int
    count: int

    def column(self, steps: Ints) -> Ints:
        return (steps - self.first) // self.apart // self.width

    def limits(self, column: int) -> tuple[int, int]:
        """Return the first and the last step of a column."""
        low = self.first + column * self.width * self.apart
        return low, min(low + (self.width - 1) * self.apart, self.last)

    @property
    def extent(self) -> tuple[float, float]:
        """Limits of the axis: a step lies in the middle of its cell."""
        low = self.first - self.apart / 2
        return low, low + self.count * self.width * self.apart


def step_bins(steps: Ints, seen: float = math.inf) -> StepBins:
    """Return at most MOST_COLUMNS columns of equally many steps; ``steps`` are not empty.

    ``seen``: number of steps at which a prompt is seen. It is so at about one step of a column, so
    that most cells are filled.

    If a run logs every tenth step, these are its steps.
    """
    different = np.unique(steps)
    first = int(different[0])
    last = int(different[-1])
    apart = int(np.gcd.reduce(np.diff(different))) if first < last else 1
    slots = (last - first) // apart + 1
    width = max(math.ceil(slots / MOST_COLUMNS), math.floor(slots / seen + 0.5))
    return StepBins(first, last, apart, width, math.ceil(slots / width))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMap:
    """The cells of a map.

    Attributes:
        prompts: ids of the prompts of its R rows.
        validation: number of these, the last ones, that are of validation.
        of: number of all prompts that were seen at several steps.
        bins: its C columns.
        count: number of responses in each cell, int64 (R, C).
        total: sum of their values, (R, C).
        measure: what the values are.
    """

    prompts: list[int]
    validation: int
    of: int
    bins: StepBins
    count: Ints
    total: Floats
    measure: Measure

    @property
    def means(self) -> Floats:
        """The mean of each cell, NaN without a response."""
        means = ratio(self.total.ravel(), self.count.ravel())
        return means.reshape(self.count.shape)

    @property
    def row_height(self) -> int:
        """Height of a row in pixels."""
        return max(1, min(ROW_HEIGHT, HEIGHT // len(self.prompts)))

    @property
    def gap(self) -> int:
        """Pixels between the prompts of the training and those of validation, 0 without both."""
        return GAP if 0 < self.validation < len(self.prompts) else 0

    @property
    def height(self) -> int:
        """Height of all rows in pixels."""
        return self.row_height * len(self.prompts) + self.gap


def prompts_recur(prompts: pd.DataFrame) -> bool:
    """Return whether prompts of the training, or those of validation, are seen again on purpose."""
    recurs = prompts["course"] != PromptCourse.NONE
    for _, responses in prompts["responses"].groupby(prompts["validation"]):
        of_recurring = responses[recurs.loc[responses.index]].sum()
        if of_recurring and of_recurring >= LEAST_PART * responses.sum():
            return True
    return False


def prompt_map(responses: pd.DataFrame, prompts: pd.DataFrame) -> PromptMap | None:
    """Return the map of the prompts that were seen at several steps, None if prompts do not recur.

    Prompts whose mean rose most from the first to the last third of their steps are above, then
    those whose mean is higher. Of more than MOST_PROMPTS, those at even distances in this order are
    shown, so that the shares of what they did are those of all. Prompts of validation come last.
    """
    if not prompts_recur(prompts):
        return None
    recurring = prompts[prompts["course"] != PromptCourse.NONE]
    rows = _rows(recurring)
    ids = rows["prompt_id"].to_numpy(np.int64)
    values = prompt_values(responses)
    # The row of each response, −1 if its prompt has none
    place = pd.Series(np.arange(len(ids)), ids).reindex(values.prompt)
    row = place.fillna(-1).to_numpy(np.int64)
    value = drawable(values.value)
    chosen = (row >= 0) & np.isfinite(value)
    seen = float(recurring["steps"].median())
    bins = step_bins(values.step[row >= 0], seen)
    cell = row[chosen] * bins.count + bins.column(values.step[chosen])
    size = len(ids) * bins.count
    shape = (len(ids), bins.count)
    count = np.bincount(cell, minlength=size).reshape(shape)
    sums = np.bincount(cell, value[chosen], minlength=size)
    total = np.asarray(sums, np.float64).reshape(shape)
    return PromptMap(
        prompts=ids.tolist(),
        validation=int((rows["validation"] == RowRole.VALIDATION).sum()),
        of=len(recurring),
        bins=bins,
        count=count,
        total=total,
        measure=values.measure,
    )


def _rows(recurring: pd.DataFrame) -> pd.DataFrame:
    """Return the prompts of the map in its order, see ``prompt_map``."""
    early = drawable(recurring["early"].to_numpy(np.float64))
    late = drawable(recurring["late"].to_numpy(np.float64))
    ranked = recurring.assign(change=late - early, level=late / 2 + early / 2)
    ranked = ranked.sort_values(
        ["validation", "change", "level", "prompt_id"],
        ascending=[True, False, False, True],
    )
    return ranked.iloc[evenly(len(ranked), MOST_PROMPTS)]


def scale_of(drawn: PromptMap) -> Scale:
    """Return the scale of a map: from 0 to 1 of shares, else that of most cells."""
    return SHARES if drawn.measure == "solved" else scale_of_means(drawn.means)


def colour_indices(drawn: PromptMap) -> Ints:
    """Return the index in COLOURS of each cell, −1 without a response; int64 (R, C)."""
    return scale_of(drawn).colours(drawn.means)


def cells_on_page(
    drawn: PromptMap, steps: Steps, description: str, language: Language
) -> str:
    """Return the map as SVG, as wide as its column, with the rules of ``steps``."""
    indices = colour_indices(drawn)
    training = len(drawn.prompts) - drawn.validation
    parts = []
    for start, end in ((0, training), (training, len(drawn.prompts))):
        if start < end:
            top = start * drawn.row_height + (drawn.gap if start else 0)
            parts.append(block(indices[start:end], top, drawn.row_height))
    return (
        f'<svg width="100%" height="{drawn.height}" role="img" fill="none" '
        f'aria-label="{escaped(description, language)}">{"".join(parts)}'
        f"{rule_marks(steps, drawn.height)}</svg>"
    )
