"""``turn_limit``: conversations are stopped for their number of turns."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import AGENTS, EOS, Limit
from rlreport.check.run import Run
from rlreport.check.shapes import RiseOrShare, judge_high_share, judge_share


class TurnLimit(RiseOrShare):
    """Thresholds of ``turn_limit``."""

    note = Limit(0.05, "of conversations", "info: stopped at the limit", AGENTS)
    rise = Limit(0.2, "of conversations", "warning: rise since the first window", EOS)
    share = Limit(0.5, "of conversations", "warning: stopped in the last window", EOS)


def judge(run: Run) -> Result:
    """Look for a rise of the share at the limit and a high one; a smaller one is a note."""
    values = run.column("at_turn_limit")
    return judge_share(CHECK, run, values, TurnLimit) or judge_high_share(
        CHECK, run, values, TurnLimit.note, severity="info"
    )


CHECK = Check(
    id="turn_limit",
    name="conversations hit the limit of turns",
    rank="consequence",
    looks_for="conversations are stopped for their number of turns",
    needs=(Need("turns and a finish reason", ("at_turn_limit",)),),
    charts=("turns", "eos"),
    judge=judge,
    limits=TurnLimit,
    title="{share:percent} of conversations are stopped at the limit of turns ({before:percent} "
    "before).",
    why="A conversation that is stopped has no answer to judge, and the policy is not learning to "
    "come to one.",
    suggestion="Allow more turns, reward early answers, or leave stopped conversations out of the "
    "loss.",
    trend=False,
)
