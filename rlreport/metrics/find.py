"""Find and read the trainer's own metrics (e.g. loss) into one table, in bounded memory."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from rlreport.metrics import (
    console_files,
    csv_files,
    json_files,
    lines,
    trackers,
    wandb_file,
)
from rlreport.metrics.consoles import has_steps
from rlreport.metrics.lines import UnusedRows
from rlreport.metrics.starts import start_notes
from rlreport.metrics.table import (
    MAX_BROKEN,
    MAX_METRICS,
    MAX_STEPS,
    MetricsTable,
    Part,
)
from rlreport.read.lines import DAMAGED
from rlreport.read.listing import COMPRESSIONS, name_in_logs, names_of_runs
from rlreport.system.documents import LimitError, load_json
from rlreport.system.in_memory import is_in_memory
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

_DEPTH = 6  # levels of folders that are searched
_PEEK = 1 << 20  # bytes of a console log in which its first line of metrics is searched
_MAX_RUN_NAME = 200  # characters
# Bytes of a table's first line, such as one of many thousand metrics
_LONGEST_HEAD = 16 << 20
_CHECKPOINT = re.compile(r"(?:checkpoint|ckpt|global_step|step)[-_]?\d+")
_CONSOLE = (".log", ".txt", ".out")
# Names of JSON documents to read in a folder; others are read only if the user names them
_JSON_NAME = re.compile(r"metrics|history|trainer_state", re.IGNORECASE)


class MetricsSource(NamedTuple):
    """The metrics of one run in a file or MLflow folder.

    Attributes:
        path: the file or folder.
        read: yields (step, metrics), and adds rows that are not used to ``UnusedRows``.
        run: name of the run, "." for files directly in the folder that was searched.
    """

    path: Path
    read: Callable[[UnusedRows], Iterator[Record]]
    run: str = ""


def find_metrics(path: Path) -> list[MetricsSource]:
    """Return the metrics in a folder or a file, by file and run, sorted by path; [] without any.

    MLflow's ``metrics`` folders count as files. If the checkpoints of a run each have a
    ``trainer_state.json``, only the largest is used. Links to folders are not followed.
    """
    if not path.is_dir():
        # Such a file can only be one of metrics, even if it is broken: reading it tells why.
        only_metrics = path.is_file() and _kind(path) in ONLY_METRICS
        return _files_of(path, path.parent) if only_metrics or _is_metrics(path) else []
    if _is_mlflow(path):
        return [_mlflow_source(path)]
    sources: list[MetricsSource] = []
    # Run -> the ``trainer_state.json`` of its checkpoints
    states: dict[str, list[Path]] = {}
    for folder_path, folders, names in os.walk(path):
        here = Path(folder_path)
        if is_own_folder(here):
            folders.clear()
            continue
        # ``walk`` goes on in the folders that remain in this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(here.relative_to(path).parts) >= _DEPTH:
            folders.clear()
        for folder in [name for name in folders if _is_mlflow(here / name)]:
            folders.remove(folder)
            sources.append(_mlflow_source(here / folder))
        for name in names:
            file = here / name
            if not file.is_file():
                continue  # opening a pipe would block
            if file.name.endswith("trainer_state.json"):
                states.setdefault(_run_of(file, path), []).append(file)
            elif _is_metrics(file, in_folder=True):
                sources += _files_of(file, path)
    # The state of a later checkpoint has the history of those before it: the largest has all.
    for files in states.values():
        largest = max(files, key=lambda file: (file.stat().st_size, str(file)))
        sources += _files_of(largest, path)
    return sorted(sources, key=lambda one: (one.path, one.run))


def sources_of(path: Path) -> list[MetricsSource]:
    """Return the metrics at a path that the user gave as --metrics.

    Raises:
        UnusableInputError: it is missing, a folder without any, or part of a report of rlreport.
    """
    refuse_own_output([path], option="--metrics")
    if path.is_dir():
        sources = find_metrics(path)
        if not sources:
            raise UnusableInputError(
                f"{path.name}: this folder contains no trainer metrics"
            )
        return sources
    if not path.is_file():
        # Opening a pipe would block until another process writes to it.
        raise UnusableInputError(f"{path.name}: no such file")
    return _files_of(path, path.parent)


def _run_of(path: Path, root: Path) -> str:
    """Return the run of a file: its folder below ``root``, without the folders of checkpoints."""
    parts = path.parent.relative_to(root).parts
    return "/".join(part for part in parts if not _CHECKPOINT.fullmatch(part)) or "."


def _is_mlflow(folder: Path) -> bool:
    return folder.name == "metrics" and (folder.parent / "meta.yaml").is_file()


def _mlflow_source(folder: Path) -> MetricsSource:
    """Return the source of a run of MLflow, given the folder ``metrics`` in the run's folder."""
    run_folder = folder.parent
    name = ""
    with suppress(OSError):  # a run without a name
        text = (run_folder / "tags" / "mlflow.runName").read_text("utf-8", "replace")
        name = text[:_MAX_RUN_NAME].strip()
    read = partial(trackers.mlflow_records, folder)
    return MetricsSource(folder, read, name or run_folder.name)


def _files_of(path: Path, root: Path) -> list[MetricsSource]:
    """Return a source for each run in a file; a run without a name is called by its folder.

    ``root`` is the folder that was searched, see ``_run_of``.
    """
    run = _run_of(path, root)
    kind = _kind(path)
    read = partial(_READERS[kind], path)
    # Of a file with several runs, each source reads the rows of one.
    if kind == ".db":
        with _unreadable(path):
            names = trackers.trackio_runs(path)
        return [
            MetricsSource(path, partial(read, run=name), name or run) for name in names
        ]
    if kind == ".csv":
        with _unreadable(path):
            names = csv_files.csv_runs(path)
        if names:  # the table has several runs
            return [
                MetricsSource(path, partial(read, run=name), name or run)
                for name in names
            ]
    if kind == ".wandb":
        return [MetricsSource(path, read, wandb_file.wandb_run(path))]
    return [MetricsSource(path, read, run)]


_READERS: dict[str, Callable[..., Iterator[Record]]] = {
    "events": trackers.tensorboard_records,
    ".csv": csv_files.csv_records,
    ".db": trackers.trackio_records,
    ".wandb": wandb_file.wandb_records,
    ".jsonl": json_files.json_line_records,
    ".json": json_files.json_records,
    "console": console_files.console_records,
}


def _kind(path: Path) -> str:
    """Return the kind of a file of metrics by its name, a key of ``_READERS``."""
    if is_in_memory(path.name):
        return ".jsonl"
    name = path.stem if path.suffix in COMPRESSIONS else path.name
    if EVENTS in name:
        return "events"
    for kind in (".jsonl", ".csv", ".json", ".wandb", ".db"):
        if name.endswith(kind):
            return kind
    return "console"


def _is_metrics(path: Path, *, in_folder: bool = False) -> bool:
    """Return whether a file has metrics; ``in_folder`` if the user did not name the file.

    Files in a folder that only might be metrics are not opened.
    """
    kind = _kind(path)
    if not path.is_file():
        return False
    if in_folder and kind == ".json" and not _JSON_NAME.search(path.name):
        return False
    if in_folder and kind == "console" and path.suffix not in _CONSOLE:
        return False
    try:
        return _has_metrics(path, kind)
    except LimitError:
        return kind == ".csv"  # reading it tells the limit
    except (OSError, ValueError, sqlite3.Error, RlreportError):
        return False


def _has_metrics(path: Path, kind: str) -> bool:
    """Return whether a file of this kind has metrics, by its name or its first lines."""
    match kind:
        case "events":
            return path.name.startswith(f"{EVENTS}.")
        case ".db":
            return bool(trackers.trackio_runs(path))
        case ".wandb":
            return path.name.startswith("run-")
        case ".json":
            return next(json_files.json_records(path, UnusedRows()), None) is not None
        case "console":
            with path.open("rb") as stream:
                return has_steps(stream.read(_PEEK))
        case _:
            return _is_table(path, kind)


def _is_table(path: Path, kind: str) -> bool:
    """Return whether a .jsonl begins with an event, or a .csv with names and a row of numbers."""
    with closing(lines.lines_of(path, _LONGEST_HEAD)) as head:
        first = next(head, b"")
        second = next(head, b"")
    if kind == ".jsonl":
        return is_event(load_json(first, "replace"))
    separator = csv_files.csv_separator(first)
    names = csv_files.csv_cells(first, separator)
    cells = csv_files.csv_cells(second, separator)
    # A table of rollouts has columns of texts.
    if len(cells) != len(names) or not TEXT_KEYS.isdisjoint(names):
        return False
    row = dict(zip(names, cells, strict=True))
    # What remains are metrics; only the first key of a step counts.
    steps = [row.pop(key) for key in STEP_KEYS if key in row]
    if not steps or not _is_number(steps[0]):
        return False
    return any(map(_is_number, row.values()))


def _is_number(cell: str) -> bool:
    return lines.number(cell or "nan") is not None


@dataclass(slots=True)
class TrainerMetrics:
    """The metrics of a run, and the files they are from.

    Attributes:
        table: ``step`` and one column per metric, see ``MetricsTable.frame``.
        broken: metric -> steps at which it was NaN or infinite.
        paths: files that were read.
        unread: files of metrics that cannot be read.
        files: name, number of steps and metrics of each file that was read.
        runs: names of the runs if two of them have the same metric at the same step, else empty.
        notes: what readers of the report should know about the files.
        clocks: times of the log, see ``MetricsTable.clocks``.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    broken: dict[str, list[int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)
    files: list[MetricsFile] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    clocks: dict[str, Part] = field(default_factory=dict)

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
    """Read the metrics files ``given`` by the user, else those in the logs.

    With a ``run``, only those of this run are read.

    A file that cannot be read raises if the user named it; if not, it becomes a note. With
    ``one_run``, several starts in one log are taken to be one training.
    """
    find = sources_of if given else find_metrics
    sources: list[MetricsSource] = []
    for path in given or logs:
        sources += find(Path(path))
    runs = sorted({source.run for source in sources})
    # The run may have rollouts only.
    if run and run not in runs and run not in names_of_runs(logs):
        raise UsageError(
            f"--run {run}: no such run; found: {', '.join(runs) or 'none'}"
        )
    by_run: dict[str, list[MetricsSource]] = {}
    for source in sources:
        if run in ("", source.run):
            by_run.setdefault(source.run, []).append(source)

    result = TrainerMetrics()
    table = MetricsTable()
    seen: dict[str, Ints] = {}  # metric -> its steps in the runs so far
    for run_sources in by_run.values():
        table_of_run = _table_of_run(run_sources, logs, result, must_read=bool(given))
        arrangement = table_of_run.arrange(one_run=one_run)
        if arrangement:
            result.notes += start_notes(arrangement)
        # Two runs with a metric at the same step cannot be in one table; parts of one run can.
        if len(by_run) > 1 and _add_steps(seen, table_of_run.steps_of()):
            result.runs = sorted(by_run)
        table.extend(table_of_run)
    result.table, result.broken = table.frame()
    result.clocks = table.clocks()
    result.notes += [Note(NoteKind.METRICS, limit, 1) for limit in table.limits]
    return result


def _table_of_run(
    sources: Sequence[MetricsSource],
    logs: Sequence[str | Path],
    result: TrainerMetrics,
    *,
    must_read: bool,
) -> MetricsTable:
    """Return the metrics of one run; add its files, and notes on them, to ``result``.

    A file that cannot be read raises if it must be read, or if it is one of ``logs``.
    """
    log_paths = {Path(path) for path in logs}
    table = MetricsTable()
    for source in sources:
        name = name_in_logs(source.path, logs)
        unused = UnusedRows()
        try:
            part = read_metrics(source, unused)
        except RlreportError as error:
            # A database that the user named may be one of rollouts only.
            is_named = source.path in log_paths and source.path.suffix != ".db"
            if must_read or is_named:
                raise
            why = message("trainer metrics not read: {why}", why=str(error))
            # What can be installed is told at once, not on the data page only.
            kind = NoteKind.METRICS
            if isinstance(error, MissingExtraError):
                kind = NoteKind.FORMAT
            result.notes.append(Note(kind, why, 1, name))
            result.unread.append(source.path)
            continue
        result.notes += unused.notes(name)
        result.paths.append(source.path)
        result.files.append(MetricsFile(name, len(part.steps), sorted(part.names)))
        table.extend(part)
    return table


def _add_steps(seen: dict[str, Ints], steps_of: Mapping[str, Ints]) -> bool:
    """Add the steps of a run's metrics to ``seen``; return whether one of them was there."""
    is_repeated = False
    for name, steps in steps_of.items():
        seen_steps = seen.get(name, np.empty(0, np.int64))
        if np.isin(steps, seen_steps).any():
            is_repeated = True
        seen[name] = np.union1d(seen_steps, steps)
    return is_repeated


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    """Convert the errors that a damaged file raises to UnusableInputError."""
    try:
        yield
    except (*DAMAGED, ValueError, OverflowError, sqlite3.Error) as error:
        why = f"{path.name}: cannot be read as metrics: {error}"
        raise UnusableInputError(why) from error


def read_metrics(source: MetricsSource, unused: UnusedRows) -> MetricsTable:
    """Read a metrics file, counting bad rows in ``unused``; raise if it has no metrics."""
    table = MetricsTable()
    with _unreadable(source.path):
        table.add(source.read(unused))
    if not table.names:
        raise UnusableInputError(f"{source.path.name}: contains no steps with numbers")
    return table
