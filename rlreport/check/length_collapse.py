"""``length_collapse``: responses shrink to nothing."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result, extremes, has
from rlreport.check.compare import above, below
from rlreport.check.length import length_of
from rlreport.check.noise import change
from rlreport.check.thresholds import SHORT_RESPONSES, Thresholds
from rlreport.check.windows import first_and_last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the length with the start, and count responses of next to no tokens.

    Stubs that were as common from the start are how the task is answered, not a collapse:
    they are told as info.
    """
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    limits, z, end = thresholds.length_collapse, thresholds.trend.z, windows[1]
    column, unit = length_of(tables)
    moved = change(tables, tables.responses[column].to_numpy(dtype=float), *windows)
    shrank = below(moved.last, limits.ratio * moved.first) and moved.z <= -z
    said = []
    if shrank:
        said.append(f"responses shrank from {figure(moved.first)} to {figure(moved.last)} {unit}")
    grew = False
    if has(tables.responses, "response_tokens"):
        tokens = tables.responses["response_tokens"].to_numpy(dtype=float)
        stubs = change(
            tables, np.where(np.isfinite(tokens), tokens < limits.tokens, np.nan), *windows
        )
        if above(stubs.last, limits.stubs):
            grew = stubs.z >= z
            said.append(
                f"{percent(stubs.last)} of responses are under {limits.tokens} tokens at the end, "
                f"{percent(stubs.first)} at the start"
            )
    if not said:
        return None
    title = "; ".join(said)
    return CHECK.finding(
        "warning" if shrank or grew else "info",
        title[0].upper() + title[1:],
        steps=end.steps,
        responses=extremes(tables.responses.iloc[end.rows], column),
    )


CHECK = Check(
    id="length_collapse",
    looks_for="responses shrink to nothing",
    needs=(Need("response", ("response_chars",)),),
    charts=("length",),
    why=(
        "Stopping at once is often the cheapest way to avoid a penalty; the responses left say "
        "nothing, and some trainers fail on them."
    ),
    suggestion=(
        "Look for a penalty that grows with length, a reward that is highest for silence, or a "
        "policy that learned EOS as its first token; give empty responses the lowest reward."
    ),
    source=SHORT_RESPONSES,
    judge=judge,
)
