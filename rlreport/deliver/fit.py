"""Holds a delivery within its size: bakes, weighs, and plans anew until it fits and fills it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from rlreport.bake.report import ReportBuilder
from rlreport.choose import Plan
from rlreport.deliver.form import Form
from rlreport.deliver.ownership import MANIFEST, PICTURES_MANIFEST, write_manifest
from rlreport.deliver.place import pictures_of, size_of, staged
from rlreport.errors import OutputError
from rlreport.text.numbers import byte_size

ATTEMPTS = 6
AIM = 0.96
"""Share of the limit that a plan aims at; what it weighs is known only when it is baked."""
FULL = 0.85
"""Share of the limit from which a report counts as filling it."""


def deliver(
    out: Path, form: Form, limit: int, builder: ReportBuilder, plan_for: Callable[[float], Plan]
) -> tuple[ReportBuilder, int]:
    """Writes the report that shows most within ``limit`` bytes.

    Args:
        out: its place; replaced whole, or left as it was.
        form: the form.
        limit: bytes it may have.
        builder: the report.
        plan_for: what is shown within an expected size in bytes.

    Returns:
        What was baked, and its size in bytes.

    Raises:
        OutputError: even the least report does not fit, or the place cannot be written.
    """
    with staged(out, form) as place:
        scale = _Scale(form.cost.fixed, limit)
        whole = plan_for(float("inf")).expected
        fitting: Plan | None = None
        weight = 0
        plan = plan_for(float(limit))
        for _ in range(ATTEMPTS):
            weight = _write(form, builder.showing(plan), place)
            scale.learn(plan.expected, weight)
            if weight <= limit:
                fitting = plan
                if plan.expected >= whole or weight >= FULL * limit:
                    break
            plan = plan_for(scale.budget())
            if scale.knows(plan.expected):
                break
        if fitting is None:
            fitting = plan_for(0.0)
        shown = builder.showing(fitting)
        if scale.last != fitting.expected:
            weight = _write(form, shown, place)
        if weight > limit:
            raise OutputError(
                f"--max-size {byte_size(limit)}: the least report of these logs takes "
                f"{weight:,} bytes; allow that, or choose another form"
            )
        return shown, weight


class _Scale:
    """What plans are expected to weigh against what they weighed."""

    def __init__(self, fixed: float, limit: int) -> None:
        self.limit = limit
        self.seen: dict[float, int] = {}
        self.last = 0.0
        self.fixed = fixed

    def learn(self, expected: float, weight: int) -> None:
        self.seen[expected] = weight
        self.last = expected

    def knows(self, expected: float) -> bool:
        return expected in self.seen

    def budget(self) -> float:
        """The expected size whose weight should meet the aim: on the line through two plans.

        The line runs through the heaviest plan that fits and the lightest that does not; with
        one side only, through the nearest plan and the fixed cost.
        """
        aim = AIM * self.limit
        plans: list[tuple[float, float]] = [(w, e) for e, w in self.seen.items()]
        below = [plan for plan in plans if plan[0] <= self.limit]
        above = [plan for plan in plans if plan[0] > self.limit]
        if below and above:
            near, far = max(below), min(above)
        else:
            far = max(below) if below else min(above)
            # The fixed cost is a guess too: it is never more than most of what was weighed.
            fixed = min(self.fixed, 0.8 * far[0], 0.8 * far[1])
            near = (fixed, fixed)
        slope = (far[1] - near[1]) / max(1.0, far[0] - near[0])
        return max(0.0, near[1] + slope * (aim - near[0]))


def _write(form: Form, builder: ReportBuilder, place: Path) -> int:
    """Writes a report in the place of what an earlier attempt left there."""
    if form.folder:
        shutil.rmtree(place)
        place.mkdir()
    else:
        place.unlink(missing_ok=True)
        shutil.rmtree(pictures_of(place), ignore_errors=True)
    form.write(builder, place)
    if form.folder:
        write_manifest(place, MANIFEST)
    if form.pictures and pictures_of(place).exists():
        write_manifest(pictures_of(place), PICTURES_MANIFEST)
    return size_of(place)
