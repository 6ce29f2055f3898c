"""Pages: how each is rendered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rlreport.bake.addresses import PAGE_FILES, Addresses, step_file
from rlreport.bake.context import PageContext
from rlreport.bake.environment import environment
from rlreport.bake.views import Link, Shell
from rlreport.text.messages import message

T = TypeVar("T")

NAMES = {
    "overview": message("Overview"),
    "responses": message("Responses"),
    "prompts": message("Prompts"),
    "tokens": message("Tokens"),
    "data": message("Data"),
}
"""Pages of the main navigation."""

UNLISTED = {"checks": message("How the verdict is made")}
"""Pages that others link to."""

FOLDER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Content policy of the folder form, which has no inline script: only our own files run."""


class Maker:
    """Base of builders: computes values once.

    Attributes:
        memo: values by key.
    """

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, called once per key."""
        if key not in self.memo:
            self.memo[key] = make()
        return cast("T", self.memo[key])


@dataclass(frozen=True, slots=True)
class Page:
    """One rendered page.

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


Finish = Callable[[Page], tuple[tuple[str, bytes], int]]
"""Encodes a page for an output format: returns (path, bytes) and its size there."""


def rendered(
    kind: str,
    view: object,
    context: PageContext,
    addresses: Addresses,
    step: int | None = None,
) -> Page:
    """Render a page: a whole document, or in the one-file form what stands in ``<main>``."""
    frame = shell(kind, context, addresses, step)
    template = f"main/{kind}.html" if context.one_file else "page.html"
    language = context.report.language
    html = environment(language).get_template(template).render(view=language.of(view), shell=frame)
    if step is not None:
        return Page(step_file(step), f"steps/{step}", frame.title, html)
    return Page(PAGE_FILES[kind], "" if kind == "overview" else kind, frame.title, html)


def shell(kind: str, context: PageContext, addresses: Addresses, step: int | None = None) -> Shell:
    """Return the frame of one page.

    Args:
        kind: a key of NAMES or UNLISTED, or ``step``.
        context: what every page shares.
        addresses: addresses as seen from the page.
        step: the step of a step page.
    """
    crumbs, title = [Link(context.run, addresses.page("overview"))], context.run
    if kind != "overview":
        name = {**NAMES, **UNLISTED, "step": message("Step {step}", step=step)}[kind]
        crumbs.append(Link(name, ""))
        title = message("{page} · {run}", page=name, run=context.run)
    frame = Shell(
        title=title,
        run=context.run,
        kind=kind,
        root=addresses.root,
        nav=[(key, Link(name, addresses.page(key))) for key, name in NAMES.items()],
        crumbs=crumbs,
        assets={name: addresses.root + path for name, path in context.asset_files.items()},
        csp="" if context.one_file else FOLDER_POLICY,
        stamp=context.stamp,
    )
    return context.report.language.of(frame)
