"""Rows of a batch as columns: one row of figures per response."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.fields import CANONICAL, REWARDS, AssumedStep
from rlreport.figures.constant import compact
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference, significant
from rlreport.figures.tokens import TokenFigures, response_figures, thinking_tokens
from rlreport.figures.turns import Ending
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.changed import Change
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.record import ParsedRow
from rlreport.read.remarks import LogPosition, Remarks
from rlreport.read.rollouts import CleanTexts, rollout_part
from rlreport.read.spool import Parcel, PartFolder
from rlreport.read.token_rows import TokenRows, token_rows
from rlreport.system.function_process import Signature
from rlreport.system.memory import release_memory
from rlreport.tables import NoteKind, RowRole
from rlreport.text.clean import EOS_TOKENS, clean_prompt, clean_text, safe_text
from rlreport.text.labels import answer_marks, label_hit
from rlreport.text.scripts import is_garbled, main_script
from rlreport.text.tokens import structure_of


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

Columns = dict[str, NDArray[np.generic]]
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
    parts: list[Parcel] = field(default_factory=list)  # texts and tokens of all rows


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """What a worker needs to read a range besides the range itself."""

    options: ReadOptions
    gae: GaeOptions
    folder: PartFolder  # takes texts and tokens
    limits: ReadLimits = LIMITS
    # of the function that is to score the rows, None without one
    signature: Signature | None = None


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
    batch: Sequence[Row], settings: RangeSettings, chunk: Chunk
) -> Columns:
    """Return a batch of R rows as columns, (R,) each; add what is no column to ``chunk``."""
    options = settings.options
    rows = [row.parsed for row in batch]
    positions = [row.position for row in batch]
    _collect_remarks(rows, positions, chunk)
    calls = [row.call for row in batch]
    texts = _clean_texts(rows, calls, options.pad_tokens)
    columns = _origin_columns(batch) | _row_columns(rows, texts, options)
    columns |= _fit_of_tokens(rows, texts.responses)
    token_figures = TokenFigures()
    # Logged numbers may be as large as float64 allows; overflow yields infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        tokens = token_rows(
            [row.tokens for row in rows],
            frozenset(options.pad_tokens),
            chunk.remarks,
            positions,
        )
        sampled = None if tokens is None else tokens.sampled_only()
        if tokens is not None and sampled is not None:
            token_figures = sampled.figures(settings.gae).derive()
            _add_token_columns(columns, tokens, sampled, token_figures)
    part = rollout_part(rows, tokens, token_figures, texts, options)
    chunk.parts.append(settings.folder.put(part.packed()))
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


def _clean_texts(
    rows: Sequence[ParsedRow], calls: Sequence[str | None], pads: tuple[str, ...]
) -> CleanTexts:
    """Return the texts of rows without padding, as all columns and pages use them."""
    return CleanTexts(
        responses=[clean_text(row.response, pads) for row in rows],
        references=[
            None if row.reference is None else clean_text(row.reference, pads)
            for row in rows
        ],
        calls=calls,
    )


def _text_columns(texts: CleanTexts) -> Columns:
    """Return the columns that are computed from texts of responses and references."""
    responses = texts.responses
    reference_chars = [
        np.nan if text is None else len(text) for text in texts.references
    ]
    return {
        "response_hash": np.array(list(map(text_hash, responses)), np.uint64),
        "response_chars": np.array(list(map(len, responses)), np.int64),
        "structure": np.array(list(map(structure_of, responses)), np.int64),
        "garbled": np.array(list(map(is_garbled, responses)), np.float64),
        "ref_response_chars": np.array(reference_chars, np.float64),
    }


def _label_hits(rows: Sequence[ParsedRow], responses: Sequence[str]) -> Floats:
    """Return whether each row's final answer is its label: 1, 0, or NaN if unknown, (R,)."""
    hits = np.full(len(rows), np.nan)
    for i, (row, response) in enumerate(zip(rows, responses, strict=True)):
        label = row.carried.get("ground_truth")
        if label is not None:
            hits[i] = label_hit(_last_turn(row) or response, label)
    return hits


def _answer_formats(rows: Sequence[ParsedRow], responses: Sequence[str]) -> Ints:
    """Return how each row marks its final answer, as bits of ``labels.ANSWER_MARKS``, (R,)."""
    marks = [
        answer_marks(_last_turn(row) or response)
        for row, response in zip(rows, responses, strict=True)
    ]
    return np.array(marks, np.int64)


def _other_scripts(prompts: Sequence[_Prompt], responses: Sequence[str]) -> Floats:
    """Return whether each row is in another script than its prompt: 1, 0, or NaN, (R,).

    It is unknown if one of them has few letters.
    """
    others = np.full(len(responses), np.nan)
    for i, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        script = prompt.script and main_script(response)
        if script:
            others[i] = script != prompt.script
    return others


def _last_turn(row: ParsedRow) -> str:
    """Return the last text that the policy wrote in a conversation, "" without turns.

    The response of a conversation contains the outputs of tools, too.
    """
    turns: Any = row.carried.get("turns") or ()
    for turn in reversed(turns):
        text = turn.get("text")
        if turn["sampled"] and isinstance(text, str) and text.strip():
            return text
    return ""


# All bytes but ASCII letters and digits
_NO_LETTERS = bytes(
    byte for byte in range(256) if not chr(byte).isalnum() or byte > 127
)
# What one of tokens and text may lack: control tokens, tags of thinking, bytes written as a token
_NOT_IN_BOTH = re.compile(r"<[|｜][^<>\s]{1,64}[|｜]>|</?\w{1,12}>|<0x[0-9A-Fa-f]{2}>")
# Fewer letters say little about whether tokens are those of a text
_FEWEST_LETTERS = 8


def _fit_of_tokens(rows: Sequence[ParsedRow], responses: Sequence[str]) -> Columns:
    """Return the column ``tokens_fit`` if any row has token strings, {} otherwise.

    Of conversations it is unknown, as their text may have more or fewer turns than their tokens.
    """
    fits = np.full(len(rows), np.nan)
    for i, (row, response) in enumerate(zip(rows, responses, strict=True)):
        if row.tokens.tokens is not None and "turns" not in row.metadata.figures:
            fits[i] = _is_one_text(row.tokens.text, response)
    return {} if np.isnan(fits).all() else {"tokens_fit": fits}


def _is_one_text(joined: str, response: str) -> float:
    """Return 1 if one of two texts contains the other, 0 if not, NaN if they are too short.

    One may be cut, or lack the thinking. Only ASCII letters and digits are compared: they are the
    same in tokens as logged and as decoded, unlike blanks and other characters.
    """
    one = _letters(joined)
    other = _letters(response)
    if one == other or one in other or other in one:
        return 1.0 if min(len(one), len(other)) >= _FEWEST_LETTERS else np.nan
    one = _letters(_NOT_IN_BOTH.sub("", joined))
    other = _letters(_NOT_IN_BOTH.sub("", response))
    if min(len(one), len(other)) < _FEWEST_LETTERS:
        return np.nan
    return float(one in other or other in one)


def _letters(text: str) -> bytes:
    return text.encode("ascii", "ignore").translate(None, _NO_LETTERS)


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


def _row_columns(
    rows: Sequence[ParsedRow], texts: CleanTexts, options: ReadOptions
) -> Columns:
    """Return the columns that need no tokens."""
    pads = options.pad_tokens
    prompts = [_prompt(row.prompt, pads, options.system_end_token) for row in rows]
    # 0 stands for no group, so no group may have the hash 0.
    groups = [0 if row.group is None else text_hash(row.group) or 1 for row in rows]
    columns: Columns = {
        "step": np.array([row.step for row in rows], np.int64),
        "prompt_hash": np.array([prompt.hash for prompt in prompts], np.uint64),
        "group_hash": np.array(groups, np.uint64),
        "carried": np.array(list(map(_field_bits, rows)), np.int64),
        "rollout": np.array(list(map(_rollout, rows)), np.float64),
        "missing_grade": np.array([row.missing_grade for row in rows], np.int64),
    }
    columns |= _text_columns(texts)
    columns["label_hit"] = _label_hits(rows, texts.responses)
    columns["answer_format"] = _answer_formats(rows, texts.responses)
    columns["other_script"] = _other_scripts(prompts, texts.responses)
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
    return columns


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
    for name, values in token_figures.items():
        columns[name] = np.full(len(columns["step"]), np.nan)
        columns[name][tokens.rows] = values
    if "rlhf_reward" in token_figures:
        rlhf, reward = (
            columns[name].astype(np.float64) for name in ("rlhf_reward", "reward")
        )
        columns["non_score_reward"] = difference(rlhf, reward)
    # ``view`` only tells the type of the column.
    columns["nan_values"].view(np.int64)[tokens.rows] += sampled.nan_values


class _Prompt(NamedTuple):
    """What columns need of a prompt: the hash of its text, and the script of most letters."""

    hash: int
    script: str


@lru_cache(maxsize=512)  # the responses of a group have the same prompt
def _prompt(
    prompt: str, pad_tokens: tuple[str, ...], system_end_token: str | None
) -> _Prompt:
    text = clean_prompt(prompt, pad_tokens, system_end_token)
    return _Prompt(text_hash(text), main_script(text))


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
        joined[name] = compact(np.concatenate(columns))
        # Of the small arrays of parts gaps are left, in which no joined column has room.
        freed += joined[name].size * dtype.itemsize
        del columns
        if freed > _FREED_BYTES:
            release_memory()
            freed = 0
    return joined


def text_hash(text: str) -> int:
    """Return the 64-bit hash that identifies a text in tables and exports."""
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))


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
    if row.tokens.tokens is not None:
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
    source = np.where(
        np.isin(ending, (0, Ending.OTHER)), FinishSource.UNKNOWN, FinishSource.REASON
    ).astype(np.int8)
    finished[source == FinishSource.UNKNOWN] = np.nan
    has_tokens = np.zeros(len(rows), dtype=bool)
    if tokens is not None:
        end_logp = _end_logps(tokens)
        if np.isfinite(end_logp).any():
            columns["end_logp"] = np.full(len(rows), np.nan)
            columns["end_logp"][tokens.rows] = end_logp
        for row, strings in zip(tokens.rows.tolist(), tokens.strings, strict=True):
            has_tokens[row] = strings is not None
            if strings and source[row] == FinishSource.UNKNOWN:
                finished[row] = strings[-1] in EOS_TOKENS
                source[row] = FinishSource.TOKEN
    by_text = (source == FinishSource.UNKNOWN) & ~has_tokens
    for i in np.flatnonzero(by_text).tolist():
        stripped = texts[i].rstrip()
        # The test of one letter is much faster, and mostly decides.
        finished[i] = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        source[i] = FinishSource.TEXT
    columns |= {"ending": ending, "finished": finished, "finish_source": source}


def _end_logps(tokens: TokenRows) -> Floats:
    """Return the logp of each row's last token if that is an end token, else NaN, (R,).

    It is the larger one of the trainer's and the sampler's, as only the latter drew the token.
    """
    has_end_token = [
        strings is not None and len(strings) > 0 and strings[-1] in EOS_TOKENS
        for strings in tokens.strings
    ]
    ends = np.array(has_end_token, dtype=bool) & (tokens.lengths > 0)
    logp = np.full(len(ends), np.nan)
    last = tokens.offsets[1:][ends] - 1
    for name in ("logprobs", "sampler_logprobs"):
        if name in tokens.arrays:
            logp[ends] = np.fmax(logp[ends], tokens.arrays[name][last])
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
