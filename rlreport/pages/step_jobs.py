"""Render the pages of steps in worker processes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import ToldFinding
from rlreport.columns import RESPONSE
from rlreport.pages.charts import begin_drawing
from rlreport.pages.context import PageContext, RunReport, StepJob, StepPage
from rlreport.pages.encoded import PageFile
from rlreport.pages.kept_pages import KeptPages
from rlreport.pages.listed import (
    ERRORS,
    TOOLS,
    ending_texts,
    error_counts,
    extra_key,
)
from rlreport.pages.page import Addresses, Encode, rendered
from rlreport.pages.plan import StepPlan
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.responses import listed_rows, with_interest
from rlreport.pages.step import (
    GROUP_COLUMNS,
    group_figures,
    step_rows,
    step_tokens,
    step_view,
)
from rlreport.read.rollouts import Rollout, Selection
from rlreport.system.workers import Progress, Workers
from rlreport.text.messages import message

_SECONDS_PER_PAGE = 0.02  # to decide whether several processes are worth their start
_TEXT_NUMBER = "text_number"  # key in ``StepJob.columns``


@dataclass(frozen=True, slots=True)
class Renderer:
    """Who renders pages: the form that encodes them, and the processes that do the work."""

    encode: Encode
    workers: Workers
    progress: Progress


def render_steps(report: RunReport, level: int, renderer: Renderer) -> list[StepPage]:
    """Render the pages of all planned steps; ``level`` of detail is an index into LEVELS.

    Meanwhile Vega draws the charts of the other pages, see ``draw/vega.py``.
    """
    plans = [plan.at(level) for plan in report.plans]
    begin_drawing(report)
    kept = KeptPages.of(report.shared, renderer.encode)
    columns = _columns(report)
    jobs = [_step_job(report, plan, columns) for plan in plans]
    del columns  # they are large
    file = PageFile()

    def stored(page: StepPage) -> StepPage:
        """Return a page with its contents in the file, and what the run says of its rows."""
        listed = with_interest(page.listed, report, page.plan.pinned)
        return page._replace(page=file.put(page.page.load()), listed=listed)

    phase = renderer.progress.phase(message("rendering"), len(plans), message("pages"))
    pages: dict[int, StepPage] = {}  # by index in ``plans``
    shared = _Shared(renderer.encode, report.shared, kept)
    with phase as advance:
        for number, page in _pages(jobs, shared, renderer):
            pages[number] = stored(page)
            advance(1)
    if kept:
        kept.store.trim()  # to its maximum size
    return [pages[number] for number in range(len(plans))]


def _pages(
    jobs: Sequence[StepJob], shared: _Shared, renderer: Renderer
) -> Iterator[tuple[int, StepPage]]:
    """Yield the index of each job with its page: those from the cache first, then the rendered."""
    missing: list[int] = []
    keyed: list[tuple[StepJob, bytes | None]] = []
    for number, job in enumerate(jobs):
        key = shared.kept.key(job) if shared.kept else None
        page = shared.kept.page(key, job) if shared.kept and key else None
        if page is not None:
            yield number, page
            continue
        missing.append(number)
        keyed.append((job, key))
    seconds = _SECONDS_PER_PAGE * len(missing)
    rendered_pages = renderer.workers.map(_page, keyed, shared, seconds=seconds)
    yield from zip(missing, rendered_pages, strict=True)


def _step_job(report: RunReport, plan: StepPlan, columns: _Columns) -> StepJob:
    """Return what a worker needs for a step's page: its part of the run's columns."""
    run = report.run
    step = plan.step
    # Responses are sorted by step: those of one are the rows from first to stop.
    steps = columns.responses["step"]
    first, stop = np.searchsorted(steps, [step, step + 1]).tolist()
    findings = _findings_at(step, run.verdict.findings)
    # Rows of the first step, the previous one and this one, which may be the same
    row = int(np.searchsorted(columns.steps["step"], step))
    compared = sorted({0, max(0, row - 1), row})
    figures = {
        name: values[compared].tolist() for name, values in columns.steps.items()
    }
    responses = {name: values[first:stop] for name, values in columns.responses.items()}
    return StepJob(
        plan=plan,
        selection=Selection(run.rollouts, plan.rows),
        columns=responses,
        shown=plan.rows - first,
        figures=figures,
        linked=_linked_steps(step, report.shown_steps),
        findings=findings,
        in_progress=step == run.tables.in_progress,
    )


def _findings_at(step: int, findings: Sequence[ToldFinding]) -> list[ToldFinding]:
    """Return the findings that concern a step, or show a response of it."""
    found = []
    for finding in findings:
        if step in finding.steps or any(ref.step == step for ref in finding.shown):
            found.append(finding.at(step))
    return found


def _linked_steps(step: int, shown: Sequence[int]) -> list[int]:
    """Return a step, its neighbours and the first step.

    ``shown`` are the steps that have a page, ascending; ``step`` is one of them.
    """
    index = bisect_left(shown, step)
    around = shown[max(0, index - 1) : index + 2]
    return sorted({shown[0], *around})


class _Columns(NamedTuple):
    """Columns of all responses, and of the table of steps, of which each job has a part."""

    responses: dict[str, NDArray[Any]]
    steps: dict[str, NDArray[Any]]


def _columns(report: RunReport) -> _Columns:
    """Return what pages show of responses, and of steps, see ``StepJob.columns``."""
    tables = report.run.tables
    responses = {name: tables.responses[name].to_numpy() for name in RESPONSE}
    responses["ending"] = ending_texts(tables.responses["ending"])
    if len(tables.tools_used):
        responses[TOOLS.key] = tables.tools_used.to_numpy()
    for name, values in tables.extras.items():
        responses[extra_key(name)] = values.to_numpy()
    if report.run.options.redact:
        responses[_TEXT_NUMBER] = response_numbers(tables.responses)
    if any(column in GROUP_COLUMNS for column in report.shared.columns):
        responses |= group_figures(tables.responses)
    if ERRORS in report.shared.columns:
        responses[ERRORS.key] = error_counts(tables.responses)
    names = ["step", "incomplete", *report.shared.tile_names]
    steps = {name: tables.steps[name].to_numpy() for name in names}
    return _Columns(responses, steps)


class _Shared(NamedTuple):
    """What the pages of all steps share."""

    encode: Encode
    context: PageContext
    kept: KeptPages | None  # pages in the cache, None without one


def _page(keyed: tuple[StepJob, bytes | None], shared: _Shared) -> StepPage:
    """Return the page of a step, and put it into the cache under its key; a worker's job."""
    job, key = keyed
    encode, context, kept = shared
    page = _render(job, context, encode)
    if kept and key:
        kept.keep(key, page)
    return page


def _render(job: StepJob, context: PageContext, encode: Encode) -> StepPage:
    """Render the page of a step, and its rows of the responses page."""
    step = job.plan.step
    rollouts = _rollouts(job, context)
    rows = step_rows(job, rollouts, context)
    addresses = Addresses(frozenset(job.linked), root="../", one_file=context.one_file)
    view = step_view(job, rows, context, addresses)
    html = rendered(
        "step",
        view,
        context,
        addresses,
        step=step,
        tokens=step_tokens(job, rows, context),
        description=view.in_words,
    )
    page = encode(html)
    listed = listed_rows(job, rollouts, rows, context)
    return StepPage(job.plan, page, listed, view.texts, bool(html.tokens))


def _rollouts(job: StepJob, context: PageContext) -> list[Rollout]:
    """Read the texts that the page shows, or placeholders if they are redacted."""
    rollouts = job.selection.rollouts.read(job.selection.rows, with_tokens=0)
    if not context.options.redact:
        return rollouts
    prompts = job.columns["prompt_id"][job.shown].tolist()
    numbers = job.columns[_TEXT_NUMBER][job.shown].tolist()
    return list(map(redacted, rollouts, prompts, numbers))
