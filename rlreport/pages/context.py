"""What all pages of a report share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rlreport.about.card import Card
from rlreport.check.finding import ToldFinding
from rlreport.check.limits import Thresholds
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Verdict
from rlreport.comparison.omitted import OmittedPrompts
from rlreport.draw.chart import Chart
from rlreport.options import BuildOptions
from rlreport.pages.encoded import EncodedPage, StoredPage
from rlreport.pages.plan import StepPlan, left_out
from rlreport.pages.quotes import Quotes
from rlreport.pages.table import ColumnView
from rlreport.read.rollouts import Rollouts, Selection
from rlreport.tables import Tables, counted_in_all
from rlreport.text.messages import message
from rlreport.text.private import PUBLIC

T = TypeVar("T")


class ListedPage(NamedTuple):
    """A page that every page links to."""

    name: str
    title: str
    in_navigation: bool = True  # else at the foot of the page


@dataclass(frozen=True, kw_only=True)
class PageContext:
    """Data shared by the pages of steps; picklable, so that worker processes can render them."""

    title: str  # title of the report
    options: BuildOptions
    navigation: tuple[ListedPage, ...]
    # numeric columns of the response list, the same for every step
    columns: list[ColumnView]
    # columns of short strings: the ending, further logged fields
    string_columns: list[ColumnView]
    # key of the string column that names the environment, "" without one
    environment: str
    text_columns: list[ColumnView]  # columns of the logged texts: prompt, response, …
    prefixes: tuple[str, ...]  # beginnings that most prompts share, which lists hide
    first_step: int  # the first step with training responses
    first_rewards: NDArray[np.float64]  # rewards of these responses
    one_file: bool
    advantages_logged: bool
    # name of a style sheet or script -> path; empty for a one-file report
    asset_files: dict[str, str]
    # columns of the table of steps that are shown as key figures, in order
    tile_names: tuple[str, ...]
    sampled: bool  # whether figures of texts and tokens are computed from a sample of the responses


@dataclass(frozen=True, slots=True)
class StepJob:
    """What a worker needs to render the page of a step."""

    plan: StepPlan  # which responses the page shows, and in which detail
    selection: Selection  # the texts and tokens of ``plan.rows``
    # all responses of the step: RESPONSE_COLUMNS, further logged fields by ``extra_key``, and with
    # ``--redact`` the number that replaces the response's text
    columns: dict[str, NDArray[Any]]
    shown: NDArray[np.int64]  # positions of ``plan.rows`` in ``columns``
    # columns of the table of steps, with values of the first, the previous and this step
    figures: dict[str, list[Any]]
    # this step and those the page links to: neighbours and the first
    linked: list[int]
    # findings that refer to the step, without data of other steps
    findings: list[ToldFinding]
    in_progress: bool  # whether the step is still being written


class StepPage(NamedTuple):
    """A rendered page of a step."""

    plan: StepPlan
    page: EncodedPage | StoredPage  # as rendered; of a ``RunReport``, in a file
    # the responses as rows of the responses page, see ``ListedRows``
    listed: dict[str, Any]
    # gzipped full texts of these responses, which the responses page searches
    texts: str
    has_tokens: bool

    @property
    def weight(self) -> int:
        """Bytes that the page and its texts take in the output."""
        return self.page.weight + len(self.texts)


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """A run whose logs were read and checked."""

    title: str  # title of its report
    options: BuildOptions
    tables: Tables
    verdict: Verdict
    spreading: SpreadingTexts  # phrases that became more frequent in responses
    rollouts: Rollouts  # the responses that pages may show, with their texts and tokens
    card: Card  # the configuration of the run
    author_notes: str  # Markdown text of the author's notes, "" without any
    # what is known of the quotes of responses in them
    quotes: Quotes = field(default_factory=dict)
    own_charts: Sequence[Chart]  # charts of the user's functions
    thresholds: Thresholds = field(default_factory=Thresholds)  # of the checks
    # the prompts whose texts are left out
    omitted: OmittedPrompts = field(default_factory=OmittedPrompts)

    @property
    def has_responses(self) -> bool:
        """Whether responses are logged, not only trainer metrics."""
        return not self.tables.responses.empty

    @property
    def hidden_in_words(self) -> list[str]:
        """What the options hide of texts and names, a sentence each."""
        public = [PUBLIC] if self.options.public else []
        return [*public, *self.omitted.in_words]

    @property
    def windows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last window of steps of the run, each as (first step, last step)."""
        if self.verdict.windows:
            return self.verdict.windows
        # The run is too short for windows of several steps: take its first and last step.
        steps = self.tables.without_step_in_progress().training().steps["step"].tolist()
        first = (steps[0], steps[0])
        last = (steps[-1], steps[-1])
        return first, last


class DataFiles(NamedTuple):
    """The contents of data files that are left out where a report would get too large."""

    responses: bytes = b""  # of ``data/responses.csv.gz``
    responses_count: int = 0  # number of its rows
    metrics: bytes = b""  # of ``data/metrics.csv``; empty if there is no such file


class Maker:
    """Base class of data from which values are computed once, and kept in the dict ``memo``."""

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.memo:
            self.memo[key] = make()
        return cast("T", self.memo[key])


@dataclass(frozen=True, kw_only=True)
class RunReport(Maker):
    """A run, what the pages of its report show, and what of them is rendered."""

    run: JudgedRun
    shared: PageContext
    # steps that get a page, each with its responses ranked by interest
    plans: list[StepPlan]
    listed: int = 0  # maximum number of responses of a step on the responses page
    # rendered pages of steps; empty until they are rendered
    step_pages: list[StepPage] = field(default_factory=list)
    data: DataFiles
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def shown_steps(self) -> list[int]:
        return [plan.step for plan in self.plans]

    @property
    def shown_rows(self) -> list[NDArray[np.int64]]:
        """The rows of the response table that the rendered pages of steps show."""
        return [page.plan.rows for page in self.step_pages]

    @property
    def listed_prompts(self) -> set[int]:
        """Ids of the prompts of which the responses page lists a response."""
        ids = set[int]()
        for page in self.step_pages:
            ids.update(map(int, page.listed["prompt_id"]))
        return ids

    @property
    def left_out(self) -> list[str]:
        """Sentences about what the report does not show."""
        tables = self.run.tables
        responses = tables.responses
        sentences = self._left_out_of_pages() if self.step_pages else []
        sentences += self.run.hidden_in_words
        count = self.data.responses_count
        total = len(responses)
        if not count and total:  # mail and Markdown have no data files
            text = message(
                "The report contains no data file with the figures of each response."
            )
            sentences.append(text)
        elif count < total:
            text = message(
                "The data files contain the figures of the last {some:count} of {all} only.",
                some=count,
                all=counted_in_all(responses["validation"]),
            )
            sentences.append(text)
        # In one file there are no data files to leave out.
        if len(tables.metrics) and not (self.data.metrics or self.shared.one_file):
            text = message(
                "metrics.csv is left out, as the trainer metrics are too large."
            )
            sentences.append(text)
        return sentences

    def _left_out_of_pages(self) -> list[str]:
        """Return sentences about the steps, texts and tokens that no page of a step shows."""
        responses = self.run.tables.responses
        # Without values per token, pages have no tokens that they could leave out.
        token_responses = 0
        if any(plan.arrays for plan in self.plans):
            token_responses = int((responses["response_tokens"] > 0).sum())
        return left_out(
            [page.plan for page in self.step_pages],
            self.run.tables.steps_with_responses,
            responses["validation"],
            token_responses,
        )


def findings_of_responses(
    findings: Sequence[ToldFinding], step: int
) -> dict[int, list[str]]:
    """Return n -> names of the findings that cite this response of the step."""
    names: dict[int, list[str]] = {}
    for finding in findings:
        for n in sorted({ref.n for ref in finding.evidence if ref.step == step}):
            names.setdefault(n, []).append(finding.name)
    return names
