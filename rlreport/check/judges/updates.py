"""Checks of the policy updates: too large, with exploding gradients, or without effect."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import PUBLIC_RUNS, Facts, Limit, Limits, Onset
from rlreport.check.run import Ranking, Run, mean, median
from rlreport.check.shapes import FAILURES, Figure, judge_figures
from rlreport.figures.ragged import Ints
from rlreport.text.messages import marked

RATIO = marked("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")
EQUAL_REWARDS = marked("DAPO: groups with equal rewards give no gradient")


class _RatioDrift(Limits):
    low = Limit(0.5, "", "mean exp(new - old) (lower limit)", RATIO)
    high = Limit(2.0, "", "mean exp(new - old) (upper limit)", RATIO)
    outside = Limit(0.3, "of tokens", "share with a ratio outside 1 ± 0.2, or clipped", RATIO)


@Check(
    name="updates are too large",
    rank="cause",
    charts=("mismatch",),
    limits=_RatioDrift,
    title={
        "clipped": "Updates are too large: {outside:percent} of tokens are clipped.",
        "ratio": "Updates are too large: new over old probability is {ratio:figure} on average, "
        "and {outside:percent} of tokens lie outside 1 ± 0.2.",
    },
    why="Beyond the clip range most tokens give no gradient, and the rest a biased one.",
    suggestion="Lower the learning rate, or take fewer epochs over each batch.",
    explains=FAILURES,
    needs_also="old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
)
def ratio_drift(check: Check, run: Run) -> Result:
    """Find updates that are too large, judged by the probability ratio or the clip fraction."""
    weights, outside = run.column("ratio_tokens"), run.column("ratio_outside")
    if np.nansum(weights[run.last.rows]) > 0:
        source, columns = "rollouts", (run.column("ratio_mean"), outside)
        series, tails = (run.by_step(values, weights) for values in columns)
        end, tail = (run.change(values, weights).last for values in columns)
    else:
        source, logged = "metrics", [run.series_of(role) for role in ("ratio", "clip_fraction")]
        if logged == [None, None]:
            return check.not_run("old and new logprobs of the same tokens")
        none = np.full(len(run.steps), np.nan)
        series, tails = (none if metric is None else run.align(metric) for metric in logged)
        end, tail = mean(run.last_values(series)), mean(run.last_values(tails))
    figures = [
        Figure(_RatioDrift.low, "<", series, end),
        Figure(_RatioDrift.high, ">", series, end),
        Figure(_RatioDrift.outside, ">", tails, tail),
    ]
    kind = "ratio" if np.isfinite(end) else "clipped"
    facts: Facts = {"ratio": end, "outside": tail, "kind": kind, "series_from": source}
    return judge_figures(check, run, figures, Ranking(outside, unit="of tokens"), **facts)


class _GradientExplosion(Limits):
    times = Limit(100.0, "times", "gradient norm of a step against its median", PUBLIC_RUNS)
    soon = Limit(
        0.1, "of steps", "part of the run within which the reward falls (warning)", PUBLIC_RUNS
    )


@Check(
    name="gradient explosion",
    rank="cause",
    charts=("reward", "gradient_norm"),
    limits=_GradientExplosion,
    title="The gradient norm was {norm:figure} in step {at}, its largest is {peak:figure}, and its "
    "median {median:figure}.",
    why="One such update can undo what the policy learned: the steps after it show whether it did.",
    suggestion="Clip the gradient norm, lower the learning rate, and look at this step's batch.",
    explains=(*FAILURES, "nan_metrics", "ratio_drift"),
    needs_also="the trainer's gradient norm",
    trend=True,
)
def gradient_explosion(check: Check, run: Run) -> Result:
    """Find gradient norms many times the median; only a note unless the reward then falls.

    Norms of 0, as in steps whose groups all have equal rewards, are left out of the median.
    """
    norm = run.series_of("grad_norm")
    if norm is None:
        return check.not_run(check.needs_also)
    middle = median(norm.values[norm.values > 0])
    spikes = np.flatnonzero(norm.values > run.limits[_GradientExplosion].times * middle)
    if not len(spikes):
        return None
    harmful = _before_fall(run, norm.steps[spikes])
    at = int(spikes[harmful][0] if harmful.any() else spikes[np.argmax(norm.values[spikes])])
    highest, step = float(norm.values[at]), int(norm.steps[at])
    facts: Facts = {"norm": highest, "median": middle, "at": step, "spikes": len(spikes)}
    facts = {**facts, "peak": float(norm.values[spikes].max())}
    return check.finding(
        run,
        "warning" if harmful.any() else "info",
        run.met(_GradientExplosion.times, ">", highest, of=middle),
        {**facts, "series_from": "metrics"},
        series=run.align(norm),
        onset=Onset(step, step, step),
        steps=norm.steps[spikes].tolist(),
    )


def _before_fall(run: Run, spikes: Ints) -> NDArray[np.bool_]:
    """Return for each step with a gradient spike whether the reward fell just after it.

    All are False if at least as many spikes came earlier and did no harm.
    """
    shape, none = run.reward_shape, np.zeros(len(spikes), np.bool_)
    if shape is None or not (shape.fell or shape.below_start or shape.dead is not None):
        return none
    onset = run.onset_of(shape.series, (shape.best_index, shape.best_index + shape.window))
    if onset is None:
        return none
    margin = max(run.limits[_GradientExplosion].soon * len(run.steps), 1)
    indices = np.searchsorted(run.steps, spikes)
    low, high = np.searchsorted(run.steps, [onset.low, onset.high])
    harmful: NDArray[np.bool_] = (indices >= low - margin) & (indices <= high)
    return none if np.count_nonzero(indices < low - margin) >= harmful.sum() else harmful


class _NoUpdates(Limits):
    share = Limit(
        0.5, "of steps", "share of the last window with a value of 0 (warning)", EQUAL_REWARDS
    )


@Check(
    name="updates without effect",
    rank="cause",
    looks_for="a gradient norm or a learning rate of 0",
    charts=("gradient_norm", "learning_rate"),
    limits=_NoUpdates,
    title={
        "grad_norm": "The gradient norm is 0 in {share:percent} of the last steps: their updates "
        "change nothing.",
        "learning_rate": "The learning rate is 0 in {share:percent} of the last steps: their "
        "updates change nothing.",
    },
    why="The run costs its compute, and the policy stays as it is.",
    suggestion="Check the learning rate's schedule, frozen parameters and the groups' rewards.",
    explains=("reward_stalled",),
    needs_also="the trainer's gradient norm or learning rate",
    trend=True,
)
def no_updates(check: Check, run: Run) -> Result:
    """Find a gradient norm or a learning rate that is exactly 0 in most of the last steps."""
    logged = {role: run.series_of(role) for role in ("grad_norm", "learning_rate")}
    if not any(logged.values()):
        return check.not_run(check.needs_also)
    for role, metric in logged.items():
        if metric is None or not run.covers(metric):
            continue
        zero = run.align(metric)
        zero = np.where(np.isfinite(zero), zero == 0, np.nan)
        share = mean(run.last_values(zero))
        if met := run.met(_NoUpdates.share, ">", share):
            facts: Facts = {"kind": role, "share": share, "series_from": "metrics"}
            return check.finding(run, "warning", met, facts, series=zero)
    return None
