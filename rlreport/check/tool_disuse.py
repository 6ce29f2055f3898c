"""``tool_disuse``: the policy stops calling its tools."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, below
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import AGENTS
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Look for calls that fell to a fraction of the start, while the reward did not fall."""
    limits, z = run.limits.tool_disuse, run.limits.trend.z
    calls = run.column("tool_calls")
    moved = run.change(calls)
    fell = below(moved.last, limits.ratio * moved.first) and moved.z <= -z
    if not (fell and above(moved.first, limits.calls)):
        return None
    if run.has("reward") and run.change(run.column("reward")).z <= -z:
        return None
    series = run.by_step(calls)
    onset = run.onset(series)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[CHECK.met(run, "ratio", "<", moved.last / moved.first)],
        evidence=run.examples(calls, onset, highest=False, unit="calls"),
        series=series,
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="tool_disuse",
    name=marked("tools no longer called"),
    rank="cause",
    looks_for="the policy stops calling its tools",
    needs=(Need("turns with calls of tools", ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    judge=judge,
    title=marked(
        "Responses call tools {end:figure} times ({start:figure} before), and the reward did "
        "not fall."
    ),
    why=marked(
        "The reward pays as much without tools, so the policy is learning to guess: what tools "
        "were there for is lost, and seldom comes back."
    ),
    suggestion=marked(
        "Look for errors and costs that punish calls, choose tasks that cannot be solved without "
        "a tool, and check that calls in the policy's format are still recognised."
    ),
    source=AGENTS,
    explains=("length_collapse", "reward_stalled", "diversity_collapse"),
)
