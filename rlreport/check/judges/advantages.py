"""Checks of logged advantages against those that follow from rewards in their groups."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import estimators, progress, quantities
from rlreport.check.check import EPISODE_STEPS, FAILURES, REWARD, Check, Need
from rlreport.check.estimators import Batch, Misfit
from rlreport.check.evidence import Ranking, where_known
from rlreport.check.finding import Facts, Onset, Rank, Result, Severity
from rlreport.check.laws import (
    LEAST_ROWS,
    NOT_OBSERVED,
    BlockFigures,
    Bools,
    Figure,
    figures_by_block,
    found_in_blocks,
)
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean, median
from rlreport.check.run import Run, once_per_run
from rlreport.check.series import MIN_STEPS
from rlreport.check.windows import Trend, Window, correlation_within
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats, Ints
from rlreport.summarise.steps import FAR, advantage_fit, most_common, typical
from rlreport.text.messages import format_message, sentences, translatable

LOGGED = "advantage_logged_mean"
ADVANTAGES = Need("advantages", (LOGGED,))
ONE_EACH = translatable("one advantage per response, no critic and no token_rewards")
GRPO = translatable("DeepSeekMath (GRPO); TRL and verl: (r − μ) / (σ + ε)")
# A best-rewarded response is punished if its advantage is below minus this part of the RMS
PUNISHED = 0.02
# A term such as the KL is a part of advantages if what the reward does not explain of them
# correlates with it so much, and by so many standard errors
PART = 0.3
PART_Z = 4.0


class _AdvantageMismatch(Limits):
    sign = Limit(
        -0.5,
        LimitKind.VALUE,
        "",
        "correlation of logged advantages with recomputed ones",
        GRPO,
    )
    own = Limit(
        0.5,
        LimitKind.VALUE,
        "",
        "that correlation, if advantages fit other rows",
    )
    other = Limit(
        0.8,
        LimitKind.VALUE,
        "",
        "correlation with the neighbouring row",
    )
    apart = Limit(
        0.1,
        LimitKind.SHARE,
        "of groups",
        "share in which equal rewards have different advantages",
        translatable("R1-V#67: rewards reshaped to groups of neighbours"),
    )
    offset = Limit(
        0.25,
        LimitKind.SHARE,
        "of their size",
        "mean advantage of groups (RMS), if equal rewards have different advantages",
    )
    fitted = Limit(
        0.9,
        LimitKind.SHARE,
        "of advantages",
        "share that the best usual formula gives, if so",
    )
    within = Limit(
        0.98,
        LimitKind.VALUE,
        "",
        "correlation with rewards within groups; if it is higher, advantages follow them",
    )
    groups = Limit(
        10, LimitKind.COUNT, "groups", "least number of groups with a signal in a block"
    )


class _Advantages(NamedTuple):
    """The advantages of a run beside those computed from its rewards."""

    usual: Floats  # as logged, NaN for those that are far too large, (rows,)
    size: float  # typical size of the logged ones
    expected: Floats  # recomputed from rewards, at the size of the logged ones, (rows,)
    error: Floats  # size of what rewards do not explain, (rows,)
    fit: Floats  # correlation of logged and recomputed ones by step, (S,)
    # the number of responses of a complete group, None if it is unknown
    complete: int | None


_SHIFTED = {
    "sign": translatable(
        "Logged advantages have the opposite sign of those computed from rewards (correlation "
        "{own:figure})."
    ),
    "other": translatable(
        "Logged advantages fit the reward of the neighbouring row (correlation {other:figure}), "
        "not that of their own ({own:figure})."
    ),
}


def _title(facts: Facts) -> str:
    """Return the title; that of wrong groups has a sentence for each thing that shows it."""
    kind = str(facts["kind"])
    if kind in _SHIFTED:
        return _SHIFTED[kind]
    lines = [
        translatable(
            "In {apart:percent} of groups, equal rewards have different advantages."
        )
    ]
    if kind == "neighbours":
        first = translatable(
            "Advantages are those of groups of {size} neighbouring rows, not of the responses to "
            "one prompt."
        )
        lines.insert(0, first)
    if facts["punished"]:
        lines.append(
            translatable(
                "{punished:percent} of the best-rewarded responses of their group have a negative "
                "one."
            )
        )
    return sentences(format_message(line, facts) for line in lines)


@Check(
    name="advantages that do not follow from rewards",
    rank=Rank.CAUSE,
    needs=(REWARD, ADVANTAGES),
    charts=("advantages",),
    limits=_AdvantageMismatch,
    title=_title,
    statement={
        "sign": "advantages have the wrong sign",
        "other": "advantages fit the reward of the neighbouring row",
        "apart": "advantages do not follow the rewards of their group",
        "neighbours": "advantages do not follow the rewards of their group: the groups are {size} "
        "neighbouring rows",
    },
    why="Advantages decide which responses are reinforced: wrong ones train against the reward.",
    suggestion="Recompute a step's advantages: look at sign, baseline, groups and order of rows.",
    explains=FAILURES,
    needs_also=ONE_EACH,
)
def advantage_mismatch(check: Check, run: Run) -> Result:
    """Find that logged advantages are not those that follow from rewards in their groups."""
    if not _is_judged(run):
        return check.not_run(check.needs_also)
    advantages = _advantages(run)
    shifted = _of_other_sign_or_row(check, run, advantages)
    if shifted.finding is not None:
        return shifted
    grouped = _of_other_groups(check, run, advantages)
    return Result(grouped.finding, shifted.tested + grouped.tested)


def _is_judged(run: Run) -> bool:
    """Return whether rewards alone make the advantages of a run."""
    return not (run.has("value_mean") or run.has("rlhf_reward"))


def _of_other_sign_or_row(check: Check, run: Run, advantages: _Advantages) -> Result:
    """Find that advantages have the wrong sign, or are those of the neighbouring row."""
    if run.first is None:
        return Result()
    limits = _AdvantageMismatch
    # Correlations of the logged advantages: with those of their own rows, and of other rows
    own, z = correlation_within(
        run.tables, advantages.usual, advantages.expected, run.last
    )
    other = np.nan
    # In groups of two, the neighbour's advantage is the opposite of the own.
    if abs(own) < run.limits.value(limits.own):
        other = _correlation_with_neighbours(run, advantages)
    faults = {"other": run.limits.test(limits.other, ">", other)}
    if z <= -run.limits[Trend].z:  # not if z is NaN
        faults = {"sign": run.limits.test(limits.sign, "<", own), **faults}
    tested = tuple(faults.values())
    kind = next((kind for kind, one in faults.items() if one.met), "")
    if not kind:
        return Result(tested=tested)
    onset, severity = _onset_and_severity(run, advantages)
    facts: Facts = {"kind": kind, "own": own, "other": other}
    error = advantages.error
    is_wrong = where_known(error, error > advantages.size / 2)
    ranking = Ranking(error, is_wrong, unit="from the expected value")
    return check.found(run, severity, [faults[kind]], facts, ranking, onset=onset)


def _onset_and_severity(
    run: Run, advantages: _Advantages
) -> tuple[Onset | None, Severity]:
    """Return since when advantages have the wrong sign or row, and how serious it is."""
    fit_at_start = median(advantages.fit[: len(run.last.steps)])
    from_start = fit_at_start < run.limits[_AdvantageMismatch].own
    onset = run.onset(advantages.fit, always=from_start)
    if onset is None:
        # Too few steps for a change may still lie beyond the limit.
        least = run.limits[_AdvantageMismatch].own
        onset = run.onset_beyond(advantages.fit, least, "<")
    # In a run that learns with them from the start, the log is wrong rather than the trainer.
    if from_start and progress.learned(run):
        return onset, Severity.INFO
    return onset, Severity.CRITICAL


@once_per_run
def _advantages(run: Run) -> _Advantages:
    """Return the logged advantages of a run, and how far rewards explain them."""
    columns = {
        name: run.responses[name].to_numpy() for name in ("reward", "group", LOGGED)
    }
    recomputed, fit = advantage_fit(columns, Grouped.by(run.step_index))
    logged = columns[LOGGED]
    size = typical(logged)
    usual = np.where(np.abs(logged) > FAR * size, np.nan, logged)
    is_known = np.isfinite(usual) & np.isfinite(columns["reward"])
    sizes = np.bincount(columns["group"][is_known])
    # Recomputed ones have an arbitrary scale: bring them to the size of the logged ones.
    expected = recomputed * size / typical(recomputed)
    return _Advantages(
        usual=usual,
        size=size,
        expected=expected,
        error=np.abs(logged - expected),
        fit=fit,
        complete=estimators.usual_size(sizes[sizes > 1]),
    )


def _correlation_with_neighbours(run: Run, advantages: _Advantages) -> float:
    """Return the best correlation with what a row before or after should have.

    Rows are shifted inside of steps, and inside of groups. NaN if no correlation is significant.
    """
    recomputed = pd.Series(advantages.expected)
    least_z = run.limits[Trend].z
    best = np.nan
    for label in (run.step_index, run.responses["group"].to_numpy()):
        of_label = recomputed.groupby(label)
        for distance in (1, -1):
            neighbour = np.asarray(of_label.shift(distance), np.float64)
            correlation, z = correlation_within(
                run.tables, advantages.usual, neighbour, run.last
            )
            if z >= least_z:
                best = np.fmax(best, correlation)
    return float(best)


def _of_other_groups(check: Check, run: Run, advantages: _Advantages) -> Result:
    """Find that advantages do not follow the rewards of their groups, in any block of steps."""
    blocks = _misfits(run, advantages)
    if not blocks.is_observed or _have_other_terms(run, advantages):
        return Result()
    limits = _AdvantageMismatch
    if not blocks.is_violated:
        apart = float(np.nanmax(blocks.values))
        return Result(tested=(run.limits.test(limits.apart, ">", apart),))
    concerned = _misfit(run, advantages, blocks.rows)
    tested = _tests(run, concerned)
    is_best = _best_of_mixed(run)
    is_punished = _punished(run, advantages)
    of_best = float(is_best[blocks.rows].sum())
    of_punished = float(is_punished[blocks.rows].sum())
    facts: Facts = {
        "kind": "neighbours" if _fit_neighbours(run, advantages, blocks) else "apart",
        "apart": concerned.apart,
        "size": _group_size(run),
        "punished": of_punished / max(of_best, 1),
    }
    severity = Severity.CRITICAL
    # A run that learns with a wrong baseline has at least advantages of the right sign.
    if blocks.since_first and progress.learned(run):
        severity = Severity.WARNING
    # The clearest examples: rewarded best, and yet made less likely
    among = np.where(is_best, is_punished, np.nan)
    ranking = Ranking(advantages.usual, among, highest=False, unit="advantage")
    if not of_punished:
        is_apart = _rows_apart(run, advantages)
        ranking = Ranking(advantages.error, is_apart, unit="from the expected value")
    return found_in_blocks(
        check,
        blocks,
        tested,
        facts,
        ranking,
        severity=severity,
    )


def _misfits(run: Run, advantages: _Advantages) -> BlockFigures:
    """Return by block the share of groups in which equal rewards have different advantages."""
    least_groups = run.limits[_AdvantageMismatch].groups

    def figure(window: Window) -> Figure:
        chosen = np.zeros(len(run.responses), bool)
        chosen[window.rows] = True
        found = _misfit(run, advantages, chosen)
        if not found.groups >= least_groups:
            return NOT_OBSERVED
        return Figure(found.apart, all(one.met for one in _tests(run, found)))

    least_rows = max(LEAST_ROWS, least_groups * _group_size(run))
    is_known = np.isfinite(run.column("reward")) & np.isfinite(advantages.usual)
    return figures_by_block(run, figure, among=is_known, least_rows=least_rows)


def _tests(run: Run, found: Misfit) -> list[Tested]:
    """Compare a misfit with its limits: advantages are wrong only if it is beyond all of them."""
    limits = _AdvantageMismatch
    return [
        run.limits.test(limits.apart, ">", found.apart),
        run.limits.test(limits.offset, ">", found.offset),
        run.limits.test(limits.fitted, "<", found.fitted),
        run.limits.test(limits.within, "<", found.correlation),
    ]


def _misfit(run: Run, advantages: _Advantages, chosen: Bools) -> Misfit:
    return estimators.misfit(_batch(run, advantages, chosen), advantages.complete)


def _batch(run: Run, advantages: _Advantages, chosen: Bools) -> Batch:
    """Return the chosen responses that have a reward and an advantage."""
    group = run.responses["group"].to_numpy(np.int64)
    return Batch.of(
        run.column("reward")[chosen],
        advantages.usual[chosen],
        group[chosen],
        run.step_index[chosen],
    )


def _group_size(run: Run) -> int:
    """Return the usual number of responses in a group; without a usual one, the mean."""
    sizes = np.bincount(run.responses["group"].to_numpy(np.int64))
    sizes = sizes[sizes > 1]
    return most_common(sizes) or int(sizes.mean()) if len(sizes) else 1


def _neighbours(run: Run) -> Ints:
    """Return groups of as many neighbouring rows as groups have responses, (rows,)."""
    position = np.arange(len(run.responses))
    position -= np.searchsorted(run.step_index, run.step_index)
    size = _group_size(run)
    return run.step_index * len(position) + position // size


def _fit_neighbours(run: Run, advantages: _Advantages, blocks: BlockFigures) -> bool:
    """Return whether advantages in violated blocks are those of groups of neighbouring rows."""
    known = np.isfinite(run.column("reward")) & np.isfinite(advantages.usual)
    chosen = blocks.rows & known
    batch = _batch(run, advantages, chosen)
    return estimators.fits_neighbours(batch, _neighbours(run)[chosen])


def _have_other_terms(run: Run, advantages: _Advantages) -> bool:
    """Return whether advantages hold a term that the reward lacks, such as a KL penalty.

    Then responses with the same reward have different advantages in a correct run, as have the
    rows of a rollout whose turns have advantages of their own.
    """
    rollout = run.responses["rollout"].dropna()
    if rollout.duplicated().any():
        return True
    everything = np.ones(len(run.responses), bool)
    known = np.isfinite(run.column("reward")) & np.isfinite(advantages.usual)
    batch = _batch(run, advantages, everything)
    parts = run.tables.extras[run.tables.reward_parts]
    terms = [run.column(name) for name in ("kl_k1", "kl_k3", run.length)]
    terms += [parts[name].to_numpy(np.float64) for name in parts]
    for term in terms:
        r, z = estimators.correlation_beside_reward(batch, term[known])
        if abs(r) > PART and abs(z) > PART_Z:
            return True
    return False


def _best_of_mixed(run: Run) -> Bools:
    """Return which responses have the best reward of a group with different ones, (rows,)."""
    reward = pd.Series(run.column("reward"))
    groups = reward.groupby(run.responses["group"].to_numpy())
    best = groups.transform("max")
    is_best = (reward == best) & (groups.transform("min") < best)
    return np.asarray(is_best, bool)


def _punished(run: Run, advantages: _Advantages) -> Bools:
    """Return which best-rewarded responses of a group have a negative advantage, (rows,)."""
    size = math.sqrt(mean(advantages.usual**2))
    is_negative: Bools = advantages.usual < -PUNISHED * size
    return _best_of_mixed(run) & is_negative


def _rows_apart(run: Run, advantages: _Advantages) -> Bools:
    """Return which responses are of groups with different advantages of equal rewards, (rows,)."""
    known = np.isfinite(run.column("reward")) & np.isfinite(advantages.usual)
    batch = _batch(run, advantages, known)
    rows = np.zeros(len(known), bool)
    rows[known] = estimators.groups_apart(batch)[batch.group]
    return rows


class _AdvantageOutlier(Limits):
    far = Limit(
        1000.0,
        LimitKind.RATIO,
        "times",
        "an advantage that no reward explains, over the median",
    )
    fit = Limit(
        0.8,
        LimitKind.VALUE,
        "",
        "correlation with recomputed advantages; if it is lower, none is judged",
    )


@Check(
    name="an advantage far from all others",
    rank=Rank.CAUSE,
    needs=(Need("advantages", (LOGGED,), ("advantage_max",)),),
    charts=("advantages",),
    limits=_AdvantageOutlier,
    title={
        "responses": "Advantages reach {most:figure} ({ratio:figure} × the median), not due to "
        "rewards.",
        "metric": "The trainer's largest advantage is {most:figure} in step {at}, {ratio:figure} × "
        "its median.",
    },
    statement={
        "responses": "an advantage is {ratio:short} times the median",
        "metric": "the largest advantage is {ratio:short} times its median",
    },
    why="One response then outweighs all others of its step, whatever it earned.",
    suggestion="Look at the divisor of that group, such as a std near 0, and clip advantages.",
    explains=FAILURES,
    needs_also=ONE_EACH,
)
def advantage_outlier(check: Check, run: Run) -> Result:
    """Find an advantage that is far larger than others, though no reward is."""
    if not (run.has(LOGGED) and run.has("reward")):
        return _outlier_in_metrics(check, run)
    if not _is_judged(run):
        return check.not_run(check.needs_also)
    limits = _AdvantageOutlier
    advantages = _advantages(run)
    # Where rewards do not explain advantages anyway, a large one is no fault.
    if not median(advantages.fit) > run.limits.value(limits.fit):
        return Result()
    logged = np.abs(run.column(LOGGED))
    # A large advantage that its reward explains for the most part is not far.
    is_unexplained = (advantages.error > logged / 2) & ~_are_rewards_far(run)
    ratio = np.where(is_unexplained, logged / advantages.size, np.nan)
    largest = float(np.fmax.reduce(ratio, initial=np.nan))
    tested = run.limits.test(limits.far, ">", largest)
    if not tested.met:
        return Result(tested=(tested,))
    is_far = ratio > tested.bound
    steps = np.unique(run.responses["step"].to_numpy(np.int64)[is_far])
    last = int(steps[-1])
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {
            "kind": "responses",
            "ratio": largest,
            "most": largest * advantages.size,
        },
        Ranking(advantages.error, is_far, unit="from the expected value"),
        onset=int(steps[0]),
        until=None if last == run.steps[-1] else last,
        steps=steps.tolist(),
    )


def _outlier_in_metrics(check: Check, run: Run) -> Result:
    """Find that the trainer's largest advantage of a step is far above that of usual steps."""
    series = quantities.series_of(run, "advantage_max", least=MIN_STEPS)
    if series is None:
        return check.not_run(check.needs_also)
    usual = float(np.median(series.values))
    if not usual > 0:
        return Result()
    ratio = series.values / usual
    tested = run.limits.test(_AdvantageOutlier.far, ">", float(ratio.max()))
    if not tested.met:
        return Result(tested=(tested,))
    steps = series.steps[ratio > tested.bound]
    last = int(steps[-1])
    is_over = len(steps) <= EPISODE_STEPS and last < series.steps[-1]
    return check.found(
        run,
        Severity.INFO if is_over else Severity.WARNING,
        [tested],
        {
            "kind": "metric",
            "ratio": float(ratio.max()),
            "most": float(series.values.max()),
            "at": int(series.steps[np.argmax(ratio)]),
        },
        series=series,
        onset=int(steps[0]),
        until=None if last == run.steps[-1] else last,
        steps=steps.tolist(),
    )


def _are_rewards_far(run: Run) -> Bools:
    """Return which responses are of a group with a reward far from all others, (rows,)."""
    reward = run.column("reward")
    distance = np.abs(reward - median(reward))
    group = run.responses["group"].to_numpy()
    farthest = pd.Series(distance).groupby(group).transform("max")
    return np.asarray(farthest > FAR * typical(distance), bool)


class _AdvantageBaseline(Limits):
    fitted = Limit(
        0.98,
        LimitKind.SHARE,
        "of advantages",
        "share given by the reward alone, or by the reward less the mean of its step",
        translatable("rLLM#776, slime#1414: groups were not recognised"),
    )
    groups = Limit(
        20, LimitKind.COUNT, "groups", "least number of groups with a signal"
    )
    offset = Limit(
        0.25,
        LimitKind.SHARE,
        "of their size",
        "mean advantage of complete groups (RMS), if no usual formula gives them",
        translatable("PipelineRL#54: the mean was that of the first response alone"),
    )


@Check(
    name="no baseline of the group",
    rank=Rank.NOTE,
    needs=(REWARD, ADVANTAGES),
    charts=("advantages",),
    limits=_AdvantageBaseline,
    title={
        "none": "Advantages are the rewards themselves, without a baseline, although prompts have "
        "{size} responses each.",
        "step": "Advantages are rewards less the mean of their step, not of the {size} responses "
        "to their prompt.",
        "other": "The advantages of a group do not average 0 (their mean is {offset:percent} of "
        "their usual size): the baseline is not the mean reward of the {size} responses to a "
        "prompt.",
    },
    statement={
        "none": "advantages have no baseline",
        "step": "the baseline is the mean of the step, not of the prompt",
        "other": "the baseline is not the mean of the prompt's rewards",
    },
    why="REINFORCE, REINFORCE++ and ReMax do so. In GRPO it means that responses to one prompt "
    "were not recognised as a group: easy prompts are then reinforced whatever is answered.",
    suggestion="If groups are meant, see that all responses to a prompt get the same group id.",
    needs_also=ONE_EACH,
)
def advantage_baseline(check: Check, run: Run) -> Result:
    """Note that advantages have another baseline than the mean reward of their prompt."""
    if not _is_judged(run):
        return check.not_run(check.needs_also)
    limits = _AdvantageBaseline
    advantages = _advantages(run)
    batch = _batch(run, advantages, np.ones(len(run.responses), bool))
    count = run.limits.test(limits.groups, ">=", int(batch.trained.sum()))
    if not count.met or not estimators.tells_baselines(batch):
        return Result(tested=(count,))
    tested = [count]
    for kind, formula in estimators.without_groups(batch):
        fitted = run.limits.test(limits.fitted, ">=", estimators.fit(batch, formula))
        tested.append(fitted)
        if fitted.met:
            facts: Facts = {"kind": kind, "size": _group_size(run)}
            return check.found(
                run, Severity.INFO, [count, fitted], facts, onset=run.from_start()
            )
    found = estimators.misfit(batch, advantages.complete)
    offset = run.limits.test(limits.offset, ">", found.offset)
    is_usual = found.fitted >= estimators.FITTED
    if not offset.met or is_usual or _have_other_terms(run, advantages):
        return Result(tested=(*tested, offset))
    facts = {"kind": "other", "size": _group_size(run), "offset": found.offset}
    return check.found(
        run, Severity.INFO, [count, offset], facts, onset=run.from_start()
    )
