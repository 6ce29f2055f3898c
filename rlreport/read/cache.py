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

from rlreport.options import RESTARTS, FigureOptions, ReadOptions
from rlreport.read.batch import Chunk, Extra, RangeCounts
from rlreport.read.chunk import read_chunk
from rlreport.read.files import NATIVE, LogFormat
from rlreport.read.lines import ByteRange
from rlreport.read.notes import LogPosition, Oddity, Remarks, UnreadLine
from rlreport.store import Store, pack, program, store_at, unpack
from rlreport.text.messages import from_plain, to_plain

_CACHED_CONTAINERS = ("lines", "json", "parquet", "torch", "eval")
"""Containers that are one file each; a database may have a log of writes next to it."""


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
            return _in_files(_decode(head, arrays), [part.file for part in group])
        except (ValueError, TypeError, LookupError, AttributeError):
            return None  # not such a table: the logs are read again

    def read(self, group: Sequence[ByteRange]) -> Chunk:
        """Read the ranges, and keep the result if the files did not change meanwhile."""
        key = self._key(group)
        if not key:
            return read_chunk(group, self.options, self.figures)
        fingerprints, digests = _fingerprints(group), _digests(group)
        # What is kept numbers the files of the ranges, as another build may list more.
        numbered = [replace(part, file=i) for i, part in enumerate(group)]
        chunk = read_chunk(numbered, self.options, self.figures)
        settled = bool(fingerprints) and fingerprints == _fingerprints(group)
        if settled or (digests and digests == _digests(group)):
            head = {"fingerprints": fingerprints if settled else "", "digests": digests}
            with suppress(TypeError):  # text that is not Unicode
                self.store.put(key, _encode(chunk, head))
        return _in_files(chunk, [part.file for part in group])

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


def _in_files(chunk: Chunk, files: Sequence[int]) -> Chunk:
    """Return the table with these numbers for its files, which are numbered from 0."""

    def at(position: LogPosition) -> LogPosition:
        return position._replace(file=files[position.file])

    if chunk.rows:
        chunk.columns["file"] = np.array(files, np.int64)[chunk.columns["file"]]
    chunk.counts = [one._replace(file=files[one.file]) for one in chunk.counts]
    remarks = chunk.remarks
    remarks.unread = [one._replace(position=at(one.position)) for one in remarks.unread]
    for kind, (times, first) in remarks.oddities.items():
        remarks.oddities[kind] = Oddity(times, at(first))
    return chunk


def _encode(chunk: Chunk, head: dict[str, Any]) -> bytes:
    """Encode a table: a JSON header with its length before it, then the arrays."""
    remarks = chunk.remarks
    head |= {
        "rows": chunk.rows,
        "columns": list(chunk.columns),
        "extras": [[name, list(extra.texts.items())] for name, extra in chunk.extras.items()],
        "extras_dropped": chunk.extras_dropped,
        "reward_parts": sorted(chunk.reward_parts),
        "tools": chunk.tools,
        "counts": list(map(list, chunk.counts)),
        "oddities": {kind: [times, list(at)] for kind, (times, at) in remarks.oddities.items()},
        "unread": [[list(at), to_plain(reason), torn] for at, reason, torn in remarks.unread],
        "unread_count": remarks.unread_count,
        "unread_fields": remarks.unread_fields,
    }
    arrays = list(chunk.columns.values())
    for extra in chunk.extras.values():
        arrays += [np.array(extra.rows, np.int64), np.array(extra.numbers, np.float64)]
    return pack(head, arrays)


def _decode(head: dict[str, Any], arrays: list[NDArray[Any]]) -> Chunk:
    """Return the table of an entry.

    Raises:
        ValueError, TypeError, LookupError: it is damaged.
    """
    columns = dict(zip(head["columns"], arrays, strict=False))
    if len(arrays) != len(columns) + 2 * len(head["extras"]):
        raise ValueError("arrays are missing")
    if any(len(values) != head["rows"] for values in columns.values()):
        raise ValueError("columns of other length")
    pairs = iter(arrays[len(columns) :])
    extras = {
        name: Extra(
            array("q", next(pairs).tobytes()), array("d", next(pairs).tobytes()), dict(texts)
        )
        for name, texts in head["extras"]
    }
    remarks = Remarks(
        {kind: Oddity(times, LogPosition(*at)) for kind, (times, at) in head["oddities"].items()},
        [UnreadLine(LogPosition(*at), from_plain(why), torn) for at, why, torn in head["unread"]],
        head["unread_count"],
        {name: (times, kind) for name, (times, kind) in head["unread_fields"].items()},
    )
    return Chunk(
        head["rows"],
        columns,
        extras,
        head["extras_dropped"],
        set(head["reward_parts"]),
        list(map(tuple, head["tools"])),
        [RangeCounts(*one) for one in head["counts"]],
        remarks,
    )
