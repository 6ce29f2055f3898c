"""Files in object stores, through fsspec: listed once, read by byte ranges, many at a time.

fsspec's libraries find the credentials. Addresses are removed from error messages of stores, as
they may be signed.
"""

from __future__ import annotations

import errno
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from glob import has_magic
from typing import IO, TYPE_CHECKING, Any, cast

from rlreport.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from rlreport.read.files import Source

BLOCK = 8 << 20
"""Bytes per request when a file is read from start to end."""

_TAIL = 64 << 10
RANGE = 32 << 20
"""Bytes of the first pass's requests."""

HEAD = 256 << 10
"""Bytes at a file's start that format detection reads."""

SMALL = 4 << 20
"""Files up to this size are requested whole, many at once."""

_ADDRESS = re.compile(r"[\w+.-]+://\S+")
_MAX_MESSAGE = 200
_VERSIONS = ("VersionId", "version_id", "generation", "ETag", "etag", "md5Hash")


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
    """Return a URL without user, password, query and fragment, as it may be shown."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # In a store's path a question mark may be a glob's; a signature has named parts.
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


class RangeStream(io.RawIOBase):
    """A byte range of a file in a store; what follows the range is requested in small pieces."""

    def __init__(self, source: Source, start: int, stop: int) -> None:
        self._source, self._position, self._stop = source, start, stop
        self._start, self._data = 0, source.head

    def readable(self) -> bool:
        """See io."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io; ``whence`` is the start."""
        self._position = offset
        return offset

    def read(self, size: int | None = -1, /) -> bytes:
        """See io; OSError if the store does not give it."""
        start = self._position
        wanted = size if size and size > 0 else BLOCK
        # Beyond the range only the end of one line is wanted.
        stop = min(start + wanted, self._stop) if start < self._stop else start + min(wanted, _TAIL)
        stop = min(stop, self._source.size)
        if not self._start <= start < self._start + len(self._data):
            end = max(stop, min(self._stop, start + RANGE))
            self._start, self._data = start, read_ranges([(self._source, start, end)])[0]
        data = self._data[start - self._start : stop - self._start]
        self._position += len(data)
        return data


def read_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes]:
    """Return byte ranges (file, start, stop) of files in stores.

    Raises:
        OSError: one of them cannot be read.
    """
    parts = []
    for data in try_ranges(wanted):
        if isinstance(data, OSError):
            raise data
        parts.append(data)
    return parts


def try_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes | OSError]:
    """Return byte ranges (file, start, stop), or why one cannot be read; all requested at once."""
    parts: list[bytes | OSError] = [b""] * len(wanted)
    for store, requests in itertools.groupby(_merged(wanted), key=lambda r: r.source.store):
        for request, data in _responses(store, list(requests)):
            for i in request.members:
                start, stop = (offset - request.start for offset in wanted[i][1:])
                parts[i] = data[start:stop] if isinstance(data, bytes) else data
    return parts


@dataclass(slots=True)
class _Request:
    """A byte range to request, and the indices of the ranges in it."""

    source: Source
    start: int
    stop: int
    members: list[int]


def _merged(wanted: Sequence[tuple[Source, int, int]]) -> list[_Request]:
    """Return requests by store; ranges of a file share one if they are at least half of it."""
    requests: list[_Request] = []
    size = 0
    for i in sorted(range(len(wanted)), key=lambda i: _place(*wanted[i])):
        source, start, stop = wanted[i]
        last = requests[-1] if requests else None
        if last and last.source.path == source.path:
            end, size = max(stop, last.stop), size + stop - start
            if end - last.start <= min(2 * size, BLOCK):
                last.stop = end
                last.members.append(i)
                continue
        requests.append(_Request(source, start, stop, [i]))
        size = stop - start
    return requests


def _place(source: Source, start: int, stop: int) -> tuple[str, str, int]:
    return source.store, source.path, start


def _responses(
    store: str, requests: Sequence[_Request]
) -> Iterator[tuple[_Request, bytes | OSError]]:
    system = filesystem(store)
    paths = [system._strip_protocol(request.source.path) for request in requests]
    starts, stops = [r.start for r in requests], [r.stop for r in requests]
    try:
        found = system.cat_ranges(paths, starts, stops, on_error="return")
    except Exception as error:
        found = [error] * len(requests)
    for request, data in zip(requests, found, strict=True):
        if not isinstance(data, bytes):
            yield request, _store_error(data)
        elif len(data) > request.stop - request.start:  # a server without ranges sends all
            yield request, data[request.start : request.stop]
        else:
            yield request, data


def _store_error(error: Any) -> OSError:
    return OSError(getattr(error, "errno", None) or errno.EIO, store_message(error))
