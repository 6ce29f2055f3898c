"""Checks of agents: failed rollouts, failing or unused tools, turns, unfinished thinking."""

from __future__ import annotations

import numpy as np

from rlreport.check import shapes
from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import AGENTS, CONTRACT, EOS, Limit, Limits, Onset
from rlreport.check.onset import onset
from rlreport.check.run import Ranking, Run
from rlreport.check.series import Series
from rlreport.check.shapes import FALLS, RiseOrShare, judge_share, share_of
from rlreport.figures.ragged import Floats


class _FailedRollouts(RiseOrShare):
    rise = Limit(0.2, "of rollouts", "share that failed: last window minus first", CONTRACT)
    share = Limit(0.5, "of rollouts", "share that failed, last window", CONTRACT)


@Check(
    name="failed rollouts",
    rank="cause",
    looks_for="rollouts end in errors before the first response",
    charts=("failed_rollouts",),
    limits=_FailedRollouts,
    title="{share:percent} of rollouts failed before the first response ({before:percent} at the "
    "start).",
    why="Training sees only the tasks that did not fail.",
    suggestion="Read the errors, and repeat these rollouts instead of giving them a reward.",
    source=AGENTS,
    explains=("reward_stalled", *FALLS),
    whole_run=True,
    needs_also="logged errors of failed rollouts",
)
def failed_rollouts(check: Check, run: Run) -> Result:
    """Find a high or rising share of failed rollouts; steps in which all failed count, too."""
    failed = run.attempted_steps["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return check.not_run(check.needs_also)
    steps = run.attempted_steps["step"].to_numpy(np.int64)
    share: Floats = failed / (failed + run.attempted_steps["responses"].to_numpy(np.float64))
    moved = shapes.series_change(Series(steps, share, None, "rollouts", "failed_rollouts"), None)
    start = int(steps[0])
    rise = onset(steps, share) if moved.difference > 0 else Onset(start, start, start)
    later = steps[steps >= rise.step].tolist() if rise else ()
    return judge_share(check, run, moved, series=share, onset=rise, steps=later)


class _ToolErrors(RiseOrShare):
    rise = Limit(0.2, "of calls", "share that return an error: last window minus first", CONTRACT)
    share = Limit(0.5, "of calls", "share that return an error, last window", CONTRACT)


tool_errors = Check(
    id="tool_errors",
    judge=share_of("tool_errors", "tool_calls"),
    name="tools fail",
    rank="cause",
    needs=(Need("tool calls", ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    limits=_ToolErrors,
    title="{share:percent} of tool calls return an error ({before:percent} at the start).",
    why="The policy is penalized for failures that it did not cause, and learns to avoid its "
    "tools.",
    suggestion="Read the errors, and leave rollouts of a broken environment out of the loss.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
)


class _ToolDisuse(Limits):
    ratio = Limit(0.3, "times", "calls per response against the first window", AGENTS)
    calls = Limit(0.2, "calls", "calls per response at the start; below it not judged", CONTRACT)


@Check(
    name="tools no longer called",
    rank="cause",
    needs=(Need("tool calls", ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    limits=_ToolDisuse,
    title="Responses make {end:figure} tool calls on average ({start:figure} at the start).",
    why="The policy is learning to guess; what is forgotten seldom comes back.",
    suggestion="Look for errors, costs and unrecognised calls; choose tasks that need a tool.",
    explains=(*FALLS, "reward_stalled", "length_collapse", "diversity_collapse"),
    trend=True,
)
def tool_disuse(check: Check, run: Run) -> Result:
    """Find that responses make far fewer tool calls in the last steps than in the first steps."""
    calls = run.column("tool_calls")
    moved = run.change(calls)
    ratio = run.met(_ToolDisuse.ratio, "<", moved.last, of=moved.first)
    if not (ratio and moved.fell and run.met(_ToolDisuse.calls, ">", moved.first)):
        return None
    ranking = Ranking(calls, highest=False, unit="calls")
    facts = {"start": moved.first, "end": moved.last}
    return check.finding(run, "warning", ratio, facts, ranking, series=run.by_step(calls))


class _VoidTurns(RiseOrShare):
    share = Limit(
        0.1, "of turns", "share with neither a call nor an answer", "SimpleTIR (void turns)"
    )


void_turns = Check(
    id="void_turns",
    judge=share_of("void_turns", "turns"),
    name="empty turns",
    rank="consequence",
    looks_for="turns with neither a call nor an answer",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    limits=_VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} at the "
    "start).",
    why="The gradients of such turns are large and have ended multi-turn runs.",
    suggestion="Exclude these conversations from the loss (SimpleTIR), and check whether the "
    "token limit is too low.",
)


class _TurnLimit(RiseOrShare):
    rise = Limit(0.2, "of conversations", "share stopped: last window minus first", EOS)
    share = Limit(0.5, "of conversations", "share stopped, last window", EOS)


turn_limit = Check(
    id="turn_limit",
    judge=share_of("at_turn_limit"),
    name="conversations hit the turn limit",
    rank="consequence",
    needs=(Need("turns and a finish reason", ("at_turn_limit",)),),
    charts=("turns", "eos"),
    limits=_TurnLimit,
    title="{share:percent} of conversations hit the turn limit ({before:percent} at the start).",
    why="A conversation that is stopped has no answer to judge.",
    suggestion="Allow more turns, reward early answers, or mask stopped conversations in the loss.",
)


class _UnclosedThinking(RiseOrShare):
    rise = Limit(0.2, "of responses", "share of unclosed thinking: last window minus first", EOS)
    share = Limit(0.5, "of responses", "share whose thinking does not end, last window", EOS)


unclosed_thinking = Check(
    id="unclosed_thinking",
    judge=share_of("unclosed_thinking"),
    name="thinking never ends",
    rank="consequence",
    needs=(Need("thinking between <think> and </think>", ("unclosed_thinking",)),),
    charts=("eos", "length"),
    limits=_UnclosedThinking,
    title="The thinking of {share:percent} of responses that think never ends ({before:percent} "
    "at the start).",
    why="Such a response has no final answer, so its reward judges an unfinished text.",
    suggestion="Allow more tokens, penalise length, or leave these responses out of the loss.",
    explains=("missing_eos",),
)
