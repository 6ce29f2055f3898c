"""Delivers a report within its size."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport.bake.report import ReportBuilder
from rlreport.bake.step_pages import estimated_weight, fitting_level, render_steps
from rlreport.choose import Candidate, fewer_steps
from rlreport.choose.detail import LEVELS, first_level
from rlreport.deliver.form import Builder, Form
from rlreport.deliver.ownership import MANIFEST, PICTURES_MANIFEST, write_manifest
from rlreport.deliver.place import pictures_of, size_of, staged
from rlreport.errors import OutputError
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.bake.comparison import ComparisonBuilder

FOR_STEPS = 0.75
"""Share of the limit that pages of steps may take, until the size of the others is known."""

MANY = 150_000
"""Bytes a step from which all have a page, whatever the least of them weighs."""

FEWEST = 24
"""Steps that have a page as long as their least pages fit."""


def deliver(out: Path, form: Form, limit: int, builder: ReportBuilder) -> tuple[ReportBuilder, int]:
    """Write the report that shows most within ``limit`` bytes.

    Args:
        out: destination; replaced whole, or left as it was.
        form: the output format.
        limit: bytes it may have.
        builder: the report.

    Returns:
        What was written, and its size in bytes.

    Raises:
        OutputError: even the least report does not fit, or the destination cannot be written.
    """
    with staged(out, form) as place:
        if not form.pages:
            weight = _write(form, builder, place)
            if weight > limit:
                raise _too_small(limit, weight)
            return builder, weight
        room = FOR_STEPS * limit
        while True:
            steps = fewer_steps(builder.candidates, _affordable(builder, room, limit))
            linked = builder.linking(steps, limit)
            level = fitting_level(linked, room, first_level(steps, room))
            pages = render_steps(linked, level)
            shown = linked.holding(pages)
            weight = _write(form, shown, place)
            if weight <= limit:
                return shown, weight
            if len(steps) > 2 or level < len(LEVELS) - 1:
                # What the other pages leave, in units of estimates.
                left = limit - (weight - pages.weight)
                room = left * estimated_weight(linked, level) / pages.weight
            elif builder.response_data[1]:
                builder, room = builder.without_responses(), FOR_STEPS * limit
            else:
                raise _too_small(limit, weight)
            del pages, shown  # as large as the report, before others are rendered


def deliver_comparison(
    out: Path, form: Form, limit: int, builder: ComparisonBuilder
) -> tuple[ComparisonBuilder, int]:
    """Writes the comparison with as many prompts won and lost as ``limit`` bytes hold.

    Returns:
        What was written, and its size in bytes.

    Raises:
        OutputError: it does not fit without any of them, or the place cannot be written.
    """
    with staged(out, form) as place:
        while (weight := _write(form, builder, place)) > limit:
            if not builder.shown:
                raise _too_small(limit, weight)
            builder = builder.showing(builder.shown // 2)
        return builder, weight


def _affordable(builder: ReportBuilder, room: float, limit: int) -> int:
    """Return how many steps can have a page in ``room`` bytes, going by the least pages."""
    steps: list[Candidate] = builder.candidates
    if len(steps) * MANY <= room:
        return len(steps)
    linked = builder.linking(steps, limit)
    few, least = (
        estimated_weight(linked, level) / len(steps) for level in (len(LEVELS) - 2, len(LEVELS) - 1)
    )
    return max(int(room / few), min(FEWEST, int(room / least)))


def _too_small(limit: int, weight: int) -> OutputError:
    return OutputError(
        f"--max-size {byte_size(limit)}: the least report of these logs takes {weight:,} bytes; "
        "allow that, or choose another form"
    )


def _write(form: Form, builder: Builder, place: Path) -> int:
    """Write a report in place of what an earlier attempt left; return its bytes."""
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
