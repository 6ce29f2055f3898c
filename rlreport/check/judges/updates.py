"""Checks of the updates: ratio of new to old policy, gradient norm, and the critic."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import SEVERITIES, Facts, Finding, Met, Onset
from rlreport.check.judges.reward import REWARD_COLLAPSE
from rlreport.check.limits import PUBLIC_RUNS, Limit, Limits, above, below
from rlreport.check.run import Run, Shown, began, mean, median
from rlreport.check.shapes import FAILURES, Figure, judge_figures
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import marked

RATIO = marked("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")
CRITIC = marked("RLLoggingBoard post (critic variance); PPO practice")


class RatioDrift(Limits):
    """Thresholds of ``ratio_drift``."""

    low = Limit(0.5, "", "mean exp(new - old) below this", RATIO)
    high = Limit(2.0, "", "mean exp(new - old) above this", RATIO)
    outside = Limit(0.3, "of tokens", "have a ratio outside 1 ± 0.2, or are clipped", RATIO)


class GradientExplosion(Limits):
    """Thresholds of ``gradient_explosion``."""

    times = Limit(100.0, "times", "gradient norm of a step against its median", PUBLIC_RUNS)
    soon = Limit(0.1, "of steps", "warning: the reward falls within this part after", PUBLIC_RUNS)


class ValueDivergence(Limits):
    """Thresholds of ``value_divergence``."""

    explained = Limit(-0.5, "", "warning: explained variance of the last window", CRITIC)
    weak = Limit(0.0, "", "info: explained variance of the last window", CRITIC)
    spread = Limit(5.0, "times", "warning: std of values against std of returns", CRITIC)
    floor = Limit(0.01, "of the run's", "least variance of returns that can be followed")


def judge_ratio(run: Run) -> Result:
    """Compare the mean ratio of new to old probability, and its tails, with PPO's clip range.

    The trainer's mean ratio and clip fraction count where the rollouts hold only one set of
    log-probabilities.
    """
    weights, tail = run.column("ratio_tokens"), run.column("ratio_outside")
    source = "rollouts"
    if np.nansum(weights[run.last.rows]) > 0:
        ratio = run.column("ratio_mean")
        at_end, outside = run.change(ratio, weights).last, run.change(tail, weights).last
        series, tails = run.by_step(ratio, weights), run.by_step(tail, weights)
    else:
        logged = [run.series_of(role) for role in ("ratio", "clip_fraction")]
        if logged == [None, None]:
            return RATIO_DRIFT.not_run("old and new logprobs of the same tokens")
        none = np.full(len(run.steps), np.nan)
        series, tails = (none if one is None else run.along(one) for one in logged)
        at_end, outside = mean(run.late(series)), mean(run.late(tails))
        source = "metrics"
    figures = [
        Figure(RatioDrift.low, "<", series, at_end),
        Figure(RatioDrift.high, ">", series, at_end),
        Figure(RatioDrift.outside, ">", tails, outside),
    ]
    shown = Shown(tail, unit="of tokens")
    return judge_figures(
        RATIO_DRIFT, run, figures, shown, ratio=at_end, outside=outside, series_from=source
    )


def ratio_title(facts: Facts) -> str:
    """Return the mean ratio and its tails."""
    if facts["outside"] is None:
        return marked(
            "Updates are too large: new over old probability is {ratio:figure} on average."
        )
    if facts["ratio"] is None:
        return marked("Updates are too large: {outside:percent} of tokens are clipped.")
    return marked(
        "Updates are too large: new over old probability is {ratio:figure} on average, and "
        "{outside:percent} of tokens lie outside 1 ± 0.2."
    )


RATIO_DRIFT = Check(
    id="ratio_drift",
    name="updates are too large",
    rank="cause",
    charts=("mismatch",),
    judge=judge_ratio,
    limits=RatioDrift,
    title=ratio_title,
    why="PPO trusts its data only near the policy that sampled it; past the clip range most "
    "tokens give no gradient, and the rest give a wrong one.",
    suggestion="Lower the learning rate, take fewer epochs over each batch, use larger "
    "mini-batches, and check that both log-probabilities are taken at the same temperature.",
    explains=FAILURES,
    trend=False,
    needs_also="old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
)


def judge_gradient(run: Run) -> Result:
    """Look for steps whose gradient norm is many times the median.

    A spike is a note, and a warning where the reward falls or dies soon after it, unless
    as many spikes before did no harm.
    """
    norm = run.series_of("grad_norm")
    if norm is None:
        return GRADIENT_EXPLOSION.not_run(GRADIENT_EXPLOSION.needs_also)
    limits, middle = run.limits[GradientExplosion], median(norm.values)
    spikes = np.flatnonzero(norm.values > limits.times * middle)
    if not len(spikes) or middle <= 0:
        return None
    fall = REWARD_COLLAPSE.run(run) if run.has("reward") else None
    before_fall = spikes[:0]
    if isinstance(fall, Finding) and fall.severity != "info" and fall.onset:
        soon = max(limits.soon * len(run.steps), 1)
        places = np.searchsorted(run.steps, norm.steps[spikes])
        low, high = np.searchsorted(run.steps, (fall.onset.low, fall.onset.high))
        before_fall = spikes[(places >= low - soon) & (places <= high)]
        if np.count_nonzero(places < low - soon) >= len(before_fall):
            before_fall = spikes[:0]
    worst = before_fall if len(before_fall) else spikes
    at = int(worst[0] if len(before_fall) else worst[np.argmax(norm.values[worst])])
    step, times = int(norm.steps[at]), float(norm.values[at] / middle)
    return GRADIENT_EXPLOSION.finding(
        run,
        "warning" if len(before_fall) else "info",
        [Met("times", ">", limits.times, times, "times")],
        series=run.along(norm),
        onset=Onset(step, step, step),
        steps=norm.steps[spikes].tolist(),
        norm=float(norm.values[at]),
        median=middle,
        at=step,
        spikes=len(spikes),
        series_from="metrics",
    )


GRADIENT_EXPLOSION = Check(
    id="gradient_explosion",
    name="gradient explosion",
    rank="cause",
    looks_for="the gradient norm jumps to many times its median",
    charts=("reward",),
    judge=judge_gradient,
    limits=GradientExplosion,
    title="The gradient norm was {norm:figure} in step {at}; its median is {median:figure}.",
    why="One such update can undo what the policy learned: the steps after it show whether it did.",
    suggestion="Clip the gradient norm, lower the learning rate, and look at the batch of this "
    "step: very long responses, ratios far from 1 or a loss divided by few tokens.",
    explains=(*FAILURES, "nan_metrics", "ratio_drift"),
    needs_also="the trainer's gradient norm",
)


RETURNS = (("return", "value_error"), ("mc_return", "mc_error"))
"""Columns of the returns and of the critic's error: λ-returns, and all rewards that came.

λ-returns are bootstrapped from the values, so a critic that runs away takes them along.
"""


def _variances(
    run: Run, returns: str, error: str, group: Ints, size: int
) -> tuple[Floats, Floats, Floats]:
    """Return the variances of values, returns and errors over all tokens, float64 (size,) each.

    ``returns`` and ``error`` are prefixes of columns; ``group``, int64 (rows,), is what each
    response is counted to, one of ``size``, −1 to leave it out.
    """

    def variance(name: str) -> Floats:
        means, inside = run.column(f"{name}_mean"), run.column(f"{name}_m2")
        weights = run.column("value_tokens")
        known = np.isfinite(means) & np.isfinite(inside) & (weights > 0) & (group >= 0)
        at, mean, weight = group[known], means[known], weights[known]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = np.bincount(at, weight, minlength=size)
            centre = np.bincount(at, weight * mean, minlength=size) / total
            spread = inside[known] + weight * (mean - centre[at]) ** 2
            return np.bincount(at, spread, minlength=size) / total

    return variance("value"), variance(returns), variance(error)


def judge_critic(run: Run) -> Result:
    """Judge the critic's fit over the last window, all tokens pooled; the worse fit counts."""
    fits = [_judge_fit(run, *names) for names in RETURNS if run.has(f"{names[1]}_m2")]
    findings = [fit for fit in fits if isinstance(fit, Finding)]
    return min(findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def _judge_fit(run: Run, returns: str, error: str) -> Result:
    """Judge the critic by one kind of returns.

    Where returns hardly vary any more there is nothing to follow, and a ratio of two small
    variances says nothing: their variance counts as no less than a part of the run's.
    """
    limits = run.limits[ValueDivergence]
    count = len(run.steps)
    inside = run.place >= count - len(run.last.steps)
    value, own_returns, wrong = _variances(run, returns, error, run.place, count)
    late = _variances(run, returns, error, np.where(inside, 0, -1), 1)
    end_value, end_returns, end_error = (float(variance[0]) for variance in late)
    _, whole, _ = _variances(run, returns, error, np.zeros_like(run.place), 1)
    least = limits.floor * float(whole[0])
    scale = max(end_returns, least)
    if not np.isfinite(scale) or scale <= 0 or not np.isfinite(end_error):
        return None
    explained = 1 - end_error / scale
    spread = float(np.sqrt(end_value / scale))
    middle = median(run.late(1 - wrong / scale))
    bad, weak = (
        below(explained, limit) and below(middle, limit)
        for limit in (limits.explained, limits.weak)
    )
    wide = above(spread, limits.spread)
    if not (weak or wide):
        return None
    by_fit = bad or not wide
    fit_met = run.met(ValueDivergence.explained if bad else ValueDivergence.weak, "<", explained)
    met = [*(fit_met if by_fit else []), *run.met(ValueDivergence.spread, ">", spread)]
    # Each step against its own returns: their scale changes over a run.
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (wrong if by_fit else value) / np.fmax(own_returns, least)
    limit = 1 - (limits.explained if bad else limits.weak) if by_fit else limits.spread**2
    return VALUE_DIVERGENCE.finding(
        run,
        "warning" if bad or wide else "info",
        met,
        series=np.log1p(own),
        always=above(began(own), limit),
        shown=Shown(np.abs(run.column(f"{error}_mean"))),
        explained=explained,
        spread=spread,
        weak=not (bad or wide),
    )


def critic_title(facts: Facts) -> str:
    """Return how well the critic follows."""
    if facts["weak"]:
        return marked("The critic is weak: explained variance {explained:figure}.")
    return marked(
        "The critic does not follow the returns: explained variance {explained:figure}, std of "
        "values {spread:figure} × that of the returns."
    )


VALUE_DIVERGENCE = Check(
    id="value_divergence",
    name="the critic diverged",
    rank="cause",
    looks_for="the critic does not follow the returns",
    needs=(Need("values and token_rewards", ("value_error_m2", "return_m2")),),
    charts=("explained_variance", "value"),
    judge=judge_critic,
    limits=ValueDivergence,
    title=critic_title,
    why="Advantages are returns less values: a critic that is worse than a constant adds noise to "
    "every update and can point it the wrong way.",
    suggestion="Warm the critic up before the policy moves, lower its learning rate, clip values, "
    "normalise returns, or start it from the reward model.",
    explains=FAILURES,
)
