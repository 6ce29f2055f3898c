"""Where pages and responses are found: files of a folder, or views inside one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rlreport.bake.views import Link

PROMPTS = "data/prompts.csv"
"""File of the figures of all prompts."""


class Addresses(Protocol):
    """Addresses as seen from one page."""

    def page(self, kind: str) -> str:
        """Address of a page of PAGE_FILES."""

    def step(self, step: int) -> str | None:
        """Address of a step's page, None when it has none."""

    def response(self, step: int, n: int, token: int | None = None) -> str | None:
        """Address of a response, at a token if given; None when its step has no page."""

    def prompt(self, prompt_id: int) -> str | None:
        """Address of an opened prompt on the prompts page."""

    def any_response(self) -> str:
        """Address of a response, ``{step}`` and ``{n}`` still to be filled in."""

    def file(self, path: str) -> str | None:
        """Address of an exported file, None where the form carries none."""


PAGE_FILES = {
    "overview": "index.html",
    "responses": "responses.html",
    "prompts": "prompts.html",
    "tokens": "tokens.html",
    "data": "data.html",
    "checks": "checks.html",
}


@dataclass(frozen=True, slots=True)
class FolderAddresses:
    """Addresses between the files of a folder.

    Attributes:
        steps: steps that have a page.
        root: the report's root as seen from this page: "" or "../".
    """

    steps: frozenset[int]
    root: str = ""

    def page(self, kind: str) -> str:
        """See Addresses."""
        return self.root + PAGE_FILES[kind]

    def step(self, step: int) -> str | None:
        """See Addresses."""
        return f"{self.root}{step_file(step)}" if step in self.steps else None

    def response(self, step: int, n: int, token: int | None = None) -> str | None:
        """See Addresses."""
        at_token = "" if token is None else f"&token={token}"
        return f"{self.root}{step_file(step)}#r={n}{at_token}" if step in self.steps else None

    def prompt(self, prompt_id: int) -> str:
        """See Addresses."""
        return f"{self.root}{PAGE_FILES['prompts']}#p={prompt_id}"

    def any_response(self) -> str:
        """See Addresses."""
        return f"{self.root}{step_file('{step}')}#r={{n}}"

    def file(self, path: str) -> str | None:
        """See Addresses."""
        return self.root + path


@dataclass(frozen=True, slots=True)
class ViewAddresses:
    """Addresses of the views of the one-file form."""

    steps: frozenset[int]

    def page(self, kind: str) -> str:
        """See Addresses."""
        return "#/" if kind == "overview" else f"#/{kind}"

    def step(self, step: int) -> str | None:
        """See Addresses."""
        return f"#/steps/{step}" if step in self.steps else None

    def response(self, step: int, n: int, token: int | None = None) -> str | None:
        """See Addresses."""
        at_token = "" if token is None else f"&token={token}"
        return f"#/steps/{step}?r={n}{at_token}" if step in self.steps else None

    def prompt(self, prompt_id: int) -> str:
        """See Addresses."""
        return f"#/prompts?p={prompt_id}"

    def any_response(self) -> str:
        """See Addresses."""
        return "#/steps/{step}?r={n}"

    def file(self, path: str) -> str | None:
        """The one file holds ``report.json`` alone, as a node without an address."""
        return None


def step_file(step: int | str) -> str:
    """File of a step's page, relative to the root."""
    return f"steps/{step}.html"


def link(text: str, href: str | None) -> Link:
    """A link; an empty address is shown as plain text."""
    return Link(text, href or "")
