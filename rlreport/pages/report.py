"""Build the pages and files of a report; worker processes render the pages of steps."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xxhash

from rlreport.comparison.data_file import METRICS_FILE, pack_table, response_data
from rlreport.comparison.data_file import PATH as RESPONSES
from rlreport.comparison.saved import REPORT
from rlreport.draw.catalogue import arranged, overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.run_charts import token_charts
from rlreport.draw.svg import drawn
from rlreport.options import BuildOptions
from rlreport.pages.author_notes import Targets, render_notes
from rlreport.pages.context import PageContext, RunContext
from rlreport.pages.data import chart_path, csv, data_view, exports, report_json
from rlreport.pages.figures import run_figures
from rlreport.pages.html import canonical_json, packed_json, script_json
from rlreport.pages.listed import (
    TEXT_COLUMNS,
    TILES,
    columns_with_data,
    extra_key,
    number_columns,
    prompt_prefixes,
    string_columns,
)
from rlreport.pages.overview import overview_view
from rlreport.pages.page import Addresses, Finish, Maker, Page, rendered, shell
from rlreport.pages.page_data import RunData
from rlreport.pages.plan import Extreme, shown_prompts
from rlreport.pages.prompts import extreme_responses, prompts_view
from rlreport.pages.responses import responses_view
from rlreport.pages.scripts import assets
from rlreport.pages.step import GROUP_COLUMNS, steps_data
from rlreport.pages.table import KeyFigure, Shell
from rlreport.pages.tokens import tokens_view
from rlreport.read.rollouts import Rollout
from rlreport.summarise.environments import environments_of
from rlreport.system.workers import Progress, Workers
from rlreport.tables import Tables
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.language import Language
from rlreport.text.messages import message

# Path of the script with data about the whole run; pages of steps contain their own step's only
RUN_SCRIPT = "data/run.js"
# Path of the script with the texts of all shown responses, for the responses page
TEXTS_SCRIPT = "data/texts.js"

DRAWINGS = "drawings"  # key in ``ReportBuilder.memo`` of the result of ``draw_pages``


@dataclass(frozen=True, kw_only=True)
class ReportBuilder(RunContext, Maker):
    """Everything an output format needs to write a report: data, charts and pages."""

    finish: Finish  # encodes a page for the output format
    progress: Progress
    workers: Workers
    own_charts: Sequence[Chart]  # charts of the user's functions
    # cache of values that ``Maker.once`` has computed
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def charts(self) -> Sequence[Chart]:
        return self.page_charts["overview"]

    @property
    def page_charts(self) -> dict[str, list[Chart]]:
        """Charts by page ("overview", "tokens"); only those of the user's functions are drawn."""
        return self.once("charts", self._page_charts)

    def _page_charts(self) -> dict[str, list[Chart]]:
        tables = self.tables
        verdict = self.verdict
        lead = [finding for finding in verdict.findings if finding.id == verdict.lead]
        charts = overview_charts(tables, lead)
        return {
            "overview": [
                *arranged(charts, verdict.findings, verdict.lead),
                *self.own_charts,
            ],
            "tokens": token_charts(self.spreading.by_step) if self.has_rollouts else [],
        }

    @property
    def extremes(self) -> list[tuple[Extreme, Rollout]]:
        return self.once("extremes", lambda: extreme_responses(self))

    @property
    def figures(self) -> list[KeyFigure]:
        return self.once("figures", lambda: run_figures(self))

    @property
    def shown(self) -> int:
        """Number of responses with text on pages of steps or, without these, on the overview."""
        if self.step_pages:
            return sum(len(page.plan.rows) for page in self.step_pages)
        return len({(rollout.step, rollout.n) for _, rollout in self.extremes})

    def with_data(self, room: int) -> ReportBuilder:
        """Return a copy with response data cut to ``room`` bytes; if 0, also without metrics."""
        tables = self.tables
        metrics = self.tables.metrics
        data = pack_table(response_data(tables, redact=bool(self.options.redact)), room)
        without_metrics = self.one_file or metrics.empty or not room
        return replace(
            self,
            response_data=data,
            metrics_data=b"" if without_metrics else csv(metrics),
        )

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path, bytes) of every page: first those about the run, then those of steps."""
        for page in self._run_pages():
            yield self.finish(page)[0]
        yield from (page.content for page in self.step_pages)

    def _run_pages(self) -> Iterator[Page]:
        addresses = self.addresses
        drawings = self.once(
            DRAWINGS, lambda: draw_pages(self.page_charts, self.options.language)
        )
        notes = render_notes(self.author_notes, self._targets)
        charts = drawings["overview"]
        overview = overview_view(self, addresses, charts, self.extremes, self.figures)
        views = {"overview": overview | {"notes": notes.html}}
        if self.has_rollouts:
            listed = [page.listed for page in self.step_pages]
            views |= {
                "responses": responses_view(listed, self, addresses, self.shown),
                "prompts": prompts_view(self, addresses, self._listed_prompts),
                "tokens": tokens_view(self, drawings["tokens"], addresses),
            }
        views["data"] = data_view(self, addresses, self.exported, notes.remark)
        for kind, view in views.items():
            yield rendered(kind, view, self, addresses)

    @property
    def addresses(self) -> Addresses:
        return Addresses(frozenset(self.shown_steps), one_file=self.one_file)

    @property
    def _listed_prompts(self) -> set[int]:
        return {
            int(one) for page in self.step_pages for one in page.listed["prompt_id"]
        }

    @property
    def _targets(self) -> Targets:
        shown = [page.plan.rows for page in self.step_pages]
        places = self.tables.responses[["step", "n"]].iloc[
            np.concatenate([[], *shown]).astype(int)
        ]
        return Targets(
            self.addresses,
            responses=set(places.itertuples(index=False, name=None)),
            prompts=self._listed_prompts,
            charts={c.name: self.options.language.of(c.title) for c in self.charts},
            findings={finding.id for finding in self.verdict.findings},
        )

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path in the folder, bytes) of every file of a report folder, pages first."""
        yield from self.pages()
        yield from assets(self.options.language).files.values()
        data = canonical_json(report_json(self), indent=True)
        steps = self.steps_data()
        if self.options.live:
            steps["live"] = self.options.live
            steps["built"] = xxhash.xxh3_64_hexdigest(data)
        yield RUN_SCRIPT, f"globalThis.rlreportSteps = {script_json(steps)};\n".encode()
        texts = script_json(self._texts)
        yield TEXTS_SCRIPT, f"globalThis.rlreportTexts = {texts};\n".encode()
        yield REPORT, data
        yield RESPONSES, self.response_data[0]
        if self.metrics_data:
            yield METRICS_FILE, self.metrics_data
        yield from self._exports

    @property
    def _exports(self) -> list[tuple[str, bytes]]:
        return self.once("exports", lambda: list(exports(self, self.charts)))

    @property
    def exported(self) -> dict[str, str]:
        """Path and label of each file to download; empty if the format has no separate files."""
        if self.one_file:
            return {}
        metrics = [METRICS_FILE] if self.metrics_data else []
        paths = [REPORT, RESPONSES, *metrics, *(path for path, _ in self._exports)]
        titles = {
            chart_path(c): message("Chart: {title}", title=c.title) for c in self.charts
        }
        return {path: titles.get(path, path) for path in paths}

    def frame(self) -> Shell:
        """Return the frame of a one-file report; ``deliver.email`` sets its security policy."""
        return shell("overview", self, self.addresses)

    def nodes(self) -> list[tuple[str, str, str]]:
        """Return (media type, CSS class, content) of each data element of a one-file report."""
        binary = "application/octet-stream"
        responses = base64.b64encode(self.response_data[0]).decode()
        return [
            ("application/json", "steps-data", script_json(self.steps_data())),
            (binary, "report-json", packed_json(report_json(self))),
            (binary, "responses-data", responses),
            ("application/json", "texts-data", script_json(self._texts)),
        ]

    @property
    def _texts(self) -> dict[str, str]:
        return {str(page.plan.step): page.texts for page in self.step_pages}

    def steps_data(self) -> RunData:
        shown = [page.plan.rows for page in self.step_pages]
        return steps_data(self, shown_prompts(self.tables.responses, shown))


def draw_pages(
    charts: Mapping[str, list[Chart]], language: Language
) -> dict[str, list[Chart]]:
    return {page: drawn(of_page, language) for page, of_page in charts.items()}


def page_context(
    run: str, tables: Tables, options: BuildOptions, *, one_file: bool
) -> PageContext:
    judged = tables.without_step_in_progress().training()
    responses = tables.responses
    steps = judged.responses["step"].to_numpy()
    first = int(judged.steps["step"].iloc[0])
    files = {key: path for key, (path, _) in assets(options.language).files.items()}
    columns = number_columns(tables)
    strings = string_columns(tables)
    environments = environments_of(judged)
    key = extra_key(environments.column) if environments else ""
    grouped = (
        len(judged.steps) and judged.steps["groups"].iloc[0] > 0
    )  # so in all steps
    return PageContext(
        run=run,
        options=options,
        columns=[*columns, *(GROUP_COLUMNS if grouped else ())],
        string_columns=strings,
        environment=key if any(column.key == key for column in strings) else "",
        text_columns=[c for c in TEXT_COLUMNS if tables.fields.get(c.key)],
        prefixes=()
        if options.redact
        else prompt_prefixes(
            turns_as_text(turns(p)) or p for p in tables.prompts["prompt"]
        ),
        has_rollouts=not responses.empty,
        first_step=first,
        first_rewards=judged.responses["reward"].to_numpy()[steps == first],
        one_file=one_file,
        advantages_logged=bool(tables.fields.get("advantages")),
        asset_files={}
        if one_file
        else {**files, "run": RUN_SCRIPT, "texts": TEXTS_SCRIPT},
        tile_names=tuple(columns_with_data(tables.steps, TILES)),
        sampled=bool(tables.sample_note),
    )
