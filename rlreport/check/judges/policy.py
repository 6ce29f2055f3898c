"""Checks of the policy: its KL to the reference policy, its entropy, and its updates."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import FAILURES, FALLS, KL, LOGPROBS, Check, Result
from rlreport.check.finding import Facts, Limit, Limits, Met, Severity, meets
from rlreport.check.noise import Change
from rlreport.check.run import LimitedFigure, Ranking, Run, mean, median
from rlreport.check.series import MIN_WINDOW, Series, onset, running_mean
from rlreport.figures.ragged import Floats, Ints, spans
from rlreport.text.messages import translatable

ENTROPY = translatable("entropy-collapse threads of TRL, verl and DAPO")
PUBLIC_RUNS = translatable("public GRPO runs")
TRL_KL = translatable(
    "TRL guide: keep the KL between 0 and 10; LMFlow's PPO runs reached 500 before failing"
)
LAST_STEPS = 3  # Number of last steps that decide whether the KL is back to normal
# Number of steps over which the KL is averaged before excursions (high periods) are looked for
SMOOTH = 5


class KlExplosion(Limits):
    warn = Limit(10.0, "nats", "mean KL per response in the last window (warning)", TRL_KL)
    critical = Limit(50.0, "nats", "mean KL per response in the last window (critical)", TRL_KL)
    warn_token = Limit(0.1, "nats per token", "mean KL per token (warning)")
    critical_token = Limit(0.5, "nats per token", "mean KL per token (critical)")
    excursion = Limit(
        20.0, "times", "mean KL of five steps, divided by the run's median", PUBLIC_RUNS
    )
    lasting = Limit(5, "steps", "length of the excursion (warning)", PUBLIC_RUNS)
    part = Limit(0.02, "of steps", "length of the excursion, as a part of the run", PUBLIC_RUNS)


@Check(
    name="KL explosion",
    rank="consequence",
    charts=("kl", "reward_kl_frontier"),
    limits=KlExplosion,
    close={
        "warn": "KL to the reference is {value:short} nats per response",
        "warn_token": "KL to the reference is {value:short} nats per token",
    },
    title={
        "level": "KL to the reference is {kl:figure} nats per response, {kl_token:figure} per "
        "token.",
        "token": "KL to the reference is {kl_token:figure} nats per token.",
        "excursion": "The trainer's KL reached {kl:figure} between steps {since} and {until_step}; "
        "the run's median is {median:figure}.",
        "excursions": "The trainer's KL rises repeatedly, to at most {kl:figure}; the run's median "
        "is {median:figure}.",
    },
    statement={
        "level": "KL to the reference rises to {kl:short} nats per response",
        "token": "KL to the reference rises to {kl_token:short} nats per token",
        "excursion": "the trainer's KL rises to at most {kl:short}",
        "excursions": "the trainer's KL rises repeatedly, to at most {kl:short}",
    },
    why="Far from the reference policy, the reward model scores text unlike its training data.",
    suggestion="Raise the KL coefficient or lower the learning rate; go back before the rise.",
    needs_also="logprobs and ref_logprobs, or the trainer's KL",
    explains=("watched_reward_fall",),
)
def kl_explosion(check: Check, run: Run) -> Result:
    # The KL must be too high per token, too: that of long responses is large in any case.
    trainers = run.series_of("kl") or run.series_of("kl_token")
    if not KL.is_available(run):
        return check.not_run(KL.words) if trainers is None else _trainers_kl(check, run, trainers)
    limits = run.limits[KlExplosion]
    kl = run.column("kl_k1")
    per_response, per_token = _mean_kl(run, run.last.rows)
    severity, met = _level(run, per_response, per_token)
    if severity is None:
        return None if trainers is None else _excursion(check, run, trainers)
    by_step = run.by_step(kl)
    last_steps = slice(int(np.searchsorted(run.step_index, len(run.steps) - LAST_STEPS)), None)
    end = _level(run, *_mean_kl(run, last_steps))[0]
    if end != "critical" and len(run.steps) > 2 * LAST_STEPS:
        # A KL that was high for a few steps and recovered is only a note.
        high = by_step > max(limits.warn, 3 * median(by_step))
        brief = high.sum() <= max(limits.lasting, limits.part * len(run.steps))
        severity = "info" if brief and end is None else "warning"
    always = run.first is not None and meets(">", mean(kl[run.first.rows]), limits.warn)
    ranking = Ranking(kl, unit="nats", token=run.column("kl_max_position"))
    facts: Facts = {"kind": "level", "kl": per_response, "kl_token": per_token}
    return check.finding(run, severity, met, facts, ranking, series=by_step, always=always)


def _mean_kl(run: Run, rows: slice) -> tuple[float, float]:
    kl = run.column("kl_k1")[rows]
    tokens = run.column("response_tokens")[rows]
    token_count = float(np.nansum(tokens[np.isfinite(kl)]))
    return mean(kl), float(np.nansum(kl)) / (token_count or np.nan)


def _level(run: Run, kl: float, per_token: float) -> tuple[Severity | None, list[Met]]:
    """Return the severity of a KL above both of its limits, else None, and these limits."""
    level: Severity | None = None
    met: list[Met] = []
    levels: tuple[tuple[Severity, Limit[float], Limit[float]], ...] = (
        ("warning", KlExplosion.warn, KlExplosion.warn_token),
        ("critical", KlExplosion.critical, KlExplosion.critical_token),
    )
    for severity, limit, token_limit in levels:
        figures = ((limit, kl), (token_limit, per_token))
        met_lists = [run.met(bound, ">", value) for bound, value in figures if not np.isnan(value)]
        if met_lists and all(met_lists):
            level, met = severity, [*chain.from_iterable(met_lists), *met]
    return level, met


def _trainers_kl(check: Check, run: Run, kl: Series) -> Result:
    end = mean(run.last_values(run.align(kl)))
    tokens = mean(run.column("response_tokens")[run.last.rows])
    length = run.series_of("length")
    if np.isnan(tokens) and length is not None:
        tokens = mean(run.last_values(run.align(length)))
    per_response = kl.name == run.roles.get("kl")
    means = (end, end / (tokens or np.nan)) if per_response else (end * tokens, end)
    severity, met = _level(run, *means)
    if severity is None:
        return _excursion(check, run, kl)
    kind = "token" if np.isnan(means[0]) else "level"
    facts: Facts = {"kind": kind, "kl": means[0], "kl_token": means[1]}
    return check.finding(run, severity, met, facts, series=kl)


def _excursion(check: Check, run: Run, kl: Series) -> Result:
    """Return a finding of the longest period with a KL many times its median, None without any."""
    limits = run.limits[KlExplosion]
    if len(kl.values) < 2 * SMOOTH:
        return None
    usual = median(kl.values)
    unit = limits.warn if kl.name == run.roles.get("kl") else limits.warn_token
    threshold = max(limits.excursion * usual, unit)
    smoothed = running_mean(kl.values, SMOOTH)
    if not meets(">", highest := float(smoothed.max()), threshold):
        return None
    stretches = spans(smoothed > threshold)
    first, end = max(stretches.tolist(), key=lambda stretch: stretch[1] - stretch[0])
    high = first + np.flatnonzero(kl.values[first : end - 1 + SMOOTH] > threshold)
    start = int(kl.steps[high[0]])
    stop = int(kl.steps[high[-1]])
    count = len(high)
    is_long = count > limits.lasting and count >= limits.part * len(kl.steps)
    above = kl.steps[kl.values > threshold]
    again = np.count_nonzero(above > stop) > limits.lasting
    ended = not again and high[-1] < len(kl.steps) - SMOOTH
    facts: Facts = {"kind": "excursion", "kl": float(kl.values[high].max()), "median": usual}
    if again:
        facts = {**facts, "kind": "excursions", "kl": float(kl.values.max())}
    return check.finding(
        run,
        "warning" if is_long else "info",
        run.met(KlExplosion.excursion, ">", highest, of=usual),
        {**facts, "since": start, "until_step": stop},
        series=kl,
        onset=start,
        until=stop if ended else None,
        steps=above.tolist(),
    )


def _entropy(run: Run, highest: bool) -> tuple[Change, dict[str, Any]] | None:
    """Return the change of mean surprisal or else the entropy metric, and fields of a finding."""
    figure = run.change_and_series("surprisal_mean", "entropy", run.column("logp_tokens"))
    if figure is None:
        return None
    moved, series = figure
    surprisal = Ranking(run.column("surprisal_mean"), highest, "nats per token")
    ranking = surprisal if LOGPROBS.is_available(run) else None
    facts = {"start": moved.first, "end": moved.last}
    return moved, {"series": series, "ranking": ranking, "facts": facts}


class _EntropyCollapse(Limits):
    share = Limit(0.2, "of the first", "mean surprisal, relative to the first window", ENTROPY)
    surprisal = Limit(0.3, "nats", "mean surprisal in the last window", ENTROPY)


@Check(
    name="entropy collapse",
    rank="consequence",
    charts=("surprisal",),
    limits=_EntropyCollapse,
    title="The policy became certain: entropy fell from {start:figure} to {end:figure} nats per "
    "token.",
    statement="entropy falls to {end:short} nats per token",
    why="A policy that samples the same thing every time no longer explores.",
    suggestion="Lower the learning rate, add an entropy bonus, or use harder prompts.",
    explains=(
        "kl_explosion",
        "diversity_collapse",
        "missing_eos",
        "reward_stalled",
        "watched_reward_fall",
        "loops",
    ),
    needs_also="logprobs, or the trainer's entropy",
    trend=True,
)
def entropy_collapse(check: Check, run: Run) -> Result:
    if (entropy := _entropy(run, highest=False)) is None:
        return check.not_run(check.needs_also)
    moved, details = entropy
    share = run.met(_EntropyCollapse.share, "<", moved.last, of=moved.first)
    floor = run.met(_EntropyCollapse.surprisal, "<", moved.last)
    if not (share and floor and moved.fell):
        return None
    harmful = any(shape and shape.fell for shape in (run.reward_shape, run.watched_shape))
    harmful |= _level(run, *_mean_kl(run, run.last.rows))[0] is not None
    severity: Severity = "info" if run.learned and not harmful else "warning"
    return check.finding(run, severity, share + floor, **details)


class _EntropyExplosion(Limits):
    ratio = Limit(3.0, "times", "mean surprisal, relative to the first window", ENTROPY)
    rise = Limit(1.0, "nats", "rise of the mean surprisal", ENTROPY)


@Check(
    name="entropy explosion",
    rank="cause",
    charts=("surprisal", "kl"),
    limits=_EntropyExplosion,
    close={
        "ratio": "entropy rose to {value:short} times its start",
        "rise": "entropy rose by {value:short} nats per token",
    },
    title="The policy's text became random: entropy rose from {start:figure} to {end:figure} nats "
    "per token.",
    statement="entropy rises to {end:short} nats per token",
    why="A policy this uncertain samples tokens that mean nothing: what it had learned is lost.",
    suggestion="Lower the entropy bonus or the learning rate; continue from before the rise.",
    source="too large an entropy bonus; threads of TRL and verl",
    explains=(
        *FALLS,
        "kl_explosion",
        "missing_eos",
        "length_collapse",
        "diversity_collapse",
        "language_drift",
        "reward_stalled",
        "ratio_drift",
        "loops",
    ),
    needs_also="logprobs, or the trainer's entropy",
    trend=True,
)
def entropy_explosion(check: Check, run: Run) -> Result:
    if (entropy := _entropy(run, highest=True)) is None:
        return check.not_run(check.needs_also)
    (moved, details), reward = entropy, run.change(run.column("reward"))
    ratio = run.met(_EntropyExplosion.ratio, ">=", moved.last, of=moved.first)
    rise = run.met(_EntropyExplosion.rise, ">=", moved.difference)
    if not (ratio and rise and moved.rose) or reward.rose or run.learned:
        return None
    severity: Severity = "critical" if reward.fell else "warning"
    return check.finding(run, severity, ratio + rise, **details)


RATIO = translatable("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")
EQUAL_REWARDS = translatable("DAPO: groups with equal rewards give no gradient")


class _RatioDrift(Limits):
    low = Limit(0.5, "", "mean exp(new - old) (lower limit)", RATIO)
    high = Limit(2.0, "", "mean exp(new - old) (upper limit)", RATIO)
    outside = Limit(0.3, "of tokens", "share with a ratio outside 1 ± 0.2, or clipped", RATIO)


@Check(
    name="updates are too large",
    rank="cause",
    charts=("mismatch",),
    limits=_RatioDrift,
    close={"outside": "{value:percent} of tokens are clipped or lie outside 1 ± 0.2"},
    title={
        "clipped": "Updates are too large: {outside:percent} of tokens are clipped.",
        "ratio": "Updates are too large: new over old probability is {ratio:figure} on average, "
        "and {outside:percent} of tokens are clipped or lie outside 1 ± 0.2.",
    },
    statement={
        "clipped": "updates are too large ({outside:percent} of tokens are clipped)",
        "ratio": "updates are too large (mean probability ratio {ratio:short})",
    },
    why="Beyond the clip range most tokens give no gradient, and the rest a biased one.",
    suggestion="Lower the learning rate, or take fewer epochs over each batch.",
    explains=FAILURES,
    needs_also="old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
)
def ratio_drift(check: Check, run: Run) -> Result:
    weights = run.column("ratio_tokens")
    outside = run.column("ratio_outside")
    if np.nansum(weights[run.last.rows]) > 0:
        source = "rollouts"
        columns = (run.column("ratio_mean"), outside)
        series, tails = (run.by_step(values, weights) for values in columns)
        end, tail = (run.change(values, weights).last for values in columns)
    else:
        source = "metrics"
        logged = [run.series_of(role) for role in ("ratio", "clip_fraction")]
        if logged == [None, None]:
            return check.not_run("old and new logprobs of the same tokens")
        none = np.full(len(run.steps), np.nan)
        series, tails = (none if metric is None else run.align(metric) for metric in logged)
        end = mean(run.last_values(series))
        tail = mean(run.last_values(tails))
    figures = [
        LimitedFigure(_RatioDrift.low, "<", series, end),
        LimitedFigure(_RatioDrift.high, ">", series, end),
        LimitedFigure(_RatioDrift.outside, ">", tails, tail),
    ]
    kind = "ratio" if np.isfinite(end) else "clipped"
    facts: Facts = {"ratio": end, "outside": tail, "kind": kind, "series_from": source}
    return check.judge_figures(run, figures, Ranking(outside, unit="of tokens"), **facts)


# A norm below a hundredth of 1, the norm to which trainers clip by default, is nearly 0
NEARLY_ZERO = 0.01
# A jump also exceeds the highest tenth of the norms before it by this factor. Where the norms of
# steps with and without a signal alternate, their median may be that of the steps without.
MIN_JUMP = 10.0


class _GradientExplosion(Limits):
    times = Limit(
        100.0, "times", "gradient norm of a step against the median of those before it", PUBLIC_RUNS
    )
    soon = Limit(
        0.1, "of steps", "part of the run within which the reward falls (warning)", PUBLIC_RUNS
    )


@Check(
    name="gradient explosion",
    rank="cause",
    charts=("gradient_norm", "reward"),
    limits=_GradientExplosion,
    title={
        "highest": "The gradient norm was {norm:figure} in step {at}; its median before was "
        "{median:figure}.",
        "first": "The gradient norm was {norm:figure} in step {at}, and {peak:figure} at its "
        "highest; its median before was {median:figure}.",
    },
    statement="the gradient norm jumps to {norm:short}",
    event=True,
    why="One such update can undo what the policy learned: the steps after it show whether it did.",
    suggestion="Clip the gradient norm, lower the learning rate, and look at this step's batch.",
    explains=(*FAILURES, "nan_metrics", "ratio_drift"),
    needs_also="the trainer's gradient norm",
    trend=True,
)
def gradient_explosion(check: Check, run: Run) -> Result:
    norm = run.series_of("grad_norm")
    if norm is None:
        return check.not_run(check.needs_also)
    # Steps without a learning signal have no gradient but that of the KL penalty: it is not usual.
    silent = np.isin(norm.steps, run.steps[run.silent == 1])
    trained = np.where(silent, np.nan, norm.values)
    usual, spikes = _spikes(norm.values, trained, run.limits[_GradientExplosion].times)
    if not len(spikes):
        return None
    harmful = _before_fall(run, norm.steps[spikes])
    at = int(spikes[harmful][0] if harmful.any() else spikes[np.argmax(norm.values[spikes])])
    highest = float(norm.values[at])
    step = int(norm.steps[at])
    peak = float(norm.values[spikes].max())
    facts: Facts = {"kind": "first" if peak > highest else "highest", "norm": highest}
    facts = {**facts, "median": usual, "at": step, "peak": peak}
    return check.finding(
        run,
        "warning" if harmful.any() else "info",
        run.met(_GradientExplosion.times, ">", highest, of=usual),
        facts,
        series=norm,
        onset=step,
        steps=norm.steps[spikes].tolist(),
    )


def _spikes(norms: Floats, trained: Floats, times: float) -> tuple[float, Ints]:
    """Return the usual norm before the first jump, and the indices of norms far above it.

    Norms are compared with those before them that ``trained`` has: a norm that vanishes leaves
    high ones behind, which were usual at their time, and one that explodes for half of the run is
    no longer unusual.
    """
    past = pd.Series(trained).where(trained > 0).shift().expanding(MIN_WINDOW)
    median_before = past.median().to_numpy(np.float64)
    high_before = past.quantile(0.9).to_numpy(np.float64)
    is_jump = (norms > times * median_before) & (norms > MIN_JUMP * high_before)
    is_jump &= median_before >= NEARLY_ZERO
    if not is_jump.any():
        return np.nan, np.empty(0, np.int64)
    first = int(np.argmax(is_jump))
    usual = float(median_before[first])
    later = np.arange(len(norms)) >= first
    return usual, np.flatnonzero(later & (norms > times * usual))


def _before_fall(run: Run, spikes: Ints) -> NDArray[np.bool_]:
    shape = run.reward_shape
    none = np.zeros(len(spikes), np.bool_)
    if shape is None or not (shape.fell or shape.below_start or shape.dead is not None):
        return none
    began = onset(shape.series.steps, shape.series.values, peak=shape.peak)
    if began is None:
        return none
    margin = max(run.limits[_GradientExplosion].soon * len(run.steps), 1)
    indices = np.searchsorted(run.steps, spikes)
    low, high = np.searchsorted(run.steps, [began.low, began.high])
    harmful: NDArray[np.bool_] = (indices >= low - margin) & (indices <= high)
    return none if np.count_nonzero(indices < low - margin) >= harmful.sum() else harmful


class _NoUpdates(Limits):
    share = Limit(
        0.5, "of steps", "share of the last window with a value of 0 (warning)", EQUAL_REWARDS
    )


def _has_gradient(norms: Series | None) -> bool:
    return norms is not None and bool((norms.values > 0).any())


def _reward_moves(run: Run) -> bool:
    """Return whether the reward changes beyond noise, as it does if the policy is updated."""
    course = run.courses.get("reward")
    return course is not None and (course.direction != 0 or course.gained or course.lost)


@Check(
    name="updates without effect",
    rank="cause",
    charts=("gradient_norm", "learning_rate"),
    limits=_NoUpdates,
    title={
        "grad_norm": "The gradient norm is 0 in {share:percent} of the last steps: their updates "
        "change nothing.",
        "learning_rate": "The learning rate is 0 in {share:percent} of the last steps: their "
        "updates change nothing.",
    },
    statement="updates change nothing",
    why="The run uses compute, but the policy does not change.",
    suggestion="Check the learning rate's schedule, frozen parameters and the groups' rewards.",
    explains=("reward_stalled",),
    needs_also="the trainer's gradient norm or learning rate",
    trend=True,
)
def no_updates(check: Check, run: Run) -> Result:
    logged = {role: run.series_of(role) for role in ("grad_norm", "learning_rate")}
    if not any(logged.values()):
        return check.not_run(check.needs_also)
    for role, metric in logged.items():
        if metric is None or not run.covers(metric):
            continue
        if role == "learning_rate" and (_has_gradient(logged["grad_norm"]) or _reward_moves(run)):
            continue  # a learning rate may be printed as 0 that is not
        values = run.align(metric)
        zero = np.where(np.isfinite(values), values == 0, np.nan)
        if role == "grad_norm":
            zero = _unexplained(run, zero)
        at_end = run.last_values(zero)
        if np.isfinite(at_end).sum() < MIN_WINDOW:
            continue
        share = mean(at_end)
        if met := run.met(_NoUpdates.share, ">", share):
            facts: Facts = {"kind": role, "share": share, "series_from": "metrics"}
            return check.finding(run, "warning", met, facts, series=zero)
    return None


def _unexplained(run: Run, zero: Floats) -> Floats:
    """Return by step whether a gradient of 0 is a fault, NaN where groups have no signal.

    Groups of equal rewards give a gradient of 0, so single steps without any are usual where a
    step has few groups. If it is not known which steps these are, only a gradient that stays 0 to
    the end is a fault: updates that have no effect do not recover.
    """
    silent = run.silent
    if np.isfinite(silent).any():
        return np.where(silent == 1, np.nan, zero)
    alive = np.flatnonzero(zero == 0)
    if not len(alive):
        return zero
    lasting = zero.copy()
    lasting[: alive[-1]] = np.where(np.isfinite(zero[: alive[-1]]), 0.0, np.nan)
    return lasting
