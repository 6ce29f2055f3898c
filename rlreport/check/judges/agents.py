"""Checks of agents: failed rollouts, tools that fail or are not called, turns, thinking."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Onset
from rlreport.check.limits import AGENTS, CONTRACT, EOS, Limit, Limits
from rlreport.check.onset import onset
from rlreport.check.run import Ranking, Run
from rlreport.check.series import Series
from rlreport.check.shapes import RiseOrShare, judge_rows, judge_share, ratio_of, series_change
from rlreport.figures.ragged import Floats


class FailedRollouts(RiseOrShare):
    """Thresholds of ``failed_rollouts``."""

    rise = Limit(0.2, "of rollouts", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of rollouts", "failed in the last window", CONTRACT)


class ToolErrors(RiseOrShare):
    """Thresholds of ``tool_errors``."""

    rise = Limit(0.2, "of calls", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of calls", "answered by an error in the last window", CONTRACT)


class ToolDisuse(Limits):
    """Thresholds of ``tool_disuse``."""

    ratio = Limit(0.3, "times", "calls per response against the first window", AGENTS)
    calls = Limit(0.2, "calls", "fewer at the start are not judged", CONTRACT)


class VoidTurns(RiseOrShare):
    """Thresholds of ``void_turns``."""

    share = Limit(0.1, "of turns", "have neither a call nor an answer", "SimpleTIR (void turns)")


class TurnLimit(RiseOrShare):
    """Thresholds of ``turn_limit``."""

    rise = Limit(0.2, "of conversations", "rise of the share since the first window", EOS)
    share = Limit(0.5, "of conversations", "stopped in the last window", EOS)


class UnclosedThinking(RiseOrShare):
    """Thresholds of ``unclosed_thinking``."""

    rise = Limit(0.2, "of responses", "rise of the share since the first window", EOS)
    share = Limit(0.5, "of responses", "that think do not end it in the last window", EOS)


def judge_failed(run: Run) -> Result:
    """Find a rise of the share of failed rollouts, or a high share.

    Steps in which every rollout failed count, though no other check can judge them.
    """
    failed = run.attempted_steps["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return FAILED_ROLLOUTS.not_run(FAILED_ROLLOUTS.needs_also)
    steps = run.attempted_steps["step"].to_numpy(np.int64)
    share: Floats = failed / (failed + run.attempted_steps["responses"].to_numpy(np.float64))
    moved = series_change(Series(steps, share, None, "rollouts", "failed_rollouts"), None)
    start = int(steps[0])
    rise = onset(steps, share) if moved.difference > 0 else Onset(start, start, start)
    later = steps[steps >= rise.step].tolist() if rise else ()
    dating = {"series": share, "onset": rise, "dated": False, "steps": later}
    return judge_share(FAILED_ROLLOUTS, run, FailedRollouts, moved, **dating)


FAILED_ROLLOUTS = Check(
    id="failed_rollouts",
    name="failed rollouts",
    rank="cause",
    looks_for="rollouts end in errors before the first response",
    charts=("failed_rollouts",),
    judge=judge_failed,
    limits=FailedRollouts,
    title="{share:percent} of rollouts failed before the first response ({before:percent} at the "
    "start).",
    why="Training sees only the tasks that did not fail.",
    suggestion="Read the errors; repeat rollouts whose environment failed, and do not give them a "
    "reward.",
    source=AGENTS,
    explains=("reward_stalled", "reward_collapse", "watched_reward_fall"),
    trend=False,
    whole_run=True,
    needs_also="rollouts that failed: errors without a response",
)


def judge_tool_errors(run: Run) -> Result:
    """Find a rise of the share of tool calls that return an error, or a high share."""
    calls = run.column("tool_calls")
    errors = ratio_of(run.column("tool_errors"), calls)
    return judge_rows(TOOL_ERRORS, run, ToolErrors, errors, calls)


TOOL_ERRORS = Check(
    id="tool_errors",
    name="tools fail",
    rank="cause",
    looks_for="tools answer with errors",
    needs=(Need("turns with calls of tools", ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    judge=judge_tool_errors,
    limits=ToolErrors,
    title="{share:percent} of tool calls are answered by an error ({before:percent} at the start).",
    why="The policy is punished for failures that it may not have caused, and learns to avoid its "
    "tools.",
    suggestion="Read the errors: a sandbox that is down, a time limit, or wrong arguments. Leave "
    "rollouts of a broken environment out of the loss.",
    source=AGENTS,
    explains=(
        *("tool_disuse", "void_turns", "reward_stalled"),
        *("reward_collapse", "watched_reward_fall"),
    ),
    trend=False,
)


def judge_tool_disuse(run: Run) -> Result:
    """Find a fall of the calls per response to a fraction of the first window's."""
    calls = run.column("tool_calls")
    moved = run.change(calls)
    ratio = run.met(ToolDisuse.ratio, "<", moved.last, of=moved.first)
    if not (ratio and moved.fell and run.met(ToolDisuse.calls, ">", moved.first)):
        return None
    return TOOL_DISUSE.finding(
        run,
        "warning",
        ratio,
        series=run.by_step(calls),
        ranking=Ranking(calls, highest=False, unit="calls"),
        start=moved.first,
        end=moved.last,
    )


TOOL_DISUSE = Check(
    id="tool_disuse",
    name="tools no longer called",
    rank="cause",
    looks_for="the policy stops calling its tools",
    needs=(Need("turns with calls of tools", ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    judge=judge_tool_disuse,
    limits=ToolDisuse,
    title="Responses call tools {end:figure} times ({start:figure} at the start).",
    why="The policy is learning to guess; what is forgotten seldom comes back.",
    suggestion="Look for errors and costs that punish calls, choose tasks that cannot be solved "
    "without a tool, and check that calls in the policy's format are still recognised.",
    explains=(
        *("reward_collapse", "watched_reward_fall", "reward_stalled"),
        *("length_collapse", "diversity_collapse"),
    ),
)


def judge_void_turns(run: Run) -> Result:
    """Find a high share of empty turns in the last window."""
    turns = run.column("turns")
    return judge_rows(VOID_TURNS, run, VoidTurns, ratio_of(run.column("void_turns"), turns), turns)


VOID_TURNS = Check(
    id="void_turns",
    name="empty turns",
    rank="consequence",
    looks_for="turns with neither a call nor an answer",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    judge=judge_void_turns,
    limits=VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} at the "
    "start).",
    why="The gradients of such turns are large and have ended multi-turn runs.",
    suggestion="Leave conversations with an empty turn out of the loss (SimpleTIR), and look for a "
    "token limit that cuts turns off.",
    trend=False,
)


TURN_LIMIT: Check = Check(
    id="turn_limit",
    name="conversations hit the turn limit",
    rank="consequence",
    looks_for="conversations are stopped for their number of turns",
    needs=(Need("turns and a finish reason", ("at_turn_limit",)),),
    charts=("turns", "eos"),
    judge=lambda run: judge_rows(TURN_LIMIT, run, TurnLimit, run.column("at_turn_limit")),
    limits=TurnLimit,
    title="{share:percent} of conversations are stopped at the turn limit ({before:percent} at "
    "the start).",
    why="A conversation that is stopped has no answer to judge.",
    suggestion="Allow more turns, reward early answers, or mask stopped conversations in the loss.",
    trend=False,
)


UNCLOSED_THINKING: Check = Check(
    id="unclosed_thinking",
    name="thinking never ends",
    rank="consequence",
    looks_for="thinking that never ends",
    needs=(Need("thinking between <think> and </think>", ("unclosed_thinking",)),),
    charts=("eos", "length"),
    judge=lambda run: judge_rows(
        UNCLOSED_THINKING, run, UnclosedThinking, run.column("unclosed_thinking")
    ),
    limits=UnclosedThinking,
    title="The thinking of {share:percent} of responses that think never ends ({before:percent} "
    "at the start).",
    why="Such a response has no answer to judge: its reward is that of a fragment.",
    suggestion="Allow more tokens, penalise overlong responses, or leave those that were cut off "
    "out of the loss (DAPO: overlong filtering).",
    explains=("missing_eos",),
    trend=False,
)
