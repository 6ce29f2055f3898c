"""How fast runs learned: when each reached parts of the better run's gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlreport.check.course import Course, course_of
from rlreport.check.series import Series


class Reached(NamedTuple):
    """Steps at which the first BASE and the first NEW run reached a reward, None for never."""

    reward: float
    base: int | None
    new: int | None


def speed_of(base: Series, new: Series) -> dict[str, Reached]:
    """Return when each run reached "half" and "most" (90%) of the better run's gain.

    ``base`` and ``new`` are mean rewards by step. {} if no run gained, or one has no course.
    """
    base_course = course_of(base, "reward")
    new_course = course_of(new, "reward")
    if base_course is None or new_course is None:
        return {}
    gaining = [course for course in (base_course, new_course) if course.gained]
    if not gaining:
        return {}
    leading = max(gaining, key=lambda course: course.top.value)
    start = leading.first.value
    gain = leading.top.value - start
    reached = {}
    for share_name, share in (("half", 0.5), ("most", 0.9)):
        target = start + share * gain
        base_step = _reached(base_course, target)
        new_step = _reached(new_course, target)
        reached[share_name] = Reached(target, base_step, new_step)
    return reached


def _reached(course: Course, target: float) -> int | None:
    """Return the last step of the first window with a mean of ``target`` or more, or None."""
    count = course.last.count
    windows = np.flatnonzero(course.curve.means(count) >= target)
    if not len(windows):
        return None
    # Window i has the values i to i + count - 1.
    return int(course.steps[windows[0] + count - 1])
