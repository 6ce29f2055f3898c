"""The map of prompts × sides of a comparison: its columns, and how it is drawn as SVG.

A column is a prompt, from the one that lost most to the one that won most. Two rows of cells have
the colour of its mean reward in BASE and in NEW; below them bars mark the prompts whose change is
significant, up if NEW is better and down if it is worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.comparison.words import signed
from rlreport.draw.cells import SHARES, Scale, block, scale_of_means
from rlreport.draw.chart import drawable, evenly
from rlreport.draw.direct import escaped
from rlreport.draw.theme import SMALL
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.language import Language

MOST_PROMPTS = 500
ROW_HEIGHT = 24  # of a row of cells, in pixels
GAP = 2  # below each of them
BAR_HEIGHT = 8  # of a bar, above or below the line between them
AXIS_HEIGHT = 18  # of the differences below the bars
HEIGHT = 2 * (ROW_HEIGHT + GAP) + GAP + 2 * BAR_HEIGHT + AXIS_HEIGHT
_FREE = 0.15  # part of the width that the labels at both ends take
# Colours of the bars, from the upper row to the lower one
_CHANGES = {"improved": "healthy", "regressed": "critical"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SideMap:
    """The columns of a map.

    Attributes:
        pairs: keys of the prompts of its P columns.
        base: mean reward of each in BASE, float64 (P,).
        new: that in NEW.
        change: what became of each, see ``Comparison.prompt_changes``.
        delta: difference of the means, ascending.
        of: number of all prompts in pairs.
    """

    pairs: list[int]
    base: Floats
    new: Floats
    change: list[str]
    delta: Floats
    of: int

    @property
    def scale(self) -> Scale:
        """From 0 to 1 if all rewards are, else the scale that holds most means."""
        means = np.concatenate([self.base, self.new])
        if means.min(initial=0.0) >= 0 and means.max(initial=1.0) <= 1:
            return SHARES
        return scale_of_means(means)


def side_map(changes: pd.DataFrame) -> SideMap | None:
    """Return the map of ``Comparison.prompt_changes``, None without prompts in pairs.

    Of more than MOST_PROMPTS, those at even distances in the order of their difference are shown.
    """
    finite = np.isfinite(changes["delta"].to_numpy(np.float64))
    known = changes[finite]
    if known.empty:
        return None
    ranked = known.sort_values(["delta", "base", "pair"])
    shown = ranked.iloc[evenly(len(ranked), MOST_PROMPTS)]
    return SideMap(
        pairs=shown["pair"].tolist(),
        base=drawable(shown["base"].to_numpy(np.float64)),
        new=drawable(shown["new"].to_numpy(np.float64)),
        change=shown["change"].astype(str).tolist(),
        delta=shown["delta"].to_numpy(np.float64),
        of=len(known),
    )


def cells_on_page(drawn: SideMap, description: str, language: Language) -> str:
    """Return the map as SVG, as wide as its place."""
    scale = drawn.scale
    rows = []
    for number, means in enumerate((drawn.base, drawn.new)):
        top = number * (ROW_HEIGHT + GAP)
        rows.append(block(scale.colours(means)[np.newaxis], top, ROW_HEIGHT))
    top = 2 * (ROW_HEIGHT + GAP) + GAP
    middle = top + BAR_HEIGHT
    rows.append(block(_bars(drawn), top, BAR_HEIGHT, tuple(_CHANGES.values())))
    line = f'<line x2="100%" y1="{middle}" y2="{middle}" stroke="var(--muted)"/>'
    return (
        f'<svg width="100%" height="{HEIGHT}" role="img" fill="none" '
        f'aria-label="{escaped(description, language)}">{"".join(rows)}{line}{_axis(drawn)}</svg>'
    )


def _bars(drawn: SideMap) -> Ints:
    """Return the cells of the bars: a row of those that improved above those that regressed."""
    rows = []
    for number, change in enumerate(_CHANGES):
        changed = np.array([one == change for one in drawn.change])
        rows.append(np.where(changed, number, -1))
    return np.array(rows, np.int64)


def _axis(drawn: SideMap) -> str:
    """Return the lowest and the highest difference below their columns, and where it passes 0."""
    first = float(drawn.delta[0])
    last = float(drawn.delta[-1])
    labels = [(0.0, "start", signed(first)), (1.0, "end", signed(last))]
    count = len(drawn.delta)
    # The middle of the columns without a difference, or where those that won begin
    low = np.searchsorted(drawn.delta, 0, "left")
    high = np.searchsorted(drawn.delta, 0, "right")
    zero = float(low + high) / 2 / count
    if _FREE < zero < 1 - _FREE:
        labels.append((zero, "middle", "0"))
    texts = "".join(
        f'<text x="{100 * place:.4g}%" y="{HEIGHT - 4}" text-anchor="{anchor}">{words}</text>'
        for place, anchor, words in labels
    )
    return f'<g fill="var(--muted)" font-size="{SMALL}">{texts}</g>'
