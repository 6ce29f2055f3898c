"""Parse each logged JSON object (a dict) into a ``ParsedRow``, and concatenate token arrays.

Invalid values are recorded, and padding is dropped.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from rlreport.errors import RowError
from rlreport.fields import (
    LARGEST_NUMBER,
    LARGEST_STEP,
    NO_COLUMN,
    REQUIRED,
    REWARDS,
    TOKEN_ARRAYS,
    kind_of,
)
from rlreport.figures.metadata import (
    Ending,
    RowMetadata,
    ending_of,
    normalize_turns_and_mask,
    row_metadata,
)
from rlreport.figures.ragged import Floats, Ints, offsets_of, row_sums
from rlreport.figures.tokens import TokenFigures, token_figures
from rlreport.formats.logged import SHORT
from rlreport.options import GaeOptions
from rlreport.read.notes import LogPosition, Remarks, missing_grade
from rlreport.system import coerce
from rlreport.text.clean import safe_text, safe_value
from rlreport.text.messages import message, translatable

NAN = float("nan")
# Standard fields kept in ``ParsedRow.carried``; the response table only stores whether they exist
_CARRIED = (
    "ground_truth", "token_ids", "prompt_turns", "turns", "response_mask", "policy_version",
    "errors", "seconds", "trainable", "filtered_out", "rollout_id",
)  # fmt: skip

_END_FIELDS = ("finish_reason", "stop_reason", "stop_condition", "termination_reason")
# Result of ``kind_of`` -> the same with an article
_KINDS = {
    "boolean": translatable("true or false"),
    "number": translatable("a number"),
    "object": translatable("an object"),
    "list": translatable("a list"),
    "text": translatable("text"),
}


@dataclass(slots=True)
class TokenFields:
    tokens: list[str] | None = None  # token strings, None if not logged
    text: str = ""  # the token strings joined
    arrays: dict[str, array[float]] = field(default_factory=dict)  # those in TOKEN_ARRAYS
    size: int = -1  # length of the shortest of ``tokens`` and ``arrays``, -1 if the row has none
    uneven: bool = False  # whether the lengths of ``tokens`` and ``arrays`` differ
    mask: bytes | None = None  # 1 per sampled token, 0 per other; None if all are sampled

    def fit(self, size: int) -> None:
        if self.size < 0:
            self.size = size
        elif size != self.size:
            self.uneven = True
            self.size = min(self.size, size)


class ParsedRow(NamedTuple):
    """The parsed values of one logged row: one response to one prompt."""

    step: int
    prompt: str
    response: str
    rewards: tuple[float, float, float, float]  # those in REWARDS; NaN where absent
    reference: str | None  # response of the reference policy, None if not logged
    group: str | None  # id of the group of responses to one prompt, None if not logged
    ending: Ending | None  # as logged, None if the log does not say
    tokens: TokenFields
    extras: Sequence[tuple[str, float | str]]  # (name, value) of further scalar fields
    carried: Mapping[str, object]  # further standard field (see ``_CARRIED``) -> value as logged
    parts: Sequence[str]  # names of the extras that are components of the reward
    oddities: Sequence[str]  # kinds of repaired or dropped values, keys of ``notes.ODDITIES``
    metadata: RowMetadata
    missing_grade: int  # 0 if the reward is valid, else why not: a code of ``notes.Missing``


def load_object(line: bytes) -> tuple[dict[str, Any], bool]:
    """Return (JSON object in a line, whether it is not strict JSON), or raise RowError."""
    lenient = False
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _load_lenient(line)
        lenient = True
    if not isinstance(value, dict):
        raise RowError(message("expected an object, found {kind}", kind=_kind(value)))
    return value, lenient


def _load_lenient(line: bytes) -> object:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RowError(message("not valid UTF-8 (byte {byte})", byte=error.start)) from None
    if "\0" in text:
        raise RowError(message("contains NUL bytes"))
    try:
        return safe_value(json.loads(text))
    except json.JSONDecodeError as error:
        raise RowError(
            message("not valid JSON: {why} (column {column})", why=error.msg, column=error.colno)
        ) from None
    except (ValueError, RecursionError) as error:
        raise RowError(message("not valid JSON: {why}", why=str(error))) from None


def parse_record(record: dict[str, Any]) -> ParsedRow:
    """Parse a dict with the standard field names (``fields.CANONICAL``), or raise RowError."""
    for name in REQUIRED:
        if name not in record:
            raise RowError(message("{field} is missing", field=name))
    oddities: list[str] = []
    step = _step_of(record["step"])
    prompt = _text(record, "prompt")
    response = _text(record, "response")
    rewards = _rewards(record, oddities)
    reference = record.get("ref_response")
    if reference is not None and not isinstance(reference, str):
        oddities.append("not_text")
        reference = None
    ending = _ending(record, oddities)
    tokens = _tokens(record, oddities)
    oddities += normalize_turns_and_mask(record, tokens.size, cut=tokens.uneven)
    tokens.mask = _mask(record, tokens.size)
    extras, parts = _extras(record)
    group = record.get("group_id")
    # NaN is not a group. ``str`` may raise RecursionError, which the caller reports as a bad row.
    group = None if group is None or group != group else str(group)
    return ParsedRow(
        step, prompt, response, rewards, reference, group, ending, tokens, extras,
        {name: record[name] for name in _CARRIED if record.get(name) is not None},
        parts, oddities, row_metadata(record, step, prompt, response),
        missing_grade(record, null=coerce.is_null(record["reward"])),
    )  # fmt: skip


def _rewards(record: dict[str, Any], oddities: list[str]) -> tuple[float, float, float, float]:
    rewards = []
    for name in REWARDS:
        value = record.get(name)
        number = NAN
        try:
            number = _number(value)
        except RowError:
            if name == "reward":
                text = message("reward is not a number: {value}", value=f"{value!r:.60}")
                raise RowError(text) from None
            oddities.append("not_a_number")
        rewards.append(number)
    return tuple(rewards)  # type: ignore[return-value]


def _number(value: object) -> float:
    number = coerce.number(value)
    return number if abs(number) <= LARGEST_NUMBER else NAN


def _tokens(record: dict[str, Any], oddities: list[str]) -> TokenFields:
    fields = TokenFields()
    tokens: Any = record.get("response_tokens")
    if tokens is not None:
        try:
            if not isinstance(tokens, list):
                raise TypeError
            # Joining is several times faster than checking each type.
            fields.text = "".join(tokens)
            fields.tokens = tokens
            fields.fit(len(tokens))
        except TypeError:
            oddities.append("not_tokens")
    for name in TOKEN_ARRAYS:
        values = record.get(name)
        if values is None or values == []:
            continue
        if isinstance(values, (int, float)):
            # GRPO logs one advantage for the whole response.
            if name == "advantages" and fields.size <= 0:
                record["advantage"] = values
                continue
            values = [values] * fields.size if fields.size > 0 else values
        try:
            floats = _floats_of(values)
        except RowError:
            oddities.append("nested")
            continue
        fields.arrays[name] = floats
        fields.fit(len(floats))
    return fields


def _extras(record: dict[str, Any]) -> tuple[list[tuple[str, float | str]], list[str]]:
    named = record
    names = []
    parts = record.get("reward_parts")
    if isinstance(parts, dict):
        # A reward part may have the name of a canonical field; rename the part.
        parts = {f"{name}_logged" if name in NO_COLUMN else name: parts[name] for name in parts}
        names = [safe_text(str(part)) for part in parts]
        # A part that is also logged as a field of its own becomes one column.
        named = {**record, **parts}
    extras: list[tuple[str, float | str]] = []
    for name, value in named.items():
        if name in NO_COLUMN:
            continue
        if isinstance(value, (bool, int, float)):
            extras.append((safe_text(str(name)), _number(value)))
        elif isinstance(value, str) and len(value) <= SHORT:
            extras.append((safe_text(str(name)), safe_text(value)))
    return extras, names


def _mask(record: dict[str, Any], size: int) -> bytes | None:
    """Return 1 per sampled and 0 per other token; None if neither mask nor turns show it."""
    if (logged := record.get("response_mask")) is not None:
        return bytes(map(bool, logged))
    spans = [t["tokens"] for t in record.get("turns") or () if not t["sampled"] and "tokens" in t]
    if not spans or size < 0:
        return None
    mask = bytearray(b"\1" * size)
    for start, stop in spans:
        mask[start:stop] = bytes(stop - start)
    return bytes(mask)


def _ending(record: dict[str, Any], oddities: list[str]) -> Ending | None:
    reasons = [reason for name in _END_FIELDS if (reason := record.get(name)) is not None]
    endings = [ending for reason in reasons if (ending := ending_of(reason))]
    completed = record.get("is_completed")
    for ending in endings:
        # The last reply of a conversation may end by itself although a limit stopped it then.
        if ending is not Ending.FINISHED:
            return ending
    if completed is False:
        return Ending.UNFINISHED
    if endings or completed is True:
        return Ending.FINISHED
    if reasons:
        oddities.append("reasonless")
        return Ending.OTHER
    return None


def _step_of(value: object) -> int:
    if isinstance(value, bool) or value is None:
        raise RowError(message("step is {value}, not an integer", value=json.dumps(value)))
    step = value if isinstance(value, int) else coerce.integer(value)
    if step is None:
        raise RowError(message("step is not an integer: {value}", value=f"{value!r:.40}"))
    if abs(step) > LARGEST_STEP:
        raise RowError(message("step is beyond ±2^53"))
    return step


def _floats_of(values: object) -> array[float]:
    if not isinstance(values, list):
        raise RowError
    try:
        # ``array("d", values)`` takes twice as long.
        return array("d", struct.pack(f"{len(values)}d", *values))
    except struct.error:  # null, text, lists, integers beyond float64
        return array("d", map(coerce.number, values))


def _text(record: dict[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise RowError(message("{field} must be text, found {kind}", field=name, kind=_kind(value)))
    return value


def _kind(value: object) -> str:
    return "null" if value is None else message(_KINDS[kind_of(value)])


# Field of TOKEN_ARRAYS -> the figure that it is
_FIGURES = {
    "logprobs": "logp", "ref_logprobs": "ref_logp", "sampler_logprobs": "sampler_logp",
    "token_rewards": "token_reward", "values": "value", "advantages": "advantage",
}  # fmt: skip
PADDING_LOGP = 1e-3  # A log-probability above this marks padding; rounding alone never reaches it
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class TokenRows:
    """The tokens of R rows as flat arrays of N tokens in total."""

    rows: Ints  # int64 (R,), rows of the batch that have tokens
    offsets: Ints  # int64 (R + 1,), where each row's tokens begin
    strings: list[list[str] | None]  # token strings of each row; None for a row that logs none
    texts: list[str]  # each row's token strings as logged, joined; "" for a row that logs none
    # field of TOKEN_ARRAYS -> float64 (N,), finite or NaN; only fields that are logged
    arrays: dict[str, Floats]
    nan_values: Ints  # int64 (R,), number of values logged as NaN, infinite or null
    sampled: Bools | None = None  # (N,), whether the policy sampled the token; None for all
    masked: Bools | None = None  # (R,), whether the row logs ``sampled``; None if no row does

    def marks(self, token: str) -> Bools:
        """Return which tokens equal ``token``, bool (N,)."""
        places: list[int] = []
        starts = self.offsets[:-1].tolist()
        for strings, text, start in zip(self.strings, self.texts, starts, strict=True):
            # Searching the text is faster than ``index``, and ``index`` than a loop over tokens.
            if strings and token in text:
                place = -1
                with suppress(ValueError):
                    while True:
                        place = strings.index(token, place + 1)
                        places.append(start + place)
        marks = np.zeros(int(self.offsets[-1]), dtype=bool)
        marks[places] = True
        return marks

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def sampled_only(self) -> TokenRows:
        """Return only the tokens that the policy sampled.

        The reward of an environment token is added to the preceding sampled token (or to the
        row's first sampled token), so that the sum of rewards per row stays the same.
        """
        keep = self.sampled
        if keep is None:
            return self
        tokens = self._select(keep)
        if (rewards := self.arrays.get("token_rewards")) is not None:
            tokens.arrays["token_rewards"] = _fold_rewards(
                rewards, keep, self.offsets, tokens.offsets
            )
        tokens.sampled = tokens.masked = None
        return tokens

    def figures(self, gae: GaeOptions) -> TokenFigures:
        """Return log-ratios, advantages etc., (N,); call it on the result of ``sampled_only``."""
        logged = {figure: self.arrays.get(name) for name, figure in _FIGURES.items()}
        return token_figures(TokenFigures(**logged), self.offsets, gamma=gae.gamma, lam=gae.lam)

    def _select(self, keep: Bools) -> TokenRows:
        sizes = row_sums(keep.astype(np.float64), self.offsets).astype(np.int64)
        nan_values = self.nan_values
        for flat in self.arrays.values():
            dropped = np.isnan(flat) & ~keep
            if dropped.any():
                sums = row_sums(dropped.astype(np.float64), self.offsets)
                nan_values = nan_values - sums.astype(np.int64)
        strings = list(self.strings)
        for i in np.flatnonzero(sizes != self.lengths).tolist():
            if row := strings[i]:
                kept = keep[self.offsets[i] : self.offsets[i + 1]].tobytes()
                first = kept.find(1)
                stop = kept.rfind(1) + 1
                whole = stop - first == sizes[i]  # only padding is dropped
                strings[i] = row[first:stop] if whole else list(compress(row, kept))
        return TokenRows(
            self.rows,
            offsets_of(sizes),
            strings,
            self.texts,
            {name: flat[keep] for name, flat in self.arrays.items()},
            np.maximum(nan_values, 0),
            None if self.sampled is None else self.sampled[keep],
            self.masked,
        )


def token_rows(
    fields: Sequence[TokenFields],
    pad_tokens: frozenset[str],
    remarks: Remarks | None = None,
    positions: Sequence[LogPosition] = (),
) -> TokenRows | None:
    """Concatenate rows' tokens without padding (counted in ``remarks``); None if no row has any."""
    rows = np.array([i for i, row in enumerate(fields) if row.size >= 0], dtype=np.int64)
    if not len(rows):
        return None
    row_fields = [fields[i] for i in rows.tolist()]
    offsets = offsets_of(np.array([row.size for row in row_fields], dtype=np.int64))
    strings = [
        row.tokens[: row.size] if row.uneven and row.tokens is not None else row.tokens
        for row in row_fields
    ]
    texts = [row.text for row in row_fields]
    arrays, nan_values = _arrays(row_fields, offsets)
    tokens = TokenRows(rows, offsets, strings, texts, arrays, nan_values, *_masks(row_fields))
    drop = _sentinels(tokens)
    padding = _end_padding(tokens, drop, pad_tokens)
    for kind, mask in (("sentinel", drop), ("pads", padding)):
        hits = np.flatnonzero(mask)
        if remarks is not None and len(hits):
            first = rows[np.searchsorted(offsets, hits[0], side="right") - 1]
            remarks.add(kind, positions[first], len(hits))
    drop |= padding
    return tokens._select(~drop) if drop.any() else tokens


def _arrays(fields: Sequence[TokenFields], offsets: Ints) -> tuple[dict[str, Floats], Ints]:
    arrays: dict[str, Floats] = {}
    nan_values = np.zeros(len(fields), dtype=np.int64)
    for name in TOKEN_ARRAYS:
        parts = [row.arrays.get(name) for row in fields]
        logged = np.array([part is not None for part in parts], dtype=bool)
        if not logged.any():
            continue
        data = b"".join(
            part[: row.size] if part is not None else np.full(row.size, np.nan).tobytes()
            for part, row in zip(parts, fields, strict=True)
        )
        flat = np.frombuffer(data, dtype=np.float64)
        finite = np.abs(flat) <= LARGEST_NUMBER
        if not finite.all():
            flat = np.where(finite, flat, np.nan)
            invalid = row_sums((~finite).astype(np.float64), offsets).astype(np.int64)
            nan_values += np.where(logged, invalid, 0)
        arrays[name] = flat
    return arrays, nan_values


def _masks(fields: Sequence[TokenFields]) -> tuple[Bools, Bools] | tuple[None, None]:
    masked = np.array([row.mask is not None for row in fields], dtype=bool)
    if not masked.any():
        return None, None
    masks = [row.mask if row.mask is not None else b"\1" * row.size for row in fields]
    return np.frombuffer(b"".join(masks), dtype=np.uint8).astype(bool), masked


def _sentinels(tokens: TokenRows) -> Bools:
    """Return which sampled tokens have a logprob or ref_logprob above PADDING_LOGP, bool (N,)."""
    drop = np.zeros(int(tokens.offsets[-1]), dtype=bool)
    for name in ("logprobs", "ref_logprobs"):
        if (logp := tokens.arrays.get(name)) is not None:
            drop |= logp > PADDING_LOGP
    if tokens.sampled is not None:
        drop &= tokens.sampled  # a trainer may log any number for an environment's token
    return drop


def _end_padding(tokens: TokenRows, sentinels: Bools, pad_tokens: frozenset[str]) -> Bools:
    """Return which tokens except ``sentinels`` are padding at either end of a row, bool (N,)."""
    padding = np.zeros(len(sentinels), dtype=bool)
    for strings, start in zip(tokens.strings, tokens.offsets.tolist(), strict=False):
        if not strings:
            continue
        first = 0
        stop = len(strings)
        while first < stop and (strings[first] in pad_tokens or sentinels[start + first]):
            first += 1
        while stop > first and (strings[stop - 1] in pad_tokens or sentinels[start + stop - 1]):
            stop -= 1
        padding[start : start + first] = padding[start + stop : start + len(strings)] = True
    return padding & ~sentinels


def _fold_rewards(rewards: Floats, sampled: Bools, old: Ints, new: Ints) -> Floats:
    row = np.repeat(np.arange(len(old) - 1), np.diff(old))
    place = np.clip(np.cumsum(sampled) - 1, new[row], new[row + 1] - 1)
    paid = np.flatnonzero(~sampled & np.isfinite(rewards) & (np.diff(new)[row] > 0))
    return rewards[sampled] + np.bincount(place[paid], rewards[paid], int(new[-1]))
