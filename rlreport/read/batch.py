"""Convert parsed log rows to columns of the response table, many responses at a time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.fields import CANONICAL, AssumedStep, add_unread_field
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.response import mismatch_by_turn, response_figures, thinking_tokens
from rlreport.figures.token import TokenFigures
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.notes import LogPosition, Remarks
from rlreport.read.rollouts import RolloutPart, RolloutWriter
from rlreport.read.rows import Row
from rlreport.read.tokens import TokenRows, token_rows
from rlreport.text.clean import EOS_TOKENS, clean_prompt, clean_text, safe_text
from rlreport.text.tokens import structure_of

# Codes in ``finish_source``: ``finished`` is from finish reason, last token or text; 0: none
FROM_REASON, FROM_TOKEN, FROM_TEXT = 1, 2, 3

MAX_EXTRAS = 64
# Extra fields kept while reading; more than MAX_EXTRAS, as some rows may be left out later
MAX_CHUNK_EXTRAS = 256

MAX_TEXT = 1 << 22  # Words are counted only in this many characters at the start of a text
# Standard log field -> its bit in the integer column ``carried``, set if a row has the field
FIELD_BITS = {name: 1 << bit for bit, name in enumerate(sorted(CANONICAL))}

_OPENING, _CLOSING = "<think>", "</think>"
_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)
_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")

Columns = dict[str, NDArray[np.generic]]


class RangeCounts(NamedTuple):
    """Number of lines, and of unusable lines, in one byte range of a file, from byte ``start``."""

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
    # ``carried`` (bits of FIELD_BITS) and ``failed``. A column without any value is absent
    columns: Columns = field(default_factory=dict)
    # name -> values of an extra field; the alphabetically first MAX_CHUNK_EXTRAS
    extras: dict[str, Extra] = field(default_factory=dict)
    extras_dropped: bool = False  # whether any extra field was left out because of this limit
    # names of the extras that are components of the reward
    reward_parts: set[str] = field(default_factory=set)
    # (row, tool name, *ToolCounts) for each tool used in each row
    tools: list[tuple[int, str, *tuple[int, ...]]] = field(default_factory=list)
    counts: list[RangeCounts] = field(default_factory=list)  # numbers of lines, one entry per range
    # unusable lines and repaired values, for notes in the report
    remarks: Remarks = field(default_factory=Remarks)
    part: RolloutPart | None = None  # texts and tokens of all rows, if they are kept


class Place(NamedTuple):
    """Location of a row in the logs, its split, and whether its rollout failed.

    ``sub`` is the row's index if one logged JSON object has several rows; ``line_hash`` is the
    hash of the row's line, 0 in files that do not consist of lines.
    """

    file: int
    offset: int
    line: int
    length: int
    sub: int
    validation: bool
    failed: bool
    line_hash: int


def batch_columns(
    rows: Sequence[Row],
    places: Sequence[Place],
    options: ReadOptions,
    figures: FigureOptions,
    chunk: Chunk,
    writer: RolloutWriter | None = None,
) -> Columns:
    """Return table columns of ``rows``; add their extra fields, tools and remarks to ``chunk``.

    If there is a ``writer``, it gets the texts and tokens.
    """
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
            token_figures = sampled.figures(figures)
            _add_token_columns(columns, tokens, sampled, token_figures)
    if writer is not None:
        writer.add(rows, tokens, token_figures, texts)
    _set_finished(columns, rows, texts, sampled)
    chunk.rows += len(rows)
    return columns


def _collect_remarks(rows: Sequence[Row], positions: Sequence[LogPosition], chunk: Chunk) -> None:
    remarks, extras = chunk.remarks, chunk.extras
    for number, (row, position) in enumerate(zip(rows, positions, strict=True), chunk.rows):
        kinds = list(row.oddities)
        if row.tokens.uneven:
            kinds.append("unequal_lengths")
        if len(row.response) > MAX_TEXT:
            kinds.append("long_text")
        for kind in kinds:
            remarks.add(kind, position)
        for name, kind in row.unread:
            add_unread_field(remarks.unread_fields, name, kind)
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
    rows: Sequence[Row], places: Sequence[Place], texts: Sequence[str], options: ReadOptions
) -> Columns:
    pads = options.pad_tokens
    prompts = [_prompt_figures(row.prompt, pads, options.system_end_token) for row in rows]
    references = [None if r.reference is None else clean_text(r.reference, pads) for r in rows]
    groups = [0 if row.group is None else text_hash(row.group) or 1 for row in rows]
    columns: Columns = {
        name: np.array(values, np.uint64 if name == "line_hash" else np.int64)
        for name, values in zip(Place._fields, zip(*places, strict=True), strict=True)
    }
    columns |= {
        "step": np.array([row.step for row in rows], np.int64),
        "prompt_hash": np.array([prompt[0] for prompt in prompts], np.uint64),
        "prompt_chars": np.array([prompt[1] for prompt in prompts], np.int64),
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
    columns |= zip(_REWARDS, np.where(np.isinf(rewards), np.nan, rewards), strict=True)
    nan = np.isnan(columns["reward"]) & (columns["missing_grade"] == 0)
    columns["nan_values"] = nan.astype(np.int64)
    for i, row in enumerate(rows):
        for name, value in row.metadata.figures.items():
            if name not in columns:
                columns[name] = np.full(len(rows), np.nan)
            columns[name][i] = value
    return {
        name: values
        for name, values in columns.items()
        if name == "reward" or values.dtype != np.float64 or not np.isnan(values).all()
    }


def _add_token_columns(
    columns: Columns, tokens: TokenRows, sampled: TokenRows, figures: TokenFigures
) -> None:
    """Add columns computed from token values; ``sampled``: only the tokens the policy wrote."""
    token_figures = response_figures(
        figures,
        sampled.offsets,
        logged_advantage=sampled.arrays.get("advantages"),
        old_logp=sampled.arrays.get("old_logprobs"),
    )
    opens, closes = sampled.marks(_OPENING), sampled.marks(_CLOSING)
    token_figures |= thinking_tokens(opens, closes, sampled.offsets)
    if tokens.sampled is not None and tokens.masked is not None:
        env_tokens = tokens.lengths - sampled.lengths
        token_figures["env_tokens"] = np.where(tokens.masked, env_tokens, np.nan)
        token_figures |= mismatch_by_turn(figures, sampled.offsets, tokens.sampled, tokens.offsets)
        if "kl_max_position" in token_figures:
            # The report counts positions among all tokens of the response.
            token_figures["kl_max_position"] = _positions_in_all(
                token_figures["kl_max_position"], tokens, sampled.offsets
            )
    for name, values in token_figures.items():
        columns[name] = np.full(len(columns["step"]), np.nan)
        columns[name][tokens.rows] = values
    if "rlhf_reward" in token_figures:
        columns["non_score_reward"] = columns["rlhf_reward"] - columns["reward"]  # type: ignore[operator]
    nan_values = columns["nan_values"].astype(np.int64)
    nan_values[tokens.rows] += sampled.nan_values
    columns["nan_values"] = nan_values


@lru_cache(maxsize=512)
def _prompt_figures(
    prompt: str, pad_tokens: tuple[str, ...], system_end_token: str | None
) -> tuple[int, int]:
    """Return hash and number of characters of the cleaned prompt (most prompts recur: cached)."""
    cleaned = clean_prompt(prompt, pad_tokens, system_end_token)
    return text_hash(cleaned), len(cleaned)


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate columns by name; where a part lacks a column, fill NaN (0 for integers)."""
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


def _rollout(row: Row) -> float:
    """Return a 53-bit hash of the row's ``rollout_id`` as float, NaN if not logged."""
    rollout = row.carried.get("rollout_id")
    return float(text_hash(str(rollout)) >> 11) if isinstance(rollout, str | int) else np.nan


def _field_bits(row: Row) -> int:
    """Return the FIELD_BITS of the standard fields that a row logs, combined by OR."""
    names = ["prompt", "response", *row.carried, *row.tokens.arrays]
    names += [
        name for name, reward in zip(_REWARDS, row.rewards, strict=True) if math.isfinite(reward)
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
    columns: Columns, rows: Sequence[Row], texts: Sequence[str], tokens: TokenRows | None
) -> None:
    """Add ``finished`` (1: ended by itself, 0: cut off, NaN: unknown) and ``finish_source``."""
    finished: Floats = np.array([row.finish for row in rows], dtype=np.float64)
    source = np.where(np.isnan(finished), 0, FROM_REASON).astype(np.int8)
    has_tokens = np.zeros(len(rows), dtype=bool)
    if tokens is not None:
        for row, strings in zip(tokens.rows.tolist(), tokens.strings, strict=True):
            has_tokens[row] = strings is not None
            if strings and not source[row]:
                finished[row], source[row] = strings[-1] in EOS_TOKENS, FROM_TOKEN
    for i in np.flatnonzero((source == 0) & ~has_tokens).tolist():
        stripped = texts[i].rstrip()
        finished[i] = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        source[i] = FROM_TEXT
    columns["finished"], columns["finish_source"] = finished, source


def _positions_in_all(among_sampled: Floats, tokens: TokenRows, sampled_offsets: Ints) -> Floats:
    """Convert positions among a row's sampled tokens to positions among all its tokens, (R,)."""
    assert tokens.sampled is not None
    finite = np.isfinite(among_sampled)
    where = np.flatnonzero(tokens.sampled)
    positions = np.full(len(among_sampled), np.nan)
    first = sampled_offsets[:-1][finite] + among_sampled[finite].astype(np.int64)
    positions[finite] = where[first] - tokens.offsets[:-1][finite]
    return positions
