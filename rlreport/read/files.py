"""List the log files under paths, globs and URLs, and describe the format of a file."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from rlreport.errors import RlreportError, RowError, UnreadRow, UsageError
from rlreport.fields import AssumedStep
from rlreport.system.stores import Source, list_remote, read_ranges, shown
from rlreport.text.messages import message

if TYPE_CHECKING:
    from rlreport.formats import RowReader
    from rlreport.formats.base import FileStamp

NATIVE = "rlboard"  # Id of the native format, whose rows need no conversion
LINE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
_SUFFIXES = (
    *(*LINE_SUFFIXES, ".json", ".json.gz", ".json.zst", ".parquet", ".db", ".eval"),
    *(".jsonl.zip", ".ndjson.zip", ".json.zip"),
)
# Names of torch files that hold rollouts; other torch files are mostly model weights
_NUMBERED = re.compile(r"(?:.*/)?(?:eval_)?\d+\.pt", re.IGNORECASE)

COMPRESSIONS = {".gz": "gz", ".zst": "zst"}


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of a log file, and how to convert its JSON objects to rows; picklable."""

    id: str = NATIVE
    container: str = "lines"  # file structure: ``lines``, ``json``, ``parquet``, …
    # converts a logged dict to rows with standard fields; None for the native format
    reader: RowReader | None = None
    why: str = ""  # text that explains why this format was chosen
    split: str = "train"  # data split (``train``, ``val``, …) of rows that do not name one
    main: str = "train"  # the split in which the checks look for problems, usually ``train``
    # a second split, shown but not checked, or None; further splits are not read
    watched: str | None = "val"
    # path of the file, or of a file in it if it is an archive -> its step, for rows without one
    steps: Mapping[str, int] = field(default_factory=dict)

    @property
    def siblings(self) -> tuple[FileStamp, ...]:
        """The files next to the log that are read together with it."""
        return () if self.reader is None else self.reader.format.siblings

    @property
    def rewarded(self) -> bool:
        """Whether files of this format contain rewards."""
        return self.reader is None or self.reader.format.rewarded

    def step_in_path(self, obj: dict[str, Any], name: str) -> AssumedStep | None:
        """Return the step in the path of an object of file ``name``, None if it has none."""
        step = self.steps.get(f"{name}/{getattr(obj, 'member', '')}", self.steps.get(name))
        return None if step is None else AssumedStep(step)

    def rows(self, obj: dict[str, Any], name: str, line: int, index: int) -> list[dict[str, Any]]:
        """Convert a logged dict to rows with standard fields; ``UnreadRow`` for an unreadable row.

        Raises:
            RowError: the object cannot be converted.
        """
        if self.reader is None:
            return [obj]
        from rlreport.formats.base import Where

        try:
            where = Where(
                name, line, index, self.step_in_path(obj, name), getattr(obj, "member", "")
            )
            return [
                UnreadRow(self._conversion_error(row.error)) if isinstance(row, UnreadRow) else row
                for row in self.reader(obj, where)
            ]
        except RlreportError:
            raise
        except Exception as error:
            # Readers may get objects of any shape, and may be plugins of other packages.
            raise self._conversion_error(error) from None

    def _conversion_error(self, error: Exception) -> RowError:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        return RowError(f"no {self.id} row: {text:.200}")


@dataclass(slots=True)
class Listing:
    """Log files (``sources``), other files, and (path, reason) of files that are unreadable."""

    sources: list[Source]
    unreadable: list[tuple[str, str]]
    other: list[Source]


def find_sources(paths: Sequence[str | Path]) -> Listing:
    """List the log files under files, folders, globs and URLs, each file once.

    Raises:
        UsageError: a given path does not exist.
        MissingExtraError: a URL is given and fsspec is not installed.
    """
    listing = Listing([], [], [])
    entries: list[_Found] = []
    roots: list[str] = []
    for path in paths:
        text = os.fspath(path)
        if is_url(text):
            root, given, files = list_remote(text)
            entries += [
                _Found(Source("", url, size, store=text, version=version), url, given)
                for url, size, version in files
            ]
        else:
            root, given = str(_root(Path(text))), Path(text).is_file()
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
    listing.unreadable = sorted((_relative(path, common), why) for path, why in listing.unreadable)
    return listing


def name_in_logs(path: Path, logs: Sequence[str | Path]) -> str:
    """Return a file's path relative to the common folder of the logs, or its name if outside."""
    roots = [str(_root(Path(log)).resolve()) for log in logs if not is_url(os.fspath(log))]
    whole, root = path.resolve(), Path(_common_root(roots))
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else path.name


def is_url(path: str) -> bool:
    """Return whether a path has a scheme such as ``s3://``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").isalnum()


class _Found(NamedTuple):
    """A listed file. Equal ``identity``: the same file; ``given``: the user named it itself."""

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
        yield from _walk(match, listing) if match.is_dir() else [match]


def _recursive_matches(pattern: str, listing: Listing) -> Iterator[str]:
    """Yield the files that match a pattern with ``**``, or are below a folder that matches.

    Unlike ``glob``, enter each real folder only once, so links to parent folders do no harm.
    """
    root = _root(Path(pattern))
    wanted = Path(pattern).relative_to(root).parts
    for path in _walk(root, listing) if root.is_dir() else ():
        parts = path.relative_to(root).parts
        if any(_matches(parts[:depth], wanted) for depth in range(1, len(parts) + 1)):
            yield str(path)


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Return whether the parts of a path match those of a glob; ``*`` skips hidden names."""
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

    def denied(error: OSError) -> None:
        _add_unreadable(listing, error.filename, error)

    for here, folders, names in os.walk(folder, onerror=denied, followlinks=True):
        status = Path(here).stat()
        # Following a link to a parent folder would never end.
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders.sort()
        yield from (Path(here) / name for name in sorted(names))


def _entry_of(path: Path, listing: Listing, *, given: bool) -> list[_Found]:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe or a device would wait for ever.
            raise OSError(0, message("{kind}, not a file: skipped", kind=_kind(status.st_mode)))
        if not os.access(path, os.R_OK):
            raise OSError(0, message("Permission denied"))
    except OSError as error:
        _add_unreadable(listing, path, error)
        return []
    source = Source("", str(path), status.st_size)
    return [_Found(source, (status.st_dev, status.st_ino), given)]


def _add_unreadable(listing: Listing, path: str | Path, error: OSError) -> None:
    listing.unreadable.append((str(path), error.strerror or message("cannot be read")))


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return message("a pipe")
    return message("a socket") if stat.S_ISSOCK(mode) else message("a device")


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
    return "/".join(part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts))


def _relative(path: str, root: str) -> str:
    if is_url(path):
        path = shown(path)
        return path.removeprefix(shown(root)).lstrip("/") or PurePosixPath(path).name
    return Path(os.path.relpath(Path(path).absolute(), Path(root).absolute())).as_posix()


def with_content(sources: Sequence[Source], most: int) -> list[Source]:
    """Return the files; ``content`` of remote ones is set to the first ``most`` bytes."""
    remote = [source for source in sources if source.store and source.size]
    parts = read_ranges([(source, 0, min(source.size, most)) for source in remote])
    local_copies = {
        source: replace(source, size=len(part), content=part)
        for source, part in zip(remote, parts, strict=True)
        if isinstance(part, bytes)
    }
    return [local_copies.get(source, source) for source in sources]
