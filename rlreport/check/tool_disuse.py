"""``tool_disuse``: the policy stops calling its tools."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import AGENTS, CONTRACT, Limit, Limits
from rlreport.check.run import Run, Shown


class ToolDisuse(Limits):
    """Thresholds of ``tool_disuse``."""

    ratio = Limit(0.3, "times", "calls a response against the first window", AGENTS)
    calls = Limit(0.2, "calls", "fewer at the start are not judged", CONTRACT)


def judge(run: Run) -> Result:
    """Look for calls that fell to a fraction of the start, while the reward did not fall."""
    calls = run.column("tool_calls")
    moved = run.change(calls)
    ratio = run.met(ToolDisuse.ratio, "<", moved.last, of=moved.first)
    if not (ratio and moved.fell and run.met(ToolDisuse.calls, ">", moved.first)):
        return None
    if run.has("reward") and run.change(run.column("reward")).fell:
        return None
    return CHECK.finding(
        run,
        "warning",
        ratio,
        series=run.by_step(calls),
        shown=Shown(calls, highest=False, unit="calls"),
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="tool_disuse",
    name="tools no longer called",
    rank="cause",
    looks_for="the policy stops calling its tools",
    needs=(Need("turns with calls of tools", ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    judge=judge,
    limits=ToolDisuse,
    title="Responses call tools {end:figure} times ({start:figure} before), and the reward did "
    "not fall.",
    why="The reward pays as much without tools, so the policy is learning to guess: what tools "
    "were there for is lost, and seldom comes back.",
    suggestion="Look for errors and costs that punish calls, choose tasks that cannot be solved "
    "without a tool, and check that calls in the policy's format are still recognised.",
    explains=("length_collapse", "reward_stalled", "diversity_collapse"),
)
