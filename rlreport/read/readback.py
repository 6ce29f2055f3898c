"""Chosen responses read back from the logs, as rows or as ``Rollout``s for display."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pandas as pd

from rlreport.errors import RowError, UnreadRow, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.files import LogFormat, Source
from rlreport.read.lines import DAMAGED, reason_of
from rlreport.read.remote import read_ranges
from rlreport.read.rows import Row, load_object, number_of, parse_line, parse_record
from rlreport.read.tokens import TokenRows, token_rows
from rlreport.rollout import Rollout, TokenFigures, Turn
from rlreport.text.chat import turns, turns_in_text
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.tokens import Style, readable_tokens

PROMPT_CHARS = 400

_COLUMNS = ("file", "line", "offset", "length", "sub", "step", "n")
_MAX_OPEN = 16
_AT_ONCE_BYTES, _AT_ONCE_ROWS = 32 << 20, 512
_BATCH_UNITS = 1 << 17
"""Tokens, or as many characters, of the rows that are held at a time."""


def _no_rows() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class RowLocations:
    """Where responses lie in the logs: picklable, 56 bytes per response.

    Attributes:
        sources, formats: by file.
        file, line, offset, length, sub, step, n: int64 (R,), columns of the response table.
        style: how the run's token strings are written; None if unknown.
    """

    sources: list[Source]
    formats: list[LogFormat]
    file: Ints = field(default_factory=_no_rows)
    line: Ints = field(default_factory=_no_rows)
    offset: Ints = field(default_factory=_no_rows)
    length: Ints = field(default_factory=_no_rows)
    sub: Ints = field(default_factory=_no_rows)
    step: Ints = field(default_factory=_no_rows)
    n: Ints = field(default_factory=_no_rows)
    style: Style | None = None
    _streams: dict[int, IO[bytes]] = field(default_factory=dict, repr=False, compare=False)

    def without_rows(self) -> RowLocations:
        """Return what is the same for all rows; ``select`` adds rows."""
        return RowLocations(self.sources, self.formats, style=self.style)

    def select(self, responses: pd.DataFrame) -> None:
        """Restrict to these rows of the response table, renumbered from 0."""
        for name in _COLUMNS:
            setattr(self, name, responses[name].to_numpy())

    def source(self, row: int) -> Source:
        """Return the file of a row."""
        return self.sources[int(self.file[row])]

    def lines(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield rows of line-based files with their bytes; rows ascend by file and offset.

        Raises:
            UnusableInputError: a file cannot be read any more.
        """
        waiting: list[int] = []
        size = 0
        for row in rows:
            source = self.source(row)
            if not source.store or source.compression:
                yield row, self._read(row, source)
                continue
            full = size >= _AT_ONCE_BYTES or len(waiting) >= _AT_ONCE_ROWS
            if waiting and (full or self.source(waiting[0]).store != source.store):
                yield from self._request(waiting)
                waiting, size = [], 0
            waiting.append(row)
            size += int(self.length[row])
        yield from self._request(waiting)

    def _request(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        ranges = [
            (self.source(i), int(self.offset[i]), int(self.offset[i] + self.length[i]))
            for i in rows
        ]
        if not ranges:
            return iter(())
        try:
            return zip(rows, read_ranges(ranges), strict=True)
        except OSError as error:
            raise _changed(ranges[0][0], error) from None

    def _read(self, row: int, source: Source) -> bytes:
        """Read a line; streams stay open, so that compressed files are unpacked once."""
        file, offset, length = int(self.file[row]), int(self.offset[row]), int(self.length[row])
        stream = self._streams.get(file)
        try:
            if stream is None or (source.compression and stream.tell() > offset):
                if stream is not None:
                    self._streams.pop(file).close()
                while len(self._streams) >= _MAX_OPEN:
                    self._streams.pop(next(iter(self._streams))).close()
                stream = self._streams[file] = source.open()
            stream.seek(offset)
            return stream.read(length)
        except DAMAGED as error:
            raise _changed(source, error) from None

    def close(self) -> None:
        """Close open files."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def __reduce__(self) -> tuple[type[RowLocations], tuple[object, ...]]:
        columns = (getattr(self, name) for name in _COLUMNS)
        return RowLocations, (self.sources, self.formats, *columns, self.style)


def reading_order(locations: RowLocations, rows: Sequence[int] | Ints) -> Ints:
    """Return distinct rows ordered by file, offset and position in the line."""
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    keys = (locations.sub[wanted], locations.offset[wanted], locations.file[wanted])
    ordered: Ints = wanted[np.lexsort(keys)]
    return ordered


def read_rows(locations: RowLocations, rows: Sequence[int]) -> Iterator[tuple[int, Row]]:
    """Yield rows as the first pass parsed them, in ``reading_order``.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    for row, record in _records(locations, rows):
        try:
            parsed = parse_line(record) if isinstance(record, bytes) else parse_record(record)
        except RowError as error:
            raise _changed(locations.source(row), error) from None
        yield row, parsed


def batches(
    rows: Iterator[tuple[int, Row]], units: int = _BATCH_UNITS
) -> Iterator[list[tuple[int, Row]]]:
    """Group rows so that each group holds about ``units`` tokens or characters."""
    batch: list[tuple[int, Row]] = []
    size = 0
    for item in rows:
        batch.append(item)
        size += max(item[1].tokens.size, len(item[1].response) // 4, 16)
        if size >= units:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def fetch(
    locations: RowLocations, rows: Sequence[int], options: ReadOptions, figures: FigureOptions
) -> Iterator[Rollout]:
    """Read responses back, in the order given; all are in memory before the first is yielded.

    Args:
        locations: where they lie.
        rows: indices into the response table.
        options: as in the first pass.
        figures: as in the first pass.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    found: dict[int, Rollout] = {}
    for batch in batches(read_rows(locations, reading_order(locations, rows).tolist())):
        found.update(_rollouts(locations, dict(batch), options, figures))
    yield from (found[row] for row in rows)


def fetch_texts(
    locations: RowLocations, rows: Sequence[int], options: ReadOptions | None = None
) -> list[str]:
    """Return the first PROMPT_CHARS characters of the cleaned prompts of these responses.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    options = options or ReadOptions()
    prompts: dict[int, str] = {}
    for row, record in _records(locations, reading_order(locations, rows).tolist()):
        try:
            obj = load_object(record)[0] if isinstance(record, bytes) else record
            prompts[row] = _prompt(obj["prompt"], options)[:PROMPT_CHARS]
        except (RowError, KeyError) as error:
            raise _changed(locations.source(row), error) from None
    return [prompts[row] for row in rows]


def _prompt(prompt: str, options: ReadOptions) -> str:
    return clean_prompt(prompt, options.pad_tokens, options.system_end_token)


def _changed(source: Source, error: Exception) -> UnusableInputError:
    return UnusableInputError(
        f"{source.name} changed while it was read ({reason_of(error)}); build again"
    )


def _records(
    locations: RowLocations, rows: Sequence[int]
) -> Iterator[tuple[int, bytes | dict[str, Any]]]:
    """Yield rows with their line if it is of the native format, else their canonical record."""
    lines = [r for r in rows if locations.formats[locations.file[r]].container == "lines"]
    by_file: dict[int, dict[int, list[int]]] = {}
    for row in rows if len(lines) < len(rows) else ():
        file, index = int(locations.file[row]), int(locations.offset[row])
        if locations.formats[file].container != "lines":
            by_file.setdefault(file, {}).setdefault(index, []).append(row)
    for file, by_index in by_file.items():
        try:
            yield from _container_records(locations, file, by_index)
        except (RowError, IndexError, *DAMAGED) as error:
            raise _changed(locations.sources[file], error) from None
    for row, line in locations.lines(lines):
        log_format, source = locations.formats[locations.file[row]], locations.source(row)
        if log_format.reader is None:
            yield row, line
            continue
        try:
            obj, _ = load_object(line)
            made = log_format.rows(obj, source.name, int(locations.line[row]), 0)
            record = _readable(made[int(locations.sub[row])])
        except (RowError, IndexError) as error:
            raise _changed(source, error) from None
        yield row, record


def _container_records(
    locations: RowLocations, file: int, by_index: dict[int, list[int]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    from rlreport.formats.containers import iterate

    log_format, source = locations.formats[file], locations.sources[file]
    with source.open() as stream:
        for index, obj in iterate(stream, log_format.container, set(by_index)):
            made = log_format.rows(obj, source.name, index + 1, index)
            for row in by_index.pop(index):
                yield row, _readable(made[int(locations.sub[row])])
    if by_index:
        raise RowError("it is shorter than before")


def _readable(made: dict[str, Any]) -> dict[str, Any]:
    if isinstance(made, UnreadRow):
        raise made.error
    return made


def _rollouts(
    locations: RowLocations,
    rows: Mapping[int, Row],
    options: ReadOptions,
    figures: FigureOptions,
) -> Iterator[tuple[int, Rollout]]:
    tokens = token_rows([row.tokens for row in rows.values()], frozenset(options.pad_tokens))
    per_row = {} if tokens is None else dict(_tokens_by_row(tokens, figures))
    for i, (number, row) in enumerate(rows.items()):
        raw, values, sampled = per_row.get(i, ([], TokenFigures(), None))
        spans = len(raw) == row.tokens.size  # spans of turns count the tokens as logged
        prompt = _prompt(row.prompt, options)
        errors: Any = row.carried.get("errors") or []
        errors = errors if isinstance(errors, list) else [errors]
        yield (
            number,
            Rollout(
                step=int(locations.step[number]),
                n=int(locations.n[number]),
                file=locations.sources[int(locations.file[number])].name,
                line=int(locations.line[number]),
                prompt=prompt,
                response=clean_text(row.response, options.pad_tokens),
                ref_response=_clean_or_none(row.reference, options),
                ground_truth=_clean_or_none(row.carried.get("ground_truth"), options),
                turns=_logged_turns(row.carried.get("prompt_turns"), options) or turns(prompt),
                raw_tokens=raw,
                tokens=readable_tokens(raw, locations.style),
                figures=values,
                sampled=sampled,
                conversation=_conversation(
                    row.carried.get("turns") or turns_in_text(row.response), options, spans=spans
                ),
                errors=[clean_text(_as_text(one), options.pad_tokens) for one in errors],
            ),
        )


def _tokens_by_row(tokens: TokenRows, figures: FigureOptions) -> Iterator[tuple[int, Any]]:
    """Yield each row with its token strings, its figures and what was sampled."""
    flat = tokens.sampled_only().figures(figures)
    if tokens.sampled is not None:
        flat = flat.spread(tokens.sampled)
    rows = zip(tokens.rows.tolist(), tokens.strings_of(), strict=True)
    for place, (row, raw) in enumerate(rows):
        start, stop = tokens.offsets[place : place + 2].tolist()
        masked = tokens.masked is not None and tokens.masked[place]
        own = tokens.sampled[start:stop] if masked and tokens.sampled is not None else None
        yield row, (raw, flat.between(start, stop), own)


def _logged_turns(logged: object, options: ReadOptions) -> list[tuple[str, str]]:
    """Return turns that a format logged as [role, text] pairs; none if they are not such."""
    pairs = logged if isinstance(logged, list) else []
    return [
        (clean_text(str(turn[0]), ()), clean_text(str(turn[1]), options.pad_tokens))
        for turn in pairs
        if isinstance(turn, (list, tuple)) and len(turn) == 2
    ]


def _conversation(logged: object, options: ReadOptions, *, spans: bool) -> list[Turn]:
    """Return turns that were normalized on reading; their optional parts may be of any type."""
    if not isinstance(logged, list):
        return []

    def text(value: object) -> str | None:
        return clean_text(value, options.pad_tokens) if isinstance(value, str) else None

    def number(value: object) -> float | None:
        logged = number_of(value)[0] if type(value) in (int, float) else math.nan
        return logged if math.isfinite(logged) else None

    return [
        Turn(
            clean_text(turn["role"], ()),
            clean_text(turn["text"], options.pad_tokens),
            turn["sampled"],
            tuple(turn["tokens"]) if spans and "tokens" in turn else None,
            text(turn.get("thinking")),
            tuple(map(_call, calls if isinstance(calls := turn.get("calls"), list) else ())),
            text(turn.get("tool")),
            clean_text(_as_text(error), options.pad_tokens)
            if (error := turn.get("error"))
            else None,
            number(turn.get("seconds")),
            number(turn.get("reward")),
        )
        for turn in logged
    ]


def _call(call: object) -> tuple[str, str]:
    """Return a tool's name and its arguments as text."""
    call = call if isinstance(call, dict) else {"arguments": call}
    name, arguments = (clean_text(_as_text(call.get(k, "")), ()) for k in ("name", "arguments"))
    return name, arguments


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "…"


def _clean_or_none(value: object, options: ReadOptions) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    return clean_text(str(value), options.pad_tokens)
