"""Read what fast parsers refuse: odd JSON, and values of the wrong type that mean something."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from rlreport.errors import RowError
from rlreport.fields import CANONICAL, LARGEST_STEP, NO_COLUMN, REQUIRED, TOKEN_ARRAYS, kind_of
from rlreport.figures.conversation import TURN_LIMITS
from rlreport.figures.ragged import Floats
from rlreport.read.batch import LONGEST_EXTRA, NAN, ParsedRow, TokenFields
from rlreport.read.conversation import beside, mended
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

SCALARS = ("ref_reward", "valid_reward", "ref_valid_reward")
KEPT = (
    "ground_truth", "token_ids", "prompt_turns", "turns", "response_mask", "policy_version",
    "errors", "seconds", "trainable",
)  # fmt: skip
"""Fields that the first pass only counts, and the second may show."""

FINISH_FIELDS = ("finish_reason", "stop_reason")
FINISH_REASONS = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence"), 1.0),
    **dict.fromkeys(("tool_calls", "done", "complete", "completed"), 1.0),
    **dict.fromkeys(("agent_completed", "user_closed", "env_done"), 1.0),
    **dict.fromkeys(("length", "max_tokens", "max_length", "max_new_tokens"), 0.0),
    **dict.fromkeys(("truncated", "overlong", *TURN_LIMITS), 0.0),
    **dict.fromkeys(("max_response_length_exceeded", "max_prompt_length_exceeded"), 0.0),
}
"""What frameworks log as the reason a response ended: 1 by itself, 0 at the limit."""


def load_object(line: bytes) -> tuple[dict[str, Any], bool]:
    """Parse a line that should hold one JSON object.

    Returns:
        the object, and whether only the lenient parser of the standard library took it (NaN,
        Infinity, lone surrogates, integers beyond 64 bits).

    Raises:
        RowError: it is no JSON object.
    """
    lenient = False
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _load_lenient(line)
        lenient = True
    if not isinstance(value, dict):
        raise RowError(message("not an object but {kind}", kind=_kind(value)))
    return value, lenient


def _load_lenient(line: bytes) -> object:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RowError(message("not valid UTF-8 (byte {byte})", byte=error.start)) from None
    if "\0" in text:
        raise RowError(message("holds NUL bytes"))
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RowError(
            message("not valid JSON: {why} (column {column})", why=error.msg, column=error.colno)
        ) from None
    except (ValueError, RecursionError) as error:
        raise RowError(message("not valid JSON: {why}", why=str(error))) from None


def parse_record(record: dict[str, Any]) -> ParsedRow:
    """Return the row of a dict with the canonical fields, whatever its types.

    Raises:
        RowError: a required field is missing or means nothing.
    """
    for name in REQUIRED:
        if name not in record:
            raise RowError(message("no {field}", field=name))
    step, coerced = _step_of(record["step"])
    prompt, response = _text(record, "prompt"), _text(record, "response")
    oddities: list[str] = []
    rewards, as_text = _rewards(record, oddities)
    if coerced or as_text:
        oddities.append("coerced")
    reference = record.get("ref_response")
    if reference is not None and not isinstance(reference, str):
        oddities.append("not_text")
        reference = None
    finish = _finish(record, oddities)
    oddities += mended(record)
    tokens = _tokens(record, oddities)
    tokens.mask = _mask(record, tokens.size)
    extras, parts, not_taken = _extras(record)
    kept = {name: record[name] for name in KEPT if record.get(name) is not None}
    group = record.get("group_id")
    if group != group:  # NaN: nothing marks the group
        group = None
    reason = next((record[name] for name in FINISH_FIELDS if record.get(name) is not None), None)
    more = beside(record, step, prompt, response, reason)
    return ParsedRow(
        step, prompt, response, rewards, reference, group, finish, tokens, extras, kept, parts,
        oddities, not_taken, more,
    )  # fmt: skip


def _rewards(
    record: dict[str, Any], oddities: list[str]
) -> tuple[tuple[float, float, float, float], bool]:
    """Return the four rewards, and whether any was logged as text."""
    try:
        reward, coerced = number_of(record["reward"])
    except ValueError:
        raise RowError(
            message("reward is not a number: {value}", value=f"{record['reward']!r:.60}")
        ) from None
    others = []
    for name in SCALARS:
        try:
            number, as_text = number_of(record.get(name))
        except ValueError:
            number, as_text = NAN, False
            oddities.append("not_a_number")
        coerced = coerced or as_text
        others.append(number)
    return (reward, others[0], others[1], others[2]), coerced


def _tokens(record: dict[str, Any], oddities: list[str]) -> TokenFields:
    fields = TokenFields()
    tokens = record.get("response_tokens")
    if isinstance(tokens, list) and set(map(type, tokens)) <= {str}:
        fields.tokens = tokens
        fields.fit(len(tokens))
    elif tokens is not None:
        oddities.append("not_tokens")
    for name in TOKEN_ARRAYS:
        values = record.get(name)
        if values is None or values == []:
            continue
        if fields.size > 0 and isinstance(values, (int, float)):
            # One advantage for the whole response, as GRPO has it.
            values = [values] * fields.size
        try:
            floats, odd = _floats_of(values)
        except ValueError:
            oddities.append("nested")
            continue
        if odd:
            oddities.append("array_strings")
        fields.buffers[name] = memoryview(floats.tobytes())
        fields.fit(len(floats))
    return fields


def _extras(
    record: dict[str, Any],
) -> tuple[list[tuple[str, float | str]], list[str], list[tuple[str, str]]]:
    """Return the further scalars, the names of the reward's parts, and what is no scalar."""
    named, names = dict(record), []
    parts = record.get("reward_parts")
    if isinstance(parts, dict):
        # A part of a field's name is none of it.
        parts = {f"{name}_logged" if name in NO_COLUMN else name: parts[name] for name in parts}
        names = [safe_text(str(part)) for part in parts]
        # A part that is logged as a column too counts once.
        named.update(parts)
    extras: list[tuple[str, float | str]] = []
    not_taken: list[tuple[str, str]] = []
    for name, value in named.items():
        if name in NO_COLUMN:
            continue
        if isinstance(value, (bool, int, float)):
            extras.append((safe_text(str(name)), number_of(value)[0]))
        elif isinstance(value, str) and len(value) <= LONGEST_EXTRA:
            extras.append((safe_text(str(name)), safe_text(value)))
        elif value and name not in CANONICAL:
            not_taken.append((safe_text(str(name)), kind_of(value)))
    return extras, names, not_taken


def _mask(record: dict[str, Any], size: int) -> bytes | None:
    """Return which tokens the policy sampled: as logged, else as the turns' spans say."""
    if (logged := record.get("response_mask")) is not None:
        return bytes(map(bool, logged))
    given = [t["tokens"] for t in record.get("turns") or () if not t["sampled"] and "tokens" in t]
    if not given:
        return None
    mask = bytearray(b"\1" * size)
    for start, stop in given:
        mask[start:stop] = bytes(stop - start)
    return bytes(mask)


def _finish(record: dict[str, Any], oddities: list[str]) -> float:
    for name in FINISH_FIELDS:
        reason = record.get(name)
        if reason is None:
            continue
        known = FINISH_REASONS.get(str(reason).lower())
        if known is not None:
            return known
        oddities.append("reasonless")
    return NAN


def _step_of(value: object) -> tuple[int, bool]:
    """Return a step that float64 holds exactly, and whether it was logged as no integer."""
    if isinstance(value, bool) or value is None:
        raise RowError(message("step is {value}", value=json.dumps(value)))
    try:
        whole = isinstance(value, float) and value.is_integer()
        if not (whole or isinstance(value, int | str)):
            raise ValueError
        step = int(value)  # type: ignore[call-overload]
    except ValueError:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
        raise RowError(message("step is not an integer: {value}", value=shown)) from None
    if abs(step) > LARGEST_STEP:
        raise RowError(message("step is beyond ±2^53"))
    return step, not isinstance(value, int)


def number_of(value: object) -> tuple[float, bool]:
    """Return a number (NaN for null and what overflows), and whether it was logged as text."""
    if value is None:
        return math.nan, False
    if isinstance(value, (bool, int, float)):
        try:
            return float(value), False
        except OverflowError:
            return math.nan, False
    if isinstance(value, str):
        if value in ("True", "true", "False", "false"):
            return float(value in ("True", "true")), True
        return float(value), True
    raise ValueError


def _floats_of(values: object) -> tuple[Floats, bool]:
    """Return a list of numbers as float64 (T,), and whether text or booleans stood among them.

    A list of lists that holds as many numbers as lists, such as one of one number each, is
    taken for a flat one.
    """
    if not isinstance(values, list):
        raise ValueError
    if set(map(type, values)) <= {float}:
        return np.array(values, dtype=np.float64), False
    flat = list(_flattened(values))
    if len(flat) != len(values):
        raise ValueError
    odd = any(isinstance(value, (str, bool)) for value in flat)
    return np.array([number_of(value)[0] for value in flat], dtype=np.float64), odd


def _flattened(values: list[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        else:
            yield value


def _text(record: dict[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise RowError(message("{field} is not text but {kind}", field=name, kind=_kind(value)))
    return value


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return message("true or false")
    if isinstance(value, int | float):
        return message("a number")
    kinds: dict[type, str] = {
        dict: message("an object"),
        list: message("a list"),
        str: message("text"),
    }
    return kinds.get(type(value), type(value).__name__)
