"""Checks of agents: tools, turns, thinking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rlreport.check import quantities
from rlreport.check.check import FALLS, Check, Need, RiseOrShare, share_of
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Facts, LogText, Rank, Result, Severity
from rlreport.check.laws import blocks
from rlreport.check.limits import EOS, Limit, LimitKind, Limits
from rlreport.check.run import Run, fall_onset
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import SettingKind, higher, see
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change
from rlreport.figures.turns import ERROR_KINDS, Ending
from rlreport.read.rollouts import Turn
from rlreport.text.answers import is_empty_answer
from rlreport.text.calls import has_markup, has_plain_markup
from rlreport.text.chat import calls_in_text, is_final, is_unparsed
from rlreport.text.messages import message, translatable

# Tools are not judged one by one if so large a part of the responses moved to other environments
OTHER_MIX = 0.2
# Fewest steps at either end that are compared one by one
LEAST_SIDE = 4
AGENTS = translatable(
    "verl issues 1569, 4998 (tool calls vanish); AReaL (share at the turn limit)"
)


class _FailedRollouts(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of rollouts",
        "rise of the share that failed, last level minus first",
    )
    share = Limit(0.5, LimitKind.SHARE, "of rollouts", "share that failed")


@Check(
    name="failed rollouts",
    rank=Rank.CAUSE,
    charts=("failed_rollouts",),
    limits=_FailedRollouts,
    close={"share": "{value:percent} of rollouts fail before the first response"},
    title="{share:percent} of rollouts failed before the first response ({before:percent} at the "
    "start).",
    statement="{share:percent} of rollouts fail before the first response",
    why="Training sees only the tasks that did not fail.",
    suggestion="Read the errors, and repeat these rollouts instead of giving them a reward.",
    source=AGENTS,
    explains=("reward_stalled", *FALLS),
    whole_run=True,
    needs_also="logged errors of failed rollouts",
)
def failed_rollouts(check: Check, run: Run) -> Result:
    """Find that many rollouts failed before their first response, or more than at the start."""
    failed = run.attempted_steps["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():  # no errors are logged; the trainer may count them
        return check.judge_metric(run, "failed")
    responses = run.attempted_steps["responses"].to_numpy(np.float64)
    steps = run.attempted_steps["step"].to_numpy(np.int64)
    share: Floats = failed / (failed + responses)
    # Steps of which all rollouts failed are no steps of the run, which have responses.
    failing = steps[failed > 0].tolist()
    return check.judge_share(run, Series(steps, share), steps=failing)


class _ToolErrors(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of calls",
        "rise of the share that return an error, last level minus first",
    )
    share = Limit(0.5, LimitKind.SHARE, "of calls", "share that return an error")


def _judge_tool_errors(check: Check, run: Run) -> Result:
    """Find that many tool calls return an error, or more than at the start."""
    judge = share_of(
        "tool_errors", per="tool_calls", role="tool_errors", facts=_usual_error(run)
    )
    return judge(check, run)


def _usual_error(run: Run) -> Facts:
    """Return as facts which tool most errors are of, and of what kind (``ERROR_KINDS``).

    The fact ``kind`` is the key of the title: "plain" if no such errors are more than half of all,
    "unnamed" if the log does not name the tool.
    """
    tools = run.tables.tools
    if tools.empty:
        return {"kind": "plain"}
    errors = tools.groupby("tool")[list(ERROR_KINDS)].sum()  # tools × kinds
    # Row and column of the largest number
    tool = str(errors.max(axis=1).idxmax())
    error_kind = str(errors.max().idxmax())
    if errors[error_kind].max() <= tools["errors"].sum() / 2:
        return {"kind": "plain"}
    return {
        "tool": LogText(tool),
        "error": message(ERROR_KINDS[error_kind]),
        "kind": "named" if tool else "unnamed",
    }


def _calls_unparsed(turn: Turn) -> bool:
    """Return whether a turn has a call that could not be parsed, or one only in its text.

    A call in the text of a turn without calls is one that the parser did not recognize.
    """
    if any(is_unparsed(arguments) for _, arguments in turn.calls):
        return True
    return bool(turn.sampled and not turn.calls and calls_in_text(turn.text))


def _keeps_markup(turn: Turn) -> bool:
    """Return whether a turn without calls has the markup of one."""
    if not turn.sampled or turn.calls:
        return False
    return has_markup(turn.text) or has_plain_markup(turn.text)


def _is_empty_answer(turn: Turn) -> bool:
    """Return whether a turn is a tool's answer that holds nothing, and no error."""
    return turn.role == "tool" and not turn.error and is_empty_answer(turn.text)


def _is_void(turn: Turn) -> bool:
    """Return whether a turn of the policy has neither a call nor text besides thinking."""
    if not turn.sampled or turn.calls or calls_in_text(turn.text):
        return False
    after_thinking = turn.text.rpartition("</think>")[2]
    return not after_thinking.partition("<think>")[0].strip()


class _ToolShare(NamedTuple):
    """The share of a tool's answers that hold nothing, by step."""

    tool: str
    series: Series

    @property
    def rise(self) -> float:
        """How much the share rose, NaN if it did not rise beyond noise."""
        curve = self.series.curve
        if curve is None or not curve.rose:
            return np.nan
        return change(curve.first.value, curve.last.value)


tool_errors = Check(
    id="tool_errors",
    judge=_judge_tool_errors,
    name="tools fail",
    rank=Rank.CAUSE,
    needs=(Need("tool calls", ("tool_errors",), ("tool_errors",)),),
    charts=("tool_errors", "reward"),
    limits=_ToolErrors,
    close={"share": "{value:percent} of tool calls return an error"},
    title={
        "plain": "{share:percent} of tool calls return an error ({before:percent} at the start).",
        "named": "{share:percent} of tool calls return an error ({before:percent} at the start), "
        "mostly of the tool {tool:quoted}: {error}.",
        "unnamed": "{share:percent} of tool calls return an error ({before:percent} at the "
        "start), mostly: {error}.",
    },
    turn=lambda turn: bool(turn.error),
    statement="{share:percent} of tool calls fail",
    why="The policy is penalized for failures that it did not cause, and learns to avoid its "
    "tools.",
    suggestion="Read the errors, and leave rollouts of a broken environment out of the loss.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
)


class _UnparsedCalls(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of calls",
        "rise of the share that cannot be parsed, last level minus first",
    )
    share = Limit(0.5, LimitKind.SHARE, "of calls", "share that cannot be parsed")


unparsed_calls = Check(
    id="unparsed_calls",
    judge=share_of("unparsed_calls", "tool_calls"),
    name="tool calls cannot be parsed",
    rank=Rank.CAUSE,
    needs=(Need("tool calls", ("unparsed_calls",)),),
    charts=("unparsed_calls", "reward"),
    turn=_calls_unparsed,
    limits=_UnparsedCalls,
    close={"share": "{value:percent} of tool calls cannot be parsed"},
    title="{share:percent} of tool calls cannot be parsed ({before:percent} at the start).",
    statement="{share:percent} of tool calls cannot be parsed",
    why="A call that is not run teaches nothing about the tool; the policy may stop calling.",
    suggestion="Compare the calls with what the parser reads, and check whether the token limit "
    "cuts them off.",
    advice=see(SettingKind.LENGTH_LIMIT),
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
)


class _LateCalls(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of calls",
        "rise of the share after a final answer, last level minus first",
    )
    share = Limit(0.3, LimitKind.SHARE, "of calls", "share after a final answer")


late_calls = Check(
    id="late_calls",
    judge=share_of("late_calls", "tool_calls"),
    name="tools called after the answer",
    rank=Rank.CONSEQUENCE,
    needs=(Need("tool calls", ("late_calls",)),),
    charts=("late_calls", "reward"),
    limits=_LateCalls,
    title="{share:percent} of tool calls follow a final answer ({before:percent} at the start).",
    statement="{share:percent} of tool calls follow a final answer",
    why="The answer does not use these calls: they cost turns, maybe only to earn a reward.",
    suggestion="End the rollout at the final answer, and give no reward for calls alone.",
    source=AGENTS,
    explains=("turn_limit", "reward_stalled", *FALLS),
    turn=lambda turn: turn.sampled and is_final(turn.text),
)


class _MarkupTurns(RiseOrShare):
    rise = Limit(
        0.1,
        LimitKind.SHARE,
        "of turns",
        "rise of the share with markup in text, last level minus first",
    )
    share = Limit(0.3, LimitKind.SHARE, "of turns", "share with markup in text")


markup_turns = Check(
    id="markup_turns",
    judge=share_of("markup_turns", "turns"),
    name="markup of tool calls stays in the text",
    rank=Rank.CAUSE,
    needs=(Need("turns", ("markup_turns",)),),
    charts=("markup_turns", "reward"),
    limits=_MarkupTurns,
    title="{share:percent} of turns contain markup of a tool call that was not recognized "
    "({before:percent} at the start).",
    statement="{share:percent} of turns contain markup of an unrecognized tool call",
    why="Such a call is not run: the policy waits for an answer that does not come.",
    suggestion="Compare the markup with the format that the parser of the tool calls expects.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
    turn=_keeps_markup,
)


class _EmptyResults(Limits):
    rise = Limit(
        0.3,
        LimitKind.SHARE,
        "of answers",
        "rise of the share of one tool's answers that hold nothing, last level minus first",
    )
    answers = Limit(
        50,
        LimitKind.COUNT,
        "answers",
        "answers of a tool in the run; below it not judged",
    )


@Check(
    name="tools return nothing",
    rank=Rank.CAUSE,
    needs=(Need("tool calls", ("empty_results",)),),
    charts=("empty_results", "reward"),
    turn=_is_empty_answer,
    limits=_EmptyResults,
    title={
        "named": "{share:percent} of the answers of the tool {tool:quoted} are empty or say that "
        "nothing was found ({before:percent} at the start).",
        "unnamed": "{share:percent} of the tools' answers are empty or say that nothing was found "
        "({before:percent} at the start).",
    },
    statement={
        "named": "{share:percent} of the answers of the tool {tool:quoted} are empty",
        "unnamed": "{share:percent} of the tools' answers are empty",
    },
    why="The policy learns that its calls are of no use, whatever it asks for.",
    suggestion="Call the tool by hand with arguments of a response, and leave these rollouts out "
    "of the loss.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
    trend=True,
)
def empty_results(check: Check, run: Run) -> Result:
    """Find that the answers of one tool came to be empty, or to say that nothing was found."""
    if run.tables.tools.empty:
        return Result()
    # ``rise`` is NaN for a tool whose share did not rise.
    risen = [tool for tool in _empty_answers(run) if np.isfinite(tool.rise)]
    if not risen:
        return Result()
    worst = max(risen, key=lambda tool: tool.rise)
    rise = run.limits.test(_EmptyResults.rise, ">=", worst.rise)
    curve = worst.series.curve
    if not rise.met or curve is None:
        return Result(tested=(rise,))
    empty = run.column("empty_results")
    return check.found(
        run,
        Severity.WARNING,
        [rise],
        {
            "share": curve.last.value,
            "before": curve.first.value,
            "tool": LogText(worst.tool),
            "kind": "named" if worst.tool else "unnamed",
        },
        Ranking(empty, beyond(empty, ">", 0)),
        series=worst.series,
        onset=run.onset(worst.series),
    )


def _empty_answers(run: Run) -> Iterator[_ToolShare]:
    """Yield the share of each tool's empty answers, of tools with enough answers to judge."""
    least = run.limits[_EmptyResults].answers
    # The table has a row for each tool and step.
    for name, by_step in run.tables.tools.groupby("tool"):
        if by_step["answers"].sum() < least or len(by_step) < MIN_STEPS:
            continue
        share = (by_step["empty"] / by_step["answers"]).to_numpy(np.float64)
        series = Series(by_step["step"].to_numpy(np.int64), share)
        yield _ToolShare(str(name), series)


class _ToolDisuse(Limits):
    ratio = Limit(
        0.3,
        LimitKind.RATIO,
        "times",
        "calls per response against the level before",
        AGENTS,
    )
    calls = Limit(
        0.2,
        LimitKind.COUNT,
        "calls",
        "calls per response at the start; below it not judged",
    )
    tool = Limit(
        0.2,
        LimitKind.RATIO,
        "times",
        "calls of one tool per response, last block of responses against the first",
        AGENTS,
    )


@Check(
    name="tools no longer called",
    rank=Rank.CAUSE,
    needs=(Need("tool calls", ("tool_calls",), ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    limits=_ToolDisuse,
    title={
        "all": "Responses make {end:figure} tool calls on average ({start:figure} at the start).",
        "tool": "Responses make {end:figure} calls of the tool {tool:quoted} on average "
        "({start:figure} at the start).",
        "tools": "Responses make {end:figure} calls of the tool {tool:quoted} on average "
        "({start:figure} at the start); no longer called are also {others:quoted}.",
    },
    statement={
        "all": "responses make {end:short} tool calls on average ({start:short} at the start)",
        "tool": "responses make {end:short} calls of {tool:quoted} ({start:short} at the start)",
        "tools": "responses make {end:short} calls of {tool:quoted} ({start:short} at the start)",
    },
    why="The policy learns to guess instead of calling tools, and rarely goes back to them.",
    suggestion="Look for errors, costs and unrecognized calls; choose tasks that need a tool.",
    explains=(*FALLS, "reward_stalled", "length_collapse", "diversity_collapse"),
    trend=True,
)
def tool_disuse(check: Check, run: Run) -> Result:
    """Find that responses make far fewer tool calls than before, of all tools or of one."""
    series = quantities.figure_of(run, "tool_calls")
    curve = series.curve if series is not None else None
    if series is None or curve is None:
        return Result()
    # Calls may have become more frequent before they fell.
    start = curve.before_fall
    end = curve.last.value
    ratio = run.limits.test(_ToolDisuse.ratio, "<", end, of=start)
    enough = run.limits.test(_ToolDisuse.calls, ">", start)
    if not (ratio.met and curve.has_fallen and enough.met):
        of_tools = _judge_each_tool(check, run)
        return replace(of_tools, tested=(ratio, enough, *of_tools.tested))
    calls = run.column("tool_calls")
    is_disused = beyond(calls, "<", ratio.bound * start)
    return check.found(
        run,
        Severity.WARNING,
        [ratio],
        {"start": start, "end": end, "kind": "all"},
        Ranking(calls, is_disused, highest=False, unit="calls"),
        series=series,
        onset=fall_onset(curve),
    )


class _ToolCalls(NamedTuple):
    """How often a tool was called: its answers per response."""

    tool: str
    series: Series
    first: float  # in the first and the last block of responses
    last: float

    @property
    def has_fallen(self) -> bool:
        """Whether it fell as a curve or, of few steps, each late one is below each early one."""
        curve = self.series.curve
        if curve is not None and curve.has_fallen:
            return True
        values = self.series.values
        count = max(LEAST_SIDE, len(values) // 3)
        if len(values) < 2 * count:
            return False
        return bool(values[-count:].max() < values[:count].min())


def _judge_each_tool(check: Check, run: Run) -> Result:
    """Find that responses came to call a tool hardly any more, unless other tasks came in."""
    if run.tables.tools.empty or _has_other_mix(run):
        return Result()
    limits = _ToolDisuse
    vanished = []
    for tool in _calls_of_tools(run):
        ratio = run.limits.test(limits.tool, "<", tool.last, of=tool.first)
        enough = run.limits.test(limits.calls, ">=", tool.first)
        if ratio.met and enough.met and tool.has_fallen:
            vanished.append((ratio, tool))
    if not vanished:
        return Result()
    ratio, most = max(vanished, key=lambda pair: pair[1].first)
    names = [tool.tool for _, tool in vanished if tool is not most]
    others = tuple(map(LogText, names))
    curve = most.series.curve
    assert curve is not None
    onset = run.onset_beyond(most.series, ratio.bound * most.first, "<")
    return check.found(
        run,
        Severity.WARNING,
        [ratio],
        {
            "kind": "tools" if others else "tool",
            "tool": LogText(most.tool),
            "others": others,
            "start": most.first,
            "end": most.last,
        },
        series=most.series,
        onset=fall_onset(curve) or onset,
    )


def _calls_of_tools(run: Run) -> Iterator[_ToolCalls]:
    """Yield how often each tool with a name answers, by step and in the outer blocks."""
    windows = blocks(run)
    if len(windows) < 2:
        return
    responses = np.bincount(run.step_index, minlength=len(run.steps))
    is_first = np.isin(run.steps, windows[0].steps)
    is_last = np.isin(run.steps, windows[-1].steps)
    for name, by_step in run.tables.tools.groupby("tool"):
        if not name:
            continue  # answers to calls that were not parsed, which is no tool to use
        answers = by_step.groupby("step")["answers"].sum()
        counts = answers.reindex(run.steps, fill_value=0).to_numpy(np.float64)
        yield _ToolCalls(
            tool=str(name),
            series=Series(run.steps, counts / responses),
            first=float(counts[is_first].sum() / responses[is_first].sum()),
            last=float(counts[is_last].sum() / responses[is_last].sum()),
        )


def _has_other_mix(run: Run) -> bool:
    """Return whether other environments, which may need other tools, make up the last responses."""
    windows = blocks(run)
    if run.environments is None or not windows:
        return False
    size = int(run.environments.index.max(initial=0)) + 1
    shares = []
    for window in (windows[0], windows[-1]):
        index = run.environments.index[window.rows]
        counts = np.bincount(index[index >= 0], minlength=size)
        shares.append(counts / max(counts.sum(), 1))
    moved = np.abs(shares[1] - shares[0]).sum() / 2
    return bool(moved > OTHER_MIX)


class _VoidTurns(RiseOrShare):
    share = Limit(
        0.1,
        LimitKind.SHARE,
        "of turns",
        "share with neither a call nor an answer",
        "SimpleTIR (void turns)",
    )


void_turns = Check(
    id="void_turns",
    judge=share_of("void_turns", "turns"),
    name="empty turns",
    rank=Rank.CONSEQUENCE,
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    limits=_VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} at the "
    "start).",
    statement="{share:percent} of turns have neither a call nor an answer",
    why="The gradients of such turns are large and have ended multi-turn runs.",
    suggestion="Exclude these conversations from the loss (SimpleTIR), and check whether the "
    "token limit is too low.",
    turn=_is_void,
    advice=see(SettingKind.LENGTH_LIMIT),
)


class _TurnLimit(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of conversations",
        "rise of the share stopped, last level minus first",
        EOS,
    )
    share = Limit(0.5, LimitKind.SHARE, "of conversations", "share stopped", EOS)


def _judge_turn_limit(check: Check, run: Run) -> Result:
    """Find that many conversations hit the turn limit, or more than at the start."""
    # Without a logged reason, the reader infers it from the largest number of turns.
    is_inferred = False
    if run.has("at_turn_limit"):
        is_inferred = bool((run.column("ending") == Ending.MOST_TURNS).any())
    facts = {"kind": "inferred" if is_inferred else "logged"}
    judge = share_of("at_turn_limit", role="turn_limit", facts=facts, at_end=True)
    return judge(check, run)


turn_limit = Check(
    id="turn_limit",
    judge=_judge_turn_limit,
    name="conversations hit the turn limit",
    rank=Rank.CONSEQUENCE,
    needs=(Need("turns and a finish reason", ("at_turn_limit",), ("turn_limit",)),),
    charts=("turns", "eos"),
    limits=_TurnLimit,
    close={"share": "{value:percent} of conversations hit the turn limit"},
    title={
        "logged": "{share:percent} of conversations hit the turn limit ({before:percent} at the "
        "start).",
        "inferred": "{share:percent} of conversations seem to hit the turn limit ({before:percent} "
        "at the start), judged by their number of turns, as no reason is logged.",
    },
    statement="{share:percent} of conversations hit the turn limit",
    why="A conversation that is stopped has no answer to judge.",
    suggestion="Allow more turns, reward early answers, or mask stopped conversations in the loss.",
    advice=higher(SettingKind.TURN_LIMIT),
    otherwise="Reward early answers, or mask stopped conversations in the loss.",
    explains=("reward_stalled", "diversity_collapse", *FALLS),
)


class _UnclosedThinking(RiseOrShare):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "rise of the share of unclosed thinking, last level minus first",
        EOS,
    )
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share whose thinking does not end",
        EOS,
    )


unclosed_thinking = Check(
    id="unclosed_thinking",
    judge=share_of("unclosed_thinking", at_end=True),
    name="thinking never ends",
    rank=Rank.CONSEQUENCE,
    needs=(Need("thinking between <think> and </think>", ("unclosed_thinking",)),),
    charts=("eos", "length"),
    limits=_UnclosedThinking,
    close={"share": "thinking never ends in {value:percent} of responses that think"},
    title="Thinking never ends in {share:percent} of responses that think ({before:percent} at the "
    "start).",
    statement="thinking never ends in {share:percent} of responses that think",
    why="Such a response has no final answer, so its reward judges an unfinished text.",
    suggestion="Allow more tokens, penalise length, or leave these responses out of the loss.",
    advice=higher(SettingKind.LENGTH_LIMIT),
    otherwise="Penalise length, or leave these responses out of the loss.",
    explains=("missing_eos",),
)
