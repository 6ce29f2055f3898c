"""Checks of the parts of the reward: one that falls under a reward that does not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlreport.check import means, parts, quantities
from rlreport.check.check import ANY_REWARD, Check
from rlreport.check.events import Event
from rlreport.check.evidence import Ranking, nearer
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run, event_onset
from rlreport.check.series import Series
from rlreport.text.messages import translatable


class _PartFalls(Limits):
    lost = Limit(
        0.5,
        LimitKind.SHARE,
        "of its level",
        "level that a part of the reward lost, above its lowest possible or logged value",
        translatable("open-r1#255: format is learned, accuracy falls to 0"),
    )


class _PartFall(NamedTuple):
    """The fall of a part of the reward."""

    part: str
    series: Series
    event: Event
    start: float  # the level before
    end: float  # the last level
    lost: float  # what it lost, as a part of its level above the lowest possible one


@Check(
    name="a part of the reward falls",
    rank=Rank.CONSEQUENCE,
    needs=(ANY_REWARD,),
    charts=("reward_parts", "reward"),
    limits=_PartFalls,
    title="{part:quoted}, a part of the reward, fell from {start:figure} to {end:figure}, while "
    "the whole reward did not fall.",
    statement="{part:quoted} falls to {end:short} while the whole reward does not",
    why="The policy gives up this part for others that pay more or are easier.",
    suggestion="Raise the weight of this part, or pay the others only where it is earned, too.",
    needs_also="parts of the reward, as reward_parts or metrics",
    of_reward=True,
    trend=True,
)
def part_falls(check: Check, run: Run) -> Result:
    """Find that a part of the reward lost most of its level, while the whole reward did not."""
    components = quantities.components(run)
    if not components:
        return check.not_run(check.needs_also)
    total = quantities.reward_course(run)
    if total is None or total.lost:
        return Result()  # the whole reward is judged instead
    paid = parts.paid_parts(quantities.reward_parts(run), quantities.reward(run))
    each = [
        _fall_of(run, name, series)
        for name, series in components.items()
        if name in paid
    ]
    falls = [fall for fall in each if fall is not None]
    if not falls:
        return Result()
    worst = max(falls, key=lambda fall: fall.lost)
    tested = run.limits.test(_PartFalls.lost, ">", worst.lost)
    if not tested.met:
        return Result(tested=(tested,))
    ranking = None
    logged = parts.of_rollouts(run).get(worst.part)
    if logged is not None:
        is_low = nearer(logged, worst.end, worst.start)
        ranking = Ranking(logged, is_low, highest=False)
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {
            "part": worst.part,
            "start": worst.start,
            "end": worst.end,
        },
        ranking,
        series=worst.series,
        onset=event_onset(worst.event),
    )


def _fall_of(run: Run, name: str, series: Series) -> _PartFall | None:
    """Return the fall of a part, None without one or if the mix of environments explains it."""
    curve = series.curve
    fall = curve.fall if curve is not None else None
    if curve is None or fall is None:
        return None
    # A part that is never positive is a penalty under another name.
    lowest = min(0.0, float(curve.values.min()))
    best = curve.highest.value
    if not best > 0:
        return None
    if _is_by_mix(run, name, fall):
        return None
    # Fitted lines may begin above all logged values.
    start = min(fall.before, best)
    end = curve.last.value
    lost = (start - end) / (best - lowest)
    return _PartFall(name, series, fall, start, end, lost)


def _is_by_mix(run: Run, name: str, fall: Event) -> bool:
    """Return whether a part fell as tasks that pay it became rare."""
    logged = parts.of_rollouts(run).get(name)
    if run.environments is None or logged is None:
        return False
    count = len(run.steps)
    places = np.searchsorted(run.steps, (fall.low, fall.onset))
    end, start = places.tolist()
    before = run.window(0, max(end, 1))
    after = run.window(min(start, count - 1), count)
    mix = means.mix(run, before, after, logged)
    return mix is not None and mix.explains_fall
