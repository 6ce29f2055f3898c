"""Checks of the sampler against the trainer, and of stale rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.check import means, quantities
from rlreport.check.check import ANY_REWARD, FAILURES, FALLS, KL, LENGTH, Check, Need
from rlreport.check.course import Course
from rlreport.check.evidence import Ranking, where_known
from rlreport.check.finding import Fact, Facts, Rank, Result, Severity
from rlreport.check.fit import deviate
from rlreport.check.laws import Bools, Figure, figures_by_block
from rlreport.check.limits import Limit, LimitKind, Limits, Tested, meets
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.check.settings import SettingKind, enabled, higher, lower, neutral, see
from rlreport.check.windows import LEAST_STEPS, Window, part_of, z_of
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded
from rlreport.metrics.roles import MISMATCHES
from rlreport.summarise.steps import sequence_weights
from rlreport.text.messages import (
    format_message,
    listed,
    message,
    plural,
    translatable,
)

MISMATCH = translatable("NeMo-RL guides; verl FAQ")
NEMO_4243 = translatable("NeMo-RL#4243: token_mult_prob_error of 41 in single updates")
TINKER = translatable("tinker-cookbook: training is stable below 0.01")
ROLLOUT_CORR = translatable(
    "verl rollout_corr; VCPO (a falling effective sample precedes collapse)"
)
TRL_NEGATIVE = translatable(
    "TRL FAQ (top-k, min_length); LMFlow post (nearly half negative after a minimum length)"
)


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
    times = Limit(
        5.0,
        LimitKind.RATIO,
        "times its limit",
        "one of these figures in a single step (note)",
        NEMO_4243,
    )
    steps = Limit(
        0.05,
        LimitKind.SHARE,
        "of steps",
        "share of such steps, and at least two (warning)",
        NEMO_4243,
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
    if "in_steps" in facts:
        literal = translatable(
            "Sampler and trainer disagree on the same tokens in {where}: {parts} at most."
        )
        return message(literal, where=_steps_in_words(facts), parts=listed(parts))
    literal = translatable(
        "Sampler and trainer disagree on the same tokens: {parts} on average."
    )
    return message(literal, parts=listed(parts))


def _steps_in_words(facts: Facts) -> str:
    """Return the first steps in which they disagree, and how many these are."""
    steps = facts["in_steps"]
    count = facts["count"]
    assert isinstance(steps, tuple)
    assert isinstance(count, int)
    if count > len(steps):
        literal = translatable("{count:count} steps, the first {steps}")
        return message(literal, count=count, steps=steps)
    return plural("step {steps}", "steps {steps}", count, steps=steps)


def _disagreement_clause(facts: Facts) -> str:
    """Return the clause, with k3 if it is logged, or with the steps if these are few."""
    if "in_steps" in facts:
        where = _steps_in_words(facts)
        literal = translatable("sampler and trainer disagree in {where}")
        return message(literal, where=where)
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
    advice=enabled(SettingKind.CORRECTION),
    otherwise="Use equal precision, kernels and weights in sampler and trainer.",
    # Smaller steps on wrong probabilities are wrong, too.
    no_cure=lower(SettingKind.STEP_SIZE, SettingKind.EPOCHS)
    + higher(SettingKind.STEP_SIZE, SettingKind.EPOCHS),
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
            figures.append(_figure(run, limit, series))
    shown = {figure.limit.key: figure.series for figure in figures}
    clear = [figure for figure in figures if _is_clear(run, figure)]
    result = check.judge_figures(run, clear, shown)
    found = result.finding
    if found is not None and found.severity is not Severity.INFO:
        return result
    single = _single_steps(check, run, figures)
    if single is None or single.finding is None:
        return result
    is_more = found is None or single.finding.severity is not Severity.INFO
    return single if is_more else result


def _figure(run: Run, limit: Limit[float], series: Series) -> LimitedFigure:
    """Return a disagreement with its limit and, if responses have it, its value in each."""
    column = f"mismatch_{limit.key}"
    of_rows = run.column(column) if run.has(column) else None
    unit = "nats per token" if limit.key == "k3" else ""
    return LimitedFigure(limit, ">", series, of_rows, unit)


# A figure is beyond its limit by this part of it, and by this many standard errors: one around its
# limit may be at either side by chance
MARGIN = 0.1
CLEAR_Z = 3.0


def _is_clear(run: Run, figure: LimitedFigure) -> bool:
    """Return whether a figure lies beyond its limit by more than a margin and than chance."""
    excursion = figure.excursion(run)
    if excursion is None:
        return True  # it is not beyond it at all
    first, last = excursion.steps
    series = figure.series.without_gaps()
    inside = series.values[(series.steps >= first) & (series.steps <= last)]
    beyond = inside - run.limits.value(figure.limit)
    if not meets(">", float(beyond.mean()), MARGIN * _tolerance(run, figure)):
        return False
    if len(beyond) < LEAST_SPREAD:
        return True  # their spread is not known
    error = float(beyond.std(ddof=1)) / math.sqrt(len(beyond))
    return bool(beyond.mean() > CLEAR_Z * error)


def _agreement(figure: LimitedFigure) -> float:
    """Return the value of a figure where sampler and trainer agree."""
    return 1.0 if figure.limit is _EngineMismatch.ratio else 0.0


def _tolerance(run: Run, figure: LimitedFigure) -> float:
    """Return how far a figure may be from agreement: as far as its limit is."""
    return run.limits.value(figure.limit) - _agreement(figure)


# Fewest values whose spread is estimated
LEAST_SPREAD = 3
# So many steps are named
_MOST_NAMED = 4


def _single_steps(
    check: Check, run: Run, figures: Sequence[LimitedFigure]
) -> Result | None:
    """Return that single steps are far beyond a limit, None if no step is.

    Some updates with other probabilities do harm, although most steps agree.
    """
    limits = _EngineMismatch
    for figure in figures:
        far, excess = _far_beyond(run, figure)
        steps = figure.series.steps[far]
        if not len(steps):
            continue
        count = len(steps)
        share = count / np.isfinite(excess).sum()
        often = run.limits.test(limits.steps, ">", share)
        most = run.limits.test(limits.times, ">", float(np.nanmax(excess)))
        is_repeated = often.met and count >= LEAST_TIMES
        figures_there = {
            other.limit.key: _largest_in(other.series, steps) for other in figures
        }
        facts: dict[str, Fact] = {
            "in_steps": tuple(steps[:_MOST_NAMED].tolist()),
            "count": count,
            **{name: most for name, most in figures_there.items() if most == most},
        }
        if figure.series.source == "metrics":
            facts["series_from"] = "metrics"
        return check.found(
            run,
            Severity.WARNING if is_repeated else Severity.INFO,
            [most, often] if is_repeated else [most],
            facts,
            _far_responses(run, figure),
            onset=int(steps[0]),
            until=None if is_repeated else int(steps[-1]),
            steps=steps.tolist(),
        )
    return None


# Fewest such steps of a warning: one may be an accident
LEAST_TIMES = 2


def _far_beyond(run: Run, figure: LimitedFigure) -> tuple[Bools, Floats]:
    """Return where a figure is far beyond its limit, and its multiples of that, both (S,)."""
    tolerance = _tolerance(run, figure)
    if tolerance <= 0:
        return np.zeros(len(figure.series.values), bool), figure.series.values
    excess = (figure.series.values - _agreement(figure)) / tolerance
    return excess > run.limits[_EngineMismatch].times, excess


def _far_responses(run: Run, figure: LimitedFigure) -> Ranking | None:
    """Return how to choose responses that are as far beyond a limit as such steps are.

    None if the figure is not one of responses.
    """
    if figure.of_rows is None:
        return None
    far = run.limits[_EngineMismatch].times * _tolerance(run, figure)
    bound = _agreement(figure) + far
    return Ranking.beyond(figure.of_rows, ">", bound, unit=figure.unit)


def _largest_in(series: Series, steps: Ints) -> float:
    """Return the largest value of a series in these steps, NaN without one."""
    values = series.values[np.isin(series.steps, steps)]
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else np.nan


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
    advice=enabled(SettingKind.CORRECTION)
    + lower(SettingKind.CORRECTION_CAP, SettingKind.STALENESS),
    otherwise="Sample from fresher weights.",
    explains=(*FALLS, "kl_explosion", "entropy_collapse", "reward_stalled"),
)
def off_policy_weights(check: Check, run: Run) -> Result:
    """Find that importance weights of whole responses vary too much."""
    limits = _OffPolicyWeights
    if not run.has("log_weight"):
        ess = quantities.figure_of(run, "ess")
        if ess is None:
            return Result()
        figure = LimitedFigure(limits.ess, "<", ess)
        return check.judge_figures(run, [figure], {"ess": ess})
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
    # A weight alone has no spread: far from 1 is what the limits of their mean call so.
    is_low = weight < run.limits[limits].low
    is_far = is_low | (weight > run.limits[limits].high)
    ranking = Ranking(
        np.abs(run.column("log_weight")), where_known(weight, is_far), unit="nats"
    )
    return check.judge_figures(run, figures, shown, ranking)


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
    advice=lower(SettingKind.STALENESS),
    otherwise="Drop rollouts whose lag exceeds a limit.",
    explains=("off_policy_weights", "ratio_drift", *FALLS, "entropy_collapse"),
)
def stale_rollouts(check: Check, run: Run) -> Result:
    """Find that responses were sampled by a policy many steps older."""
    lag = quantities.figure_of(run, "lag")
    if lag is None:
        return Result()
    of_rows = run.column("lag") if run.has("lag") else None
    figure = LimitedFigure(_StaleRollouts.lag, ">", lag, of_rows, "steps")
    return check.judge_figures(run, [figure], {"lag": lag})


class _NegativeKl(Limits):
    z = Limit(
        -3.0,
        LimitKind.ERRORS,
        "std errors",
        "significance of a mean KL below zero (warning)",
        TRL_NEGATIVE,
    )
    mean = Limit(
        -0.01,
        LimitKind.VALUE,
        "nats per token",
        "mean KL of a block of steps, low enough to exclude rounding errors",
    )


@Check(
    name="negative KL",
    rank=Rank.CAUSE,
    needs=(KL,),
    charts=("kl",),
    limits=_NegativeKl,
    title={
        "token": "The KL estimate is below zero: {kl:figure} nats per token, negative in "
        "{share:percent} of responses.",
        "response": "The KL estimate is below zero: {kl:figure} nats per response, negative in "
        "{share:percent} of responses.",
    },
    statement={
        "token": "the KL estimate is below zero ({kl:short} nats per token)",
        "response": "the KL estimate is below zero ({kl:short} nats per response)",
    },
    why="The tokens were sampled from a different distribution than the trainer's, so a KL "
    "penalty acts as an undeserved reward.",
    suggestion="Sample with temperature 1, top_k = 0, top_p = 1, no min_length or forced tokens.",
    advice=neutral(SettingKind.TEMPERATURE, SettingKind.TOP_P, SettingKind.TOP_K),
    otherwise="Look for forced tokens or a minimum length in sampling.",
    explains=(*FALLS, "reward_stalled", "length_collapse"),
)
def negative_kl(check: Check, run: Run) -> Result:
    """Find that the estimate of the KL to the reference is surely below zero in some steps."""
    limits = _NegativeKl
    kl, weights, kind = _kl_per_token(run)
    significance: list[float] = []

    def mean_kl(window: Window) -> Figure:
        part = part_of(run.tables, kl, window, weights)
        if not run.limits.test(limits.mean, "<", part.mean).met:
            return Figure(part.mean)
        z = _z_in_block(run, kl, weights, window)
        significance.append(z)
        return Figure(part.mean, run.limits.test(limits.z, "<", z).met)

    blocks = figures_by_block(run, mean_kl, among=np.isfinite(kl))
    if not blocks.is_observed:
        return Result()
    if not blocks.is_violated:
        smallest = float(np.nanmin(blocks.values))
        lowest = run.limits.test(limits.mean, "<", smallest)
        # Both limits have to be met.
        return Result(tested=(replace(lowest, met=False),))
    violated = blocks.rows & np.isfinite(kl)
    level = means.mean(kl[violated])
    if weights is not None:
        level = rounded(np.average(kl[violated], weights=weights[violated]))
    share = means.mean((kl[violated] < 0).astype(np.float64))
    tested = [
        run.limits.test(limits.mean, "<", level),
        run.limits.test(limits.z, "<", min(significance)),
    ]
    # Blocks prove it; the curve of the same figure dates it, if it has a date.
    series = run.by_step(kl, weights)
    dated = run.onset_beyond(series, run.limits.value(limits.mean), "<")
    return check.found(
        run,
        Severity.WARNING,
        tested,
        {"kind": kind, "kl": level, "share": share},
        Ranking.beyond(kl, "<", 0.0, unit=f"nats per {kind}"),
        onset=dated or blocks.onset,
        until=blocks.until,
        steps=blocks.steps,
    )


def _z_in_block(
    run: Run, values: Floats, weights: Floats | None, window: Window
) -> float:
    """Return the z of the mean of a block of steps, by its responses and by its steps' means.

    The scatter of other steps does not count: the KL of a policy that fails later is far noisier.
    """
    part = part_of(run.tables, values, window, weights)
    by_responses = z_of(None, values, weights, [part])
    of_steps = run.by_step(values, weights)
    of_block = of_steps[np.isin(run.steps, window.steps)]
    of_block = of_block[np.isfinite(of_block)]
    if len(of_block) < LEAST_STEPS:
        return by_responses
    error = float(of_block.std(ddof=1)) / np.sqrt(len(of_block))
    by_steps = deviate(part.mean, error, len(of_block) - 1)
    # Both are below zero: the weaker one counts.
    return max(by_responses, by_steps)


def _kl_per_token(run: Run) -> tuple[Floats, Floats | None, str]:
    """Return the KL of each response, what weights it, and whether it is per token or response.

    It is per token, weighted by tokens, unless their number is not known.
    """
    kl = run.column("kl_k1")
    tokens = run.column("response_tokens")
    if not np.isfinite(tokens).any():
        return kl, None, "response"
    has_tokens = np.isfinite(kl) & (tokens > 0)
    per_token = np.full(len(kl), np.nan)
    np.divide(kl, tokens, out=per_token, where=has_tokens)
    return per_token, np.where(has_tokens, tokens, 0.0), "token"


class _StuckRollouts(Limits):
    kl = Limit(
        0.1, LimitKind.VALUE, "nats per token", "rise of the KL per token (note)"
    )
    mismatch = Limit(
        0.01,
        LimitKind.VALUE,
        "nats per token",
        "rise of the k3 of sampler and trainer (note)",
        translatable("verl#7495: the adapter never reached the sampler"),
    )
    z = Limit(
        2.0,
        LimitKind.ERRORS,
        "std errors",
        "largest change of reward and length meanwhile",
    )
    change = Limit(
        0.1,
        LimitKind.RATIO,
        "times",
        "largest change of reward and length against the larger of both levels",
    )
    steps = Limit(10, LimitKind.COUNT, "steps", "least number of steps")


@Check(
    name="rollouts do not change",
    rank=Rank.NOTE,
    needs=(ANY_REWARD, LENGTH, Need("KL per token", (), ("kl_token", "mismatch_k3"))),
    charts=("kl", "mismatch", "reward", "length"),
    limits=_StuckRollouts,
    title={
        "kl": "The KL rose from {start:figure} to {end:figure} nats per token, but neither reward "
        "nor length changed.",
        "mismatch": "Sampler and trainer drift apart (k3 from {start:figure} to {end:figure} nats "
        "per token), but neither reward nor length changed.",
    },
    statement="the policy changes, but the rollouts do not",
    why="If the sampler keeps old weights, the policy is trained on what another policy wrote.",
    suggestion="Check that the sampler gets the updated weights after each step.",
    advice=see(SettingKind.STALENESS),
    trend=True,
)
def stuck_rollouts(check: Check, run: Run) -> Result:
    """Note that the policy moved away from where it was without a change in its rollouts."""
    limits = _StuckRollouts
    unchanged = _unchanged(run)
    tested: list[Tested] = []
    for role, limit in (("kl_token", limits.kl), ("mismatch_k3", limits.mismatch)):
        series = quantities.series_of(run, role, least=run.limits.value(limits.steps))
        if series is None or series.curve is None:
            continue
        curve = series.curve
        rise = run.limits.test(limit, ">", curve.last.value - curve.first.value)
        tested.append(rise)
        if unchanged and curve.rose and rise.met:
            facts: Facts = {
                "kind": limit.key,
                "start": curve.first.value,
                "end": curve.last.value,
            }
            return check.found(
                run,
                Severity.INFO,
                [rise],
                facts,
                series=series,
                onset=run.onset(series),
            )
    return Result(tested=tuple(tested))


def _unchanged(run: Run) -> bool:
    """Return whether neither reward nor length changed, as far as their courses can tell."""
    limits = _StuckRollouts
    for name in ("reward", "length"):
        course = quantities.courses(run).get(name)
        if course is None or not _can_tell(course):
            return False
        first = course.first.value
        change = abs(course.last.value - first)
        largest = max(abs(first), abs(course.last.value))
        if not run.limits.test(limits.change, "<", change, of=largest).met:
            return False
        z = abs(course.curve.changed or 0.0)
        if not run.limits.test(limits.z, "<", z).met:
            return False
    return True


def _can_tell(course: Course) -> bool:
    """Return whether a course without events has enough values, which are not all the same."""
    has_values = course.curve.changed is not None and not course.curve.events
    return has_values and bool(np.ptp(course.values) > 0)
