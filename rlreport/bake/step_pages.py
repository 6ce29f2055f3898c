"""Pages of steps, rendered by workers, all at one level of detail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rlreport.bake.context import PageContext
from rlreport.bake.page_cache import RenderedStep, page_cache, page_key, shared_key
from rlreport.bake.pages import Page, addresses_from, rendered
from rlreport.bake.redact import redacted, response_numbers
from rlreport.bake.responses_page import ListedRows, arranged, listed_rows
from rlreport.bake.step_page import StepRows, best_first, charts_of, step_view
from rlreport.choose import Candidate, Plan, StepPlan
from rlreport.choose.detail import LEVELS
from rlreport.display import fetch
from rlreport.draw.svg import drawn
from rlreport.read.readback import RowLocations
from rlreport.rollout import Rollout

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder

Finish = Callable[[Page], tuple[tuple[str, bytes], int]]
"""Encodes a page for an output format: returns (path, bytes) and its size there."""

MIN_PARALLEL_PAGES = 32
"""Fewer pages are rendered faster by this process than others start."""

MEASURED = 3
"""Pages that the size of all is estimated from."""


@dataclass(slots=True)
class StepPages:
    """The pages of the steps; iterating yields (path, bytes).

    Attributes:
        plan: what they show.
        level: their level of detail, an index into LEVELS.
        pages: path below the report's root and bytes, by step.
        listed: their rows in the list of the run.
        weight: bytes that the pages take.
    """

    plan: Plan
    level: int
    pages: list[tuple[str, bytes]] = field(default_factory=list)
    listed: list[ListedRows] = field(default_factory=list)
    weight: int = 0

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return iter(self.pages)


def render_steps(builder: ReportBuilder, level: int) -> StepPages:
    """Render the pages of all steps that are shown, at a level of detail."""
    context, candidates = builder.context, builder.candidates
    made = StepPages(Plan([], builder.tables.steps_with_responses), level)
    known = _measured(builder, level)
    left = [one for one in candidates if one.step not in known]
    parallel = len(left) >= MIN_PARALLEL_PAGES
    with builder.progress.phase("pages", len(candidates), "pages") as phase:
        fresh = _rendered(builder, left, level, parallel=parallel)
        for candidate, static in zip(candidates, context.listed_static, strict=True):
            page = known.get(candidate.step) or next(fresh)
            made.plan.steps.append(candidate.at(level))
            made.pages.append(page.content)
            made.listed.append(arranged(page.listed, context, candidate.pinned, static))
            made.weight += page.weight
            phase.advance(1)
    return made


def estimated_weight(builder: ReportBuilder, level: int) -> float:
    """Return the bytes that all pages take at a level, going by MEASURED of them."""
    weights = [page.weight for page in _measured(builder, level).values()]
    return float(np.mean(weights)) * len(builder.candidates)


def fitting_level(builder: ReportBuilder, room: float, level: int) -> int:
    """Return the first level from ``level`` on whose pages fit into ``room``, else the last."""
    while level < len(LEVELS) - 1 and estimated_weight(builder, level) > room:
        level += 1
    return level


def _measured(builder: ReportBuilder, level: int) -> dict[int, RenderedStep]:
    """Return the pages that sizes are estimated from, by step: small, medium and large ones."""

    def made() -> dict[int, RenderedStep]:
        candidates = sorted(builder.candidates, key=lambda one: (one.tokens.sum(), one.step))
        places = (np.arange(MEASURED) + 0.5) * len(candidates) / MEASURED
        some = [candidates[i] for i in sorted(set(places.astype(int).tolist()))]
        parallel = len(candidates) >= MIN_PARALLEL_PAGES
        pages = _rendered(builder, some, level, parallel=parallel)
        return {one.step: page for one, page in zip(some, pages, strict=True)}

    shown = tuple(builder.context.shown_steps)
    return builder.once(("measured", level, shown, builder.context.listed), made)


@dataclass(frozen=True, slots=True)
class StepJob:
    """What a worker needs to render the page of a step.

    Attributes:
        plan: what is shown.
        responses: RESPONSE_COLUMNS of all responses of the step.
        extras: their further columns.
        texts: numbers of their texts where these are redacted, see ``response_numbers``.
        context: what the page is made of besides.
        key: of the page in the cache, b"" without one.
    """

    plan: StepPlan
    responses: pd.DataFrame
    extras: pd.DataFrame
    texts: list[int]
    context: PageContext
    key: bytes = b""

    def __reduce__(self) -> tuple[Callable[..., StepJob], tuple[list[Any], dict[str, Any]]]:
        """Travel without the columns that hold nothing."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        own["responses"] = self.responses.dropna(axis=1, how="all")
        return _arrived, (list(self.responses), own)


def _arrived(columns: list[Any], own: dict[str, Any]) -> StepJob:
    return StepJob(**{**own, "responses": own["responses"].reindex(columns=columns)})


def _rendered(
    builder: ReportBuilder, candidates: Sequence[Candidate], level: int, *, parallel: bool
) -> Iterator[RenderedStep]:
    """Yield the pages of some steps in order, from the cache or rendered."""
    shared = builder.locations.without_rows(), builder.finish
    kept = page_cache(builder.context.read)
    if kept is None:
        jobs = (_job(builder, candidate, level) for candidate in candidates)
        yield from builder.workers.map(render_step, jobs, shared, parallel=parallel)
        return
    run = shared_key(builder)
    cached: list[RenderedStep | None] = []
    missing: list[StepJob] = []
    for candidate in candidates:
        job = _job(builder, candidate, level)
        job = replace(job, key=page_key(job, run, builder.locations))
        cached.append(kept.get(job.key))
        if cached[-1] is None:
            missing.append(job)
    fresh = zip(
        missing, builder.workers.map(render_step, missing, shared, parallel=parallel), strict=True
    )
    for known in cached:
        if known is not None:
            yield known
            continue
        job, page = next(fresh)
        kept.put(job.key, page)
        yield page


def _job(builder: ReportBuilder, candidate: Candidate, level: int) -> StepJob:
    responses, extras = builder.tables.responses, builder.tables.extras
    step = builder.once("step", responses["step"].to_numpy)
    rows = slice(*np.searchsorted(step, [candidate.step, candidate.step + 1]).tolist())
    numbers = []
    if builder.context.report.redact:
        numbers = builder.once("texts", lambda: response_numbers(responses))[rows].tolist()
    context = builder.context.of_step(candidate.step)
    return StepJob(candidate.at(level), responses.iloc[rows], extras.iloc[rows], numbers, context)


def render_step(job: StepJob, shared: tuple[RowLocations, Finish]) -> RenderedStep:
    """Read the shown responses of a step back and render its page."""
    locations, finish = shared
    plan, context = job.plan, job.context
    shown = _read(job, locations)
    rows = StepRows(
        plan.step,
        job.responses,
        job.extras,
        best_first(shown, job.responses),
        frozenset(rollout.n for rollout in shown[: plan.with_tokens]),
        plan.digits,
    )
    charts = drawn(charts_of(job.responses, context, plan.step), context.report.language)
    addresses = addresses_from(context, root="../")
    view = step_view(rows, context, addresses, charts)
    page = rendered("step", view, context, addresses, root="../", step=plan.step)
    content, weight = finish(page)
    listed = listed_rows(plan.step, job.responses, job.extras, shown, context)
    return RenderedStep(content, weight, listed)


def _read(job: StepJob, locations: RowLocations) -> list[Rollout]:
    context = job.context
    locations.select(job.responses)
    rows = job.plan.rows - job.responses.index[0]
    rollouts = list(
        fetch(locations, rows.tolist(), context.read, context.figures, job.plan.with_tokens)
    )
    if context.report.redact:
        numbers = zip(job.responses["prompt_id"], job.texts, strict=True)
        named = dict(zip(job.responses["n"].tolist(), numbers, strict=True))
        rollouts = [redacted(rollout, *named[rollout.n]) for rollout in rollouts]
        if context.report.redact_names:
            rollouts = [replace(r, file=context.file_aliases[r.file]) for r in rollouts]
    return rollouts
