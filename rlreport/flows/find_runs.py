"""Find the reports and the runs in a folder that may hold many of both, nested."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rlreport.about.card import configured
from rlreport.about.run_folders import has_records, is_number, is_place
from rlreport.comparison.saved import REPORT, report_about
from rlreport.errors import RlreportError, UnreadableReportError
from rlreport.metrics.find import is_metrics, is_mlflow
from rlreport.metrics.lines import SEARCHED_LEVELS
from rlreport.options import ReadOptions
from rlreport.read.detect import detect_formats
from rlreport.read.listing import Listing, has_log_name
from rlreport.system.own_output import is_own_file, is_own_folder
from rlreport.system.stores import Source

# Suffixes of logs that files of another purpose have as well: what is in them tells
_UNCLEAR = (".json", ".json.gz", ".json.zst", ".json.zip", ".db")
_MOST_OPENED = 20  # such files of a folder, in search of a log
_NO_RUNS = frozenset({"__pycache__", "node_modules", "site-packages"})
_PAGES = (".html", ".htm", ".zip")  # suffixes of reports
_TRIAL = "agent/trajectory.json"  # in the folder of a trial, of which a run has many
_COMPRESSED = re.compile(r"\.(?:gz|zst|zip)$", re.IGNORECASE)


class FoundRun(NamedTuple):
    """A run, in a folder or a file."""

    path: Path
    # what to read: the path itself, or what is in it besides folders of other runs
    logs: tuple[Path, ...]


@dataclass(slots=True)
class Found:
    """What a folder holds."""

    reports: list[Path] = field(default_factory=list)
    runs: list[FoundRun] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)  # (folder, reason)


def is_report(path: Path) -> bool:
    """Return whether a path is a report or may be one that cannot be read."""
    try:
        if (path / REPORT).is_file():
            return True
        # Other files are not opened.
        if path.is_file() and path.suffix.lower() not in _PAGES:
            return False
    except OSError:  # such as a folder without permission: listed with the reason
        return True
    try:
        return report_about(path) is not None
    except UnreadableReportError:
        return True
    except RlreportError:  # another program's
        return False


def find_runs(folder: Path) -> Found:
    """Return the reports and the runs in a folder, each once, in order of their paths.

    A folder with logs is a run, with the folders in it, unless these are runs by themselves. It
    has no logs of its own, but is a run, if its folders have names such as ``rank_0`` or
    ``rollouts``. Links to folders are followed if these are not found without.
    """
    found = Found()
    root = _Search(found).folder(folder, SEARCHED_LEVELS)
    found.runs = _runs_of(root, is_given=True) if root else []
    return found


@dataclass(slots=True)
class _Folder:
    """A folder that has logs, or folders with some."""

    path: Path
    logs: list[Path]  # directly in it
    others: list[Path]  # further files in it that are named like logs
    folders: list[_Folder]

    @property
    def log_names(self) -> set[str]:
        return {_COMPRESSED.sub("", log.name) for log in self.logs}


class _Search:
    """A walk through folders; reports, and folders that cannot be read, are added to ``found``."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._visited: set[tuple[int, int]] = set()

    def folder(self, path: Path, levels: int) -> _Folder | None:
        """Return what a folder has in so many levels; None if it has no logs."""
        try:
            status = path.stat()
            entries = sorted(path.iterdir())
        except OSError as error:
            self._found.unreadable.append((path, error.strerror or str(error)))
            return None
        # Following a link to a parent folder would never end.
        if (status.st_dev, status.st_ino) in self._visited:
            return None
        self._visited.add((status.st_dev, status.st_ino))
        files, folders = self._sorted(entries)
        logs = _logs_among(files)
        others = [one for one in files if has_log_name(one.name) and one not in logs]
        inner: list[_Folder] = []
        for child in folders if levels else []:
            if is_mlflow(child):
                logs.append(child)
                continue
            below = self.folder(child, levels - 1)
            if below:
                inner.append(below)
        inner.sort(key=lambda one: one.path)
        return _Folder(path, logs, others, inner) if logs or inner else None

    def _sorted(self, entries: list[Path]) -> tuple[list[Path], list[Path]]:
        """Return the files and the folders among entries, links to folders last, no reports."""
        files: list[Path] = []
        folders: list[Path] = []
        for entry in entries:
            is_hidden = entry.name.startswith(".") or entry.name in _NO_RUNS
            if is_hidden:
                continue
            if is_report(entry):
                self._found.reports.append(entry)
            elif entry.is_dir():
                if not is_own_folder(entry):
                    folders.append(entry)
            elif entry.is_file():
                files.append(entry)
        folders.sort(key=lambda one: (one.is_symlink(), one))
        return files, folders


def _logs_among(files: list[Path]) -> list[Path]:
    """Return the files with logs; of those whose names do not tell, one that has some will do."""
    logs = [
        file
        for file in files
        if _is_log_by_name(file)
        or (not is_own_file(file) and is_metrics(file, in_folder=True))
    ]
    unclear = [file for file in files if has_log_name(file.name) and file not in logs]
    return logs or list(islice(filter(_is_log, unclear[:_MOST_OPENED]), 1))


def _is_log_by_name(file: Path) -> bool:
    return has_log_name(file.name) and not file.name.lower().endswith(_UNCLEAR)


def _is_log(file: Path) -> bool:
    return _has_rollouts(file) or is_metrics(file, in_folder=True, wide=True)


def _has_rollouts(file: Path) -> bool:
    """Return whether a file is in a format of rollouts."""
    try:
        source = Source(file.name, str(file), file.stat().st_size)
        listing = Listing([source], [], [], [])
        return bool(detect_formats(listing, ReadOptions()).sources)
    except (RlreportError, OSError, ValueError):
        return False


def _runs_of(folder: _Folder, *, is_given: bool = False) -> list[FoundRun]:
    """Return the runs in a folder; ``is_given``: the user said that it may have several."""
    whole = FoundRun(folder.path, (folder.path,))
    if not is_given and has_records(folder.path.name):
        return [whole]
    runs_of = {inner.path: _runs_of(inner) for inner in folder.folders}
    parts = [inner for inner in folder.folders if _is_part(inner, folder)]
    others = [inner for inner in folder.folders if inner not in parts]
    may_have_several = is_given and not configured(folder.path)
    # A place such as ``logs`` is part of a run if it holds no folders of runs.
    has_parts = any(_is_one_run(part, runs_of) for part in parts)
    if not folder.logs and (not has_parts or (may_have_several and others)):
        runs = _runs_in(folder.folders, runs_of)
        # A folder around a single run, such as one named after the time of its start
        return [whole] if len(runs) == 1 and not is_given else runs
    if not may_have_several:
        others = _separate(others, folder)
    if not others:
        return [whole]
    own = [inner.path for inner in folder.folders if inner not in others]
    run = FoundRun(folder.path, (*folder.logs, *folder.others, *own))
    return [run, *_runs_in(others, runs_of)]


def _is_one_run(folder: _Folder, runs_of: Mapping[Path, list[FoundRun]]) -> bool:
    """Return whether a folder as a whole is its only run."""
    paths = [run.path for run in runs_of[folder.path]]
    return paths == [folder.path]


def _runs_in(
    folders: Iterable[_Folder], runs_of: Mapping[Path, list[FoundRun]]
) -> list[FoundRun]:
    """Return the runs of all of some folders."""
    runs = []
    for folder in folders:
        runs += runs_of[folder.path]
    return runs


def _is_part(inner: _Folder, folder: _Folder) -> bool:
    """Return whether the name of a folder is that of a part of the run in whose folder it is."""
    name = inner.path.name
    if (inner.path / _TRIAL).is_file():
        return True
    if not is_number(name):
        return has_records(name) or is_place(name)
    if configured(inner.path):
        return False
    # Numbers are of versions and steps beside logs and in a folder such as ``rollouts``, else of
    # runs.
    around = folder.path.resolve().name
    return bool(folder.logs) or has_records(around) or is_place(around)


def _separate(inner: list[_Folder], folder: _Folder) -> list[_Folder]:
    """Return the folders in that of a run that are other runs.

    Each has its own configuration, or logs of the same names as another one or as the run.
    """
    names = [folder.log_names, *(one.log_names for one in inner)]

    def is_separate(one: _Folder) -> bool:
        shared = [one.log_names & other for other in names]
        # Its own names are among them.
        return bool(configured(one.path)) or sum(map(bool, shared)) > 1

    return [one for one in inner if is_separate(one)]
