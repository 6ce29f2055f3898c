"""Where pages and responses are found: files of a folder, or views inside one file."""

from __future__ import annotations

from dataclasses import dataclass

from rlreport.bake.views import Link

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
        """Return the address of an exported file; one file has none beside it."""
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
