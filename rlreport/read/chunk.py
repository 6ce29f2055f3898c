"""Rows of a batch as columns: one row of figures per response."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import CANONICAL, REWARDS, AssumedStep
from rlreport.figures.constant import compact_if_long
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference, significant
from rlreport.figures.tokens import TokenFigures, response_figures, thinking_tokens
from rlreport.figures.turns import Ending
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.changed import Change
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.record import ParsedRow
from rlreport.read.remarks import LogPosition, Remarks
from rlreport.read.rollouts import rollout_part
from rlreport.read.spool import Parcel, PartFolder, RolloutSpool
from rlreport.read.texts import Columns, clean_texts, text_columns, text_hash
from rlreport.read.token_rows import TokenRows, token_rows
from rlreport.read.vocabulary import Numbers
from rlreport.system.function_process import Signature
from rlreport.system.memory import release_memory
from rlreport.tables import NoteKind, RowRole
from rlreport.text.clean import EOS_TOKENS, safe_text


class FinishSource(IntEnum):
    """What says whether a response is finished: codes in column ``finish_source``."""

    UNKNOWN = 0
    REASON = 1  # the logged reason
    TOKEN = 2  # the last token
    TEXT = 3


class LeftOut(IntEnum):
    """Why a row is in no table, and only counted by step: codes in column ``left_out``."""

    NO = 0
    FAILED = 1
    FILTERED = 2
    UNTRAINED_BRANCH = 3  # shown if its rollout has a trained row


# Columns that are joined before their parts are given back to the system
_FREED_BYTES = 64 << 20

MAX_EXTRAS = 64
# Extra fields kept while reading; more than MAX_EXTRAS, as some rows may be left out later
MAX_CHUNK_EXTRAS = 256

# Words are counted only in this many characters at the start of a text
MAX_TEXT = 1 << 22
# Standard log field -> its bit in the integer column ``carried``, set if a row has the field
FIELD_BITS = {name: 1 << bit for bit, name in enumerate(sorted(CANONICAL))}

_OPENING = "<think>"
_CLOSING = "</think>"
_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)

ToolUse = tuple[int, str, *tuple[int, ...]]  # row, tool name, *ToolCounts


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
    # the first MAX_CHUNK_EXTRAS by name
    extras: dict[str, Extra] = field(default_factory=dict)
    # whether any extra field was left out because of this limit
    extras_dropped: bool = False
    reward_parts: set[str] = field(default_factory=set)  # names of extras
    # for each tool used in each row
    tools: list[ToolUse] = field(default_factory=list)
    # numbers of lines, one entry per range
    counts: list[RangeCounts] = field(default_factory=list)
    remarks: Remarks = field(default_factory=Remarks)
    # ranges of logs that changed meanwhile
    changes: list[Change] = field(default_factory=list)
    # texts and tokens of all rows, unless ``RangeSettings.spool`` took them
    parts: list[Parcel] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """What a worker needs to read a range besides the range itself."""

    options: ReadOptions
    gae: GaeOptions
    folder: PartFolder  # takes texts and tokens
    limits: ReadLimits = LIMITS
    # of the function that is to score the rows, None without one
    signature: Signature | None = None
    # takes texts and tokens instead, if the process that has it reads the range
    spool: RolloutSpool | None = None


class Row(NamedTuple):
    """One checked row, where it is in the logs, and what it counts as."""

    parsed: ParsedRow
    position: LogPosition  # of its object
    length: int  # bytes of its line, 0 in a file without lines
    sub: int  # index of the row if one logged JSON object has several
    role: RowRole  # training or validation; branches are known when all rows are read
    left_out: LeftOut
    call: str | None = None  # what a reward function takes of it, as JSON


def batch_columns(
    batch: Sequence[Row], settings: RangeSettings, chunk: Chunk, numbers: Numbers
) -> Columns:
    """Return a batch of R rows as columns, (R,) each; add what is no column to ``chunk``.

    ``numbers`` are the ids of the rows' token strings.
    """
    options = settings.options
    rows = [row.parsed for row in batch]
    positions = [row.position for row in batch]
    _collect_remarks(rows, positions, chunk)
    calls = [row.call for row in batch]
    texts = clean_texts(rows, calls, options.pad_tokens)
    columns = _origin_columns(batch) | text_columns(rows, texts, options)
    _add_row_columns(columns, rows)
    token_figures = TokenFigures()
    # Logged numbers may be as large as float64 allows; overflow yields infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        tokens = token_rows(
            [row.tokens for row in rows],
            numbers,
            options.pad_tokens,
            chunk.remarks,
            positions,
        )
        sampled = None if tokens is None else tokens.sampled_only()
        if tokens is not None and sampled is not None:
            token_figures = sampled.figures(settings.gae)
            _add_token_columns(columns, tokens, sampled, token_figures)
    part = rollout_part(rows, tokens, token_figures, texts, options)
    if settings.spool is None:
        chunk.parts.append(settings.folder.put(part.packed()))
    else:
        settings.spool.append(part)
    _set_finished(columns, rows, texts.responses, sampled)
    chunk.rows += len(rows)
    return columns


def _collect_remarks(
    rows: Sequence[ParsedRow], positions: Sequence[LogPosition], chunk: Chunk
) -> None:
    """Add remarks on rows, their extras, tools and reward parts to ``chunk``."""
    remarks = chunk.remarks
    extras = chunk.extras
    # Rows are numbered in the chunk, which may have rows of earlier batches.
    for number, (row, position) in enumerate(
        zip(rows, positions, strict=True), chunk.rows
    ):
        kinds = list(row.oddities)
        if row.tokens.uneven:
            kinds.append(NoteKind.UNEQUAL_LENGTHS)
        if len(row.response) > MAX_TEXT:
            kinds.append(NoteKind.LONG_TEXT)
        for kind in kinds:
            remarks.add(kind, position)
        for name, value in row.extras:
            extra = extras.get(name)
            if extra is None:
                extra = extras[name] = Extra()
                # The last name in the alphabet, so that the order of rows does not matter
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


def _origin_columns(batch: Sequence[Row]) -> Columns:
    """Return where the rows are in the logs, and what they count as."""
    positions = [row.position for row in batch]
    numbers = {
        "file": [position.file for position in positions],
        "offset": [position.offset for position in positions],
        "line": [position.line for position in positions],
        "length": [row.length for row in batch],
        "sub": [row.sub for row in batch],
        "validation": [row.role for row in batch],
        "left_out": [row.left_out for row in batch],
    }
    return {name: np.array(values, np.int64) for name, values in numbers.items()}


def _add_row_columns(columns: Columns, rows: Sequence[ParsedRow]) -> None:
    """Add the columns that need neither texts nor tokens."""
    # 0 stands for no group, so no group may have the hash 0.
    groups = [0 if row.group is None else text_hash(row.group) or 1 for row in rows]
    columns |= {
        "step": np.array([row.step for row in rows], np.int64),
        "group_hash": np.array(groups, np.uint64),
        "carried": np.array(list(map(_field_bits, rows)), np.int64),
        "rollout": np.array(list(map(_rollout, rows)), np.float64),
        "missing_grade": np.array([row.missing_grade for row in rows], np.int64),
    }
    rewards = np.array([row.rewards for row in rows]).T
    columns |= zip(REWARDS, rewards, strict=True)
    # A reward that is missing for a known reason is counted there, not as NaN.
    is_nan = np.isnan(columns["reward"]) & (columns["missing_grade"] == 0)
    columns["nan_values"] = is_nan.astype(np.int64)
    # Columns of turns exist only if a row of the batch has the figure.
    for i, row in enumerate(rows):
        for name, value in row.metadata.figures.items():
            if name not in columns:
                columns[name] = np.full(len(rows), np.nan)
            columns[name][i] = value


def _add_token_columns(
    columns: Columns, tokens: TokenRows, sampled: TokenRows, figures: TokenFigures
) -> None:
    """Add columns of a batch's tokens: NaN in rows without tokens.

    ``sampled`` are the sampled ones of ``tokens``, ``figures`` theirs.
    """
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
        # Unknown, not 0, in a row without a mask
        env_tokens = tokens.lengths - sampled.lengths
        token_figures["env_tokens"] = np.where(tokens.masked, env_tokens, np.nan)
        if "kl_max_position" in token_figures:
            # The report counts positions among all tokens of the response.
            token_figures["kl_max_position"] = _positions_in_all(
                token_figures["kl_max_position"], tokens, sampled.offsets
            )
    count = len(columns["step"])
    for name, values in token_figures.items():
        if len(tokens.rows) == count:  # as usual: all rows have tokens
            columns[name] = values
            continue
        columns[name] = np.full(count, np.nan)
        columns[name][tokens.rows] = values
    if "rlhf_reward" in token_figures:
        rlhf, reward = (
            columns[name].astype(np.float64) for name in ("rlhf_reward", "reward")
        )
        columns["non_score_reward"] = difference(rlhf, reward)
    # ``view`` only tells the type of the column.
    columns["nan_values"].view(np.int64)[tokens.rows] += sampled.nan_values


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate columns by name (NaN or 0 where a part has none); remove them from ``parts``.

    Each column of the parts is freed as soon as it is copied, so that memory does not double.
    """
    lengths = [len(part["step"]) for part in parts]
    dtypes: dict[str, np.dtype[np.generic]] = {}
    for part in parts:
        for name, column in part.items():
            dtypes.setdefault(name, column.dtype)
    joined: Columns = {}
    freed = 0
    for name in sorted(dtypes):
        dtype = dtypes[name]
        missing = np.nan if dtype.kind == "f" else 0
        columns = []
        for part, length in zip(parts, lengths, strict=True):
            if name in part:
                columns.append(part.pop(name))
            else:
                columns.append(np.full(length, missing, dtype))
        joined[name] = compact_if_long(np.concatenate(columns))
        # Of the small arrays of parts gaps are left, in which no joined column has room.
        freed += joined[name].size * dtype.itemsize
        del columns
        if freed > _FREED_BYTES:
            release_memory()
            freed = 0
    return joined


def _rollout(row: ParsedRow) -> float:
    """Return a hash of a row's rollout id, NaN without one."""
    rollout = row.carried.get("rollout_id")
    if not isinstance(rollout, str | int):
        return np.nan
    # float64 represents integers up to 53 bits exactly.
    return float(text_hash(str(rollout)) >> 11)


def _field_bits(row: ParsedRow) -> int:
    """Return the canonical fields that a row has, as the sum of their FIELD_BITS."""
    names = ["prompt", "response", *row.carried, *row.tokens.arrays]
    names += [
        name
        for name, reward in zip(REWARDS, row.rewards, strict=True)
        if math.isfinite(reward)
    ]
    if not isinstance(row.step, AssumedStep):
        names.append("step")
    if row.tokens.ids is not None:
        names.append("response_tokens")
    if row.reference is not None:
        names.append("ref_response")
    if row.group is not None:
        names.append("group_id")
    return sum(map(FIELD_BITS.__getitem__, names))


def _set_finished(
    columns: Columns,
    rows: Sequence[ParsedRow],
    texts: Sequence[str],
    tokens: TokenRows | None,
) -> None:
    """Set ``ending``, ``finished`` (1, 0 or NaN) and ``finish_source``, which decides it.

    A logged reason comes first, then the last token, which should be an end token, then the end of
    the text, if no tokens are logged. ``texts`` are the responses, ``tokens`` the sampled ones.
    """
    ending = np.array([row.ending or 0 for row in rows], np.int8)
    finished: Floats = (ending == Ending.FINISHED).astype(np.float64)
    is_unknown = (ending == 0) | (ending == Ending.OTHER)
    source = np.where(is_unknown, FinishSource.UNKNOWN, FinishSource.REASON).astype(
        np.int8
    )
    finished[is_unknown] = np.nan
    has_tokens = np.zeros(len(rows), dtype=bool)
    if tokens is not None:
        has_last_token = tokens.has_strings & (tokens.lengths > 0)
        end_tokens = tokens.numbers.known(EOS_TOKENS)
        is_end = has_last_token.copy()
        is_end[has_last_token] = np.isin(tokens.last_tokens(has_last_token), end_tokens)
        end_logp = _end_logps(tokens, is_end)
        if np.isfinite(end_logp).any():
            columns["end_logp"] = np.full(len(rows), np.nan)
            columns["end_logp"][tokens.rows] = end_logp
        has_tokens[tokens.rows] = tokens.has_strings
        by_token = has_last_token & (source[tokens.rows] == FinishSource.UNKNOWN)
        finished[tokens.rows[by_token]] = is_end[by_token]
        source[tokens.rows[by_token]] = FinishSource.TOKEN
    by_text = (source == FinishSource.UNKNOWN) & ~has_tokens
    for i in np.flatnonzero(by_text).tolist():
        stripped = texts[i].rstrip()
        # The test of one letter is much faster, and mostly decides.
        finished[i] = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        source[i] = FinishSource.TEXT
    columns |= {"ending": ending, "finished": finished, "finish_source": source}


def _end_logps(tokens: TokenRows, is_end: NDArray[np.bool_]) -> Floats:
    """Return the logp of each row's last token where ``is_end`` says so, else NaN, (R,).

    It is the larger one of the trainer's and the sampler's, as only the latter drew the token.
    """
    logp = np.full(len(is_end), np.nan)
    last = tokens.offsets[1:][is_end] - 1
    for name in ("logprobs", "sampler_logprobs"):
        if name in tokens.arrays:
            logp[is_end] = np.fmax(logp[is_end], tokens.arrays[name][last])
    return significant(logp)


def _positions_in_all(
    among_sampled: Floats, tokens: TokenRows, sampled_offsets: Ints
) -> Floats:
    """Return positions in each row among all its tokens, given those among its sampled ones.

    Both are (R,), NaN without a position; ``sampled_offsets`` are where the rows' sampled tokens
    begin among all sampled tokens.
    """
    assert tokens.sampled is not None
    finite = np.isfinite(among_sampled)
    index_of_sampled = np.flatnonzero(tokens.sampled)  # among all tokens of the batch
    numbers = sampled_offsets[:-1][finite] + among_sampled[finite].astype(np.int64)
    positions = np.full(len(among_sampled), np.nan)
    positions[finite] = index_of_sampled[numbers] - tokens.offsets[:-1][finite]
    return positions
