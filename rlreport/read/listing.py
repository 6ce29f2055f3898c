"""List the log files under paths, globs and URLs."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from rlreport.errors import UsageError
from rlreport.system.own_output import (
    is_own_file,
    is_own_folder,
    own_folders_in,
    refuse_own_output,
)
from rlreport.system.stores import Source, list_remote, shown
from rlreport.text.messages import message

if TYPE_CHECKING:
    pass


LINE_SUFFIXES = (
    ".jsonl",
    ".jsonl.gz",
    ".jsonl.zst",
    ".ndjson",
    ".ndjson.gz",
    ".ndjson.zst",
)
_SUFFIXES = (
    *LINE_SUFFIXES,
    ".json",
    ".json.gz",
    ".json.zst",
    ".parquet",
    ".db",
    ".eval",
    ".jsonl.zip",
    ".ndjson.zip",
    ".json.zip",
)
# Matches names of torch files with rollouts; other torch files are mostly model weights
_NUMBERED = re.compile(r"(?:.*/)?(?:eval_)?\d+\.pt", re.IGNORECASE)

COMPRESSIONS = {".gz": "gz", ".zst": "zst"}


@dataclass(slots=True)
class Listing:
    """Files under the given paths: logs (``sources``), other files, and those not to be read."""

    sources: list[Source]
    unreadable: list[tuple[str, str]]  # (path, reason)
    other: list[Source]
    reports: list[str]  # paths of reports, which rlreport wrote: never read as logs


def find_sources(paths: Sequence[str | Path]) -> Listing:
    """Return the files at paths, globs and URLs, each once, without reports of rlreport.

    Raises:
        UsageError: a path does not exist.
        UnusableInputError: a path is a report, or lies in one.
    """
    listing = Listing([], [], [], [])
    entries: list[_Found] = []
    roots: list[str] = []
    for path in paths:
        text = os.fspath(path)
        if is_url(text):
            root, given, files = list_remote(text)
            reports = own_folders_in(url for url, _, _ in files)
            listing.reports += reports
            entries += [
                _Found(Source("", url, size, store=text, version=version), url, given)
                for url, size, version in files
                if not url.startswith(tuple(reports))
            ]
        else:
            root = str(_root(Path(text)))
            given = Path(text).is_file()
            refuse_own_output([Path(text) if Path(text).exists() else Path(root)])
            for file in _local_files(text, listing):
                entries += _entry_of(file, listing, given=given)
        roots.append(root)
    common = _common_root(roots)
    distinct: dict[object, _Found] = {}
    for entry in sorted(entries, key=lambda entry: entry.source.path):
        distinct.setdefault(entry.identity, entry)
    for source, _, given in distinct.values():
        name = _relative(source.path, common)
        compression = COMPRESSIONS.get(PurePosixPath(name.lower()).suffix, "")
        log = given or name.lower().endswith(_SUFFIXES) or _NUMBERED.fullmatch(name)
        named = replace(source, name=name, compression=compression)
        (listing.sources if log else listing.other).append(named)
    listing.sources.sort(key=lambda source: source.name)
    listing.unreadable = sorted(
        (_relative(path, common), why) for path, why in listing.unreadable
    )
    listing.reports = sorted({_relative(path, common) for path in listing.reports})
    return listing


def run_in(name: str) -> str:
    """Return the name of the run that a log may be of: its first folder, else its name alone."""
    folder, slash, _ = name.partition("/")
    return folder if slash else name.partition(".")[0]


def names_of_runs(paths: Sequence[str | Path]) -> set[str]:
    """Return the names of the runs that the files at paths may be of, for ``--run``."""
    listing = find_sources(paths) if paths else Listing([], [], [], [])
    return {run_in(source.name) for source in listing.sources}


def of_run(listing: Listing, run: str) -> Listing:
    """Return only the files of a run, or all if no log has its name (but metrics have)."""
    if run not in {run_in(source.name) for source in listing.sources}:
        return listing
    return Listing(
        [source for source in listing.sources if run_in(source.name) == run],
        [one for one in listing.unreadable if run_in(one[0]) == run],
        [source for source in listing.other if run_in(source.name) == run],
        [name for name in listing.reports if run_in(name) == run],
    )


def name_in_logs(path: Path, logs: Sequence[str | Path]) -> str:
    """Return a file's path relative to the common folder of the logs, or its name if outside."""
    local = [Path(log) for log in logs if not is_url(os.fspath(log))]
    roots = [str(_root(log).resolve()) for log in local]
    whole = path.resolve()
    root = Path(_common_root(roots))
    file, folder = (whole, root) if whole.is_relative_to(root) else (path, path.parent)
    return _relative(str(file), str(folder))


def is_url(path: str) -> bool:
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").isalnum()


class _Found(NamedTuple):
    """A listed file; equal ``identity`` means the same file. ``given``: the user named its path."""

    source: Source
    identity: object
    given: bool


def _local_files(text: str, listing: Listing) -> Iterator[Path]:
    if text and Path(text).exists():
        matches = [text]
    elif "**" in Path(text).parts:
        matches = sorted(_recursive_matches(text, listing))
    else:
        # ``Path.glob`` does not support absolute patterns.
        matches = sorted(glob.glob(text))  # noqa: PTH207
    if not matches:
        raise UsageError(f"No such file or folder: {text}")
    for match in map(Path, matches):
        if match.is_dir():
            yield from _walk(match, listing)
        elif not _is_report(match, _root(Path(text)), listing):
            yield match


def _is_report(path: Path, root: Path, listing: Listing) -> bool:
    """Return whether rlreport wrote a file, or a folder between it and ``root``; list it if so."""
    inner_folders = path.relative_to(root).parents
    for inner in inner_folders:
        folder = root / inner
        if is_own_folder(folder):
            listing.reports.append(str(folder))
            return True
    if is_own_file(path):
        listing.reports.append(str(path))
        return True
    return False


def _recursive_matches(pattern: str, listing: Listing) -> Iterator[str]:
    root = _root(Path(pattern))
    wanted = Path(pattern).relative_to(root).parts
    for path in _walk(root, listing) if root.is_dir() else ():
        parts = path.relative_to(root).parts
        if any(_matches(parts[:depth], wanted) for depth in range(1, len(parts) + 1)):
            yield str(path)


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    first, *rest = pattern
    if first == "**" and _matches(parts, tuple(rest)):
        return True
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    if first == "**":
        return _matches(parts[1:], pattern)
    return fnmatch.fnmatchcase(parts[0], first) and _matches(parts[1:], tuple(rest))


def _walk(folder: Path, listing: Listing) -> Iterator[Path]:
    visited: set[tuple[int, int]] = set()
    add = partial(_add_unreadable, listing)
    for here, folders, names in os.walk(folder, onerror=add, followlinks=True):
        status = Path(here).stat()
        # Following a link to a parent folder would never end.
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        if is_own_folder(Path(here)):
            listing.reports.append(here)
            folders.clear()
            continue
        folders.sort()
        for name in sorted(names):
            path = Path(here) / name
            if is_own_file(path):
                listing.reports.append(str(path))
            else:
                yield path


def _entry_of(path: Path, listing: Listing, *, given: bool) -> list[_Found]:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe or a device would wait for ever.
            raise OSError(0, message("not a regular file (a pipe, socket or device)"))
        if not os.access(path, os.R_OK):
            raise OSError(0, message("Permission denied"))
    except OSError as error:
        _add_unreadable(listing, error, path)
        return []
    stamp = status.st_ino, status.st_mtime_ns
    source = Source("", str(path), status.st_size, stamp=stamp)
    return [_Found(source, (status.st_dev, status.st_ino), given)]


def _add_unreadable(listing: Listing, error: OSError, path: Path | None = None) -> None:
    reason = error.strerror or message("cannot be read")
    listing.unreadable.append((str(path or error.filename), reason))


def _root(path: Path) -> Path:
    """Return the folder relative to which the files of a path (file, folder or glob) are named."""
    if path.exists():
        return path if path.is_dir() else path.parent
    return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def _common_root(roots: Sequence[str]) -> str:
    distinct = sorted(set(roots))
    if len(distinct) > 1 and not any(map(is_url, distinct)):
        return os.path.commonpath([Path(root).resolve() for root in distinct])
    parts = zip(*(root.split("/") for root in distinct), strict=False)
    return "/".join(
        part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts)
    )


def _relative(path: str, root: str) -> str:
    """Return a path or URL relative to ``root``, with escapes for bytes that are not UTF-8."""
    if is_url(path):
        path = shown(path)
        return path.removeprefix(shown(root)).lstrip("/") or PurePosixPath(path).name
    relative = Path(
        os.path.relpath(Path(path).absolute(), Path(root).absolute())
    ).as_posix()
    return os.fsencode(relative).decode(errors="backslashreplace")
