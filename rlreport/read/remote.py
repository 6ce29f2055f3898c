"""Files in object stores, through fsspec: listed once, read by byte ranges, many at a time.

Credentials are the store's own business. Error messages of stores are shown without addresses,
which may be signed.
"""

from __future__ import annotations

import errno
import io
import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from glob import has_magic
from typing import IO, TYPE_CHECKING, Any, cast

from rlreport.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from rlreport.read.files import Source

BLOCK = 8 << 20
"""Bytes of one request where a file is read through."""

RANGE = 32 << 20
"""Bytes of a byte range that are requested at once."""

HEAD = 256 << 10
"""Bytes at a file's start that format detection looks at."""

SMALL = 4 << 20
"""Files up to this size are requested whole, many at a time."""

_MAX_AT_ONCE = 256
_NEAR = 64 << 10
"""Ranges of a file closer than this are one request."""

_ADDRESS = re.compile(r"[\w+.-]+://\S+")
_MOST_SAID = 200
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
        raise UsageError(f"{shown(store)}: {said(error)}") from None


def shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password, query and fragment."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # Of a store a question mark may be a glob's; what signs an address names its parts.
    query = r"[?#]" if scheme.startswith("http") else r"\?(?=.*=)"
    rest = re.split(query, rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def said(error: BaseException) -> str:
    """Return what a store says, in a line without addresses."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and " " not in text:
        text = "not found"  # the text is the path
    elif isinstance(error, PermissionError) and " " not in text:
        text = "permission denied"
    return " ".join(_ADDRESS.sub("…", text).split())[:_MOST_SAID]


def list_remote(url: str) -> tuple[str, bool, list[tuple[str, int, str]]]:
    """List the files at a URL: a file, a folder or a glob.

    Returns:
        the URL that their names start from, whether it is one file that was named, and URL, size
        and version of each: what changes with its content, "" where the store has none.

    Raises:
        UsageError: nothing is there, or the store does not let us see it.
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
        raise UsageError(f"Cannot list {shown(url)}: {said(error)}") from None
    files = [
        (_address(url, str(name)), _size(url, info), _version(info))
        for name, info in sorted(found.items())
        if info.get("type") != "directory"
    ]
    if not files:
        raise UsageError(f"No such file or folder: {shown(url)}")
    return _address(url, root), given, files


def _address(url: str, name: str) -> str:
    scheme = url.partition("://")[0]
    if "://" in name:  # HTTP's names are whole
        return name
    return f"{scheme}://{name if scheme == 'file' else name.lstrip('/')}"


def _size(url: str, info: dict[str, Any]) -> int:
    size = info.get("size")
    if size is None:
        raise UsageError(f"{shown(url)}: the server does not tell how large the file is; copy it")
    return int(size)


def _version(info: dict[str, Any]) -> str:
    for key in _VERSIONS:
        if isinstance(value := info.get(key), str | int) and value not in ("", "null"):
            return f"{key}:{value}"
    return ""


def open_remote(path: str, store: str) -> IO[bytes]:
    """Open a file in a store to be read from its start to its end.

    Raises:
        OSError: the store does not give it.
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

    def __init__(self, source: Source, start: int, stop: int | None) -> None:
        self._source, self._stop = source, source.size if stop is None else stop
        self._position = start
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
        stop = min(start + (size if size and size > 0 else BLOCK), self._source.size)
        if not self._start <= start < self._start + len(self._data):
            end = max(stop, min(self._stop, start + RANGE)) if start < self._stop else stop
            self._start, self._data = start, read_ranges([(self._source, start, end)])[0]
        data = self._data[start - self._start : stop - self._start]
        self._position += len(data)
        return data


def read_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes]:
    """Return ranges (file, start, stop) of files of one store; near ones are requested as one.

    Raises:
        OSError: one of them cannot be read.
    """
    joined: list[tuple[Source, int, int]] = []
    part_of = [0] * len(wanted)
    for i in sorted(range(len(wanted)), key=lambda i: (wanted[i][0].path, wanted[i][1])):
        source, start, stop = wanted[i]
        last, begin, end = joined[-1] if joined else (None, 0, 0)
        near = last is not None and last.path == source.path and start <= end + _NEAR
        if near and max(stop, end) - begin <= BLOCK:
            joined[-1] = (source, begin, max(stop, end))
        else:
            joined.append(wanted[i])
        part_of[i] = len(joined) - 1
    found = _requested(joined)
    for data in found:
        if isinstance(data, OSError):
            raise data
    return [
        found[part][start - joined[part][1] : stop - joined[part][1]]  # type: ignore[index]
        for part, (_, start, stop) in zip(part_of, wanted, strict=True)
    ]


def heads(sources: Sequence[Source], most: int) -> list[bytes]:
    """Return the first ``most`` bytes of each file; b"" for one that cannot be had."""
    found: list[bytes] = []
    for _, batch in itertools.groupby(sources, key=lambda source: source.store):
        ranges = [(source, 0, min(source.size, most)) for source in batch]
        for first in range(0, len(ranges), _MAX_AT_ONCE):
            some = _requested(ranges[first : first + _MAX_AT_ONCE])
            found += [data if isinstance(data, bytes) else b"" for data in some]
    return found


def _requested(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes | OSError]:
    """Return ranges of files of one store, or why one cannot be had."""
    if not wanted:
        return []
    system = filesystem(wanted[0][0].store)
    paths = [system._strip_protocol(source.path) for source, _, _ in wanted]
    starts, stops = [start for _, start, _ in wanted], [stop for _, _, stop in wanted]
    try:
        found = system.cat_ranges(paths, starts, stops, on_error="return")
    except Exception as error:
        found = [error] * len(wanted)
    return [
        # A server without ranges answers with the whole file.
        (data[start:stop] if len(data) > stop - start else data)
        if isinstance(data, bytes)
        else _store_error(data)
        for data, start, stop in zip(found, starts, stops, strict=True)
    ]


def _store_error(error: Any) -> OSError:
    return OSError(getattr(error, "errno", None) or errno.EIO, said(error))
