"""Tables of byte ranges kept for the next build (``--cache``).

The key holds everything that a table depends on except the bytes of the logs: the program, the
options, the format, path and range. An entry is used if the file's fingerprint is unchanged, else
if the bytes of the range are: so appending to a file invalidates its last range only.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.options import RESTARTS, FigureOptions, ReadOptions
from rlreport.read.batch import Chunk, Extra, RangeCounts, ToolCount
from rlreport.read.chunk import read_chunk
from rlreport.read.files import NATIVE, LogFormat
from rlreport.read.lines import ByteRange
from rlreport.read.notes import LogPosition, Oddity, Remarks, UnreadLine
from rlreport.store import Store, pack, program, store_at, unpack
from rlreport.text.messages import from_plain, to_plain

_CACHED_CONTAINERS = ("lines", "json", "parquet", "torch", "eval")
"""Containers that are one file each; a database may have a log of writes next to it."""

_SCALARS = ("prompt_hash", "group_hash", "finished", "finish_source", "carried", "failed")
_DTYPES = {column.name: column.dtype for column in RESPONSE_COLUMNS}
_DERIVED = ("n", "prompt_id", "group")
_ALWAYS = {*_SCALARS, *(c for c, kind in _DTYPES.items() if "int" in kind)}.difference(_DERIVED)
"""Columns that every table with rows has."""


@dataclass(frozen=True, slots=True)
class ChunkCache:
    """Tables of byte ranges, kept from one build to the next."""

    store: Store
    options: ReadOptions
    figures: FigureOptions

    def load(self, group: Sequence[ByteRange]) -> Chunk | None:
        """Return what reading these ranges would give; None if that is unknown."""
        key = self._key(group)
        data = self.store.get(key) if key else None
        if data is None:
            return None
        try:
            head, arrays = unpack(data)
            same = head["fingerprints"] and head["fingerprints"] == _fingerprints(group)
            if not same and not (head["digests"] and head["digests"] == _digests(group)):
                return None
            return _decode(head, arrays, [part.file for part in group])
        except (ValueError, TypeError, LookupError, AttributeError):
            return None  # not such a table: the logs are read again

    def read(self, group: Sequence[ByteRange]) -> Chunk:
        """Read the ranges, and keep the result if the files did not change meanwhile."""
        key = self._key(group)
        if not key:
            return read_chunk(group, self.options, self.figures)
        fingerprints, digests = _fingerprints(group), _digests(group)
        chunk = read_chunk(group, self.options, self.figures)
        settled = bool(fingerprints) and fingerprints == _fingerprints(group)
        if settled or (digests and digests == _digests(group)):
            head = {"fingerprints": fingerprints if settled else "", "digests": digests}
            with suppress(TypeError):  # text that is not Unicode
                self.store.put(key, _encode(chunk, head, [part.file for part in group]))
        return chunk

    def _key(self, group: Sequence[ByteRange]) -> bytes:
        """Return the address of an entry; b"" if these ranges are not cached."""
        settings = replace(
            self.options, workers=0, strict=False, restarts=RESTARTS[0], metrics=(), cache="",
            cache_size=0, ray=None,
        )  # fmt: skip
        places = [
            (part.source.path, part.source.name, part.start, part.stop is None) for part in group
        ]
        formats = format_keys([part.format for part in group], settings.tokenizer)
        if not formats:
            return b""
        parts = (
            "chunk",
            program(),
            settings,
            self.options.pad_tokens,
            self.figures,
            places,
            formats,
        )
        return repr(parts).encode(errors="surrogatepass")


def chunk_cache(options: ReadOptions, figures: FigureOptions) -> ChunkCache | None:
    """Return the cache that the options name, None if they name none.

    Raises:
        UsageError: it is not a folder.
    """
    if not options.cache:
        return None
    return ChunkCache(store_at(options.cache, options.cache_size), options, figures)


def format_keys(formats: Sequence[LogFormat], tokenizer: str | None) -> list[str]:
    """Identify formats; [] if one of them reads other files than the log itself.

    Args:
        formats: of files.
        tokenizer: the file with the names of their tokens.
    """
    keys: dict[int, str] = {}
    for one in formats:
        alone = one.reader.alone if one.reader else one.id == NATIVE
        if not alone or one.container not in _CACHED_CONTAINERS:
            return []
        if id(one) not in keys:
            keys[id(one)] = xxhash.xxh3_128_hexdigest(pickle.dumps(one, 5))
    return [*(keys[id(one)] for one in formats), _digest_of(tokenizer) if tokenizer else ""]


def _fingerprints(group: Sequence[ByteRange]) -> str:
    """Return the fingerprints of all files, "" if one cannot be trusted."""
    found = [part.source.fingerprint() for part in group]
    return "" if None in found else " ".join(map(str, found))


def _digests(group: Sequence[ByteRange]) -> str:
    """Return a hash of all bytes that are read, "" if they cannot be read."""
    found = [part.source.digest(part.start, part.stop) for part in group]
    return "" if None in found else " ".join(one.hex() for one in found if one is not None)


@cache
def _digest_of(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as given
        return xxhash.xxh3_128_hexdigest(file.read())


def _encode(chunk: Chunk, head: dict[str, Any], files: Sequence[int]) -> bytes:
    """Encode a table: a JSON header with its length before it, then the arrays."""
    numbers = {file: i for i, file in enumerate(files)}
    columns = dict(chunk.columns)
    if chunk.rows:
        known, places = np.unique(columns["file"], return_inverse=True)
        columns["file"] = np.array([numbers[n] for n in known.tolist()], np.int64)[places]
    remarks = chunk.remarks

    def place(position: LogPosition) -> list[int]:
        return [numbers[position.file], position.offset, position.line]

    head |= {
        "rows": chunk.rows,
        "columns": list(columns),
        "extras": [[name, list(extra.texts.items())] for name, extra in chunk.extras.items()],
        "extras_dropped": chunk.extras_dropped,
        "reward_parts": sorted(chunk.reward_parts),
        "tools": [list(one) for one in chunk.tools],
        "counts": [[numbers[one.file], *one[1:]] for one in chunk.counts],
        "oddities": {k: [one.times, place(one.first)] for k, one in remarks.oddities.items()},
        "unread": [[place(u.position), to_plain(u.reason), u.torn] for u in remarks.unread],
        "unread_count": remarks.unread_count,
        "unread_fields": remarks.unread_fields,
    }
    arrays = list(columns.values())
    for extra in chunk.extras.values():
        arrays += [np.array(extra.rows, np.int64), np.array(extra.numbers, np.float64)]
    return pack(head, arrays)


def _decode(head: dict[str, Any], arrays: list[NDArray[Any]], files: Sequence[int]) -> Chunk:
    """Return the table of an entry.

    Raises:
        ValueError, TypeError, LookupError: it is damaged.
    """
    rows = int(head["rows"])
    chunk = Chunk(rows=rows, extras_dropped=bool(head["extras_dropped"]))
    names = head["columns"]
    if len(arrays) != len(names) + 2 * len(head["extras"]):
        raise ValueError("arrays are missing")
    chunk.columns = dict(zip(names, arrays, strict=False))
    if set(names) - _DTYPES.keys() - set(_SCALARS) or any(
        len(values) != rows for values in chunk.columns.values()
    ):
        raise ValueError("other columns")
    if rows:
        if missing := _ALWAYS - chunk.columns.keys():
            raise ValueError(missing)
        chunk.columns["file"] = np.array(files, dtype=np.int64)[chunk.columns["file"]]
    pairs = iter(arrays[len(names) :])
    for name, texts in head["extras"]:
        own, numbers = next(pairs), next(pairs)
        held = np.array([row for row, _ in texts], dtype=np.int64)
        if any(len(one) and not (one.min() >= 0 and one.max() < rows) for one in (own, held)):
            raise ValueError(name)
        chunk.extras[str(name)] = Extra(
            array("q", own.tobytes()), array("d", numbers.tobytes()), dict(map(tuple, texts))
        )

    def place(position: Sequence[int]) -> LogPosition:
        return LogPosition(files[position[0]], position[1], position[2])

    chunk.reward_parts = set(head["reward_parts"])
    chunk.tools = [ToolCount(*one) for one in head["tools"] if 0 <= one[0] < rows]
    chunk.counts = [RangeCounts(files[one[0]], *one[1:]) for one in head["counts"]]
    chunk.remarks = Remarks(
        {kind: Oddity(times, place(first)) for kind, (times, first) in head["oddities"].items()},
        [UnreadLine(place(at), from_plain(reason), torn) for at, reason, torn in head["unread"]],
        int(head["unread_count"]),
        {name: (times, kind) for name, (times, kind) in head["unread_fields"].items()},
    )
    return chunk
