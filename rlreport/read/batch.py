"""Rows to columns: every figure of a response, computed for many rows at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.fields import CANONICAL, TOKEN_ARRAYS, count_not_taken
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.response import mismatch_by_turn, response_figures, thinking_tokens
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.notes import LogPosition, Remarks
from rlreport.read.rows import Row
from rlreport.read.tokens import TokenRows, token_rows
from rlreport.text.clean import EOS_TOKENS, clean_prompt, clean_text, safe_text
from rlreport.text.units import structure_of

FROM_REASON, FROM_TOKEN, FROM_TEXT = 1, 2, 3
"""What tells whether a response finished; 0 if nothing does."""

MAX_EXTRAS = 64
MAX_CHUNK_EXTRAS = 256
"""More than the report shows, as rows may be left out once all are known."""

MAX_TEXT = 1 << 22
"""Characters of a text whose words are counted."""

FIELD_BITS = {name: 1 << bit for bit, name in enumerate(sorted(CANONICAL))}
"""Bit of each canonical field in the column ``carried``."""

_BATCH_BYTES, _BATCH_ROWS = 1 << 20, 16384
_OPENING, _CLOSING = "<think>", "</think>"
_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)
_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")

Columns = dict[str, NDArray[np.generic]]


class RangeCounts(NamedTuple):
    """Lines counted in a byte range."""

    file: int
    start: int
    lines: int
    unread: int


@dataclass(slots=True)
class Extra:
    """A further scalar: rows that hold a number with the number, and row -> text."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Chunk:
    """The table of some byte ranges, with counters.

    Attributes:
        rows: number of rows R, failed rollouts included.
        columns: name -> array (R,): columns of the response table, and ``group_hash``,
            ``finish_source``, ``carried`` (bits of FIELD_BITS) and ``failed``. A column
            without any value is absent.
        extras: further scalars, at most MAX_CHUNK_EXTRAS: the first names in alphabetical order.
        extras_dropped: whether names beyond these were left out.
        reward_parts: names of extras that are parts of the reward.
        tools: row, name, answers and errors among them, for each tool of each row.
        counts: lines of each range.
        remarks: lines that could not be used, and oddities.
    """

    rows: int = 0
    columns: Columns = field(default_factory=dict)
    extras: dict[str, Extra] = field(default_factory=dict)
    extras_dropped: bool = False
    reward_parts: set[str] = field(default_factory=set)
    tools: list[tuple[int, str, int, int]] = field(default_factory=list)
    counts: list[RangeCounts] = field(default_factory=list)
    remarks: Remarks = field(default_factory=Remarks)


class Place(NamedTuple):
    """Where a row lies and what kind it is, as columns; without a line, its hash is 0."""

    file: int
    offset: int
    line: int
    length: int
    sub: int
    validation: bool
    failed: bool
    line_hash: int

    @property
    def position(self) -> LogPosition:
        """The same for remarks."""
        return LogPosition(self.file, self.offset, self.line)


class Batcher:
    """Makes a chunk of rows; the figures of a batch of rows are computed together."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self.chunk = Chunk()
        self._options, self._figures = options, figures
        self._columns: list[Columns] = []
        self._rows: list[Row] = []
        self._places: list[Place] = []
        self._size = 0

    def add(self, row: Row, place: Place) -> None:
        """Add a row."""
        self._rows.append(row)
        self._places.append(place)
        self._size += place.length
        if self._size >= _BATCH_BYTES or len(self._rows) >= _BATCH_ROWS:
            self._flush()

    def finish(self) -> Chunk:
        """Return the chunk of all rows."""
        if self._rows:
            self._flush()
        self.chunk.columns = joined_columns(self._columns)
        return self.chunk

    def _flush(self) -> None:
        rows, places = self._rows, self._places
        self._rows, self._places, self._size = [], [], 0
        self._remark(rows, places)
        texts = [clean_text(row.response, self._options.pad_tokens) for row in rows]
        columns = self._row_columns(rows, places, texts)
        # Logged numbers may be as large as float64 holds; what overflows is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            tokens = token_rows(
                [row.tokens for row in rows],
                frozenset(self._options.pad_tokens),
                self.chunk.remarks,
                [place.position for place in places],
            )
            sampled = None if tokens is None else tokens.sampled_only()
            if tokens is not None and sampled is not None:
                thinks = any(
                    t and (_OPENING in t or _CLOSING in t) for t in (r.tokens.tokens for r in rows)
                )
                self._token_columns(tokens, sampled, columns, thinks=thinks)
        _set_finished(columns, rows, texts, sampled)
        self.chunk.rows += len(rows)
        self._columns.append(columns)

    def _remark(self, rows: Sequence[Row], places: Sequence[Place]) -> None:
        chunk, remarks, extras = self.chunk, self.chunk.remarks, self.chunk.extras
        for number, (row, place) in enumerate(zip(rows, places, strict=True), chunk.rows):
            tokens = row.tokens
            for kind in row.oddities:
                remarks.add(kind, place.position)
            if tokens.uneven:
                remarks.add("unequal_lengths", place.position)
            if tokens.mask is not None and len(tokens.mask) != tokens.size:
                remarks.add("bad_mask", place.position)
                tokens.mask = None
            if len(row.response) > MAX_TEXT:
                remarks.add("long_text", place.position)
            for name, kind in row.unread:
                count_not_taken(remarks.unread_fields, name, kind)
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
        self, rows: Sequence[Row], places: Sequence[Place], texts: Sequence[str]
    ) -> Columns:
        pads, system_end = self._options.pad_tokens, self._options.system_end_token
        prompts = [_prompt_figures(row.prompt, pads, system_end) for row in rows]
        references = [
            None if row.reference is None else clean_text(row.reference, pads) for row in rows
        ]

        columns: Columns = {
            name: np.array(values, np.uint64 if name == "line_hash" else np.int64)
            for name, values in zip(Place._fields, zip(*places, strict=True), strict=True)
        }
        columns |= {
            "step": np.array([row.step for row in rows], dtype=np.int64),
            "prompt_hash": np.array([one[0] for one in prompts], dtype=np.uint64),
            "prompt_chars": np.array([one[1] for one in prompts], dtype=np.int64),
            "group_hash": np.array(
                [0 if r.group is None else text_hash(r.group) or 1 for r in rows],
                dtype=np.uint64,
            ),
            "response_hash": np.array([text_hash(text) for text in texts], dtype=np.uint64),
            "response_chars": np.array([len(text) for text in texts], dtype=np.int64),
            "structure": np.array([structure_of(text) for text in texts], dtype=np.int64),
            "ref_response_chars": np.array(
                [np.nan if text is None else len(text) for text in references], dtype=np.float64
            ),
            **dict(zip(_REWARDS, np.array([row.rewards for row in rows]).T.copy(), strict=True)),
        }
        for i, row in enumerate(rows):
            for name, value in row.metadata.figures.items():
                if name not in columns:
                    columns[name] = np.full(len(rows), np.nan)
                columns[name][i] = value
        for name in _REWARDS:
            rewards = columns[name]
            rewards[np.isinf(rewards)] = np.nan
        columns["carried"] = _carried(rows, columns)
        columns["missing_grade"] = np.array([row.missing_grade for row in rows], np.int64)
        nan = np.isnan(columns["reward"]) & (columns["missing_grade"] == 0)
        columns["nan_values"] = nan.astype(np.int64)
        return {
            name: values
            for name, values in columns.items()
            if name == "reward" or values.dtype != np.float64 or not np.isnan(values).all()
        }

    def _token_columns(
        self, tokens: TokenRows, sampled: TokenRows, columns: Columns, *, thinks: bool
    ) -> None:
        """Add the columns that come from tokens; ``tokens`` are all, sampled or not."""
        figures = sampled.figures(self._figures)
        found = response_figures(
            figures,
            sampled.offsets,
            logged_advantage=sampled.arrays.get("advantages"),
            old_logp=sampled.arrays.get("old_logprobs"),
        )
        if thinks:
            strings = sampled.strings
            opens, closes = strings == _OPENING, strings == _CLOSING
            found |= thinking_tokens(opens, closes, sampled.offsets)
        if tokens.sampled is not None and tokens.masked is not None:
            given = tokens.lengths - sampled.lengths
            found["env_tokens"] = np.where(tokens.masked, given, np.nan)
            found |= mismatch_by_turn(figures, sampled.offsets, tokens.sampled, tokens.offsets)
            if "kl_max_position" in found:
                # Positions refer to the response as it is shown.
                found["kl_max_position"] = _positions_in_all(
                    found["kl_max_position"], tokens, sampled.offsets
                )
        count = len(columns["step"])
        for name, values in found.items():
            columns[name] = np.full(count, np.nan)
            columns[name][tokens.rows] = values
        if "rlhf_reward" in found:
            columns["non_score_reward"] = columns["rlhf_reward"] - columns["reward"]  # type: ignore[operator]
        nan_values = columns["nan_values"].astype(np.int64)
        nan_values[tokens.rows] += sampled.nan_values
        columns["nan_values"] = nan_values


@lru_cache(maxsize=512)
def _prompt_figures(
    prompt: str, pad_tokens: tuple[str, ...], system_end_token: str | None
) -> tuple[int, int]:
    """Return hash and characters of the cleaned prompt; most prompts occur many times."""
    cleaned = clean_prompt(prompt, pad_tokens, system_end_token)
    return text_hash(cleaned), len(cleaned)


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate columns; rows of a part without a column get NaN, or 0 for integers."""
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
    """Return the hash that identifies a text in tables and exports."""
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))


def _carried(rows: Sequence[Row], columns: Columns) -> Ints:
    """Return which canonical fields each row holds, as bits of FIELD_BITS."""
    always = sum(FIELD_BITS[name] for name in ("step", "prompt", "response"))
    arrays = [(name, FIELD_BITS[name]) for name in TOKEN_ARRAYS]
    bits = np.array(
        [
            always
            + sum(FIELD_BITS[name] for name in row.carried)
            + sum(bit for name, bit in arrays if name in row.tokens.arrays)
            + (FIELD_BITS["response_tokens"] if row.tokens.tokens is not None else 0)
            + (FIELD_BITS["ref_response"] if row.reference is not None else 0)
            + (FIELD_BITS["group_id"] if row.group is not None else 0)
            for row in rows
        ],
        dtype=np.int64,
    )
    for name in _REWARDS:
        bits += np.where(np.isnan(columns[name]), 0, FIELD_BITS[name])
    return bits


def _set_finished(
    columns: Columns, rows: Sequence[Row], texts: Sequence[str], tokens: TokenRows | None
) -> None:
    """Add ``finished`` (1, 0, NaN if nothing tells) and ``finish_source``, what told it."""
    finished: Floats = np.array([row.finish for row in rows], dtype=np.float64)
    source = np.where(np.isnan(finished), 0, FROM_REASON).astype(np.int8)
    named = np.zeros(len(rows), dtype=bool)
    if tokens is not None:
        named[tokens.rows[tokens.named]] = True
        for row, token in zip(tokens.rows.tolist(), tokens.last_strings(), strict=True):
            if token is not None and not source[row]:
                finished[row], source[row] = token in EOS_TOKENS, FROM_TOKEN
    for i in np.flatnonzero((source == 0) & ~named).tolist():
        stripped = texts[i].rstrip()
        finished[i] = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        source[i] = FROM_TEXT
    columns["finished"], columns["finish_source"] = finished, source


def _positions_in_all(among_sampled: Floats, tokens: TokenRows, sampled_offsets: Ints) -> Floats:
    """Return positions among all tokens of a row for positions among its sampled ones."""
    assert tokens.sampled is not None
    known = np.isfinite(among_sampled)
    where = np.flatnonzero(tokens.sampled)
    found = np.full(len(among_sampled), np.nan)
    first = sampled_offsets[:-1][known] + among_sampled[known].astype(np.int64)
    found[known] = where[first] - tokens.offsets[:-1][known]
    return found
