"""List the log files under paths, globs and URLs, cut them into ranges, and read their lines."""

from __future__ import annotations

import fnmatch
import glob
import io
import os
import re
import stat
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rlreport.errors import RlreportError, RowError, UnreadRow, UsageError
from rlreport.fields import AssumedStep
from rlreport.formats import RowReader
from rlreport.formats.base import Where
from rlreport.formats.simple import RLBoard
from rlreport.system.own_output import (
    is_own_file,
    is_own_folder,
    own_folders_in,
    refuse_own_output,
)
from rlreport.system.stores import Source, list_remote, range_pieces, read_ranges, shown, zstd
from rlreport.text.messages import message

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LINE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
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


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of a log file, and how to convert its JSON objects to rows; picklable."""

    id: str = RLBoard.id
    container: str = "lines"  # file structure: ``lines``, ``json``, ``parquet``, …
    reader: RowReader = RowReader(RLBoard())  # noqa: RUF009 - it has no state
    why: str = ""  # text that explains why this format was chosen
    split: str = "train"  # data split (``train``, ``val``, …) of rows that do not name one
    main: str = "train"  # the split in which the checks look for problems, usually ``train``
    watched: str | None = "val"  # a second split, shown but not checked; others are not read
    # path of the file, or of a file in it if it is an archive -> its step, for rows without one
    steps: Mapping[str, int] = field(default_factory=dict)

    def step_in_path(self, obj: dict[str, Any], name: str) -> AssumedStep | None:
        step = self.steps.get(f"{name}/{getattr(obj, 'member', '')}", self.steps.get(name))
        return None if step is None else AssumedStep(step)

    def rows(self, obj: dict[str, Any], name: str, line: int, index: int) -> list[dict[str, Any]]:
        """Return canonical rows (``UnreadRow`` for bad ones); raise RowError if ``obj`` is bad."""
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
        return RowError(f"not a valid {self.id} row: {text:.200}")


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
    listing.unreadable = sorted((_relative(path, common), why) for path, why in listing.unreadable)
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
    roots = [str(_root(Path(log)).resolve()) for log in logs if not is_url(os.fspath(log))]
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
    for folder in (root / inner for inner in inner_folders):
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
        for path in (Path(here) / name for name in sorted(names)):
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
    return "/".join(part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts))


def _relative(path: str, root: str) -> str:
    """Return a path or URL relative to ``root``, with escapes for bytes that are not UTF-8."""
    if is_url(path):
        path = shown(path)
        return path.removeprefix(shown(root)).lstrip("/") or PurePosixPath(path).name
    relative = Path(os.path.relpath(Path(path).absolute(), Path(root).absolute())).as_posix()
    return os.fsencode(relative).decode(errors="backslashreplace")


def with_content(sources: Sequence[Source], most: int) -> list[Source]:
    """Return the sources, readable remote ones with only their first ``most`` bytes, in memory."""
    remote = [source for source in sources if source.store and source.size]
    parts = read_ranges([(source, 0, min(source.size, most)) for source in remote])
    local_copies = {
        source: replace(source, size=len(part), content=part)
        for source, part in zip(remote, parts, strict=True)
        if isinstance(part, bytes)
    }
    return [local_copies.get(source, source) for source in sources]


_BUFFER = 1 << 20
# Decompressed bytes per read; before damaged data, at most this many intact bytes are lost
_SLICE = 16 << 10

BOM = b"\xef\xbb\xbf"
# Exceptions raised when reading a broken file: disk errors and damaged compression
DAMAGED = (OSError, EOFError, zlib.error, zstd.ZstdError)


# Files are cut at multiples of this, so appending to a file does not change earlier ranges
RANGE_BYTES = 32 << 20

MAX_LINE = 256_000_000  # bytes of a line; longer ones are skipped
_NO_END = 2**62
_GROUP_FILES = 256
_SMALL_BYTES = 4 << 20
_SMALL_PACKED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ByteRange:
    """All lines of a file whose first byte is at an offset in [start, stop).

    Files can therefore be cut anywhere, except compressed files and files without lines.
    """

    file: int  # index of the file in the list of log files
    source: Source  # the file
    # offsets in decompressed bytes; ``stop`` is None for the end of the file
    start: int = 0
    stop: int | None = None
    format: LogFormat = field(default_factory=LogFormat)  # the log format

    @property
    def weight(self) -> int:
        """Size of the range in bytes on disk, to report progress."""
        return (self.source.size if self.stop is None else self.stop) - self.start

    @property
    def small(self) -> bool:
        return self.weight <= (_SMALL_PACKED_BYTES if self.stop is None else _SMALL_BYTES)


def byte_ranges(
    sources: Sequence[Source], formats: Sequence[LogFormat], *, range_bytes: int = RANGE_BYTES
) -> list[ByteRange]:
    """Return the ranges of all files; uncompressed lines are cut every ``range_bytes``."""
    ranges: list[ByteRange] = []
    for file, (source, log_format) in enumerate(zip(sources, formats, strict=True)):
        whole = source.compression or log_format.container != "lines"
        for start in (0,) if whole else range(0, max(1, source.size), range_bytes):
            stop = None if whole else min(start + range_bytes, source.size)
            ranges.append(ByteRange(file, source, start, stop, log_format))
    return ranges


def grouped_ranges(ranges: Sequence[ByteRange]) -> list[list[ByteRange]]:
    groups: list[list[ByteRange]] = [[]]
    size = 0
    for part in ranges:
        last = groups[-1]
        fits = size + part.weight <= RANGE_BYTES and len(last) < _GROUP_FILES
        if last and last[-1].small and part.small and last[-1].file != part.file and fits:  # noqa: PLR0916
            last.append(part)
            size += part.weight
        else:
            groups.append([part])
            size = part.weight
    return groups[1:]


class Line(NamedTuple):
    offset: int  # offset of its first byte in the decompressed file
    data: bytes | None  # its bytes; None if the line is longer than the limit
    torn: bool = False  # whether the file ends within this line, such as while it is written


@dataclass(slots=True)
class Lines:
    """The lines of a byte range, including blank ones, but not lines added since the listing."""

    part: ByteRange
    max_line: int
    damage: str | None = None  # why the rest of the file could not be read

    def __iter__(self) -> Iterator[Line]:
        with closing(self._pieces()) as pieces:
            yield from self._lines(io.BufferedReader(_Pieces(pieces), _BUFFER))

    def _pieces(self) -> Generator[bytes]:
        source = self.part.source
        start = max(0, self.part.start - 1)
        try:
            if source.store and not source.compression and not source.content:
                stop = source.size if self.part.stop is None else self.part.stop
                yield from range_pieces(source, start, stop)
                return
            with source.open() as stream:
                # Its first range may be of the newer file, but not later ones of yet another.
                if start and source.is_replaced(os.fstat(stream.fileno())):
                    raise OSError(0, message("it was replaced by another file"))
                stream.seek(start)
                # ``read`` would discard decompressed data when the file is damaged or ends early.
                read1 = cast("io.BufferedIOBase", stream).read1
                yield from iter(partial(read1, _SLICE if source.compression else _BUFFER), b"")
        except DAMAGED as error:
            self.damage = reason_of(error)

    def _lines(self, stream: io.BufferedIOBase) -> Iterator[Line]:
        part = self.part
        end = _NO_END if part.source.compression else part.source.size
        stop = end if part.stop is None else part.stop
        position = max(0, part.start - 1)
        if part.start:
            # Start one byte early: if that byte is a line end, no line of this range is skipped.
            position += _skip_line(stream)
        while position < stop:
            line = stream.readline(self.max_line + 2)[: end - position]
            if not line:
                return
            offset, position = position, position + len(line)
            if not offset and line.startswith(BOM):
                offset, line = len(BOM), line[len(BOM) :]
            if line.endswith(b"\n"):
                yield Line(offset, line[:-2] if line.endswith(b"\r\n") else line[:-1])
            elif len(line) > self.max_line:
                yield Line(offset, None)
                position += _skip_line(stream)
            else:
                yield Line(offset, line.removesuffix(b"\r"), torn=True)


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._piece = self._piece or memoryview(next(self._pieces, b""))
        size = min(memoryview(buffer).nbytes, len(self._piece))
        memoryview(buffer)[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def _skip_line(stream: io.BufferedIOBase) -> int:
    skipped = 0
    while piece := stream.readline(_BUFFER):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def reason_of(error: BaseException) -> str:
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, RecursionError):
        return message("nested too deeply")
    if isinstance(error, OverflowError):
        return message("contains a number that is too large")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
