"""The files of the logs: find them, open them, tell whether they changed, and their format."""

from __future__ import annotations

import glob
import gzip
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import xxhash
import zstandard

from rlreport.errors import RlreportError, RowError, UnreadRow, UsageError
from rlreport.read.remote import list_remote, open_remote, shown, try_ranges
from rlreport.text.messages import message

if TYPE_CHECKING:
    from rlreport.formats import RowReader

NATIVE = "rlboard"
"""Id of the native format, whose rows need no conversion."""

LINE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
CONTAINER_SUFFIXES = (".json", ".json.gz", ".json.zst", ".parquet", ".db", ".eval")
_NUMBERED = re.compile(r"(?:.*/)?(?:eval_)?\d+\.pt", re.IGNORECASE)
"""Rollout dumps among torch's files; the others are mostly weights."""

_SETTLED_NS = 2 * 10**9
"""A file that changed more recently may change again without a new timestamp."""

_BLOCK = 1 << 20

COMPRESSIONS = {".gz": "gz", ".zst": "zst"}


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the logs.

    Attributes:
        name: path relative to the folder the logs were given in, with ``/``.
        path: where it is opened: a local path or a URL.
        size: bytes on disk when the logs were listed; what is appended later is not read.
        compression: ``""``, ``gz`` or ``zst``.
        store: the URL that its store was opened with, "" for a local file.
        version: what changes with a remote file's content, "" where its store tells none.
        head: the first bytes of a remote file, as far as they are here already.
    """

    name: str
    path: str
    size: int
    compression: str = ""
    store: str = field(default="", repr=False)
    version: str = ""
    head: bytes = field(default=b"", repr=False, compare=False)

    def open(self) -> IO[bytes]:
        """Open the file's decompressed bytes.

        Raises:
            OSError: it cannot be opened.
        """
        raw = self.open_packed()
        if self.compression == "gz":
            return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        if self.compression == "zst":
            decompressor = zstandard.ZstdDecompressor()
            return cast(
                "IO[bytes]",
                decompressor.stream_reader(raw, read_across_frames=True, closefd=True),
            )
        return raw

    def absolute(self) -> Source:
        """Return the same local file by a path that means the same in every folder."""
        return replace(self, path=str(Path(self.path).absolute()))

    def open_packed(self) -> IO[bytes]:
        """Open the file's bytes as they are stored.

        Raises:
            OSError: it cannot be opened.
        """
        if self.head and len(self.head) == self.size:
            return BytesIO(self.head)
        return open_remote(self.path, self.store) if self.store else Path(self.path).open("rb")

    def fingerprint(self) -> str | None:
        """Return the identity and mtime of the file, or None if they cannot be trusted.

        They cannot for a store without versions, a file changed within the last 2 s, and a
        file whose size is no longer ``size``.
        """
        if self.store:
            return f"{self.version}-{self.size}" if self.version else None
        try:
            found = Path(self.path).stat()
        except OSError:
            return None
        changed = max(found.st_mtime_ns, found.st_ctime_ns)
        if found.st_size != self.size or time.time_ns() - changed < _SETTLED_NS:
            return None
        told = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return "-".join(map(str, told))

    def digest(self, start: int = 0, stop: int | None = None) -> bytes | None:
        """Hash the bytes that the lines beginning in [start, stop) are read from.

        That is from one byte before ``start`` to the end of the last of these lines, never
        beyond ``size``. A compressed file is hashed whole, as it lies on the disk.

        Returns:
            16 bytes (XXH3); None where it cannot be read, or lies at a URL.
        """
        if is_url(self.path):
            return None
        stop = self.size if stop is None else stop
        hasher = xxhash.xxh3_128()
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                file.seek(max(0, start - 1))
                left, last = stop - file.tell(), b"\n"
                while left > 0 and (chunk := file.read(min(left, _BLOCK))):
                    hasher.update(chunk)
                    left, last = left - len(chunk), chunk[-1:]
                left = self.size - stop
                while last != b"\n" and left > 0 and (chunk := file.read(min(left, _BLOCK))):
                    chunk = chunk[: chunk.find(b"\n") + 1] or chunk
                    hasher.update(chunk)
                    left, last = left - len(chunk), chunk[-1:]
        except OSError:
            return None
        return hasher.digest()


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of a file; picklable.

    Attributes:
        id: shown to the user.
        container: ``lines``, ``json``, ``parquet``, …
        reader: turns an object into canonical rows; None for the native format.
        why: why the file has this format, in words.
        split: ``train``, ``val`` or ``eval``: split of rows that name none.
        main: the split that is judged, usually ``train``.
        watched: the split that is shown but not judged, None for none; others are not read.
    """

    id: str = NATIVE
    container: str = "lines"
    reader: RowReader | None = None
    why: str = ""
    split: str = "train"
    main: str = "train"
    watched: str | None = "val"

    @property
    def rewarded(self) -> bool:
        """Whether files of this format hold rewards at all."""
        return self.reader is None or self.reader.rewarded

    def rows(self, obj: dict[str, Any], name: str, line: int, index: int) -> list[dict[str, Any]]:
        """Return the canonical rows of an object; an ``UnreadRow`` for one that cannot be read.

        Raises:
            RowError: the object cannot be converted.
        """
        if self.reader is None:
            return [obj]
        from rlreport.formats.base import Where

        try:
            return [
                UnreadRow(self._refused(row.error)) if isinstance(row, UnreadRow) else row
                for row in self.reader(obj, Where(name, line, index))
            ]
        except RlreportError:
            raise
        except Exception as error:
            # Formats meet objects of any shape, and may come from other packages.
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> RowError:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        return RowError(f"no {self.id} row: {text:.200}")


@dataclass(slots=True)
class Listing:
    """The files found, by name, and what else was found."""

    sources: list[Source]
    unreadable: list[tuple[str, str]]
    other: list[Source]


def find_sources(paths: Sequence[str | Path]) -> Listing:
    """List the log files under files, folders, globs and URLs, each file once.

    Raises:
        UsageError: nothing lies at a given path.
        MissingExtraError: a URL is given and fsspec is not installed.
    """
    found: list[_Found] = []
    listing = Listing([], [], [])
    for path in paths:
        text = os.fspath(path)
        if is_url(text):
            root, given, files = list_remote(text)
            found += [_Found(url, root, size, url, given, text, v) for url, size, v in files]
        else:
            found += _find_local(text, listing)
    common = _common_root([item.root for item in found])
    seen: set[object] = set()
    for item in sorted(found, key=lambda item: item.path):
        if item.identity in seen:
            continue
        seen.add(item.identity)
        name = _relative(item.path, common)
        compression = COMPRESSIONS.get(PurePosixPath(name.lower()).suffix, "")
        source = Source(name, item.path, item.size, compression, item.store, item.version)
        known = name.lower().endswith((*LINE_SUFFIXES, *CONTAINER_SUFFIXES))
        log = item.given or known or _NUMBERED.fullmatch(name)
        (listing.sources if log else listing.other).append(source)
    listing.sources.sort(key=lambda source: source.name)
    listing.unreadable = sorted((_relative(path, common), why) for path, why in listing.unreadable)
    return listing


def name_in_logs(path: Path, logs: Sequence[str | Path]) -> str:
    """Return a file's path relative to the logs; its last part if it lies elsewhere."""
    roots = [str(_root(Path(log)).resolve()) for log in logs if not is_url(os.fspath(log))]
    whole, root = path.resolve(), Path(_common_root(roots))
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else path.name


def is_url(path: str) -> bool:
    """Tell whether a path carries a scheme such as ``s3://``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").isalnum()


class _Found(NamedTuple):
    path: str
    root: str
    size: int
    identity: object
    given: bool = False
    store: str = ""
    version: str = ""


def _find_local(text: str, listing: Listing) -> list[_Found]:
    path = Path(text)
    root = _root(path)
    if path.is_dir():
        return list(_walk(path, root, listing))
    if path.exists():
        return list(_file(path, root, listing, given=True))
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - takes absolute patterns too
    if not matches:
        raise UsageError(f"No such file or folder: {text}")
    found: list[_Found] = []
    for match in map(Path, matches):
        found += _walk(match, root, listing) if match.is_dir() else _file(match, root, listing)
    return found


def _walk(folder: Path, root: Path, listing: Listing) -> Iterator[_Found]:
    visited: set[tuple[int, int]] = set()

    def denied(error: OSError) -> None:
        _refuse(listing, error.filename, error)

    for here, folders, names in os.walk(folder, onerror=denied, followlinks=True):
        status = Path(here).stat()
        # A link back to a folder above would be walked for ever.
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders.sort()
        for name in sorted(names):
            yield from _file(Path(here) / name, root, listing)


def _file(path: Path, root: Path, listing: Listing, *, given: bool = False) -> Iterator[_Found]:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe or a device would wait for ever.
            raise OSError(0, message("{kind}, not a file: skipped", kind=_kind(status.st_mode)))
        if not os.access(path, os.R_OK):
            raise OSError(0, message("Permission denied"))
    except OSError as error:
        _refuse(listing, path, error)
        return
    identity = (status.st_dev, status.st_ino)
    yield _Found(str(path), str(root), status.st_size, identity, given)


def _refuse(listing: Listing, path: str | Path, error: OSError) -> None:
    listing.unreadable.append((str(path), error.strerror or message("cannot be read")))


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return message("a pipe")
    return message("a socket") if stat.S_ISSOCK(mode) else message("a device")


def _root(path: Path) -> Path:
    """Return the folder that the files under a given path are named from."""
    if path.exists():
        return path if path.is_dir() else path.parent
    return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def _common_root(roots: list[str]) -> str:
    distinct = sorted(set(roots))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    if any(is_url(root) for root in distinct):
        parts = [root.split("/") for root in distinct]
        same = [piece[0] for piece in zip(*parts, strict=False) if len(set(piece)) == 1]
        return "/".join(same)
    return os.path.commonpath([Path(root).resolve() for root in distinct])


def _relative(path: str, root: str) -> str:
    if is_url(path):
        path = shown(path)
        return path.removeprefix(shown(root)).lstrip("/") or PurePosixPath(path).name
    return Path(os.path.relpath(Path(path).absolute(), Path(root).absolute())).as_posix()


def with_heads(sources: Sequence[Source], most: int, *, whole: bool = False) -> list[Source]:
    """Return the sources; those in stores with their first bytes, requested together.

    Args:
        sources: the files.
        most: bytes of each.
        whole: only files that are no larger than that.
    """
    heads = {
        i: (source, 0, min(source.size, most))
        for i, source in enumerate(sources)
        if source.store and source.size and (source.size <= most or not whole)
    }
    result = list(sources)
    for i, data in zip(heads, try_ranges(list(heads.values())), strict=True):
        result[i] = replace(sources[i], head=b"" if isinstance(data, OSError) else data)
    return result
