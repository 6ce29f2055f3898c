"""Find and read the trainer's own metrics (e.g. loss) into one table, in bounded memory."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.errors import (
    MissingExtraError,
    RlreportError,
    UnusableInputError,
    UsageError,
)
from rlreport.figures.ragged import Ints
from rlreport.formats.metric_rows import STEP_KEYS, TEXT_KEYS, Record, is_event
from rlreport.metrics import readers
from rlreport.metrics.readers import LeftOut
from rlreport.metrics.starts import start_notes
from rlreport.metrics.table import MAX_BROKEN, MAX_METRICS, MAX_STEPS, MetricsTable
from rlreport.read.lines import DAMAGED
from rlreport.read.listing import COMPRESSIONS, name_in_logs, names_of_runs
from rlreport.system.documents import LimitError, load_json
from rlreport.system.own_output import is_own_folder, refuse_own_output
from rlreport.tables import MetricsFile, Note, NoteKind
from rlreport.text.messages import message

__all__ = [
    "MAX_BROKEN",
    "MAX_METRICS",
    "MAX_STEPS",
    "MetricsTable",
    "TrainerMetrics",
    "find_and_read",
    "find_metrics",
    "read_metrics",
]

EVENTS = "events.out.tfevents"  # Prefix of the names of TensorBoard event files
# Kinds of files (see ``_kind``) that never contain rollouts
ONLY_METRICS = ("events", ".csv", ".wandb")

_DEPTH = 6
_PEEK = 1 << 20
_LONGEST_HEAD = (
    16 << 20
)  # bytes of a table's first line, such as one of many thousand metrics
_CHECKPOINT = re.compile(r"(?:checkpoint|ckpt|global_step|step)[-_]?\d+")
_CONSOLE = (".log", ".txt", ".out")
# Names of JSON documents to read in a folder; others are read only if the user names them
_JSON_NAME = re.compile(r"metrics|history|trainer_state", re.IGNORECASE)


class MetricsSource(NamedTuple):
    """The metrics of one run in a file or MLflow folder; ``read`` yields (step, metrics)."""

    path: Path
    read: Callable[[LeftOut], Iterator[Record]]
    run: str = (
        ""  # name of the run, "." for files directly in the folder that was searched
    )


def find_metrics(path: Path) -> list[MetricsSource]:
    """Return the metrics in a folder or a file, by file and run, sorted by path; [] without any.

    MLflow's ``metrics`` folders count as files. If the checkpoints of a run each have a
    ``trainer_state.json``, only the largest is used. Links to folders are not followed.
    """
    if not path.is_dir():
        only_metrics = path.is_file() and _kind(path) in ONLY_METRICS
        return _files_of(path, path.parent) if only_metrics or _is_metrics(path) else []
    if _is_mlflow(path):
        return [_mlflow(path)]
    sources: list[MetricsSource] = []
    states: dict[str, list[Path]] = {}
    for folder_path, folders, names in os.walk(path):
        here = Path(folder_path)
        if is_own_folder(here):
            folders.clear()
            continue
        deep = len(here.relative_to(path).parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for folder in [f for f in folders if _is_mlflow(here / f)]:
            folders.remove(folder)
            sources.append(_mlflow(here / folder))
        for file in (here / name for name in names):
            if not file.is_file():
                continue  # opening a pipe would block
            if file.name.endswith("trainer_state.json"):
                states.setdefault(_run_of(file, path), []).append(file)
            elif _is_metrics(file, in_folder=True):
                sources += _files_of(file, path)
    for files in states.values():
        sources += _files_of(
            max(files, key=lambda file: (file.stat().st_size, str(file))), path
        )
    return sorted(sources, key=lambda one: (one.path, one.run))


def sources_of(path: Path) -> list[MetricsSource]:
    """Return metrics at a path from the user.

    Raises:
        UnusableInputError: it is missing, a folder without any, or part of a report of rlreport.
    """
    refuse_own_output([path], option="--metrics")
    if path.is_dir():
        if sources := find_metrics(path):
            return sources
        raise UnusableInputError(
            f"{path.name}: this folder contains no trainer metrics"
        )
    if not path.is_file():
        # Opening a pipe would block until another process writes to it.
        raise UnusableInputError(f"{path.name}: no such file")
    return _files_of(path, path.parent)


def _run_of(path: Path, root: Path) -> str:
    parts = path.parent.relative_to(root).parts
    return "/".join(part for part in parts if not _CHECKPOINT.fullmatch(part)) or "."


def _is_mlflow(folder: Path) -> bool:
    return folder.name == "metrics" and (folder.parent / "meta.yaml").is_file()


def _mlflow(folder: Path) -> MetricsSource:
    run = folder.parent
    name = ""
    with suppress(OSError):
        name = (
            (run / "tags" / "mlflow.runName")
            .read_text("utf-8", "replace")[:200]
            .strip()
        )
    return MetricsSource(
        folder, partial(readers.mlflow_records, folder), name or run.name
    )


def _files_of(path: Path, root: Path) -> list[MetricsSource]:
    run = _run_of(path, root)
    kind = _kind(path)
    read = partial(_READERS[kind], path)
    if kind in (".db", ".csv"):
        with _unreadable(path):
            runs = (
                readers.trackio_runs(path)
                if kind == ".db"
                else readers.csv_runs(path) or [""]
            )
        return [
            MetricsSource(path, partial(read, run=name), name or run) for name in runs
        ]
    return [
        MetricsSource(path, read, readers.wandb_run(path) if kind == ".wandb" else run)
    ]


_READERS: dict[str, Callable[..., Iterator[Record]]] = {
    "events": readers.tensorboard_records,
    ".csv": readers.csv_records,
    ".db": readers.trackio_records,
    ".wandb": readers.wandb_records,
    ".jsonl": readers.json_line_records,
    ".json": readers.json_records,
    "console": readers.console_records,
}


def _kind(path: Path) -> str:
    name = (
        path.name.removesuffix(path.suffix)
        if path.suffix in COMPRESSIONS
        else path.name
    )
    if EVENTS in name:
        return "events"
    suffixes = (".jsonl", ".csv", ".json", ".wandb", ".db")
    return next((kind for kind in suffixes if name.endswith(kind)), "console")


def _is_metrics(path: Path, *, in_folder: bool = False) -> bool:
    kind = _kind(path)
    if not path.is_file():
        return False
    try:
        if kind == "events":
            return path.name.startswith(f"{EVENTS}.")
        if kind == ".db":
            return bool(readers.trackio_runs(path))
        if kind == ".wandb":
            return path.name.startswith("run-")
        if kind == ".json":
            named = not in_folder or bool(_JSON_NAME.search(path.name))
            return (
                named and next(readers.json_records(path, LeftOut()), None) is not None
            )
        if kind == "console" and in_folder and path.suffix not in _CONSOLE:
            return False
        if kind == "console":
            with path.open("rb") as stream:
                return bool(readers.CONSOLE_LINE.search(stream.read(_PEEK)))
        return _is_table(path, kind)
    except LimitError:
        return kind == ".csv"  # reading it tells the limit
    except (OSError, ValueError, sqlite3.Error, RlreportError):
        return False


def _is_table(path: Path, kind: str) -> bool:
    with closing(readers.lines_of(path, _LONGEST_HEAD)) as lines:
        first = next(lines, b"")
        second = next(lines, b"")
    if kind == ".jsonl":
        return is_event(load_json(first, "replace"))
    separator = readers.csv_separator(first)
    names, cells = (readers.csv_cells(line, separator) for line in (first, second))
    if len(cells) != len(names) or not TEXT_KEYS.isdisjoint(names):
        return False
    row = dict(zip(names, cells, strict=True))
    steps = [row.pop(key) for key in STEP_KEYS if key in row]
    return (
        all(map(_is_number, steps[:1]))
        and any(map(_is_number, row.values()))
        and bool(steps)
    )


def _is_number(cell: str) -> bool:
    return readers.number(cell or "nan") is not None


@dataclass(slots=True)
class TrainerMetrics:
    # ``step`` and one column per metric, see ``MetricsTable.frame``
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    # metric -> steps at which it was NaN or infinite
    broken: dict[str, list[int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    unread: list[Path] = field(
        default_factory=list
    )  # files of metrics that cannot be read
    files: list[MetricsFile] = field(default_factory=list)
    # names of the runs if two of them have the same metric at the same step, else empty
    runs: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def explained(self, *, strict: bool) -> list[Path]:
        """Return the files of which a note already says why they are not read.

        With ``strict`` none: whoever reads the logs then refuses each file that is not read.
        """
        return [] if strict else self.unread


def find_and_read(
    logs: Sequence[str | Path],
    given: Sequence[str | Path] = (),
    run: str = "",
    *,
    one_run: bool = False,
) -> TrainerMetrics:
    """Read the metrics files ``given``, else those in the logs; only of ``run`` if it is not "".

    A file that cannot be read raises if the user named it; if not, it becomes a note. With
    ``one_run``, several starts in one log are taken to be one training.
    """
    result = TrainerMetrics()
    table = MetricsTable()
    seen: dict[str, Ints] = {}
    overlapping = False
    log_paths = {Path(path) for path in logs}
    find = sources_of if given else find_metrics
    sources = [source for path in map(Path, given or logs) for source in find(path)]
    runs = sorted({source.run for source in sources})
    if run and run not in runs and run not in names_of_runs(logs):
        raise UsageError(
            f"--run {run}: no such run; found: {', '.join(runs) or 'none'}"
        )
    by_run: dict[str, list[MetricsSource]] = {}
    for source in sources:
        if run in ("", source.run):
            by_run.setdefault(source.run, []).append(source)
    for sources in by_run.values():
        of_run = MetricsTable()
        for source in sources:
            name = name_in_logs(source.path, logs)
            left_out = LeftOut()
            try:
                part = read_metrics(source, left_out)
            except RlreportError as error:
                # Trackio's database may contain only rollouts.
                if given or (source.path in log_paths and source.path.suffix != ".db"):
                    raise
                why = message("trainer metrics not read: {why}", why=str(error))
                # What can be installed is told at once, not on the data page only.
                kind = (
                    NoteKind.FORMAT
                    if isinstance(error, MissingExtraError)
                    else NoteKind.METRICS
                )
                result.notes.append(Note(kind, why, 1, name))
                result.unread.append(source.path)
                continue
            result.notes += left_out.notes(name)
            result.paths.append(source.path)
            result.files.append(MetricsFile(name, len(part.steps), sorted(part.names)))
            of_run.extend(part)
        arrangement = of_run.arrange(one_run=one_run)
        if arrangement:
            result.notes += start_notes(arrangement)
        for name, steps in of_run.steps_of().items() if len(by_run) > 1 else ():
            overlapping |= bool(np.isin(steps, seen.get(name, ())).any())
            seen[name] = np.union1d(seen.get(name, ()), steps).astype(np.int64)
        table.extend(of_run)
    if overlapping:
        result.runs = sorted(by_run)
    result.table, result.broken = table.frame()
    result.notes += [Note(NoteKind.METRICS, limit, 1) for limit in table.limits]
    return result


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except (*DAMAGED, ValueError, OverflowError, sqlite3.Error) as error:
        why = f"{path.name}: cannot be read as metrics: {error}"
        raise UnusableInputError(why) from error


def read_metrics(source: MetricsSource, left_out: LeftOut) -> MetricsTable:
    """Read a metrics file, counting bad rows in ``left_out``; raise if it has no metrics."""
    table = MetricsTable()
    with _unreadable(source.path):
        table.add(source.read(left_out))
    if not table.parts:
        raise UnusableInputError(f"{source.path.name}: contains no steps with numbers")
    return table
