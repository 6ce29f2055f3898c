"""Checks of the policy: its entropy and its updates; that of its KL is in ``kl``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import progress, quantities
from rlreport.check.check import FAILURES, FALLS, LOGPROBS, Check
from rlreport.check.curve import LEAST_LEVEL, Curve, Level
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.judges.kl import kl_is_high
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run, event_onset, fall_onset, onset_of
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import SettingKind, higher, lower
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change
from rlreport.text.messages import format_message, span, translatable

ENTROPY = translatable("entropy-collapse threads of TRL, verl and DAPO")
PUBLIC_RUNS = translatable("public GRPO runs")


class _Entropy(NamedTuple):
    """Mean surprisal or else the entropy metric: what its findings have in common."""

    series: Series
    curve: Curve
    of_rows: Floats | None  # surprisal of each response, (rows,); None without


def _entropy(run: Run) -> _Entropy | None:
    """Return the entropy of a run, None if neither responses nor metrics tell it."""
    series = quantities.entropy(run)
    if series is None or series.curve is None or len(series.steps) < MIN_STEPS:
        return None
    of_rows = run.column("surprisal_mean") if LOGPROBS.is_available(run) else None
    return _Entropy(series, series.curve, of_rows)


def _low_entropy(surprisal: Floats | None, most: float) -> Ranking | None:
    """Return how to choose responses whose mean surprisal is lower than ``most``."""
    if surprisal is None:
        return None
    return Ranking.beyond(surprisal, "<", most, unit="nats per token")


def _high_entropy(surprisal: Floats | None, least: float) -> Ranking | None:
    """Return how to choose responses whose mean surprisal is at least ``least``."""
    if surprisal is None:
        return None
    return Ranking.beyond(surprisal, ">=", least, unit="nats per token")


class _EntropyCollapse(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of the first",
        "entropy, relative to the level before",
        ENTROPY,
    )
    surprisal = Limit(0.3, LimitKind.VALUE, "nats", "entropy at the end", ENTROPY)


def _with_steps(literal: str, facts: Facts) -> str:
    """Return a title that says of which steps both levels are."""
    steps = {name: span(facts[name]) for name in ("early", "late")}
    return format_message(literal, {**facts, **steps})


def _collapse_title(facts: Facts) -> str:
    literal = translatable(
        "The policy became certain: entropy fell from {start:figure} ({early}) to {end:figure} "
        "nats per token ({late})."
    )
    return _with_steps(literal, facts)


def _explosion_title(facts: Facts) -> str:
    literal = translatable(
        "The policy's text became random: entropy rose from {start:figure} ({early}) to "
        "{end:figure} nats per token ({late})."
    )
    return _with_steps(literal, facts)


def _levels(start: Level, end: Level) -> Facts:
    """Return both levels as facts, with their steps."""
    return {
        "start": start.value,
        "early": start.steps,
        "end": end.value,
        "late": end.steps,
    }


@Check(
    name="entropy collapse",
    rank=Rank.CONSEQUENCE,
    charts=("surprisal",),
    limits=_EntropyCollapse,
    title=_collapse_title,
    statement="entropy falls to {end:short} nats per token",
    why="A policy that samples the same thing every time no longer explores.",
    suggestion="Lower the learning rate, add an entropy bonus, or use harder prompts.",
    advice=lower(SettingKind.STEP_SIZE) + higher(SettingKind.ENTROPY),
    rules_out=lower(SettingKind.TEMPERATURE, SettingKind.ENTROPY),
    otherwise="Use harder prompts.",
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
    """Find that the entropy became a small part of what it was, and low."""
    entropy = _entropy(run)
    if entropy is None:
        return check.not_run(check.needs_also)
    curve = entropy.curve
    # What it fell from may be higher than its start.
    start = curve.before_fall
    end = curve.last.value
    limits = _EntropyCollapse
    share = run.limits.test(limits.share, "<", end, of=start)
    floor = run.limits.test(limits.surprisal, "<", end)
    # One that comes back from a high is no collapse.
    has_fallen = curve.fell or (curve.fall is not None and 2 * end < curve.first.value)
    if not (share.met and floor.met and has_fallen):
        return Result(tested=(share, floor))
    is_harmless = progress.learned(run) and not _does_harm(run)
    return check.found(
        run,
        Severity.INFO if is_harmless else Severity.WARNING,
        [share, floor],
        _levels(curve.top, curve.last),
        _low_entropy(entropy.of_rows, min(share.bound * start, floor.bound)),
        series=entropy.series,
        onset=fall_onset(curve),
    )


def _does_harm(run: Run) -> bool:
    """Return whether a score fell, or the KL to the reference is too high."""
    for course in (quantities.reward_course(run), quantities.watched_course(run)):
        if course is not None and course.lost:
            return True
    return kl_is_high(run)


def _levels_of_rise(curve: Curve) -> tuple[Level, Level]:
    """Return the levels before and after a rise that other outputs print, too.

    It is a climb that lasts to the end or, without one, a hump, which has its highest level inside.
    """
    rise = curve.climb or curve.hump
    if rise is None:
        return curve.first, curve.last
    start = curve.first
    # What had grown already before this rise counts as part of it.
    if rise.before > start.value:
        start = curve.lowest_in((int(curve.steps[0]), rise.onset))
    if rise is curve.climb:
        return start, curve.last
    return start, curve.highest_in((rise.onset, rise.until))


class _EntropyExplosion(Limits):
    ratio = Limit(
        3.0,
        LimitKind.RATIO,
        "times",
        "entropy, relative to the level before",
        ENTROPY,
    )
    rise = Limit(1.0, LimitKind.VALUE, "nats", "rise of the entropy", ENTROPY)


@Check(
    name="entropy explosion",
    rank=Rank.CAUSE,
    charts=("surprisal", "kl"),
    limits=_EntropyExplosion,
    close={
        "ratio": "entropy rose to {value:short} times its start",
        "rise": "entropy rose by {value:short} nats per token",
    },
    title=_explosion_title,
    statement="entropy rises to {end:short} nats per token",
    why="A policy this uncertain samples tokens that mean nothing: what it had learned is lost.",
    suggestion="Lower the entropy bonus or the learning rate; continue from before the rise.",
    advice=lower(SettingKind.ENTROPY, SettingKind.STEP_SIZE),
    rules_out=higher(
        SettingKind.TEMPERATURE, SettingKind.ENTROPY, SettingKind.STEP_SIZE
    ),
    otherwise="Continue from a checkpoint before the rise.",
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
        "garbled",
    ),
    needs_also="logprobs, or the trainer's entropy",
    trend=True,
)
def entropy_explosion(check: Check, run: Run) -> Result:
    """Find that the entropy rose several times over while nothing was learned."""
    entropy = _entropy(run)
    if entropy is None:
        return check.not_run(check.needs_also)
    curve = entropy.curve
    event = curve.climb or curve.hump
    # One that comes back from a low is no explosion.
    start = max(event.before if event else 0.0, curve.first.value)
    end = event.level if event else curve.last.value
    limits = _EntropyExplosion
    ratio = run.limits.test(limits.ratio, ">=", end, of=start)
    rise = run.limits.test(limits.rise, ">=", change(start, end))
    rose = ratio.met and rise.met and (curve.rose or event is not None)
    if not rose or progress.learned(run):
        return Result(tested=(ratio, rise))
    reward = quantities.reward_course(run)
    has_lost = reward is not None and reward.lost
    return check.found(
        run,
        Severity.CRITICAL if has_lost else Severity.WARNING,
        [ratio, rise],
        _levels(*_levels_of_rise(curve)),
        _high_entropy(entropy.of_rows, max(ratio.bound * start, start + rise.bound)),
        series=entropy.series,
        onset=event_onset(event) or run.onset(entropy.series),
        until=curve.hump.until if curve.hump and not curve.climb else None,
    )


RATIO = translatable("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")


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
        "mean": "Updates are too large: new over old probability is {ratio:figure} on average.",
    },
    statement={
        "clipped": "updates are too large ({outside:percent} of tokens are clipped)",
        "ratio": "updates are too large (mean probability ratio {ratio:short})",
        "mean": "updates are too large (mean probability ratio {ratio:short})",
    },
    why="Beyond the clip range most tokens give no gradient, and the rest a biased one.",
    suggestion="Lower the learning rate, or take fewer epochs over each batch.",
    advice=lower(SettingKind.EPOCHS, SettingKind.STEP_SIZE, SettingKind.CLIP),
    rules_out=higher(SettingKind.EPOCHS, SettingKind.STEP_SIZE),
    otherwise="Use larger batches, so that there are fewer updates per batch.",
    explains=FAILURES,
    needs_also="old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
)
def ratio_drift(check: Check, run: Run) -> Result:
    """Find that new and old probabilities of the same tokens are far apart."""
    ratios = _ratios(run)
    if not ratios:
        return check.not_run("old and new logprobs of the same tokens")
    figures = []
    ratio = ratios.get("ratio")
    if ratio is not None:
        of_rows = run.column("ratio_mean")
        figures.append(LimitedFigure(_RatioDrift.low, "<", ratio, of_rows))
        figures.append(LimitedFigure(_RatioDrift.high, ">", ratio, of_rows))
    outside = ratios.get("outside")
    if outside is not None:
        of_rows = run.column("ratio_outside")
        figures.append(
            LimitedFigure(_RatioDrift.outside, ">", outside, of_rows, "of tokens")
        )
    facts: Facts = {
        "ratio": np.nan,
        "outside": np.nan,
        "kind": _kind_of_ratios(ratios),
        "series_from": next(iter(ratios.values())).source,
    }
    return check.judge_figures(run, figures, ratios, facts=facts)


def _kind_of_ratios(ratios: Mapping[str, Series]) -> str:
    """Return the key of the title, which names what is known."""
    if "ratio" not in ratios:
        return "clipped"
    return "ratio" if "outside" in ratios else "mean"


def _ratios(run: Run) -> dict[str, Series]:
    """Return the ratio of new and old probabilities, and the share of tokens out of the clip range.

    That of responses, else the trainer's metrics, as far as they are logged.
    """
    weights = run.column("ratio_tokens")
    if np.nansum(weights) > 0:
        return {
            "ratio": quantities.series_by_step(run, "ratio_mean", weights),
            "outside": quantities.series_by_step(run, "ratio_outside", weights),
        }
    found = {}
    for name, role in (("ratio", "ratio"), ("outside", "clip_fraction")):
        metric = quantities.series_of(run, role)
        if metric is not None and len(metric.steps):
            found[name] = metric
    return found


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
    lasting = Limit(
        10.0,
        LimitKind.RATIO,
        "times",
        "level of the gradient norm against the level before",
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
        "lasting": "The gradient norm rose from {median:figure} to {norm:figure} and stays there.",
    },
    statement={
        "highest": "the gradient norm jumps to {norm:short}",
        "first": "the gradient norm jumps to {norm:short}",
        "lasting": "the gradient norm rises from {median:short} to {norm:short}",
    },
    event=True,
    why="One such update can undo what the policy learned: the steps after it show whether it did.",
    suggestion="Clip the gradient norm, lower the learning rate, and look at this step's batch.",
    advice=lower(SettingKind.GRADIENT_CLIP, SettingKind.STEP_SIZE),
    otherwise="Look at this step's batch.",
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
        return _judge_lasting_rise(check, run, norm)
    before_fall = spikes[_before_fall(run, norm.steps[spikes])]
    is_harmful = len(before_fall) > 0
    lasts = 2 * len(spikes) >= len(norm.values) - spikes[0]
    # The first spike that did harm, or of norms that stay so high; else the highest of all
    at = int(spikes[np.argmax(norm.values[spikes])])
    if is_harmful:
        at = int(before_fall[0])
    elif lasts:
        at = int(spikes[0])
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


def _judge_lasting_rise(check: Check, run: Run, norm: Series) -> Result:
    """Note that the norm rose tenfold and stays so; warn if a score fell since then."""
    climb = norm.curve.climb if norm.curve is not None else None
    if norm.curve is None or climb is None or climb.before < NEARLY_ZERO:
        return Result()
    # One that comes back from a low did not explode.
    before = max(climb.before, norm.curve.first.value)
    level = run.limits.test(_GradientExplosion.lasting, ">", climb.level, of=before)
    if not level.met:
        return Result(tested=(level,))
    falls = []
    for course in (quantities.reward_course(run), quantities.watched_course(run)):
        fall = course.curve.fall if course is not None else None
        if fall is not None and fall.high >= climb.low:
            falls.append(fall)
    return check.found(
        run,
        Severity.WARNING if falls else Severity.INFO,
        [level],
        {"kind": "lasting", "norm": climb.level, "median": before},
        series=norm,
        onset=event_onset(climb),
    )


def _spikes(norms: Floats, trained: Floats, times: float) -> tuple[float, Ints]:
    """Return the usual norm before the first jump, and the indices of norms far above it.

    Norms are compared with those before them that ``trained`` has: a norm that vanishes leaves
    high ones behind, which were usual at their time, and one that explodes for half of the run is
    no longer unusual.
    """
    past = pd.Series(trained).where(trained > 0).shift().expanding(LEAST_LEVEL)
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
    none = np.zeros(len(spikes), np.bool_)
    course = quantities.reward_course(run)
    if course is None or not course.lost:
        return none
    began = event_onset(course.fall) or onset_of(course.curve)
    if began is None:
        return none
    margin = max(run.limits[_GradientExplosion].soon * len(run.steps), 1)
    indices = np.searchsorted(run.steps, spikes)
    onset, high = np.searchsorted(run.steps, [began.step, began.high])
    too_early = indices < onset - margin
    harmful: NDArray[np.bool_] = ~too_early & (indices <= high)
    return none if too_early.sum() >= harmful.sum() else harmful
