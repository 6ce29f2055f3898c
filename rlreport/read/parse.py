"""Lines to rows: pysimdjson for what is of the usual types, the tolerant reader for all else."""

from __future__ import annotations

from typing import Any, NamedTuple

from rlreport.fields import CANONICAL, LARGEST_STEP, NO_COLUMN, REQUIRED, TOKEN_ARRAYS
from rlreport.figures.conversation import says_more
from rlreport.read.batch import LONGEST_EXTRA, NAN, ParsedRow, RawTokens, TokenFields
from rlreport.read.conversation import BESIDE, NOTHING, beside, mask_of_json
from rlreport.read.tolerant import (
    FINISH_FIELDS,
    FINISH_REASONS,
    KEPT,
    SCALARS,
    load_object,
    parse_record,
)
from rlreport.text.clean import safe_text

try:
    import simdjson
except ImportError:  # no wheel for this Python yet
    simdjson = None  # type: ignore[assignment]

_REFUSED = (ValueError, RuntimeError, TypeError, AttributeError, LookupError)
"""What the parser raises on bad JSON, and on values of another type than asked for."""

_MOST_SCHEMAS = 4096
_ARRAY: Any = simdjson.Array if simdjson else None
_KINDS = {str: "text"} | ({simdjson.Array: "list"} if simdjson else {})


class LineParser:
    """Parses native lines."""

    def __init__(self) -> None:
        self._usual = _UsualLines() if simdjson else None

    def parse(self, line: bytes) -> ParsedRow:
        """Return the row of a line; nothing of it refers to the parser.

        Raises:
            RowError: nothing can be made of it.
        """
        row = self._usual.parse(line) if self._usual else None
        if row is not None:
            return row
        record, lenient = load_object(line)
        row = parse_record(record)
        return row._replace(oddities=[*row.oddities, "tolerant"]) if lenient else row


class _Unusual(Exception):
    """A value is not of the usual type: the tolerant reader has to look at the row."""


class _Schema(NamedTuple):
    """What objects with the same keys in the same order hold; ``finish`` is "" if absent."""

    present: frozenset[str]
    finish: str
    arrays: tuple[str, ...]
    extras: tuple[str, ...]
    kept: tuple[str, ...]
    beside: tuple[str, ...]


class _UsualLines:
    """Lines in which every value is of the usual type; arrays need no Python object a number."""

    def __init__(self) -> None:
        self._parser = simdjson.Parser()
        self._schemas: dict[tuple[str, ...], _Schema | None] = {}

    def parse(self, line: bytes) -> ParsedRow | None:
        """Return the row of a line, None where any value is out of the ordinary."""
        try:
            document: Any = self._parser.parse(line)
            if type(document) is not simdjson.Object:
                return None
            schema = self._schema(tuple(document.keys()))
            return None if schema is None else _row(document, schema)
        except (_Unusual, *_REFUSED):
            return None

    def _schema(self, names: tuple[str, ...]) -> _Schema | None:
        if names not in self._schemas:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[names] = _schema_of(names)
        return self._schemas[names]


def _row(document: Any, schema: _Schema) -> ParsedRow:
    step, prompt, response = document["step"], document["prompt"], document["response"]
    present = schema.present
    reference = document["ref_response"] if "ref_response" in present else None
    group = document["group_id"] if "group_id" in present else None
    if (
        type(step) is not int
        or type(prompt) is not str
        or type(response) is not str
        or not -LARGEST_STEP <= step <= LARGEST_STEP
        or (reference is not None and type(reference) is not str)
        or (group is not None and type(group) not in (str, int))
    ):
        raise _Unusual
    finish, reason = NAN, None
    if schema.finish:
        reason = document[schema.finish]
        if (finish := FINISH_REASONS.get(reason, -1.0)) < 0:
            raise _Unusual
    reward = document["reward"]
    if reward is None:
        raise _Unusual
    others = (_number(document[name]) if name in present else NAN for name in SCALARS)
    ref_reward, valid_reward, ref_valid_reward = others
    rewards = (_number(reward), ref_reward, valid_reward, ref_valid_reward)
    extras: list[tuple[str, float | str]] = []
    not_taken: list[tuple[str, str]] = []
    for name in schema.extras:
        value = document[name]
        if type(value) in (float, int, bool):
            extras.append((name, float(value)))
        elif type(value) is str and len(value) <= LONGEST_EXTRA:
            extras.append((name, safe_text(value)))
        elif value is not None and len(value) and name not in CANONICAL:
            not_taken.append((name, _KINDS.get(type(value), "object")))
    kept: dict[str, object] = {}
    for name in schema.kept:
        value = document[name]
        if value is not None:
            kept[name] = value if type(value) in (str, int, float, bool) else None
    tokens = _tokens(document, schema)
    more = {name: _plain(document[name]) for name in schema.beside}
    if more.get("turns") is not None:
        raise _Unusual
    said = NOTHING
    if more or finish == 0 or says_more(prompt, response):  # it may have ended for its turns
        said = beside(more, step, prompt, response, reason)
    return ParsedRow(
        step, prompt, response, rewards, reference, group, finish, tokens, extras, kept,
        not_taken=not_taken, beside=said,
    )  # fmt: skip


def _tokens(document: Any, schema: _Schema) -> TokenFields:
    fields = TokenFields()
    if "response_tokens" in schema.present and (array := document["response_tokens"]) is not None:
        if type(array) is not _ARRAY:
            raise _Unusual
        fields.tokens = RawTokens(array.mini, len(array))
        fields.fit(len(array))
        # Ids in place of strings, say; what is odd further in is found with the batch.
        if len(array) and not fields.tokens.text.startswith(b'["'):
            raise _Unusual
    for name in schema.arrays:
        array = document[name]
        if array is None:
            continue
        if type(array) is not _ARRAY:
            raise _Unusual
        if not (count := len(array)):
            continue
        buffer = fields.buffers[name] = memoryview(array.as_buffer(of_type="d"))
        # The buffer of a list of lists is flat, and longer than the list.
        if buffer.nbytes != 8 * count:
            raise _Unusual
        fields.fit(count)
    if "response_mask" in schema.present and (array := document["response_mask"]) is not None:
        if type(array) is not _ARRAY:
            raise _Unusual
        fields.mask = mask_of_json(array.mini, len(array))
        if fields.mask is None:
            raise _Unusual
    return fields


def _plain(value: Any) -> Any:
    """Return a value as Python has it."""
    if type(value) is simdjson.Array:
        return value.as_list()
    if type(value) is simdjson.Object:
        return value.as_dict()
    return value


def _number(value: object) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if value is None:
        return NAN
    raise _Unusual


def _schema_of(names: tuple[str, ...]) -> _Schema | None:
    """Return what such objects hold, or None where the tolerant reader has to look at them."""
    present = frozenset(names)
    if len(present) < len(names) or not present.issuperset(REQUIRED):
        return None
    # Fields that only other frameworks' formats carry are left to the tolerant reader.
    finish = [name for name in FINISH_FIELDS if name in present]
    if len(finish) > 1 or "reward_parts" in present or "prompt_turns" in present:
        return None
    # The parser looks fields up by names that end at a NUL.
    if any("\0" in name for name in names):
        return None
    return _Schema(
        present,
        finish[0] if finish else "",
        tuple(name for name in TOKEN_ARRAYS if name in present),
        tuple(name for name in names if name not in NO_COLUMN),
        tuple(name for name in KEPT if name in present),
        tuple(name for name in BESIDE if name in present),
    )
