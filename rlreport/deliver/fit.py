"""Write a report with as much detail as its size limit allows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport.bake.report import ReportBuilder
from rlreport.bake.step_pages import estimated_weight, fitting_level, render_steps
from rlreport.choose import Candidate, fewer_steps
from rlreport.choose.detail import LEVELS, first_level
from rlreport.deliver import Builder, Form
from rlreport.deliver.ownership import pictures_of, write_manifests
from rlreport.deliver.publish import size_of
from rlreport.errors import OutputError
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.bake.comparison import ComparisonBuilder

# Share of the size limit given to pages of steps until the size of other pages is known
FOR_STEPS = 0.75

# Share of the size limit that ``data/metrics.csv`` may take in a report with pages of steps
METRICS_SHARE = 0.3

MANY = 150_000  # bytes per step from which every step has a page, without estimating sizes
FEWEST = 24  # steps that have a page even if only the lowest level of detail fits


def deliver(
    path: Path, form: Form, limit: int, builder: ReportBuilder
) -> tuple[ReportBuilder, int]:
    """Write the most detailed report that fits ``limit`` bytes; return its builder and its size.

    Raises:
        OutputError: even the smallest report does not fit.
    """
    if not form.pages or not builder.candidates:
        size = _write(form, builder, path)
        if size > limit and builder.metrics_data:
            builder = builder.without_metrics()
            size = _write(form, builder, path)
        if size > limit:
            raise _too_large(limit, size)
        return builder, size
    if len(builder.metrics_data) > METRICS_SHARE * limit:
        builder = builder.without_metrics()
    if limit <= form.small_size:
        builder = builder.without_responses()  # its bytes are better spent on the steps' pages
    room = FOR_STEPS * limit
    while True:
        steps = fewer_steps(builder.candidates, _affordable(builder, room, limit))
        linked = builder.linking(steps, limit)
        level = fitting_level(linked, room, first_level(steps, room))
        pages = render_steps(linked, level)
        report = linked.holding(pages)
        size = _write(form, report, path)
        if size <= limit:
            return report, size
        if len(steps) > 2 or level < len(LEVELS) - 1:
            # What the other pages leave, scaled by the ratio of estimated to actual size.
            bytes_left = limit - (size - pages.weight)
            room = bytes_left * estimated_weight(linked, level) / pages.weight
        elif builder.response_data[1] or builder.metrics_data:
            builder, room = builder.without_responses(), FOR_STEPS * limit
        else:
            raise _too_large(limit, size)
        del pages, report  # free their memory before the next ones are rendered


def deliver_comparison(
    path: Path, form: Form, limit: int, builder: ComparisonBuilder
) -> tuple[ComparisonBuilder, int]:
    """Write the comparison, listing as many won and lost prompts as fit into ``limit`` bytes.

    Raises:
        OutputError: it does not fit even without these prompts.
    """
    while (size := _write(form, builder, path)) > limit:
        if not builder.shown:
            raise _too_large(limit, size)
        builder = replace(builder, shown=builder.shown // 2)
    return builder, size


def _affordable(builder: ReportBuilder, room: float, limit: int) -> int:
    """Return how many steps can have a page if these pages may take ``room`` bytes in all.

    The estimate is for the second lowest level of detail, or the lowest if few steps would fit.
    """
    steps: list[Candidate] = builder.candidates
    if len(steps) * MANY <= room:
        return len(steps)
    linked = builder.linking(steps, limit)
    second_lowest, lowest = (
        estimated_weight(linked, level) / len(steps) for level in (len(LEVELS) - 2, len(LEVELS) - 1)
    )
    return max(int(room / second_lowest), min(FEWEST, int(room / lowest)))


def _too_large(limit: int, size: int) -> OutputError:
    return OutputError(
        f"--max-size {byte_size(limit)}: the smallest possible report of these logs has {size:,} "
        "bytes, because figures and charts are always included; raise --max-size or choose "
        "another format"
    )


def _write(form: Form, builder: Builder, path: Path) -> int:
    """Write the report, replacing an earlier attempt at ``path``; return its size in bytes."""
    if form.folder:
        shutil.rmtree(path)
        path.mkdir()
    else:
        path.unlink(missing_ok=True)
        shutil.rmtree(pictures_of(path), ignore_errors=True)
    form.write(builder, path)
    write_manifests(path, form)
    return size_of(path)
