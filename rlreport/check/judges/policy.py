"""Checks of the policy: its KL to the reference policy, its entropy, and its updates."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means, progress, quantities
from rlreport.check.check import FAILURES, FALLS, KL, LOGPROBS, Check
from rlreport.check.course_data import SeriesSource
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits, Tested, meets
from rlreport.check.means import mean, median
from rlreport.check.noise import Change
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run
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
    """Thresholds of ``kl_explosion``."""

    warn = Limit(
        10.0,
        LimitKind.VALUE,
        "nats",
        "mean KL per response in the last window (warning)",
        TRL_KL,
    )
    critical = Limit(
        50.0,
        LimitKind.VALUE,
        "nats",
        "mean KL per response in the last window (critical)",
        TRL_KL,
    )
    warn_token = Limit(
        0.1, LimitKind.VALUE, "nats per token", "mean KL per token (warning)"
    )
    critical_token = Limit(
        0.5, LimitKind.VALUE, "nats per token", "mean KL per token (critical)"
    )
    excursion = Limit(
        20.0,
        LimitKind.RATIO,
        "times",
        "mean KL of five steps, divided by the run's median",
        PUBLIC_RUNS,
    )
    lasting = Limit(
        5, LimitKind.COUNT, "steps", "length of the excursion (warning)", PUBLIC_RUNS
    )
    part = Limit(
        0.02,
        LimitKind.SHARE,
        "of steps",
        "length of the excursion, as a part of the run",
        PUBLIC_RUNS,
    )


class _Kl(NamedTuple):
    """The mean KL to the reference in nats; NaN where it cannot be computed."""

    per_response: float
    per_token: float


class _Level(NamedTuple):
    """The severity of a mean KL, None if it is not too high, and what was tested for it."""

    severity: Severity | None
    tested: tuple[Tested, ...]
    crossed: tuple[Tested, ...]  # the limits of this severity and of those below it


@Check(
    name="KL explosion",
    rank=Rank.CONSEQUENCE,
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
    """Find that the KL to the reference is too high at the end, or was for many steps."""
    # The KL must be too high per token, too: that of long responses is large in any case.
    trainers = quantities.series_of(run, "kl") or quantities.series_of(run, "kl_token")
    if not KL.is_available(run):
        if trainers is None:
            return check.not_run(KL.words)
        return _trainers_kl(check, run, trainers)
    kl = run.column("kl_k1")
    mean_kl = _mean_kl(run, run.last.rows)
    level = _level(run, mean_kl)
    if level.severity is None:
        if trainers is None:
            return Result(tested=level.tested)
        excursion = _excursion(check, run, trainers)
        return replace(excursion, tested=level.tested + excursion.tested)
    by_step = run.by_step(kl)
    high_at_start = run.first is not None and meets(
        ">", mean(kl[run.first.rows]), run.limits[KlExplosion].warn
    )
    return check.found(
        run,
        _severity_at_the_end(run, level.severity, by_step),
        level.crossed,
        {
            "kind": "level",
            "kl": mean_kl.per_response,
            "kl_token": mean_kl.per_token,
        },
        Ranking(kl, unit="nats", token=run.column("kl_max_position")),
        onset=run.onset(by_step, always=high_at_start),
    )


def _severity_at_the_end(run: Run, severity: Severity, by_step: Floats) -> Severity:
    """Return the severity, or a lower one if the KL is lower in the very last steps.

    A KL that was high for a few steps and recovered is only a note.
    """
    first_row = int(np.searchsorted(run.step_index, len(run.steps) - LAST_STEPS))
    end = _level(run, _mean_kl(run, slice(first_row, None))).severity
    if end is Severity.CRITICAL or len(run.steps) <= 2 * LAST_STEPS:
        return severity
    limits = run.limits[KlExplosion]
    high = by_step > max(limits.warn, 3 * median(by_step))
    is_brief = high.sum() <= max(limits.lasting, limits.part * len(run.steps))
    return Severity.INFO if is_brief and end is None else Severity.WARNING


def _mean_kl(run: Run, rows: slice) -> _Kl:
    kl = run.column("kl_k1")[rows]
    tokens = run.column("response_tokens")[rows]
    token_count = float(np.nansum(tokens[np.isfinite(kl)]))
    per_token = float(np.nansum(kl)) / (token_count or np.nan)
    return _Kl(mean(kl), per_token)


def _level(run: Run, kl: _Kl) -> _Level:
    """Return how serious a mean KL is: it has to be above the limits per response and token.

    A figure that is NaN is left out.
    """
    warning = (
        (KlExplosion.warn, kl.per_response),
        (KlExplosion.warn_token, kl.per_token),
    )
    critical = (
        (KlExplosion.critical, kl.per_response),
        (KlExplosion.critical_token, kl.per_token),
    )
    severity: Severity | None = None
    tested: list[Tested] = []
    crossed: list[Tested] = []
    for level, pairs in ((Severity.WARNING, warning), (Severity.CRITICAL, critical)):
        of_level = [
            run.limits.test(limit, ">", value)
            for limit, value in pairs
            if not np.isnan(value)
        ]
        tested += of_level
        if of_level and all(one.met for one in of_level):
            severity = level
            crossed = of_level + crossed
    return _Level(severity, tuple(tested), tuple(crossed))


def _trainers_kl(check: Check, run: Run, kl: Series) -> Result:
    mean_kl = _trainers_mean_kl(run, kl)
    level = _level(run, mean_kl)
    if level.severity is None:
        excursion = _excursion(check, run, kl)
        return replace(excursion, tested=level.tested + excursion.tested)
    facts: Facts = {
        "kind": "token" if np.isnan(mean_kl.per_response) else "level",
        "kl": mean_kl.per_response,
        "kl_token": mean_kl.per_token,
    }
    return check.found(
        run,
        level.severity,
        level.crossed,
        facts,
        series=kl,
        onset=run.onset(kl),
    )


def _trainers_mean_kl(run: Run, kl: Series) -> _Kl:
    """Return the trainer's KL in the last window, per response and per token."""
    end = mean(run.last_values(run.align(kl)))
    tokens = mean(run.column("response_tokens")[run.last.rows])
    length = quantities.series_of(run, "length")
    if np.isnan(tokens) and length is not None:
        tokens = mean(run.last_values(run.align(length)))
    if _is_per_response(run, kl):
        return _Kl(end, end / (tokens or np.nan))
    return _Kl(end * tokens, end)


def _is_per_response(run: Run, kl: Series) -> bool:
    """Return whether the trainer's KL is a sum over the tokens of a response."""
    return kl.name == run.roles.get("kl")


def _longest_stretch(kl: Series, smoothed: Floats, threshold: float) -> Ints:
    """Return the indices of high values in the longest stretch that is high on average."""
    stretches = spans(smoothed > threshold).tolist()
    first, end = max(stretches, key=lambda stretch: stretch[1] - stretch[0])
    # A mean of SMOOTH values stands at the first of them, so the stretch ends later.
    values = kl.values[first : end - 1 + SMOOTH]
    indices: Ints = first + np.flatnonzero(values > threshold)
    return indices


def _excursion(check: Check, run: Run, kl: Series) -> Result:
    """Return a finding of the longest period with a KL many times its median, if there is any."""
    if len(kl.values) < 2 * SMOOTH:
        return Result()
    limits = run.limits[KlExplosion]
    usual = median(kl.values)
    least = limits.warn if _is_per_response(run, kl) else limits.warn_token
    threshold = max(limits.excursion * usual, least)
    smoothed = running_mean(kl.values, SMOOTH)
    highest = float(smoothed.max())
    if not meets(">", highest, threshold):
        return Result()
    high = _longest_stretch(kl, smoothed, threshold)
    since = int(kl.steps[high[0]])
    until = int(kl.steps[high[-1]])
    above = kl.steps[kl.values > threshold]
    comes_again = np.count_nonzero(above > until) > limits.lasting
    has_ended = not comes_again and high[-1] < len(kl.steps) - SMOOTH
    of_kl = kl.values if comes_again else kl.values[high]
    facts: Facts = {
        "kind": "excursions" if comes_again else "excursion",
        "kl": float(of_kl.max()),
        "median": usual,
        "since": since,
        "until_step": until,
    }
    count = len(high)
    is_long = count > limits.lasting and count >= limits.part * len(kl.steps)
    return check.found(
        run,
        Severity.WARNING if is_long else Severity.INFO,
        [run.limits.test(KlExplosion.excursion, ">", highest, of=usual)],
        facts,
        series=kl,
        onset=since,
        until=until if has_ended else None,
        steps=above.tolist(),
    )


class _Entropy(NamedTuple):
    """Mean surprisal or else the entropy metric: what its findings have in common."""

    change: Change
    series: Series
    ranking: Ranking | None  # None without surprisals of responses

    @property
    def facts(self) -> Facts:
        return {"start": self.change.first, "end": self.change.last}


def _entropy(run: Run, highest: bool) -> _Entropy | None:
    """Return the entropy, with the ``highest`` (or lowest) responses as its examples."""
    found = quantities.change_and_series(
        run, "surprisal_mean", "entropy", run.column("logp_tokens")
    )
    if found is None:
        return None
    change, series = found
    ranking = None
    if LOGPROBS.is_available(run):
        ranking = Ranking(run.column("surprisal_mean"), highest, "nats per token")
    return _Entropy(change, series, ranking)


class _EntropyCollapse(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of the first",
        "mean surprisal, relative to the first window",
        ENTROPY,
    )
    surprisal = Limit(
        0.3, LimitKind.VALUE, "nats", "mean surprisal in the last window", ENTROPY
    )


@Check(
    name="entropy collapse",
    rank=Rank.CONSEQUENCE,
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
    """Find that the entropy is a small part of that in the first window, and low."""
    entropy = _entropy(run, highest=False)
    if entropy is None:
        return check.not_run(check.needs_also)
    change = entropy.change
    limits = _EntropyCollapse
    share = run.limits.test(limits.share, "<", change.last, of=change.first)
    floor = run.limits.test(limits.surprisal, "<", change.last)
    if not (share.met and floor.met and change.fell):
        return Result(tested=(share, floor))
    is_harmless = progress.learned(run) and not _does_harm(run)
    return check.found(
        run,
        Severity.INFO if is_harmless else Severity.WARNING,
        [share, floor],
        entropy.facts,
        entropy.ranking,
        series=entropy.series,
        onset=run.onset(entropy.series),
    )


def _does_harm(run: Run) -> bool:
    """Return whether a reward fell, or the KL to the reference is too high."""
    for shape in (quantities.reward_shape(run), quantities.watched_shape(run)):
        if shape is not None and shape.fell:
            return True
    return _level(run, _mean_kl(run, run.last.rows)).severity is not None


class _EntropyExplosion(Limits):
    ratio = Limit(
        3.0,
        LimitKind.RATIO,
        "times",
        "mean surprisal, relative to the first window",
        ENTROPY,
    )
    rise = Limit(1.0, LimitKind.VALUE, "nats", "rise of the mean surprisal", ENTROPY)


@Check(
    name="entropy explosion",
    rank=Rank.CAUSE,
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
    """Find that the entropy rose several times over while nothing was learned."""
    entropy = _entropy(run, highest=True)
    if entropy is None:
        return check.not_run(check.needs_also)
    change = entropy.change
    reward = means.change(run, run.column("reward"))
    limits = _EntropyExplosion
    ratio = run.limits.test(limits.ratio, ">=", change.last, of=change.first)
    rise = run.limits.test(limits.rise, ">=", change.difference)
    rose = ratio.met and rise.met and change.rose
    if not rose or reward.rose or progress.learned(run):
        return Result(tested=(ratio, rise))
    return check.found(
        run,
        Severity.CRITICAL if reward.fell else Severity.WARNING,
        [ratio, rise],
        entropy.facts,
        entropy.ranking,
        series=entropy.series,
        onset=run.onset(entropy.series),
    )


RATIO = translatable("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")
EQUAL_REWARDS = translatable("DAPO: groups with equal rewards give no gradient")


class _RatioDrift(Limits):
    low = Limit(0.5, LimitKind.VALUE, "", "mean exp(new - old) (lower limit)", RATIO)
    high = Limit(2.0, LimitKind.VALUE, "", "mean exp(new - old) (upper limit)", RATIO)
    outside = Limit(
        0.3,
        LimitKind.SHARE,
        "of tokens",
        "share with a ratio outside 1 ± 0.2, or clipped",
        RATIO,
    )


class _Ratios(NamedTuple):
    """The ratio of new and old probabilities, and the share of tokens outside of the clip range.

    Each as a series by step, float64 (S,), and its value in the last window; NaN if unknown.
    """

    ratio: Floats
    ratio_end: float
    outside: Floats
    outside_end: float
    source: SeriesSource


@Check(
    name="updates are too large",
    rank=Rank.CAUSE,
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
    """Find that new and old probabilities of the same tokens are far apart."""
    weights = run.column("ratio_tokens")
    if np.nansum(weights[run.last.rows]) > 0:
        ratios = _ratios_of_responses(run, weights)
    elif "ratio" in run.roles or "clip_fraction" in run.roles:
        ratios = _trainers_ratios(run)
    else:
        return check.not_run("old and new logprobs of the same tokens")
    end = ratios.ratio_end
    figures = [
        LimitedFigure(_RatioDrift.low, "<", ratios.ratio, end),
        LimitedFigure(_RatioDrift.high, ">", ratios.ratio, end),
        LimitedFigure(_RatioDrift.outside, ">", ratios.outside, ratios.outside_end),
    ]
    facts: Facts = {
        "ratio": end,
        "outside": ratios.outside_end,
        "kind": "ratio" if np.isfinite(end) else "clipped",
        "series_from": ratios.source,
    }
    ranking = Ranking(run.column("ratio_outside"), unit="of tokens")
    return check.judge_figures(run, figures, ranking, **facts)


def _ratios_of_responses(run: Run, weights: Floats) -> _Ratios:
    ratio = run.column("ratio_mean")
    outside = run.column("ratio_outside")
    return _Ratios(
        ratio=run.by_step(ratio, weights),
        ratio_end=means.change(run, ratio, weights).last,
        outside=run.by_step(outside, weights),
        outside_end=means.change(run, outside, weights).last,
        source="rollouts",
    )


def _trainers_ratios(run: Run) -> _Ratios:
    ratio = _by_step_of_role(run, "ratio")
    outside = _by_step_of_role(run, "clip_fraction")
    return _Ratios(
        ratio=ratio,
        ratio_end=mean(run.last_values(ratio)),
        outside=outside,
        outside_end=mean(run.last_values(outside)),
        source="metrics",
    )


def _by_step_of_role(run: Run, role: str) -> Floats:
    """Return the trainer's metric at each step of the run, NaN without it, float64 (S,)."""
    metric = quantities.series_of(run, role)
    if metric is None:
        return np.full(len(run.steps), np.nan)
    return run.align(metric)


# A norm below a hundredth of 1, the norm to which trainers clip by default, is nearly 0
NEARLY_ZERO = 0.01
# A jump also exceeds the highest tenth of the norms before it by this factor. Where the norms of
# steps with and without a signal alternate, their median may be that of the steps without.
MIN_JUMP = 10.0


class _GradientExplosion(Limits):
    times = Limit(
        100.0,
        LimitKind.RATIO,
        "times",
        "gradient norm of a step against the median of those before it",
        PUBLIC_RUNS,
    )
    soon = Limit(
        0.1,
        LimitKind.SHARE,
        "of steps",
        "part of the run within which the reward falls (warning)",
        PUBLIC_RUNS,
    )


@Check(
    name="gradient explosion",
    rank=Rank.CAUSE,
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
    """Find a gradient norm far above those before it; warn if the reward fell then."""
    norm = quantities.series_of(run, "grad_norm")
    if norm is None:
        return check.not_run(check.needs_also)
    # Steps without a learning signal have no gradient but that of the KL penalty: it is not usual.
    is_silent = np.isin(norm.steps, run.steps[progress.silent(run) == 1])
    trained = np.where(is_silent, np.nan, norm.values)
    times = run.limits[_GradientExplosion].times
    usual, spikes = _spikes(norm.values, trained, times)
    if not len(spikes):
        return Result()
    before_fall = spikes[_before_fall(run, norm.steps[spikes])]
    is_harmful = len(before_fall) > 0
    # The first spike that did harm, else the highest of all
    highest_spike = spikes[np.argmax(norm.values[spikes])]
    at = int(before_fall[0] if is_harmful else highest_spike)
    highest = float(norm.values[at])
    peak = float(norm.values[spikes].max())
    step = int(norm.steps[at])
    facts: Facts = {
        "kind": "first" if peak > highest else "highest",
        "norm": highest,
        "median": usual,
        "at": step,
        "peak": peak,
    }
    return check.found(
        run,
        Severity.WARNING if is_harmful else Severity.INFO,
        [run.limits.test(_GradientExplosion.times, ">", highest, of=usual)],
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
    is_jump = is_jump & (median_before >= NEARLY_ZERO)
    if not is_jump.any():
        return np.nan, np.empty(0, np.int64)
    first = int(np.argmax(is_jump))
    usual = float(median_before[first])
    later = np.arange(len(norms)) >= first
    return usual, np.flatnonzero(later & (norms > times * usual))


def _before_fall(run: Run, spikes: Ints) -> NDArray[np.bool_]:
    """Return which of these steps lie just before the reward fell; none if most lie elsewhere."""
    shape = quantities.reward_shape(run)
    none = np.zeros(len(spikes), np.bool_)
    if shape is None or not (shape.fell or shape.below_start or shape.dead is not None):
        return none
    began = onset(shape.series.steps, shape.series.values, peak=shape.peak)
    if began is None:
        return none
    margin = max(run.limits[_GradientExplosion].soon * len(run.steps), 1)
    indices = np.searchsorted(run.steps, spikes)
    low, high = np.searchsorted(run.steps, [began.low, began.high])
    too_early = indices < low - margin
    harmful: NDArray[np.bool_] = ~too_early & (indices <= high)
    return none if too_early.sum() >= harmful.sum() else harmful


class _NoUpdates(Limits):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of steps",
        "share of the last window with a value of 0 (warning)",
        EQUAL_REWARDS,
    )


def _has_gradient(norms: Series | None) -> bool:
    return norms is not None and bool((norms.values > 0).any())


def _reward_moves(run: Run) -> bool:
    """Return whether the reward changes beyond noise, as it does if the policy is updated."""
    course = quantities.courses(run).get("reward")
    return course is not None and (
        course.direction != 0 or course.gained or course.lost
    )


@Check(
    name="updates without effect",
    rank=Rank.CAUSE,
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
    """Find that most late updates change nothing, as gradient or learning rate are 0."""
    norm = quantities.series_of(run, "grad_norm")
    rate = quantities.series_of(run, "learning_rate")
    if norm is None and rate is None:
        return check.not_run(check.needs_also)
    tested: list[Tested] = []
    for role, metric in (("grad_norm", norm), ("learning_rate", rate)):
        if metric is None or not quantities.covers(run, metric):
            continue
        is_rate = role == "learning_rate"
        if is_rate and (_has_gradient(norm) or _reward_moves(run)):
            continue  # a learning rate may be printed as 0 that is not
        values = run.align(metric)
        zero = np.where(np.isfinite(values), values == 0, np.nan)
        if not is_rate:
            zero = _unexplained(run, zero)
        at_end = run.last_values(zero)
        if np.isfinite(at_end).sum() < MIN_WINDOW:
            continue
        share = run.limits.test(_NoUpdates.share, ">", mean(at_end))
        tested.append(share)
        if share.met:
            facts: Facts = {
                "kind": role,
                "share": mean(at_end),
                "series_from": "metrics",
            }
            onset = run.onset(zero)
            return check.found(run, Severity.WARNING, tested, facts, onset=onset)
    return Result(tested=tuple(tested))


def _unexplained(run: Run, zero: Floats) -> Floats:
    """Return by step whether a gradient of 0 is a fault, NaN where groups have no signal.

    Groups of equal rewards give a gradient of 0, so single steps without any are usual where a
    step has few groups. If it is not known which steps these are, only a gradient that stays 0 to
    the end is a fault: updates that have no effect do not recover.
    """
    silent = progress.silent(run)
    if np.isfinite(silent).any():
        return np.where(silent == 1, np.nan, zero)
    alive = np.flatnonzero(zero == 0)
    if not len(alive):
        return zero
    is_before = np.arange(len(zero)) < alive[-1]
    return np.where(is_before & np.isfinite(zero), 0.0, zero)
