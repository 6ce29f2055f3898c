"""Load a run: read its logs and metrics, and summarise them in tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlreport.about.card import Card
from rlreport.errors import UnusableInputError
from rlreport.metrics.find import find_and_read
from rlreport.options import BuildOptions, GaeOptions, ReadOptions, part
from rlreport.pages.author_notes import notes_file
from rlreport.read.logs import read_logs
from rlreport.read.rollouts import Rollouts
from rlreport.summarise.run import summarise
from rlreport.system.workers import Progress, Workers, release_memory
from rlreport.tables import Tables


def load_run(
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
    named = (
        notes_file(logs, options.notes),
        options.thresholds,
        read.tokenizer,
        *options.charts,
    )
    used = [
        *card.paths,
        *metrics.explained(strict=read.strict),
        *(Path(path) for path in named if path),
    ]
    try:
        scan = read_logs(logs, read, gae, progress, metrics.paths, workers, used)
    except UnusableInputError as error:
        reasons = (
            [] if metrics.paths else [f"; {note.text}" for note in metrics.notes[:3]]
        )
        raise UnusableInputError(f"{error}{''.join(reasons)}") from error
    tables = summarise(scan, metrics)
    name = scan.name
    rollouts = scan.rollouts
    del scan
    release_memory()
    return name, rollouts, tables
