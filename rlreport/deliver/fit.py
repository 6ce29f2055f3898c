"""Write a report with as much detail as its size limit allows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from rlreport.choose import LEVELS, StepPlan, affordable, expected_bytes, fewer_steps, fitting_level
from rlreport.deliver import Builder, Form
from rlreport.deliver.publish import pictures_of, size_of, write_manifests
from rlreport.errors import OutputError
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.pages.lists import rows_listed
from rlreport.pages.report import ReportBuilder, render_steps
from rlreport.text.numbers import byte_size

# Share of the size limit given to pages of steps until the size of other pages is known
FOR_STEPS = 0.75

# Share of the size limit that ``data/metrics.csv`` may take in a report with pages of steps
METRICS_SHARE = 0.3

CAUTION = 0.9  # Fraction of the available bytes that a second, more detailed rendering may use


def deliver(
    path: Path, form: Form, limit: int, builder: ReportBuilder
) -> tuple[ReportBuilder, int]:
    """Write the most detailed report of up to ``limit`` bytes, or raise; return (builder, size)."""
    if not form.pages or not builder.plans:
        size = _write(form, builder, path)
        if size > limit and builder.metrics_data:
            builder = replace(builder, metrics_data=b"")
            size = _write(form, builder, path)
        if size > limit:
            raise _too_large(limit, size)
        return builder, size
    if len(builder.metrics_data) > METRICS_SHARE * limit:
        builder = replace(builder, metrics_data=b"")
    room = FOR_STEPS * limit
    first = True  # in bytes by ``expected_bytes``
    # Too large: try again with less room. Fits at once: try again if the measured sizes allow more
    # detail. Too large in the least detail: drop the data files.
    while True:
        steps, level = _steps_and_level(builder, room)
        linked = replace(builder, plans=steps, listed=rows_listed(steps, limit))
        pages = render_steps(linked, level)
        report = replace(linked, step_pages=pages)
        size = _write(form, report, path)
        weight = sum(page.weight for page in pages)
        # What the other pages leave, in the unit of ``room``.
        step_room = (limit - (size - weight)) * expected_bytes(steps, level) / weight
        if size <= limit:
            better_steps, better = _steps_and_level(builder, CAUTION * step_room)
            if not first or (len(better_steps), -better) <= (len(steps), -level):
                return report, size
            room = CAUTION * step_room
        elif len(steps) > 2 or level < len(LEVELS) - 1:
            # The expected sizes of steps may be off by different factors: never try the same again.
            room = min(step_room, CAUTION * room)
        elif builder.response_data[1] or builder.metrics_data:
            builder, room = builder.with_data(0), FOR_STEPS * limit
        else:
            raise _too_large(limit, size)
        first = False
        del pages, report  # free their memory before the next ones are rendered


def _steps_and_level(builder: ReportBuilder, room: float) -> tuple[list[StepPlan], int]:
    steps = fewer_steps(builder.plans, affordable(builder.plans, room))
    return steps, fitting_level(steps, room)


def deliver_comparison(
    path: Path, form: Form, limit: int, builder: ComparisonBuilder
) -> tuple[ComparisonBuilder, int]:
    """Write a comparison with fewer prompts until it fits, or raise; return (builder, size)."""
    while (size := _write(form, builder, path)) > limit:
        if not builder.shown:
            raise _too_large(limit, size)
        builder = replace(builder, shown=builder.shown // 2)
    return builder, size


def _too_large(limit: int, size: int) -> OutputError:
    return OutputError(
        f"--max-size {byte_size(limit)}: the smallest possible report of these logs has {size:,} "
        "bytes, because figures and charts are always included; raise --max-size or choose "
        "another format"
    )


def _write(form: Form, builder: Builder, path: Path) -> int:
    if form.folder:
        shutil.rmtree(path)
        path.mkdir()
    else:
        path.unlink(missing_ok=True)
        shutil.rmtree(pictures_of(path), ignore_errors=True)
    form.write(builder, path)
    write_manifests(path, form)
    return size_of(path)
