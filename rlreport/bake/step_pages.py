"""Bakes the steps' pages, each as large as its share of the size lets it be.

Pages are baked once, in rounds, by the processes of a pool. A page's share is known when its round
begins, from what the rounds before left over, so it does not depend on which process is when done.
A page that turns out heavier than its share is baked again with less, its charts kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.bake.context import PageContext
from rlreport.bake.page_cache import (
    PageCache,
    page_address,
    page_cache,
    rows_address,
    shared_address,
)
from rlreport.bake.pages import Page, addresses_from, rendered, responses_page
from rlreport.bake.redact import redacted, response_numbers
from rlreport.bake.responses_page import ListedRows, listed_rows
from rlreport.bake.shelf import BakedStep, Shelf, StepPages, put_on
from rlreport.bake.step_page import (
    StepRows,
    StepTwins,
    best_first,
    charts_of,
    step_view,
    twins_of,
)
from rlreport.choose import Candidate, StepPlan, Twins, steady, twins
from rlreport.choose.twins import Name
from rlreport.draw.chart import Chart
from rlreport.draw.svg import drawings, drawn, with_drawings
from rlreport.draw.svg import get_ready as start_vega
from rlreport.pool import Pool
from rlreport.read import RowLocations, fetch
from rlreport.rollout import Rollout

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder

Finish = Callable[[Page], tuple[tuple[str, bytes], int]]
"""What becomes of a page in a form (path below its root, bytes), and the bytes it takes there."""

LEAST_DRAWN_BESIDE = 8
"""Of fewer pages one process draws the charts too."""

LEAST_BESIDE = 48
"""Fewer pages are baked sooner by one process, while another draws: it has less to import."""

ROUNDS = (2, 8)
LATER_ROUNDS = 32
"""Pages of the first rounds and of those after them: the first measure what a cost weighs."""

FIRST_SCALE = 0.3
"""Bytes a unit of cost until pages are measured: low, as a page is not baked again with more."""

SLACK = 1.05
"""How much heavier than measured so far a page is expected to be."""

SPENT = 0.125
"""Share of what pages left over that the next may take more."""

ATTEMPTS = 4


def bake_steps(builder: ReportBuilder, room: float, shelf: Shelf) -> StepPages:
    """Bakes the page of each step that is shown.

    Args:
        builder: the report.
        room: bytes that the pages may take together. When even the least pages take more, they
            are the least.
        shelf: where they are put.
    """
    candidates = builder.candidates
    made = StepPages(shelf, builder.tables.steps_with_responses)
    costs = [candidate.whole() for candidate in candidates]
    # In even amounts: of a run that grew a little, pages of earlier steps may show what they did.
    rate = steady(room / max(1.0, sum(costs)))
    rest, scale, weighed, cost, saved = sum(costs), FIRST_SCALE, 0.0, 0.0, 0.0
    shared = _shared(builder, shelf)
    # What the pages will show, as far as it can be told before any is weighed.
    expected = [c.packed(rate * own) for c, own in zip(candidates, costs, strict=True)]
    same = twins(builder.tables.responses, [plan.rows for plan in expected])
    # A page's charts do not depend on what it may take: they are drawn through all rounds.
    charts = _drawn_beside(builder, _jobs(builder, [(c, 0.0, 1.0) for c in candidates]))
    with builder.progress.phase("pages", len(candidates), "pages") as phase:
        for first, last in _rounds(len(candidates)):
            jobs = []
            for place in range(first, last):
                # What pages left over goes to those after them, what one took too much to all.
                more = saved * (SPENT if saved > 0 else costs[place] / max(rest, costs[place]))
                rest -= costs[place]
                saved -= more
                jobs.append((candidates[place], rate * costs[place] + more, scale))
            pages = _pages(builder, list(_jobs(builder, jobs, same)), shared, charts)
            for (candidate, allowance, _), page in zip(jobs, pages, strict=True):
                made.add(page)
                saved += allowance - page.weight
                weighed += page.weight
                cost += candidate.cost_of(page.plan)
                phase.advance(1)
            scale = SLACK * weighed / cost
    return made


def _pages(
    builder: ReportBuilder, jobs: list[StepJob], shared: Shared, charts: Iterator[list[Chart]]
) -> Iterator[BakedStep]:
    """The pages of some steps, kept or baked with ``charts``: those of these and all later ones."""
    kept = [_attempts(job, shared, bake=False) if shared.kept else None for job in jobs]
    missing = [job for job, page in zip(jobs, kept, strict=True) if page is None]
    pool = builder.pool
    few = shared.kept and len(missing) < LEAST_DRAWN_BESIDE
    if bakes_beside(pool, len(missing if few else builder.candidates)):
        ranges = pool.map(bake_range, pool.ranges(missing), shared)
        baked = (page for pages in ranges for page in pages)
    else:
        own = _drawn_beside(builder, missing) if shared.kept else charts
        baked = (bake_within(replace(job, charts=next(own)), shared) for job in missing)
    return (page or next(baked) for page in kept)


def bakes_beside(pool: Pool, pages: int) -> bool:
    """Whether all processes bake so many pages."""
    return pool.elsewhere or pages >= LEAST_BESIDE


def draws_beside(pool: Pool, pages: int) -> bool:
    """Whether one process bakes so many pages, and another draws their charts."""
    return pool.elsewhere or LEAST_DRAWN_BESIDE <= pages < LEAST_BESIDE


def warm(pool: Pool, pages: int) -> None:
    """Start the processes that so many pages are worth, while this one does other work."""
    if bakes_beside(pool, pages):
        pool.warm(__name__, "get_ready")
    elif draws_beside(pool, pages):
        pool.warm("rlreport.draw.svg", "get_ready", most=1)


def get_ready() -> None:
    """Called by a process that is to bake, which has imported all it needs by then."""
    start_vega()


def weight_of(builder: ReportBuilder, candidate: Candidate, rows: int, *, tokens: bool) -> int:
    """Bytes of a step's page that shows so many responses, with or without their tokens."""
    few = replace(candidate, rows=candidate.rows[:rows], arrays=candidate.arrays if tokens else 0)
    (job,) = _jobs(builder, [(few, float("inf"), 1.0)])
    work = builder.pool.map(bake_range, [[job]], _shared(builder), beside=builder.pool.elsewhere)
    return next(work)[0].weight


@dataclass(frozen=True, slots=True)
class StepJob:
    """One step page's work: picklable, and no larger than the step's rows.

    Attributes:
        candidate: what can be shown.
        allowance: bytes that the page may take.
        scale: bytes that a unit of cost takes, as far as known.
        responses: RESPONSE_COLUMNS of all responses of the step.
        extras: their further columns.
        texts: numbers of their texts where these are redacted, see ``response_numbers``.
        twins: the same prompts at other steps, see ``Twins.of``.
        static: rows of it that the list of the run may hold as HTML.
        address: hash of its rows, b"" where pages are not kept.
        context: what of the run its page is made of.
        charts: its charts, drawn; None for whoever bakes the page to draw them.
    """

    candidate: Candidate
    allowance: float
    scale: float
    responses: pd.DataFrame
    extras: pd.DataFrame
    texts: list[int]
    twins: dict[int, tuple[Name | None, Name | None]]
    static: int
    address: bytes
    context: PageContext
    charts: list[Chart] | None = None

    def __reduce__(self) -> tuple[Callable[..., StepJob], tuple[list[Any], dict[str, Any]]]:
        """Travel without the columns that hold nothing."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        own["responses"] = self.responses.dropna(axis=1, how="all")
        return _arrived, (list(self.responses), own)


def _arrived(columns: list[Any], own: dict[str, Any]) -> StepJob:
    return StepJob(**{**own, "responses": own["responses"].reindex(columns=columns)})


class Shared(NamedTuple):
    """What the jobs of a report share.

    Attributes:
        locations: where rows lie, once a step's are given.
        finish: what the form makes of a page.
        bare: weight of the list of the run without rows.
        kept: pages that were kept.
        address: hash of what all pages are made of, b"" where they are not kept.
        shelf: where who bakes puts pages; None for whoever asked for them to do it.
    """

    locations: RowLocations
    finish: Finish
    bare: int
    kept: PageCache | None
    address: bytes
    shelf: Shelf | None


def _shared(builder: ReportBuilder, shelf: Shelf | None = None) -> Shared:
    context, finish = builder.context, builder.finish
    bare = responses_page([], context, addresses_from(context, root=""))
    return Shared(
        builder.locations.without_rows(),
        finish,
        finish(bare)[1],
        page_cache(context.read),
        shared_address(builder),
        shelf if shelf and shelf.seen else None,
    )


def bake_range(jobs: Sequence[StepJob], shared: Shared) -> list[BakedStep]:
    """Bakes pages of some steps, and puts them on the shelf."""
    pages = (bake_within(job, shared) for job in jobs)
    return [page if shared.shelf is None else put_on(shared.shelf, page) for page in pages]


def bake_within(job: StepJob, shared: Shared) -> BakedStep:
    """Reads the chosen rows of a step back and bakes its page, as much as its allowance holds."""
    baked = _attempts(job, shared, bake=True)
    assert baked is not None
    return baked


def _attempts(job: StepJob, shared: Shared, *, bake: bool) -> BakedStep | None:
    """Bakes a step's page; unless ``bake``, None where one that is needed was not kept."""
    candidate, scale = job.candidate, job.scale
    plan = candidate.packed(steady(job.allowance / scale))
    baker = _Baker(job, shared)
    for attempt in range(ATTEMPTS + 1):
        least = len(plan.rows) <= len(candidate.packed(0).rows) and not plan.with_tokens
        own = twins_of(job.responses, plan, job.twins)
        address = page_address(job, plan, shared) if shared.kept else b""
        found = shared.kept.get(address, own, job, plan) if shared.kept else None
        if found is None and not bake:
            return None
        page, listed, in_list = found or (*baker.page(plan, own), None)
        if in_list is None:
            in_list = baker.weight_in_list(listed)
            if shared.kept:
                shared.kept.put(address, own, page, listed, in_list)
        content, weight = shared.finish(page)
        weight += in_list
        if weight <= job.allowance or least:
            return BakedStep(content, weight, plan, listed)
        scale = max(SLACK * scale, SLACK * weight / candidate.cost_of(plan))
        plan = candidate.packed(0 if attempt == ATTEMPTS - 1 else steady(job.allowance / scale))
    raise AssertionError("the least page is taken, whatever it weighs")


class _Baker:
    """Bakes a step's page, with less at each attempt; rows are read and charts drawn once."""

    def __init__(self, job: StepJob, shared: Shared) -> None:
        self._job = job
        self._shared = shared
        self._rollouts: dict[int, Rollout] = {}
        self._charts = job.charts

    def page(self, plan: StepPlan, own: StepTwins) -> tuple[Page, ListedRows]:
        """Bakes the page with its links, and gathers its rows in the list of the run."""
        job, context = self._job, self._job.context
        addresses = addresses_from(context, root="../")
        if self._charts is None:
            self._charts = drawn(_charts(job), context.report.language)
        if not self._rollouts:
            rollouts = _read(job, plan, context, self._shared.locations)
            self._rollouts = dict(zip(plan.rows.tolist(), rollouts, strict=True))
        shown = [self._rollouts[row] for row in plan.rows.tolist()]
        rows = StepRows(
            plan.step,
            job.responses,
            job.extras,
            best_first(shown, job.responses),
            frozenset(r.n for r in shown[: plan.with_tokens]),
            plan.digits,
            own,
        )
        view = step_view(rows, context, addresses, self._charts)
        page = rendered("step", view, context, addresses, root="../", step=plan.step)
        listed = listed_rows(
            plan.step,
            job.responses,
            job.extras,
            shown[: context.listed],
            context,
            job.candidate.pointed,
            job.static,
        )
        return page, listed

    def weight_in_list(self, listed: ListedRows) -> int:
        """Bytes that the list of the run takes more with the rows of this step alone."""
        context, shared = self._job.context, self._shared
        alone = responses_page([listed], context, addresses_from(context, root=""))
        return shared.finish(alone)[1] - shared.bare


def _charts(job: StepJob) -> list[Chart]:
    return charts_of(job.responses, job.context, job.candidate.step)


def _drawn_beside(builder: ReportBuilder, jobs: Iterable[StepJob]) -> Iterator[list[Chart]]:
    """The charts of jobs, drawn by a process beside while this one bakes pages."""
    made: deque[list[Chart]] = deque()

    def undrawn() -> Iterator[list[Chart]]:
        for job in jobs:
            made.append(_charts(job))
            yield made[-1]

    pictures = builder.pool.map(
        drawings,
        undrawn(),
        builder.context.report.language,
        beside=draws_beside(builder.pool, len(builder.candidates)),
        here=False,
    )
    for svgs in pictures:
        yield with_drawings(made.popleft(), svgs)


def _read(
    job: StepJob, plan: StepPlan, context: PageContext, locations: RowLocations
) -> list[Rollout]:
    locations.take_rows(job.responses)
    rows = plan.rows - job.responses.index[0]
    rollouts = list(fetch(locations, rows.tolist(), context.read, context.figures))
    if context.report.redact:
        numbers = zip(job.responses["prompt_id"], job.texts, strict=True)
        named = dict(zip(job.responses["n"].tolist(), numbers, strict=True))
        rollouts = [redacted(rollout, *named[rollout.n]) for rollout in rollouts]
        if context.report.redact_names:
            rollouts = [replace(r, file=context.file_aliases[r.file]) for r in rollouts]
    return rollouts


def _rounds(count: int) -> Iterator[tuple[int, int]]:
    """Places at which rounds begin and end."""
    first = 0
    sizes = iter(ROUNDS)
    while first < count:
        last = min(count, first + next(sizes, LATER_ROUNDS))
        yield first, last
        first = last


def _jobs(
    builder: ReportBuilder,
    shares: list[tuple[Candidate, float, float]],
    same: Twins | None = None,
) -> Iterator[StepJob]:
    responses, extras = builder.tables.responses, builder.tables.extras
    redact = builder.context.report.redact
    numbers = builder.once("texts", lambda: response_numbers(responses)) if redact else None
    step = builder.once("step", responses["step"].to_numpy)
    static = dict(zip(builder.context.shown_steps, builder.context.listed_static, strict=False))
    for candidate, allowance, scale in shares:
        start, stop = np.searchsorted(step, [candidate.step, candidate.step + 1])
        rows = slice(start, stop)
        yield StepJob(
            candidate,
            allowance,
            scale,
            responses.iloc[rows],
            extras.iloc[rows],
            [] if numbers is None else numbers[rows].tolist(),
            same.of(candidate.step) if same else {},
            static.get(candidate.step, 0),
            rows_address(builder, rows),
            builder.context.of_step(candidate.step),
        )
