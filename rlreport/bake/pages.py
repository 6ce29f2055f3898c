"""Pages: how each is rendered, and those of the run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlreport.bake.addresses import PAGE_FILES, Addresses, FolderAddresses, ViewAddresses, step_file
from rlreport.bake.context import PageContext
from rlreport.bake.data_page import data_view
from rlreport.bake.environment import environment
from rlreport.bake.method_page import method_view
from rlreport.bake.overview_page import overview_view
from rlreport.bake.prompts_page import prompts_view
from rlreport.bake.responses_page import ListedRows, responses_view
from rlreport.bake.tokens_page import tokens_view
from rlreport.bake.views import Link, Shell
from rlreport.draw.prompts import prompt_charts
from rlreport.draw.tokens import token_charts
from rlreport.draw.wall import not_drawn
from rlreport.text.messages import message

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder

T = TypeVar("T")

NAMES = {
    "overview": message("Overview"),
    "responses": message("Responses"),
    "prompts": message("Prompts"),
    "tokens": message("Tokens"),
    "data": message("Data"),
}
"""Pages of the main navigation."""

APART = {"checks": message("How the verdict is made")}
"""Pages that others link to."""

FOLDER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Content policy of the folder form, which has no inline script: only our own files run."""


class Maker:
    """What makes things once: a builder of a report or of a comparison.

    Attributes:
        memo: what was made.
    """

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returns, made once."""
        if key not in self.memo:
            self.memo[key] = make()
        made: T = self.memo[key]
        return made


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
    """Yields the pages of the run, the overview first, that on how the verdict is made last."""
    context, tables, texts = builder.context, builder.tables, builder.texts
    addresses = addresses_from(context, root="")

    def kept(kind: str, view: Callable[[], object]) -> Page:
        # A page that links to steps, but says nothing of what else is shown.
        return builder.once(
            (kind, len(context.shown_steps)), lambda: rendered(kind, view(), context, addresses)
        )

    overview = overview_view(
        context,
        addresses,
        builder.charts,
        texts.extremes,
        len(tables.responses),
        not_drawn(tables),
    )
    yield rendered("overview", overview, context, addresses)
    yield responses_page(
        builder.steps.listed if builder.steps else [],
        context,
        addresses,
        len(tables.responses),
        builder.plan.responses,
    )
    yield kept(
        "prompts",
        lambda: prompts_view(tables, texts, builder.drawn(prompt_charts(tables)), addresses),
    )
    yield kept(
        "tokens",
        lambda: tokens_view(
            tables,
            builder.spreading.table,
            builder.drawn(token_charts(builder.spreading.by_step)),
            context.windows,
            addresses,
        ),
    )
    yield rendered(
        "data", data_view(tables, context, addresses, builder.exported), context, addresses
    )
    yield kept("checks", lambda: method_view(context.thresholds))


def responses_page(
    listed: Sequence[ListedRows],
    context: PageContext,
    addresses: Addresses,
    in_all: int = 0,
    shown: int = 0,
) -> Page:
    """The list of the run, of the rows that steps give to it."""
    view = responses_view(listed, context, addresses, in_all, shown)
    return rendered("responses", view, context, addresses)


def addresses_from(context: PageContext, root: str) -> Addresses:
    """Addresses as seen from a page whose root is ``root``."""
    steps = frozenset(context.shown_steps)
    return ViewAddresses(steps) if context.one_file else FolderAddresses(steps, root)


def rendered(
    kind: str,
    view: object,
    context: PageContext,
    addresses: Addresses,
    *,
    root: str = "",
    step: int | None = None,
) -> Page:
    """Renders a page: a whole document, or in the one-file form what stands in ``<main>``."""
    frame = shell(
        kind,
        context,
        addresses,
        root=root,
        step=step,
        assets=context.asset_files,
        csp=FOLDER_POLICY,
    )
    template = f"main/{kind}.html" if context.one_file else "page.html"
    language = context.report.language
    html = environment(language).get_template(template).render(view=language.of(view), shell=frame)
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
        kind: a key of NAMES or APART, or ``step``.
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
        crumbs.append(Link(message("Step {step}", step=step), ""))
    elif kind != "overview":
        crumbs.append(Link(names[kind], ""))
    name = message("Step {step}", step=step) if kind == "step" else names[kind]
    frame = Shell(
        title=context.run
        if kind == "overview"
        else message("{page} · {run}", page=name, run=context.run),
        run=context.run,
        kind=kind,
        root=root,
        nav=nav,
        crumbs=crumbs,
        assets={key: root + path for key, path in (assets or {}).items()},
        csp=csp,
        stamp=context.stamp,
    )
    return context.report.language.of(frame)
