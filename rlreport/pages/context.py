"""What all pages of a report share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.about.card import Card
from rlreport.check.finding import ToldFinding
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Verdict
from rlreport.options import BuildOptions
from rlreport.pages.plan import StepPlan, left_out
from rlreport.pages.table import ColumnView
from rlreport.read.rollouts import Rollouts, Selection
from rlreport.tables import Tables, counted_in_all
from rlreport.text.messages import message


@dataclass(frozen=True, kw_only=True)
class PageContext:
    """Data shared by the pages of steps; picklable, so that worker processes can render them."""

    run: str  # title of the report
    options: BuildOptions
    columns: list[
        ColumnView
    ]  # numeric columns of the response list, the same for every step
    string_columns: list[
        ColumnView
    ]  # columns of short strings: the ending, further logged fields
    environment: (
        str  # key of the string column that names the environment, "" without one
    )
    text_columns: list[ColumnView]  # columns of the logged texts: prompt, response, …
    prefixes: tuple[str, ...]  # beginnings that most prompts share, which lists hide
    has_rollouts: bool  # whether responses are logged, not only trainer metrics
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
    # this step and those the page links to: neighbours, the first, onsets of findings
    linked: list[int]
    findings: list[
        ToldFinding
    ]  # findings that refer to the step, without data of other steps
    in_progress: bool  # whether the step is still being written


class StepPage(NamedTuple):
    plan: StepPlan
    content: tuple[str, bytes]  # path in the report folder, and content
    weight: int  # bytes that the page and ``texts`` take in the output, depending on its format
    listed: dict[
        str, Any
    ]  # the responses as rows of the responses page, see ``ListedRows``
    texts: (
        str  # gzipped full texts of these responses, which the responses page searches
    )


@dataclass(frozen=True, kw_only=True)
class RunContext(PageContext):
    """Data for the pages about the whole run, whose logs were read and checked."""

    chosen: Rollouts  # the responses that pages may show, with their texts and tokens
    tables: Tables
    verdict: Verdict
    spreading: (
        SpreadingTexts  # phrases that became more frequent in responses during the run
    )
    card: Card  # the configuration of the run
    author_notes: str  # Markdown text of the author's notes, "" without any
    listed: int = 0  # maximum number of responses of a step on the responses page
    plans: list[
        StepPlan
    ]  # steps that get a page, each with its responses ranked by interest
    # their rendered pages; empty until they are rendered
    step_pages: list[StepPage] = field(default_factory=list)
    # content of ``data/responses.csv.gz``, and the number of its rows
    response_data: tuple[bytes, int] = (b"", 0)
    metrics_data: bytes = (
        b""  # content of ``data/metrics.csv``, empty if there is no such file
    )

    @property
    def windows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last window of steps of the run, each as (first step, last step)."""
        if self.verdict.windows:
            return self.verdict.windows
        # a very short run
        steps = self.tables.without_step_in_progress().training().steps["step"].tolist()
        return (steps[0], steps[0]), (steps[-1], steps[-1])

    @property
    def shown_steps(self) -> list[int]:
        return [plan.step for plan in self.plans]

    @property
    def left_out(self) -> list[str]:
        """Sentences about what the report does not show."""
        responses = self.tables.responses
        sentences = list[str]()
        if self.step_pages:
            has_views = any(plan.arrays for plan in self.plans)  # else no token strings
            token_responses = (
                int((responses["response_tokens"] > 0).sum()) if has_views else 0
            )
            plans = [page.plan for page in self.step_pages]
            steps = self.tables.steps_with_responses
            sentences = left_out(plans, steps, responses["validation"], token_responses)
        count = self.response_data[1]
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
        if len(self.tables.metrics) and not (self.metrics_data or self.one_file):
            text = message(
                "metrics.csv is left out, as the trainer metrics are too large."
            )
            sentences.append(text)
        return sentences


def findings_of_responses(
    findings: Sequence[ToldFinding], step: int
) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for finding in findings:
        for n in sorted({ref.n for ref in finding.evidence if ref.step == step}):
            names.setdefault(n, []).append(finding.name)
    return names
