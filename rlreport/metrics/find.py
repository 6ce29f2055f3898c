"""Find and read the trainer's own metrics (e.g. loss) into one table, in bounded memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
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
from rlreport.formats.base import Row
from rlreport.formats.metric_rows import STEP_KEYS, TEXT_KEYS, Record
from rlreport.formats.registry import detect
from rlreport.metrics import (
    csv_files,
    json_files,
    lines,
    shapes,
    trackers,
    wandb_file,
)
from rlreport.metrics.chosen_roles import choose_roles
from rlreport.metrics.console_names import is_console_name
from rlreport.metrics.files_of_run import (
    OF_ONE_RUN,
    FileTable,
    join,
    note_on_runs,
    run_of_file,
)
from rlreport.metrics.lines import SEARCHED_LEVELS, UnusedRows
from rlreport.metrics.starts import start_notes
from rlreport.metrics.table import (
    MAX_BROKEN,
    MAX_METRICS,
    MAX_STEPS,
    MetricsTable,
    Part,
)
from rlreport.read.lines import DAMAGED, csv_cells, csv_separator
from rlreport.read.listing import COMPRESSIONS, name_in_logs, names_of_runs
from rlreport.read.remarks import one_per_cause
from rlreport.system.documents import LimitError
from rlreport.system.in_memory import is_in_memory
from rlreport.system.own_output import (
    is_own_file,
    refuse_own_output,
    walk_without_reports,
)
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

_MAX_DETECTED = 20  # rows by which a format of rollouts is recognized
_MAX_RUN_NAME = 200  # characters
_CHECKPOINT = re.compile(r"(?:checkpoint|ckpt|global_step|step)[-_]?\d+")
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
    read: partial[Iterator[Record]]
    run: str = ""


def find_metrics(path: Path, *, wide: bool = False) -> list[MetricsSource]:
    """Return the metrics in a folder or a file, by file and run, sorted by path; [] without any.

    With ``wide``, also files that are metrics by the shape of their content alone, see
    ``metrics.shapes``: where there are no rollouts, which such files could be, too.

    MLflow's ``metrics`` folders count as files. If the checkpoints of a run each have a
    ``trainer_state.json``, only the largest is used. Links to folders are not followed.
    """
    if not path.is_dir():
        # Such a file can only be one of metrics, even if it is broken: reading it tells why.
        only_metrics = path.is_file() and _kind(path) in ONLY_METRICS
        may_be_read = only_metrics or is_metrics(path, wide=wide)
        return _files_of(path, path.parent) if may_be_read else []
    if is_mlflow(path):
        return [_mlflow_source(path)]
    sources: list[MetricsSource] = []
    # Run -> the ``trainer_state.json`` of its checkpoints
    states: dict[str, list[Path]] = {}
    for here, folders, names in walk_without_reports(path, SEARCHED_LEVELS):
        for folder in [name for name in folders if is_mlflow(here / name)]:
            folders.remove(folder)
            sources.append(_mlflow_source(here / folder))
        for name in names:
            file = here / name
            if not file.is_file() or is_own_file(file):
                continue  # opening a pipe would block
            if file.name.endswith("trainer_state.json"):
                states.setdefault(_run_of(file, path), []).append(file)
            elif is_metrics(file, in_folder=True, wide=wide):
                sources += _files_of(file, path)
    # The state of a later checkpoint has the history of those before it: the largest has all.
    for files in states.values():
        largest = max(files, key=_size_and_path)
        sources += _files_of(largest, path)
    return sorted(sources, key=lambda one: (one.path, one.run))


def _size_and_path(file: Path) -> tuple[int, str]:
    return file.stat().st_size, str(file)


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


def is_mlflow(folder: Path) -> bool:
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
    if kind in (".csv", ".json"):
        runs_in = csv_files.csv_runs if kind == ".csv" else json_files.json_runs
        try:
            names = runs_in(path)
        except (*DAMAGED, ValueError, OverflowError):
            names = []  # reading it tells why it cannot be read
        if names:  # the file has several runs
            return [
                MetricsSource(path, partial(read, run=name), name or run)
                for name in names
            ]
    if kind == ".wandb":
        return [MetricsSource(path, read, wandb_file.wandb_run(path))]
    return [MetricsSource(path, read, run)]


def _console_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    # Lazily: few runs have consoles, which are read by many modules.
    from rlreport.metrics.console_files import console_records

    return console_records(path, unused)


_READERS: dict[str, Callable[..., Iterator[Record]]] = {
    "events": trackers.tensorboard_records,
    ".csv": csv_files.csv_records,
    ".db": trackers.trackio_records,
    ".wandb": wandb_file.wandb_records,
    ".jsonl": json_files.json_line_records,
    ".json": json_files.json_records,
    "console": _console_records,
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


def is_metrics(path: Path, *, in_folder: bool = False, wide: bool = False) -> bool:
    """Return whether a file has metrics; ``in_folder`` if the user did not name the file.

    Unless the search is ``wide``, files in a folder that only might be metrics are not opened.
    """
    kind = _kind(path)
    if not path.is_file():
        return False
    # A document of another name may hold the final scores of a run, in one object.
    is_shaped_only = in_folder and kind == ".json" and not _JSON_NAME.search(path.name)
    if is_shaped_only and not wide:
        return False
    if in_folder and kind == "console" and not is_console_name(path.name):
        return False
    try:
        has_metrics = not is_shaped_only and _has_metrics(path, kind)
        return has_metrics or (wide and _has_shape(path, kind))
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
            from rlreport.metrics.console_files import has_metrics

            return has_metrics(path)
        case ".jsonl":
            return json_files.are_events(json_files.head_of(path))
        case _:
            return _is_table(path)


def _has_shape(path: Path, kind: str) -> bool:
    """Return whether a file has metrics by its shape, and is not in a format of rollouts."""
    if kind == ".json":
        return json_files.has_series(path)
    if kind == ".csv":
        return csv_files.has_rows(path)
    if kind != ".jsonl":
        return False
    rows = json_files.head_of(path)
    is_rollouts = bool(rows) and detect(path.name, rows[:_MAX_DETECTED]) is not None
    return (
        not is_rollouts
        and shapes.step_of_rows(shapes.without_settings(rows)) is not None
    )


def _is_table(path: Path) -> bool:
    """Return whether a .csv begins with names and a row of numbers."""
    with closing(lines.lines_of(path, json_files.LONGEST_HEAD)) as head:
        first = next(head, b"")
        second = next(head, b"")
    separator = csv_separator(first)
    names = csv_cells(first, separator)
    cells = csv_cells(second, separator)
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
        roles: role -> metric, where the names do not tell, see ``Tables.metric_roles``.
        settings: file -> configuration of the run that it has beside its metrics.
        files: name, number of steps and metrics of each file that was read.
        runs: names of the runs if two of them have the same metric at the same step, else empty.
        notes: what readers of the report should know about the files.
        starts: the largest number of starts of a run in its metrics.
        set_back: whether the step of a run was set back while its training went on.
        clocks: times of the log, see ``MetricsTable.clocks``.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    broken: dict[str, list[int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Row] = field(default_factory=dict)
    files: list[MetricsFile] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    starts: int = 1
    set_back: bool = False
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
    roles: Mapping[str, str] | None = None,
    restarts: str | int | None = None,
    wide: bool = False,
) -> TrainerMetrics:
    """Read the metrics files ``given`` by the user, else those in the logs.

    With a ``run``, only those of this run are read. ``roles`` is role -> metric, as the user chose.

    A file that cannot be read raises if the user named it; if not, it becomes a note. ``restarts``
    says which of several starts in one log is read; ``wide`` is that of ``find_metrics``.
    """
    find = sources_of if given else partial(find_metrics, wide=wide)
    sources: list[MetricsSource] = []
    for path in given or logs:
        sources += find(Path(path))
    result = TrainerMetrics()
    if not given:
        sources = _with_chosen_consoles(sources, logs, result)
    runs = sorted({source.run for source in sources})
    names = {*runs, *(run_of_file(source.path) for source in sources)}
    # The run may have rollouts only.
    if run and run not in names and run not in names_of_runs(logs):
        if given or wide:
            found = ", ".join(runs) or "none"
            raise UsageError(f"--run {run}: no such run; found: {found}")
        # It may be one of a file that only the wide search finds.
        return find_and_read(
            logs, given, run, roles=roles, restarts=restarts, wide=True
        )
    table = _table_of_runs(
        _by_run(sources, run), logs, result, must_read=bool(given), restarts=restarts
    )
    result.table, result.broken = table.frame()
    result.clocks = table.clocks()
    result.notes += [Note(NoteKind.METRICS, limit, 1) for limit in table.limits]
    if result.paths:
        chosen = choose_roles(result.table, roles or {})
        result.roles = chosen.roles
        result.notes += chosen.notes
    result.notes = one_per_cause(result.notes)
    return result


def _by_run(
    sources: Sequence[MetricsSource], run: str
) -> dict[str, list[MetricsSource]]:
    """Return run -> its sources; with a ``run``, only that one, which may be named by its file."""
    is_named_by_file = run not in {source.run for source in sources}
    by_run: dict[str, list[MetricsSource]] = {}
    for source in sources:
        is_of_file = is_named_by_file and run == run_of_file(source.path)
        if run in ("", source.run) or is_of_file:
            by_run.setdefault(source.run, []).append(source)
    return by_run


def _table_of_runs(
    by_run: Mapping[str, Sequence[MetricsSource]],
    logs: Sequence[str | Path],
    result: TrainerMetrics,
    *,
    must_read: bool,
    restarts: str | int | None,
) -> MetricsTable:
    """Return the metrics of all runs; add files, starts and notes on them to ``result``.

    Two runs with a metric at the same step cannot be in one table, unless one is a copy of the
    other; parts of one run can.
    """
    table = MetricsTable()
    one_run = restarts == "all"  # whatever the logs look like
    # Of several runs in one document, as in one folder, the last one is shown and not judged.
    may_show_last = not one_run and _in_one_document(by_run.values())
    seen: dict[str, Ints] = {}  # metric -> its steps in the runs so far
    seen_kinds: set[str] = set()  # of their files
    for run_sources in by_run.values():
        table_of_run = _table_of_run(
            run_sources, logs, result, must_read=must_read, one_run=one_run
        )
        found = table_of_run.arrange(restarts)
        if found:
            result.notes += start_notes(found.pieces, found.choice, restarts)
            result.starts = max(result.starts, len(found.pieces.steps))
            result.set_back = result.set_back or any(found.pieces.set_back)
        is_repeated = _add_steps(seen, table_of_run.steps_of())
        # What two loggers write of one run, such as lines and TensorBoard events, has equal values.
        kinds = {_kind(source.path) for source in run_sources}
        is_copy = kinds.isdisjoint(seen_kinds) and table.is_copied_by(table_of_run)
        seen_kinds |= kinds
        if is_repeated and not is_copy:
            result.runs = sorted(by_run)
            if may_show_last:
                table = MetricsTable()
        table.extend(table_of_run)
    if result.runs and may_show_last:
        result.notes.append(note_on_runs(list(by_run)))
    return table


def _in_one_document(runs: Iterable[Sequence[MetricsSource]]) -> bool:
    """Return whether all sources are runs in the same JSON document."""
    paths = {source.path for source in chain.from_iterable(runs)}
    return len(paths) == 1 and _kind(next(iter(paths))) == ".json"


def _with_chosen_consoles(
    sources: Sequence[MetricsSource],
    logs: Sequence[str | Path],
    result: TrainerMetrics,
) -> list[MetricsSource]:
    """Return the sources without consoles that only repeat them; add notes on these.

    Several consoles in one folder become several runs.
    """
    consoles = [one for one in sources if one.read.func is _console_records]
    if not consoles or len(sources) == 1:
        return list(sources)
    from rlreport.metrics.console_choice import consoles_to_omit, runs_of

    others = [one.read(UnusedRows()) for one in sources if one not in consoles]
    omitted = consoles_to_omit([one.path for one in consoles], others)
    for path, why in omitted.items():
        name = name_in_logs(path, logs)
        result.notes.append(Note(NoteKind.FORMAT, message(why), 1, name))
        result.unread.append(path)
    runs = runs_of((one.path, one.run) for one in consoles if one.path not in omitted)
    return [
        one._replace(run=runs.get(one.path, one.run))
        for one in sources
        if one.path not in omitted
    ]


def _table_of_run(
    sources: Sequence[MetricsSource],
    logs: Sequence[str | Path],
    result: TrainerMetrics,
    *,
    must_read: bool,
    one_run: bool,
) -> MetricsTable:
    """Return the metrics of one run; add its files, and notes on them, to ``result``.

    A file that cannot be read raises if it must be read, or if it is one of ``logs``.
    """
    log_paths = {Path(path) for path in logs}
    files: list[FileTable] = []
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
        if unused.settings:
            result.settings[name] = unused.settings
        result.paths.append(source.path)
        result.files.append(MetricsFile(name, len(part.steps), sorted(part.names)))
        files.append(FileTable(source.path, part, _kind(source.path) in OF_ONE_RUN))
    table, runs = join(files, one_run=one_run)
    if runs:
        result.runs = runs
        result.notes.append(note_on_runs(runs))
    return table


def _add_steps(seen: dict[str, Ints], steps_of: Mapping[str, Ints]) -> bool:
    """Add the steps of a run's metrics to ``seen``; return whether one of them was there."""
    is_repeated = False
    for name, steps in steps_of.items():
        if name not in seen:
            seen[name] = steps
            continue
        if np.isin(steps, seen[name]).any():
            is_repeated = True
        seen[name] = np.union1d(seen[name], steps)
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
