"""``mismatch_by_turn``: sampler and trainer drift apart from turn to turn."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import TURN_MISMATCH
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Compare the engines' disagreement in the last turn with that in the first, by response."""
    limits = run.limits.mismatch_by_turn
    first, last = run.column("mismatch_first_turn"), run.column("mismatch_last_turn")
    start, end = run.change(first).last, run.change(last).last
    if not (above(end, limits.k3) and above(end, limits.ratio * start)):
        return None
    series = run.by_step(last)
    opening = series[np.isfinite(series)][:3]
    always = bool(len(opening)) and above(float(opening.mean()), limits.k3)
    onset = run.onset(series, always=always)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[
            CHECK.met(run, "k3", ">", end),
            CHECK.met(run, "ratio", ">", end / start if start else np.inf),
        ],
        evidence=run.examples(last, onset, unit="nats a token"),
        series=series,
        first=start,
        last=end,
    )


CHECK = Check(
    id="mismatch_by_turn",
    name=marked("mismatch that grows with the turn"),
    rank="cause",
    looks_for="sampler and trainer drift apart from turn to turn",
    needs=(
        Need(
            "sampler and trainer logprobs, and a response_mask or spans of several turns",
            ("mismatch_last_turn",),
        ),
    ),
    charts=("mismatch",),
    judge=judge,
    title=marked(
        "Sampler and trainer disagree by {last:figure} nats a token in the last turn, "
        "{first:figure} in the first (k3, the larger of both directions)."
    ),
    why=marked(
        "The trainer then sees other tokens than the sampler wrote, as a conversation that is "
        "rendered and tokenised again gives: later turns are learnt from the wrong context."
    ),
    suggestion=marked(
        "Keep token ids from turn to turn rather than tokenise text again, and check that the "
        "chat template drops nothing from earlier turns."
    ),
    source=TURN_MISMATCH,
    explains=("engine_mismatch", "off_policy_weights", "reward_collapse", "kl_explosion"),
    trend=False,
)
