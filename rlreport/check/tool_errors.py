"""``tool_errors``: tools answer with errors."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.run import Run
from rlreport.check.shares import judge_share, part_of
from rlreport.check.thresholds_of_turns import AGENTS
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Look for a rise of the share, and for a share that is high anyway."""
    calls = run.column("tool_calls")
    share = part_of(run.column("tool_errors"), calls)
    return judge_share(CHECK, run, share, run.limits.tool_errors, calls)


CHECK = Check(
    id="tool_errors",
    name=marked("tools fail"),
    rank="cause",
    looks_for="tools answer with errors",
    needs=(Need("turns with calls of tools", ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    judge=judge,
    title=marked(
        "{share:percent} of tool calls are answered by an error ({before:percent} before)."
    ),
    why=marked(
        "What the environment answers is then noise to the policy: it is taught by failures "
        "that it may not have caused, and learns to leave its tools alone."
    ),
    suggestion=marked(
        "Read the errors: a sandbox that is down, a limit of time, or arguments that the "
        "policy writes wrongly ask for different cures; leave rollouts of a broken "
        "environment out of the loss."
    ),
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", "reward_collapse"),
    trend=False,
)
