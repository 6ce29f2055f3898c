"""``tool_errors``: tools answer with errors."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import AGENTS, CONTRACT, Limit
from rlreport.check.run import Run
from rlreport.check.shapes import RiseOrShare, judge_share, part_of


class ToolErrors(RiseOrShare):
    """Thresholds of ``tool_errors``."""

    rise = Limit(0.2, "of calls", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of calls", "answered by an error in the last window", CONTRACT)


def judge(run: Run) -> Result:
    """Look for a rise of the share, and for a share that is high anyway."""
    calls = run.column("tool_calls")
    share = part_of(run.column("tool_errors"), calls)
    return judge_share(CHECK, run, share, ToolErrors, calls)


CHECK = Check(
    id="tool_errors",
    name="tools fail",
    rank="cause",
    looks_for="tools answer with errors",
    needs=(Need("turns with calls of tools", ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    judge=judge,
    limits=ToolErrors,
    title="{share:percent} of tool calls are answered by an error ({before:percent} before).",
    why="What the environment answers is then noise to the policy: it is taught by failures that "
    "it may not have caused, and learns to leave its tools alone.",
    suggestion="Read the errors: a sandbox that is down, a limit of time, or arguments that the "
    "policy writes wrongly ask for different cures; leave rollouts of a broken environment out of "
    "the loss.",
    source=AGENTS,
    explains=(
        "tool_disuse",
        "void_turns",
        "reward_stalled",
        "reward_collapse",
        "watched_reward_fall",
    ),
    trend=False,
)
