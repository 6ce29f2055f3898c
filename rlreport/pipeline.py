"""Build a run's report: logs → read → summarise → check → choose → draw → bake → deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.about.card import Card, run_card
from rlreport.about.several_runs import several_runs
from rlreport.bake.context import RunContext
from rlreport.bake.notes import notes_file, read_notes
from rlreport.bake.redact import (
    Redactor,
    redacted_ngrams,
    redacted_tables,
    redacted_verdict,
    without_names,
)
from rlreport.bake.report import page_context, prepare
from rlreport.bake.views import KeyFigure
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.finding import Verdict
from rlreport.check.registry import refuse_unknown
from rlreport.check.run import Run
from rlreport.check.spreading import SpreadingTexts, spreading_texts
from rlreport.check.verdict import with_excerpts, worded
from rlreport.choose import choose
from rlreport.deliver import form_of
from rlreport.deliver.fit import deliver
from rlreport.deliver.markdown import append_summary, notebook_html, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.custom import chart_functions, custom_charts
from rlreport.draw.svg import check_address_space
from rlreport.errors import OutputError, UnusableInputError, UsageError
from rlreport.figures.ragged import Ints
from rlreport.metrics import metrics_beside
from rlreport.options import BuildOptions, FigureOptions, ReadOptions, ReportOptions, part
from rlreport.read.logs import read_logs
from rlreport.read.rollouts import Rollouts
from rlreport.summarise import summarise
from rlreport.system.stores import shown
from rlreport.system.workers import Progress, Workers, release_memory
from rlreport.tables import Note, Tables
from rlreport.text.language import ENGLISH, Language

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
        """Return the HTML that a notebook shows for the report."""
        level, sentence = self.verdict.level, self.verdict.sentence
        return notebook_html(self.out, self.form, level, sentence, self.figures, self.language)


def build_report(
    logs: Sequence[str | Path],
    out: Destination,
    options: BuildOptions,
    progress: Progress,
    workers: Workers,
) -> Report:
    """Build the report of a run; if that fails, an earlier report at ``out`` is unchanged.

    Raises:
        RlreportError: an option, the logs or the destination cannot be used.
    """
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
    note = None if options.merge else several_runs(logs, tables, named=not options.redact_names)
    aliases: dict[str, str] = {}
    if options.redact_names:
        tables, aliases = without_names(tables)
        name = "run"
    tables = replace(tables, notes=[*([note] if note else []), *tables.notes])
    if options.in_progress:
        tables = tables.growing()
    verdict, spreading = _judge(tables, rollouts, limits, options)
    texts = cache(partial(_texts, _sampled_rows(tables), rollouts, options))
    tables = tables.without_samples()  # they are large, and no later stage needs them
    if options.redact:
        redact = Redactor()
        verdict = redacted_verdict(verdict, redact)
        spreading = redacted_ngrams(spreading, redact)
        tables = redacted_tables(tables, redact)
    verdict = worded(verdict, card.entries, tables.sample_note)

    limit = options.max_size or chosen_form.usual_size(len(tables.responses))
    charts, chart_errors = custom_charts(custom_functions, tables, texts, quote=not options.redact)
    tables = replace(tables, notes=[*tables.notes, *chart_errors])

    title, one_file = options.title or name, chosen_form.one_file
    run = RunContext(
        **vars(page_context(title, tables, options, aliases, one_file=one_file)),
        chosen=rollouts,
        tables=tables,
        verdict=verdict,
        spreading=spreading,
        thresholds=limits,
        card=card,
        author_notes=author_notes,
        plans=choose(tables, verdict, options),
    )
    data_room = int(limit * DATA_SHARE)
    prepared = prepare(run, charts, chosen_form.finish, data_room, progress, workers)
    release_memory()
    with publishing(out, chosen_form) as path:
        try:
            builder, size = deliver(path, chosen_form, limit, prepared)
        except OutputError:
            if options.max_size or limit == chosen_form.default_size:
                raise
            builder, size = deliver(path, chosen_form, chosen_form.default_size, prepared)
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
    """Run the health checks on logs without building a report.

    Raises:
        RlreportError: an option or the logs cannot be used.
    """
    progress, limits = Progress(options.quiet, options.language), _limits(options)
    with Workers(options.workers, options.ray, progress.say) as workers:
        card = _metadata(logs, options)
        _, rollouts, tables = _read(logs, options, card, progress, workers)
        verdict, _ = _judge(tables, rollouts, limits, options)
    return worded(verdict, sample_note=tables.sample_note)


def _limits(report: ReportOptions) -> Thresholds:
    """Return the thresholds of the checks; raise UsageError if a muted check does not exist."""
    refuse_unknown(report.mute)
    return load_thresholds(report.thresholds) if report.thresholds else Thresholds()


def _metadata(logs: Sequence[str | Path], report: ReportOptions) -> Card:
    """Return the run's configuration (card), redacted as the options require."""
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
    """Read logs; return the run's name, the chosen responses with their texts, and all tables."""
    read, figures = part(ReadOptions, options), part(FigureOptions, options)
    metrics = metrics_beside(logs, read.metrics, read.run)
    named = (notes_file(logs, options.notes), options.thresholds, read.tokenizer, *options.charts)
    used = [*card.paths, *(Path(path) for path in named if path)]
    try:
        scan = read_logs(logs, read, figures, progress, metrics.paths, workers, used)
    except UnusableInputError as error:
        reasons = [] if metrics.paths else [f"; {note.text}" for note in metrics.notes[:3]]
        raise UnusableInputError(f"{error}{''.join(reasons)}") from error
    tables = summarise(scan, metrics)
    name, rollouts = scan.name, scan.rollouts
    del scan
    release_memory()
    return name, rollouts, tables


def _judge(
    tables: Tables, rollouts: Rollouts, limits: Thresholds, options: BuildOptions
) -> tuple[Verdict, SpreadingTexts]:
    """Run the checks; return the verdict, with quoted responses, and texts that became common."""
    run = Run(tables.settled(), limits)
    verdict, spreading = (
        judge(run, muted=options.mute),
        replace(run.once(spreading_texts), counts={}),
    )
    del run
    return with_excerpts(verdict, tables.responses, rollouts), spreading


def _sampled_rows(tables: Tables) -> Ints:
    """Return which training responses were sampled for text statistics, as response-table rows."""
    training = tables.training()
    sample = training.words or training.ngrams
    sampled = training.responses.iloc[[] if sample is None else sample.rows]
    steps = tables.responses["step"].to_numpy()
    rows: Ints = np.searchsorted(steps, sampled["step"].to_numpy()) + sampled["n"].to_numpy()
    return rows


def _texts(rows: Ints, rollouts: Rollouts, options: BuildOptions) -> pd.DataFrame:
    """Return a table with ``step``, ``n``, ``prompt`` and ``response`` of the responses ``rows``.

    Raises:
        UsageError: ``--redact`` forbids texts.
    """
    if options.redact:
        raise UsageError("--redact leaves texts out")
    names = ["step", "n", "prompt", "response"]
    sampled = rollouts.read(rows, with_tokens=0)
    return pd.DataFrame([[getattr(row, name) for name in names] for row in sampled], columns=names)
