"""The first pass over the logs: read byte ranges into tables with one row per response.

Rows are converted to columns many at a time. Tables are cached for the next build (``--cache``).
The key covers everything that a table depends on: program, options, format, file name, byte range,
and a hash of the bytes. Appending to a file therefore invalidates only its last range.
"""

from __future__ import annotations

import math
import pickle
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.errors import RowError, UnreadRow
from rlreport.fields import CANONICAL, REWARDS, AssumedStep
from rlreport.figures.metadata import Ending
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference
from rlreport.figures.tokens import TokenFigures, response_figures, thinking_tokens
from rlreport.formats.containers import iterate
from rlreport.formats.simple import RLBoard
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.changed import Change
from rlreport.read.files import (
    DAMAGED,
    MAX_LINE,
    RANGE_BYTES,
    ByteRange,
    Lines,
    LogFormat,
    reason_of,
    with_content,
)
from rlreport.read.notes import MAX_UNREAD, NO_STEP, LogPosition, Oddity, Remarks, UnreadLine
from rlreport.read.rollouts import RolloutPart, rollout_part
from rlreport.read.rows import ParsedRow, TokenRows, load_object, parse_record, token_rows
from rlreport.system.cache import Store, pack, program, unpack
from rlreport.text.clean import EOS_TOKENS, clean_prompt, clean_text, safe_text
from rlreport.text.messages import message
from rlreport.text.tokens import structure_of

# Codes in column ``finish_source``: ``finished`` is from ``ending``, last token or text; 0: none
FROM_REASON = 1
FROM_TOKEN = 2
FROM_TEXT = 3

# Codes in ``left_out``: rollouts that are counted by step only, and branches that were not trained
FAILED = 1
FILTERED = 2
BRANCH = 3
_CODES = {"failed": FAILED, "filtered_out": FILTERED, "branch": BRANCH}

MAX_EXTRAS = 64
# Extra fields kept while reading; more than MAX_EXTRAS, as some rows may be left out later
MAX_CHUNK_EXTRAS = 256

MAX_TEXT = 1 << 22  # Words are counted only in this many characters at the start of a text
# Standard log field -> its bit in the integer column ``carried``, set if a row has the field
FIELD_BITS = {name: 1 << bit for bit, name in enumerate(sorted(CANONICAL))}

_OPENING, _CLOSING = "<think>", "</think>"
_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)

Columns = dict[str, NDArray[np.generic]]
Item = TypeVar("Item")


class RangeCounts(NamedTuple):
    """Numbers of lines (or objects), and of unusable ones, in the range of a file at ``start``."""

    file: int
    start: int
    lines: int
    unread: int


@dataclass(slots=True)
class Extra:
    """Values of an extra log field: ``numbers[i]`` in row ``rows[i]``, ``texts`` (row -> text)."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Chunk:
    """The rows read from some byte ranges of the logs, as columns, with counters and remarks."""

    rows: int = 0  # number of rows R, including failed rollouts
    # name -> array (R,): columns of the response table, plus ``group_hash``, ``finish_source``,
    # ``carried`` (bits of FIELD_BITS) and ``left_out``. Figures of turns or tokens that no row
    # has are absent.
    columns: Columns = field(default_factory=dict)
    extras: dict[str, Extra] = field(default_factory=dict)  # the first MAX_CHUNK_EXTRAS by name
    extras_dropped: bool = False  # whether any extra field was left out because of this limit
    reward_parts: set[str] = field(default_factory=set)  # names of extras
    # (row, tool name, *ToolCounts) for each tool used in each row
    tools: list[tuple[int, str, *tuple[int, ...]]] = field(default_factory=list)
    counts: list[RangeCounts] = field(default_factory=list)  # numbers of lines, one entry per range
    remarks: Remarks = field(default_factory=Remarks)
    changes: list[Change] = field(default_factory=list)  # ranges of logs that changed meanwhile
    parts: list[RolloutPart] | None = None  # texts and tokens of all rows, if they are kept


class Place(NamedTuple):
    file: int
    offset: int
    line: int
    length: int
    sub: int  # index of the row if one logged JSON object has several
    validation: bool
    left_out: int  # 0 for a response, else FAILED or FILTERED (only its number counts) or BRANCH
    line_hash: int  # 0 in files that do not consist of lines


def batch_columns(
    rows: Sequence[ParsedRow],
    places: Sequence[Place],
    options: ReadOptions,
    gae: GaeOptions,
    chunk: Chunk,
) -> Columns:
    """Return ``rows`` as columns, (R,) each; add extras, tools, texts and remarks to ``chunk``."""
    positions = [LogPosition(*place[:3]) for place in places]
    _collect_remarks(rows, positions, chunk)
    texts = [clean_text(row.response, options.pad_tokens) for row in rows]
    columns = _row_columns(rows, places, texts, options)
    token_figures = TokenFigures()
    # Logged numbers may be as large as float64 allows; overflow yields infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        tokens = token_rows(
            [row.tokens for row in rows], frozenset(options.pad_tokens), chunk.remarks, positions
        )
        sampled = None if tokens is None else tokens.sampled_only()
        if tokens is not None and sampled is not None:
            token_figures = sampled.figures(gae).derive()
            _add_token_columns(columns, tokens, sampled, token_figures)
    if chunk.parts is not None:
        chunk.parts.append(rollout_part(rows, tokens, token_figures, texts, options))
    _set_finished(columns, rows, texts, sampled)
    chunk.rows += len(rows)
    return columns


def _collect_remarks(
    rows: Sequence[ParsedRow], positions: Sequence[LogPosition], chunk: Chunk
) -> None:
    remarks = chunk.remarks
    extras = chunk.extras
    for number, (row, position) in enumerate(zip(rows, positions, strict=True), chunk.rows):
        kinds = list(row.oddities)
        if row.tokens.uneven:
            kinds.append("unequal_lengths")
        if len(row.response) > MAX_TEXT:
            kinds.append("long_text")
        for kind in kinds:
            remarks.add(kind, position)
        for name, value in row.extras:
            extra = extras.get(name)
            if extra is None:
                extra = extras[name] = Extra()
                if len(extras) > MAX_CHUNK_EXTRAS:
                    del extras[max(extras)]
                    chunk.extras_dropped = True
            if isinstance(value, str):
                extra.texts[number] = value
            else:
                extra.rows.append(number)
                extra.numbers.append(value)
        for tool, counts in row.metadata.tools.items():
            chunk.tools.append((number, safe_text(tool), *counts))
        chunk.reward_parts.update(row.parts)


def _row_columns(
    rows: Sequence[ParsedRow], places: Sequence[Place], texts: Sequence[str], options: ReadOptions
) -> Columns:
    pads = options.pad_tokens
    prompts = [_prompt_hash(row.prompt, pads, options.system_end_token) for row in rows]
    references = [None if r.reference is None else clean_text(r.reference, pads) for r in rows]
    groups = [0 if row.group is None else text_hash(row.group) or 1 for row in rows]
    columns: Columns = {
        name: np.array(values, np.uint64 if name == "line_hash" else np.int64)
        for name, values in zip(Place._fields, zip(*places, strict=True), strict=True)
    }
    columns |= {
        "step": np.array([row.step for row in rows], np.int64),
        "prompt_hash": np.array(prompts, np.uint64),
        "group_hash": np.array(groups, np.uint64),
        "response_hash": np.array(list(map(text_hash, texts)), np.uint64),
        "response_chars": np.array(list(map(len, texts)), np.int64),
        "structure": np.array(list(map(structure_of, texts)), np.int64),
        "ref_response_chars": np.array(
            [np.nan if text is None else len(text) for text in references], np.float64
        ),
        "carried": np.array(list(map(_field_bits, rows)), np.int64),
        "rollout": np.array(list(map(_rollout, rows)), np.float64),
        "missing_grade": np.array([row.missing_grade for row in rows], np.int64),
    }
    rewards = np.array([row.rewards for row in rows]).T
    columns |= zip(REWARDS, rewards, strict=True)
    nan = np.isnan(columns["reward"]) & (columns["missing_grade"] == 0)
    columns["nan_values"] = nan.astype(np.int64)
    for i, row in enumerate(rows):
        for name, value in row.metadata.figures.items():
            if name not in columns:
                columns[name] = np.full(len(rows), np.nan)
            columns[name][i] = value
    return columns


def _add_token_columns(
    columns: Columns, tokens: TokenRows, sampled: TokenRows, figures: TokenFigures
) -> None:
    token_figures = response_figures(
        figures,
        sampled.offsets,
        logged_advantage=sampled.arrays.get("advantages"),
        old_logp=sampled.arrays.get("old_logprobs"),
    )
    opens = sampled.marks(_OPENING)
    closes = sampled.marks(_CLOSING)
    token_figures |= thinking_tokens(opens, closes, sampled.offsets)
    if tokens.sampled is not None and tokens.masked is not None:
        env_tokens = tokens.lengths - sampled.lengths
        token_figures["env_tokens"] = np.where(tokens.masked, env_tokens, np.nan)
        if "kl_max_position" in token_figures:
            # The report counts positions among all tokens of the response.
            token_figures["kl_max_position"] = _positions_in_all(
                token_figures["kl_max_position"], tokens, sampled.offsets
            )
    for name, values in token_figures.items():
        columns[name] = np.full(len(columns["step"]), np.nan)
        columns[name][tokens.rows] = values
    if "rlhf_reward" in token_figures:
        rlhf, reward = (columns[name].astype(np.float64) for name in ("rlhf_reward", "reward"))
        columns["non_score_reward"] = difference(rlhf, reward)
    columns["nan_values"].view(np.int64)[tokens.rows] += sampled.nan_values


@lru_cache(maxsize=512)
def _prompt_hash(prompt: str, pad_tokens: tuple[str, ...], system_end_token: str | None) -> int:
    return text_hash(clean_prompt(prompt, pad_tokens, system_end_token))


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate columns by name (NaN or 0 where a part has none); remove them from ``parts``."""
    lengths = [len(part["step"]) for part in parts]
    joined: Columns = {}
    for name in sorted({name for part in parts for name in part}):
        kind = next(part[name].dtype for part in parts if name in part)
        missing = np.nan if kind.kind == "f" else 0
        joined[name] = np.concatenate(
            [
                part.pop(name) if name in part else np.full(length, missing, dtype=kind)
                for part, length in zip(parts, lengths, strict=True)
            ]
        )
    return joined


def text_hash(text: str) -> int:
    """Return the 64-bit hash that identifies a text in tables and exports."""
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))


def _rollout(row: ParsedRow) -> float:
    rollout = row.carried.get("rollout_id")
    return float(text_hash(str(rollout)) >> 11) if isinstance(rollout, str | int) else np.nan


def _field_bits(row: ParsedRow) -> int:
    names = ["prompt", "response", *row.carried, *row.tokens.arrays]
    names += [
        name for name, reward in zip(REWARDS, row.rewards, strict=True) if math.isfinite(reward)
    ]
    if not isinstance(row.step, AssumedStep):
        names.append("step")
    if row.tokens.tokens is not None:
        names.append("response_tokens")
    if row.reference is not None:
        names.append("ref_response")
    if row.group is not None:
        names.append("group_id")
    return sum(map(FIELD_BITS.__getitem__, names))


def _set_finished(
    columns: Columns, rows: Sequence[ParsedRow], texts: Sequence[str], tokens: TokenRows | None
) -> None:
    ending = np.array([row.ending or 0 for row in rows], np.int8)
    finished: Floats = (ending == Ending.FINISHED).astype(np.float64)
    source = np.where(np.isin(ending, (0, Ending.OTHER)), 0, FROM_REASON).astype(np.int8)
    finished[source == 0] = np.nan
    has_tokens = np.zeros(len(rows), dtype=bool)
    if tokens is not None:
        for row, strings in zip(tokens.rows.tolist(), tokens.strings, strict=True):
            has_tokens[row] = strings is not None
            if strings and not source[row]:
                finished[row] = strings[-1] in EOS_TOKENS
                source[row] = FROM_TOKEN
    for i in np.flatnonzero((source == 0) & ~has_tokens).tolist():
        stripped = texts[i].rstrip()
        finished[i] = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        source[i] = FROM_TEXT
    columns |= {"ending": ending, "finished": finished, "finish_source": source}


def _positions_in_all(among_sampled: Floats, tokens: TokenRows, sampled_offsets: Ints) -> Floats:
    assert tokens.sampled is not None
    finite = np.isfinite(among_sampled)
    where = np.flatnonzero(tokens.sampled)
    positions = np.full(len(among_sampled), np.nan)
    first = sampled_offsets[:-1][finite] + among_sampled[finite].astype(np.int64)
    positions[finite] = where[first] - tokens.offsets[:-1][finite]
    return positions


_BATCH_BYTES = 1 << 22
_BATCH_ROWS = 16384
_END = 2**62
# Exceptions raised by unusable lines; JSON may nest too deep or hold too large integers
_UNUSABLE = (RowError, RecursionError, OverflowError)


def read_chunk(
    ranges: Sequence[ByteRange], options: ReadOptions, gae: GaeOptions, *, keep: int = 0
) -> Chunk:
    """Read byte ranges into a chunk, with texts and tokens if these fit in ``keep`` bytes."""
    chunk = Chunk(parts=[] if keep else None)
    columns = list[Columns]()
    for batch in in_batches(_rows(ranges, chunk), lambda item: item[1].length, _BATCH_BYTES):
        rows, places = zip(*batch, strict=True)
        columns.append(batch_columns(rows, places, options, gae, chunk))
        if chunk.parts and sum(part.size for part in chunk.parts) > keep:
            chunk.parts = None
    chunk.columns = joined_columns(columns)
    return chunk


def in_batches(
    items: Iterable[Item], size: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Yield lists of consecutive items; a list is full at size ``most`` or at _BATCH_ROWS items."""
    batch = list[Item]()
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= most or len(batch) >= _BATCH_ROWS:
            yield batch
            batch = []
            total = 0
    if batch:
        yield batch


def _rows(ranges: Sequence[ByteRange], chunk: Chunk) -> Iterator[tuple[ParsedRow, Place]]:
    sources = [part.source for part in ranges]
    if len(ranges) > 1:  # small files
        sources = with_content(sources, RANGE_BYTES)
    for part, source in zip(ranges, sources, strict=True):
        reader = _RangeReader(replace(part, source=source), chunk)
        has_lines = part.format.container == "lines"
        yield from reader.rows_of_lines() if has_lines else reader.rows_of_container()
        chunk.counts.append(RangeCounts(part.file, part.start, reader.lines, reader.unread))


class _RangeReader:
    def __init__(self, part: ByteRange, chunk: Chunk) -> None:
        # lines, or objects of a file without lines; and how many lines or rows are unusable
        self.lines = self.unread = 0
        self._part = part
        self._chunk = chunk

    def rows_of_lines(self) -> Iterator[tuple[ParsedRow, Place]]:
        lines = Lines(self._part, MAX_LINE)
        for offset, line, torn in lines:
            self.lines += 1
            if line is not None and (not line or line.isspace()):
                continue
            try:
                if line is None or len(line) > MAX_LINE:
                    raise RowError(message("longer than {most:count} bytes", most=MAX_LINE))
                obj, lenient = load_object(line)
                digest = xxhash.xxh3_64_intdigest(line)
                for row, place in self._rows_of_object(obj, offset, len(line), digest, torn=torn):
                    if lenient and self._part.format.id == RLBoard.id:
                        self._chunk.remarks.add("tolerant", self._position(offset))
                    yield row, place
            except _UNUSABLE as error:
                self._add_unread(offset, reason_of(error), torn=torn)
        if lines.damage is not None:
            self.lines += 1
            why = message("cannot be read further: {why}", why=lines.damage)
            self._add_unread(_END, why, torn=True)

    def rows_of_container(self) -> Iterator[tuple[ParsedRow, Place]]:
        part = self._part
        try:  # noqa: PLR1702
            with part.source.open() as stream:
                for index, obj in iterate(stream, part.format.container):
                    self.lines += 1
                    try:
                        if isinstance(obj, UnreadRow):
                            raise obj.error
                        yield from self._rows_of_object(obj, index, 0)
                    except _UNUSABLE as error:
                        self._add_unread(index, reason_of(error))
        except (*DAMAGED, ValueError) as error:
            self._add_unread(_END, message("cannot be read: {why}", why=reason_of(error)))

    def _rows_of_object(
        self, obj: dict[str, Any], offset: int, length: int, digest: int = 0, *, torn: bool = False
    ) -> Iterator[tuple[ParsedRow, Place]]:
        part = self._part
        name = self._part.source.name
        remarks = self._chunk.remarks
        position = self._position(offset)
        records = part.format.rows(obj, name, self.lines, offset)
        for sub, record in enumerate(records):
            try:
                if isinstance(record, UnreadRow):
                    raise record.error
                row = parse_record(record)
            except _UNUSABLE as error:
                self._add_unread(offset, reason_of(error), torn=torn)
                continue
            split = row.metadata.split or part.format.split
            kind = row.metadata.left_out
            validation = split != part.format.main
            if validation and split != part.format.watched:
                kind = "other_split_rows"
            elif kind == "untrained" and "rollout_id" in row.carried:
                kind = "branch"
            left_out = _CODES.get(kind, 0)
            if kind and left_out != BRANCH:  # branches are counted once their rollout is known
                remarks.add(kind, position)
                if not left_out:
                    continue
            if isinstance(row.step, AssumedStep) and part.format.step_in_path(obj, name) is None:
                remarks.add(NO_STEP, position)
            yield row, Place(*position, length, sub, validation, left_out, digest)

    def _position(self, offset: int) -> LogPosition:
        return LogPosition(self._part.file, offset, self.lines)

    def _add_unread(self, offset: int, reason: str, *, torn: bool = False) -> None:
        remarks = self._chunk.remarks
        self.unread += 1
        remarks.unread_count += 1
        if len(remarks.unread) < MAX_UNREAD:
            remarks.unread.append(UnreadLine(self._position(offset), reason, torn))


def read_cached(
    group: Sequence[ByteRange], options: ReadOptions, gae: GaeOptions, store: Store
) -> Chunk:
    """Return the chunk of byte ranges from the cache; else read it, and cache it if possible."""
    key = _key(group, options, gae)
    files = [part.file for part in group]
    if key and (data := store.get(key)):
        return _renumber_files(_decode(data), files)
    # Number only the files of these ranges: another build may list other files.
    numbered = [replace(part, file=number) for number, part in enumerate(group)]
    chunk = read_chunk(numbered, options, gae)
    # Lines that cannot be read are few: ranges with one are read again in each build.
    if key and not chunk.remarks.unread and key == _key(group, options, gae):
        with suppress(TypeError):  # a value that JSON cannot represent
            store.put(key, _encode(chunk))
    return _renumber_files(chunk, files)


def _key(group: Sequence[ByteRange], options: ReadOptions, gae: GaeOptions) -> bytes:
    formats = format_keys([part.format for part in group], options.tokenizer)
    if not formats:
        return b""
    contents = [part.source.digest(part.start, part.stop) for part in group]
    if not all(contents):
        return b""
    settings = replace(
        options, workers=0, strict=False, restarts="all", metrics=(), cache="", ray=None
    )  # fmt: skip
    ranges = [
        (part.source.name, part.start, part.stop is None, content)
        for part, content in zip(group, contents, strict=True)
    ]
    parts = "chunk", program(), settings, options.pad_tokens, gae, ranges, formats
    return repr(parts).encode(errors="surrogatepass")


def format_keys(formats: Sequence[LogFormat], tokenizer: str | None) -> list[str]:
    """Return hashes of the formats and of the tokenizer; [] if their rows must not be cached."""
    keys: list[str] = []
    for log_format in formats:
        # A database may have further files.
        if not log_format.reader.format.cacheable or log_format.container == "sqlite":
            return []
        keys.append(xxhash.xxh3_128_hexdigest(pickle.dumps(log_format, 5)))
    return [*keys, _digest_of(tokenizer) if tokenizer else ""]


@cache
def _digest_of(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as given
        return xxhash.xxh3_128_hexdigest(file.read())


def _renumber_files(chunk: Chunk, files: Sequence[int]) -> Chunk:
    def at(position: LogPosition) -> LogPosition:
        return position._replace(file=files[position.file])

    if chunk.rows:
        chunk.columns["file"] = np.array(files, np.int64)[chunk.columns["file"]]
    chunk.counts = [item._replace(file=files[item.file]) for item in chunk.counts]
    remarks = chunk.remarks
    remarks.unread = [item._replace(position=at(item.position)) for item in remarks.unread]
    for kind, (times, first) in remarks.oddities.items():
        remarks.oddities[kind] = Oddity(times, at(first))
    return chunk


def _encode(chunk: Chunk) -> bytes:
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
    }
    arrays = list(chunk.columns.values())
    for extra in chunk.extras.values():
        arrays += [np.array(extra.rows, np.int64), np.array(extra.numbers, np.float64)]
    return pack(head, arrays)


def _decode(data: bytes) -> Chunk:
    head, arrays = unpack(data)
    columns = dict(zip(head["columns"], arrays, strict=False))
    pairs = iter(arrays[len(columns) :])
    extras = {
        name: Extra(
            array("q", next(pairs).tobytes()), array("d", next(pairs).tobytes()), dict(texts)
        )
        for name, texts in head["extras"]
    }
    oddities = head["oddities"].items()
    return Chunk(
        head["rows"],
        columns,
        extras,
        head["extras_dropped"],
        set(head["reward_parts"]),
        list(map(tuple, head["tools"])),
        [RangeCounts(*one) for one in head["counts"]],
        Remarks({kind: Oddity(times, LogPosition(*at)) for kind, (times, at) in oddities}),
    )
