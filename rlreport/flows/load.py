"""Load a run: read its logs and metrics, and summarise them in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.about.card import run_card
from rlreport.errors import UnusableInputError, UsageError
from rlreport.formats.base import Row
from rlreport.formats.trainer_state import planned_steps
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.options import GaeOptions, ReadOptions, part
from rlreport.read.changed import change_in_words
from rlreport.read.logs import read_logs
from rlreport.read.rollouts import Rollouts
from rlreport.read.scoring import ScoreFunction
from rlreport.read.tables import Scan
from rlreport.read.trl_folders import Trainer
from rlreport.summarise.run import summarise
from rlreport.system.memory import release_memory
from rlreport.system.workers import Progress, Workers
from rlreport.tables import NoteKind, Tables
from rlreport.text.messages import message

Logs = Sequence[str | Path]


class LoadedRun(NamedTuple):
    """A run as it was logged, before it is judged."""

    name: str  # of the folder or file that the user gave
    rollouts: Rollouts  # the responses with texts that pages may show
    tables: Tables
    settings: Mapping[str, Row]  # file of metrics -> configuration that it has


class ReadRun(NamedTuple):
    """What the logs and the trainer's metrics of a run have."""

    scan: Scan
    metrics: TrainerMetrics
    planned_steps: int | None  # number of steps that the run was to have, if known


def load_run(
    logs: Logs,
    options: ReadOptions,
    progress: Progress,
    workers: Workers | None = None,
    **settings: Any,
) -> LoadedRun:
    """Read a run and summarise it; ``settings`` are further arguments of ``read_run``."""
    scan, metrics, planned = read_run(logs, options, progress, workers, **settings)
    with progress.stage(message("summarising")):
        tables = summarise(scan, metrics, planned)
    loaded = LoadedRun(scan.name, scan.rollouts, tables, metrics.settings)
    del scan  # it is large
    release_memory()
    return loaded


def read_run(
    logs: Logs,
    options: ReadOptions | Mapping[str, Any],
    progress: Progress,
    workers: Workers | None = None,
    *,
    known: Iterable[Path] = (),
    explain: bool = False,
    settings: Mapping[str, Any] | None = None,
    score: ScoreFunction | None = None,
) -> ReadRun:
    """Read the logs and the metrics of a run.

    Args:
        logs: files, folders, globs and URLs.
        options: has those of ReadOptions and GaeOptions.
        progress: shows how far reading is.
        workers: processes that read; None to start some.
        known: files with another purpose: no note says that they are not logs.
        explain: whether an error says what was found of metrics.
        settings: the run's configuration; None to look for it next to the logs.
        score: gives all responses a second reward.

    Raises:
        UnusableInputError: nothing can be read.
    """
    if settings is None:
        settings = run_card(logs).entries
    read_options = part(ReadOptions, options)
    gae_options = part(GaeOptions, options)
    restarts = read_options.restarts
    find = partial(
        find_and_read,
        logs,
        run=read_options.run,
        roles=read_options.roles,
        restarts=restarts,
    )
    with progress.stage(message("reading metrics")):
        metrics = find(given=read_options.metrics)
    if metrics.set_back and restarts is None:
        # The metrics show that the rollouts, whose step falls as well, are of one training.
        read_options = replace(read_options, restarts="all")
    # Files on which there is no note that they are not logs
    used = [*known, *metrics.explained(strict=read_options.strict)]
    read = partial(
        read_logs,
        logs,
        read_options,
        gae_options,
        progress,
        workers=workers,
        score=score,
    )
    try:
        scan = read(trainer=Trainer(metrics.paths, metrics.table, settings), used=used)
    except UnusableInputError as error:
        # If metrics were read, the error is about the logs alone.
        if metrics.paths:
            raise
        # Without rollouts, files that could be either are metrics.
        wide = find(wide=True)
        if wide.paths:
            trainer = Trainer(wide.paths, wide.table, settings)
            scan = read(trainer=trainer, used=used)
            return ReadRun(scan, wide, planned_steps(wide.paths, settings))
        from rlreport.metrics.console_files import unknown_consoles

        # The first three notes on metrics may say why none were found, either.
        reasons = [str(note.text) for note in metrics.notes[:3]] if explain else []
        parts = [str(error), *reasons, unknown_consoles(logs)]
        raise UnusableInputError("; ".join(filter(None, parts))) from error
    if read_options.roles and not metrics.paths:
        raise UsageError("--role: there are no trainer metrics in the logs")
    starts = max(scan.starts, metrics.starts)
    if isinstance(restarts, int) and restarts > starts:
        raise UsageError(f"--restarts {restarts}: the logs have {starts} start")
    return ReadRun(scan, metrics, planned_steps(metrics.paths, settings))


def reading_warnings(tables: Tables) -> list[str]:
    """Return the notes that the user should read at once; others are in the report.

    Logs that changed while they were read come first. A text that several notes have is there once.
    """
    changes = [
        change_in_words(note) for note in tables.notes if note.kind == NoteKind.CHANGED
    ]
    texts = [note.text for note in tables.notes if note.kind in _URGENT]
    if tables.rescoring is not None and tables.rescoring.missing:
        texts.append(tables.rescoring.missing)
    return [*changes, *dict.fromkeys(texts)]


_URGENT = (
    NoteKind.FORMAT,
    NoteKind.NO_STEP,
    NoteKind.SEVERAL_RUNS,
    NoteKind.SEVERAL_STARTS,
    NoteKind.CHARTS,
    NoteKind.NOTES,
)
