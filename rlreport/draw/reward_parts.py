"""The logged parts of the reward: their means, and what the reward's variance comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.extent import drawable
from rlreport.draw.frame import Frame
from rlreport.draw.labels import unique_names
from rlreport.draw.series import PALETTE, Series
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message, plural

MOST_PARTS = 6
LEAST_STD = 1e-6
"""Steps whose reward has a smaller standard deviation have none to share out."""


def reward_part_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draws the parts' means over the steps and, of several parts, their shares of the variance.

    Where parts are many, those are drawn whose means range widest.
    """
    names = [name for name in tables.reward_parts if name in tables.extras_by_step]
    if not names or tables.extras_by_step.empty:
        return
    means = tables.extras_by_step.drop_duplicates("step", keep="last").set_index("step")
    values = {name: _on(frame, means, name) for name in names}
    reach = {
        name: float(np.nanmax(v) - np.nanmin(v)) if np.isfinite(v).any() else -1.0
        for name, v in ((name, drawable(v)) for name, v in values.items())
    }
    kept = sorted(sorted(names, key=lambda name: -reach[name])[:MOST_PARTS], key=names.index)
    left_out = len(names) - len(kept)
    yield curve_chart(
        frame,
        "reward_parts",
        message("Parts of the reward"),
        _series(kept, values),
        axis=message("mean of each part"),
        right=150,
        note=plural(
            "{count} part that varies less is not drawn.",
            "{count} parts that vary less are not drawn.",
            left_out,
        )
        if left_out
        else "",
    )
    if len(names) < 2:
        return
    shares = variance_shares(tables, kept)
    yield curve_chart(
        frame,
        "reward_part_shares",
        message("What the reward's variance comes from"),
        _series(kept, {name: _on(frame, shares, name) for name in kept}),
        axis=message("Cov(part, reward) / Var(reward)"),
        right=150,
        note=message(
            "The shares of all parts add up to 1 where the reward is their sum; a part with a "
            "negative share works against the others."
        ),
    )


def variance_shares(tables: Tables, names: Sequence[str]) -> pd.DataFrame:
    """The share of each step's variance of the reward that comes with each part.

    Cov(part, reward) / Var(reward) over the step's responses that have a reward; a part that
    did not judge a response counts as 0 there, as in the sum. NaN where the reward does not
    vary, or by more than a float holds.

    Args:
        tables: of the whole run.
        names: columns of ``extras``.

    Returns:
        By step, a float64 column a part.
    """
    rewarded = np.isfinite(tables.responses["reward"].to_numpy(dtype=np.float64))
    responses, parts = tables.responses[rewarded], tables.extras.loc[rewarded, list(names)]
    step, reward = responses["step"], responses["reward"]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = reward - reward.groupby(step).transform("mean")
        variance = apart.pow(2).groupby(step).mean()
        judged = parts.astype(np.float64).fillna(0.0)
        together = judged.mul(apart, axis=0).groupby(step).mean()
        # What overflows is known to nobody.
        known = variance.where((variance > LEAST_STD**2) & np.isfinite(variance))
        shares: pd.DataFrame = together.div(known, axis=0)
    return shares


def _series(names: Sequence[str], values: Mapping[str, Floats]) -> list[Series]:
    return [
        Series(f"part_{key}", name, values[name], None, None, *style)
        for key, name, style in zip(unique_names(names), names, PALETTE, strict=False)
    ]


def _on(frame: Frame, by_step: pd.DataFrame, column: str) -> Floats:
    """A column by step, put on the frame's steps; NaN where there is none."""
    return by_step[column].reindex(frame.steps).to_numpy(dtype=np.float64, na_value=np.nan)
