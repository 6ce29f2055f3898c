"""``diversity_collapse``: responses become alike."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.bigrams import distinct_by_step, distinct_fall
from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Fact, Facts, Met
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked

DISTINCT = marked("LMFlow post: distinct-2 fell from 0.39 to 0.22")


class DiversityCollapse(Limits):
    """Thresholds of ``diversity_collapse``."""

    fall = Limit(0.3, "of distinct-2", "warning: fall at an equal number of bigrams", DISTINCT)
    least_bigrams = Limit(200, "bigrams", "with fewer, judge by identical responses only", DISTINCT)
    identical = Limit(0.5, "of responses", "warning: have a twin in their step", DISTINCT)
    rise = Limit(0.1, "of responses", "and that share rose by this since the start")


def judge(run: Run) -> Result:
    """Compare distinct bigrams at equal counts, and the share of responses with a twin."""
    assert run.first is not None
    facts: dict[str, Fact] = {}
    met: list[Met] = []
    # Equal answers to one prompt are what sampling it several times is for.
    times = _times(run.responses)
    twin = (times > 1).astype(np.float64)
    series = run.by_step(twin)
    least = run.limits[DiversityCollapse].least_bigrams
    fall = distinct_fall(run.tables, run.first, run.last, least)
    if fall is not None and fall.z >= run.limits[Trend].z:
        met = run.met(DiversityCollapse.fall, ">", fall.share)
    if fall is not None and met:
        facts |= {"distinct": fall.last, "distinct_start": fall.first, "bigrams": fall.bigrams}
        series = distinct_by_step(run)
    twins = run.change(twin)
    identical = run.met(DiversityCollapse.identical, ">", twins.last)
    if identical and twins.rose and run.met(DiversityCollapse.rise, ">=", twins.difference):
        facts |= {"twins": twins.last, "twins_start": twins.first}
        met += identical
        series = run.by_step(twin)
    if not met:
        return None
    repeated = bool((times[run.last.rows] > 1).any())
    distinct = run.column("distinct_2")
    shown = Shown(times, unit="times in its step") if repeated else Shown(distinct, highest=False)
    return CHECK.finding(run, "warning", met, series=series, shown=shown, more=facts)


def _times(responses: pd.DataFrame) -> Floats:
    """Return to how many prompts of its step each response's text was given, float64 (rows,)."""
    given = responses.groupby(["step", "response_hash"])["prompt_id"].transform("nunique")
    return given.to_numpy(dtype=np.float64)


def title(facts: Facts) -> str:
    """Return how alike the responses are."""
    if "twins" not in facts:
        return marked(
            "Distinct-2 over {bigrams:count} word pairs fell from {distinct_start:figure} to "
            "{distinct:figure}."
        )
    if "distinct" not in facts:
        return marked(
            "{twins:percent} of responses equal that to another prompt of their step "
            "({twins_start:percent} before)."
        )
    return marked(
        "{twins:percent} of responses equal that to another prompt of their step "
        "({twins_start:percent} before), and distinct-2 over {bigrams:count} word pairs fell "
        "from {distinct_start:figure} to {distinct:figure}."
    )


def clause(facts: Facts) -> str:
    """Return how alike the responses are, in short."""
    if "twins" in facts:
        return marked("{twins:percent} of responses equal that to another prompt")
    return marked(
        "distinct-2 over {bigrams:count} word pairs fell from {distinct_start:figure} to "
        "{distinct:figure}"
    )


CHECK = Check(
    id="diversity_collapse",
    name="responses become alike",
    rank="consequence",
    needs=(Need("response", ("response_chars",)),),
    charts=("distinct_2", "duplicates"),
    judge=judge,
    sampled=("distinct",),
    limits=DiversityCollapse,
    title=title,
    clause=clause,
    why="A policy that says one thing to every prompt has stopped answering them, and groups of "
    "equal responses give no advantage.",
    suggestion="Raise the KL coefficient or add an entropy bonus, sample at a higher temperature, "
    "and look at whether the reward favours one template.",
    explains=("entropy_collapse", "reward_stalled", "watched_reward_fall"),
)
