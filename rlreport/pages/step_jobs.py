"""Render the pages of steps in worker processes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import RESPONSE
from rlreport.draw.chart import Chart
from rlreport.pages.context import PageContext, StepJob, StepPage
from rlreport.pages.listed import TOOLS, ending_texts, extra_key
from rlreport.pages.page import Addresses, Finish, rendered
from rlreport.pages.plan import StepPlan
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.report import DRAWINGS, ReportBuilder, draw_pages
from rlreport.pages.responses import listed_rows, with_interest
from rlreport.pages.step import GROUP_COLUMNS, group_figures, step_rows, step_view
from rlreport.read.rollouts import Selection
from rlreport.text.messages import message

_SECONDS_PER_PAGE = 0.02  # to decide whether several processes are worth their start
_TEXT_NUMBER = "text_number"  # key in ``StepJob.columns``
_AHEAD = 32  # pages per process that may be rendered while one process draws the charts


def render_steps(builder: ReportBuilder, level: int) -> list[StepPage]:
    """Render the pages of all the builder's steps; ``level`` of detail is an index into LEVELS.

    A worker process draws the run's charts, as a process that started V8 cannot fork any more.
    """
    plans = [plan.at(level) for plan in builder.plans]
    result = []
    shown_steps = builder.shown_steps
    charts = [] if DRAWINGS in builder.memo else [builder.page_charts]
    work: list[Any] = [
        *charts,
        *(_step_job(builder, plan, shown_steps) for plan in plans),
    ]
    context = {item.name: getattr(builder, item.name) for item in fields(PageContext)}
    shared = builder.finish, PageContext(**context)
    seconds = _SECONDS_PER_PAGE * len(plans)
    with builder.progress.phase(
        message("rendering"), len(plans), message("pages")
    ) as advance:
        pages = builder.workers.map(
            _render, work, shared, seconds=seconds, ahead=_AHEAD
        )
        for _ in charts:
            builder.memo[DRAWINGS] = next(pages)
        for page in pages:
            listed = with_interest(page.listed, builder, page.plan.pinned)
            result.append(page._replace(listed=listed))
            advance(1)
    return result


def _step_job(
    builder: ReportBuilder, plan: StepPlan, shown_steps: Sequence[int]
) -> StepJob:
    tables = builder.tables
    step = plan.step
    responses, steps = builder.once("columns", lambda: _columns(builder))
    first, last = np.searchsorted(responses["step"], [step, step + 1]).tolist()
    findings = [
        finding.at(step)
        for finding in builder.verdict.findings
        if step in finding.steps or any(ref.step == step for ref in finding.shown)
    ]
    index = bisect_left(shown_steps, step)
    linked = {shown_steps[0], *shown_steps[max(0, index - 1) : index + 2]}
    linked |= {f.onset.step for f in findings if f.onset} & set(shown_steps)
    row = int(np.searchsorted(steps["step"], step))
    compared = sorted({0, max(0, row - 1), row})
    figures = {name: values[compared].tolist() for name, values in steps.items()}
    return StepJob(
        plan=plan,
        selection=Selection(builder.chosen, plan.rows),
        columns={name: values[first:last] for name, values in responses.items()},
        shown=plan.rows - first,
        figures=figures,
        linked=sorted(linked),
        findings=findings,
        in_progress=step == tables.in_progress,
    )


def _columns(
    builder: ReportBuilder,
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    tables = builder.tables
    responses = {name: tables.responses[name].to_numpy() for name in RESPONSE}
    responses["ending"] = ending_texts(tables.responses["ending"])
    if len(tables.tools_used):
        responses[TOOLS.key] = tables.tools_used.to_numpy()
    for name, values in tables.extras.items():
        responses[extra_key(name)] = values.to_numpy()
    if builder.options.redact:
        responses[_TEXT_NUMBER] = response_numbers(tables.responses)
    if any(column in GROUP_COLUMNS for column in builder.columns):
        responses |= group_figures(tables.responses)
    names = ["step", "incomplete", *builder.tile_names]
    return responses, {name: tables.steps[name].to_numpy() for name in names}


def _render(
    job: StepJob | dict[str, list[Chart]], shared: tuple[Finish, PageContext]
) -> Any:
    finish, context = shared
    if not isinstance(job, StepJob):
        return draw_pages(job, context.options.language)
    rollouts = job.selection.rollouts.read(job.selection.rows, job.plan.with_tokens)
    if context.options.redact:
        facts = (
            job.columns[key][job.shown].tolist() for key in ("prompt_id", _TEXT_NUMBER)
        )
        rollouts = list(map(redacted, rollouts, *facts))
    addresses = Addresses(frozenset(job.linked), root="../", one_file=context.one_file)
    rows = step_rows(job, rollouts, context)
    view = step_view(job, rows, context, addresses)
    content, weight = finish(rendered("step", view, context, addresses, job.plan.step))
    texts = view["texts"]
    listed = listed_rows(job, rollouts, rows.values, context)
    return StepPage(job.plan, content, weight + len(texts), listed, texts)
