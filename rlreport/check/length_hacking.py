"""``length_hacking``: length buys reward."""

from __future__ import annotations

from rlreport.check.check import REWARD, Check, Result, extremes
from rlreport.check.compare import at_least
from rlreport.check.length import length_of
from rlreport.check.noise import change, within_step_correlation
from rlreport.check.thresholds import CONTRACT, Thresholds
from rlreport.check.windows import first_and_last, whole
from rlreport.check.words import figure
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Ask for longer responses and, inside a step, for more reward to the longer ones.

    The correlation is taken over the last window or, where length has run into its limit
    and no longer varies, over the whole run: either shows what was paid for.
    """
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    limits, end = thresholds.length_hacking, windows[1]
    column, unit = length_of(tables)
    length = tables.responses[column].to_numpy(dtype=float)
    reward = tables.responses["reward"].to_numpy(dtype=float)
    moved = change(tables, length, *windows)
    if not (at_least(moved.last, limits.ratio * moved.first) and moved.z >= thresholds.trend.z):
        return None
    paid, z = max(
        (within_step_correlation(tables, reward, length, part) for part in (end, whole(tables))),
        key=lambda found: (found[0] == found[0], found[0]),
    )
    if not (at_least(paid, limits.correlation) and z >= thresholds.trend.z):
        return None
    return CHECK.finding(
        "warning",
        f"Length buys reward: responses grew from {figure(moved.first)} to {figure(moved.last)} "
        f"{unit}, and inside a step reward and length correlate at {figure(paid)}",
        steps=end.steps,
        responses=extremes(tables.responses.iloc[end.rows], column, highest=True),
    )


CHECK = Check(
    id="length_hacking",
    looks_for="length buys reward",
    needs=(REWARD,),
    charts=("length", "reward"),
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion=(
        "Take length out of the reward: normalise or penalise it, retrain the reward model on "
        "pairs of equal length, or penalise responses cut off at the limit."
    ),
    source=CONTRACT,
    judge=judge,
)
