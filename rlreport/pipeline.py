"""The build: logs → read → summarise → check → choose → draw → bake → deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlreport.bake.key_figures import run_figures
from rlreport.bake.redact import (
    Redactor,
    redacted_ngrams,
    redacted_tables,
    redacted_verdict,
    without_names,
)
from rlreport.bake.report import prepare
from rlreport.bake.views import KeyFigure
from rlreport.card import Card, run_card
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.finding import Verdict
from rlreport.check.registry import refuse_unknown
from rlreport.check.run import Run
from rlreport.check.spreading import SpreadingTexts, spreading_texts
from rlreport.check.wording import with_excerpts, worded
from rlreport.choose import choose
from rlreport.deliver import form_of
from rlreport.deliver.fit import deliver
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.deliver.summary import notebook_html
from rlreport.display import fetch, prompt_texts
from rlreport.draw.custom import chart_functions, custom_charts
from rlreport.metrics import metrics_beside
from rlreport.options import BuildOptions, FigureOptions, ReadOptions, ReportOptions, part
from rlreport.progress import Progress
from rlreport.read.logs import read_logs
from rlreport.read.readback import RowLocations
from rlreport.read.remote import shown
from rlreport.several_runs import several_runs
from rlreport.summarise import summarise
from rlreport.tables import Note, Tables
from rlreport.text.language import ENGLISH, Language
from rlreport.workers import Workers, release_memory

DATA_SHARE = 0.2  # fraction of the maximum size for the figures of all responses


@dataclass(frozen=True, slots=True)
class Report:
    """What was built.

    Attributes:
        out: its path, or its URL without credentials.
        form: id of its format.
        size: bytes.
        shown: number of responses shown with their text.
        left_out: sentences on what the report does not show.
        figures: key figures of the overview.
    """

    out: Destination
    form: str
    size: int
    shown: int
    tables: Tables = field(repr=False)
    verdict: Verdict = field(repr=False)
    left_out: list[str]
    figures: Sequence[KeyFigure] = field(default=(), repr=False)
    language: Language = ENGLISH

    def _repr_html_(self) -> str:
        """Return the output of a notebook cell."""
        level, sentence = self.verdict.level, self.verdict.sentence
        return notebook_html(self.out, self.form, level, sentence, self.figures, self.language)


def build_report(
    logs: Sequence[str | Path],
    out: Destination,
    options: BuildOptions,
    progress: Progress,
    workers: Workers,
) -> Report:
    """Build one report; ``out`` is replaced whole or left as it was.

    Raises:
        RlreportError: an option, the logs or the destination cannot be used.
    """
    report = part(ReportOptions, options)
    chosen_form = form_of(out, report.form)
    limits = _limits(report)
    chosen_form.check(report)
    check_destination(out, chosen_form)

    own = chart_functions(tuple(map(Path, report.charts)))
    summary = summary_file() if report.github_summary else None
    card = _card(logs, report)

    name, locations, tables = _read(logs, options, progress, workers)
    tables = replace(tables, notes=[*tables.notes, *(Note("card", n, 1) for n in card.notes)])
    mixed = None if report.merge else several_runs(logs, tables, named=not report.redact_names)
    aliases: dict[str, str] = {}
    if report.redact_names:
        tables, aliases = without_names(tables)
        name = "run"
    tables = replace(tables, notes=[*([mixed] if mixed else []), *tables.notes])
    if report.in_progress:
        tables = tables.growing()
    verdict, spreading = _judge(tables, locations, limits, options)
    tables = tables.without_samples()  # large, and no longer needed
    if report.redact:
        redact = Redactor()
        verdict = redacted_verdict(verdict, redact)
        spreading = redacted_ngrams(spreading, redact)
        tables = redacted_tables(tables, redact)
    verdict = worded(verdict, card.entries, tables.sample_note)

    limit = report.max_size or chosen_form.default_size
    charts, failed = custom_charts(own, tables, quote=not report.redact)
    tables = replace(tables, notes=[*tables.notes, *failed])

    prepared = prepare(
        name,
        locations,
        tables,
        verdict,
        spreading,
        choose(tables, verdict, report),
        chosen_form.finish,
        read=part(ReadOptions, options),
        figures=part(FigureOptions, options),
        report=report,
        file_aliases=aliases,
        one_file=chosen_form.one_file,
        progress=progress,
        workers=workers,
        data_room=int(limit * DATA_SHARE),
        thresholds=limits,
        own_charts=charts,
        card=card,
    )
    release_memory()
    with publishing(out, chosen_form) as path:
        builder, size = deliver(path, chosen_form, limit, prepared)
    if summary:
        append_summary(builder, summary)
    return Report(
        shown(out) if isinstance(out, str) else out,
        chosen_form.id,
        size,
        builder.shown,
        tables,
        verdict,
        builder.context.left_out,
        run_figures(builder.context),
        report.language,
    )


def check_logs(logs: Sequence[str | Path], options: BuildOptions) -> Verdict:
    """Run the health checks on logs, without a report.

    Raises:
        RlreportError: an option or the logs cannot be used.
    """
    progress, limits = Progress(options.quiet), _limits(options)
    with Workers(options.workers, options.ray, progress.say) as workers:
        _, locations, tables = _read(logs, options, progress, workers)
        verdict, _ = _judge(tables, locations, limits, options)
    return worded(verdict, sample_note=tables.sample_note)


def _limits(report: ReportOptions) -> Thresholds:
    refuse_unknown(report.mute)
    return load_thresholds(report.thresholds) if report.thresholds else Thresholds()


def _card(logs: Sequence[str | Path], report: ReportOptions) -> Card:
    meta = {str(name): str(value) for name, value in report.meta.items()}
    card = run_card(logs, configs=tuple(map(Path, report.config)), meta=meta, git=report.git)
    if report.redact_names:
        return Card(withheld=bool(card.entries))
    return card.without_texts() if report.redact else card


def _read(
    logs: Sequence[str | Path], options: BuildOptions, progress: Progress, workers: Workers
) -> tuple[str, RowLocations, Tables]:
    """Read and summarise the logs; free what only the tables are made of."""
    read, figures = part(ReadOptions, options), part(FigureOptions, options)
    metrics = metrics_beside(logs, read.metrics)
    scan = read_logs(logs, read, figures, progress, metrics.paths, workers)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    name, locations = scan.name, scan.locations()
    del scan
    release_memory()
    return name, locations, tables


def _judge(
    tables: Tables, locations: RowLocations, limits: Thresholds, options: BuildOptions
) -> tuple[Verdict, SpreadingTexts]:
    """Return the verdict with excerpts of its evidence, and texts that spread."""
    run = Run(tables.settled(), limits)
    verdict, spreading = (
        judge(run, muted=options.mute),
        replace(run.once(spreading_texts), counts={}),
    )
    del run
    verdict = with_excerpts(
        verdict, tables.responses, lambda rows: fetch(locations, rows, options, options)
    )
    return verdict, spreading
