"""Pages of steps, rendered by workers, all at one level of detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rlreport.bake.addresses import Addresses
from rlreport.bake.context import PageContext, StepFacts
from rlreport.bake.page_cache import RenderedStep, digest, page_cache
from rlreport.bake.pages import Finish, rendered
from rlreport.bake.redact import redacted, response_numbers
from rlreport.bake.report import ReportBuilder, StepPages
from rlreport.bake.responses_page import listed_rows, with_interest
from rlreport.bake.step_page import StepRows, best_first, charts_of, step_view
from rlreport.choose import Candidate, Plan, StepPlan
from rlreport.choose.detail import LEVELS
from rlreport.display import fetch
from rlreport.draw.svg import drawn
from rlreport.read.chunk import format_keys
from rlreport.read.readback import RowLocations
from rlreport.rollout import Rollout
from rlreport.store import program

MIN_PARALLEL_PAGES = 32
"""Fewer pages are rendered faster by this process than others start."""

MEASURED = 3
"""Pages that the size of all is estimated from."""


def render_steps(builder: ReportBuilder, level: int) -> StepPages:
    """Render the pages of all steps that are shown, at a level of detail."""
    context, candidates = builder.context, builder.candidates
    result = StepPages(Plan([], builder.tables.steps_with_responses))
    known = _measured(builder, level)
    others = [one for one in candidates if one.step not in known]
    with builder.progress.phase("pages", len(candidates), "pages") as phase:
        fresh = _rendered(builder, others, level, parallel=len(others) >= MIN_PARALLEL_PAGES)
        for candidate in candidates:
            page = known.get(candidate.step) or next(fresh)
            result.plan.steps.append(candidate.at(level))
            result.pages.append(page.content)
            result.listed.append(with_interest(page.listed, context, candidate.pinned))
            result.weight += page.weight
            phase.advance(1)
    return result


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

    def measure() -> dict[int, RenderedStep]:
        candidates = sorted(builder.candidates, key=lambda one: (one.tokens.sum(), one.step))
        places = (np.arange(MEASURED) + 0.5) * len(candidates) / MEASURED
        some = [candidates[i] for i in sorted(set(places.astype(int).tolist()))]
        parallel = len(candidates) >= MIN_PARALLEL_PAGES
        pages = _rendered(builder, some, level, parallel=parallel)
        return {one.step: page for one, page in zip(some, pages, strict=True)}

    shown = tuple(builder.context.shown_steps)
    return builder.once(("measured", level, shown), measure)


@dataclass(frozen=True, slots=True)
class StepJob:
    """What a worker needs to render the page of a step.

    Attributes:
        plan: what is shown.
        responses: RESPONSE_COLUMNS of all responses of the step.
        extras: their further columns.
        texts: numbers of their texts where these are redacted, see ``response_numbers``.
        facts: what the page says about the run.
    """

    plan: StepPlan
    responses: pd.DataFrame
    extras: pd.DataFrame
    texts: list[int]
    facts: StepFacts


def _rendered(
    builder: ReportBuilder, candidates: Sequence[Candidate], level: int, *, parallel: bool
) -> Iterator[RenderedStep]:
    """Yield the pages of some steps in order, from the cache or rendered."""
    context = builder.context.of_steps()
    shared = builder.locations.without_rows(), builder.finish, context
    cache = page_cache(context.read)
    jobs = (_job(builder, candidate, level) for candidate in candidates)
    if cache is None:
        yield from builder.workers.map(render_step, jobs, shared, parallel=parallel)
        return
    run = _run_key(builder, context)
    keyed = [(job, _page_key(job, run, builder.locations, context)) for job in jobs]
    cached = [cache.get(key) for _, key in keyed]
    missing = [job for (job, _), page in zip(keyed, cached, strict=True) if page is None]
    fresh = builder.workers.map(render_step, missing, shared, parallel=parallel)
    for (_, key), page in zip(keyed, cached, strict=True):
        yield page or cache.put(key, next(fresh))


def _job(builder: ReportBuilder, candidate: Candidate, level: int) -> StepJob:
    responses, extras = builder.tables.responses, builder.tables.extras
    step = builder.once("step", responses["step"].to_numpy)
    rows = slice(*np.searchsorted(step, [candidate.step, candidate.step + 1]).tolist())
    numbers = []
    if builder.context.report.redact:
        numbers = builder.once("texts", lambda: response_numbers(responses))[rows].tolist()
    facts = builder.context.step_facts(candidate.step)
    return StepJob(candidate.at(level), responses.iloc[rows], extras.iloc[rows], numbers, facts)


def _run_key(builder: ReportBuilder, context: PageContext) -> bytes:
    """Hash what the pages of all steps share."""
    read = replace(context.read, workers=0, metrics=(), cache="", cache_size=0, ray=None)
    finish, style = builder.finish.__qualname__, builder.locations.style
    return digest("page", program(), finish, replace(context, read=read), style)


def _page_key(job: StepJob, run: bytes, locations: RowLocations, context: PageContext) -> bytes:
    """Hash everything that a page is made of; b"" if the lines of its rows are not known."""
    responses, plan = job.responses, job.plan
    rows = plan.rows - responses.index[0]
    if not responses["line_hash"].to_numpy()[rows].all():
        return b""
    file = responses["file"].to_numpy()[rows]
    files = np.unique(file).tolist()
    formats = format_keys([locations.formats[one] for one in files], context.read.tokenizer)
    if not formats:
        return b""
    # Where a line lies does not matter, as its hash is known; the page names its file and number.
    responses = responses.drop(columns=["file", "offset", "length"])
    names = [locations.sources[one].name for one in files], np.searchsorted(files, file)
    shown = rows, plan.with_tokens, plan.digits
    try:
        return digest(run.hex(), names, formats, responses, job.extras, job.facts, shown, job.texts)
    except TypeError:  # text that is not Unicode
        return b""


def render_step(job: StepJob, shared: tuple[RowLocations, Finish, PageContext]) -> RenderedStep:
    """Read the shown responses of a step back and render its page."""
    locations, finish, context = shared
    plan = job.plan
    shown = _read(job, locations, context)
    rows = StepRows(
        plan.step,
        job.responses,
        job.extras,
        best_first(shown, job.responses),
        frozenset(rollout.n for rollout in shown[: plan.with_tokens]),
        plan.digits,
    )
    charts = drawn(charts_of(job.responses, context, plan.step), context.report.language)
    addresses = Addresses(frozenset(job.facts.linked), root="../", one_file=context.one_file)
    view = step_view(rows, job.facts, context, addresses, charts)
    content, weight = finish(rendered("step", view, context, addresses, plan.step))
    return RenderedStep(content, weight, listed_rows(job.responses, job.extras, shown, context))


def _read(job: StepJob, locations: RowLocations, context: PageContext) -> list[Rollout]:
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
