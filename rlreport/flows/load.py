"""Load a run: read its logs and metrics, and summarise them in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import UnusableInputError
from rlreport.metrics.console_files import unknown_consoles
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.options import GaeOptions, ReadOptions, part
from rlreport.read.logs import read_logs
from rlreport.read.rollouts import Rollouts
from rlreport.read.tables import Scan
from rlreport.summarise.run import summarise
from rlreport.system.workers import Progress, Workers, release_memory
from rlreport.tables import Tables

Logs = Sequence[str | Path]


class LoadedRun(NamedTuple):
    """A run as it was logged, before it is judged."""

    name: str  # of the folder or file that the user gave
    rollouts: Rollouts  # the responses with texts that pages may show
    tables: Tables


class ReadRun(NamedTuple):
    """What the logs and the trainer's metrics of a run have."""

    scan: Scan
    metrics: TrainerMetrics


def load_run(
    logs: Logs,
    options: ReadOptions,
    progress: Progress,
    workers: Workers | None = None,
    **settings: Any,
) -> LoadedRun:
    """Read a run and summarise it; ``settings`` are further arguments of ``read_run``."""
    scan, metrics = read_run(logs, options, progress, workers, **settings)
    tables = summarise(scan, metrics)
    loaded = LoadedRun(scan.name, scan.rollouts, tables)
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
    one_run: bool = False,
    explain: bool = False,
) -> ReadRun:
    """Read the logs and the metrics of a run.

    Args:
        logs: files, folders, globs and URLs.
        options: has those of ReadOptions and GaeOptions.
        progress: shows how far reading is.
        workers: processes that read; None to start some.
        known: files with another purpose: no note says that they are not logs.
        one_run: whether several starts in one log of metrics are one training.
        explain: whether an error says what was found of metrics.

    Raises:
        UnusableInputError: nothing can be read.
    """
    read_options = part(ReadOptions, options)
    gae_options = part(GaeOptions, options)
    metrics = find_and_read(
        logs, read_options.metrics, read_options.run, one_run=one_run
    )
    # Files on which there is no note that they are not logs
    used = [*known, *metrics.explained(strict=read_options.strict)]
    try:
        scan = read_logs(
            logs,
            read_options,
            gae_options,
            progress,
            metrics=metrics.paths,
            workers=workers,
            used=used,
        )
    except UnusableInputError as error:
        # If metrics were read, the error is about the logs alone.
        if metrics.paths:
            raise
        # The first three notes on metrics may say why none were found, either.
        reasons = [str(note.text) for note in metrics.notes[:3]] if explain else []
        consoles = unknown_consoles(logs)
        parts = [str(error), *reasons]
        if consoles:
            parts.append(consoles)
        raise UnusableInputError("; ".join(parts)) from error
    return ReadRun(scan, metrics)
