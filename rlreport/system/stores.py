"""Open local log files, and remote ones (such as s3://…), whose ranges fsspec reads.

The libraries behind fsspec (such as s3fs) find the credentials. URLs are removed from
error messages, as they may contain signatures.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import sys
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from glob import has_magic
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

import xxhash

from rlreport.errors import MissingExtraError, UsageError
from rlreport.text.messages import message
from rlreport.text.numbers import byte_size

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

BLOCK = 8 << 20  # Bytes per request when a file is read from start to end
_REQUEST = 32 << 20  # bytes per request of a range
_TAIL = 64 << 10  # bytes per request when only the end of a line is missing
_PIECE = 1 << 20  # bytes read at once from a local file to hash it
_ADDRESS = re.compile(r"[\w+.-]+://\S+")
_MAX_MESSAGE = 200  # characters
# Keys under which stores list the version or checksum of a file; the first one that is there counts
_VERSIONS = ("VersionId", "version_id", "generation", "ETag", "etag", "md5Hash")


@dataclass(frozen=True, slots=True)
class Source:
    """A log file, local or in an object store."""

    name: str  # path relative to the common folder of the logs, with ``/``
    path: str  # local path or URL
    size: int  # bytes on disk when the logs were listed; bytes appended later are not read
    compression: str = ""  # ``""``, ``gz`` or ``zst``
    # the URL with which the file's object store is opened, "" for a local file
    store: str = field(default="", repr=False)
    # ETag or similar id of a remote file's content, "" if the store has none
    version: str = ""
    # inode and time of change in ns of a local file when the logs were listed
    stamp: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    # all bytes of the file if they have been read already, else b""
    content: bytes = field(default=b"", repr=False, compare=False)

    def open(self) -> IO[bytes]:
        """Open the file for reading, decompressed."""
        raw = self._open_packed()
        if self.compression == "gz":
            return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        if self.compression == "zst":
            # An empty file is no error: its writer has only begun.
            return cast("IO[bytes]", zstd.ZstdFile(raw)) if self.size else BytesIO()
        return raw

    def _open_packed(self) -> IO[bytes]:
        """Open the file for reading, as it is stored."""
        if self.content:
            return BytesIO(self.content)
        if self.store:
            return open_remote(self.path, self.store)
        return Path(self.path).open("rb")

    def is_replaced(self, status: os.stat_result) -> bool:
        """Return whether ``status`` is that of another file than the listed one.

        The inode and the time of change must both differ: on some network disks a file gets a new
        inode at any time, but not a new time of change; a log that grows gets a new time only.
        """
        if self.stamp is None:
            return False
        inode, changed = self.stamp
        return status.st_ino != inode and status.st_mtime_ns != changed

    def change(self, stop: int | None = None) -> str:
        """Return how a local file changed since it was listed, for a warning.

        Return "" if the bytes before ``stop`` (None: all that were listed) are still there: if the
        file is as it was, or has only grown.
        """
        if self.stamp is None:
            return ""
        try:
            status = Path(self.path).stat()
        except FileNotFoundError:
            return message("was deleted while it was read")
        except OSError:  # it cannot be told
            return ""
        if self.is_replaced(status):
            return message("was replaced while it was read")
        least_size = self.size if stop is None else stop
        if status.st_size < least_size:
            return message(
                "was cut while it was read: {kept} of {listed}",
                kept=byte_size(status.st_size),
                listed=byte_size(self.size),
            )
        return ""

    def digest(self, start: int = 0, stop: int | None = None) -> str:
        """Return a hash that changes with the lines that begin in a range of bytes; "" if unknown.

        ``stop`` None is the end of the file. Of a remote file, return what changes with any of its
        bytes: its version and size.
        """
        if self.store:
            return f"{self.version}-{self.size}" if self.version else ""
        hasher = xxhash.xxh3_128()
        end = self.size if stop is None else stop
        try:
            with Path(self.path).open("rb") as file:
                # The byte before tells whether a line begins at ``start``.
                file.seek(max(0, start - 1))
                last_piece = b"\n"  # so that an empty range reads no further line
                while piece := file.read(min(end - file.tell(), _PIECE)):
                    hasher.update(piece)
                    last_piece = piece
                # The last line may go on beyond the range, but not beyond the listed size.
                while last_piece and not last_piece.endswith(b"\n"):
                    last_piece = file.readline(min(self.size - file.tell(), _PIECE))
                    hasher.update(last_piece)
        except OSError:
            return ""
        return hasher.hexdigest()


@lru_cache(maxsize=16)
def filesystem(store: str) -> Any:
    """Return the fsspec file system of a URL's object store."""
    try:
        import fsspec

        return fsspec.core.url_to_fs(store)[0]
    except ImportError as error:
        detail = "" if error.name == "fsspec" else f" ({error})"
        raise MissingExtraError(
            f"{shown(store)} needs fsspec and the store's library: pip install "
            f"'rlreport[remote]', and s3fs, gcsfs or adlfs{detail}"
        ) from None
    except Exception as error:
        raise UsageError(f"{shown(store)}: {store_message(error)}") from None


def shown(url: str) -> str:
    """Return a path, or a URL without user, password, query and fragment, for display."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # Outside of http, a question mark without a later "=" is part of a glob, not of a signature.
    query_start = r"[?#]" if scheme.startswith("http") else r"\?(?=.*=)"
    without_query = re.split(query_start, rest, maxsplit=1)[0]
    host, slash, path = without_query.partition("/")
    _, _, host_only = host.rpartition("@")  # without user and password
    return f"{scheme}://{host_only}{slash}{path}"


def store_message(error: BaseException) -> str:
    """Return the message of a store's error as one short line without URLs."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    # Some libraries give only the path as the text.
    if isinstance(error, FileNotFoundError) and " " not in text:
        text = "not found"
    elif isinstance(error, PermissionError) and " " not in text:
        text = "permission denied"
    return " ".join(_ADDRESS.sub("…", text).split())[:_MAX_MESSAGE]


def list_remote(url: str) -> tuple[str, bool, list[tuple[str, int, str]]]:
    """List the files at a URL: a file, a folder or a glob.

    Return the URL that file names are relative to, whether ``url`` is a single file, and (URL,
    size, version) of each file. Raise UsageError if there is no file, or a size is unknown.
    """
    system = filesystem(url)
    path = system._strip_protocol(url)
    try:
        system.invalidate_cache()  # the log may have grown since the last listing
        infos: dict[str, dict[str, Any]]
        # The name of a file may contain characters such as "[", too.
        if has_magic(path) and not system.exists(path):
            # The folder before the first name with a wildcard
            root = re.split(r"[^/]*[*?\[]", path)[0]
            is_file = False
            infos = system.glob(path, detail=True)
        elif system.isdir(path):
            root = path
            is_file = False
            infos = system.find(path, detail=True)
        else:
            root = system._parent(path)
            is_file = True
            infos = {path: system.info(path)} if system.exists(path) else {}
    except Exception as error:
        raise UsageError(f"Cannot list {shown(url)}: {store_message(error)}") from None
    files = [
        (system.unstrip_protocol(name), _size(url, info), _version(info))
        for name, info in sorted(infos.items())
        if info.get("type") != "directory"
    ]
    if not files:
        raise UsageError(f"No such file or folder: {shown(url)}")
    return system.unstrip_protocol(root), is_file, files


def _size(url: str, info: dict[str, Any]) -> int:
    """Return the size of a listed file in bytes; raise UsageError if the store has none."""
    size = info.get("size")
    if size is None:
        raise UsageError(
            f"{shown(url)}: the server does not report the file's size; download it"
        )
    return int(size)


def _version(info: dict[str, Any]) -> str:
    """Return what changes with the content of a listed file, "" if the store has no such value."""
    for key in _VERSIONS:
        value = info.get(key)
        if isinstance(value, str | int) and value not in ("", "null"):
            return f"{key}:{value}"
    return ""


def open_remote(path: str, store: str) -> IO[bytes]:
    """Open a file of an object store for reading, as it is stored.

    Errors of the store become OSError, with a message that has no URL.
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
    """Yield a remote file's bytes from ``start`` on: large pieces to ``stop``, then small ones.

    The caller stops when it has the end of the line that goes on beyond ``stop``.
    """
    while start < source.size:
        if start < stop:
            end = min(stop, start + _REQUEST)
        else:
            end = start + _TAIL
        (data,) = read_ranges([(source, start, min(end, source.size))])
        if isinstance(data, OSError):
            raise data
        if not data:
            return
        yield data
        start += len(data)


def read_ranges(wanted: Sequence[tuple[Source, int, int]]) -> list[bytes | OSError]:
    """Return the bytes of each (file, start, stop), or its error; request all of a store at once.

    A range that is wanted several times is requested once.
    """
    ranges_of: dict[str, set[tuple[str, int, int]]] = {}  # by store
    for source, start, stop in wanted:
        ranges_of.setdefault(source.store, set()).add((source.path, start, stop))
    contents: dict[tuple[str, str, int, int], bytes | OSError] = {}
    for store in sorted(ranges_of):
        ranges = sorted(ranges_of[store])
        parts = _request_ranges(store, ranges)
        for (path, start, stop), part in zip(ranges, parts, strict=True):
            contents[store, path, start, stop] = part
    return [
        contents[source.store, source.path, start, stop]
        for source, start, stop in wanted
    ]


_PathRange = tuple[str, int, int]  # path in a store, first byte, end


def _request_ranges(store: str, ranges: Sequence[_PathRange]) -> list[bytes | OSError]:
    """Return the bytes of each range, or its error; ``ranges`` are sorted.

    Ranges that lie close together are requested as one block, as each request takes its time.
    """
    blocks = _blocks_with(ranges)
    contents = _request_blocks(store, blocks)
    block_starts = [(path, start) for path, start, _ in blocks]
    parts: list[bytes | OSError] = []
    for path, start, stop in ranges:
        # The block that contains the range: the last one that does not start after it
        i = bisect(block_starts, (path, start)) - 1
        content = contents[i]
        if isinstance(content, OSError):
            parts.append(content)
            continue
        _, block_start, block_stop = blocks[i]
        # A server that does not support ranges sends the whole file.
        is_whole_file = len(content) > block_stop - block_start
        content_start = 0 if is_whole_file else block_start
        parts.append(content[start - content_start : stop - content_start])
    return parts


def _blocks_with(ranges: Sequence[_PathRange]) -> list[_PathRange]:
    """Return blocks of which one contains each range; both are sorted."""
    from fsspec.utils import merge_offset_ranges

    paths = [path for path, _, _ in ranges]
    starts = [start for _, start, _ in ranges]
    stops = [stop for _, _, stop in ranges]
    # Merging over gaps up to the mean length of ranges at most doubles the bytes.
    gap = (sum(stops) - sum(starts)) // len(ranges)
    blocks = merge_offset_ranges(paths, starts, stops, max_gap=gap, max_block=BLOCK)
    return list(zip(*blocks, strict=True))


def _request_blocks(store: str, blocks: Sequence[_PathRange]) -> list[bytes | OSError]:
    """Return the bytes of each block, or its error, from one request to a store."""
    system = filesystem(store)
    names = [system._strip_protocol(path) for path, _, _ in blocks]
    starts = [start for _, start, _ in blocks]
    stops = [stop for _, _, stop in blocks]
    try:
        answers = system.cat_ranges(names, starts, stops, on_error="return")
    except Exception as error:
        return [_store_error(error)] * len(blocks)
    return [
        answer if isinstance(answer, bytes) else _store_error(answer)
        for answer in answers
    ]


def _store_error(error: Any) -> OSError:
    return OSError(getattr(error, "errno", None) or errno.EIO, store_message(error))
