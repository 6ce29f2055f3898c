"""Checks of agents: failed rollouts, tools that fail or are not called, turns, thinking."""

from __future__ import annotations

import numpy as np

from rlreport.check import shapes
from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Onset
from rlreport.check.limits import AGENTS, CONTRACT, EOS, Limit, Limits
from rlreport.check.onset import onset
from rlreport.check.run import Ranking, Run
from rlreport.check.series import Series
from rlreport.check.shapes import FALLS, RiseOrShare, judge_rows, judge_share, ratio_of
from rlreport.figures.ragged import Floats


class _FailedRollouts(RiseOrShare):
    rise = Limit(0.2, "of rollouts", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of rollouts", "failed in the last window", CONTRACT)


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
    needs_also="rollouts that failed: errors without a response",
)
def failed_rollouts(check: Check, run: Run) -> Result:
    """Judge the share of failed rollouts, including steps in which all rollouts failed."""
    failed = run.attempted_steps["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return check.not_run(check.needs_also)
    steps = run.attempted_steps["step"].to_numpy(np.int64)
    share: Floats = failed / (failed + run.attempted_steps["responses"].to_numpy(np.float64))
    moved = shapes.series_change(Series(steps, share, None, "rollouts", "failed_rollouts"), None)
    start = int(steps[0])
    rise = onset(steps, share) if moved.difference > 0 else Onset(start, start, start)
    later = steps[steps >= rise.step].tolist() if rise else ()
    dating = {"series": share, "onset": rise, "dated": False, "steps": later}
    return judge_share(check, run, _FailedRollouts, moved, **dating)


class _ToolErrors(RiseOrShare):
    rise = Limit(0.2, "of calls", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of calls", "answered by an error in the last window", CONTRACT)


@Check(
    name="tools fail",
    rank="cause",
    needs=(Need("turns with calls of tools", ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    limits=_ToolErrors,
    title="{share:percent} of tool calls are answered by an error ({before:percent} at the start).",
    why="The policy is punished for failures of others, and learns to avoid its tools.",
    suggestion="Read the errors, and leave rollouts of a broken environment out of the loss.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
)
def tool_errors(check: Check, run: Run) -> Result:
    """Judge the share of tool calls that return an error."""
    calls = run.column("tool_calls")
    errors = ratio_of(run.column("tool_errors"), calls)
    return judge_rows(check, run, _ToolErrors, errors, calls)


class _ToolDisuse(Limits):
    ratio = Limit(0.3, "times", "calls per response against the first window", AGENTS)
    calls = Limit(0.2, "calls", "fewer at the start are not judged", CONTRACT)


@Check(
    name="tools no longer called",
    rank="cause",
    needs=(Need("turns with calls of tools", ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    limits=_ToolDisuse,
    title="Responses call tools {end:figure} times ({start:figure} at the start).",
    why="The policy is learning to guess; what is forgotten seldom comes back.",
    suggestion="Look for errors, costs and unrecognised calls; choose tasks that need a tool.",
    explains=(*FALLS, "reward_stalled", "length_collapse", "diversity_collapse"),
    trend=True,
)
def tool_disuse(check: Check, run: Run) -> Result:
    """Find runs whose tool calls per response fell to a fraction of those in the first window."""
    calls = run.column("tool_calls")
    moved = run.change(calls)
    ratio = run.met(_ToolDisuse.ratio, "<", moved.last, of=moved.first)
    if not (ratio and moved.fell and run.met(_ToolDisuse.calls, ">", moved.first)):
        return None
    ranking = Ranking(calls, highest=False, unit="calls")
    facts = {"start": moved.first, "end": moved.last}
    series = run.by_step(calls)
    return check.finding(run, "warning", ratio, series=series, ranking=ranking, more=facts)


class _VoidTurns(RiseOrShare):
    share = Limit(0.1, "of turns", "have neither a call nor an answer", "SimpleTIR (void turns)")


@Check(
    name="empty turns",
    rank="consequence",
    looks_for="turns with neither a call nor an answer",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    limits=_VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} at the "
    "start).",
    why="The gradients of such turns are large and have ended multi-turn runs.",
    suggestion="Leave these conversations out of the loss (SimpleTIR); look for a low token limit.",
)
def void_turns(check: Check, run: Run) -> Result:
    """Judge the share of empty turns."""
    turns = run.column("turns")
    return judge_rows(check, run, _VoidTurns, ratio_of(run.column("void_turns"), turns), turns)


class _TurnLimit(RiseOrShare):
    rise = Limit(0.2, "of conversations", "rise of the share since the first window", EOS)
    share = Limit(0.5, "of conversations", "stopped in the last window", EOS)


@Check(
    name="conversations hit the turn limit",
    rank="consequence",
    needs=(Need("turns and a finish reason", ("at_turn_limit",)),),
    charts=("turns", "eos"),
    limits=_TurnLimit,
    title="{share:percent} of conversations are stopped at the turn limit ({before:percent} at "
    "the start).",
    why="A conversation that is stopped has no answer to judge.",
    suggestion="Allow more turns, reward early answers, or mask stopped conversations in the loss.",
)
def turn_limit(check: Check, run: Run) -> Result:
    """Judge the share of conversations stopped at the turn limit."""
    return judge_rows(check, run, _TurnLimit, run.column("at_turn_limit"))


class _UnclosedThinking(RiseOrShare):
    rise = Limit(0.2, "of responses", "rise of the share since the first window", EOS)
    share = Limit(0.5, "of responses", "that think do not end it in the last window", EOS)


@Check(
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
def unclosed_thinking(check: Check, run: Run) -> Result:
    """Judge the share of responses with thinking that never close it."""
    return judge_rows(check, run, _UnclosedThinking, run.column("unclosed_thinking"))
