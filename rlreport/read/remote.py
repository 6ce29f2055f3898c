"""Files in object stores, through fsspec: listed once, read by exact ranges, many at once.

Nothing beyond what was asked for is read ahead. Credentials are the store's own business: what a
store says is told without the addresses in it, which may be signed.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from glob import has_magic
from typing import TYPE_CHECKING, Any

from rlreport.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from rlreport.read.sources import Source

AHEAD = 8 << 20
"""Bytes of one request where a file is read from its start to its end; two are held."""

HEAD = 256 << 10
"""Bytes of a file's start that detection looks at."""

SMALL = 4 << 20
"""Files up to this are got whole, many at once."""

_AT_ONCE = 32 << 20
_MOST_AT_ONCE = 256
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


class RangeFile(io.RawIOBase):
    """A file in a store, of which only what is asked for is read, and so much ahead of it."""

    def __init__(self, source: Source, ahead: int, until: int | None = None) -> None:
        """Open it; nothing is asked of the store yet.

        Args:
            source: the file; its ``head``, where there is one, is not asked for again.
            ahead: bytes read at least where reading goes on.
            until: nothing from here on is read ahead; None for the end of the file.
        """
        self._source, self._size = source, source.size
        self._ahead, self._until = ahead, source.size if until is None else until
        self._at, self._start, self._held = 0, 0, source.head
        self._next: tuple[int, Future[bytes]] | None = None

    def readable(self) -> bool:
        """See io."""
        return True

    def seekable(self) -> bool:
        """See io."""
        return True

    def tell(self) -> int:
        """See io."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """See io."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """See io; OSError where the store does not give it."""
        whole = size is None or size < 0
        stop = self._size if whole else min(self._at + (size or 0), self._size)
        if stop <= self._at:
            return b""
        if not self._start <= self._at <= stop <= self._start + len(self._held):
            self._fill(stop)
        data = self._held[self._at - self._start : stop - self._start]
        self._at += len(data)
        return data

    def close(self) -> None:
        """See io."""
        if self._next is not None:
            self._next[1].cancel()
        self._held = b""
        super().close()

    def _fill(self, stop: int) -> None:
        """Hold what lies from here to ``stop``, and what may be read ahead."""
        end = self._start + len(self._held)
        kept = self._held[self._at - self._start :] if self._start <= self._at <= end else b""
        start = self._at + len(kept)
        wanted = max(stop, min(start + self._ahead, self._until))
        coming, self._next = self._next, None
        if coming is not None and coming[0] == start:
            data = coming[1].result()
            if start + len(data) < stop:
                data += _range(self._source, start + len(data), stop)
        else:
            data = _range(self._source, start, wanted)
        self._start, self._held = self._at, kept + data
        end = start + len(data)
        if end < stop:
            self._size = end  # it is shorter than it was when it was listed
        elif self._ahead >= AHEAD and end < self._until:
            following = min(end + self._ahead, self._until)
            self._next = end, _threads().submit(_range, self._source, end, following)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "rlreport-ahead")


def _range(source: Source, start: int, stop: int) -> bytes:
    return _whole(_ranges([(source, start, stop)])[0])


def _ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes | OSError]:
    """Return ranges of files of one store, asked for at once, or why one cannot be had."""
    system = filesystem(wanted[0][0].store)
    paths = [system._strip_protocol(source.path) for source, _, _ in wanted]
    starts, stops = [start for _, start, _ in wanted], [stop for _, _, stop in wanted]
    try:
        if len(wanted) == 1:
            found = [system.cat_file(paths[0], start=starts[0], end=stops[0])]
        else:
            found = system.cat_ranges(paths, starts, stops, on_error="return")
    except Exception as error:
        found = [error] * len(wanted)
    given: list[bytes | OSError] = []
    for data, start, stop in zip(found, starts, stops, strict=True):
        if isinstance(data, bytes):
            # A server that knows no ranges answers with the whole file.
            given.append(data[start:stop] if len(data) > stop - start else data)
        else:
            given.append(OSError(getattr(data, "errno", None) or errno.EIO, said(data)))
    return given


def read_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes]:
    """Return ranges (file, start, stop) of files of one store; near ones are asked for as one.

    Raises:
        OSError: one of them cannot be read.
    """
    joined: list[tuple[Source, int, int]] = []
    part_of = [0] * len(wanted)
    for i in sorted(range(len(wanted)), key=lambda i: (wanted[i][0].path, wanted[i][1])):
        source, start, stop = wanted[i]
        last, begin, end = joined[-1] if joined else (None, 0, 0)
        near = last is not None and last.path == source.path and start <= end + _NEAR
        if near and max(stop, end) - begin <= AHEAD:
            joined[-1] = (source, begin, max(stop, end))
        else:
            joined.append(wanted[i])
        part_of[i] = len(joined) - 1
    found = [_whole(data) for data in _ranges(joined)] if joined else []
    return [
        found[part][start - joined[part][1] : stop - joined[part][1]]
        for part, (_, start, stop) in zip(part_of, wanted, strict=True)
    ]


def _whole(data: bytes | OSError) -> bytes:
    if isinstance(data, OSError):
        raise data
    return data


def heads(sources: Sequence[Source], most: int) -> Iterator[bytes]:
    """Yield the first ``most`` bytes of each file, in order, got many at once.

    The next are on their way while those before are used. One that cannot be had is empty: who
    opens the file is told why.
    """
    batches = list(_batches(sources, most))
    coming: Future[list[bytes | OSError]] | None = None
    for i, batch in enumerate(batches):
        found = coming.result() if coming else _heads(batch, most)
        coming = _threads().submit(_heads, batches[i + 1], most) if i + 1 < len(batches) else None
        for data in found:
            yield data if isinstance(data, bytes) else b""


def _heads(batch: Sequence[Source], most: int) -> list[bytes | OSError]:
    return _ranges([(source, 0, min(source.size, most)) for source in batch])


def _batches(sources: Iterable[Source], most: int) -> Iterator[list[Source]]:
    batch: list[Source] = []
    size = 0
    for source in sources:
        full = size >= _AT_ONCE or len(batch) >= _MOST_AT_ONCE
        if batch and (full or source.store != batch[0].store):
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += min(source.size, most)
    if batch:
        yield batch
