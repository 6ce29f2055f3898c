"""``diversity_collapse``: responses become alike."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.bigrams import DistinctFall, distinct_fall
from rlreport.check.check import Check, Need, Result, extremes, refs
from rlreport.check.compare import above, at_least
from rlreport.check.finding import ResponseRef
from rlreport.check.noise import change
from rlreport.check.thresholds import DISTINCT, Thresholds
from rlreport.check.windows import Floats, Window, first_and_last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare distinct bigrams at equal counts, and the share of responses with a twin."""
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    limits, z, end = thresholds.diversity_collapse, thresholds.trend.z, windows[1]
    said = []
    fall = distinct_fall(tables, *windows, limits.least_bigrams)
    fell = fall is not None and above(fall.share, limits.fall) and fall.z >= z
    if fall is not None and fell:
        said.append(_distinct(fall))
    twin = has_twin(tables.responses)
    twins = change(tables, twin, *windows)
    if (
        above(twins.last, limits.identical)
        and at_least(twins.difference, limits.rise)
        and twins.z >= z
    ):
        said.append(
            f"{percent(twins.last)} of responses at the end equal another of their step, "
            f"{percent(twins.first)} at the start"
        )
    if not said:
        return None
    title = "Responses become alike: " + "; ".join(said)
    return CHECK.finding("warning", title, steps=end.steps, responses=_alike(tables, twin, end))


def has_twin(responses: pd.DataFrame) -> Floats:
    """Return 1 where another response of the step has the same text, else 0; float64 (rows,)."""
    return responses.duplicated(["step", "response_hash"], keep=False).to_numpy(dtype=np.float64)


def _distinct(fall: DistinctFall) -> str:
    return (
        f"distinct-2 fell from {figure(fall.first)} to {figure(fall.last)} "
        f"over samples of {fall.bigrams:,} bigrams"
    )


def _alike(tables: Tables, twin: Floats, end: Window) -> list[ResponseRef]:
    """Return the text repeated most often at the end, else the responses that repeat themselves."""
    rows = tables.responses.iloc[end.rows]
    twins = rows[twin[end.rows] > 0]
    if len(twins):
        times = twins["response_hash"].map(twins["response_hash"].value_counts())
        most = twins.assign(times=times).sort_values("times", ascending=False, kind="stable")
        return refs(most)
    return extremes(rows, "distinct_2")


CHECK = Check(
    id="diversity_collapse",
    looks_for="responses become alike",
    needs=(Need("response", ("response_chars",)),),
    charts=("distinct_2", "duplicates"),
    why=(
        "A policy that says one thing to every prompt has stopped answering them, and groups of "
        "equal responses give no advantage."
    ),
    suggestion=(
        "Raise the KL coefficient or add an entropy bonus, sample at a higher temperature, and "
        "look at whether the reward favours one template."
    ),
    source=DISTINCT,
    judge=judge,
)
