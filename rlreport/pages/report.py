"""The pages and files of a run's report."""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import xxhash

from rlreport.comparison.data_file import METRICS_FILE
from rlreport.comparison.data_file import PATH as RESPONSES
from rlreport.comparison.saved import REPORT
from rlreport.options import BuildOptions
from rlreport.pages.context import (
    JudgedRun,
    ListedPage,
    PageContext,
    RunReport,
)
from rlreport.pages.data import data_files, exports, report_json
from rlreport.pages.encoded import EncodedPage
from rlreport.pages.fit import fit_steps, fit_without_steps
from rlreport.pages.html import (
    Node,
    canonical_json,
    gzip_base64,
    packed_json,
    script_json,
)
from rlreport.pages.listed import (
    ERRORS,
    TEXT_COLUMNS,
    TILES,
    columns_with_data,
    error_counts,
    extra_key,
    number_columns,
    prompt_prefixes,
    string_columns,
)
from rlreport.pages.page import TOKENS_SCRIPT, Addresses, rendered, shell
from rlreport.pages.plan import choose
from rlreport.pages.registry import PAGES
from rlreport.pages.scripts import assets
from rlreport.pages.step import GROUP_COLUMNS, run_data
from rlreport.pages.step_jobs import Renderer, render_steps
from rlreport.pages.summary import RunSummary
from rlreport.pages.table import ColumnView, Shell
from rlreport.pages.terms import PAGE as TERMS
from rlreport.pages.terms import TERMS_SCRIPT, terms_view
from rlreport.summarise.environments import environments_of
from rlreport.system.own_output import BUILT_FROM
from rlreport.tables import Tables
from rlreport.text.chat import turns, turns_as_text

T = TypeVar("T")

# Path of the script with data about the whole run; pages of steps contain their own step's only
RUN_SCRIPT = "data/run.js"
# Path of the script with the texts of all shown responses, for the responses page
TEXTS_SCRIPT = "data/texts.js"
# Path of the script with the definitions of figures, which pages load with the first that is opened
# Fraction of the maximum size for the numbers (no texts) of all responses
DATA_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RunPages:
    """Everything an output form needs to write the report of a run."""

    report: RunReport
    renderer: Renderer

    @classmethod
    def of(
        cls, run: JudgedRun, renderer: Renderer, *, limit: int, one_file: bool
    ) -> RunPages:
        """Return the pages of a report of up to ``limit`` bytes, of which none is rendered yet."""
        shared = page_context(run, one_file=one_file)
        report = RunReport(
            run=run,
            shared=shared,
            plans=choose(run.tables, run.verdict, run.options),
            data=data_files(run, int(limit * DATA_SHARE), shared),
        )
        return cls(report, renderer)

    @property
    def title(self) -> str:
        return self.report.run.title

    @property
    def options(self) -> BuildOptions:
        return self.report.run.options

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        return self.report.once(key, make)

    def summary(self) -> RunSummary:
        return RunSummary(self.report)

    def fitted(
        self, write: Callable[[RunPages], int], limit: int, *, with_steps: bool
    ) -> tuple[RunPages, int]:
        """Write the most detailed report of up to ``limit`` bytes; return it and its size.

        For the parameters see ``Deliverable.fitted``.
        """

        # ``pages.fit`` knows reports, not the pages of an output form.
        def write_report(report: RunReport) -> int:
            return write(replace(self, report=report))

        def render(report: RunReport, level: int) -> RunReport:
            """Render the pages of the planned steps; ``level`` of detail: an index into LEVELS."""
            pages = render_steps(report, level, self.renderer)
            return replace(report, step_pages=pages)

        if with_steps and self.report.plans:
            fitted = fit_steps(self.report, render, write_report, limit)
        else:
            fitted = fit_without_steps(self.report, write_report, limit)
        return replace(self, report=fitted.report), fitted.size

    def pages(self) -> Iterator[EncodedPage]:
        """Yield every page: first those about the run, then those of steps."""
        report = self.report
        for page in PAGES:
            if page.needs(report.run):
                view = page.view(report, self._addresses)
                html = rendered(
                    page.name,
                    view,
                    report.shared,
                    self._addresses,
                    description=report.run.verdict.sentence,
                )
                yield self.renderer.encode(html)
        for step in report.step_pages:
            yield step.page.load()

    @property
    def _addresses(self) -> Addresses:
        steps = frozenset(self.report.shown_steps)
        return Addresses(steps, one_file=self.report.shared.one_file)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path in the folder, bytes) of every file of a report folder, pages first."""
        report = self.report
        for page in self.pages():
            yield page.path, page.content
            if page.beside:
                yield page.beside
        yield from assets(self.options.language).files.values()
        data = canonical_json(report_json(report), indent=True)
        of_run = run_data(report)
        if self.options.live:
            # An open page loads this script again and again (``live``: every so many seconds), and
            # reloads itself when ``built`` has changed.
            of_run["live"] = self.options.live
            of_run["built"] = xxhash.xxh3_64_hexdigest(data)
        script = f"globalThis.rlreportSteps = {script_json(of_run)};\n"
        yield RUN_SCRIPT, script.encode()
        definitions = script_json(packed_terms(report, self._addresses))
        yield TERMS_SCRIPT, f"globalThis.rlreportTerms = {definitions};\n".encode()
        # Bytes at once: base64 needs no escapes, and texts of 100 MB no further copies.
        texts = canonical_json(self._texts)
        yield TEXTS_SCRIPT, b"globalThis.rlreportTexts = %b;\n" % texts
        del texts
        yield REPORT, data
        if self.options.built_from:
            yield BUILT_FROM, self.options.built_from.encode()
        yield RESPONSES, report.data.responses
        if report.data.metrics:
            yield METRICS_FILE, report.data.metrics
        yield from exports(report)

    def frame(self) -> Shell:
        """Return the frame of a one-file report; the form sets its security policy."""
        report = self.report
        description = report.run.verdict.sentence
        return shell(
            "overview", report.shared, self._addresses, description=description
        )

    def nodes(self) -> list[Node]:
        """Return the data elements of a one-file report."""
        json = "application/json"
        binary = "application/octet-stream"
        report = self.report
        responses = base64.b64encode(report.data.responses).decode()
        return [
            Node(json, "steps-data", script_json(run_data(report))),
            Node(binary, "report-json", packed_json(report_json(report))),
            Node(binary, "responses-data", responses),
            Node(json, "texts-data", script_json(self._texts)),
        ]

    @property
    def _texts(self) -> dict[str, str]:
        """The packed texts of each step, for the responses page."""
        return {str(page.plan.step): page.texts for page in self.report.step_pages}


def page_context(run: JudgedRun, *, one_file: bool) -> PageContext:
    """Return what the pages of steps share; ``one_file``: whether they are in one HTML file."""
    tables = run.tables
    # A step that is still being written, or validation, is no step to compare others with.
    judged = tables.without_step_in_progress().training()
    steps = judged.responses["step"].to_numpy()
    # At least one step is always judged, see ``Tables.judged_before``.
    first_step = int(judged.steps["step"].iloc[0])
    columns = number_columns(tables)
    # If responses have groups in the first step, they have groups in all.
    if judged.steps["groups"].iloc[0] > 0:
        columns += GROUP_COLUMNS
    if np.nansum(error_counts(tables.responses)) > 0:
        columns.append(ERRORS)
    strings = string_columns(tables)
    return PageContext(
        title=run.title,
        options=run.options,
        navigation=_navigation(run),
        columns=columns,
        string_columns=strings,
        environment=_environment_key(judged, strings),
        text_columns=[c for c in TEXT_COLUMNS if tables.fields.get(c.key)],
        prefixes=_prefixes(run),
        first_step=first_step,
        first_rewards=judged.responses["reward"].to_numpy()[steps == first_step],
        one_file=one_file,
        advantages_logged=bool(tables.fields.get("advantages")),
        asset_files={} if one_file else _asset_files(run.options),
        tile_names=tuple(columns_with_data(tables.steps, TILES)),
        sampled=bool(tables.sample_note),
    )


def packed_terms(report: RunReport, addresses: Addresses) -> str:
    """Return the content of the page of definitions, packed as a page of one file is."""
    context = replace(report.shared, one_file=True)
    page = rendered(TERMS.name, terms_view(report, addresses), context, addresses)
    return gzip_base64(page.html.encode("utf-8", "replace"))


def _navigation(run: JudgedRun) -> tuple[ListedPage, ...]:
    return tuple(
        ListedPage(page.name, page.title, page.in_navigation)
        for page in PAGES
        if page.needs(run)
    )


def _environment_key(judged: Tables, strings: list[ColumnView]) -> str:
    """Return the key of the column that names the environment, "" without such a column."""
    environments = environments_of(judged)
    if environments is None:
        return ""
    key = extra_key(environments.column)
    return key if any(column.key == key for column in strings) else ""


def _prefixes(run: JudgedRun) -> tuple[str, ...]:
    """Return beginnings that most prompts share; redacted prompts have none."""
    if run.options.redact:
        return ()
    prompts = run.tables.prompts["prompt"]
    if run.omitted:
        prompts = prompts[~run.omitted.rows(run.tables.prompts)]
    return prompt_prefixes(turns_as_text(turns(text)) or text for text in prompts)


def _asset_files(options: BuildOptions) -> dict[str, str]:
    """Return name -> path of the style sheet and the scripts of a folder's pages."""
    shared = assets(options.language).files
    files = {name: path for name, (path, _) in shared.items()}
    data = {
        "run": RUN_SCRIPT,
        "texts": TEXTS_SCRIPT,
        "tokens": TOKENS_SCRIPT,
        "terms": TERMS_SCRIPT,
    }
    return {**files, **data}
