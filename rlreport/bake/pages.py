"""Pages of a report: their addresses, their frame, and how they are rendered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rlreport.bake.context import PageContext
from rlreport.bake.environment import environment
from rlreport.bake.views import Link, Shell
from rlreport.text.messages import message

T = TypeVar("T")

PROMPTS = "data/prompts.csv"
"""File of the figures of all prompts."""

PAGE_FILES = {
    "overview": "index.html",
    "responses": "responses.html",
    "prompts": "prompts.html",
    "tokens": "tokens.html",
    "data": "data.html",
    "checks": "checks.html",
}
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


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses as seen from one page.

    Attributes:
        steps: steps that have a page.
        root: the report's root as seen from the page: "" or "../".
        one_file: pages are views of one file.
    """

    steps: frozenset[int] = frozenset()
    root: str = ""
    one_file: bool = False

    def page(self, kind: str) -> str:
        """Return the address of a page of PAGE_FILES."""
        if self.one_file:
            return "#/" if kind == "overview" else f"#/{kind}"
        return self.root + PAGE_FILES[kind]

    def step(self, step: int) -> str | None:
        """Return the address of a step's page, None when it has none."""
        return self._any_step(step) if step in self.steps else None

    def response(self, step: int, n: int, token: int | None = None) -> str | None:
        """Return the address of a response or one of its tokens, None without a page."""
        at_token = "" if token is None else f"&token={token}"
        return f"{self._any_response(step, n)}{at_token}" if step in self.steps else None

    def response_pattern(self) -> str:
        """Return the address of a response with places ``{step}`` and ``{n}``."""
        return self._any_response("{step}", "{n}")

    def prompt(self, prompt_id: int) -> str:
        """Return the address of an opened prompt on the prompts page."""
        return f"{self.page('prompts')}{self._mark}p={prompt_id}"

    def file(self, path: str) -> str | None:
        """Return the address of an exported file; the one-file form has none."""
        return None if self.one_file else self.root + path

    @property
    def _mark(self) -> str:
        return "?" if self.one_file else "#"

    def _any_step(self, step: int | str) -> str:
        return f"#/steps/{step}" if self.one_file else self.root + step_file(step)

    def _any_response(self, step: int | str, n: int | str) -> str:
        return f"{self._any_step(step)}{self._mark}r={n}"


def step_file(step: int | str) -> str:
    """Return the file of a step's page, relative to the root."""
    return f"steps/{step}.html"


def link(text: str, href: str | None) -> Link:
    """Return a link; an empty address is shown as plain text."""
    return Link(text, href or "")


class Maker:
    """Base of builders: ``memo`` holds values that are computed once."""

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
    kind: str, view: object, context: PageContext, addresses: Addresses, step: int | None = None
) -> Page:
    """Render a page: a whole document, or in the one-file form the content of ``<main>``."""
    frame = shell(kind, context, addresses, step)
    template = f"main/{kind}.html" if context.one_file else "page.html"
    language = context.report.language
    html = environment(language).get_template(template).render(view=language.of(view), shell=frame)
    if step is not None:
        return Page(step_file(step), f"steps/{step}", frame.title, html)
    return Page(PAGE_FILES[kind], "" if kind == "overview" else kind, frame.title, html)


def shell(kind: str, context: PageContext, addresses: Addresses, step: int | None = None) -> Shell:
    """Return the frame of a page; ``kind`` is a key of NAMES or UNLISTED, or ``step``."""
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
