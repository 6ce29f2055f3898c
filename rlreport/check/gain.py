"""The gain by parts: which parts of the reward made it rise, and which did not rise with it.

A reward is the weighted sum of its parts. Where weights are not logged, they are fitted: to
responses if these have the reward and all parts, else to the changes of the means from step to
step. A part's share of the gain is its weight times its rise, over the rise of the reward.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check import parts, quantities
from rlreport.check.course import Course, course_of
from rlreport.check.curve import Curve, Level
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run, once_per_run
from rlreport.check.series import Series
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import rounded

# Parts explain a reward if no more than this part of its variance remains
UNEXPLAINED = 0.1
# They explain its rise if their shares add up to 1 within this
REST = 0.1
# Fewest responses to which weights are fitted
LEAST_ROWS = 30
# Fewest steps to which weights are fitted, beyond one for each part
LEAST_FREEDOM = 5

# Right answers surely rose by less than this part of their scale, this many standard errors above
# their logged rise; a rise that could be as large is not known
RISE_PART = 1 / 3
BOUND_Z = 2.0
# Where most answers are right, other parts are what is left to learn
MOSTLY_RIGHT = 0.5
# A part is named if it is this part of the gain
NAMED = 0.1


class UnearnedGain(Limits):
    """Thresholds of ``unearned_gain``."""

    # The rest is what weights and levels may err by.
    others = Limit(
        0.9,
        LimitKind.SHARE,
        "of the gain",
        "part of the reward's gain due to other parts than right answers",
    )


VALIDATION = ""  # in the place of a part's name, which is never empty


@dataclass(frozen=True, slots=True)
class GainPart:
    """A part of the reward, or validation, over the steps in which the reward rose."""

    name: str  # VALIDATION if it is no part
    share: float  # of the rise of the reward; NaN for validation
    first: float
    last: float
    fell: bool = False
    rose: bool = False  # whether it probably rose, if only by a little


@dataclass(frozen=True, slots=True)
class Gain:
    """The rise of the reward, split by its parts."""

    first: float
    last: float
    # the parts that made up a tenth of the rise or more, the largest first
    rose: tuple[GainPart, ...]
    # what tells which answers are right, and did not rise
    still: tuple[GainPart, ...]
    # whether the gain is that of other parts alone, while ``still`` surely did not rise much
    is_unearned: bool
    # whether it is, while nothing shows that ``still`` rose
    is_open: bool
    # share of the parts that pay for something else than right answers
    of_others: float
    is_format: bool  # whether most of what rose is the format of answers


# Parts that pay for something beside the task, by their names
_BESIDE = re.compile(r"length|concis|brevity|repetiti|bonus")


@once_per_run
def gain_by_parts(run: Run) -> Gain | None:
    """Return the gain of the reward by its parts; None without a gain that parts explain.

    There have to be two parts, and a reward that is a weighted sum of them.
    """
    course = quantities.reward_course(run)
    if course is None or not course.rose:
        return None
    logged = quantities.reward_parts(run)
    for series in choices_of_parts(logged, quantities.reward(run)):
        weights = _weights(run, series)
        shares = weights and _shares(series, weights, course)
        if shares:
            return _gain(run, course, shares)
    return None


def choices_of_parts(
    logged: Mapping[str, Series], total: Series
) -> list[dict[str, Series]]:
    """Return the sets of parts that may add up to the reward, the likeliest first.

    A part like the whole reward is a copy of it, such as "score", which is left out. Or it is the
    only part that varies, and so makes the reward what it is: then it has another name.
    """
    like_total = {name for name, part in logged.items() if parts.is_copy(part, total)}
    copies_by_name = {name for name in like_total if parts.named_whole(name)}
    choices = []
    for left_out in (like_total, copies_by_name):
        choice = {name: part for name, part in logged.items() if name not in left_out}
        if len(choice) > 1 and choice not in choices:
            choices.append(choice)
    return choices


def _weights(run: Run, series: dict[str, Series]) -> dict[str, float] | None:
    """Return the weight of each part in the reward, None if it is no weighted sum of them."""
    names = list(series)
    logged = parts.of_rollouts(run)
    total = quantities.reward(run)
    of_responses = total.source == "rollouts" and all(
        series[name].source == "rollouts" and name in logged for name in names
    )
    if of_responses:
        columns = {name: logged[name] for name in names}
        table = pd.DataFrame({**columns, parts.TOTAL: run.column("reward")})
        least = LEAST_ROWS
    else:
        table = by_step({**series, parts.TOTAL: total})
        least = len(names) + LEAST_FREEDOM
    table = table.replace([np.inf, -np.inf], np.nan).dropna()
    if len(table) < least:
        return None
    y = table.pop(parts.TOTAL).to_numpy(np.float64)
    x = table.to_numpy(np.float64)
    fitted = fit_weights(x, y, changes=not of_responses)
    return None if fitted is None else dict(zip(names, fitted.tolist(), strict=True))


def fit_weights(x: Floats, y: Floats, *, changes: bool) -> Floats | None:
    """Return the weights of columns that add up to y but for a constant; None if they do not.

    Args:
        x: float64 (n, parts).
        y: float64 (n,).
        changes: whether rows are steps in order, whose trends are no evidence of a weight.
    """
    y = y - y.mean()
    x = x - x.mean(axis=0)
    of_y = float(y @ y)
    if not 0 < of_y < math.inf or not np.isfinite(x).all():  # huge numbers overflow
        return None
    # A plain sum needs no fit, which parts that are alike would leave open.
    rest = y - x.sum(axis=1)
    if float(rest @ rest) <= parts.COPY * of_y:
        return np.ones(x.shape[1])
    of_x = np.diff(x, axis=0) if changes else x
    of_sum = np.diff(y) if changes else y
    weights = np.linalg.pinv(of_x) @ of_sum
    rest = of_sum - of_x @ weights
    explains = float(rest @ rest) <= UNEXPLAINED * float(of_sum @ of_sum)
    return weights if explains else None


def by_step(series: dict[str, Series]) -> pd.DataFrame:
    """Return a table of the series' values by step, NaN where one has none."""
    columns = {
        name: pd.Series(part.values, part.steps) for name, part in series.items()
    }
    return pd.DataFrame(columns)


def _shares(
    series: dict[str, Series], weights: dict[str, float], course: Course
) -> list[GainPart]:
    """Return the share of each part in the rise of the reward, [] if they do not add up to it."""
    end = _end(course)
    levels = {name: _levels(part, course) for name, part in series.items()}
    rise = end.value - course.first.value
    found = []
    for name, (first, last) in levels.items():
        share = rounded(weights[name] * (last - first) / rise)
        found.append(GainPart(name, share, first, last))
    explained = sum(part.share for part in found)
    return found if abs(explained - 1) <= REST else []


def _end(course: Course) -> Level:
    """Return the level to which the reward rose: its last one, unless it fell again."""
    return course.last if course.curve.rose else course.top


def _levels(series: Series, course: Course) -> tuple[float, float]:
    """Return the means of a series in the steps of the reward's two levels, NaN without values."""
    curve = series.curve
    if curve is None:
        return math.nan, math.nan
    return curve.mean_in(course.first.steps), curve.mean_in(_end(course).steps)


def _gain(run: Run, course: Course, shares: Sequence[GainPart]) -> Gain:
    """Return the gain with these shares: what rose, and which scores of right answers did not."""
    by_share = sorted(shares, key=lambda part: -part.share)
    rose = tuple(part for part in by_share if part.share >= NAMED)
    right = _right_scores(run)
    others = [part for part in by_share if _is_other(run, part)]
    # What rose for a while is not called still.
    still = [one for one in right if not _has_risen(one)]
    is_certain = bool(right) and all(_surely_still(one) for one in right)
    if not right:
        right = _rest_of_task(run)
        others = [part for part in others if _is_beside_task(part.name)]
    of_others = sum(part.share for part in others)
    of_format = sum(part.share for part in others if parts.is_format(part.name))
    is_most = of_others >= run.limits[UnearnedGain].others
    has_task = [one for one in right if _has_risen(one) or _is_high(one)]
    is_open = bool(right) and not has_task
    if is_open:
        still = right
    return Gain(
        first=course.first.value,
        last=_end(course).value,
        rose=rose,
        still=tuple(_told_score(one, shares) for one in still),
        is_unearned=is_certain and is_most,
        is_open=is_open and is_most,
        of_others=of_others,
        is_format=of_format >= of_others / 2,
    )


def _told_score(score: _Right, shares: Sequence[GainPart]) -> GainPart:
    """Return a score that did not rise as the text tells it."""
    curve = score.course.curve
    own = [part.share for part in shares if part.name == score.name]
    return GainPart(
        score.name,
        own[0] if own else math.nan,
        curve.first.value,
        curve.last.value,
        fell=curve.fell,
        rose=score.course.probable > 0,
    )


def _is_beside_task(name: str) -> bool:
    """Return whether a part of this name pays for the form of an answer, or its length."""
    return parts.is_format(name) or bool(_BESIDE.search(name.lower()))


def _is_other(run: Run, part: GainPart) -> bool:
    """Return whether a part pays for something else than right answers.

    A part that is never positive is a penalty: what is left of it at the end earns nothing.
    """
    if parts.tells_right(part.name) or part.share <= 0:
        return False
    values = quantities.reward_parts(run)[part.name].values
    return bool(np.nanmax(values) > 0)


@dataclass(frozen=True, slots=True)
class _Right:
    """A score that tells how many answers are right."""

    name: str  # VALIDATION, or that of a part
    course: Course
    scale: float  # the value of a right answer, as far as the log shows


def _right_scores(run: Run) -> list[_Right]:
    """Return validation, if there are evaluations enough, and the parts that tell what is right."""
    series = {
        name: part
        for name, part in quantities.components(run).items()
        if parts.tells_right(name)
    }
    watched = quantities.watched_course(run)
    watched_series = quantities.validation(run) or quantities.second_reward(run)
    if watched is not None and watched_series is not None:
        series[VALIDATION] = watched_series
    found = []
    for name, one in series.items():
        course = course_of(one, name)
        if course is not None and course.curve.changed is not None:
            found.append(_Right(name, course, _scale(run, name, course)))
    return found


def _rest_of_task(run: Run) -> list[_Right]:
    """Return the parts that by their names pay for neither form nor length: those of the task."""
    found = []
    for name, part in quantities.components(run).items():
        course = course_of(part, name)
        is_of_task = not _is_beside_task(name) and not parts.named_whole(name)
        if course is not None and course.curve.changed is not None and is_of_task:
            found.append(_Right(name, course, _scale(run, name, course)))
    return found


def _scale(run: Run, name: str, course: Course) -> float:
    """Return the largest logged value of a score, at least 1."""
    logged = parts.of_rollouts(run).get(name, course.values)
    largest = float(np.nanmax(logged))
    return max(1.0, largest, float(course.values.max()))


def _has_risen(one: _Right) -> bool:
    """Return whether a score surely rose, if only for a while."""
    curve = one.course.curve
    return one.course.rose or curve.climb is not None or curve.hump is not None


def _is_high(one: _Right) -> bool:
    return one.course.curve.last.value >= MOSTLY_RIGHT * one.scale


def _surely_still(one: _Right) -> bool:
    """Return whether a score is low, did not surely rise, and cannot have risen by much."""
    if _has_risen(one) or _is_high(one):
        return False
    curve = one.course.curve
    error = math.hypot(curve.first.se, curve.last.se)
    by_levels = curve.last.value - curve.first.value + BOUND_Z * error
    return min(by_levels, _most_by_line(curve)) < RISE_PART * one.scale


def _most_by_line(curve: Curve) -> float:
    """Return the upper bound of the rise of a line through all values, which are more than levels.

    Infinity for fewer than four values, whose scatter is not known.
    """
    count = len(curve)
    if count < 4:
        return math.inf
    places = np.linspace(-0.5, 0.5, count)
    squares = float(places @ places)
    rise = float(places @ curve.values) / squares
    rest = curve.values - curve.values.mean() - rise * places
    scatter = math.sqrt(float(rest @ rest) / (count - 2))
    return rise + BOUND_Z * scatter / math.sqrt(squares)
