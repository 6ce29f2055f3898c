"""Render the pages of steps in worker processes, all at one level of detail.

With ``--cache``, pages are stored under a hash of what they are rendered from. A page contains
only data of its own step; data about the rest of the run is in the shared ``data/run.js``.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from rlreport.choose import StepPlan
from rlreport.columns import RESPONSE
from rlreport.draw.chart import Chart
from rlreport.pages.lists import listed_rows, with_interest
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.report import DRAWINGS, ReportBuilder, draw_pages
from rlreport.pages.step import GROUP_COLUMNS, group_figures, step_rows, step_view
from rlreport.pages.templates import Addresses, Finish, rendered
from rlreport.pages.views import PageContext, StepJob, StepPage, ending_texts, extra_key
from rlreport.read.rollouts import Selection
from rlreport.summarise import most_common
from rlreport.system.cache import Store, pack, program, store_at, unpack
from rlreport.text.messages import message

_SECONDS_PER_PAGE = 0.02  # to decide whether several processes are worth their start
_TEXT_NUMBER = "text_number"  # key in ``StepJob.columns``
_AHEAD = 32  # pages per process that may be rendered while one process draws the charts


def render_steps(builder: ReportBuilder, level: int) -> list[StepPage]:
    """Render the pages of all the builder's steps; ``level`` of detail is an index into LEVELS."""
    plans, result = [plan.at(level) for plan in builder.plans], []
    with builder.progress.phase(message("pages"), len(plans), message("pages")) as advance:
        for page in _load_or_render(builder, plans):
            listed = with_interest(page.listed, builder, page.plan.pinned)
            result.append(page._replace(listed=listed))
            advance(1)
    return result


def _load_or_render(builder: ReportBuilder, plans: Sequence[StepPlan]) -> Iterator[StepPage]:
    context = PageContext(
        **{item.name: getattr(builder, item.name) for item in fields(PageContext)}
    )
    options = builder.options
    seconds = _SECONDS_PER_PAGE * len(plans)
    shared = builder.finish, context
    shown_steps = builder.shown_steps
    jobs = [_job(builder, plan, shown_steps) for plan in plans]
    charts = [] if DRAWINGS in builder.memo else [builder.page_charts]

    def render(jobs: Sequence[StepJob]) -> Iterator[StepPage]:
        """Render pages; a process other than this draws the run's charts, as V8 prevents forks."""
        work: list[Any] = [*charts, *jobs]
        results = builder.workers.map(_run, work, shared, seconds=seconds, ahead=_AHEAD)
        for _ in charts:
            builder.memo[DRAWINGS] = next(results)
        yield from results

    if not options.cache:
        yield from render(jobs)
        return
    store = store_at(options.cache)
    options = replace(options, workers=0, metrics=(), cache="", ray=None, quiet=True)
    finish = builder.finish.__qualname__
    digest = _digest(
        "page", program(), finish, replace(context, options=options), builder.chosen.style
    )
    keyed = [(job, _page_key(job, digest)) for job in jobs]
    cached = [_load_page(store, key, job.plan) for job, key in keyed]
    uncached_jobs = [job for (job, _), page in zip(keyed, cached, strict=True) if page is None]
    new_pages = render(uncached_jobs)
    for (_, key), page in zip(keyed, cached, strict=True):
        yield page or _store_page(store, key, next(new_pages))


def _job(builder: ReportBuilder, plan: StepPlan, shown_steps: Sequence[int]) -> StepJob:
    tables, step = builder.tables, plan.step
    responses, steps, usual = builder.once("columns", lambda: _columns(builder))
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
        usual_responses=usual if figures["incomplete"][-1] else None,
        in_progress=step == tables.in_progress,
    )


def _columns(
    builder: ReportBuilder,
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], int | None]:
    tables = builder.tables
    responses = {name: tables.responses[name].to_numpy() for name in RESPONSE}
    responses["ending"] = ending_texts(tables.responses["ending"])
    for name, values in tables.extras.items():
        responses[extra_key(name)] = values.to_numpy()
    if builder.options.redact:
        responses[_TEXT_NUMBER] = response_numbers(tables.responses)
    if any(column in GROUP_COLUMNS for column in builder.columns):
        responses |= group_figures(tables.responses)
    names = ["step", "responses", "incomplete", *builder.tile_names]
    usual = most_common(tables.without_step_in_progress().training().steps["responses"].to_numpy())
    return responses, {name: tables.steps[name].to_numpy() for name in names}, usual


def _run(job: StepJob | dict[str, list[Chart]], shared: tuple[Finish, PageContext]) -> Any:
    finish, context = shared
    if not isinstance(job, StepJob):
        return draw_pages(job, context.options.language)
    rollouts = job.selection.rollouts.read(job.selection.rows, job.plan.with_tokens)
    if context.options.redact:
        facts = (job.columns[key][job.shown].tolist() for key in ("prompt_id", _TEXT_NUMBER))
        rollouts = list(map(redacted, rollouts, *facts))
    addresses = Addresses(frozenset(job.linked), root="../", one_file=context.one_file)
    rows = step_rows(job, rollouts, context)
    view = step_view(job, rows, context, addresses)
    content, weight = finish(rendered("step", view, context, addresses, job.plan.step))
    texts = view["texts"]
    listed = listed_rows(job, rollouts, rows.values, context)
    return StepPage(job.plan, content, weight + len(texts), listed, texts)


def _page_key(job: StepJob, digest: bytes) -> bytes:
    """Return a page's cache key: a hash of all it is rendered from; b"" if it is not cacheable."""
    plan, (rollouts, rows) = job.plan, job.selection
    # Earlier files may have been listed since; the page shows file names and line numbers.
    columns = {k: v for k, v in job.columns.items() if k not in ("file", "offset", "length")}
    detail = job.shown, plan.with_tokens, plan.digits
    run_facts = job.figures, job.linked, job.findings, job.usual_responses, job.in_progress
    texts = rollouts.take(rows)
    places = texts.places
    names = [places.names[file] for file in places.file.tolist()]
    texts = replace(texts, places=places._replace(row=places.n, file=places.n, names=names))
    try:
        return _digest(digest.hex(), columns, run_facts, detail, texts)
    except TypeError:  # text that is not Unicode
        return b""


def _digest(*values: object) -> bytes:
    """Return a hash of nested values; TypeError for other types and for invalid Unicode."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return xxhash.xxh3_128_digest(orjson.dumps(values, _plain, options))


def _plain(value: Any) -> object:
    match value:
        case np.ndarray() if value.dtype != object:
            data = xxhash.xxh3_128_hexdigest(value.tobytes())
            return [str(value.dtype), value.shape, data]
        case np.ndarray() | np.generic():
            return value.tolist()
        case set() | frozenset():
            return sorted(value)
        case tuple():
            return list(value)
        case PurePath():
            return str(value)
    raise TypeError(type(value).__name__)


def _load_page(store: Store, key: bytes, plan: StepPlan) -> StepPage | None:
    if not key or (data := store.get(key)) is None:
        return None
    try:
        head, (content, texts) = unpack(data)
        page = (head["path"], content.tobytes())
        listed = json.loads(head["listed"])
        return StepPage(plan, page, head["weight"], listed, texts.tobytes().decode())
    except (ValueError, TypeError, LookupError):
        return None


def _store_page(store: Store, key: bytes, page: StepPage) -> StepPage:
    _, (path, content), weight, listed, texts = page
    if key:
        # Unlike orjson, ``json`` keeps infinity.
        head = {"path": path, "weight": weight, "listed": json.dumps(listed)}
        parts = (content, texts.encode())
        store.put(key, pack(head, [np.frombuffer(part, np.uint8) for part in parts]))
    return page
