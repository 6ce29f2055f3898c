"""Checks of sampler and trainer, of the critic, and of agents: turns, tools, thinking."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import FAILURES, FALLS, KL, Check, Need, Result, RiseOrShare, share_of
from rlreport.check.finding import (
    EOS,
    SEVERITIES,
    Facts,
    Finding,
    Limit,
    Limits,
    LogText,
    Onset,
    meets,
)
from rlreport.check.noise import part_of, z_of
from rlreport.check.run import LimitedFigure, Ranking, Run, mean, median
from rlreport.check.series import MIN_STEPS, Series, onset
from rlreport.figures.metadata import ERROR_KINDS, Ending
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import MISMATCHES
from rlreport.summarise.steps import Grouped, sequence_weights
from rlreport.text.chat import calls_in_text, has_markup, is_final, is_unparsed
from rlreport.text.messages import format_message, listed, message, translatable

AGENTS = translatable("verl issues 1569, 4998 (tool calls vanish); AReaL (share at the turn limit)")
MISMATCH = translatable("NeMo-RL guides; verl FAQ")
TINKER = translatable("tinker-cookbook: training is stable below 0.01")
ROLLOUT_CORR = translatable(
    "verl rollout_corr; VCPO (a falling effective sample precedes collapse)"
)
TRL_NEGATIVE = translatable(
    "TRL FAQ (top-k, min_length); LMFlow post (nearly half negative after a minimum length)"
)
CRITIC = translatable("RLLoggingBoard post (critic variance); PPO practice")


_SAME_TOKENS = translatable("sampler and trainer logprobs of the same tokens")


class _EngineMismatch(Limits):
    ratio = Limit(1.05, "", "mean exp|trainer - sampler| per token", MISMATCH)
    k3 = Limit(1e-3, "nats", "mean k3 per token, trainer against sampler", MISMATCH)
    prob = Limit(0.01, "", "mean |trainer - sampler| probability per token", MISMATCH)
    lagged = Limit(0.01, "nats", "trainer's KL per token if the sampler's weights may lag", TINKER)


# Figure -> its part of the title; trainers log only some of them
_DISAGREEMENTS = {
    "ratio": translatable("exp|Δ logp| {ratio:figure}"),
    "k3": translatable("k3 {k3:figure} nats"),
    "prob": translatable("|Δ prob| {prob:figure}"),
    "lagged": translatable("KL {lagged:figure} nats"),
}


def _disagreement(facts: Facts) -> str:
    parts = [format_message(text, facts) for name, text in _DISAGREEMENTS.items() if name in facts]
    literal = translatable("Sampler and trainer disagree on the same tokens: {parts} on average.")
    return message(literal, parts=listed(parts))


@Check(
    name="sampler and trainer disagree",
    rank="cause",
    needs=(Need(_SAME_TOKENS, ("mismatch_k3",), MISMATCHES),),
    charts=("mismatch",),
    limits=_EngineMismatch,
    title=_disagreement,
    statement=lambda facts: (
        translatable("sampler and trainer disagree (k3 {k3:short} nats per token)")
        if "k3" in facts
        else translatable("sampler and trainer disagree")
    ),
    why="The trainer assumes on-policy data, but the sampler's probabilities differ; the bias "
    "grows with response length.",
    suggestion="Use equal precision, kernels and weights, or truncated importance weights.",
    explains=(*FAILURES, "ratio_drift", "negative_kl"),
)
def engine_mismatch(check: Check, run: Run) -> Result:
    weights = run.column("mismatch_tokens")
    limits = _EngineMismatch
    figures = [
        run.figure(limit, f"mismatch_{limit.key}", weights)
        for limit in (limits.k3, limits.prob, limits.ratio, limits.lagged)
    ]
    facts: Facts = {figure.limit.key: figure.end for figure in figures if figure.end >= 0}
    ranking = Ranking(run.column("mismatch_k3"), unit="nats per token")
    return check.judge_figures(run, figures, ranking, **facts)


class _OffPolicyWeights(Limits):
    ess = Limit(0.3, "of responses", "effective sample size", ROLLOUT_CORR)
    low = Limit(0.5, "", "mean weight (lower limit)", ROLLOUT_CORR)
    high = Limit(2.0, "", "mean weight (upper limit)", ROLLOUT_CORR)
    std = Limit(1.0, "", "std of the weights", ROLLOUT_CORR)
    chi2 = Limit(1.0, "", "mean of squared weights − 1", ROLLOUT_CORR)


@Check(
    name="off-policy importance weights",
    rank="cause",
    needs=(Need(_SAME_TOKENS, ("log_weight",), ("ess",)),),
    charts=("mismatch",),
    limits=_OffPolicyWeights,
    title=lambda facts: (
        translatable(
            "Importance weights of whole responses vary widely: mean {mean:figure}, std "
            "{std:figure}, effective sample size {ess:percent}."
        )
        if "std" in facts
        else translatable("Importance weights vary widely: effective sample size {ess:percent}.")
    ),
    statement="importance weights vary widely (effective sample size {ess:percent})",
    why="A few responses then carry most of a corrected gradient; an uncorrected one is biased.",
    suggestion="Truncate the weights or mask the outliers, and sample from fresher weights.",
    explains=(*FALLS, "kl_explosion", "entropy_collapse", "reward_stalled"),
)
def off_policy_weights(check: Check, run: Run) -> Result:
    limits = _OffPolicyWeights
    ranking = Ranking(np.abs(run.column("log_weight")), unit="nats")
    if not run.has("log_weight"):
        figure = run.figure(limits.ess, "ess", op="<")
        return check.judge_figures(run, [figure], ranking, ess=figure.end)
    # Medians over the last steps are judged, so a single bad step is not a finding.
    weight = sequence_weights(run.column("log_weight"))
    mean = run.by_step(weight)
    square = run.by_step(weight**2)
    std = np.sqrt(np.maximum(square - mean**2, 0))
    by_step = {"mean": mean, "ess": mean**2 / square, "std": std, "chi2": square - 1}
    ends = {name: median(run.last_values(series)) for name, series in by_step.items()}
    figures = [
        LimitedFigure(limits.ess, "<", by_step["ess"], ends["ess"]),
        LimitedFigure(limits.low, "<", mean, ends["mean"]),
        LimitedFigure(limits.high, ">", mean, ends["mean"]),
        LimitedFigure(limits.std, ">", std, ends["std"]),
        LimitedFigure(limits.chi2, ">", by_step["chi2"], ends["chi2"]),
    ]
    return check.judge_figures(run, figures, ranking, **ends)


class _StaleRollouts(Limits):
    lag = Limit(8.0, "steps", "mean lag of the last window", "prime-rl: max_off_policy_steps is 8")


@Check(
    name="stale rollouts",
    rank="cause",
    needs=(Need("policy_version", ("lag",), ("lag",)),),
    charts=("lag", "reward"),
    limits=_StaleRollouts,
    title="On average, responses are {lag:figure} steps old when the policy trains on them.",
    statement="responses lag {lag:short} steps behind the policy",
    why="The policy learns from texts that it would no longer write.",
    suggestion="Update the sampler more often, or drop rollouts whose lag exceeds a limit.",
    explains=("off_policy_weights", "ratio_drift", *FALLS, "entropy_collapse"),
)
def stale_rollouts(check: Check, run: Run) -> Result:
    figure = run.figure(_StaleRollouts.lag, "lag")
    ranking = Ranking(run.column("lag"), unit="steps")
    return check.judge_figures(run, [figure], ranking, lag=figure.end)


class _NegativeKl(Limits):
    z = Limit(-3.0, "std errors", "significance of a mean KL below zero (warning)", TRL_NEGATIVE)
    mean = Limit(-0.01, "nats", "mean KL, low enough to exclude rounding errors")


@Check(
    name="negative KL",
    rank="cause",
    needs=(KL,),
    charts=("kl",),
    limits=_NegativeKl,
    title="The KL estimate is below zero: {kl:figure} nats per response, negative in "
    "{share:percent} of responses.",
    statement="the KL estimate is below zero ({kl:short} nats per response)",
    why="The tokens were sampled from a different distribution than the trainer's, so a KL "
    "penalty acts as an undeserved reward.",
    suggestion="Sample with temperature 1, top_k = 0, top_p = 1, no min_length or forced tokens.",
    explains=(*FALLS, "reward_stalled", "length_collapse"),
)
def negative_kl(check: Check, run: Run) -> Result:
    kl = run.column("kl_k1")
    part = part_of(run.tables, kl, run.last, None)
    end = part.mean
    end_z = z_of(run.tables, kl, None, [part])
    low = run.met(_NegativeKl.mean, "<", end)
    z = run.met(_NegativeKl.z, "<=", end_z)
    if not (low and z):
        return None
    values = kl[run.last.rows]
    series = run.by_step(kl)
    always = run.first is not None and mean(kl[run.first.rows]) <= end / 2
    return check.finding(
        run,
        "warning",
        low + z,
        {"kl": end, "share": float((values < 0).sum() / np.isfinite(values).sum())},
        Ranking(kl, highest=False, unit="nats", among=kl < 0),
        series=series,
        always=always,
        steps=run.steps[series < 0].tolist(),
    )


class _ValueDivergence(Limits):
    explained = Limit(-0.5, "", "explained variance of the last window (warning)", CRITIC)
    weak = Limit(0.0, "", "explained variance of the last window (note)", CRITIC)
    spread = Limit(5.0, "times", "std of values against std of returns (warning)", CRITIC)
    floor = Limit(0.01, "of the run's", "least variance of returns that the critic can fit")


@Check(
    name="critic divergence",
    rank="cause",
    needs=(Need("values and token_rewards", ("value_error_m2", "return_m2")),),
    charts=("explained_variance", "value"),
    limits=_ValueDivergence,
    title={
        "weak": "The critic is weak: explained variance {explained:figure}.",
        "diverged": "The critic does not follow the returns: explained variance "
        "{explained:figure}, std of values {spread:figure} × that of the returns.",
    },
    statement="the critic does not follow the returns (explained variance {explained:short})",
    why="Advantages are returns less values: a critic worse than a constant only adds noise.",
    suggestion="Warm the critic up, lower its learning rate, clip values or normalise returns.",
    explains=FAILURES,
    trend=True,
)
def value_divergence(check: Check, run: Run) -> Result:
    # λ-returns are computed from the values and diverge with them; Monte Carlo returns do not.
    kinds = (("return", "value_error"), ("mc_return", "mc_error"))
    fits = [_judge_fit(check, run, *names) for names in kinds if run.has(f"{names[1]}_m2")]
    findings = [fit for fit in fits if isinstance(fit, Finding)]
    return min(findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def _judge_fit(check: Check, run: Run, returns: str, error: str) -> Result:  # noqa: PLR0914
    limits = run.limits[_ValueDivergence]
    rows = len(run.responses)
    everything = Grouped(np.zeros(1, np.int64), rows)
    last_window = Grouped(np.array([0, run.last.rows.start]), rows)

    def variance(name: str, groups: Grouped) -> Floats:
        columns = ("value_tokens", f"{name}_mean", f"{name}_m2")
        return groups.pooled_variance(*map(run.column, columns))

    min_variance = limits.floor * float(variance(returns, everything)[-1])
    scale = max(float(variance(returns, last_window)[-1]), min_variance)
    if not scale > 0:
        return None
    explained = 1 - float(variance(error, last_window)[-1]) / scale
    spread = float(np.sqrt(variance("value", last_window)[-1] / scale))
    misfit = run.met(_ValueDivergence.explained, "<", explained)
    wide = run.met(_ValueDivergence.spread, ">", spread)
    met = misfit + wide or run.met(_ValueDivergence.weak, "<", explained)
    if not met:
        return None
    name = "value" if wide and not misfit else error
    fit = limits.explained if misfit else limits.weak
    bound = limits.spread**2 if name == "value" else 1 - fit
    figure, base = (variance(prefix, Grouped.by(run.step_index)) for prefix in (name, returns))
    ratio = figure / np.fmax(base, min_variance)
    kind = "diverged" if misfit or wide else "weak"
    series = np.log1p(ratio)
    always = meets(">", median(ratio[np.isfinite(ratio)][:3]), bound)
    return check.finding(
        run,
        "info" if kind == "weak" else "warning",
        met,
        {"explained": explained, "spread": spread, "kind": kind},
        Ranking(np.abs(run.column(f"{error}_mean"))),
        series=series,
        always=always,
    )


class _FailedRollouts(RiseOrShare):
    rise = Limit(0.2, "of rollouts", "share that failed: last window minus first")
    share = Limit(0.5, "of rollouts", "share that failed, last window")


@Check(
    name="failed rollouts",
    rank="cause",
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
    failed = run.attempted_steps["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return check.judge_metric(run, "failed")
    steps = run.attempted_steps["step"].to_numpy(np.int64)
    share: Floats = failed / (failed + run.attempted_steps["responses"].to_numpy(np.float64))
    series = Series(steps, share)
    start = int(steps[0])
    moved = series.change()
    rise = onset(steps, share) if moved.difference > 0 else Onset(start, start, start)
    later = steps[steps >= rise.step].tolist() if rise else ()
    return check.judge_share(run, moved, series, onset=rise, steps=later)


class _ToolErrors(RiseOrShare):
    rise = Limit(0.2, "of calls", "share that return an error: last window minus first")
    share = Limit(0.5, "of calls", "share that return an error, last window")


def _judge_tool_errors(check: Check, run: Run) -> Result:
    facts: Facts = {"kind": "plain"}
    if not run.tables.tools.empty:
        kinds = run.tables.tools.groupby("tool")[list(ERROR_KINDS)].sum()
        tool = str(kinds.max(axis=1).idxmax())
        kind = str(kinds.max().idxmax())
        if kinds[kind].max() > run.tables.tools["errors"].sum() / 2:
            named = {"tool": LogText(tool), "error": message(ERROR_KINDS[kind])}
            facts = {**named, "kind": "named" if tool else "unnamed"}
    return share_of("tool_errors", "tool_calls", "tool_errors", facts)(check, run)


tool_errors = Check(
    id="tool_errors",
    judge=_judge_tool_errors,
    name="tools fail",
    rank="cause",
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
    rise = Limit(0.2, "of calls", "share that cannot be parsed: last window minus first")
    share = Limit(0.5, "of calls", "share that cannot be parsed, last window")


unparsed_calls = Check(
    id="unparsed_calls",
    judge=share_of("unparsed_calls", "tool_calls"),
    name="tool calls cannot be parsed",
    rank="cause",
    needs=(Need("tool calls", ("unparsed_calls",)),),
    charts=("unparsed_calls", "reward"),
    turn=lambda turn: (
        any(is_unparsed(arguments) for _, arguments in turn.calls)
        or bool(turn.sampled and not turn.calls and calls_in_text(turn.text))
    ),
    limits=_UnparsedCalls,
    close={"share": "{value:percent} of tool calls cannot be parsed"},
    title="{share:percent} of tool calls cannot be parsed ({before:percent} at the start).",
    statement="{share:percent} of tool calls cannot be parsed",
    why="A call that is not run teaches nothing about the tool; the policy may stop calling.",
    suggestion="Compare the calls with what the parser reads, and check whether the token limit "
    "cuts them off.",
    source=AGENTS,
    explains=("tool_disuse", "void_turns", "reward_stalled", *FALLS),
)


class _LateCalls(RiseOrShare):
    rise = Limit(0.2, "of calls", "share after a final answer: last window minus first")
    share = Limit(0.3, "of calls", "share after a final answer, last window")


late_calls = Check(
    id="late_calls",
    judge=share_of("late_calls", "tool_calls"),
    name="tools called after the answer",
    rank="consequence",
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
    rise = Limit(0.1, "of turns", "share with markup in text: last window minus first")
    share = Limit(0.3, "of turns", "share with markup in text, last window")


markup_turns = Check(
    id="markup_turns",
    judge=share_of("markup_turns", "turns"),
    name="markup of tool calls stays in the text",
    rank="cause",
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
    turn=lambda turn: turn.sampled and not turn.calls and has_markup(turn.text),
)


class _EmptyResults(Limits):
    rise = Limit(
        0.3, "of answers", "share of one tool's answers without text: last window minus first"
    )
    answers = Limit(50, "answers", "answers of a tool in the run; below it not judged")


@Check(
    name="tools return nothing",
    rank="cause",
    needs=(Need("tool calls", ("empty_results",)),),
    charts=("empty_results", "reward"),
    turn=lambda turn: turn.role == "tool" and not (turn.error or turn.text.strip()),
    limits=_EmptyResults,
    title={
        "named": "{share:percent} of the answers of the tool {tool:quoted} are empty "
        "({before:percent} at the start).",
        "unnamed": "{share:percent} of the tools' answers are empty ({before:percent} at the "
        "start).",
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
    limits = run.limits[_EmptyResults]
    worst = None
    if run.tables.tools.empty:
        return None
    for name, tool in run.tables.tools.groupby("tool"):
        if tool["answers"].sum() < limits.answers or len(tool) < MIN_STEPS:
            continue
        share = (tool["empty"] / tool["answers"]).to_numpy(np.float64)
        series = Series(tool["step"].to_numpy(np.int64), share)
        moved = series.change()
        if moved.rose and (worst is None or moved.difference > worst[1].difference):
            worst = str(name), moved, series
    if worst is None:
        return None
    name, moved, series = worst
    if not (met := run.met(_EmptyResults.rise, ">=", moved.difference)):
        return None
    facts: Facts = {"share": moved.last, "before": moved.first, "tool": LogText(name)}
    facts = {**facts, "kind": "named" if name else "unnamed"}
    empty = run.column("empty_results")
    return check.finding(run, "warning", met, facts, Ranking(empty, among=empty > 0), series=series)


class _ToolDisuse(Limits):
    ratio = Limit(0.3, "times", "calls per response against the first window", AGENTS)
    calls = Limit(0.2, "calls", "calls per response at the start; below it not judged")


@Check(
    name="tools no longer called",
    rank="cause",
    needs=(Need("tool calls", ("tool_calls",), ("tool_calls",)),),
    charts=("tool_calls", "reward"),
    limits=_ToolDisuse,
    title="Responses make {end:figure} tool calls on average ({start:figure} at the start).",
    statement="responses make {end:short} tool calls on average ({start:short} at the start)",
    why="The policy learns to guess instead of calling tools, and rarely goes back to them.",
    suggestion="Look for errors, costs and unrecognized calls; choose tasks that need a tool.",
    explains=(*FALLS, "reward_stalled", "length_collapse", "diversity_collapse"),
    trend=True,
)
def tool_disuse(check: Check, run: Run) -> Result:
    if (figure := run.change_and_series("tool_calls", "tool_calls")) is None:
        return None
    moved, series = figure
    ratio = run.met(_ToolDisuse.ratio, "<", moved.last, of=moved.first)
    if not (ratio and moved.fell and run.met(_ToolDisuse.calls, ">", moved.first)):
        return None
    ranking = Ranking(run.column("tool_calls"), highest=False, unit="calls")
    facts = {"start": moved.first, "end": moved.last}
    return check.finding(run, "warning", ratio, facts, ranking, series=series)


class _VoidTurns(RiseOrShare):
    share = Limit(
        0.1, "of turns", "share with neither a call nor an answer", "SimpleTIR (void turns)"
    )


void_turns = Check(
    id="void_turns",
    judge=share_of("void_turns", "turns"),
    name="empty turns",
    rank="consequence",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    limits=_VoidTurns,
    title="{share:percent} of turns have neither a call nor an answer ({before:percent} at the "
    "start).",
    statement="{share:percent} of turns have neither a call nor an answer",
    why="The gradients of such turns are large and have ended multi-turn runs.",
    suggestion="Exclude these conversations from the loss (SimpleTIR), and check whether the "
    "token limit is too low.",
)


class _TurnLimit(RiseOrShare):
    rise = Limit(0.2, "of conversations", "share stopped: last window minus first", EOS)
    share = Limit(0.5, "of conversations", "share stopped, last window", EOS)


def _judge_turn_limit(check: Check, run: Run) -> Result:
    inferred = run.has("at_turn_limit") and (run.column("ending") == Ending.MOST_TURNS).any()
    facts = {"kind": "inferred" if inferred else "logged"}
    return share_of("at_turn_limit", role="turn_limit", facts=facts)(check, run)


turn_limit = Check(
    id="turn_limit",
    judge=_judge_turn_limit,
    name="conversations hit the turn limit",
    rank="consequence",
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
    explains=("reward_stalled", "diversity_collapse", *FALLS),
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
    close={"share": "thinking never ends in {value:percent} of responses that think"},
    title="Thinking never ends in {share:percent} of responses that think ({before:percent} at the "
    "start).",
    statement="thinking never ends in {share:percent} of responses that think",
    why="Such a response has no final answer, so its reward judges an unfinished text.",
    suggestion="Allow more tokens, penalise length, or leave these responses out of the loss.",
    explains=("missing_eos",),
)
