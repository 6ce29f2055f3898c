"""Checks of the updates: ratio of new to old policy, gradient norm, critic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import SEVERITIES, Fact, Facts, Finding, Onset
from rlreport.check.limits import PUBLIC_RUNS, Limit, Limits, above
from rlreport.check.run import Ranking, Run, mean, median
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
    floor = Limit(0.01, "of the run's", "least variance of returns that the critic can fit")


def judge_ratio(run: Run) -> Result:
    """Compare the ratio of new to old probability, its mean and its tails, with PPO's clip range.

    If the rollouts have only one set of log-probabilities, the trainer's mean ratio and clip
    fraction are judged.
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
        series, tails = (none if one is None else run.align(one) for one in logged)
        at_end, outside = mean(run.last_values(series)), mean(run.last_values(tails))
        source = "metrics"
    figures = [
        Figure(RatioDrift.low, "<", series, at_end),
        Figure(RatioDrift.high, ">", series, at_end),
        Figure(RatioDrift.outside, ">", tails, outside),
    ]
    ranking = Ranking(tail, unit="of tokens")
    facts: dict[str, Fact] = {"ratio": at_end, "outside": outside, "series_from": source}
    return judge_figures(RATIO_DRIFT, run, figures, ranking, **facts)


def _ratio_title(facts: Facts) -> str:
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
    title=_ratio_title,
    why="Beyond the clip range most tokens give no gradient, and the rest a biased one.",
    suggestion="Lower the learning rate or take fewer epochs over each batch. Check that both "
    "log-probabilities are taken at the same temperature.",
    explains=FAILURES,
    trend=False,
    needs_also="old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
)


def judge_gradient(run: Run) -> Result:
    """Find steps whose gradient norm is many times the median.

    A spike is only info, but a warning if the reward falls soon after it, unless at least as
    many earlier spikes did no harm.
    """
    norm = run.series_of("grad_norm")
    if norm is None:
        return GRADIENT_EXPLOSION.not_run(GRADIENT_EXPLOSION.needs_also)
    middle = median(norm.values)
    spikes = np.flatnonzero(norm.values > run.limits[GradientExplosion].times * middle)
    if not len(spikes) or middle <= 0:
        return None
    harmful = _before_fall(run, norm.steps[spikes])
    at = int(spikes[harmful][0] if harmful.any() else spikes[np.argmax(norm.values[spikes])])
    step = int(norm.steps[at])
    return GRADIENT_EXPLOSION.finding(
        run,
        "warning" if harmful.any() else "info",
        run.met(GradientExplosion.times, ">", float(norm.values[at]), of=middle),
        series=run.align(norm),
        onset=Onset(step, step, step),
        steps=norm.steps[spikes].tolist(),
        norm=float(norm.values[at]),
        median=middle,
        at=step,
        spikes=len(spikes),
        series_from="metrics",
    )


def _before_fall(run: Run, spikes: Ints) -> NDArray[np.bool_]:
    """Return which of these steps lie just before the reward fell or died, bool (spikes,)."""
    shape, none = run.reward_shape, np.zeros(len(spikes), np.bool_)
    if shape is None or not (shape.fell or shape.below_start or shape.dead is not None):
        return none
    onset = run.onset_of(shape.series, (shape.best_index, shape.best_index + shape.window))
    if onset is None:
        return none
    soon = max(run.limits[GradientExplosion].soon * len(run.steps), 1)
    places, low, high = (
        np.searchsorted(run.steps, steps) for steps in (spikes, onset.low, onset.high)
    )
    harmful: NDArray[np.bool_] = (places >= low - soon) & (places <= high)
    return none if np.count_nonzero(places < low - soon) >= harmful.sum() else harmful


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
    "step.",
    explains=(*FAILURES, "nan_metrics", "ratio_drift"),
    needs_also="the trainer's gradient norm",
)


RETURNS = (("return", "value_error"), ("mc_return", "mc_error"))
"""Columns of the returns, and of the critic's error against them: λ-returns and Monte Carlo.

λ-returns are bootstrapped from the values, so a diverging critic takes them along.
"""


def _variance(run: Run, name: str, group: Ints, size: int = 1) -> Floats:
    """Return the variance of a critic's figure over all tokens of each group, float64 (size,).

    ``name`` is the prefix of its columns; ``group``, int64 (rows,), is the group of each
    response, −1 for those left out.
    """
    means, inside = run.column(f"{name}_mean"), run.column(f"{name}_m2")
    weights = run.column("value_tokens")
    valid = np.isfinite(means) & np.isfinite(inside) & (weights > 0) & (group >= 0)
    at, mean, weight = group[valid], means[valid], weights[valid]
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.bincount(at, weight, minlength=size)
        centre = np.bincount(at, weight * mean, minlength=size) / total
        spread = inside[valid] + weight * (mean - centre[at]) ** 2
        variance: Floats = np.bincount(at, spread, minlength=size) / total
    return variance


def judge_critic(run: Run) -> Result:
    """Judge the critic's fit to both kinds of returns in the last window; the worse one counts."""
    fits = [_judge_fit(run, *names) for names in RETURNS if run.has(f"{names[1]}_m2")]
    findings = [fit for fit in fits if isinstance(fit, Finding)]
    return min(findings, key=lambda finding: SEVERITIES.index(finding.severity), default=None)


def _judge_fit(run: Run, returns: str, error: str) -> Result:
    """Judge the critic's fit to one kind of returns.

    Returns that hardly vary cannot be fitted: their variance counts as no less than a part of
    the whole run's.
    """
    limits, count = run.limits[ValueDivergence], len(run.steps)
    last_window = np.where(run.step_index >= count - len(run.last.steps), 0, -1)
    whole = float(_variance(run, returns, np.zeros_like(run.step_index))[0])
    least = limits.floor * whole
    scale = max(float(_variance(run, returns, last_window)[0]), least)
    if not scale > 0:
        return None
    explained = 1 - float(_variance(run, error, last_window)[0]) / scale
    spread = float(np.sqrt(_variance(run, "value", last_window)[0] / scale))
    misfit = run.met(ValueDivergence.explained, "<", explained)
    wide = run.met(ValueDivergence.spread, ">", spread)
    met = misfit + wide or run.met(ValueDivergence.weak, "<", explained)
    if not met:
        return None
    name = "value" if wide and not misfit else error
    figure, base = (_variance(run, one, run.step_index, count) for one in (name, returns))
    ratio = figure / np.fmax(base, least)
    fit = limits.explained if misfit else limits.weak
    bound = limits.spread**2 if name == "value" else 1 - fit
    return VALUE_DIVERGENCE.finding(
        run,
        "warning" if misfit or wide else "info",
        met,
        series=np.log1p(ratio),
        always=above(median(ratio[np.isfinite(ratio)][:3]), bound),
        ranking=Ranking(np.abs(run.column(f"{error}_mean"))),
        explained=explained,
        spread=spread,
        weak=not (misfit or wide),
    )


def _critic_title(facts: Facts) -> str:
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
    title=_critic_title,
    why="Advantages are returns less values: a critic worse than a constant adds noise to every "
    "update.",
    suggestion="Warm the critic up before the policy moves, lower its learning rate, clip values "
    "or normalise returns.",
    explains=FAILURES,
)
