"""``length_collapse``: responses shrink to nothing."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, below
from rlreport.check.finding import Fact, Facts
from rlreport.check.run import Run
from rlreport.check.thresholds import SHORT_RESPONSES
from rlreport.text.messages import marked, told


def judge(run: Run) -> Result:
    """Compare the length with the start, and count responses of next to no tokens.

    Stubs that were as common from the start are how the task is answered, not a collapse:
    they are told as info.
    """
    limits, z = run.limits.length_collapse, run.limits.trend.z
    length = run.column(run.length)
    moved = run.change(length)
    shrank = below(moved.last, limits.ratio * moved.first) and moved.z <= -z
    facts: dict[str, Fact] = {"shrank": bool(shrank), "start": moved.first, "end": moved.last}
    met = [CHECK.met(run, "ratio", "<", moved.last / moved.first)] if shrank else []
    series, grew = run.by_step(length), False
    if run.has("response_tokens"):
        tokens = run.column("response_tokens")
        short = np.where(np.isfinite(tokens), tokens < limits.tokens, np.nan)
        stubs = run.change(short)
        if above(stubs.last, limits.stubs):
            grew = stubs.z >= z
            facts |= {"stubs": stubs.last, "stubs_start": stubs.first, "tokens": limits.tokens}
            met.append(CHECK.met(run, "stubs", ">", stubs.last))
            if not shrank:
                series = run.by_step(short)
    if not met:
        return None
    onset = run.onset(series, always=not shrank and not grew)
    return CHECK.finding(
        run,
        "warning" if shrank or grew else "info",
        onset=onset,
        thresholds=met,
        evidence=run.examples(length, onset, highest=False, unit=run.length_unit),
        series=series,
        unit=run.length_unit,
        more=facts,
    )


def title(facts: Facts) -> str:
    """Return how far responses shrank, and the share of stubs."""
    if not facts["shrank"]:
        return told(
            "{stubs:percent} of responses are under {tokens} tokens ({stubs_start:percent} "
            "before).",
            facts,
        )
    if facts["unit"] != "tokens":
        return told("Responses shrank from {start:figure} to {end:figure} characters.", facts)
    if "stubs" in facts:
        return told(
            "Responses shrank from {start:figure} to {end:figure} tokens; {stubs:percent} of them "
            "are under {tokens} tokens.",
            facts,
        )
    return told("Responses shrank from {start:figure} to {end:figure} tokens.", facts)


def effect(facts: Facts) -> str:
    """Return how far responses shrank."""
    if not facts["shrank"]:
        return told("{stubs:percent} of responses are under {tokens} tokens", facts)
    return told("responses shrank from {start:figure} to {end:figure} {unit}", facts)


CHECK = Check(
    id="length_collapse",
    name=marked("responses collapsed in length"),
    rank="consequence",
    looks_for="responses shrink to nothing",
    needs=(Need("response", ("response_chars",)),),
    charts=("length",),
    judge=judge,
    title=title,
    effect=effect,
    why=marked(
        "Stopping at once is often the cheapest way to avoid a penalty; the responses left say "
        "nothing, and some trainers fail on them."
    ),
    suggestion=marked(
        "Look for a penalty that grows with length, a reward that is highest for silence, or a "
        "policy that learned EOS as its first token; give empty responses the lowest reward."
    ),
    source=SHORT_RESPONSES,
    explains=("diversity_collapse", "entropy_collapse", "reward_stalled"),
)
