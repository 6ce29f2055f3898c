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
from typing import NamedTuple

from rlreport.errors import RlreportError, UsageError
from rlreport.system.own_output import (
    is_own_file,
    is_own_folder,
    own_folders_in,
    refuse_own_output,
)
from rlreport.system.stores import Source, list_remote, shown
from rlreport.text.messages import message

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
# Suffixes that no name of a run has, those of compression last
_OF_FILES = re.compile(
    r"(?:\.(?:jsonl?|ndjson|parquet|db|eval|pt|csv|tsv|wandb|log|txt|out))?(?:\.(?:gz|zst|zip))?$",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Listing:
    """Files under the given paths: logs (``sources``), other files, and those not to be read."""

    sources: list[Source]
    unreadable: list[tuple[str, str]]  # (path, reason)
    other: list[Source]
    reports: list[str]  # paths of reports, which rlreport wrote: never read as logs


def find_sources(paths: Sequence[str | Path]) -> Listing:
    """Return the files at paths, globs and URLs, each once, without reports of rlreport.

    Files are named relative to the deepest folder that all paths share.

    Raises:
        UsageError: a path does not exist.
        UnusableInputError: a path is a report, or lies in one.
    """
    listing = Listing([], [], [], [])
    files: list[_Found] = []
    roots: list[str] = []
    for path in paths:
        text = os.fspath(path)
        if is_url(text):
            root, found = _remote_files(text, listing)
        else:
            root = str(root_of(Path(text)))
            refuse_own_output([Path(text) if Path(text).exists() else Path(root)])
            found = _local_files(text, listing)
        roots.append(root)
        files += found
    common = _common_root(roots)
    # In order of paths, so that the name of a file with several paths depends on these only
    distinct: dict[object, _Found] = {}
    for file in sorted(files, key=lambda file: file.source.path):
        distinct.setdefault(file.identity, file)
    for source, _, given in distinct.values():
        name = _relative(source.path, common)
        compression = COMPRESSIONS.get(PurePosixPath(name.lower()).suffix, "")
        named = replace(source, name=name, compression=compression)
        if given or has_log_name(name):
            listing.sources.append(named)
        else:
            listing.other.append(named)
    listing.sources.sort(key=lambda source: source.name)
    listing.unreadable = sorted(
        (_relative(path, common), why) for path, why in listing.unreadable
    )
    listing.reports = sorted({_relative(path, common) for path in listing.reports})
    return listing


def has_log_name(name: str) -> bool:
    """Return whether a file in a folder is named like a log of rollouts."""
    return name.lower().endswith(_SUFFIXES) or _NUMBERED.fullmatch(name) is not None


def state_of(logs: Sequence[str | Path]) -> list[tuple[str, int, str, int]] | None:
    """Return what differs when the files at paths have changed; None if they cannot be listed.

    These are the path, size, version and time of change of each file, also of those that are no
    logs of rollouts, such as metrics.
    """
    try:
        listing = find_sources(logs)
    except (RlreportError, OSError):  # files may be unreadable for a moment
        return None
    sources = (*listing.sources, *listing.other)
    return [
        (source.path, source.size, source.version, _time(source.path))
        for source in sources
    ]


def _time(path: str) -> int:
    """Return when a local file was changed, 0 if that is not known, as of a URL."""
    try:
        return Path(path).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def run_in(name: str) -> str:
    """Return the name of the run that a log may be of: its first folder, else its name alone."""
    folder, slash, _ = name.partition("/")
    return folder if slash else without_suffixes(name)


def without_suffixes(name: str) -> str:
    """Return the name of a file without suffixes such as ``.jsonl.gz``; other dots stay in it."""
    return _OF_FILES.sub("", name, count=1) or name


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
    roots = [str(root_of(log).resolve()) for log in local]
    resolved = path.resolve()
    root = Path(_common_root(roots))
    if resolved.is_relative_to(root):
        return _relative(str(resolved), str(root))
    return _relative(str(path), str(path.parent))


def is_url(path: str) -> bool:
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").isalnum()


class _Found(NamedTuple):
    """A file at one of the paths."""

    source: Source
    identity: object  # equal for the same file under several paths
    # whether the user named the file itself: it is a log whatever its name is
    given: bool


def _remote_files(url: str, listing: Listing) -> tuple[str, list[_Found]]:
    """Return (root, files) at a URL in an object store; add reports of rlreport to ``listing``."""
    root, given, files = list_remote(url)
    reports = own_folders_in(file_url for file_url, _, _ in files)
    listing.reports += reports
    found: list[_Found] = []
    for file_url, size, version in files:
        if not file_url.startswith(tuple(reports)):
            # ``find_sources`` names the file once the common root of all files is known.
            source = Source(
                name="", path=file_url, size=size, store=url, version=version
            )
            found.append(_Found(source, file_url, given))
    return root, found


def _local_files(text: str, listing: Listing) -> list[_Found]:
    """Return the files at a path or glob; add reports and unreadable files to ``listing``."""
    given = Path(text).is_file()
    found: list[_Found] = []
    for path in _local_paths(text, listing):
        found += _entry_of(path, listing, given=given)
    return found


def _local_paths(text: str, listing: Listing) -> Iterator[Path]:
    """Yield the paths of the files at a path or glob; raise UsageError if it matches nothing."""
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
        elif not _is_report(match, root_of(Path(text)), listing):
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
    """Yield the files that a glob with ``**`` matches, and those in folders that it matches."""
    root = root_of(Path(pattern))
    if not root.is_dir():
        return
    pattern_parts = Path(pattern).relative_to(root).parts
    for path in _walk(root, listing):
        parts = path.relative_to(root).parts
        path_and_folders = [parts[:depth] for depth in range(1, len(parts) + 1)]
        if any(_matches(one, pattern_parts) for one in path_and_folders):
            yield str(path)


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Return whether a path matches a glob, both given by their parts; ``**``: any folders."""
    if not pattern:
        return not parts
    first, *rest = pattern
    # ``**`` may stand for no folder.
    if first == "**" and _matches(parts, tuple(rest)):
        return True
    # As in a shell, hidden files match only a pattern with a dot.
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    # ``**`` stands for this folder, and may for further ones.
    if first == "**":
        return _matches(parts[1:], pattern)
    if not fnmatch.fnmatchcase(parts[0], first):
        return False
    return _matches(parts[1:], tuple(rest))


def _walk(folder: Path, listing: Listing) -> Iterator[Path]:
    """Yield the files in a folder and its folders; add reports and errors to ``listing``."""
    visited: set[tuple[int, int]] = set()
    add = partial(_add_unreadable, listing)
    for here, folders, names in os.walk(folder, onerror=add, followlinks=True):
        status = Path(here).stat()
        # Following a link to a parent folder would never end.
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()  # so that ``os.walk`` goes no deeper
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
    """Return a file, or [] if it cannot be read: then add it to ``listing.unreadable``.

    ``given``: whether the user named the file itself, not its folder or a glob.
    """
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
    # ``find_sources`` names the file once the common folder of all files is known.
    source = Source(name="", path=str(path), size=status.st_size, stamp=stamp)
    return [_Found(source, (status.st_dev, status.st_ino), given)]


def _add_unreadable(listing: Listing, error: OSError, path: Path | None = None) -> None:
    """Add a file that cannot be read (``path``, or that of the error) to ``listing``."""
    reason = error.strerror or message("cannot be read")
    listing.unreadable.append((str(path or error.filename), reason))


def root_of(path: Path) -> Path:
    """Return the folder relative to which the files of a path (file, folder or glob) are named."""
    if path.exists():
        return path if path.is_dir() else path.parent
    return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def _common_root(roots: Sequence[str]) -> str:
    """Return the deepest folder or URL that holds all roots; "" if there is none.

    A path and a URL share none. A root that is the only one is returned as given.
    """
    distinct = sorted(set(roots))
    if len(distinct) == 1:
        return distinct[0]
    if distinct and not any(map(is_url, distinct)):
        return os.path.commonpath([Path(root).resolve() for root in distinct])
    parts_by_depth = zip(*(root.split("/") for root in distinct), strict=False)
    shared = takewhile(lambda parts: len(set(parts)) == 1, parts_by_depth)
    return "/".join(parts[0] for parts in shared)


def _relative(path: str, root: str) -> str:
    """Return a path or URL relative to ``root``, with escapes for bytes that are not UTF-8."""
    if is_url(path):
        url = shown(path)  # without credentials
        # A URL that is a root itself has only its file name.
        return url.removeprefix(shown(root)).lstrip("/") or PurePosixPath(url).name
    relative = Path(
        os.path.relpath(Path(path).absolute(), Path(root).absolute())
    ).as_posix()
    return os.fsencode(relative).decode(errors="backslashreplace")
