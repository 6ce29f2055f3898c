"""Build a run's report, the comparison of two runs, and the index of many reports.

A run's report: read the numbers of all logs → choose responses → read their texts → summarise →
check → choose for pages → draw → render → deliver, rendering again until the maximum size is met.
A comparison: read → compare → draw → render → deliver.
"""

from __future__ import annotations

import csv
import os
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from markupsafe import Markup

from rlreport.about.card import Card, run_card
from rlreport.about.several_runs import SEVERAL_STARTS, several_runs
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.finding import Verdict
from rlreport.check.registry import refuse_unknown
from rlreport.check.run import Run
from rlreport.check.spreading import SpreadingTexts, spreading_texts
from rlreport.check.verdict import with_excerpts, with_texts
from rlreport.choose import choose
from rlreport.comparison import outcome as words
from rlreport.comparison.outcome import Gate, Outcome, outcome_of
from rlreport.comparison.reports import REPORT, report_about, seeds_at
from rlreport.comparison.run import compared_run
from rlreport.deliver import FORMS, form_of
from rlreport.deliver.email import assemble, encode_view
from rlreport.deliver.fit import deliver, deliver_comparison
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, local_path, publishing
from rlreport.draw.custom import chart_functions, custom_charts
from rlreport.draw.step import comparison_charts
from rlreport.draw.svg import check_address_space, drawn
from rlreport.errors import (
    OutputError,
    RlreportError,
    UnreadableReportError,
    UnusableInputError,
    UsageError,
)
from rlreport.figures.ragged import Ints
from rlreport.metrics import find_and_read
from rlreport.options import (
    BuildOptions,
    CompareOptions,
    GaeOptions,
    ReadOptions,
    ReportOptions,
    part,
)
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.pages.index import Listed, grouped, reward_chart, runs_view
from rlreport.pages.notes import notes_file, read_notes
from rlreport.pages.redact import (
    Redactor,
    redacted_ngrams,
    redacted_tables,
    redacted_verdict,
    without_names,
)
from rlreport.pages.report import ReportBuilder, page_context
from rlreport.pages.templates import Page, environment
from rlreport.pages.views import KeyFigure, Shell
from rlreport.read.detect import REPORTS
from rlreport.read.files import is_url
from rlreport.read.logs import read_logs
from rlreport.read.rollouts import Rollouts
from rlreport.summarise import summarise
from rlreport.system.stores import shown
from rlreport.system.workers import Progress, Workers, release_memory
from rlreport.tables import Note, Tables
from rlreport.text.clean import safe_text
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message

DATA_SHARE = 0.2  # fraction of the maximum size for the numbers (no texts) of all responses


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``build_report``."""

    out: Destination  # path of the report, or its URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    shown: int  # number of responses whose text the report contains
    # all tables, and the result of the health checks
    tables: Tables = field(repr=False)
    verdict: Verdict = field(repr=False)
    left_out: list[str]  # sentences on what the report omits, such as texts beyond the maximum size
    # key figures that the overview page shows, such as the mean reward
    figures: Sequence[KeyFigure] = field(default=(), repr=False)
    language: Language = ENGLISH  # language of the report

    def _repr_html_(self) -> str:
        """Return the verdict and the path of the report as HTML, for notebooks."""
        texts = self.language.of([self.verdict.headline, self.verdict.course_text])
        html = Markup('<p dir="auto"><strong>{}</strong> {}</p><p><code>{}</code></p>')
        return html.format(*texts, str(self.out))


def build_report(  # noqa: PLR0914
    logs: Sequence[str | Path],
    out: Destination,
    options: BuildOptions,
    progress: Progress,
    workers: Workers,
) -> Report:
    """Build a run's report at ``out``; an error leaves an earlier report there unchanged."""
    chosen_form = form_of(out, options.form)
    limits = _limits(options)
    chosen_form.check(options)
    check_destination(out, chosen_form)
    check_address_space()

    custom_functions = chart_functions(tuple(map(Path, options.charts)))
    summary = summary_file() if options.github_summary else None
    card = _metadata(logs, options)
    author_notes, remarks = read_notes(logs, options.notes, redact=bool(options.redact))

    name, rollouts, tables = _read(logs, options, card, progress, workers)
    remarks += [Note("card", text, 1) for text in card.notes]
    tables = replace(tables, notes=[*tables.notes, *remarks])
    # The report does not say so: else a second build into the logs' folder would have other bytes.
    tables = replace(tables, notes=[note for note in tables.notes if note.kind != REPORTS])
    tables = _with_several_runs(logs, tables, options)
    if options.redact_names:
        tables, rollouts = without_names(tables, rollouts)
        name = "run"
    if options.in_progress:
        tables = tables.mark_in_progress()
    verdict, spreading = _judge(tables, rollouts, limits, options)
    texts = cache(partial(_texts, _sampled_rows(tables), rollouts, options))
    tables = tables.without_samples()  # they are large, and no later stage needs them
    if options.redact:
        redact = Redactor()
        verdict = redacted_verdict(verdict, redact)
        spreading = redacted_ngrams(spreading, redact)
        tables = redacted_tables(tables, redact)
    verdict = with_texts(verdict, tables.sample_note)

    limit = options.max_size or chosen_form.default_size
    charts, chart_errors = custom_charts(custom_functions, tables, texts, quote=not options.redact)
    tables = replace(tables, notes=[*tables.notes, *chart_errors])

    title = options.title or name
    one_file = chosen_form.one_file
    builder = ReportBuilder(
        **vars(page_context(title, tables, options, one_file=one_file)),
        chosen=rollouts,
        tables=tables,
        verdict=verdict,
        spreading=spreading,
        card=card,
        author_notes=author_notes,
        plans=choose(tables, verdict, options),
        own_charts=charts,
        finish=chosen_form.finish,
        progress=progress,
        workers=workers,
    ).with_data(int(limit * DATA_SHARE))
    release_memory()
    with publishing(out, chosen_form) as path:
        builder, size = deliver(path, chosen_form, limit, builder)
    if summary:
        append_summary(builder, summary)
    return Report(
        shown(out) if isinstance(out, str) else out,
        chosen_form.id,
        size,
        builder.shown,
        tables,
        verdict,
        builder.left_out,
        builder.figures,
        options.language,
    )


def check_logs(logs: Sequence[str | Path], options: BuildOptions) -> Verdict:
    """Return the verdict of the health checks on logs, without building a report."""
    progress = Progress(options.quiet, options.language)
    limits = _limits(options)
    with Workers(options.workers, options.ray) as workers:
        card = _metadata(logs, options)
        _, rollouts, tables = _read(logs, options, card, progress, workers)
        tables = _with_several_runs(logs, tables, options)
        verdict, _ = _judge(tables, rollouts, limits, options)
    return with_texts(verdict, tables.sample_note)


def _with_several_runs(logs: Sequence[str | Path], tables: Tables, options: BuildOptions) -> Tables:
    """Return the tables with a note first if the logs look like several runs."""
    if options.merge:
        notes = [note for note in tables.notes if note.kind != SEVERAL_STARTS]
        return replace(tables, notes=notes)
    note = several_runs(logs, tables, named=not options.redact_names)
    return replace(tables, notes=[note, *tables.notes]) if note else tables


def _limits(report: ReportOptions) -> Thresholds:
    refuse_unknown(report.mute)
    return load_thresholds(report.thresholds) if report.thresholds else Thresholds()


def _metadata(logs: Sequence[str | Path], report: ReportOptions) -> Card:
    """Return the run's configuration (its card); ``redact`` removes texts or all entries."""
    meta = {str(name): str(value) for name, value in report.meta.items()}
    card = run_card(logs, configs=tuple(map(Path, report.config)), meta=meta, git=report.git)
    if report.redact_names:
        return Card(withheld=bool(card.entries), paths=card.paths)
    return card.without_texts() if report.redact else card


def _read(
    logs: Sequence[str | Path],
    options: BuildOptions,
    card: Card,
    progress: Progress,
    workers: Workers,
) -> tuple[str, Rollouts, Tables]:
    """Return the run's name, the responses with texts, and all tables, from logs and metrics."""
    read = part(ReadOptions, options)
    gae = part(GaeOptions, options)
    metrics = find_and_read(logs, read.metrics, read.run, one_run=options.merge)
    named = (notes_file(logs, options.notes), options.thresholds, read.tokenizer, *options.charts)
    used = [
        *card.paths,
        *metrics.explained(strict=read.strict),
        *(Path(path) for path in named if path),
    ]
    try:
        scan = read_logs(logs, read, gae, progress, metrics.paths, workers, used)
    except UnusableInputError as error:
        reasons = [] if metrics.paths else [f"; {note.text}" for note in metrics.notes[:3]]
        raise UnusableInputError(f"{error}{''.join(reasons)}") from error
    tables = summarise(scan, metrics)
    name = scan.name
    rollouts = scan.rollouts
    del scan
    release_memory()
    return name, rollouts, tables


def _judge(
    tables: Tables, rollouts: Rollouts, limits: Thresholds, options: BuildOptions
) -> tuple[Verdict, SpreadingTexts]:
    run = Run(tables.without_step_in_progress(), limits)
    verdict = with_excerpts(judge(run, muted=options.mute), tables.responses, rollouts)
    return verdict, replace(run.once(spreading_texts), counts={})


def _sampled_rows(tables: Tables) -> Ints:
    """Return the rows, in the response table, of the training responses in the text sample."""
    training = tables.training()
    sample = training.words or training.ngrams
    sampled = training.responses.iloc[[] if sample is None else sample.rows]
    steps = tables.responses["step"].to_numpy()
    rows: Ints = np.searchsorted(steps, sampled["step"].to_numpy()) + sampled["n"].to_numpy()
    return rows


def _texts(rows: Ints, rollouts: Rollouts, options: BuildOptions) -> pd.DataFrame:
    if options.redact:
        raise UsageError("texts are not available with --redact")
    names = ["step", "n", "prompt", "response"]
    sampled = rollouts.read(rows, with_tokens=0)
    return pd.DataFrame([[getattr(row, name) for name in names] for row in sampled], columns=names)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of ``build_comparison``: a written report that compares BASE with NEW."""

    out: Destination  # output path, or URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    # reward difference, guardrails (other metrics, checked for harm), prompts won or lost, findings
    outcome: Outcome

    @property
    def gate(self) -> Gate:
        """Conditions of ``--fail-on``, those that were met, and the exit status of the command."""
        return self.outcome.gate

    @property
    def gate_sentence(self) -> str:
        """The result of ``--fail-on``, or that ``--require-evidence`` is not met; otherwise ""."""
        return words.gate_sentence(self.outcome)

    @property
    def sentence(self) -> str:
        """The verdict as text: broken runs, then the reward difference with its interval."""
        return words.sentence(self.outcome)

    @property
    def notes(self) -> list[str]:
        """Remarks on the comparison, such as limits of its evidence, one sentence each."""
        learning = words.learning(self.outcome)
        return [*([learning] if learning else []), *words.notes(self.outcome)]


def build_comparison(
    bases: Sequence[str | Path],
    news: Sequence[str | Path],
    out: Destination,
    options: CompareOptions,
    progress: Progress,
) -> ComparisonReport:
    """Compare ``news`` with ``bases``, one run or several seeds each, and write a report."""
    form = form_of(out, options.form)
    language = options.language
    limits = load_thresholds(options.thresholds) if options.thresholds else Thresholds()
    form.check(options)
    check_destination(out, form)
    check_address_space()
    summary = summary_file() if options.github_summary else None
    bases, news = ([run for path in side for run in seeds_at(path)] for side in (bases, news))
    without_figures = {form.suffix: form.words for form in FORMS.values() if not form.comparable}
    for run in (*bases, *news):
        if (kind := without_figures.get(Path(run).suffix.lower())) and not Path(run).is_dir():
            raise UnusableInputError(f"{run}: {kind} has no figures; compare the logs instead")
    if options.metrics and sum(report_about(source) is None for source in (*bases, *news)) > 1:
        raise UsageError(
            "--metrics: one metrics file cannot belong to several runs; build a report of each "
            "run with its metrics, and compare the reports"
        )
    runs = [compared_run(source, options, limits, progress) for source in (*bases, *news)]
    outcome = outcome_of(runs[: len(bases)], runs[len(bases) :], options)
    title = message("{new} against {base}", new=outcome.new.name, base=outcome.base.name)
    comparison = outcome.comparison
    charts = comparison_charts(
        comparison.windows.common.astype(float),
        *comparison.curves,
        comparison.band,
        comparison.paths,
    )
    builder = ComparisonBuilder(
        outcome,
        options.title or language.of(title),
        options,
        form.finish,
        form.one_file,
        len(outcome.flips),
        drawn(charts, language),
    )
    with publishing(out, form) as path:
        builder, size = deliver_comparison(
            path, form, options.max_size or form.default_size, builder
        )
    if summary:
        append_summary(builder, summary)
    return ComparisonReport(shown(out) if isinstance(out, str) else out, form.id, size, outcome)


Source = tuple[Path, str]  # A report's path, and why it cannot be listed ("" if it can)
_UNREADABLE = (RlreportError, OSError, ValueError, csv.Error, sqlite3.Error)


@dataclass(frozen=True, slots=True)
class Index:
    """The result of ``build_index``."""

    out: Path  # path of the index, the page that lists the reports
    reports: int  # number of listed reports, including unreadable ones
    unread: list[tuple[str, str]]  # (path, reason) of each report that could not be read


def build_index(
    reports: Sequence[str | Path],
    out: str | Path = "index.html",
    *,
    title: str = "",
    language: Language = ENGLISH,
) -> Index:
    """Write a page that lists reports, one row each; an error leaves ``out`` unchanged."""
    if is_url(str(out)):
        raise UsageError(f"{shown(str(out))}: write the index to a local path, next to its reports")
    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{out}: an index is one HTML file; its name must end in .html")
    target = local_path(out, FORMS["html"])
    # ``publishing`` cannot tell a report from an earlier index.
    if (target.parent / REPORT).is_file() or (target.is_file() and _about(target) is not None):
        raise OutputError(f"{target} belongs to a report; choose another file name for the index")
    resolved = out.resolve()
    found = (one for path in reports for one in _reports_at(path, resolved.parent, language))
    sources = [(path, why) for path, why in dict.fromkeys(found) if path.resolve() != resolved]
    rows = [_entry(path, why, resolved.parent) for path, why in sources]
    if rows and all(row.about is None for row in rows):
        raise UsageError(f"{sources[0][0]}: {rows[0].why}")
    title = title or language.of(message("Runs"))
    frame = Shell(title=title, run=title, kind="runs")
    groups = grouped(rows, language)
    chart = reward_chart(groups)
    view = {**runs_view(groups), "charts": drawn([chart], language) if chart else []}
    template = environment(language).get_template("main/runs.html")
    html = template.render(view=language.of(view), shell=frame)
    (_, page), _ = encode_view(Page("index.html", "", title, html))
    with publishing(out, FORMS["html"]) as path, path.open("wb") as file:
        for part in assemble(frame, iter([page]), language=language, charts=False):
            file.write(part)
    return Index(out, len(rows), [(row.place, row.why) for row in rows if row.about is None])


def _about(path: Path) -> dict[str, Any] | RlreportError | None:
    try:
        return report_about(path)
    except RlreportError as error:
        return error


def _reports_at(location: str | Path, folder: Path, language: Language) -> list[Source]:
    if is_url(str(location)):
        raise UsageError(f"{shown(str(location))}: an index lists only local reports; download it")
    path = Path(location)
    if not path.exists():
        raise UsageError(f"No such file or folder: {path}")
    if _is_report(path):
        return [(path, "")]
    try:
        children = sorted(path.iterdir()) if path.is_dir() else []
        if not any(map(_is_report, children)):
            return _build_reports(path, folder, language) or [(path, "")]
    except _UNREADABLE as error:
        return [(path, str(getattr(error, "strerror", "") or error))]
    return [(child, "") for child in children if _is_report(child)]


def _build_reports(path: Path, folder: Path, language: Language) -> list[Source]:
    """Build a report in ``folder`` per run of the metrics at ``path``; [] if not of several."""
    reports: list[Source] = []
    for run in find_and_read([path]).runs:
        name = re.sub(r"[^\w.-]+", "-", safe_text(run)).strip("-.")[:100] or "run"
        out = folder / f"{name}.html"
        if (out, "") in reports:
            out = folder / f"{name}-{len(reports)}.html"
        title = "" if run == "." else safe_text(run)
        options = BuildOptions(run=run, title=title, lang=language.code)
        try:
            with Workers(1) as workers:
                build_report([path], out, options, Progress(), workers)
        except RlreportError as error:
            reports.append((path, f"run {run}: {error}"))
        else:
            reports.append((out, ""))
    return reports


def _is_report(path: Path) -> bool:
    try:
        if (path / REPORT).is_file():
            return True
        if path.is_file() and path.suffix.lower() not in (".html", ".htm", ".zip"):
            return False
    except OSError:
        return True
    return isinstance(_about(path), dict | UnreadableReportError)


def _entry(path: Path, why: str, root: Path) -> Listed:
    """Return a report's entry, linked relative to ``root``; ``why``: why it is unreadable or ""."""
    relative = Path(os.path.relpath(path.resolve(), root)).as_posix()
    page = f"{relative}/index.html" if path.is_dir() else relative
    # Without "./" a browser would read the part before a colon as a URL scheme.
    href = f"./{quote(os.fsencode(page))}"
    name = safe_text(relative)
    about = UnusableInputError(why) if why else _about(path)
    if isinstance(about, RlreportError):
        return Listed(name, href, None, safe_text(str(about).removeprefix(f"{path}: ")))
    if about is None:
        return Listed(name, href, None, "not a report of rlreport")
    return Listed(name, href, about)
