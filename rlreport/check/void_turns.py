"""``void_turns``: turns with neither a call nor an answer."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run
from rlreport.check.shapes import judge_high_share, part_of


class VoidTurns(Limits):
    """Thresholds of ``void_turns``."""

    share = Limit(0.1, "of turns", "have neither a call nor an answer", "SimpleTIR (void turns)")


def judge(run: Run) -> Result:
    """Compare the share of void turns in the last window with its limit."""
    turns = run.column("turns")
    share = part_of(run.column("void_turns"), turns)
    return judge_high_share(CHECK, run, share, VoidTurns.share, turns)


CHECK = Check(
    id="void_turns",
    name="void turns",
    rank="consequence",
    looks_for="turns with neither a call nor an answer",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    judge=judge,
    limits=VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} before).",
    why="Void turns mark text far from what the policy was trained on; their gradients are large "
    "and have ended multi-turn runs.",
    suggestion="Leave conversations with a void turn out of the loss (SimpleTIR), and look for a "
    "limit of tokens that cuts turns off.",
    trend=False,
)
