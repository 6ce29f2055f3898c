"""Find files of trainer metrics, and determine the run that each belongs to."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.formats.metric_rows import STEP_KEYS, TEXT_KEYS, Record, is_event
from rlreport.metrics import readers
from rlreport.metrics.readers import Block, LeftOut, blocks_of
from rlreport.read.files import COMPRESSIONS
from rlreport.system.documents import load_json

EVENTS = "events.out.tfevents"  # Prefix of the names of TensorBoard event files
# Kinds of files (see ``_kind``) that never contain rollouts
ONLY_METRICS = ("events", ".csv", ".wandb")

_DEPTH = 6
_PEEK = 1 << 20
_CHECKPOINT = re.compile(r"(?:checkpoint|ckpt|global_step|step)[-_]?\d+")
_CONSOLE = (".log", ".txt", ".out")
# Names of JSON documents to read in a folder; others are read only if the user names them
_JSON_NAME = re.compile(r"metrics|history|trainer_state", re.IGNORECASE)


class MetricsSource(NamedTuple):
    """The metrics of one run in a file or MLflow folder, and the function that reads them.

    ``run`` is the name of the run, "." for files directly in the folder that was searched.
    """

    path: Path
    read: Callable[[LeftOut], Iterator[Block]]
    run: str = ""


def find_metrics(path: Path) -> list[MetricsSource]:
    """Return the metrics files in a folder, or a file itself if it has metrics, sorted by path.

    Files are recognized by name (``*trainer_state.json``, TensorBoard events, W&B's
    ``run-*.wandb``) or by content (JSON lines that begin with a step and numbers; CSV with a step
    and other numbers; Trackio's database; verl's console log); JSON lines and CSV may be
    compressed. MLflow's ``metrics`` folders count as files. If the checkpoints of a run each have
    a ``trainer_state.json``, only the largest is used. Links to folders are not followed.
    """
    if not path.is_dir():
        only_metrics = path.is_file() and _kind(path) in ONLY_METRICS
        return _files_of(path, path.parent) if only_metrics or _is_metrics(path) else []
    if _is_mlflow(path):
        return [_mlflow(path, path)]
    sources: list[MetricsSource] = []
    states: dict[str, list[Path]] = {}
    for folder_path, folders, names in os.walk(path):
        here = Path(folder_path)
        deep = len(here.relative_to(path).parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for folder in [f for f in folders if _is_mlflow(here / f)]:
            folders.remove(folder)
            sources.append(_mlflow(here / folder, path))
        for file in (here / name for name in names):
            if not file.is_file():
                continue  # opening a pipe would block
            if file.name.endswith("trainer_state.json"):
                states.setdefault(_run_of(file, path), []).append(file)
            elif _is_metrics(file, in_folder=True):
                sources += _files_of(file, path)
    for files in states.values():
        sources += _files_of(max(files, key=lambda file: (file.stat().st_size, str(file))), path)
    return sorted(sources, key=lambda one: (one.path, one.run))


def sources_of(path: Path) -> list[MetricsSource]:
    """Return the metrics in a file or folder named by the user, one entry per file and run.

    A file that the user names is accepted even if it does not look like metrics.
    """
    if path.is_dir():
        if sources := find_metrics(path):
            return sources
        raise UnusableInputError(f"{path.name}: no trainer metrics in this folder")
    if not path.is_file():
        # Opening a pipe would block until another process writes to it.
        raise UnusableInputError(f"{path.name}: there is no such file")
    return _files_of(path, path.parent)


def _run_of(path: Path, root: Path) -> str:
    """Return the name of a file's run: its folder below ``root``, without checkpoint folders."""
    parts = path.parent.relative_to(root).parts
    return "/".join(part for part in parts if not _CHECKPOINT.fullmatch(part)) or "."


def _is_mlflow(folder: Path) -> bool:
    return folder.name == "metrics" and (folder.parent / "meta.yaml").is_file()


def _mlflow(folder: Path, root: Path) -> MetricsSource:
    run = folder.parent
    try:
        name = (run / "tags" / "mlflow.runName").read_text("utf-8", "replace")[:200].strip()
    except OSError:
        name = ""
    name = name or run.name
    return MetricsSource(folder, lambda _: blocks_of(readers.mlflow_records(folder)), name)


def _files_of(path: Path, root: Path) -> list[MetricsSource]:
    """Return the metrics of each run in a file, with the reader for this kind of file."""
    run = _run_of(path, root)
    kind = _kind(path)
    if kind == ".db":
        return [
            MetricsSource(path, partial(_trackio, path, name), name)
            for name in readers.trackio_runs(path)
        ]
    if kind == ".csv":
        return [
            MetricsSource(path, partial(readers.csv_blocks, path, run=csv_run), csv_run or run)
            for csv_run in readers.csv_runs(path) or [""]
        ]
    if kind == "events":
        return [MetricsSource(path, lambda _: readers.tensorboard_blocks(path), run)]
    if kind == ".wandb":
        name = readers.wandb_run(path)
        return [MetricsSource(path, lambda _: blocks_of(readers.wandb_records(path)), name)]
    if kind == ".jsonl":
        return [MetricsSource(path, partial(readers.json_line_blocks, path), run)]
    reader = readers.json_records if kind == ".json" else readers.console_records
    return [MetricsSource(path, partial(_blocks, reader, path), run)]


def _blocks(
    reader: Callable[[Path, LeftOut], Iterator[Record]], path: Path, left_out: LeftOut
) -> Iterator[Block]:
    return blocks_of(reader(path, left_out))


def _trackio(path: Path, run: str, _: LeftOut) -> Iterator[Block]:
    return blocks_of(readers.trackio_records(path, run))


def _kind(path: Path) -> str:
    """Return the kind of a file by its name: ``events``, a suffix, or else ``console``."""
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSIONS else path.name
    if EVENTS in name:
        return "events"
    suffixes = (".jsonl", ".csv", ".json", ".wandb", ".db")
    return next((kind for kind in suffixes if name.endswith(kind)), "console")


def _is_metrics(path: Path, *, in_folder: bool = False) -> bool:
    """Return whether a file holds trainer metrics, by its name and its first bytes."""
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
            return (not in_folder or bool(_JSON_NAME.search(path.name))) and _is_json(path)
        if kind == "console":
            return (not in_folder or path.suffix in _CONSOLE) and _is_console(path)
        return _is_table(path, kind)
    except (OSError, ValueError, sqlite3.Error, RlreportError):
        return False


def _is_json(path: Path) -> bool:
    return next(readers.json_records(path, LeftOut()), None) is not None


def _is_console(path: Path) -> bool:
    with path.open("rb") as stream:
        return bool(readers.CONSOLE_LINE.search(stream.read(_PEEK)))


def _is_table(path: Path, kind: str) -> bool:
    with closing(readers.lines_of(path, _PEEK)) as lines:
        first, second = next(lines, b""), next(lines, b"")
    if kind == ".jsonl":
        return is_event(load_json(first, "replace"))
    separator = readers.csv_separator(first)
    names, cells = (readers.csv_cells(line, separator) for line in (first, second))
    if len(cells) != len(names) or not TEXT_KEYS.isdisjoint(names):
        return False
    row = dict(zip(names, cells, strict=True))
    steps = [row.pop(key) for key in STEP_KEYS if key in row]
    return all(map(_is_number, steps[:1])) and any(map(_is_number, row.values())) and bool(steps)


def _is_number(cell: str) -> bool:
    return readers.number(cell or "nan") is not None
