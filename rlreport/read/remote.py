"""Files of the logs: local ones, and ones in object stores, read through fsspec by byte ranges.

fsspec's libraries find the credentials. URLs are removed from error messages of stores, as they
may contain signatures.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from glob import has_magic
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, cast

import xxhash

from rlreport.errors import MissingExtraError, UsageError
from rlreport.zstd import ZstdFile

BLOCK = 8 << 20
"""Bytes per request when a file is read from start to end."""

_REQUEST, _TAIL, _PIECE = 32 << 20, 64 << 10, 1 << 20
_ADDRESS = re.compile(r"[\w+.-]+://\S+")
_MAX_MESSAGE = 200
_VERSIONS = ("VersionId", "version_id", "generation", "ETag", "etag", "md5Hash")


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the logs.

    Attributes:
        name: path relative to the folder the logs were given in, with ``/``.
        path: where it is opened: a local path or a URL.
        size: bytes on disk when the logs were listed; what is appended later is not read.
        compression: ``""``, ``gz`` or ``zst``.
        store: the URL that its store was opened with, "" for a local file.
        version: changes with a remote file's content, such as its ETag; "" if the store has none.
        content: all bytes of the file if they are in memory, else b"".
    """

    name: str
    path: str
    size: int
    compression: str = ""
    store: str = field(default="", repr=False)
    version: str = ""
    content: bytes = field(default=b"", repr=False, compare=False)

    def open(self) -> IO[bytes]:
        """Open the file's decompressed bytes.

        Raises:
            OSError: it cannot be opened.
        """
        raw = self.open_packed()
        if self.compression == "gz":
            return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        if self.compression == "zst":
            return cast("IO[bytes]", ZstdFile(raw))
        return raw

    def open_packed(self) -> IO[bytes]:
        """Open the file's bytes as they are stored.

        Raises:
            OSError: it cannot be opened.
        """
        if self.content:
            return BytesIO(self.content)
        return open_remote(self.path, self.store) if self.store else Path(self.path).open("rb")

    def digest(self, start: int = 0, stop: int | None = None) -> str:
        """Return an id of the lines that begin in [start, stop) and the byte before them.

        It contains the hash of the bytes (compressed ones if the file is), or the version of the
        file in its store. "" if neither is known.
        """
        if self.store:
            return f"{self.version}-{self.size}" if self.version else ""
        hasher = xxhash.xxh3_128()
        end = self.size if stop is None else stop
        try:
            with Path(self.path).open("rb") as file:
                file.seek(max(0, start - 1))
                last = b"\n"
                while piece := file.read(min(end - file.tell(), _PIECE)):
                    hasher.update(piece)
                    last = piece
                while not last.endswith(b"\n") and (
                    last := file.readline(min(self.size - file.tell(), _PIECE))
                ):
                    hasher.update(last)
        except OSError:
            return ""
        return hasher.hexdigest()


@lru_cache(maxsize=16)
def filesystem(store: str) -> Any:
    """Return the fsspec file system of a URL.

    Raises:
        MissingExtraError: fsspec, or the library of this kind of store, is not installed.
        UsageError: there is no such kind of store.
    """
    try:
        import fsspec

        return fsspec.core.url_to_fs(store)[0]
    except ImportError as error:
        wanted = "" if error.name == "fsspec" else f" ({error})"
        raise MissingExtraError(
            f"{shown(store)} needs fsspec and the store's library: pip install "
            f"'rlreport[remote]', and s3fs, gcsfs or adlfs{wanted}"
        ) from None
    except Exception as error:
        raise UsageError(f"{shown(store)}: {store_message(error)}") from None


def shown(url: str) -> str:
    """Return a URL for display, without user, password, query and fragment."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # A question mark may belong to a glob; a signature has named parameters.
    query = r"[?#]" if scheme.startswith("http") else r"\?(?=.*=)"
    rest = re.split(query, rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def store_message(error: BaseException) -> str:
    """Return a store's error message as one line without addresses."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and " " not in text:
        text = "not found"  # the text is the path
    elif isinstance(error, PermissionError) and " " not in text:
        text = "permission denied"
    return " ".join(_ADDRESS.sub("…", text).split())[:_MAX_MESSAGE]


def list_remote(url: str) -> tuple[str, bool, list[tuple[str, int, str]]]:
    """List the files at a URL: a file, a folder or a glob.

    Returns:
        the URL that names are relative to, whether one file was given, and URL, size and version
        of each file; the version changes with the content and is "" if the store has none.

    Raises:
        UsageError: nothing is there, or access is denied.
        MissingExtraError: see ``filesystem``.
    """
    system = filesystem(url)
    path = system._strip_protocol(url)
    try:
        system.invalidate_cache()  # a log may have grown since it was listed last
        found: dict[str, dict[str, Any]]
        if has_magic(path) and not system.exists(path):
            root, given, found = re.split(r"[^/]*[*?\[]", path)[0], False, {}
            found = system.glob(path, detail=True)
        elif system.isdir(path):
            root, given, found = path, False, system.find(path, detail=True)
        else:
            root, given = system._parent(path), True
            found = {path: system.info(path)} if system.exists(path) else {}
    except Exception as error:
        raise UsageError(f"Cannot list {shown(url)}: {store_message(error)}") from None
    files = [
        (system.unstrip_protocol(name), _size(url, info), _version(info))
        for name, info in sorted(found.items())
        if info.get("type") != "directory"
    ]
    if not files:
        raise UsageError(f"No such file or folder: {shown(url)}")
    return system.unstrip_protocol(root), given, files


def _size(url: str, info: dict[str, Any]) -> int:
    size = info.get("size")
    if size is None:
        raise UsageError(f"{shown(url)}: the server does not send the file's size; copy it")
    return int(size)


def _version(info: dict[str, Any]) -> str:
    for key in _VERSIONS:
        if isinstance(value := info.get(key), str | int) and value not in ("", "null"):
            return f"{key}:{value}"
    return ""


def open_remote(path: str, store: str) -> IO[bytes]:
    """Open a file in a store for reading from start to end.

    Raises:
        OSError: it cannot be opened.
    """
    system = filesystem(store)
    try:
        opened = system.open(
            system._strip_protocol(path), "rb", block_size=BLOCK, cache_type="readahead"
        )
    except Exception as error:
        raise _store_error(error) from None
    return cast("IO[bytes]", opened)


def range_pieces(source: Source, start: int, stop: int) -> Iterator[bytes]:
    """Yield a file's bytes from ``start`` on: up to ``stop`` in large requests, then in small ones.

    Raises:
        OSError: the store refuses.
    """
    while start < source.size:
        # Beyond the range only the end of one line is needed.
        end = min(stop, start + _REQUEST) if start < stop else start + _TAIL
        (data,) = read_ranges([(source, start, min(end, source.size))])
        if isinstance(data, OSError):
            raise data
        if not data:
            return
        yield data
        start += len(data)


def read_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes | OSError]:
    """Return byte ranges (file, start, stop), or why one cannot be read; all requested at once."""
    ranges = [(source.store, source.path, start, stop) for source, start, stop in wanted]
    found: dict[tuple[str, str, int, int], bytes | OSError] = {}
    for store, group in itertools.groupby(sorted(set(ranges)), key=itemgetter(0)):
        asked = list(group)
        found.update(zip(asked, _requested(store, [one[1:] for one in asked]), strict=True))
    return [found[one] for one in ranges]


def _requested(store: str, ranges: Sequence[tuple[str, int, int]]) -> list[bytes | OSError]:
    """Return ranges of a store's files; close ranges are merged into one request."""
    from fsspec.utils import merge_offset_ranges

    system = filesystem(store)
    # Merging over gaps up to the mean length at most doubles the bytes.
    gap = sum(stop - start for _, start, stop in ranges) // len(ranges)
    columns = map(list, zip(*ranges, strict=True))
    paths, starts, stops = merge_offset_ranges(*columns, max_gap=gap, max_block=BLOCK)
    names = [system._strip_protocol(path) for path in paths]
    try:
        blocks = system.cat_ranges(names, starts, stops, on_error="return")
    except Exception as error:
        blocks = [error] * len(paths)
    begins = list(zip(paths, starts, strict=True))
    parts: list[bytes | OSError] = []
    for path, start, stop in ranges:
        i = bisect(begins, (path, start)) - 1
        if isinstance(data := blocks[i], bytes):
            # A server without ranges sends the whole file.
            first = 0 if len(data) > stops[i] - starts[i] else starts[i]
            parts.append(data[start - first : stop - first])
        else:
            parts.append(_store_error(data))
    return parts


def _store_error(error: Any) -> OSError:
    return OSError(getattr(error, "errno", None) or errno.EIO, store_message(error))
