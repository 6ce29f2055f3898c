"""Checks of the sampler against the trainer, of stale rollouts, and of the critic."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import FAILURES, FALLS, KL, Check, Need, Result
from rlreport.check.evidence import Ranking
from rlreport.check.finding import SEVERITIES, Facts, Finding
from rlreport.check.limits import Limit, Limits, meets
from rlreport.check.noise import part_of, z_of
from rlreport.check.run import LimitedFigure, Run, mean, median
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import MISMATCHES
from rlreport.summarise.steps import sequence_weights
from rlreport.text.messages import format_message, listed, message, translatable

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
    lagged = Limit(
        0.01, "nats", "trainer's KL per token if the sampler's weights may lag", TINKER
    )


# Figure -> its part of the title; trainers log only some of them
_DISAGREEMENTS = {
    "ratio": translatable("exp|Δ logp| {ratio:figure}"),
    "k3": translatable("k3 {k3:figure} nats"),
    "prob": translatable("|Δ prob| {prob:figure}"),
    "lagged": translatable("KL {lagged:figure} nats"),
}


def _disagreement(facts: Facts) -> str:
    parts = [
        format_message(text, facts)
        for name, text in _DISAGREEMENTS.items()
        if name in facts
    ]
    literal = translatable(
        "Sampler and trainer disagree on the same tokens: {parts} on average."
    )
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
    facts: Facts = {
        figure.limit.key: figure.end for figure in figures if figure.end >= 0
    }
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
        else translatable(
            "Importance weights vary widely: effective sample size {ess:percent}."
        )
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
    lag = Limit(
        8.0,
        "steps",
        "mean lag of the last window",
        "prime-rl: max_off_policy_steps is 8",
    )


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
    z = Limit(
        -3.0,
        "std errors",
        "significance of a mean KL below zero (warning)",
        TRL_NEGATIVE,
    )
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
    explained = Limit(
        -0.5, "", "explained variance of the last window (warning)", CRITIC
    )
    weak = Limit(0.0, "", "explained variance of the last window (note)", CRITIC)
    spread = Limit(
        5.0, "times", "std of values against std of returns (warning)", CRITIC
    )
    floor = Limit(
        0.01, "of the run's", "least variance of returns that the critic can fit"
    )


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
    fits = [
        _judge_fit(check, run, *names) for names in kinds if run.has(f"{names[1]}_m2")
    ]
    findings = [fit for fit in fits if isinstance(fit, Finding)]
    return min(
        findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None
    )


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
    figure, base = (
        variance(prefix, Grouped.by(run.step_index)) for prefix in (name, returns)
    )
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
