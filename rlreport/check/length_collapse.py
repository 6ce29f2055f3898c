"""``length_collapse``: responses shrink to nothing."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Fact, Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.text.messages import marked

SHORT_RESPONSES = marked("TRL error on responses under 4 tokens (LMFlow post)")


class LengthCollapse(Limits):
    """Thresholds of ``length_collapse``."""

    ratio = Limit(0.5, "times", "mean length against the first window", SHORT_RESPONSES)
    tokens = Limit(4, "tokens", "a response with fewer is a stub", SHORT_RESPONSES)
    stubs = Limit(0.1, "of responses", "are stubs in the last window", SHORT_RESPONSES)


def judge(run: Run) -> Result:
    """Compare the length with the start, and count responses of next to no tokens.

    Stubs that were as common from the start are how the task is answered, not a collapse:
    they are told as info.
    """
    length = run.column(run.length)
    moved = run.change(length)
    met = run.met(LengthCollapse.ratio, "<", moved.last, of=moved.first) if moved.fell else []
    shrank, grew = bool(met), False
    facts: dict[str, Fact] = {"shrank": shrank, "start": moved.first, "end": moved.last}
    series = run.by_step(length)
    if run.has("response_tokens"):
        tokens, least = run.column("response_tokens"), run.limits[LengthCollapse].tokens
        short = np.where(np.isfinite(tokens), tokens < least, np.nan)
        stubs = run.change(short)
        if many := run.met(LengthCollapse.stubs, ">", stubs.last):
            grew = stubs.rose
            facts |= {"stubs": stubs.last, "stubs_start": stubs.first, "tokens": least}
            met += many
            if not shrank:
                series = run.by_step(short)
    if not met:
        return None
    return CHECK.finding(
        run,
        "warning" if shrank or grew else "info",
        met,
        series=series,
        always=not shrank and not grew,
        shown=Shown(length, highest=False, unit=run.length_unit),
        unit=run.length_unit,
        more=facts,
    )


def title(facts: Facts) -> str:
    """Return how far responses shrank, and the share of stubs."""
    if not facts["shrank"]:
        return marked(
            "{stubs:percent} of responses are under {tokens} tokens ({stubs_start:percent} before)."
        )
    if facts["unit"] != "tokens":
        return marked("Responses shrank from {start:figure} to {end:figure} characters.")
    if "stubs" in facts:
        return marked(
            "Responses shrank from {start:figure} to {end:figure} tokens; {stubs:percent} of them "
            "are under {tokens} tokens."
        )
    return marked("Responses shrank from {start:figure} to {end:figure} tokens.")


def clause(facts: Facts) -> str:
    """Return how far responses shrank."""
    if not facts["shrank"]:
        return marked("{stubs:percent} of responses are under {tokens} tokens")
    return marked("responses shrank from {start:figure} to {end:figure} {unit}")


CHECK = Check(
    id="length_collapse",
    name="responses collapsed in length",
    rank="consequence",
    looks_for="responses shrink to nothing",
    needs=(Need("response", ("response_chars",)),),
    charts=("length",),
    judge=judge,
    limits=LengthCollapse,
    title=title,
    clause=clause,
    why="Stopping at once is often the cheapest way to avoid a penalty; the responses left say "
    "nothing, and some trainers fail on them.",
    suggestion="Look for a penalty that grows with length, a reward that is highest for silence, "
    "or a policy that learned EOS as its first token; give empty responses the lowest reward.",
    explains=("diversity_collapse", "entropy_collapse", "reward_stalled", "watched_reward_fall"),
)
