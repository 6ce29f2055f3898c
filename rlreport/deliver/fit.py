"""Delivers a report within its size."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rlreport.bake.report import ReportBuilder
from rlreport.bake.shelf import FolderShelf, Shelf, StepPages
from rlreport.bake.step_pages import bake_steps, weight_of
from rlreport.choose import Candidate, fewer_steps
from rlreport.choose.detail import LEAST
from rlreport.deliver.form import Builder, Form
from rlreport.deliver.ownership import MANIFEST, PICTURES_MANIFEST, write_manifest
from rlreport.deliver.place import SHELF, pictures_of, size_of, staged
from rlreport.errors import OutputError
from rlreport.text.numbers import byte_size

if TYPE_CHECKING:
    from rlreport.bake.comparison import ComparisonBuilder

RESERVE = 4_000
"""Bytes kept for what is said about what is left out, and for numbers that grow a digit."""

FOR_STEPS = 0.75
"""Share of the limit that steps' pages may take when there are too many of them."""

MANY = 150_000
"""Bytes a step from which all have a page, whatever the least of them weighs."""

FEWEST = 24
"""Steps that have a page as long as their least pages fit."""


def deliver(
    out: Path, form: Form, limit: int, builder: ReportBuilder, shelf: Shelf | None = None
) -> tuple[ReportBuilder, int]:
    """Writes the report that shows most within ``limit`` bytes.

    All but the pages of steps is written first and weighed; the rest of the limit is theirs.

    Args:
        out: its place; replaced whole, or left as it was.
        form: the form.
        limit: bytes it may have.
        builder: the report.
        shelf: where finished pages of steps lie until it is written; beside it unless given.

    Returns:
        What was written, and its size in bytes.

    Raises:
        OutputError: even the least report does not fit, or the place cannot be written.
    """
    with staged(out, form) as place:
        if not form.pages:
            weight = _write(form, builder, place)
            if weight > limit:
                raise _too_small(limit, weight)
            return builder, weight
        shelf = shelf or FolderShelf(place.parent.parent / SHELF)
        shelf.show(builder.pool)
        steps = fewer_steps(builder.candidates, _affordable(builder, limit))
        while True:
            linked = builder.linking(steps, limit)
            room = limit - RESERVE - _write(form, linked, place)
            if room < 0 and len(steps) > 2:
                steps = fewer_steps(steps, len(steps) // 2)
                continue
            shown = linked.holding(_baked(linked, room, shelf))
            weight = _write(form, shown, place, shelf)
            if weight > limit and len(steps) <= 2:
                least = builder.linking(steps, 0).without_responses()
                shown = least.holding(_baked(least, 0, shelf))
                weight = _write(form, shown, place, shelf)
                if weight > limit:
                    raise _too_small(limit, weight)
            if weight <= limit:
                return shown, weight
            steps = fewer_steps(steps, len(steps) // 2)


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


def _affordable(builder: ReportBuilder, limit: int) -> int:
    """How many steps can have a page, going by what one with a few responses weighs."""
    steps: list[Candidate] = builder.candidates
    room = FOR_STEPS * limit
    if len(steps) * MANY <= room:
        return len(steps)
    middle = steps[len(steps) // 2]
    some = weight_of(builder, middle, 6, tokens=False)
    least = weight_of(builder, middle, LEAST, tokens=False)
    return max(int(room / some), min(FEWEST, int(room / least)))


def _baked(builder: ReportBuilder, room: float, shelf: Shelf) -> StepPages:
    shelf.clear()
    return bake_steps(builder, room, shelf)


def _too_small(limit: int, weight: int) -> OutputError:
    return OutputError(
        f"--max-size {byte_size(limit)}: the least report of these logs takes {weight:,} bytes; "
        "allow that, or choose another form"
    )


def _write(form: Form, builder: Builder, place: Path, shelf: Shelf | None = None) -> int:
    """Writes a report in the place of what an earlier attempt left there; returns its bytes."""
    elsewhere = shelf.moved if shelf else {}
    elsewhere.clear()
    if form.folder:
        shutil.rmtree(place)
        place.mkdir()
    else:
        place.unlink(missing_ok=True)
        shutil.rmtree(pictures_of(place), ignore_errors=True)
    form.write(builder, place)
    if form.folder:
        write_manifest(place, MANIFEST, elsewhere)
    if form.pictures and pictures_of(place).exists():
        write_manifest(pictures_of(place), PICTURES_MANIFEST)
    return size_of(place) + sum(page.size for page in elsewhere.values())
