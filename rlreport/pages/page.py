"""A page: its address, title and shell."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rlreport.pages.context import PageContext
from rlreport.pages.html import environment
from rlreport.pages.table import Link, Shell
from rlreport.text.messages import message

T = TypeVar("T")
PROMPTS = (
    "data/prompts.csv"  # Path of the exported table of prompts, below the report's root
)
NAMES = {
    "overview": message("Overview"),
    "responses": message("Responses"),
    "prompts": message("Prompts"),
    "tokens": message("Tokens"),
    "data": message("Data"),
}
PAGE_FILES = {kind: f"{kind}.html" for kind in NAMES} | {"overview": "index.html"}

# Pages in the main navigation; those of responses exist only if responses are logged
ALWAYS_LISTED = ("overview", "data")
OF_ROLLOUTS = ("responses", "prompts", "tokens")
# Content-Security-Policy of pages in a folder, which may only run the report's scripts
FOLDER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of pages and files of the report, relative to one page."""

    steps: frozenset[int] = frozenset()  # steps that have a page
    root: str = ""  # the report's root relative to the page: "" or "../"
    # whether the report is one file, in which pages have addresses like ``#/data``
    one_file: bool = False

    def page(self, kind: str) -> str:
        if self.one_file:
            return "#/" if kind == "overview" else f"#/{kind}"
        return self.root + PAGE_FILES[kind]

    def step(self, step: int) -> str | None:
        return self.any_step(step) if step in self.steps else None

    def response(
        self,
        step: int,
        n: int,
        *,
        token: int | None = None,
        turn: int | str | None = None,
    ) -> str | None:
        """Return the address of a response, or of its token or turn; None without a step page."""
        parts = {"token": token, "turn": turn}
        inside = "".join(f"&{key}={at}" for key, at in parts.items() if at is not None)
        return f"{self.any_response(step, n)}{inside}" if step in self.steps else None

    def prompt(self, prompt_id: int | str) -> str:
        """Return the address of the responses page, filtered to the responses to one prompt."""
        return self.responses(
            f"min.prompt_id={prompt_id}&max.prompt_id={prompt_id}&sort=step"
        )

    def responses(self, state: str) -> str:
        """Return the address of the responses page with filters, e.g. ``state="min.reward=1"``."""
        return f"{self.page('responses')}{self._mark}{state}"

    def file(self, path: str) -> str | None:
        return None if self.one_file else self.root + path

    @property
    def _mark(self) -> str:
        return "?" if self.one_file else "#"

    def any_step(self, step: int | str) -> str:
        return f"#/steps/{step}" if self.one_file else f"{self.root}steps/{step}.html"

    def any_response(self, step: int | str, n: int | str) -> str:
        """Return a response's address; "{step}" and "{n}" make it a pattern for scripts."""
        return f"{self.any_step(step)}{self._mark}r={n}"


class Maker:
    """Base class of builders that cache values they have computed, in the dict ``memo``."""

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.memo:
            self.memo[key] = make()
        return cast("T", self.memo[key])


@dataclass(frozen=True, slots=True)
class Page:
    path: str  # path of its file in a report folder, e.g. ``steps/100.html``
    view: str  # name in a one-file report, e.g. ``steps/100``, whose address is ``#/steps/100``
    title: str  # content of the ``<title>`` element
    html: str  # a whole document, or for a one-file report the content of ``<main>``


# Function that encodes a page for an output format: page -> (path, bytes), size in bytes
Finish = Callable[[Page], tuple[tuple[str, bytes], int]]


def rendered(
    kind: str,
    view: Any,
    context: PageContext,
    addresses: Addresses,
    step: int | None = None,
) -> Page:
    """Render a page: a whole document, or for a one-file report the content of ``<main>``."""
    frame = shell(kind, context, addresses, step)
    template = f"main/{kind}.html" if context.one_file else "page.html"
    language = context.options.language
    shown = {**language.of(view)}
    html = environment(language).get_template(template).render(view=shown, shell=frame)
    shown.clear()  # else Jinja's macros, which are in a reference cycle, would keep it for long
    if step is not None:
        return Page(f"steps/{step}.html", f"steps/{step}", frame.title, html)
    return Page(PAGE_FILES[kind], "" if kind == "overview" else kind, frame.title, html)


def shell(
    kind: str, context: PageContext, addresses: Addresses, step: int | None = None
) -> Shell:
    """Return title, navigation and assets of a page; ``kind``: key of NAMES, or "step"."""
    title = context.run
    if kind != "overview":
        name = NAMES[kind] if step is None else message("Step {step}", step=step)
        title = message("{page} · {run}", page=name, run=context.run)
    frame = Shell(
        title=title,
        run=context.run,
        kind=kind,
        root=addresses.root,
        nav=[
            (kind, Link(NAMES[kind], addresses.page(kind)))
            for kind in NAMES
            if kind in ALWAYS_LISTED or (context.has_rollouts and kind in OF_ROLLOUTS)
        ],
        assets={
            name: addresses.root + path for name, path in context.asset_files.items()
        },
        csp="" if context.one_file else FOLDER_POLICY,
    )
    return context.options.language.of(frame)
