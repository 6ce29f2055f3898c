"""Build the report of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from rlreport.about.card import Card, run_card, with_settings
from rlreport.about.several_runs import several_runs
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.advice import setup_of
from rlreport.check.finding import Finding
from rlreport.check.four_lines import aligned, four_lines
from rlreport.check.judge import with_excerpts
from rlreport.check.registry import refuse_unknown
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.spreading import SpreadingTexts, spreading_texts
from rlreport.check.verdict import Judged, Verdict
from rlreport.comparison.omitted import (
    Condition,
    OmittedPrompts,
    conditions_of,
    shown_condition,
)
from rlreport.deliver.deliver import deliver
from rlreport.deliver.form import Form
from rlreport.deliver.forms import form_of
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.custom import ChartFunction, chart_functions, custom_charts
from rlreport.draw.vega import check_address_space
from rlreport.errors import SeveralRunsError, UsageError
from rlreport.figures.ragged import Ints
from rlreport.flows.hide import hide_names, hide_texts
from rlreport.flows.load import LoadedRun, load_run, reading_warnings
from rlreport.formats.base import Row
from rlreport.metrics.settings import find_tracked
from rlreport.metrics.settings import of_run as settings_of_run
from rlreport.options import BuildOptions, ReportOptions
from rlreport.pages.author_notes import notes_file, quotes_of, read_notes
from rlreport.pages.context import JudgedRun
from rlreport.pages.extremes import shown_responses
from rlreport.pages.figures import run_figures
from rlreport.pages.omit import with_mask
from rlreport.pages.public import private_names, public_notes
from rlreport.pages.quotes import broken_quotes, check_quotes
from rlreport.pages.report import RunPages
from rlreport.pages.step_jobs import Renderer
from rlreport.pages.table import KeyFigure
from rlreport.read.listing import run_in
from rlreport.read.rollouts import Rollouts
from rlreport.read.scoring import ScoreFunction
from rlreport.system.function_process import FunctionName, function_process
from rlreport.system.memory import release_memory
from rlreport.system.stores import shown
from rlreport.system.workers import Progress, Workers
from rlreport.tables import Note, NoteKind, Tables
from rlreport.text.clean import printable, safe_text
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message
from rlreport.text.private import PrivateNames


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``build_report``."""

    out: Destination  # path of the report, or its URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    shown: int  # number of responses whose text the report contains
    # all tables, of which some columns are read-only, and the result of the health checks
    tables: Tables = field(repr=False)
    verdict: Verdict = field(repr=False)
    # sentences on what the report omits, such as texts beyond the maximum size
    left_out: list[str]
    # key figures that the overview page shows, such as the mean reward
    figures: Sequence[KeyFigure] = field(default=(), repr=False)
    language: Language = ENGLISH  # language of the report
    first_page: ClassVar[str] = "index.html"  # of a folder

    def __repr__(self) -> str:
        """Return the verdict in four lines, and the path of the report."""
        lines = aligned(four_lines(self.verdict), self.language)
        return "\n".join(printable(line) for line in (*lines, str(self.out)))

    def _repr_html_(self) -> str:
        """Return the verdict in four lines and the path of the report as HTML, for notebooks."""
        what, *others = self.language.of(four_lines(self.verdict))
        html = Markup('<p dir="auto"><strong>{}</strong>').format(what.text)
        for line in others:
            html += Markup("<br><small>{}</small> {}").format(*line)
        return html + Markup("</p><p><code>{}</code></p>").format(str(self.out))


def build_report(
    logs: Sequence[str | Path],
    out: Destination,
    options: BuildOptions,
    progress: Progress,
    workers: Workers,
) -> Report:
    """Build a run's report at ``out``; an error leaves an earlier report there unchanged."""
    form = form_of(out, options.form)
    prepared = _prepare(logs, out, options, form)
    run = _load_and_judge(logs, options, prepared, progress, workers)
    release_memory()
    max_size = options.max_size or form.default_size
    renderer = Renderer(form.encode, workers, progress)
    pages = RunPages.of(run, renderer, limit=max_size, one_file=form.one_file)
    release_memory()  # before processes render pages, which share it
    with publishing(out, form) as path:
        # The pages that were written may have fewer details, to fit in the size.
        pages, size = deliver(path, form, pages, limit=max_size, progress=progress)
    if prepared.summary:
        append_summary(pages, prepared.summary)
    return Report(
        out=shown(out) if isinstance(out, str) else out,
        form=form.id,
        size=size,
        shown=shown_responses(pages.report),
        tables=run.tables,
        verdict=run.verdict,
        left_out=pages.report.left_out,
        figures=run_figures(pages.report),
        language=options.language,
    )


class _Prepared(NamedTuple):
    """What is read before the logs, as anything of it may be refused."""

    thresholds: Thresholds  # of the checks
    chart_functions: list[ChartFunction]
    # the file of the GitHub job summary, None if none is asked for
    summary: Path | None
    card: Card
    author_notes: str
    # on the author's notes, the configuration, and what files and variables set
    remarks: list[Note]
    omitted: list[Condition]  # prompts whose texts are left out


def _prepare(
    logs: Sequence[str | Path], out: Destination, options: BuildOptions, form: Form
) -> _Prepared:
    """Refuse options and the destination, and read the files that the user gave with the logs.

    This comes before the logs are read, which may take long.
    """
    thresholds = _thresholds(options)
    form.check(options)
    check_destination(out, form)
    check_address_space()
    functions = chart_functions(tuple(map(Path, options.charts)))
    summary = summary_file() if options.github_summary else None
    card = _card(logs, options)
    omitted = conditions_of(options.omit_prompts)
    hides = "--public" if options.public else ""
    notes, remarks = read_notes(
        logs,
        options.notes,
        redact=bool(options.redact),
        hides="--omit-prompts" if omitted else hides,
    )
    remarks += [Note(NoteKind.CARD, text, count=1) for text in card.notes]
    remarks += [Note(NoteKind.SET_BY, text, count=1) for text in options.set_by_texts]
    return _Prepared(
        thresholds=thresholds,
        chart_functions=functions,
        summary=summary,
        card=card,
        author_notes=notes,
        remarks=remarks,
        omitted=omitted,
    )


def _load_and_judge(
    logs: Sequence[str | Path],
    options: BuildOptions,
    prepared: _Prepared,
    progress: Progress,
    workers: Workers,
) -> JudgedRun:
    """Load a run, judge it, and redact it as the options say.

    Names are replaced first, as judging writes them into findings. Texts are replaced last, as
    they are needed to judge.
    """
    run = _load(logs, options, prepared.card, progress, workers)
    omitted = OmittedPrompts.of(run.tables, prepared.omitted)
    quotes = check_quotes(
        quotes_of(prepared.author_notes),
        run.tables.responses,
        with_mask(run.rollouts, run.tables.responses, omitted),
        redact=bool(options.redact),
    )
    tables = _with_notes(run.tables, [*prepared.remarks, *broken_quotes(quotes)])
    tables = _with_several_runs(logs, tables, options)
    card = _with_logged(prepared.card, run.settings, options)
    names = None
    if options.public:
        names = PrivateNames(private_names(card, tables, logs, options.run))
    named = hide_names(run._replace(tables=tables), card, options, names)
    call = partial(shown_condition, redact=options.redact, names=names)
    omitted = omitted.called(call)
    tables = named.tables
    if options.in_progress:
        tables = tables.mark_in_progress()
    with progress.stage(message("checking")):
        judged = _judge(
            tables, named.rollouts, prepared.thresholds, named.card, options
        )
    # Texts are read only if a chart of the user's functions takes them, and once for all. Their
    # rows are found now, before the samples are dropped.
    rows = _sampled_rows(tables)
    hidden = hide_texts(*judged, tables, named.rollouts, omitted, options)
    sampled_texts = cache(partial(_texts, rows, hidden.rollouts, options))
    tables = hidden.tables
    setup = setup_of(tables, named.card.entries)
    # The user's functions get the tables after redaction, and with it no texts (see ``_texts``).
    charts, chart_errors = custom_charts(
        prepared.chart_functions, tables, sampled_texts, quote=not options.hides
    )
    if names is not None:
        chart_errors = public_notes(chart_errors, names)
    return JudgedRun(
        title=options.title or named.name,
        options=options,
        tables=replace(tables, notes=[*tables.notes, *chart_errors]),
        verdict=with_texts(hidden.judged, tables.sample_note, setup),
        spreading=hidden.spreading,
        rollouts=hidden.rollouts,
        card=named.card,
        author_notes=prepared.author_notes,
        quotes=quotes,
        own_charts=charts,
        thresholds=prepared.thresholds,
        omitted=omitted,
    )


def check_logs(logs: Sequence[str | Path], options: BuildOptions) -> Verdict:
    """Return the verdict of the health checks on logs, without building a report."""
    progress = Progress(options.quiet, options.language)
    thresholds = _thresholds(options)
    with Workers(options.workers, options.ray) as workers:
        card = _card(logs, options)
        _, rollouts, tables, logged_settings = _load(
            logs, options, card, progress, workers
        )
        card = _with_logged(card, logged_settings, options)
        tables = _with_several_runs(logs, tables, options)
        for text in reading_warnings(tables):
            progress.warn(text)
        with progress.stage(message("checking")):
            judged, _ = _judge(tables, rollouts, thresholds, card, options)
    return with_texts(judged, tables.sample_note, setup_of(tables, card.entries))


def _load(
    logs: Sequence[str | Path],
    options: BuildOptions,
    card: Card,
    progress: Progress,
    workers: Workers,
) -> LoadedRun:
    """Load the run. Files that have another purpose, such as thresholds, are no unread logs."""
    function = FunctionName.of(options.score) if options.score else None
    given = (  # some may be None
        notes_file(logs, options.notes),
        options.thresholds,
        options.tokenizer,
        *options.charts,
        function and function.file,
    )
    if options.merge and options.restarts is None:
        options = replace(options, restarts="all")
    with _score_function(function, options) as score:
        return load_run(
            logs,
            options,
            progress,
            workers,
            known=[*card.paths, *(Path(path) for path in given if path)],
            explain=True,
            settings=card.entries or None,
            score=score,
        )


@contextmanager
def _score_function(
    function: FunctionName | None, options: BuildOptions
) -> Iterator[ScoreFunction | None]:
    """Yield the function of ``--score``, whose code runs in a process of its own, None without."""
    if function is None:
        yield None
        return
    with function_process(function, options.score_timeout) as process:
        name = f"{function.file.name}:{process.signature.name}"
        yield ScoreFunction(process, safe_text(name))


def _with_notes(tables: Tables, remarks: Sequence[Note]) -> Tables:
    """Return the tables with further notes, and without the note on earlier reports.

    With it, a second build into the folder of the logs would have other bytes than the first.
    """
    notes = [
        note for note in (*tables.notes, *remarks) if note.kind != NoteKind.REPORTS
    ]
    return replace(tables, notes=notes)


def _with_several_runs(
    logs: Sequence[str | Path], tables: Tables, options: BuildOptions
) -> Tables:
    """Return the tables with a note first if the logs look like several runs.

    With ``--merge``, the user says that they are one run; no note says otherwise. With
    ``one_run``, logs of several are an error.
    """
    if options.merge:
        return tables
    note = several_runs(
        logs, tables, named=not (options.redact_names or options.public)
    )
    if note is not None:
        tables = replace(tables, notes=[note, *tables.notes])
    if options.one_run:
        _refuse_several(tables)
    return tables


def _refuse_several(tables: Tables) -> None:
    """Raise an error if a note says that the logs, or the metrics, look like several runs.

    It has the names of those whose rollouts were read.
    """
    for note in tables.notes:
        if note.kind == NoteKind.SEVERAL_RUNS:
            runs = {run_in(file.name) for file in tables.files}
            raise SeveralRunsError(str(note.text), sorted(runs))


def _thresholds(options: ReportOptions) -> Thresholds:
    """Return the thresholds of checks; raise an error for names of checks that do not exist."""
    refuse_unknown(options.mute)
    return load_thresholds(options.thresholds) if options.thresholds else Thresholds()


def _card(logs: Sequence[str | Path], options: BuildOptions) -> Card:
    """Return the run's configuration; redaction removes its texts, or all entries with names."""
    meta = {str(name): str(value) for name, value in options.meta.items()}
    configs = tuple(map(Path, options.config))
    tracked = find_tracked([*logs, *options.metrics])
    of_run = settings_of_run(tracked, options.run)
    card = run_card(
        logs,
        configs=configs,
        meta=meta,
        git=options.git,
        tracked=of_run and (of_run.source, of_run.settings),
    )
    card.paths += chain.from_iterable(one.paths for one in tracked)
    return _redacted(card, options)


def _with_logged(
    card: Card, settings: Mapping[str, Row], options: ReportOptions
) -> Card:
    """Return the configuration, completed by what the logs say of it: file -> settings."""
    for source, values in settings.items():
        card = with_settings(card, source, values)
    return _redacted(card, options) if settings else card


def _redacted(card: Card, options: ReportOptions) -> Card:
    if options.redact_names:
        # Names of settings are names, too. The paths only keep the files from being unread logs.
        return Card(withheld=card.withheld or bool(card.entries), paths=card.paths)
    return card.without_texts() if options.redact else card


def _judge(
    tables: Tables,
    rollouts: Rollouts,
    thresholds: Thresholds,
    card: Card,
    options: BuildOptions,
) -> tuple[Judged[Finding], SpreadingTexts]:
    """Return the judged run, and the texts that spread over its responses."""
    complete = tables.without_step_in_progress()
    run = Run(complete, thresholds, settings=card.entries)
    judged = with_excerpts(judge(run, muted=options.mute), tables.responses, rollouts)
    return judged, spreading_texts(run)


def _sampled_rows(tables: Tables) -> Ints:
    """Return the rows of the response table whose texts are in the sample of training."""
    training = tables.training()
    sample = training.words or training.ngrams  # either may be None
    sampled = training.responses.iloc[[] if sample is None else sample.rows]
    steps = tables.responses["step"].to_numpy()
    # A step's responses follow each other, numbered from 0 by ``n``.
    first_row_of_step = np.searchsorted(steps, sampled["step"].to_numpy())
    rows: Ints = first_row_of_step + sampled["n"].to_numpy()
    return rows


def _texts(rows: Ints, rollouts: Rollouts, options: BuildOptions) -> pd.DataFrame:
    """Return prompts and responses of these rows of the response table, for custom charts."""
    if options.redact:
        raise UsageError("texts are not available with --redact")
    sampled = rollouts.read(rows, with_tokens=0)
    return pd.DataFrame(
        {
            "step": [rollout.step for rollout in sampled],
            "n": [rollout.n for rollout in sampled],
            "prompt": [rollout.prompt for rollout in sampled],
            "response": [rollout.response for rollout in sampled],
        }
    )
