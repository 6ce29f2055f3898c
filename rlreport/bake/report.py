"""Builds the pages and files of a report."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from rlreport.bake.assets import assets
from rlreport.bake.context import (
    TEXT_COLUMNS,
    TILES,
    RunContext,
    fed,
    number_columns,
    string_columns,
)
from rlreport.bake.data_page import data_view, exports, report_json
from rlreport.bake.findings import method_view
from rlreport.bake.key_figures import trainer_figures
from rlreport.bake.overview_page import overview_view
from rlreport.bake.pages import Addresses, Finish, Maker, Page, rendered, shell
from rlreport.bake.prompts_tokens import RunTexts, prompts_view, run_texts, tokens_view
from rlreport.bake.responses_page import ListedRows, responses_view, rows_listed
from rlreport.bake.script_json import canonical_json, packed_json, script_json
from rlreport.bake.step_page import steps_data
from rlreport.bake.views import Shell
from rlreport.card import Card
from rlreport.check.finding import Verdict
from rlreport.check.limits import Thresholds
from rlreport.check.run import Run
from rlreport.check.spreading import SpreadingTexts
from rlreport.choose import Candidate, Plan, shown_prompts
from rlreport.comparison.data import PATH as RESPONSES
from rlreport.comparison.data import REPORT, packed, response_data
from rlreport.draw.chart import Chart
from rlreport.draw.overview import overview_charts
from rlreport.draw.prompts import prompt_charts, token_charts
from rlreport.draw.svg import drawn
from rlreport.options import FigureOptions, ReadOptions, ReportOptions
from rlreport.progress import Progress
from rlreport.read.readback import RowLocations
from rlreport.several_runs import SEVERAL_RUNS
from rlreport.summarise import commonest, window_table
from rlreport.tables import Tables
from rlreport.text.messages import message, sentences
from rlreport.workers import Workers

RUN_SCRIPT = "data/run.js"
"""Script with data about the whole run, so that the pages of steps do not depend on the run."""
STAMP_FORMAT = "%Y-%m-%d %H:%M UTC"


@dataclass(slots=True)
class StepPages:
    """The rendered pages of the steps.

    Attributes:
        plan: what they show.
        pages: path below the report's root and bytes, by step.
        listed: their rows in the list of the run.
        weight: size of the pages in bytes.
    """

    plan: Plan
    pages: list[tuple[str, bytes]] = field(default_factory=list)
    listed: list[ListedRows] = field(default_factory=list)
    weight: int = 0


@dataclass(frozen=True, slots=True)
class ReportBuilder(Maker):
    """Everything an output format needs to write a report.

    The pages of steps are rendered first (``steps``), those of the run by ``pages``.

    Attributes:
        candidates: steps that have a page.
        finish: encodes a page for the output format.
        texts: responses read again for the pages of the run.
        charts: drawn charts of the overview.
        response_data: content of ``data/responses.csv.gz``, and its number of responses.
        steps: the steps' pages, None until they are rendered.
        memo: results of ``once``.
    """

    locations: RowLocations
    context: RunContext
    candidates: list[Candidate]
    finish: Finish
    texts: RunTexts
    spreading: SpreadingTexts
    progress: Progress
    workers: Workers
    charts: Sequence[Chart]
    response_data: tuple[bytes, int]
    steps: StepPages | None = None
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def tables(self) -> Tables:
        """All tables."""
        return self.context.tables

    @property
    def sentence(self) -> str:
        """The verdict in one sentence or two."""
        return self.context.verdict.sentence

    @property
    def plan(self) -> Plan:
        """The plan of what the pages of steps show; empty until they are rendered."""
        return self.steps.plan if self.steps else Plan([], self.tables.steps_with_responses)

    @property
    def shown(self) -> int:
        """Number of responses shown with their text on the pages of steps and the overview."""
        if self.steps:
            return self.plan.responses
        return len({(rollout.step, rollout.n) for _, rollout in self.texts.extremes})

    def linking(self, candidates: list[Candidate], limit: int) -> ReportBuilder:
        """Return a report of at most ``limit`` bytes with these steps, not rendered yet."""
        shown_steps, listed = [one.step for one in candidates], rows_listed(candidates, limit)
        context = replace(self.context, shown_steps=shown_steps, listed=listed)
        return replace(self, candidates=candidates, context=context)

    def without_responses(self) -> ReportBuilder:
        """Return the report without the response data, which gives the smallest size."""
        data = response_data(self.tables, redact=bool(self.context.report.redact))
        return replace(self, response_data=packed(data, 0))

    def holding(self, steps: StepPages) -> ReportBuilder:
        """Return the report with these rendered pages of its steps."""
        responses = self.tables.responses
        token_responses = int((responses["response_tokens"].fillna(0) > 0).sum())
        left_out = steps.plan.left_out(len(responses), token_responses)
        left_out += _data_left_out(self.response_data[1], len(responses))
        return replace(self, steps=steps, context=replace(self.context, left_out=left_out))

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yield every encoded page: the pages of the run, then those of the steps in order."""
        for page in self._run_pages():
            yield self.finish(page)[0]
        if self.steps:
            yield from self.steps.pages

    def _run_pages(self) -> Iterator[Page]:
        context, tables, addresses = self.context, self.tables, self.addresses
        language, texts, spreading = context.report.language, self.texts, self.spreading
        listed = self.steps.listed if self.steps else []
        total, shown = len(tables.responses), self.plan.responses
        of_prompts = drawn(prompt_charts(tables), language)
        of_tokens = drawn(token_charts(spreading.by_step), language)
        views = {
            "overview": overview_view(context, addresses, self.charts, texts.extremes),
            "responses": responses_view(listed, context, addresses, total, shown),
            "prompts": prompts_view(tables, texts, of_prompts, addresses),
            "tokens": tokens_view(tables, spreading.table, of_tokens, context.windows, addresses),
            "data": data_view(context, addresses, self.exported),
            "checks": method_view(context.thresholds),
        }
        for kind, view in views.items():
            yield rendered(kind, view, context, addresses)

    @property
    def addresses(self) -> Addresses:
        """Addresses as seen from the pages of the run."""
        return Addresses(frozenset(self.context.shown_steps), one_file=self.context.one_file)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path below the root, bytes) of every file of a report folder, pages first."""
        yield from self.pages()
        yield from assets(self.context.report.language).files.values()
        data = canonical_json(report_json(self.context, self.plan), indent=True)
        steps = self.steps_data()
        if live := self.context.report.live:
            steps |= {"live": live, "built": xxhash.xxh3_64_hexdigest(data)}
        yield RUN_SCRIPT, f"globalThis.rlreportSteps = {script_json(steps)};\n".encode()
        yield REPORT, data
        yield RESPONSES, self.response_data[0]
        yield from self._exports

    @property
    def _exports(self) -> list[tuple[str, bytes]]:
        return self.once("exports", lambda: list(exports(self.context, self.charts)))

    @property
    def exported(self) -> list[str]:
        """Paths of files to download; empty if the output format has no separate files."""
        if self.context.one_file:
            return []
        return [REPORT, RESPONSES, *(path for path, _ in self._exports)]

    def frame(self) -> Shell:
        """Return the frame of the one-file format, with an empty Content-Security-Policy."""
        return shell("overview", self.context, self.addresses)

    def nodes(self) -> list[tuple[str, str, str]]:
        """Return the data of the one file: (media type, class, content)."""
        binary = "application/octet-stream"
        responses = base64.b64encode(self.response_data[0]).decode()
        return [
            ("application/json", "steps-data", script_json(self.steps_data())),
            (binary, "report-json", packed_json(report_json(self.context, self.plan))),
            (binary, "responses-data", responses),
        ]

    def steps_data(self) -> dict[str, Any]:
        """Return the data about the whole run for pages of steps."""
        shown = [step.rows for step in self.plan.steps]
        return steps_data(self.context, shown_prompts(self.tables.responses, shown))


def prepare(
    name: str,
    locations: RowLocations,
    tables: Tables,
    verdict: Verdict,
    spreading: SpreadingTexts,
    candidates: list[Candidate],
    finish: Finish,
    *,
    read: ReadOptions,
    figures: FigureOptions,
    report: ReportOptions,
    file_aliases: dict[str, str],
    one_file: bool,
    progress: Progress,
    workers: Workers,
    data_room: int,
    thresholds: Thresholds,
    own_charts: Sequence[Chart],
    card: Card,
) -> ReportBuilder:
    """Gather what the pages need: names, columns, charts and the texts of the run's pages."""
    judged = tables.settled().training()
    responses, steps = tables.responses, judged.responses["step"].to_numpy()
    first, last = int(steps[0]), int(steps[-1])
    windows = verdict.windows or ((first, first), (last, last))  # too short a run has none
    style = {key: path for key, (path, _) in assets(report.language).files.items()}
    data = packed(response_data(tables, redact=bool(report.redact)), data_room)
    context = RunContext(
        run=report.title or name,
        report=report,
        read=read,
        figures=figures,
        columns=number_columns(
            responses, tables.extras, tables.reward_parts, sampled=bool(tables.sample_note)
        ),
        string_columns=string_columns(tables.extras),
        text_columns=[c for c in TEXT_COLUMNS if tables.fields.get(c.key)],
        first_rewards=judged.responses.loc[steps == steps[0], ["step", "reward"]],
        one_file=one_file,
        advantages_logged=bool(tables.fields.get("advantages")),
        file_aliases=file_aliases,
        asset_files={} if one_file else {**style, "run": RUN_SCRIPT},
        stamp=stamp(report),
        tile_names=tuple(fed(tables.steps, TILES)),
        sampled=bool(tables.sample_note),
        tables=tables,
        windows=windows,
        window_figures=window_table(judged.responses, judged.steps, windows),
        shown_steps=[candidate.step for candidate in candidates],
        verdict=verdict,
        usual_responses=commonest(judged.steps["responses"].to_numpy()),
        thresholds=thresholds,
        card=card,
        mixed=sentences(note.text for note in tables.notes if note.kind == SEVERAL_RUNS),
        trainer_figures=trainer_figures(Run(tables.settled(), thresholds)),
        left_out=_data_left_out(data[1], len(responses)),
    )
    leading = [finding for finding in verdict.findings if finding.id == verdict.lead]
    charts = overview_charts(tables, leading, band=report.band, run=context.run)
    return ReportBuilder(
        locations,
        context,
        candidates,
        finish,
        run_texts(locations, context),
        spreading,
        progress,
        workers,
        [*drawn(charts, report.language), *own_charts],
        data,
    )


def _data_left_out(count: int, total: int) -> list[str]:
    if count == total:
        return []
    text = message(
        "Its data files have the figures of only the last {some:count} of {all:count} responses.",
        some=count,
        all=total,
    )
    return [text]


def stamp(report: ReportOptions) -> str:
    """Return the UTC time of building: ``SOURCE_DATE_EPOCH`` if set, now with ``--stamp``."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal():
        return time.strftime(STAMP_FORMAT, time.gmtime(int(epoch)))
    return time.strftime(STAMP_FORMAT, time.gmtime()) if report.stamp else ""
