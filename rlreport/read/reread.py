"""Read the chosen rows of the logs a second time, with their texts and tokens.

Logs up to ``KEPT_BYTES`` need no second pass without ``--cache``: ``read.chunk`` keeps all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.errors import RowError, UnreadRow, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.figures.tokens import TokenFigures
from rlreport.formats.containers import iterate
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.choice import Choice
from rlreport.read.chunk import format_keys, in_batches, text_hash
from rlreport.read.detect import LogFiles
from rlreport.read.files import DAMAGED, reason_of
from rlreport.read.rollouts import RolloutPart, RolloutSpool, rollout_part
from rlreport.read.rows import ParsedRow, load_object, parse_record, token_rows
from rlreport.system.cache import Store, pack, program, store_at, unpack
from rlreport.system.stores import Source, read_ranges
from rlreport.system.workers import Progress, Workers
from rlreport.text.clean import clean_text
from rlreport.text.messages import message

_BYTES_PER_SECOND = 50e6  # that one process reads, to decide whether to use several
_PART_BYTES = 16 << 20
_PART_ROWS = 512
_MIN_PART_BYTES = 1 << 20
_BATCH_TOKENS = 1 << 17  # tokens of the rows that are held as Python objects at a time


_Shared = tuple[LogFiles, ReadOptions, GaeOptions, Store | None]


class _Rows(NamedTuple):
    """Locations of R rows in the logs, (R,) each, ascending by file, offset and sub."""

    file: Ints
    offset: Ints
    length: Ints
    sub: Ints
    line: Ints
    line_hash: NDArray[np.uint64]
    response_hash: NDArray[np.uint64]
    whole: NDArray[np.bool_]  # see ``Choice``

    def take(self, at: slice | Ints) -> _Rows:
        return _Rows._make(values[at] for values in self)


def read_chosen(  # noqa: PLR0917
    responses: pd.DataFrame,
    choice: Choice,
    files: LogFiles,
    options: ReadOptions,
    gae: GaeOptions,
    workers: Workers,
    progress: Progress,
) -> tuple[RolloutSpool, Ints]:
    """Read the chosen rows; return a spool of them, and the index of each row in it, (R,)."""
    table = responses.iloc[choice.rows]
    columns = [table[name].to_numpy() for name in _Rows._fields[:-1]]
    rows = _Rows._make([*columns, choice.whole])
    order = np.lexsort((rows.sub, rows.offset, rows.file))
    jobs = list(_jobs(rows.take(order), files))
    shared = files, options, gae, store_at(options.cache) if options.cache else None
    seconds = float(rows.length.sum()) / _BYTES_PER_SECOND
    spool = RolloutSpool()
    with progress.phase(message("reading texts"), len(order), message("responses")) as advance:
        for job, parts in zip(
            jobs, workers.map(_read_parts, jobs, shared, seconds=seconds), strict=True
        ):
            spool.extend(parts)
            advance(len(job.file))
    return spool, np.argsort(order)


def _jobs(rows: _Rows, files: LogFiles) -> Iterator[_Rows]:
    start = size = 0
    for i, (file, length) in enumerate(zip(rows.file.tolist(), rows.length.tolist(), strict=True)):
        whole = files.sources[file].compression or files.formats[file].container != "lines"
        full = size + length > _PART_BYTES or i - start >= _PART_ROWS
        # Cut at file boundaries, so that jobs of a file do not change when other files grow.
        other = i > 0 and file != rows.file[i - 1] and (whole or size > _MIN_PART_BYTES)
        if i > start and (other or (full and not whole)):
            yield rows.take(slice(start, i))
            start = i
            size = 0
        size += length
    yield rows.take(slice(start, None))


def _read_parts(rows: _Rows, shared: _Shared) -> list[RolloutPart]:
    (files, options, gae, store), key = shared, b""
    if store is not None and (key := _key(rows, shared)) and (data := store.get(key)):
        return [RolloutPart.unpacked(part.tobytes()) for part in unpack(data)[1]]
    parts = []
    stop = 0
    try:
        for batch in in_batches(_parsed_rows(rows, files), _weight, _BATCH_TOKENS):
            start, stop = stop, stop + len(batch)
            tokens = token_rows([row.tokens for row in batch], frozenset(options.pad_tokens))
            values = TokenFigures()
            if tokens is not None:
                values = tokens.sampled_only().figures(gae)
            texts = [clean_text(row.response, options.pad_tokens) for row in batch]
            if list(map(text_hash, texts)) != rows.response_hash[start:stop].tolist():
                raise RowError("a response is different")
            whole = rows.whole[start:stop]
            parts.append(rollout_part(batch, tokens, values, texts, options, whole))
    except (RowError, IndexError, ValueError, *DAMAGED) as error:
        names = ", ".join(files.sources[file].name for file in np.unique(rows.file))
        raise UnusableInputError(
            f"{names:.200} changed while being read ({reason_of(error)}); build again"
        ) from None
    if store is not None and key:
        with suppress(TypeError):
            store.put(key, pack({}, [np.frombuffer(part.packed(), np.uint8) for part in parts]))
    return parts


def _weight(row: ParsedRow) -> int:
    return max(row.tokens.size, len(row.response) // 4, 16)


def _key(rows: _Rows, shared: _Shared) -> bytes:
    files, options, gae, _ = shared
    numbers = np.unique(rows.file).tolist()
    formats = format_keys([files.formats[file] for file in numbers], options.tokenizer)
    if not formats or not rows.line_hash.all():
        return b""
    texts = options.pad_tokens, options.system_end_token, options.tokenizer, options.mapping
    names = [files.sources[file].name for file in numbers]
    settings = "rollouts", program(), texts, options.step_from_path, gae, names, formats
    arrays = rows.line_hash, rows.sub, rows.whole, np.searchsorted(numbers, rows.file)
    return repr(settings).encode(errors="surrogatepass") + b"".join(a.tobytes() for a in arrays)


def _parsed_rows(rows: _Rows, files: LogFiles) -> Iterator[ParsedRow]:
    records: list[dict[str, Any]] = []
    last = None
    for i, logged in _objects(rows, files):
        file = int(rows.file[i])
        offset = int(rows.offset[i])
        line = int(rows.line[i])
        if isinstance(logged, OSError):
            raise logged
        if isinstance(logged, bytes) and xxhash.xxh3_64_intdigest(logged) != rows.line_hash[i]:
            raise RowError("a line is different")
        if (file, offset) != last:  # the first row of this object
            obj = load_object(logged)[0] if isinstance(logged, bytes) else logged
            records = files.formats[file].rows(obj, files.sources[file].name, line, offset)
            last = file, offset
        record = records[int(rows.sub[i])]
        if isinstance(record, UnreadRow):
            raise record.error
        yield parse_record(record)


def _objects(
    rows: _Rows, files: LogFiles
) -> Iterator[tuple[int, bytes | OSError | dict[str, Any]]]:
    requested = _request_lines(rows, files)
    for file, group in groupby(range(len(rows.file)), key=rows.file.tolist().__getitem__):
        source = files.sources[file]
        container = files.formats[file].container
        if container != "lines":
            yield from _objects_of_container(rows, list(group), source, container)
        elif source.store and not source.compression:
            yield from ((i, requested.pop(i)) for i in group)
        else:
            with source.open() as stream:
                for i in group:
                    stream.seek(int(rows.offset[i]))
                    yield i, stream.read(int(rows.length[i]))


def _request_lines(rows: _Rows, files: LogFiles) -> dict[int, bytes | OSError]:
    # Request the lines of all remote files at once, as each request takes long.
    ranges = {}
    for i, (file, start, size) in enumerate(zip(*map(np.ndarray.tolist, rows[:3]), strict=True)):
        source = files.sources[file]
        if source.store and not source.compression and files.formats[file].container == "lines":
            ranges[i] = source, start, start + size
    return dict(zip(ranges, read_ranges(list(ranges.values())), strict=True))


def _objects_of_container(
    rows: _Rows, group: Sequence[int], source: Source, container: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    by_index: dict[int, list[int]] = {}
    for i in group:
        by_index.setdefault(int(rows.offset[i]), []).append(i)
    with source.open() as stream:
        for index, obj in iterate(stream, container, set(by_index)):
            yield from ((i, obj) for i in by_index.pop(index))
            if not by_index:
                return  # the rest of the file may be damaged
    raise RowError("it is shorter than before")
