"""The cache folder of ``--cache``: a key-value store of intermediate results.

Errors of entries never stop a build. An entry that cannot be read, is damaged or belongs to
another user counts as missing. An entry that cannot be written is not stored.
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import pickle
import secrets
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from rlreport import __version__
from rlreport.errors import UsageError
from rlreport.system.own_output import CACHE_ENTRY
from rlreport.system.stores import zstd

_SUM_BYTES = 16  # checksum at the start of an entry
# Larger entries are neither written nor read: a damaged file system may report any size.
_MOST_BYTES = 2 << 30
# ``trim`` shrinks a full cache to this fraction of its limit, so that it is needed rarely
_TRIM_FRACTION = 0.9

# Using an entry updates its modification time if it is older than this
_TOUCH_SECONDS = 3600

# Flags for opening an entry: do not follow links, do not wait for the writer of a pipe.
_PLAIN_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LIBRARIES = ("numpy", "pandas", "orjson", "altair", "vl-convert-python", "jinja2")


@dataclass(frozen=True, slots=True)
class Store:
    """A cache folder with one file per entry; can be pickled, for worker processes."""

    folder: Path  # absolute path of the folder
    size: int = 20_000_000_000  # most bytes of all entries, enforced only by ``trim``

    def get(self, key: bytes) -> bytes | None:
        """Return the data of an entry; None if it is missing, damaged or another user's."""
        path = self._path(key)
        try:
            data, modified = _read_own_file(path)
        except OSError:
            return None
        checksum = data[:_SUM_BYTES]
        packed = data[_SUM_BYTES:]
        # The checksum includes the key: the data of another entry is none of this one.
        if checksum != xxhash.xxh3_128_digest(key + packed):
            return None
        if time.time() - modified > _TOUCH_SECONDS:
            with suppress(OSError):  # a cache that is read-only can still be read
                os.utime(path)  # ``trim`` removes the least recently used entries
        with suppress(zstd.ZstdError):
            return zstd.decompress(packed)
        return None

    def put(self, key: bytes, data: bytes) -> None:
        """Write or replace an entry atomically; errors are ignored."""
        path = self._path(key)
        packed = zstd.compress(data, level=1)  # fast rather than small
        if _SUM_BYTES + len(packed) > _MOST_BYTES:
            return
        # The name is known before the file exists, so that an interrupt leaves no file behind.
        temporary = path.parent / f"new-{secrets.token_hex(8)}"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                file.write(xxhash.xxh3_128_digest(key + packed) + packed)
            temporary.replace(path)
        except OSError:  # a full disk or a read-only folder
            pass
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def trim(self) -> None:
        """If all entries together exceed ``size``, remove the least recently used ones."""
        entries = []
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            # The user may have chosen a folder with other files, which are not removed.
            if CACHE_ENTRY.fullmatch(path.relative_to(self.folder).as_posix()):
                with suppress(OSError):  # another process may have removed it
                    entries.append((path, path.lstat()))
        # Using an entry sets its modification time; see ``get``.
        entries.sort(key=lambda entry: (entry[1].st_mtime, entry[0]))
        total = sum(status.st_size for _, status in entries)
        if total <= self.size:
            return
        for path, status in entries:
            if total <= _TRIM_FRACTION * self.size:
                return
            with suppress(OSError):
                path.unlink()
            total -= status.st_size

    def _path(self, key: bytes) -> Path:
        name = hashlib.blake2b(key, digest_size=16).hexdigest()
        return self.folder / name[:2] / name[2:]


def _read_own_file(path: Path) -> tuple[bytes, float]:
    """Return the content of an entry, and when it was modified, in seconds since the epoch.

    Raises OSError if it is not a regular file of this user, or larger than any entry.
    """
    descriptor = os.open(path, os.O_RDONLY | _PLAIN_FILE)
    try:
        status = os.fstat(descriptor)
        # On Windows, which has no ``geteuid``, the owner of each file is 0.
        user = getattr(os, "geteuid", int)()
        # Another user could inject content into reports.
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == user
        if not is_own or status.st_size > _MOST_BYTES:
            raise OSError(errno.EINVAL, "is no entry of this user's cache")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(), status.st_mtime
    finally:
        os.close(descriptor)  # ``fdopen`` would leave that of a folder open


def pack(head: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Serialize a dict and arrays as bytes."""
    return b"".join(packed_pieces(head, arrays))


def packed_pieces(
    head: dict[str, Any], arrays: Sequence[NDArray[Any]]
) -> list[bytes | memoryview]:
    """Return the pieces of ``pack``: length of a JSON header, header, data of each array."""
    shapes = [[array.dtype.str, array.shape] for array in arrays]
    header = orjson.dumps(
        {"head": head, "arrays": shapes}, option=orjson.OPT_NON_STR_KEYS
    )
    data = [np.ascontiguousarray(array).data for array in arrays]
    return [len(header).to_bytes(8, "little"), header, *data]


def unpack(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the dict and the arrays (read-only) that ``pack`` serialized."""
    array_start = 8 + int.from_bytes(data[:8], "little")  # where the header ends
    header = orjson.loads(memoryview(data)[8:array_start])
    arrays = []
    for dtype, shape in header["arrays"]:
        count = math.prod(shape)
        flat = np.frombuffer(data, dtype, count, offset=array_start)
        arrays.append(flat.reshape(shape))
        array_start += flat.nbytes
    return header["head"], arrays


def fingerprint(value: object) -> bytes:
    """Return a hash of a value, which is pickled: equal for equal values without sets."""
    pickled = io.BytesIO()
    pickler = pickle.Pickler(pickled, 5)
    # Else a value that occurs twice would be written once, but only if it is one object.
    pickler.fast = True
    pickler.dump(value)
    return xxhash.xxh3_128_digest(pickled.getbuffer())


def store_at(location: str | Path) -> Store:
    """Return the cache in a folder ("auto": the user's cache folder), created if missing."""
    if location == "auto":
        user_caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(user_caches, "rlreport")
    else:
        folder = Path(location)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--cache {folder}: cannot be used as a cache folder: {reason.lower()}"
        ) from None
    return Store(folder.resolve())


@cache
def program() -> str:
    """Return the versions of rlreport, Python and libraries, a part of each key of the cache."""
    return " ".join([__version__, sys.version, *map(version, _LIBRARIES)])
