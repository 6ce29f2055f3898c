"""Tables of byte ranges kept for the next build (``--cache``).

The key holds everything that a table depends on: the program, the options, the format, name and
range, and a hash of the bytes. So appending to a file invalidates its last range only.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import xxhash

from rlreport.options import RESTARTS, FigureOptions, ReadOptions
from rlreport.read.batch import Chunk, Extra, RangeCounts
from rlreport.read.chunk import read_chunk
from rlreport.read.files import NATIVE, LogFormat
from rlreport.read.lines import ByteRange
from rlreport.read.notes import LogPosition, Oddity, Remarks, UnreadLine
from rlreport.store import Store, pack, program, unpack
from rlreport.text.messages import from_plain, to_plain

_CACHED_CONTAINERS = ("lines", "json", "parquet", "torch", "eval")
"""Containers that are one file each; a database may have a log of writes next to it."""


def read_cached(
    group: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions, store: Store
) -> Chunk:
    """Return the table of byte ranges: that of an earlier build if nothing has changed since."""
    key = _key(group, options, figures)
    files = [part.file for part in group]
    if key and (data := store.get(key)):
        # What is not such a table is read again.
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            return _in_files(_decoded(data), files)
    # What is stored numbers the files of the ranges, as another build may list more.
    numbered = [replace(part, file=number) for number, part in enumerate(group)]
    chunk = read_chunk(numbered, options, figures)
    if key and key == _key(group, options, figures):  # nothing changed meanwhile
        with suppress(TypeError):  # text that is not Unicode
            store.put(key, _encoded(chunk))
    return _in_files(chunk, files)


def _key(group: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions) -> bytes:
    """Return the key of a table; b"" if these ranges are not cached or cannot be read."""
    formats = format_keys([part.format for part in group], options.tokenizer)
    if not formats:
        return b""
    contents = [part.source.digest(part.start, part.stop) for part in group]
    if not all(contents):
        return b""
    settings = replace(
        options, workers=0, strict=False, restarts=RESTARTS[0], metrics=(), cache="",
        cache_size=0, ray=None,
    )  # fmt: skip
    ranges = [
        (part.source.name, part.start, part.stop is None, content)
        for part, content in zip(group, contents, strict=True)
    ]
    parts = "chunk", program(), settings, options.pad_tokens, figures, ranges, formats
    return repr(parts).encode(errors="surrogatepass")


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


def _encoded(chunk: Chunk) -> bytes:
    remarks = chunk.remarks
    head = {
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


def _decoded(data: bytes) -> Chunk:
    head, arrays = unpack(data)
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
