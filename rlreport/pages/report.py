"""Build the pages and files of a report; worker processes render the pages of steps."""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.choose import Extreme, StepPlan, shown_prompts
from rlreport.columns import RESPONSE
from rlreport.comparison.reports import METRICS_FILE, REPORT, pack_table, response_data
from rlreport.comparison.reports import PATH as RESPONSES
from rlreport.draw.chart import Chart
from rlreport.draw.overview import arranged, overview_charts
from rlreport.draw.run_charts import token_charts
from rlreport.draw.svg import drawn
from rlreport.options import BuildOptions
from rlreport.pages.data import chart_path, csv, data_view, exports, report_json
from rlreport.pages.lists import (
    extreme_responses,
    listed_rows,
    prompts_view,
    responses_view,
    tokens_view,
    with_interest,
)
from rlreport.pages.notes import Targets, render_notes
from rlreport.pages.overview import overview_view, run_figures
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.step import GROUP_COLUMNS, group_figures, step_rows, step_view, steps_data
from rlreport.pages.templates import (
    Addresses,
    Finish,
    Maker,
    Page,
    assets,
    canonical_json,
    packed_json,
    rendered,
    script_json,
    shell,
)
from rlreport.pages.views import (
    TEXT_COLUMNS,
    TILES,
    TOOLS,
    KeyFigure,
    PageContext,
    RunContext,
    Shell,
    StepJob,
    StepPage,
    columns_with_data,
    ending_texts,
    extra_key,
    number_columns,
    prompt_prefixes,
    string_columns,
)
from rlreport.read.rollouts import Rollout, Selection
from rlreport.summarise.steps import environments_of
from rlreport.system.workers import Progress, Workers
from rlreport.tables import Tables
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.language import Language
from rlreport.text.messages import message

# Path of the script with data about the whole run; pages of steps contain their own step's only
RUN_SCRIPT = "data/run.js"
# Path of the script with the texts of all shown responses, for the responses page
TEXTS_SCRIPT = "data/texts.js"

_DRAWINGS = "drawings"  # key in ``ReportBuilder.memo`` of the result of ``_draw_pages``
_SECONDS_PER_PAGE = 0.02  # to decide whether several processes are worth their start
_TEXT_NUMBER = "text_number"  # key in ``StepJob.columns``
_AHEAD = 32  # pages per process that may be rendered while one process draws the charts


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
            "overview": [*arranged(charts, verdict.findings, verdict.lead), *self.own_charts],
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
            _DRAWINGS, lambda: _draw_pages(self.page_charts, self.options.language)
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
        return {int(one) for page in self.step_pages for one in page.listed["prompt_id"]}

    @property
    def _targets(self) -> Targets:
        shown = [page.plan.rows for page in self.step_pages]
        places = self.tables.responses[["step", "n"]].iloc[np.concatenate([[], *shown]).astype(int)]
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
        if live := self.options.live:
            steps |= {"live": live, "built": xxhash.xxh3_64_hexdigest(data)}
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
        titles = {chart_path(c): message("Chart: {title}", title=c.title) for c in self.charts}
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

    def steps_data(self) -> dict[str, Any]:
        shown = [page.plan.rows for page in self.step_pages]
        return steps_data(self, shown_prompts(self.tables.responses, shown))


def _draw_pages(charts: Mapping[str, list[Chart]], language: Language) -> dict[str, list[Chart]]:
    return {page: drawn(of_page, language) for page, of_page in charts.items()}


def render_steps(builder: ReportBuilder, level: int) -> list[StepPage]:
    """Render the pages of all the builder's steps; ``level`` of detail is an index into LEVELS.

    A worker process draws the run's charts, as a process that started V8 cannot fork any more.
    """
    plans = [plan.at(level) for plan in builder.plans]
    result = []
    shown_steps = builder.shown_steps
    charts = [] if _DRAWINGS in builder.memo else [builder.page_charts]
    work: list[Any] = [*charts, *(_step_job(builder, plan, shown_steps) for plan in plans)]
    context = {item.name: getattr(builder, item.name) for item in fields(PageContext)}
    shared = builder.finish, PageContext(**context)
    seconds = _SECONDS_PER_PAGE * len(plans)
    with builder.progress.phase(message("rendering"), len(plans), message("pages")) as advance:
        pages = builder.workers.map(_render, work, shared, seconds=seconds, ahead=_AHEAD)
        for _ in charts:
            builder.memo[_DRAWINGS] = next(pages)
        for page in pages:
            listed = with_interest(page.listed, builder, page.plan.pinned)
            result.append(page._replace(listed=listed))
            advance(1)
    return result


def _step_job(builder: ReportBuilder, plan: StepPlan, shown_steps: Sequence[int]) -> StepJob:
    tables = builder.tables
    step = plan.step
    responses, steps = builder.once("columns", lambda: _columns(builder))
    first, last = np.searchsorted(responses["step"], [step, step + 1]).tolist()
    findings = [
        finding.at(step)
        for finding in builder.verdict.findings
        if step in finding.steps or any(ref.step == step for ref in finding.shown)
    ]
    index = bisect_left(shown_steps, step)
    linked = {shown_steps[0], *shown_steps[max(0, index - 1) : index + 2]}
    linked |= {f.onset.step for f in findings if f.onset} & set(shown_steps)
    row = int(np.searchsorted(steps["step"], step))
    compared = sorted({0, max(0, row - 1), row})
    figures = {name: values[compared].tolist() for name, values in steps.items()}
    return StepJob(
        plan=plan,
        selection=Selection(builder.chosen, plan.rows),
        columns={name: values[first:last] for name, values in responses.items()},
        shown=plan.rows - first,
        figures=figures,
        linked=sorted(linked),
        findings=findings,
        in_progress=step == tables.in_progress,
    )


def _columns(builder: ReportBuilder) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    tables = builder.tables
    responses = {name: tables.responses[name].to_numpy() for name in RESPONSE}
    responses["ending"] = ending_texts(tables.responses["ending"])
    if len(tables.tools_used):
        responses[TOOLS.key] = tables.tools_used.to_numpy()
    for name, values in tables.extras.items():
        responses[extra_key(name)] = values.to_numpy()
    if builder.options.redact:
        responses[_TEXT_NUMBER] = response_numbers(tables.responses)
    if any(column in GROUP_COLUMNS for column in builder.columns):
        responses |= group_figures(tables.responses)
    names = ["step", "incomplete", *builder.tile_names]
    return responses, {name: tables.steps[name].to_numpy() for name in names}


def _render(job: StepJob | dict[str, list[Chart]], shared: tuple[Finish, PageContext]) -> Any:
    finish, context = shared
    if not isinstance(job, StepJob):
        return _draw_pages(job, context.options.language)
    rollouts = job.selection.rollouts.read(job.selection.rows, job.plan.with_tokens)
    if context.options.redact:
        facts = (job.columns[key][job.shown].tolist() for key in ("prompt_id", _TEXT_NUMBER))
        rollouts = list(map(redacted, rollouts, *facts))
    addresses = Addresses(frozenset(job.linked), root="../", one_file=context.one_file)
    rows = step_rows(job, rollouts, context)
    view = step_view(job, rows, context, addresses)
    content, weight = finish(rendered("step", view, context, addresses, job.plan.step))
    texts = view["texts"]
    listed = listed_rows(job, rollouts, rows.values, context)
    return StepPage(job.plan, content, weight + len(texts), listed, texts)


def page_context(run: str, tables: Tables, options: BuildOptions, *, one_file: bool) -> PageContext:
    judged = tables.without_step_in_progress().training()
    responses = tables.responses
    steps = judged.responses["step"].to_numpy()
    first = int(judged.steps["step"].iloc[0])
    files = {key: path for key, (path, _) in assets(options.language).files.items()}
    columns = number_columns(tables)
    strings = string_columns(tables)
    environments = environments_of(judged)
    key = extra_key(environments.column) if environments else ""
    grouped = len(judged.steps) and judged.steps["groups"].iloc[0] > 0  # so in all steps
    return PageContext(
        run=run,
        options=options,
        columns=[*columns, *(GROUP_COLUMNS if grouped else ())],
        string_columns=strings,
        environment=key if any(column.key == key for column in strings) else "",
        text_columns=[c for c in TEXT_COLUMNS if tables.fields.get(c.key)],
        prefixes=()
        if options.redact
        else prompt_prefixes(turns_as_text(turns(p)) or p for p in tables.prompts["prompt"]),
        has_rollouts=not responses.empty,
        first_step=first,
        first_rewards=judged.responses["reward"].to_numpy()[steps == first],
        one_file=one_file,
        advantages_logged=bool(tables.fields.get("advantages")),
        asset_files={} if one_file else {**files, "run": RUN_SCRIPT, "texts": TEXTS_SCRIPT},
        tile_names=tuple(columns_with_data(tables.steps, TILES)),
        sampled=bool(tables.sample_note),
    )
