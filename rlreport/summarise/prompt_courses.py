"""What became of each prompt over the steps: improved, regressed, never or always solved.

The rule, for a prompt with responses at K >= 2 steps:

1. *Measure.* ``solved`` (1 or 0) if at least half of the graded responses of the run are known to
   be right or wrong: as logged, or the higher one of two rewards. Otherwise the reward itself.
2. *Never and always solved* are facts: none, or all, of its responses are right, over all its
   steps. They exist for the measure ``solved`` only.
3. *Early and late* are the responses of its first and of its last max(1, ⌊K / 3⌋) steps. All
   responses of a step belong to the same side, as one policy sampled them.
4. *Test* that both sides have the same distribution, two-sided:

   - ``solved``: Fisher's exact test (Fisher 1935). If a of n early and b of m late responses are
     right, and r = a + b, then p = Σ P(i) over all i with P(i) <= P(a), where
     P(i) = C(n, i) C(m, r − i) / C(n + m, r).
   - reward: the rank-sum test (Mann and Whitney 1947) with mean ranks for ties. With at most
     EXACT_RESPONSES responses p is that of all assignments of the ranks to the sides. With more it
     is 2 Φ(−z), z = (|W − n (N + 1) / 2| − 1/2) / σ, where W is the sum of the early ranks,
     N = n + m and σ² = n m / 12 · ((N + 1) − Σ (t³ − t) / (N (N − 1))), the sum being over ties of
     t responses (Lehmann 1975, section 1.4).
5. *Many prompts.* Of all tested prompts, those are significant that the procedure of Benjamini and
   Hochberg (1995) keeps at a false discovery rate of 5%: the k prompts with the smallest p, where k
   is the largest number with p₍ₖ₎ <= 0.05 k / (number of tests). If no prompt changed, any is
   called improved or regressed in at most 5% of runs. Prompts that are never or always solved are
   not tested: their p is 1 whatever the order of their responses.
6. *Improved* and *regressed* are significant prompts whose late responses are the better or the
   worse ones by what is tested: their share or their ranks. Of all others no change is clear, which
   does not mean that there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import significant
from rlreport.figures.significance import two_sided_p
from rlreport.tables import RowRole

Measure = Literal["solved", "reward"]

FALSE_DISCOVERIES = 0.05
# Most responses of both sides for which the rank test enumerates all assignments of the ranks
EXACT_RESPONSES = 20
# With fewer responses on a side than this, chance hides all but large changes: a share that rises
# from 25% to 75%, or rewards that rise by a standard deviation, are found less than four times in
# five at p <= 0.05, even without the allowance for many prompts
FEW_RESPONSES = 18
_EQUAL = 1e-9  # probabilities that differ by less, relatively, count as equal
_KNOWN = 0.5  # least share of graded responses that are known to be right or wrong


class PromptCourse(IntEnum):
    """What became of a prompt; 0 if it was seen at one step only, or has no rewards."""

    NONE = 0
    IMPROVED = 1
    REGRESSED = 2
    NEVER = 3
    ALWAYS = 4
    UNCLEAR = 5


def measure_of(responses: pd.DataFrame) -> Measure:
    """Return what is measured of the responses of a run, see the module."""
    graded = np.isfinite(responses["reward"].to_numpy(np.float64))
    known = np.isfinite(responses["correct"].to_numpy(np.float64))
    return (
        "solved" if known.any() and known.sum() >= _KNOWN * graded.sum() else "reward"
    )


@dataclass(frozen=True, slots=True)
class PromptValues:
    """The measured responses to all prompts, by prompt, then by step; (R,) each."""

    prompt: Ints
    step: Ints
    value: Floats  # finite
    measure: Measure


def prompt_values(responses: pd.DataFrame) -> PromptValues:
    """Return the values of a run's responses, sorted by step; without untrained branches."""
    measure = measure_of(responses)
    name = "correct" if measure == "solved" else "reward"
    prompt = responses["prompt_id"].to_numpy(np.int64)
    value = responses[name].to_numpy(np.float64)
    is_branch = responses["validation"].to_numpy() == RowRole.BRANCH
    rows = np.flatnonzero(np.isfinite(value) & ~is_branch)
    # A stable sort keeps the order of steps.
    rows = rows[np.argsort(prompt[rows], kind="stable")]
    step = responses["step"].to_numpy(np.int64)
    return PromptValues(prompt[rows], step[rows], value[rows], measure)


def prompt_courses(responses: pd.DataFrame) -> pd.DataFrame:
    """Return a row per prompt that has a value: ``prompt_id``, ``early``, ``late`` and ``course``.

    ``early`` and ``late`` are means over the responses of the first and of the last third of its
    steps, NaN if it was seen at one step; ``course`` is a PromptCourse.
    """
    values = prompt_values(responses)
    prompts = Grouped.by(values.prompt)
    sides = _sides(values, prompts)
    return pd.DataFrame(
        {
            "prompt_id": prompts.first(values.prompt),
            "early": prompts.mean(np.where(sides == 0, values.value, np.nan)),
            "late": prompts.mean(np.where(sides == 1, values.value, np.nan)),
            "course": courses_of(values.value, prompts, sides, values.measure),
        }
    )


def courses_of(values: Floats, prompts: Grouped, sides: Ints, measure: Measure) -> Ints:
    """Return what became of each prompt from one side to the other, a PromptCourse each, (P,).

    Args:
        values: the measured value of each response, (R,).
        prompts: the responses by prompt.
        sides: 0 for responses of the early side, 1 for those of the late one, else −1, (R,).
        measure: what is measured, see the module.
    """
    recurs = prompts.sum((sides == 0).astype(np.float64)) > 0
    course = np.where(recurs, int(PromptCourse.UNCLEAR), int(PromptCourse.NONE))
    if measure == "solved":
        right = prompts.mean(values)
        course[recurs & (right == 0)] = PromptCourse.NEVER
        course[recurs & (right == 1)] = PromptCourse.ALWAYS
    tested = np.flatnonzero(course == PromptCourse.UNCLEAR)
    if measure == "solved":
        counts = _counts(values, prompts, sides)[tested]
        p = fisher_p(counts)
        a, n, b, m = counts.T
        rises = b * n > a * m  # b / m > a / n
    else:
        # Rewards that differ by rounding only are equal.
        rewards = significant(values)
        results = [_ranked(rewards, prompts, sides, i) for i in tested.tolist()]
        p = np.array([result.p for result in results])
        rises = np.array([result.rises for result in results], bool)
    is_kept = kept(p, FALSE_DISCOVERIES)
    course[tested[is_kept & rises]] = PromptCourse.IMPROVED
    course[tested[is_kept & ~rises]] = PromptCourse.REGRESSED
    return course


def _sides(values: PromptValues, prompts: Grouped) -> Ints:
    """Return 0 for responses of a prompt's early steps, 1 for those of its late ones, else −1."""
    visits = Grouped.by(values.prompt, values.step)  # of a prompt at a step
    by_prompt = Grouped.by(visits.first(values.prompt))
    number = np.arange(len(visits)) - by_prompt.starts[by_prompt.codes]
    count = by_prompt.counts[by_prompt.codes]
    part = np.maximum(count // 3, 1)
    side = np.full(len(visits), -1)
    side[number < part] = 0
    side[number >= count - part] = 1
    side[count < 2] = -1
    return side[visits.codes]


def _counts(solved: Floats, prompts: Grouped, sides: Ints) -> Ints:
    """Return a of n and b of m for each prompt, (P, 4): ``[a, n, b, m]``."""
    columns = []
    for side in (0, 1):
        is_in = (sides == side).astype(np.float64)
        columns += [prompts.sum(solved * is_in), prompts.sum(is_in)]
    return np.column_stack(columns).astype(np.int64)


def fisher_p(table: Ints) -> Floats:
    """Return the two-sided p of Fisher's exact test for each row ``[a, n, b, m]``, see above."""
    if not len(table):
        return np.empty(0)
    different, index = np.unique(table, axis=0, return_inverse=True)
    p = np.array([_fisher_p(*row) for row in different.tolist()])
    return p[index.ravel()]


def _fisher_p(a: int, n: int, b: int, m: int) -> float:
    """Return the p of one table: a of n responses are right on one side, b of m on the other."""
    from scipy.special import gammaln

    right = a + b
    # How many of the right ones may be on the first side
    least = max(0, right - m)
    i = np.arange(least, min(n, right) + 1, dtype=np.float64)
    # Logarithms of the hypergeometric chances, but for a constant: log x! is gammaln(x + 1)
    logs = -(
        gammaln(i + 1)
        + gammaln(n - i + 1)
        + gammaln(right - i + 1)
        + gammaln(m - right + i + 1)
    )
    chances = np.exp(logs - logs.max())
    observed = chances[a - least]
    as_unlikely = chances <= observed * (1 + _EQUAL)
    return min(1.0, float(chances[as_unlikely].sum() / chances.sum()))


class RankTest(NamedTuple):
    """The two-sided p of the rank-sum test, and whether the late ranks are the higher ones."""

    p: float
    rises: bool


def _ranked(values: Floats, prompts: Grouped, sides: Ints, index: int) -> RankTest:
    start = int(prompts.starts[index])
    end = start + int(prompts.counts[index])
    side = sides[start:end]
    own = values[start:end]
    return rank_test(own[side == 0], own[side == 1])


def rank_test(early: Floats, late: Floats) -> RankTest:
    """Return the rank-sum test of two samples, see the module."""
    pooled = np.concatenate([early, late])
    _, codes, ties = np.unique(pooled, return_inverse=True, return_counts=True)
    n = len(early)
    total = len(pooled)
    ends = np.cumsum(ties)
    doubled_ranks = (2 * ends - ties + 1)[codes]  # twice the mean rank: integers
    # Twice the rank sum of the early ones, from its mean
    distance = int(doubled_ranks[:n].sum()) - n * (total + 1)
    rises = distance < 0
    if total <= EXACT_RESPONSES:
        chances = _chances_of_rank_sums(tuple(ties.tolist()), n)
        from_mean = np.arange(len(chances)) - n * (total + 1)
        far = np.abs(from_mean) >= abs(distance)
        return RankTest(float(chances[far].sum()), rises)
    m = total - n
    sizes = ties.astype(np.float64)
    tied = float((sizes**3 - sizes).sum())
    variance = n * m / 12 * (total + 1 - tied / (total * (total - 1)))
    if variance <= 0:  # all are equal
        return RankTest(1.0, rises)
    z = max(0.0, abs(distance) / 2 - 0.5) / math.sqrt(variance)
    return RankTest(two_sided_p(z), rises)


@lru_cache(maxsize=1024)
def _chances_of_rank_sums(ties: tuple[int, ...], n: int) -> Floats:
    """Return the chance of each sum of twice the ranks of n of the responses, 0 and up.

    ``ties`` are the numbers of equal responses, from the lowest to the highest.
    """
    counts = np.array(ties)
    doubled_ranks = np.repeat(2 * np.cumsum(counts) - counts + 1, counts)
    most = int(doubled_ranks.sum())
    # Number of choices of k of the ranks so far with this sum, (n + 1, most + 1)
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1
    for rank in doubled_ranks.tolist():
        with_rank = ways[:-1, : most + 1 - rank].copy()
        ways[1:, rank:] += with_rank
    return np.asarray(ways[n] / ways[n].sum())


def kept(p: Floats, rate: float) -> NDArray[np.bool_]:
    """Return which tests the procedure of Benjamini and Hochberg (1995) keeps at this rate."""
    order = np.argsort(p, kind="stable")
    numbers = np.arange(1, len(p) + 1)
    limits = rate * numbers / max(1, len(p))
    passing = np.flatnonzero(p[order] <= limits)
    result = np.zeros(len(p), bool)
    if len(passing):
        result[order[: passing[-1] + 1]] = True
    return result


def usual_side(prompts: pd.DataFrame) -> int:
    """Return the median number of responses that the test has on a side, 0 if no prompt recurs."""
    recurring = prompts[prompts["course"] != PromptCourse.NONE]
    if recurring.empty:
        return 0
    compared = np.maximum(recurring["steps"] // 3, 1)
    return int((recurring["responses"] * compared / recurring["steps"]).median())


def counts_of(courses: pd.Series) -> dict[PromptCourse, int]:
    """Return the number of prompts by course; without those that were seen at one step only."""
    counts = courses.value_counts()
    return {
        course: int(counts.get(int(course), 0))
        for course in PromptCourse
        if course is not PromptCourse.NONE
    }
