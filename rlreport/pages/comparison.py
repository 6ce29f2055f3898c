"""Render the page and the data files of a comparison of two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rlreport.comparison.export import compare_json, prompts_table
from rlreport.comparison.headline import headline, sentence
from rlreport.comparison.outcome import Outcome
from rlreport.draw.chart import Chart
from rlreport.options import CompareOptions
from rlreport.pages.compare.sides import packed_pair, terms_of_tokens
from rlreport.pages.compare.view import ComparisonView, comparison_view
from rlreport.pages.context import Maker
from rlreport.pages.data import chart_path, csv
from rlreport.pages.encoded import EncodedPage
from rlreport.pages.fit import too_large
from rlreport.pages.html import Node, canonical_json, environment, script_json
from rlreport.pages.page import (
    FOLDER_POLICY,
    TOKENS_SCRIPT,
    Encode,
    RenderedPage,
    described,
    script_of_tokens,
)
from rlreport.pages.scripts import assets
from rlreport.pages.summary import Detail
from rlreport.pages.table import Shell, terms_in
from rlreport.pages.terms import TERMS_SCRIPT, packed_definitions
from rlreport.text.messages import message

PAGE = "compare.html"
INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class ComparisonPages(Maker):
    """Everything an output form needs to write a comparison."""

    outcome: Outcome
    title: str
    options: CompareOptions
    encode: Encode
    one_file: bool  # whether the output is one HTML file, not a folder
    shown: int  # maximum number of prompts won or lost (flips) that the page shows
    with_tokens: int  # maximum number of these with the tokens of both responses
    charts: Sequence[Chart]
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def view(self) -> ComparisonView:
        view = comparison_view(
            self.outcome,
            self.charts,
            self.shown,
            list(self._tokens()),
            self.options.language,
        )
        notes = [*view.notes, *self.options.set_by_texts]
        return self.options.language.of(replace(view, notes=notes))

    def summary(self) -> ComparisonSummary:
        return ComparisonSummary(self)

    def fitted(
        self, write: Callable[[ComparisonPages], int], limit: int, *, with_steps: bool
    ) -> tuple[ComparisonPages, int]:
        """Write the comparison with less until it fits; return it and its size.

        For the parameters see ``Deliverable.fitted``; a comparison has no pages of steps.
        """
        pages = self
        size = write(pages)
        while size > limit:
            # Each attempt writes the whole page: halving needs few of them. Tokens go first.
            if any(pages._tokens()):
                pages = replace(pages, with_tokens=pages.with_tokens // 2)
            elif pages.shown:
                pages = replace(pages, shown=pages.shown // 2)
            else:
                raise too_large(limit, size)
            size = write(pages)
        return pages, size

    def frame(self) -> Shell:
        """Return the frame of the only page: without navigation and, in one file, asset paths."""
        files = {}
        if not self.one_file:
            shared = assets(self.options.language).files
            files = {name: path for name, (path, _) in shared.items()}
            files |= {"terms": TERMS_SCRIPT, "tokens": TOKENS_SCRIPT}
        return Shell(
            title=self.title,
            run=self.title,
            kind="compare",
            assets=files,
            csp=FOLDER_POLICY,
            description=described(sentence(self.outcome), self.options.language),
        )

    def pages(self) -> Iterator[EncodedPage]:
        """Yield the only page, and in a folder an index page that leads on to it."""
        frame = self.frame()
        template = "main/compare.html" if self.one_file else "page.html"
        templates = environment(self.options.language)
        html = templates.get_template(template).render(view=self.view, shell=frame)
        # As the first page of one file, it has no name in its address.
        page = RenderedPage(path=PAGE, view="", title=frame.title, html=html)
        yield self.encode(page)
        if not self.one_file:
            html = templates.get_template("lead_on.html").render(shell=frame, href=PAGE)
            index = RenderedPage(INDEX, view="index", title=frame.title, html=html)
            yield self.encode(index)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path in the folder, bytes) of every file of a comparison's folder."""
        for page in self.pages():
            yield page.path, page.content
        yield from assets(self.options.language).files.values()
        data = compare_json(self.outcome)
        yield "data/compare.json", canonical_json(data, indent=True)
        yield "data/prompts.csv", csv(prompts_table(self.outcome))
        definitions = script_json(self._definitions)
        yield TERMS_SCRIPT, f"globalThis.rlreportTerms = {definitions};\n".encode()
        for number, packed in self._tokens().items():
            yield script_of_tokens(str(number), packed)
        for chart in self.charts:
            yield chart_path(chart), canonical_json(chart.spec, indent=True)

    def nodes(self) -> list[Node]:
        """Return the data elements of a one-file comparison."""
        data = script_json(compare_json(self.outcome))
        packed = "application/octet-stream"
        return [
            Node("application/json", "compare-json", data),
            Node(packed, "terms-data", self._definitions),
            *(
                Node(packed, "tokens-data", tokens, str(number))
                for number, tokens in self._tokens().items()
            ),
        ]

    def _tokens(self) -> dict[int, str]:
        """Return number of a shown prompt, from 1 -> the packed tokens of both its responses."""
        most = min(self.shown, self.with_tokens)
        packed = self.once("tokens", self._all_tokens)
        return {number: tokens for number, tokens in packed.items() if number <= most}

    def _all_tokens(self) -> dict[int, str]:
        pairs = enumerate(self.outcome.token_pairs, start=1)
        packed = {n: packed_pair(pair, self.options.language) for n, pair in pairs}
        return {number: tokens for number, tokens in packed.items() if tokens}

    @property
    def _definitions(self) -> str:
        """The definitions of the figures that the page shows, packed."""
        return self.once("definitions", self._all_definitions)

    def _all_definitions(self) -> str:
        view = self.view
        terms = terms_in(view) | terms_of_tokens(self.outcome.token_pairs)
        terms |= {column["term"] for column in view.data["compared"]["columns"]}
        return packed_definitions(terms, self.options.language)


class ComparisonSummary:
    """The summary of a comparison, for mail and Markdown."""

    mail_template = "compare_email"
    markdown_template = "compare.md"
    details: Sequence[Detail] = (
        Detail(8, 1_500),
        Detail(4, 800),
        Detail(2, 300),
        Detail(0, 0),
    )
    plain_notes = ""

    def __init__(self, pages: ComparisonPages) -> None:
        self.pages = pages

    @property
    def subject(self) -> str:
        outcome = self.pages.outcome
        result = headline(outcome)
        # Unless both are broken, the result names what was compared.
        if len(outcome.broken) < len(outcome.runs) and not self.pages.options.title:
            return result
        return message("{run} · {verdict}", run=self.pages.title, verdict=result)

    @cached_property
    def view(self) -> ComparisonView:
        return self.pages.view

    def charts(self, width: int) -> list[Chart]:
        return list(self.pages.charts)

    def markdown_values(self, detail: Detail) -> dict[str, Any]:
        return {}
