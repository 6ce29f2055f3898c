"""The steps before and after a fall of the reward, and whether the mix of tasks changed there."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rlreport.check import means, quantities
from rlreport.check.means import MixChange
from rlreport.check.run import Run, once_per_run
from rlreport.check.windows import Change, Window
from rlreport.figures.ragged import Floats

# Kind of a fall at which the mix of environments changed, so that both may be the reason
MIX = "mix"
# One reason is far likelier than another from this logarithm of their likelihood ratio on (20)
DECISIVE = 3.0
# The prompts of a fall are compared over this part of the steps, and at least so many, before it
# and after it
SIDE_SHARE = 0.2
LEAST_SIDE = 6
# The texts changed if responses to the same prompts become longer or shorter by this factor, or if
# this share less of them finishes: then harder prompts are not the only reason for a fall
OTHER_LENGTH = 2.0
OTHER_ENDINGS = 0.2


@once_per_run
def mix_of_fall(run: Run) -> MixChange | None:
    """Return the change of the mix of environments if it explains a fall of the reward, or None."""
    mix = mix_at_fall(run)
    return mix if mix is not None and mix.explains_fall else None


@once_per_run
def mix_at_fall(run: Run) -> MixChange | None:
    """Return how the mix of environments changed at a fall of the reward, None if it did not.

    It is no reason for a fall in which the lengths or endings of texts changed as well.
    """
    sides = sides_of_fall(run)
    if run.environments is None or sides is None:
        return None
    before = run.window_of(sides.before)
    after = run.window_of(sides.after)
    mix = means.mix(run, before, after)
    # The logged rollouts have to show half of a fall of the trainer's metric.
    if mix is None or mix.mix >= 0 or mix.total >= -sides.size / 2:
        return None
    length, finished = [
        means.mix(run, before, after, values) for values in text_figures(run)
    ]
    changed = are_other_texts(
        length and length.same_mix, finished and finished.same_mix
    )
    return None if changed else mix


def fall_windows(run: Run) -> tuple[Window, Window] | None:
    """Return the windows of steps before and after the fall of the reward, None without one."""
    sides = sides_of_fall(run)
    if sides is None:
        return None
    return run.window_of(sides.before), run.window_of(sides.after)


class Sides(NamedTuple):
    """The steps before and after a fall (or in a dip), and its size."""

    before: tuple[int, int]
    after: tuple[int, int]
    size: float


def sides_of_fall(run: Run) -> Sides | None:
    """Return the steps before and after the fall, or the dip, of the reward; None without one."""
    course = quantities.reward_course(run)
    if course is None:
        return None
    fall = course.fall
    event = fall or course.curve.valley
    if event is None:
        return None
    steps = course.steps
    count = max(LEAST_SIDE, int(SIDE_SHARE * len(steps)))
    first = int(np.searchsorted(steps, event.onset))
    stop = int(np.searchsorted(steps, event.until, side="right"))
    # It may have begun at ``low``; what falls from the start has no more than its first steps.
    start = int(np.searchsorted(steps, event.low))
    start = max(min(max(start, LEAST_SIDE), first), 1)
    earliest = max(start - count, 0)
    before = (int(steps[earliest]), int(steps[start - 1]))
    if fall is not None:
        # The last steps of a fall that goes on; all of a dip
        first = max(first, stop - count)
    after = (int(steps[first]), int(steps[stop - 1]))
    return Sides(before, after, event.before - event.level)


def text_figures(run: Run) -> tuple[Floats, Floats]:
    """Return the logarithm of each response's length, and whether it finished (NaN if unknown)."""
    length = np.log(np.maximum(run.column(run.length), 1.0))
    if not run.has("finished"):
        return length, np.full(len(length), np.nan)
    return length, run.column("finished")


def are_other_texts(length: Change | None, finished: Change | None) -> bool:
    """Return whether texts surely changed, by their log length and the share that finished."""
    if length is not None and abs(length.difference) >= math.log(OTHER_LENGTH):
        return length.rose or length.fell
    if finished is None or not finished.fell:
        return False
    return -finished.difference >= OTHER_ENDINGS
