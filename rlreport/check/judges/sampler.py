"""Checks of the sampler against the trainer, of stale rollouts, and of the critic."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from rlreport.check import means, quantities
from rlreport.check.check import FAILURES, FALLS, KL, Check, Need, severity_of
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.check.windows import part_of, z_of
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
    ratio = Limit(
        1.05, LimitKind.VALUE, "", "mean exp|trainer - sampler| per token", MISMATCH
    )
    k3 = Limit(
        1e-3,
        LimitKind.VALUE,
        "nats",
        "mean k3 per token, trainer against sampler",
        MISMATCH,
    )
    prob = Limit(
        0.01,
        LimitKind.VALUE,
        "",
        "mean |trainer - sampler| probability per token",
        MISMATCH,
    )
    lagged = Limit(
        0.01,
        LimitKind.VALUE,
        "nats",
        "trainer's KL per token if the sampler's weights may lag",
        TINKER,
    )


# Figure -> its part of the title; trainers log only some of them
_DISAGREEMENTS = {
    "ratio": translatable("exp|Δ logp| {ratio:figure}"),
    "k3": translatable("k3 {k3:figure} nats"),
    "prob": translatable("|Δ prob| {prob:figure}"),
    "lagged": translatable("KL {lagged:figure} nats"),
}


def _disagreement(facts: Facts) -> str:
    """Return the title, with those of the four figures that are logged."""
    parts = [
        format_message(text, facts)
        for name, text in _DISAGREEMENTS.items()
        if name in facts
    ]
    literal = translatable(
        "Sampler and trainer disagree on the same tokens: {parts} on average."
    )
    return message(literal, parts=listed(parts))


def _disagreement_clause(facts: Facts) -> str:
    """Return the clause, with k3 if it is logged."""
    if "k3" in facts:
        return translatable(
            "sampler and trainer disagree (k3 {k3:short} nats per token)"
        )
    return translatable("sampler and trainer disagree")


@Check(
    name="sampler and trainer disagree",
    rank=Rank.CAUSE,
    needs=(Need(_SAME_TOKENS, ("mismatch_k3",), MISMATCHES),),
    charts=("mismatch",),
    limits=_EngineMismatch,
    title=_disagreement,
    statement=_disagreement_clause,
    why="The trainer assumes on-policy data, but the sampler's probabilities differ; the bias "
    "grows with response length.",
    suggestion="Use equal precision, kernels and weights, or truncated importance weights.",
    explains=(*FAILURES, "ratio_drift", "negative_kl"),
)
def engine_mismatch(check: Check, run: Run) -> Result:
    """Find that sampler and trainer give different probabilities to the same tokens."""
    # Number of tokens of which both have a log-probability
    weights = run.column("mismatch_tokens")
    limits = _EngineMismatch
    figures = []
    # The first figure beyond its limit is told.
    for limit in (limits.k3, limits.prob, limits.ratio, limits.lagged):
        series = quantities.figure_of(run, f"mismatch_{limit.key}", weights)
        if series is not None:
            figures.append(LimitedFigure(limit, ">", series))
    shown = {figure.limit.key: figure.series for figure in figures}
    ranking = Ranking(run.column("mismatch_k3"), unit="nats per token")
    return check.judge_figures(run, figures, ranking, shown)


def _weights_title(facts: Facts) -> str:
    """Return the title; trainers log the effective sample size alone."""
    if "std" in facts:
        return translatable(
            "Importance weights of whole responses vary widely: mean {mean:figure}, std "
            "{std:figure}, effective sample size {ess:percent}."
        )
    return translatable(
        "Importance weights vary widely: effective sample size {ess:percent}."
    )


class _OffPolicyWeights(Limits):
    ess = Limit(
        0.3, LimitKind.SHARE, "of responses", "effective sample size", ROLLOUT_CORR
    )
    low = Limit(0.5, LimitKind.VALUE, "", "mean weight (lower limit)", ROLLOUT_CORR)
    high = Limit(2.0, LimitKind.VALUE, "", "mean weight (upper limit)", ROLLOUT_CORR)
    std = Limit(1.0, LimitKind.VALUE, "", "std of the weights", ROLLOUT_CORR)
    chi2 = Limit(1.0, LimitKind.VALUE, "", "mean of squared weights − 1", ROLLOUT_CORR)


@Check(
    name="off-policy importance weights",
    rank=Rank.CAUSE,
    needs=(Need(_SAME_TOKENS, ("log_weight",), ("ess",)),),
    charts=("mismatch",),
    limits=_OffPolicyWeights,
    title=_weights_title,
    statement="importance weights vary widely (effective sample size {ess:percent})",
    why="A few responses then carry most of a corrected gradient; an uncorrected one is biased.",
    suggestion="Truncate the weights or mask the outliers, and sample from fresher weights.",
    explains=(*FALLS, "kl_explosion", "entropy_collapse", "reward_stalled"),
)
def off_policy_weights(check: Check, run: Run) -> Result:
    """Find that importance weights of whole responses vary too much."""
    limits = _OffPolicyWeights
    ranking = Ranking(np.abs(run.column("log_weight")), unit="nats")
    if not run.has("log_weight"):
        ess = quantities.figure_of(run, "ess")
        if ess is None:
            return Result()
        figure = LimitedFigure(limits.ess, "<", ess)
        return check.judge_figures(run, [figure], ranking, {"ess": ess})
    weight = sequence_weights(run.column("log_weight"))
    mean = run.by_step(weight)
    mean_square = run.by_step(weight**2)
    variance = np.maximum(mean_square - mean**2, 0)  # rounding may make it negative
    shown = {
        "mean": Series(run.steps, mean),
        "ess": Series(run.steps, mean**2 / mean_square),
        "std": Series(run.steps, np.sqrt(variance)),
        "chi2": Series(run.steps, mean_square - 1),
    }
    figures = [
        LimitedFigure(limits.ess, "<", shown["ess"]),
        LimitedFigure(limits.low, "<", shown["mean"]),
        LimitedFigure(limits.high, ">", shown["mean"]),
        LimitedFigure(limits.std, ">", shown["std"]),
        LimitedFigure(limits.chi2, ">", shown["chi2"]),
    ]
    return check.judge_figures(run, figures, ranking, shown)


class _StaleRollouts(Limits):
    lag = Limit(
        8.0,
        LimitKind.COUNT,
        "steps",
        "mean lag",
        "prime-rl: max_off_policy_steps is 8",
    )


@Check(
    name="stale rollouts",
    rank=Rank.CAUSE,
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
    """Find that responses were sampled by a policy many steps older."""
    lag = quantities.figure_of(run, "lag")
    if lag is None:
        return Result()
    figure = LimitedFigure(_StaleRollouts.lag, ">", lag)
    ranking = Ranking(run.column("lag"), unit="steps")
    return check.judge_figures(run, [figure], ranking, {"lag": lag})


class _NegativeKl(Limits):
    z = Limit(
        -3.0,
        LimitKind.ERRORS,
        "std errors",
        "significance of a mean KL below zero (warning)",
        TRL_NEGATIVE,
    )
    mean = Limit(
        -0.01, LimitKind.VALUE, "nats", "mean KL, low enough to exclude rounding errors"
    )


@Check(
    name="negative KL",
    rank=Rank.CAUSE,
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
    """Find that the estimate of the KL to the reference is surely below zero."""
    kl = run.column("kl_k1")
    series = means.series(run, kl)
    below = LimitedFigure(_NegativeKl.mean, "<", series)
    excursion = below.excursion(run)
    # Judged where it is negative; without such steps, values of the last ones are only tested.
    window = run.last
    if excursion is not None:
        window = run.window_of(excursion.steps)
    part = part_of(run.tables, kl, window, weights=None)
    low = run.limits.test(_NegativeKl.mean, "<", part.mean)
    significance = z_of(run.tables, kl, weights=None, parts=[part])
    z = run.limits.test(_NegativeKl.z, "<=", significance)
    if excursion is None or not (low.met and z.met):
        return Result(tested=(low, z))
    in_window = kl[window.rows]
    share = float((in_window < 0).sum() / np.isfinite(in_window).sum())
    bound = run.limits[_NegativeKl].mean
    return check.found(
        run,
        severity_of(excursion),
        [low, z],
        {"kl": part.mean, "share": share},
        Ranking(kl, highest=False, unit="nats", among=kl < 0),
        onset=run.onset_beyond(series, bound, "<"),
        until=None if excursion.lasts else excursion.steps[1],
        steps=run.steps[series.values < 0].tolist(),
    )


class _ValueDivergence(Limits):
    explained = Limit(
        -0.5,
        LimitKind.VALUE,
        "",
        "explained variance of the last window (warning)",
        CRITIC,
    )
    weak = Limit(
        0.0, LimitKind.VALUE, "", "explained variance of the last window (note)", CRITIC
    )
    spread = Limit(
        5.0,
        LimitKind.RATIO,
        "times",
        "std of values against std of returns (warning)",
        CRITIC,
    )
    floor = Limit(
        0.01,
        LimitKind.SHARE,
        "of the run's",
        "least variance of returns that the critic can fit",
    )


# Kinds of returns, and the errors of values against them
_RETURNS = (("return", "value_error"), ("mc_return", "mc_error"))


@Check(
    name="critic divergence",
    rank=Rank.CAUSE,
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
    """Find that the critic's values do not follow either kind of returns."""
    # λ-returns are computed from the values and diverge with them; Monte Carlo returns do not.
    results = [
        _judge_fit(check, run, returns, error)
        for returns, error in _RETURNS
        if run.has(f"{error}_m2")
    ]
    tested = tuple(chain.from_iterable(result.tested for result in results))
    findings = [result.finding for result in results if result.finding is not None]
    if not findings:
        return Result(tested=tested)
    most_serious = min(findings, key=lambda finding: finding.severity.order)
    return Result(most_serious, tested)


def _pooled_variance(run: Run, name: str, groups: Grouped) -> Floats:
    """Return the variance of a token figure, such as the values, in each group of responses.

    Args:
        run: the run. Its responses have the mean of the figure over their tokens, and the sum of
            squared deviations from it (``_m2``).
        name: the figure, such as "return".
        groups: the groups of responses.
    """
    columns = ("value_tokens", f"{name}_mean", f"{name}_m2")
    return groups.pooled_variance(*map(run.column, columns))


class _Fit(NamedTuple):
    """How well the critic's values follow the returns in the last window."""

    explained: float  # explained variance: 1 is perfect, a constant has 0
    spread: float  # std of the values over that of the returns
    min_variance: float  # least variance of returns that a critic can be asked to fit


def _fit_at_the_end(run: Run, returns: str, error: str) -> _Fit | None:
    """Return the fit of values to one kind of returns, None if these do not vary.

    Args:
        run: the run.
        returns: the figure of the returns, such as "return".
        error: the figure of these returns minus the values, such as "value_error".
    """
    rows = len(run.responses)
    everything = Grouped(np.zeros(1, np.int64), rows)
    # Two groups: the responses before the last window, and those in it
    last_window = Grouped(np.array([0, run.last.rows.start]), rows)
    # At the end of a run, returns may hardly vary: their variance is taken for a small part of that
    # of the whole run at least.
    floor = run.limits[_ValueDivergence].floor
    min_variance = floor * float(_pooled_variance(run, returns, everything)[-1])
    of_returns = float(_pooled_variance(run, returns, last_window)[-1])
    scale = max(of_returns, min_variance)
    if not scale > 0:
        return None
    of_error = float(_pooled_variance(run, error, last_window)[-1])
    of_values = _pooled_variance(run, "value", last_window)[-1]
    return _Fit(
        explained=1 - of_error / scale,
        spread=float(np.sqrt(of_values / scale)),
        min_variance=min_variance,
    )


def _judge_fit(check: Check, run: Run, returns: str, error: str) -> Result:
    """Judge how well the critic's values follow one kind of returns; see ``_fit_at_the_end``."""
    fit = _fit_at_the_end(run, returns, error)
    if fit is None:
        return Result()
    limits = run.limits[_ValueDivergence]
    misfit = run.limits.test(_ValueDivergence.explained, "<", fit.explained)
    wide = run.limits.test(_ValueDivergence.spread, ">", fit.spread)
    weak = run.limits.test(_ValueDivergence.weak, "<", fit.explained)
    has_diverged = misfit.met or wide.met
    if not (has_diverged or weak.met):
        return Result(tested=(misfit, wide, weak))
    # The onset is that of the variance which is too large: of the values or of their errors.
    if wide.met and not misfit.met:
        too_large = "value"
        bound = limits.spread**2
    else:
        # Explained variance is 1 minus the ratio of the variances of errors and of returns.
        too_large = error
        bound = 1 - (limits.explained if misfit.met else limits.weak)
    steps = Grouped.by(run.step_index)
    of_returns = np.fmax(_pooled_variance(run, returns, steps), fit.min_variance)
    ratio_by_step = _pooled_variance(run, too_large, steps) / of_returns
    facts: Facts = {
        "explained": fit.explained,
        "spread": fit.spread,
        "kind": "diverged" if has_diverged else "weak",
    }
    return check.found(
        run,
        Severity.WARNING if has_diverged else Severity.INFO,
        [misfit, wide] if has_diverged else [weak],
        facts,
        Ranking(np.abs(run.column(f"{error}_mean"))),
        onset=run.onset_beyond(ratio_by_step, bound),
    )
