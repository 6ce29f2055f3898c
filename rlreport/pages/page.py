"""A page: its declaration, its address, its frame, and how it is rendered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, TypeAlias
from urllib.parse import quote as percent_encoded

from rlreport.pages.context import EncodedPage, JudgedRun, PageContext, RunReport
from rlreport.pages.html import environment
from rlreport.pages.table import Link, Shell
from rlreport.text.clean import one_line
from rlreport.text.language import Language
from rlreport.text.messages import message

# Paths of the exported tables of prompts and of steps, below the report's root
PROMPTS = "data/prompts.csv"
STEPS = "data/steps.csv"
# Path of the script with the tokens of a step
TOKENS_SCRIPT = "data/tokens/{step}.js"
# Maximum characters of a page's description, which previews of links show
MOST_DESCRIBED = 200
# Maximum number of characters of a quote in an address
MOST_QUOTED = 200
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

    def page(self, name: str) -> str:
        """Return the address of a page about the whole run."""
        if self.one_file:
            return "#/" if name == "overview" else f"#/{name}"
        return self.root + page_file(name)

    def part(self, page: str, part: str) -> str:
        """Return the address of a part of a page, an element with the id ``part=PART``."""
        return f"{self.page(page)}{self._mark}part={part}"

    def step(self, step: int) -> str | None:
        """Return the address of a step's page, None if it has none."""
        return self.any_step(step) if step in self.steps else None

    def response(
        self,
        step: int,
        n: int,
        *,
        token: int | None = None,
        turn: int | str | None = None,
        quote: str | None = None,
    ) -> str | None:
        """Return the address of a response, or of its token or turn; None without a step page.

        ``token`` and ``turn`` are indices; the turn "error" is the first with an error. A
        ``quote`` is marked, a long one at its beginning.
        """
        if step not in self.steps:
            return None
        address = self.any_response(step, n)
        if token is not None:
            address += f"&token={token}"
        if turn is not None:
            address += f"&turn={turn}"
        if quote is not None:
            address += f"&quote={percent_encoded(quote[:MOST_QUOTED], safe='')}"
        return address

    def prompt(self, prompt_id: int | str) -> str:
        """Return the address of a prompt; "{prompt}" makes it a pattern for scripts."""
        return f"{self.page('prompts')}{self._mark}p={prompt_id}"

    def responses_to(self, prompt_id: int | str) -> str:
        """Return the address of the responses page, filtered to the responses to one prompt."""
        return self.responses(
            f"min.prompt_id={prompt_id}&max.prompt_id={prompt_id}&sort=step"
        )

    def responses(self, state: str) -> str:
        """Return the address of the responses page with filters, e.g. ``state="min.reward=1"``."""
        return f"{self.page('responses')}{self._mark}{state}"

    def finding(self, finding_id: str) -> str:
        """Return the address of a finding on the overview."""
        # A script on the overview opens what is folded around it.
        if self.one_file:
            return f"#/?finding={finding_id}"
        page = self.page("overview") if self.root else ""
        return f"{page}#finding={finding_id}"

    @property
    def guide(self) -> str:
        """Address of "How to read this" on the overview."""
        return f"{self.page('overview')}{self._mark}how-to-read"

    def file(self, path: str) -> str | None:
        """Return the address of a file, given its path in the folder; None in one file."""
        return None if self.one_file else self.root + path

    @property
    def _mark(self) -> str:
        """Mark before the state of a page; in one file ``#`` is already before the page's name."""
        return "?" if self.one_file else "#"

    def any_step(self, step: int | str) -> str:
        """Return the address of a step's page; "{step}" makes it a pattern for scripts."""
        return f"#/steps/{step}" if self.one_file else f"{self.root}steps/{step}.html"

    def any_response(self, step: int | str, n: int | str) -> str:
        """Return a response's address; "{step}" and "{n}" make it a pattern for scripts."""
        return f"{self.any_step(step)}{self._mark}r={n}"


def page_file(name: str) -> str:
    """Return the path of a page in a report folder."""
    return "index.html" if name == "overview" else f"{name}.html"


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as HTML, before an output form encodes it."""

    path: str  # path of its file in a report folder, e.g. ``steps/100.html``
    # name in a one-file report, e.g. ``steps/100``, whose address is ``#/steps/100``
    view: str
    title: str  # content of the ``<title>`` element
    html: str  # a whole document, or for a one-file report the content of ``<main>``
    step: int | None = None  # the step whose page it is
    tokens: str = ""  # packed tokens of the step, which other pages read, too


def tokens_script(page: RenderedPage) -> tuple[str, bytes] | None:
    """Return path and content of the script with the tokens of a step, None if none are kept."""
    if not page.tokens:
        return None
    return script_of_tokens(str(page.step), page.tokens)


def script_of_tokens(step: str, packed: str) -> tuple[str, bytes]:
    """Return path and content of the script with packed tokens, which it names by ``step``."""
    # Base64 has no character that would need an escape.
    script = f'(globalThis.rlreportTokens ??= {{}})["{step}"] = "{packed}";\n'
    return TOKENS_SCRIPT.format(step=step), script.encode()


# Encodes a page for an output form
Encode: TypeAlias = Callable[[RenderedPage], EncodedPage]


def always(run: JudgedRun) -> bool:
    """Return True: what a page needs that every run has."""
    return True


def has_responses(run: JudgedRun) -> bool:
    """Return whether responses are logged: what a page about them needs."""
    return run.has_responses


@dataclass(frozen=True, slots=True)
class Page:
    """A page about the whole run, which every page links to; ``registry`` lists all.

    Attributes:
        name: also that of its template, ``templates/main/NAME.html``, and in its address:
            ``NAME.html`` in a folder (``index.html`` for the overview), ``#/NAME`` in one file.
        title: heading and entry in the navigation.
        view: returns what the template shows as ``view``, a frozen dataclass. Its messages are
            translated afterwards. Addresses are relative to the page.
        needs: whether a run has what the page shows; without it the report lacks the page.
        in_navigation: whether the main navigation has it, else the foot of each page.
    """

    name: str
    title: str
    view: Callable[[RunReport, Addresses], object]
    needs: Callable[[JudgedRun], bool] = always
    in_navigation: bool = True


def rendered(
    name: str,
    view: object,
    context: PageContext,
    addresses: Addresses,
    *,
    step: int | None = None,
    tokens: str = "",
    description: str = "",
) -> RenderedPage:
    """Render a page: a whole document, or for a one-file report the content of ``<main>``.

    Args:
        name: of a ``Page``, or "step".
        view: a frozen dataclass, whose fields the template reads.
        context: what all pages share.
        addresses: addresses relative to the page.
        step: the step whose page it is, None for a page about the run.
        tokens: packed tokens of the step, "" if none are kept.
        description: what previews of a link to the page show.
    """
    frame = shell(name, context, addresses, step, description=description)
    html = _html(name, view, frame, context)
    if step is not None:
        path = f"steps/{step}"
        return RenderedPage(f"{path}.html", path, frame.title, html, step, tokens)
    view_name = "" if name == "overview" else name
    return RenderedPage(page_file(name), view_name, frame.title, html)


def _html(name: str, view: object, frame: Shell, context: PageContext) -> str:
    """Return the HTML of a page: in one file only ``<main>``, else a whole document."""
    language = context.options.language
    # ``page.html`` includes the template of ``<main>`` by the frame's ``kind``.
    template = f"main/{name}.html" if context.one_file else "page.html"
    translated = language.of(view)
    shown = SimpleNamespace(**shallow_dict(translated))
    templates = environment(language)
    html = templates.get_template(template).render(view=shown, shell=frame)
    # Jinja's macros are in a reference cycle, which would keep the view in memory for long.
    vars(shown).clear()
    return html


def shallow_dict(view: object) -> dict[str, Any]:
    """Return the fields of a dataclass; unlike ``asdict`` without copying what they hold."""
    names = [field.name for field in fields(view)]  # type: ignore[arg-type]
    return {name: getattr(view, name) for name in names}


def shell(
    name: str,
    context: PageContext,
    addresses: Addresses,
    step: int | None = None,
    *,
    description: str = "",
) -> Shell:
    """Return title, navigation and assets of a page; ``name``: of a ``Page``, or "step"."""
    titles = {page.name: page.title for page in context.navigation}
    title = context.title  # of the report, and of its overview
    if name != "overview":
        of_page = titles[name] if step is None else message("Step {step}", step=step)
        title = message("{page} · {run}", page=of_page, run=context.title)
    nav: list[tuple[str, Link]] = []
    foot: list[tuple[str, Link]] = []
    for page in context.navigation:
        link = Link(page.title, addresses.page(page.name))
        (nav if page.in_navigation else foot).append((page.name, link))
    if step is not None:  # the page that the reader is on, after those of every page
        here = Link(message("Step {step}", step=step), addresses.any_step(step))
        nav.append((name, here))
    language = context.options.language
    assets = {
        asset: addresses.root + path for asset, path in context.asset_files.items()
    }
    frame = Shell(
        title=title,
        run=context.title,
        kind=name,
        root=addresses.root,
        nav=nav,
        foot=foot,
        assets=assets,
        csp="" if context.one_file else FOLDER_POLICY,
        description=described(description, language),
        guide=addresses.guide,
    )
    return language.of(frame)


def described(text: str, language: Language) -> str:
    """Return a text as the description of a page: one line of MOST_DESCRIBED characters."""
    return one_line(language.of(text), MOST_DESCRIBED)
