"""Functions shared by several checks: judge a share, compare figures with limits, distinct-2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import Fact, Finding, Limit, Limits, Op
from rlreport.check.noise import Change, Trend, deviate
from rlreport.check.run import Ranking, Run, met_from_start
from rlreport.check.series import MIN_WINDOW, Series, SeriesSource, noise_of
from rlreport.figures.ragged import Floats, Ints

# A reward with at most this many distinct values comes from a rule or label, not a model
MAX_RULE_VALUES = 8

# ``same_prompt_change`` needs this many prompts that have both early and late responses
MIN_SHARED_PROMPTS = 8

DRAWS = 8  # Distinct-2 is the average of samples from this many random orders of the responses
# Number of bigrams from which distinct-2 is computed: at most (for speed), and least per step
MAX_BIGRAMS, MIN_STEP_BIGRAMS = 20_000, 20

FALLS = ("reward_collapse", "watched_reward_fall")
# Ids of checks whose findings can be effects of a bad update of the policy
FAILURES = (
    *(*FALLS, "kl_explosion", "entropy_collapse"),
    *("length_collapse", "diversity_collapse", "missing_eos", "reward_stalled"),
)


class RiseOrShare(Limits):
    """Thresholds of a check that limits a fraction and its rise since the first window."""

    rise: Limit[float] | None = None
    share: Limit[float]


def judge_share(
    check: Check, run: Run, moved: Change, source: SeriesSource = "rollouts", **details: Any
) -> Finding | None:
    """Return a finding if a share, such as that of failed calls, is too high or rose too much.

    ``moved`` has the share in the first and last window of steps. ``details`` are further
    arguments of ``Check.finding``, including ``series``, the share by step.
    """
    limits = check.limits
    assert issubclass(limits, RiseOrShare)
    rise = run.met(limits.rise, ">=", moved.difference) if limits.rise and moved.rose else []
    met = [*rise, *run.met(limits.share, ">", moved.last)]
    if not met:
        return None
    always = not rise and bool(run.met(limits.share, ">", moved.first))
    if "onset" not in details:
        details["onset"] = run.onset(details["series"], always=always)
    shares = {"share": moved.last, "before": moved.first, "series_from": source}
    return check.finding(run, "warning", met, shares, **details)


def judge_rows(
    check: Check,
    run: Run,
    values: Floats,
    weights: Floats | None = None,
    ranking: Ranking | None = None,
) -> Finding | None:
    """Return a finding if the mean of ``values``, a share, is too high or rose too much.

    ``values``, float64 (rows,), are e.g. 1 for cut-off responses, else 0; NaN does not count.
    ``weights`` are the denominators of the values, such as the number of tool calls.
    """
    moved, series = run.change(values, weights), run.by_step(values, weights)
    ranking = ranking or Ranking(values, among=values > 0)
    return judge_share(check, run, moved, series=series, ranking=ranking)


def share_of(column: str, per: str = "") -> Callable[[Check, Run], Result]:
    """Return a judge function of a check that limits the mean of ``column`` (or column / per)."""

    def judge(check: Check, run: Run) -> Result:
        if not per:
            return judge_rows(check, run, run.column(column))
        part, whole = run.column(column), run.column(per)
        valid = np.isfinite(part) & (whole > 0)
        ratio = np.divide(part, whole, out=np.full(len(part), np.nan), where=valid)
        return judge_rows(check, run, ratio, whole)

    return judge


def series_change(series: Series, first: int | None) -> Change:
    """Return the change of a trainer's series from its first window to its last.

    ``first`` is the number of steps in the first window; None means as many as in the last.
    """
    values = series.values
    size = max(MIN_WINDOW, int(len(values) * Trend.share.default))
    start = min(first or size, len(values))
    noise = noise_of(series)
    error = float(np.hypot(noise.of_mean(start), noise.of_mean(size)))
    before, after = float(values[:start].mean()), float(values[-size:].mean())
    return Change(before, after, deviate(after - before, error, max(len(values) / 2, 1)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number to compare with a limit: by step (``series``, float64 (S,)) and at the end.

    The limit is exceeded if ``end op limit`` is true; ``end`` is the value of the last window.
    """

    limit: Limit[float]
    op: Op
    series: Floats
    end: float


def judge_figures(
    check: Check, run: Run, figures: Sequence[Figure], ranking: Ranking, **facts: Fact
) -> Result:
    """Return a finding if any number exceeds its limit; it is dated by the first one that does."""
    exceeded = [(f.series, met) for f in figures for met in run.met(f.limit, f.op, f.end)]
    if not exceeded:
        return None
    series, first = exceeded[0]
    onset = run.onset(series, always=met_from_start(series, first))
    met = [met for _, met in exceeded]
    return check.finding(run, "warning", met, facts, ranking, series=series, onset=onset)


def same_prompt_change(
    run: Run, values: Floats, late: NDArray[np.bool_], early: NDArray[np.bool_] | None = None
) -> float | None:
    """Return the mean change of ``values`` from early to late responses to the same prompts.

    ``late`` and ``early`` are bool (rows,); by default, responses that are not late are early.
    Return None if fewer than MIN_SHARED_PROMPTS prompts have both kinds of responses.
    """
    by_prompt = [
        pd.Series(values[side]).groupby(run.responses["prompt_id"].to_numpy()[side]).mean()
        for side in (
            np.isfinite(values) & part for part in (late, ~late if early is None else early)
        )
    ]
    changes = (by_prompt[0] - by_prompt[1]).dropna()
    return float(changes.mean()) if len(changes) >= MIN_SHARED_PROMPTS else None


def is_verifiable(run: Run) -> bool:
    """Return whether a label or a rule seems to compute the reward, rather than a model."""
    values = np.unique(run.column("reward")[np.isfinite(run.column("reward"))])
    return label_contained(run) is not None or len(values) <= MAX_RULE_VALUES


def label_contained(run: Run) -> float | None:
    """Return the share of the best late responses that contain their label; None without labels."""
    words = run.tables.words
    if words is None or words.labels is None or 2 * (words.labels >= 0).sum() < len(words.rows):
        return None
    late = (words.rows >= run.last.rows.start) & (words.labels >= 0)
    reward = run.column("reward")[words.rows]
    best = late & (reward >= np.nanmax(reward[late], initial=-np.inf) - 1e-9)
    return float((words.labels[best] == 1).mean()) if best.any() else None


@dataclass(frozen=True, slots=True)
class DistinctFall:
    """Distinct-2 (fraction of distinct bigrams) of first and last steps, and the z of its fall.

    Larger samples repeat more bigrams, so ``first`` and ``last`` are computed from the same
    number of ``bigrams``. ``series``, float64 (S,), is the distinct-2 of each step, also from
    equal numbers of bigrams; NaN for steps with too few.
    """

    first: float
    last: float
    bigrams: int
    z: float
    series: Floats

    @property
    def share(self) -> float:
        """Relative fall of distinct-2: 1 - last / first."""
        return 1 - self.last / self.first


def distinct_fall(run: Run, least: int) -> DistinctFall | None:
    """Compare distinct-2 in the first and last window; None if either has < ``least`` bigrams.

    The z is computed from the variance between steps. Identical answers to a prompt within a
    step count once.
    """
    sample = run.tables.ngrams
    if run.first is None or sample is None:
        return None
    rows, units = np.asarray(sample.rows), np.asarray(sample.units, np.int64)
    keys = units[:-1] * len(sample.vocabulary) + units[1:]
    answers = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    steps: list[list[Ints]] = [[] for _ in run.steps]
    for i in np.flatnonzero(~answers.duplicated().to_numpy()).tolist():
        start, stop = sample.offsets[i], sample.offsets[i + 1]
        steps[run.step_index[rows[i]]].append(keys[start : max(stop - 1, start)])
    size_first, size_last = len(run.first.steps), len(run.last.steps)
    windows = [[*chain(*part)] for part in (steps[:size_first], steps[-size_last:])]
    size = min(MAX_BIGRAMS, *(sum(map(len, part)) for part in windows))
    if size < least:
        return None
    sizes = np.array([sum(map(len, part)) for part in steps])
    ends = [*range(size_first), *range(len(steps) - size_last, len(steps))]
    # The variance is that of steps cut to the size of the smallest step in both windows. The
    # series for the onset may use more bigrams, and is NaN at steps with fewer.
    end_size = max(int(sizes[ends].min()), MIN_STEP_BIGRAMS)
    step_size = max(int(np.median(sizes)) // 2, MIN_STEP_BIGRAMS)
    scatter = np.array([_distinct_2(steps[index], end_size) for index in ends])
    first, last = scatter[:size_first], scatter[size_first:]
    error = float(np.sqrt(first.var(ddof=1) / size_first + last.var(ddof=1) / size_last))
    z = deviate(float(first.mean() - last.mean()), error, len(ends) - 2)
    series = np.array([_distinct_2(part, step_size) for part in steps])
    before, after = (_distinct_2(part, size) for part in windows)
    return DistinctFall(before, after, size, z, series)


def _distinct_2(responses: list[Ints], size: int) -> float:
    """Return the fraction of distinct bigrams in ``size`` random ones, NaN if there are fewer."""
    size = min(size, MAX_BIGRAMS)
    if sum(map(len, responses)) < size:
        return np.nan
    orders = [np.random.default_rng(draw).permutation(len(responses)) for draw in range(DRAWS)]
    draws = [np.concatenate([responses[i] for i in order])[:size] for order in orders]
    # np.unique takes twice the time of a sort.
    distinct = sum(1 + np.count_nonzero(np.diff(np.sort(draw))) for draw in draws)
    return distinct / (DRAWS * size)
