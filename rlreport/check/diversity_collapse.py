"""``diversity_collapse``: responses become alike."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.bigrams import distinct_by_step, distinct_fall
from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, at_least
from rlreport.check.finding import Fact, Facts
from rlreport.check.run import Run
from rlreport.check.thresholds import DISTINCT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, told


def judge(run: Run) -> Result:
    """Compare distinct bigrams at equal counts, and the share of responses with a twin."""
    assert run.first is not None
    limits, z = run.limits.diversity_collapse, run.limits.trend.z
    facts: dict[str, Fact] = {}
    met = []
    twin = has_twin(run.responses)
    series = run.by_step(twin)
    fall = distinct_fall(run.tables, run.first, run.last, limits.least_bigrams)
    if fall is not None and above(fall.share, limits.fall) and fall.z >= z:
        facts |= {"distinct": fall.last, "distinct_start": fall.first, "bigrams": fall.bigrams}
        met.append(CHECK.met(run, "fall", ">", fall.share))
        series = distinct_by_step(run)
    twins = run.change(twin)
    if (
        above(twins.last, limits.identical)
        and at_least(twins.difference, limits.rise)
        and twins.z >= z
    ):
        facts |= {"twins": twins.last, "twins_start": twins.first}
        met.append(CHECK.met(run, "identical", ">", twins.last))
        series = run.by_step(twin)
    if not met:
        return None
    onset = run.onset(series)
    times = _times(run.responses)
    repeated = bool((times[run.last.rows] > 1).any())
    distinct = run.column("distinct_2")
    evidence = (
        run.examples(times, onset, unit="times in its step")
        if repeated
        else run.examples(distinct, onset, highest=False)
    )
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=evidence,
        series=series,
        more=facts,
    )


def has_twin(responses: pd.DataFrame) -> Floats:
    """Return 1 where the step has the same text to another prompt, else 0; float64 (rows,).

    Equal answers to one prompt are what sampling it several times is for.
    """
    return (_times(responses) > 1).astype(np.float64)


def _times(responses: pd.DataFrame) -> Floats:
    """Return to how many prompts of its step each response's text was given, float64 (rows,)."""
    given = responses.groupby(["step", "response_hash"])["prompt_id"].transform("nunique")
    return given.to_numpy(dtype=np.float64)


def title(facts: Facts) -> str:
    """Return how alike the responses are."""
    if "twins" not in facts:
        return told(
            "Distinct-2 over {bigrams:count} word pairs fell from {distinct_start:figure} to "
            "{distinct:figure}.",
            facts,
        )
    if "distinct" not in facts:
        return told(
            "{twins:percent} of responses equal that to another prompt of their step "
            "({twins_start:percent} before).",
            facts,
        )
    return told(
        "{twins:percent} of responses equal that to another prompt of their step "
        "({twins_start:percent} before), and distinct-2 over {bigrams:count} word pairs fell "
        "from {distinct_start:figure} to {distinct:figure}.",
        facts,
    )


def effect(facts: Facts) -> str:
    """Return how alike the responses are, in short."""
    if "twins" in facts:
        return told("{twins:percent} of responses equal that to another prompt", facts)
    return told(
        "distinct-2 over {bigrams:count} word pairs fell from {distinct_start:figure} to "
        "{distinct:figure}",
        facts,
    )


CHECK = Check(
    id="diversity_collapse",
    name=marked("responses become alike"),
    rank="consequence",
    looks_for="responses become alike",
    needs=(Need("response", ("response_chars",)),),
    charts=("distinct_2", "duplicates"),
    judge=judge,
    title=title,
    effect=effect,
    why=marked(
        "A policy that says one thing to every prompt has stopped answering them, and groups of "
        "equal responses give no advantage."
    ),
    suggestion=marked(
        "Raise the KL coefficient or add an entropy bonus, sample at a higher temperature, and "
        "look at whether the reward favours one template."
    ),
    source=DISTINCT,
    explains=("entropy_collapse", "reward_stalled"),
)
