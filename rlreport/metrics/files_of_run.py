"""Join the files of metrics in one folder: parts of one run, copies, or runs of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlreport.about.several_runs import RANK
from rlreport.formats.base import split_of
from rlreport.formats.metric_rows import COUNTER, prefixed
from rlreport.metrics.starts import Series, is_copy
from rlreport.metrics.table import MetricsTable, Part
from rlreport.read.listing import without_suffixes
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

# Kinds of files of which each is written by one run; others are continued in further files
OF_ONE_RUN = (".jsonl", ".json", ".csv")
_NUMBERED = re.compile(RANK.replace("{more}", "") + r"|\d+", re.IGNORECASE)
# Two files are of two runs if they have the same metric at this share of the steps, and so many
_SHARED = 0.5
_LEAST_SHARED = 3
_MAX_NAMED = 5


class FileTable(NamedTuple):
    """The metrics of a file, and whether its kind is one of OF_ONE_RUN."""

    path: Path
    table: MetricsTable
    of_one_run: bool


def run_of_file(path: Path) -> str:
    """Return the name of the run that a file is, if others next to it are runs, too."""
    return without_suffixes(path.name)


def join(
    files: Sequence[FileTable], *, one_run: bool
) -> tuple[MetricsTable, list[str]]:
    """Return the metrics of files in one folder, and the runs if they are of several, else [].

    Of several runs, only the metrics of the last one are returned. ``one_run``: they are one.
    """
    files = _with_splits(files)
    runs = [] if one_run else _runs(files)
    joined = MetricsTable()
    for file in files:
        if file.path not in runs[:-1]:
            joined.extend(file.table)
    return joined, [run_of_file(path) for path in runs]


def note_on_runs(runs: Sequence[str]) -> Note:
    """Return the note that metrics are of several runs, of which the last one is shown."""
    names = [safe_text(name) for name in runs]
    more = ["…"] if len(names) > _MAX_NAMED else []
    text = message(
        "{names} look like {runs:count} runs, as they have the same metrics at the same steps: "
        "figures and charts show {last} only. Choose one with --run NAME, or build a report of "
        "each with 'rlreport index'.",
        names=(*names[:_MAX_NAMED], *more),
        runs=len(names),
        last=names[-1],
    )
    return Note(NoteKind.SEVERAL_RUNS, text, len(names))


def _with_splits(files: Sequence[FileTable]) -> list[FileTable]:
    """Return the files; of a file named ``eval`` or so, metrics get its split as prefix.

    If all files are so named, they do not.
    """
    splits = [split_of(file.path.name) or "train" for file in files]
    for file, split in zip(files, splits, strict=True):
        if split != "train" and "train" in splits and file.of_one_run:
            parts = file.table.parts
            file.table.parts = {
                name if name.startswith(COUNTER) else prefixed(split, name): values
                for name, values in parts.items()
            }
    return list(files)


def _runs(files: Sequence[FileTable]) -> list[Path]:
    """Return the files that are runs of their own, [] if all are parts or copies of one."""
    tables = [file for file in files if file.of_one_run]
    runs: list[FileTable] = []
    for file in tables:
        others = [one for one in runs if _is_other_run(one, file)]
        if not runs or len(others) == len(runs):
            runs.append(file)
    return [file.path for file in runs] if len(runs) > 1 else []


def _is_other_run(one: FileTable, two: FileTable) -> bool:
    """Return whether two files have the same metric at the same steps, with other values.

    Those of ranks, or numbered ones, have names that differ in the number only: they are parts.
    """
    patterns = {_NUMBERED.sub("#", file.path.name) for file in (one, two)}
    if len(patterns) == 1:
        return False
    steps_of_one = one.table.steps_of()
    steps_of_two = two.table.steps_of()
    for name in steps_of_one.keys() & steps_of_two.keys():
        first = np.unique(steps_of_one[name])
        second = np.unique(steps_of_two[name])
        shared = len(np.intersect1d(first, second))
        fewest = min(len(first), len(second))
        if shared >= max(_LEAST_SHARED, _SHARED * fewest):
            return not is_copy(_series(one.table), _series(two.table))
    return False


def _series(table: MetricsTable) -> dict[str, Series]:
    return {name: _series_of(parts) for name, parts in table.parts.items()}


def _series_of(parts: Sequence[Part]) -> Series:
    return Series(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.pieces for part in parts]),
    )
