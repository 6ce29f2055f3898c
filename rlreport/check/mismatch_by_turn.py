"""``mismatch_by_turn``: sampler and trainer drift apart from turn to turn."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import CONTRACT, MISMATCH, Limit, Limits
from rlreport.check.run import Run, Shown, was_so
from rlreport.text.messages import marked

TURN_MISMATCH = marked("verl 6719; NeMo-RL (9 one way, 22,015 the other)")


class MismatchByTurn(Limits):
    """Thresholds of ``mismatch_by_turn``."""

    k3 = Limit(1e-3, "nats", "mean k3 of a token in the last turn", MISMATCH)
    ratio = Limit(3.0, "times", "and against the first turn", CONTRACT)


def judge(run: Run) -> Result:
    """Compare the engines' disagreement in the last turn with that in the first, by response."""
    first, last = run.column("mismatch_first_turn"), run.column("mismatch_last_turn")
    start, end = run.change(first).last, run.change(last).last
    k3 = run.met(MismatchByTurn.k3, ">", end)
    ratio = run.met(MismatchByTurn.ratio, ">", end, of=start)
    if not (k3 and ratio):
        return None
    series = run.by_step(last)
    return CHECK.finding(
        run,
        "warning",
        k3 + ratio,
        series=series,
        always=was_so(series, k3[0]),
        shown=Shown(last, unit="nats a token"),
        first=start,
        last=end,
    )


CHECK = Check(
    id="mismatch_by_turn",
    name="mismatch that grows with the turn",
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
    limits=MismatchByTurn,
    title="Sampler and trainer disagree by {last:figure} nats a token in the last turn, "
    "{first:figure} in the first (k3, the larger of both directions).",
    why="The trainer then sees other tokens than the sampler wrote, as a conversation that is "
    "rendered and tokenised again gives: later turns are learnt from the wrong context.",
    suggestion="Keep token ids from turn to turn rather than tokenise text again, and check that "
    "the chat template drops nothing from earlier turns.",
    source=TURN_MISMATCH,
    explains=(
        "engine_mismatch",
        "off_policy_weights",
        "reward_collapse",
        "watched_reward_fall",
        "kl_explosion",
    ),
    trend=False,
)
