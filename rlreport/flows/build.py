"""Build the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from rlreport.about.card import Card, run_card
from rlreport.about.several_runs import several_runs
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.finding import Finding
from rlreport.check.judge import with_excerpts
from rlreport.check.registry import refuse_unknown
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.spreading import SpreadingTexts, spreading_texts
from rlreport.check.verdict import Judged, Verdict
from rlreport.deliver.fit import deliver
from rlreport.deliver.forms import form_of
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.custom import chart_functions, custom_charts
from rlreport.draw.svg import check_address_space
from rlreport.errors import UsageError
from rlreport.figures.ragged import Ints
from rlreport.flows.load import load_run
from rlreport.options import BuildOptions, ReportOptions
from rlreport.pages.author_notes import read_notes
from rlreport.pages.plan import choose
from rlreport.pages.redact import (
    Redactor,
    redacted_ngrams,
    redacted_tables,
    redacted_verdict,
    without_names,
)
from rlreport.pages.report import ReportBuilder, page_context
from rlreport.pages.table import KeyFigure
from rlreport.read.rollouts import Rollouts
from rlreport.system.stores import shown
from rlreport.system.workers import Progress, Workers, release_memory
from rlreport.tables import Note, NoteKind, Tables
from rlreport.text.language import ENGLISH, Language

DATA_SHARE = (
    0.2  # fraction of the maximum size for the numbers (no texts) of all responses
)


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
    left_out: list[
        str
    ]  # sentences on what the report omits, such as texts beyond the maximum size
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

    name, rollouts, tables = load_run(logs, options, card, progress, workers)
    remarks += [Note(NoteKind.CARD, text, 1) for text in card.notes]
    tables = replace(tables, notes=[*tables.notes, *remarks])
    # The report does not say so: else a second build into the logs' folder would have other bytes.
    tables = replace(
        tables, notes=[note for note in tables.notes if note.kind != NoteKind.REPORTS]
    )
    tables = _with_several_runs(logs, tables, options)
    if options.redact_names:
        tables, rollouts = without_names(tables, rollouts)
        name = "run"
    if options.in_progress:
        tables = tables.mark_in_progress()
    judged, spreading = _judge(tables, rollouts, limits, options)
    texts = cache(partial(_texts, _sampled_rows(tables), rollouts, options))
    tables = tables.without_samples()  # they are large, and no later stage needs them
    if options.redact:
        redact = Redactor()
        judged = redacted_verdict(judged, redact)
        spreading = redacted_ngrams(spreading, redact)
        tables = redacted_tables(tables, redact)
    verdict = with_texts(judged, tables.sample_note)

    limit = options.max_size or chosen_form.default_size
    charts, chart_errors = custom_charts(
        custom_functions, tables, texts, quote=not options.redact
    )
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
        _, rollouts, tables = load_run(logs, options, card, progress, workers)
        tables = _with_several_runs(logs, tables, options)
        judged, _ = _judge(tables, rollouts, limits, options)
    return with_texts(judged, tables.sample_note)


def _with_several_runs(
    logs: Sequence[str | Path], tables: Tables, options: BuildOptions
) -> Tables:
    """Return the tables with a note first if the logs look like several runs."""
    if options.merge:
        notes = [note for note in tables.notes if note.kind != NoteKind.SEVERAL_STARTS]
        return replace(tables, notes=notes)
    note = several_runs(logs, tables, named=not options.redact_names)
    return replace(tables, notes=[note, *tables.notes]) if note else tables


def _limits(report: ReportOptions) -> Thresholds:
    refuse_unknown(report.mute)
    return load_thresholds(report.thresholds) if report.thresholds else Thresholds()


def _metadata(logs: Sequence[str | Path], report: ReportOptions) -> Card:
    """Return the run's configuration (its card); ``redact`` removes texts or all entries."""
    meta = {str(name): str(value) for name, value in report.meta.items()}
    card = run_card(
        logs, configs=tuple(map(Path, report.config)), meta=meta, git=report.git
    )
    if report.redact_names:
        return Card(withheld=bool(card.entries), paths=card.paths)
    return card.without_texts() if report.redact else card


def _judge(
    tables: Tables, rollouts: Rollouts, limits: Thresholds, options: BuildOptions
) -> tuple[Judged[Finding], SpreadingTexts]:
    run = Run(tables.without_step_in_progress(), limits)
    judged = with_excerpts(judge(run, muted=options.mute), tables.responses, rollouts)
    return judged, replace(spreading_texts(run), counts={})


def _sampled_rows(tables: Tables) -> Ints:
    """Return the rows, in the response table, of the training responses in the text sample."""
    training = tables.training()
    sample = training.words or training.ngrams
    sampled = training.responses.iloc[[] if sample is None else sample.rows]
    steps = tables.responses["step"].to_numpy()
    rows: Ints = (
        np.searchsorted(steps, sampled["step"].to_numpy()) + sampled["n"].to_numpy()
    )
    return rows


def _texts(rows: Ints, rollouts: Rollouts, options: BuildOptions) -> pd.DataFrame:
    if options.redact:
        raise UsageError("texts are not available with --redact")
    names = ["step", "n", "prompt", "response"]
    sampled = rollouts.read(rows, with_tokens=0)
    return pd.DataFrame(
        [[getattr(row, name) for name in names] for row in sampled], columns=names
    )
