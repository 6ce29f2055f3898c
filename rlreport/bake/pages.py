"""Pages: those of the run, then one a step, baked by the processes of a pool."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from rlreport import __version__
from rlreport.bake.addresses import PAGE_FILES, Addresses, FolderAddresses, ViewAddresses, step_file
from rlreport.bake.context import PageContext
from rlreport.bake.data_page import data_view
from rlreport.bake.environment import environment
from rlreport.bake.method_page import method_view
from rlreport.bake.overview_page import overview_view
from rlreport.bake.prompts_page import prompts_view
from rlreport.bake.redact import redacted, response_numbers
from rlreport.bake.step_page import StepRows, step_view
from rlreport.bake.tokens_page import tokens_view
from rlreport.bake.views import Link, Shell
from rlreport.choose import StepPlan
from rlreport.draw.prompts import prompt_charts
from rlreport.draw.tokens import token_charts
from rlreport.read import RowLocations, fetch
from rlreport.rollout import Rollout

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder

T = TypeVar("T")

LEAST_BESIDE = 8
"""Fewer pages are baked sooner by one process."""

CHUNK = 2
"""Pages that a process bakes before it hands them over."""

NAMES = {"overview": "Overview", "prompts": "Prompts", "tokens": "Tokens", "data": "Data"}
"""Pages of the main navigation."""

APART = {"checks": "How the verdict is made"}
"""Pages that others link to."""

FOLDER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Content policy of the folder form, which has no inline script: only our own files run."""


@dataclass(frozen=True, slots=True)
class Page:
    """One baked page.

    Attributes:
        path: file below the root in the folder form, e.g. ``steps/100.html``.
        view: address of the view in the one-file form, e.g. ``steps/100``.
        title: text of its title.
        html: a whole document, or in the one-file form the content of ``<main>``.
    """

    path: str
    view: str
    title: str
    html: str


def run_pages(builder: ReportBuilder) -> Iterator[Page]:
    """Yields the pages of the run: overview, prompts, tokens, data, and how the verdict is made."""
    context, tables, texts = builder.context, builder.tables, builder.texts
    addresses = addresses_from(context, root="")
    views: dict[str, object] = {
        "overview": overview_view(
            context, addresses, builder.charts, texts.extremes, len(tables.responses)
        ),
        "prompts": prompts_view(tables, texts, prompt_charts(tables), addresses),
        "tokens": tokens_view(
            tables,
            builder.spreading.table,
            token_charts(builder.spreading.by_step),
            context.windows,
            addresses,
        ),
        "data": data_view(tables, context, addresses),
        "checks": method_view(context.thresholds),
    }
    for kind in (*NAMES, *APART):
        yield _render(kind, views[kind], context, addresses)


def get_ready() -> None:
    """Called by a process that is to bake, which has imported all it needs by then."""
    import vl_convert  # noqa: F401  # starts V8


def step_pages(builder: ReportBuilder, finish: Callable[[Page], T]) -> Iterator[T]:
    """Begins to bake the steps' pages, and returns ``finish(page)`` of each, ascending.

    A page is finished where it was baked.
    """
    count = len(builder.plan.steps)
    shared = (builder.context, builder.locations, finish)
    beside = count >= LEAST_BESIDE
    chunks = builder.pool.map(_finished, _chunks(builder), shared, beside=beside)

    def pages() -> Iterator[T]:
        with builder.progress.phase("pages", count, "pages") as phase:
            for chunk in chunks:
                for page in chunk:
                    phase.advance(1)
                    yield page

    return pages()


def _finished(
    jobs: list[StepJob], shared: tuple[PageContext, RowLocations, Callable[[Page], T]]
) -> list[T]:
    context, locations, finish = shared
    return [finish(bake_step(job, context, locations)) for job in jobs]


def _chunks(builder: ReportBuilder) -> Iterator[list[StepJob]]:
    jobs = _jobs(builder)
    while chunk := list(itertools.islice(jobs, CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True)
class StepJob:
    """One step page's work: picklable, and no larger than the step's rows.

    Attributes:
        plan: what is shown.
        responses: RESPONSE_COLUMNS of all responses of the step.
        extras: their further columns.
        texts: numbers of their texts, see ``response_numbers``.
    """

    plan: StepPlan
    responses: pd.DataFrame
    extras: pd.DataFrame
    texts: list[int]


def _jobs(builder: ReportBuilder) -> Iterator[StepJob]:
    responses, extras = builder.tables.responses, builder.tables.extras
    texts = response_numbers(responses)
    step = responses["step"].to_numpy()
    for plan in builder.plan.steps:
        start, stop = np.searchsorted(step, [plan.step, plan.step + 1])
        rows = slice(start, stop)
        yield StepJob(plan, responses.iloc[rows], extras.iloc[rows], texts[rows].tolist())


def bake_step(job: StepJob, context: PageContext, locations: RowLocations) -> Page:
    """Reads the chosen rows of a step back and bakes its page."""
    plan = job.plan
    rollouts = list(fetch(locations, plan.rows.tolist(), context.read, context.figures))
    if context.report.redact:
        numbers = zip(job.responses["prompt_id"], job.texts, strict=True)
        named = dict(zip(job.responses["n"].tolist(), numbers, strict=True))
        rollouts = [redacted(rollout, *named[rollout.n]) for rollout in rollouts]
        if context.report.redact_names:
            rollouts = [replace(r, file=context.file_aliases[r.file]) for r in rollouts]
    with_tokens = locations.n[plan.rows[: plan.with_tokens]]
    rows = StepRows(
        plan.step,
        job.responses,
        job.extras,
        _best_first(rollouts, job.responses),
        frozenset(with_tokens.tolist()),
        plan.digits,
    )
    addresses = addresses_from(context, root="../")
    view = step_view(rows, context, addresses)
    return _render("step", view, context, addresses, root="../", step=plan.step)


def addresses_from(context: PageContext, root: str) -> Addresses:
    """Addresses as seen from a page whose root is ``root``."""
    steps = frozenset(context.shown_steps)
    return ViewAddresses(steps) if context.one_file else FolderAddresses(steps, root)


def _best_first(rollouts: list[Rollout], responses: pd.DataFrame) -> list[Rollout]:
    """Highest reward first, NaN last, then in log order."""
    reward = dict(zip(responses["n"].tolist(), responses["reward"].tolist(), strict=True))

    def key(rollout: Rollout) -> tuple[bool, float, int]:
        value = reward[rollout.n]
        return (value != value, -value if value == value else 0.0, rollout.n)

    return sorted(rollouts, key=key)


def _render(
    kind: str,
    view: object,
    context: PageContext,
    addresses: Addresses,
    *,
    root: str = "",
    step: int | None = None,
) -> Page:
    frame = shell(
        kind,
        context,
        addresses,
        root=root,
        step=step,
        assets=context.asset_files,
        csp=FOLDER_POLICY,
    )
    template = f"main/{kind}.html" if context.one_file else f"{kind}.html"
    html = environment().get_template(template).render(view=view, shell=frame)
    if kind == "step":
        assert step is not None
        return Page(step_file(step), f"steps/{step}", frame.title, html)
    name = "" if kind == "overview" else kind
    return Page(PAGE_FILES[kind], name, frame.title, html)


def shell(
    kind: str,
    context: PageContext,
    addresses: Addresses,
    *,
    root: str = "",
    step: int | None = None,
    assets: dict[str, str] | None = None,
    csp: str = "",
) -> Shell:
    """The frame of one page.

    Args:
        kind: ``overview``, ``step``, ``prompts``, ``tokens``, ``data`` or ``checks``.
        context: what every page shares.
        addresses: addresses as seen from the page.
        root: the report's root as seen from the page.
        step: the step of a step page.
        assets: logical name -> file below the root.
        csp: Content-Security-Policy.
    """
    names = {**NAMES, **APART}
    nav = [(key, Link(name, addresses.page(key))) for key, name in NAMES.items()]
    crumbs = [Link(context.run, addresses.page("overview"))]
    if kind == "step":
        crumbs.append(Link(f"Step {step}", ""))
    elif kind != "overview":
        crumbs.append(Link(names[kind], ""))
    name = f"Step {step}" if kind == "step" else names[kind]
    return Shell(
        title=context.run if kind == "overview" else f"{name} · {context.run}",
        run=context.run,
        kind=kind,
        root=root,
        nav=nav,
        crumbs=crumbs,
        assets={key: root + path for key, path in (assets or {}).items()},
        csp=csp,
        generator=f"rlreport {__version__}",
        stamp=context.stamp,
    )
