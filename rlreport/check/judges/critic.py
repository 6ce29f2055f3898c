"""Check of a PPO critic: whether its values follow the returns."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from rlreport.check import quantities
from rlreport.check.check import FAILURES, Check, Need, severity_of
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.laws import Figure, figures_by_block, found_in_blocks
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run
from rlreport.check.settings import SettingKind, higher, lower
from rlreport.check.windows import TINY, Window
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats
from rlreport.text.messages import translatable

CRITIC = translatable("RLLoggingBoard post (critic variance); PPO practice")
VERL_1224 = translatable(
    "verl#1224: explained variance of −40 while the reward collapsed"
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
    worst = Limit(
        -1.0,
        LimitKind.VALUE,
        "",
        "explained variance of a block of steps, or in the trainer's metric (warning)",
        VERL_1224,
    )
    blocks = Limit(
        1 / 3,
        LimitKind.SHARE,
        "of blocks",
        "least share of blocks of steps below that",
        VERL_1224,
    )
    floor = Limit(
        0.01,
        LimitKind.SHARE,
        "of the run's",
        "least variance of returns that the critic can fit",
    )


# A critic that is worse than a constant in fewer steps may still learn
LEAST_OF_CRITIC = 30

# Kinds of returns, and the errors of values against them
_RETURNS = (("return", "value_error"), ("mc_return", "mc_error"))


@Check(
    name="critic divergence",
    rank=Rank.CAUSE,
    needs=(
        Need(
            "values and token_rewards",
            ("value_error_m2", "return_m2"),
            ("explained_variance",),
        ),
    ),
    charts=("explained_variance", "value"),
    limits=_ValueDivergence,
    title={
        "weak": "The critic is weak: explained variance {explained:figure}.",
        "diverged": "The critic does not follow the returns: explained variance "
        "{explained:figure}, std of values {spread:figure} × that of the returns.",
        "blocks": "The critic does not follow the returns: explained variance is below "
        "{worst:figure} in {share:percent} of the run, {explained:figure} at its worst.",
        "metric": "The critic does not follow the returns: the trainer's explained variance fell "
        "from {before:figure} to {explained:figure}.",
        "never": "The critic never follows the returns: the trainer's explained variance is "
        "{explained:figure}, and does not rise.",
    },
    statement="the critic does not follow the returns (explained variance {explained:short})",
    why="Advantages are returns less values: a critic worse than a constant only adds noise.",
    suggestion="Warm the critic up, lower its learning rate, clip values or normalise returns.",
    advice=lower(SettingKind.CRITIC) + higher(SettingKind.CRITIC_WARMUP),
    otherwise="Clip values or normalise returns.",
    explains=FAILURES,
)
def value_divergence(check: Check, run: Run) -> Result:
    """Find that the critic's values do not follow either kind of returns."""
    # λ-returns are computed from the values and diverge with them; Monte Carlo returns do not.
    kinds = [kind for kind in _RETURNS if run.has(f"{kind[1]}_m2")]
    results: list[Result] = []
    if run.first is not None:
        results += [_judge_fit(check, run, *kind) for kind in kinds]
    results += [_judge_blocks(check, run, *kind) for kind in kinds]
    results.append(_judge_metric(check, run))
    tested = tuple(chain.from_iterable(result.tested for result in results))
    findings = [result.finding for result in results if result.finding is not None]
    if not findings:
        return check.too_short(run) if run.first is None else Result(tested=tested)
    most_serious = min(findings, key=lambda finding: finding.severity.order)
    return Result(most_serious, tested)


def _judge_metric(check: Check, run: Run) -> Result:
    """Judge the trainer's explained variance: it fell below a constant's, or never rose to it."""
    series = quantities.series_of(run, "explained_variance")
    if series is None or series.curve is None:
        return Result()
    worst = LimitedFigure(_ValueDivergence.worst, "<", series)
    excursion = worst.excursion(run)
    tested = run.limits.test(worst.limit, "<", worst.level(excursion))
    if excursion is None:
        return Result(tested=(tested,))
    if excursion.from_start:
        # A critic that starts badly learns.
        is_over = not excursion.lasts or series.curve.rose
        if is_over or len(series.steps) < LEAST_OF_CRITIC:
            return Result(tested=(tested,))
        facts: Facts = {"kind": "never", "explained": excursion.level}
        return check.found(
            run,
            Severity.INFO,
            [tested],
            facts,
            series=series,
            onset=run.from_start(),
        )
    if excursion.before is None or excursion.before < 0:
        return Result(tested=(tested,))
    return check.found(
        run,
        severity_of(excursion),
        [tested],
        {
            "kind": "metric",
            "explained": excursion.level,
            "before": excursion.before,
        },
        series=series,
        onset=run.onset_beyond(series, tested.bound, "<"),
        until=None if excursion.lasts else excursion.steps[1],
    )


def _judge_blocks(check: Check, run: Run, returns: str, error: str) -> Result:
    """Judge how well values follow one kind of returns in blocks of steps; see ``_RETURNS``."""
    limits = _ValueDivergence
    least = _least_variance(run, returns)
    if not least > 0:
        return Result()

    def explained(window: Window) -> Figure:
        of_returns = max(_variance_in(run, returns, window), least)
        share = 1 - _variance_in(run, error, window) / of_returns
        return Figure(share, run.limits.test(limits.worst, "<", share).met)

    has_error = np.isfinite(run.column(f"{error}_m2"))
    blocks = figures_by_block(run, explained, among=has_error)
    if not blocks.is_observed:
        return Result()
    of_blocks = [
        _variance_in(run, returns, window)
        for window, is_violated in zip(blocks.windows, blocks.violated, strict=True)
        if is_violated
    ]
    least_there = max(min(of_blocks, default=0.0), least)
    share = float(blocks.violated.mean())
    lowest = float(np.nanmin(blocks.values))
    tested = (
        run.limits.test(limits.worst, "<", lowest),
        run.limits.test(limits.blocks, ">=", share),
    )
    if not all(one.met for one in tested):
        return Result(tested=tested)
    return found_in_blocks(
        check,
        blocks,
        tested,
        {
            "kind": "blocks",
            "explained": lowest,
            "share": share,
            "worst": run.limits.value(limits.worst),
        },
        _far_from(run, error, (1 - run.limits.value(limits.worst)) * least_there),
    )


def _least_variance(run: Run, returns: str) -> float:
    """Return the least variance of returns that a critic can be asked to fit.

    In some steps returns may hardly vary: their variance is taken for a small part of that of the
    whole run at least.
    """
    floor = run.limits[_ValueDivergence].floor
    everything = run.window(0, len(run.steps))
    return floor * _variance_in(run, returns, everything)


def _variance_in(run: Run, name: str, window: Window) -> float:
    """Return the variance of a token figure over the responses of a window of steps."""
    columns = ("value_tokens", f"{name}_mean", f"{name}_m2")
    of_window = [run.column(column)[window.rows] for column in columns]
    one_group = Grouped(np.zeros(1, np.int64), len(of_window[0]))
    return float(one_group.pooled_variance(*of_window)[0])


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


def _far_from(run: Run, name: str, least: float) -> Ranking:
    """Return how to choose responses whose values, or their errors, are farther from the mean.

    Args:
        run: the run.
        name: the figure that is too large, such as "value_error".
        least: a response counts if the mean square of its tokens' deviations is larger.
    """
    tokens = run.column("value_tokens")
    mean_of_row = run.column(f"{name}_mean")
    known = np.isfinite(mean_of_row) & (tokens > 0)
    of_run = np.average(mean_of_row[known], weights=tokens[known])
    within = run.column(f"{name}_m2") / np.fmax(tokens, 1.0)
    square = within + (mean_of_row - of_run) ** 2
    return Ranking(np.sqrt(square), beyond(square, ">", least))


class _Fit(NamedTuple):
    """How well the critic's values follow the returns in the last window."""

    explained: float  # explained variance: 1 is perfect, a constant has 0
    spread: float  # std of the values over that of the returns
    scale: float  # variance of the returns
    min_variance: float  # least variance of returns that a critic can be asked to fit


def _fit_at_the_end(run: Run, returns: str, error: str) -> _Fit | None:
    """Return the fit of values to one kind of returns, None if these do not vary.

    Args:
        run: the run.
        returns: the figure of the returns, such as "return".
        error: the figure of these returns minus the values, such as "value_error".
    """
    min_variance = _least_variance(run, returns)
    scale = max(_variance_in(run, returns, run.last), min_variance)
    if not scale > 0:
        return None
    return _Fit(
        explained=1 - _variance_in(run, error, run.last) / scale,
        spread=float(np.sqrt(_variance_in(run, "value", run.last) / scale)),
        scale=scale,
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
    least = max(fit.min_variance, TINY)  # the returns of a whole run may be equal, too
    of_returns = np.fmax(_pooled_variance(run, returns, steps), least)
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
        _far_from(run, too_large, bound * fit.scale),
        onset=run.onset_beyond(ratio_by_step, bound),
    )
