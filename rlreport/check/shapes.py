"""Judgements that several checks share: a share that rose or is high, figures beyond limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import Fact, Finding, Op
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import Change, deviate, means_by
from rlreport.check.run import Ranking, Run, met_from_start
from rlreport.check.series import MIN_WINDOW, Series, noise_of
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats

FALLS = ("reward_collapse", "watched_reward_fall")
FAILURES = (
    *(*FALLS, "kl_explosion", "entropy_collapse"),
    *("length_collapse", "diversity_collapse", "missing_eos", "reward_stalled"),
)
"""Checks whose findings a bad update of the policy can explain."""


class RiseOrShare(Limits):
    """Thresholds of a check that limits a share and its rise since the first window."""

    rise: Limit[float] | None = None
    share: Limit[float]


def judge_share(
    check: Check, run: Run, limits: type[RiseOrShare], moved: Change, **details: Any
) -> Finding | None:
    """Return a finding if a share rose too much since the first window, or is too high.

    ``details`` are arguments of ``Check.finding``.
    """
    rise = run.met(limits.rise, ">=", moved.difference) if limits.rise and moved.rose else []
    met = [*rise, *run.met(limits.share, ">", moved.last)]
    if not met:
        return None
    always = not rise and bool(run.met(limits.share, ">", moved.first))
    return check.finding(
        run, "warning", met, always=always, share=moved.last, before=moved.first, **details
    )


def judge_rows(
    check: Check,
    run: Run,
    limits: type[RiseOrShare],
    values: Floats,
    weights: Floats | None = None,
    ranking: Ranking | None = None,
) -> Finding | None:
    """Judge a share by its value in each response, float64 (rows,), NaN where it has none.

    ``weights`` are the denominators of these values, such as the number of calls.
    """
    return judge_share(
        check,
        run,
        limits,
        run.change(values, weights),
        series=run.by_step(values, weights),
        ranking=ranking or Ranking(values, among=values > 0),
        series_from="rollouts",
    )


def series_change(series: Series, first: int | None) -> Change:
    """Return the change of a trainer's series from its ``first`` steps, or window, to its last."""
    values = series.values
    size = max(MIN_WINDOW, int(len(values) * Trend.share.default))
    start = min(first or size, len(values))
    noise = noise_of(series)
    error = float(np.hypot(noise.of_mean(start), noise.of_mean(size)))
    before, after = float(values[:start].mean()), float(values[-size:].mean())
    return Change(before, after, deviate(after - before, error, max(len(values) / 2, 1)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that must stay within a limit: by step, float64 (S,), and in the last window."""

    limit: Limit[float]
    op: Op
    series: Floats
    end: float


def judge_figures(
    check: Check, run: Run, figures: Sequence[Figure], ranking: Ranking, **facts: Fact
) -> Result:
    """Return a finding if any figure is beyond its limit; the first such figure dates it."""
    exceeded = [(f.series, met) for f in figures for met in run.met(f.limit, f.op, f.end)]
    if not exceeded:
        return None
    series, first = exceeded[0]
    met, always = [met for _, met in exceeded], met_from_start(series, first)
    return check.finding(
        run, "warning", met, series=series, always=always, ranking=ranking, more=facts
    )


def ratio_of(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, float64 (rows,), NaN where either is missing or the whole is 0."""
    valid = np.isfinite(part) & (whole > 0)
    ratio: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=valid)
    return ratio


MIN_SHARED_PROMPTS = 8
"""Fewest prompts on both sides for which ``same_prompt_change`` is computed."""


def same_prompt_change(
    run: Run, values: Floats, late: NDArray[np.bool_], early: NDArray[np.bool_] | None = None
) -> float | None:
    """Return the mean change of a figure, for the same prompts, from early to late responses.

    ``late`` and ``early`` are bool (rows,); early are all others by default. None with fewer
    than MIN_SHARED_PROMPTS prompts on both sides.
    """
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    finite = np.isfinite(values)
    sides = (finite & late, finite & (~late if early is None else early))
    if len(np.intersect1d(prompts[sides[0]], prompts[sides[1]])) < MIN_SHARED_PROMPTS:
        return None
    _, code = np.unique(prompts, return_inverse=True)
    after, before = (means_by(code[side], int(code.max()) + 1, values[side]) for side in sides)
    return float(np.nanmean(after - before))
