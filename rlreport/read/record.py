"""Check one logged object and convert it to a row."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

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
from rlreport.figures.turns import (
    Ending,
    RowMetadata,
    ending_of,
    normalize_turns_and_mask,
    row_metadata,
)
from rlreport.formats.judged import judges_texts
from rlreport.formats.logged import SHORT
from rlreport.formats.metric_rows import is_event
from rlreport.read.grades import missing_grade
from rlreport.read.vocabulary import Numbers
from rlreport.system import coerce
from rlreport.tables import NoteKind
from rlreport.text.clean import safe_text, safe_value
from rlreport.text.messages import message, translatable
from rlreport.text.secrets import is_api_key

NAN = float("nan")
FLOAT_BYTES = 8  # of a float64
ID_BYTES = 4  # of an int32
# Standard fields kept in ``ParsedRow.carried``; the response table only stores whether they exist
_CARRIED = frozenset(
    (
        "ground_truth",
        "token_ids",
        "prompt_turns",
        "prompt_token_strings",
        "turns",
        "response_mask",
        "policy_version",
        "errors",
        "seconds",
        "trainable",
        "filtered_out",
        "rollout_id",
    )
)

_END_FIELDS = ("finish_reason", "stop_reason", "stop_condition", "termination_reason")
_COMPLETED = "is_completed"  # of agents: whether the task was done
_ANY_ENDING = frozenset((*_END_FIELDS, _COMPLETED))
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
    """The tokens of a row, and its arrays with one number per token, as logged."""

    # int32, the ids of token strings; None if they are not logged
    ids: bytes | None = None
    text: str = ""  # the token strings joined
    # float64, those in TOKEN_ARRAYS
    arrays: dict[str, bytes] = field(default_factory=dict)
    size: int = -1  # number of tokens, -1 if the row has neither strings nor arrays
    # whether token strings or arrays were logged that were longer than the shortest of them
    uneven: bool = False
    # 1 per sampled token, 0 per other; None if all are sampled
    mask: bytes | None = None

    def fit(self, size: int) -> None:
        """Reckon with a further array of ``size`` values: the shortest one counts."""
        if self.size < 0:
            self.size = size
        elif size != self.size:
            self.uneven = True
            self.size = min(self.size, size)

    def cut(self) -> None:
        """Cut token strings and arrays to the shortest."""
        if self.ids is not None:
            self.ids = self.ids[: ID_BYTES * self.size]
        for name, values in self.arrays.items():
            self.arrays[name] = values[: FLOAT_BYTES * self.size]


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
    # further standard field (see ``_CARRIED``) -> value as logged
    carried: Mapping[str, object]
    parts: Sequence[str]  # names of the extras that are components of the reward
    oddities: Sequence[NoteKind]  # of repaired or dropped values
    metadata: RowMetadata
    # 0 if the reward is valid, else why not: a code of ``grades.Missing``
    missing_grade: int
    judged: Mapping[str, str]  # name -> what a judge read or wrote


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
    """Parse JSON with NaN, lone surrogates or large integers; raise RowError if it is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RowError(
            message("not valid UTF-8 (byte {byte})", byte=error.start)
        ) from None
    if "\0" in text:
        raise RowError(message("contains NUL bytes"))
    try:
        return safe_value(json.loads(text))
    except json.JSONDecodeError as error:  # a ValueError, but with a position
        raise RowError(
            message(
                "not valid JSON: {why} (column {column})",
                why=error.msg,
                column=error.colno,
            )
        ) from None
    except (ValueError, RecursionError) as error:
        raise RowError(message("not valid JSON: {why}", why=str(error))) from None


_TEXTS = frozenset(("prompt", "response"))


def parse_record(record: dict[str, Any], numbers: Numbers) -> ParsedRow:
    """Parse a dict with the standard field names (``fields.CANONICAL``), or raise RowError.

    ``numbers`` gives token strings their ids.
    """
    for name in REQUIRED:
        if name not in record:
            if _TEXTS.isdisjoint(record) and is_event(record):
                raise RowError(
                    message("trainer metrics, not a response; give them as metrics")
                )
            raise RowError(message("{field} is missing", field=name))
    oddities: list[NoteKind] = []  # the functions below add theirs
    step = _step_of(record["step"])
    prompt = _text(record, "prompt")
    response = _text(record, "response")
    rewards = _rewards(record, oddities)
    reference = record.get("ref_response")
    if reference is not None and not isinstance(reference, str):
        oddities.append(NoteKind.NOT_TEXT)
        reference = None
    ending = _ending(record, oddities)
    tokens = _tokens(record, numbers, oddities)
    if tokens.text == response:
        tokens.text = response  # one copy takes less memory
    # It removes what is invalid from ``record``; only then are turns and mask used.
    problems = normalize_turns_and_mask(record, tokens.size, cut=tokens.uneven)
    oddities += map(NoteKind, problems)
    tokens.mask = _mask(record, tokens.size)
    extras, parts = _extras(record)
    carried = {
        name: value
        for name, value in record.items()
        if name in _CARRIED and value is not None
    }
    group = record.get("group_id")
    # NaN is not a group. ``str`` may raise RecursionError, which the caller reports as a bad row.
    group = None if group is None or group != group else str(group)
    return ParsedRow(
        step=step,
        prompt=prompt,
        response=response,
        rewards=rewards,
        reference=reference,
        group=group,
        ending=ending,
        tokens=tokens,
        extras=extras,
        carried=carried,
        parts=parts,
        oddities=oddities,
        metadata=row_metadata(record, step, prompt, response),
        missing_grade=missing_grade(record, null=coerce.is_null(record["reward"])),
        judged=judges_texts(record),
    )


def _rewards(
    record: dict[str, Any], oddities: list[NoteKind]
) -> tuple[float, float, float, float]:
    """Return the numbers of REWARDS, NaN for what is absent or, other than ``reward``, invalid."""
    rewards = []
    for name in REWARDS:
        value = record.get(name)
        number = NAN
        try:
            number = _number(value)
        except RowError:
            if name == "reward":
                text = message(
                    "reward is not a number: {value}", value=f"{value!r:.60}"
                )
                raise RowError(text) from None
            oddities.append(NoteKind.NOT_A_NUMBER)
        rewards.append(number)
    return tuple(rewards)  # type: ignore[return-value]


def _number(value: object) -> float:
    number = coerce.number(value)
    return number if abs(number) <= LARGEST_NUMBER else NAN


def _put_strings(fields: TokenFields, tokens: Any, numbers: Numbers) -> bool:
    """Put a row's token strings into its fields; return whether they are strings."""
    if not isinstance(tokens, list):
        return False
    try:
        # Joining is several times faster than checking each type, and raises TypeError, too.
        fields.text = "".join(tokens)
    except TypeError:
        return False
    fields.ids = numbers.of(tokens).tobytes()
    fields.fit(len(tokens))
    return True


def _tokens(
    record: dict[str, Any], numbers: Numbers, oddities: list[NoteKind]
) -> TokenFields:
    """Return a row's tokens and arrays; move a single advantage of a row without tokens.

    That becomes the field ``advantage`` of ``record``, an extra column.
    """
    fields = TokenFields()
    tokens: Any = record.get("response_tokens")
    if tokens is not None and not _put_strings(fields, tokens, numbers):
        oddities.append(NoteKind.NOT_TOKENS)
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
            oddities.append(NoteKind.NESTED)
            continue
        fields.arrays[name] = floats
        fields.fit(len(floats) // FLOAT_BYTES)
    if fields.uneven:
        fields.cut()
    return fields


# Stands for the key of an interface that rows log
HIDDEN = "[secret]"


def _extras(record: dict[str, Any]) -> tuple[list[tuple[str, float | str]], list[str]]:
    """Return (name, value) of scalars that are not canonical fields, and names of reward parts."""
    named = record
    names = []  # of the parts
    parts = record.get("reward_parts")
    if isinstance(parts, dict):
        # A reward part may have the name of a canonical field; rename the part.
        parts = {
            f"{name}_logged" if name in NO_COLUMN else name: parts[name]
            for name in parts
        }
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
            text = HIDDEN if is_api_key(str(name), value) else safe_text(value)
            extras.append((safe_text(str(name)), text))
    return extras, names


def _mask(record: dict[str, Any], size: int) -> bytes | None:
    """Return 1 per sampled and 0 per other token of ``size``; None if nothing shows it.

    That is the logged mask, or else the token spans of turns that the policy did not write.
    """
    logged = record.get("response_mask")
    if logged is not None:
        return bytes(map(bool, logged))
    spans = []
    for turn in record.get("turns") or ():
        if not turn["sampled"] and "tokens" in turn:
            spans.append(turn["tokens"])
    if not spans or size < 0:
        return None
    mask = bytearray(b"\1" * size)
    for start, stop in spans:
        mask[start:stop] = bytes(stop - start)
    return bytes(mask)


def _ending(record: dict[str, Any], oddities: list[NoteKind]) -> Ending | None:
    """Return how a response ended by its logged reasons, None if the log does not say."""
    if _ANY_ENDING.isdisjoint(record):
        return None
    logged = [record.get(name) for name in _END_FIELDS]
    reasons = [reason for reason in logged if reason is not None]
    endings = [ending for ending in map(ending_of, reasons) if ending]
    completed = record.get(_COMPLETED)
    for ending in endings:
        # The last reply of a conversation may end by itself although a limit stopped it then.
        if ending is not Ending.FINISHED:
            return ending
    if completed is False:
        return Ending.UNFINISHED
    if endings or completed is True:
        return Ending.FINISHED
    if reasons:
        oddities.append(NoteKind.REASONLESS)
        return Ending.OTHER
    return None


def _step_of(value: object) -> int:
    """Return a step; raise RowError if it is no integer up to ±LARGEST_STEP."""
    if isinstance(value, bool) or value is None:
        raise RowError(
            message("step is {value}, not an integer", value=json.dumps(value))
        )
    step = value if isinstance(value, int) else coerce.integer(value)
    if step is None:
        raise RowError(
            message("step is not an integer: {value}", value=f"{value!r:.40}")
        )
    if abs(step) > LARGEST_STEP:
        raise RowError(message("step is beyond ±2^53"))
    return step


def _floats_of(values: object) -> bytes:
    """Return a list of numbers as float64, NaN for null; raise RowError for anything else."""
    if not isinstance(values, list):
        raise RowError
    try:
        # Conversion to an array, by its module or by NumPy, takes half as long again.
        return struct.pack(f"{len(values)}d", *values)
    except struct.error:  # null, text, lists, integers beyond float64
        return struct.pack(f"{len(values)}d", *map(coerce.number, values))


def _text(record: dict[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise RowError(
            message("{field} must be text, found {kind}", field=name, kind=_kind(value))
        )
    return value


def _kind(value: object) -> str:
    return "null" if value is None else message(_KINDS[kind_of(value)])
