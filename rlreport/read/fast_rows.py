"""The fast path: well-formed native lines, without Python objects for their arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import simdjson

from rlreport.fields import NO_COLUMN, REQUIRED, TOKEN_ARRAYS
from rlreport.read.batch import NAN, RawTokens, TokenFields
from rlreport.read.fields import (
    COUNTED_ONLY,
    FINISH_FIELDS,
    FINISH_REASONS,
    LONGEST_EXTRA,
    SCALARS,
)
from rlreport.read.marks import Place
from rlreport.read.row_writer import RowValues, RowWriter
from rlreport.read.tolerant import LARGEST_STEP
from rlreport.text.clean import safe_text

REFUSED = (ValueError, RuntimeError, TypeError, AttributeError, LookupError)
"""What the parser raises on bad JSON, and on values of another type than asked for."""

_MOST_SCHEMAS = 4096


class _Unexpected(Exception):
    """A value is not of the usual type: the tolerant path has to look at the row."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """What objects with the same keys in the same order hold; names of fields, "" if absent."""

    scalars: tuple[str, ...]
    arrays: tuple[str, ...]
    tokens: bool
    reference: bool
    group: bool
    finish: str
    extras: tuple[str, ...]
    counted: tuple[str, ...]


class ParsedLine(NamedTuple):
    """What a line holds, for ``RowWriter``; nothing of it refers to the parser."""

    values: RowValues
    tokens: TokenFields
    extras: list[tuple[str, float | str]]
    counted: dict[str, object]

    def texts(self) -> dict[str, Any]:
        """Return the fields that are texts, as a canonical record has them."""
        values = self.values
        return {
            "prompt": values.prompt,
            "response": values.response,
            "ref_response": values.reference,
            **self.counted,
        }


class FastRows:
    """Reads lines into a writer's batch, as long as every value is of the usual type."""

    def __init__(self, file: int, writer: RowWriter) -> None:
        self._file = file
        self._writer = writer
        self._parser = simdjson.Parser()
        self._schemas: dict[tuple[str, ...], _Schema | None] = {}

    def read(self, line_number: int, offset: int, line: bytes) -> ParsedLine | None:
        """Read a line; None, and nothing is done, where any value is out of the ordinary."""
        parsed = self._parsed(line)
        if parsed is None:
            return None
        batch = self._writer.batch
        for name, value in parsed.extras:
            batch.add_extra(name, value)
        for name in parsed.counted:
            batch.count(name)
        place = Place(self._file, offset, line_number)
        self._writer.add(parsed.values, parsed.tokens, place, len(line))
        return parsed

    def _parsed(self, line: bytes) -> ParsedLine | None:
        try:
            document: Any = self._parser.parse(line)
            if type(document) is not simdjson.Object:
                return None
            schema = self._schema(tuple(document.keys()))
            if schema is None:
                return None
            tokens = _tokens(document, schema)
            return ParsedLine(
                _values(document, schema),
                tokens,
                _extras(document, schema),
                _counted(document, schema),
            )
        except (_Unexpected, *REFUSED):
            return None

    def _schema(self, names: tuple[str, ...]) -> _Schema | None:
        try:
            return self._schemas[names]
        except KeyError:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            schema = self._schemas[names] = _schema_of(names)
            return schema


def _tokens(document: Any, schema: _Schema) -> TokenFields:
    tokens: RawTokens | None = None
    buffers: dict[str, memoryview] = {}
    size, uneven = -1, False
    if schema.tokens and (array := document["response_tokens"]) is not None:
        size = len(array)
        tokens = RawTokens(array.mini, size)
        # Ids in place of strings, say; what is odd further in is found with the batch.
        if size and not tokens.text.startswith(b'["'):
            raise _Unexpected
    for name in schema.arrays:
        array = document[name]
        if array is None or not (count := len(array)):
            continue
        buffer = buffers[name] = memoryview(array.as_buffer(of_type="d"))
        # The buffer of a list of lists is flat, and longer than the list.
        if buffer.nbytes != 8 * count:
            raise _Unexpected
        if count != size:
            uneven = uneven or size >= 0
            size = min(size, count) if size >= 0 else count
    return TokenFields(tokens, buffers, size, uneven)


def _values(document: Any, schema: _Schema) -> RowValues:
    step, prompt, response = document["step"], document["prompt"], document["response"]
    reference = document["ref_response"] if schema.reference else None
    group = document["group_id"] if schema.group else None
    if (
        type(step) is not int
        or type(prompt) is not str
        or type(response) is not str
        or not -LARGEST_STEP <= step <= LARGEST_STEP
        or (reference is not None and type(reference) is not str)
        or (group is not None and type(group) not in (str, int))
    ):
        raise _Unexpected
    finish = NAN
    if schema.finish:
        finish = FINISH_REASONS.get(document[schema.finish], -1.0)
        if finish < 0:
            raise _Unexpected
    reward = document["reward"]
    if reward is None:
        raise _Unexpected
    ref_reward, valid_reward, ref_valid_reward = schema.scalars
    rewards = (
        _number(reward),
        _number(document[ref_reward]) if ref_reward else NAN,
        _number(document[valid_reward]) if valid_reward else NAN,
        _number(document[ref_valid_reward]) if ref_valid_reward else NAN,
    )
    return RowValues(step, prompt, response, rewards, reference, group, finish)


def _number(value: object) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if value is None:
        return NAN
    raise _Unexpected


def _extras(document: Any, schema: _Schema) -> list[tuple[str, float | str]]:
    extras: list[tuple[str, float | str]] = []
    for name in schema.extras:
        value = document[name]
        if type(value) in (float, int, bool):
            extras.append((name, float(value)))
        elif type(value) is str and len(value) <= LONGEST_EXTRA:
            extras.append((name, safe_text(value)))
    return extras


def _counted(document: Any, schema: _Schema) -> dict[str, object]:
    """Return the fields that are only counted; what is no text or number is left with None."""
    counted: dict[str, object] = {}
    for name in schema.counted:
        value = document[name]
        if value is not None:
            counted[name] = value if type(value) in (str, int, float, bool) else None
    return counted


def _schema_of(names: tuple[str, ...]) -> _Schema | None:
    """Return what such objects hold, or None where the tolerant path has to look at them."""
    present = frozenset(names)
    if len(present) < len(names) or not present.issuperset(REQUIRED):
        return None
    # Fields that only other frameworks' formats carry are left to the tolerant path.
    finish = [name for name in FINISH_FIELDS if name in present]
    if len(finish) > 1 or "reward_parts" in present or "prompt_turns" in present:
        return None
    # The parser looks fields up by names that end at a NUL.
    if any("\0" in name for name in names):
        return None
    return _Schema(
        scalars=tuple(name if name in present else "" for name in SCALARS),
        arrays=tuple(name for name in TOKEN_ARRAYS if name in present),
        tokens="response_tokens" in present,
        reference="ref_response" in present,
        group="group_id" in present,
        finish=finish[0] if finish else "",
        extras=tuple(name for name in names if name not in NO_COLUMN),
        counted=tuple(name for name in COUNTED_ONLY if name in present),
    )
