"""Helpers of log formats: track the keys that are read, convert values."""

from __future__ import annotations

import math
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rlreport.errors import RowError, UnreadRow
from rlreport.fields import CANONICAL
from rlreport.formats.base import FileStamp, Row, Where
from rlreport.formats.judged import judges_texts
from rlreport.system import coerce
from rlreport.system.documents import MAX_JSON, LimitError, load_json, read_bounded
from rlreport.text.messages import message

Entry = TypeVar("Entry")

# Maximum characters of a string that becomes a column; longer strings are not scalars
SHORT = 200

# Levels of nested dicts whose keys are tracked: e.g. an episode's traces, and their nodes
_TRACKED_LEVELS = 2

# A step in a path, such as ``global_step_12/``, ``iter-12/`` or ``train_step_12.jsonl``
STEP_WORD = re.compile(
    r"(?<![a-z])(?:step|iter|iteration|checkpoint|ckpt)[_=-]?(\d+)", re.IGNORECASE
)


class KeyTracker(dict[str, Any]):
    """A logged object (dict) that records which of its keys are read with ``get`` or ``[]``."""

    def __init__(self, obj: dict[str, Any], depth: int = 0) -> None:
        """Track an object that is ``depth`` levels inside the logged one."""
        super().__init__({key: _tracked(value, depth) for key, value in obj.items()})
        self.plain = obj
        self.read: set[str] = set()
        # Objects made from this one, by ``entry_of``; if any, only their keys are tracked.
        self.entries: list[KeyTracker] = []

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def unread(self, prefix: str = "") -> Iterator[tuple[str, object]]:
        """Yield the dotted name and the value of each key that was not read and is not empty."""
        if self.entries:
            for entry in self.entries:
                yield from entry.unread(prefix)
            return
        for key, value in self.items():
            if key not in self.read:
                if value not in (None, "", [], {}):
                    yield f"{prefix}{key}", value
                continue
            # Of a value that was read, objects in it may have further keys.
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, KeyTracker):
                    yield from child.unread(f"{prefix}{key}.")


def _tracked(value: Any, depth: int) -> Any:
    """Return a value with its dicts tracked, to _TRACKED_LEVELS; deeper ones are plain."""
    if depth >= _TRACKED_LEVELS:
        return value.plain if isinstance(value, KeyTracker) else value
    if type(value) is dict:
        return KeyTracker(value, depth + 1)
    if type(value) is list and value and all(type(item) is dict for item in value):
        return [KeyTracker(item, depth + 1) for item in value]
    return value


def read_all(obj: dict[str, Any]) -> Row:
    """Return a plain copy of an object; mark all keys as read by emptying a ``KeyTracker``."""
    if not isinstance(obj, KeyTracker):
        return dict(obj)
    obj.clear()
    return dict(obj.plain)


def entry_of(obj: Row, entry: Row) -> Row:
    """Return ``entry``, a dict made from ``obj``; its keys are tracked instead of ``obj``'s."""
    if not isinstance(obj, KeyTracker):
        return entry
    obj.entries.append(KeyTracker(entry, _TRACKED_LEVELS))
    return obj.entries[-1]


def explode(obj: Row, key: str) -> Iterator[Row]:
    """Yield the items of a columnar object, which has lists with one value per item, as objects.

    A value that is no list is that of all items.

    Raises:
        RowError: there is no list under ``key``, or another list is not as long.
    """
    column = obj.get(key)
    if not isinstance(column, list):
        raise RowError(message("{field} is missing or not a list", field=f"`{key}`"))
    size = len(column)
    for name, values in obj.items():
        if isinstance(values, list) and len(values) != size:
            why = message(
                "column {field} has {values} values, {other} has {size}",
                field=f"`{name}`",
                values=len(values),
                other=f"`{key}`",
                size=size,
            )
            raise RowError(why)
    for i in range(size):
        entry: Row = {}
        for name, value in obj.items():
            entry[name] = value[i] if isinstance(value, list) else value
        yield entry_of(obj, entry)


def required(obj: Mapping[str, Any], key: str) -> float | None:
    """Return the reward under ``key``, None for null (not graded); raise RowError without it."""
    if key not in obj:
        raise RowError(message("{field} is missing", field=f"`{key}`"))
    return coerce.grade(obj[key])


def dicts(value: object) -> list[Row]:
    """Return the elements of a list that are dicts, [] if ``value`` is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def mapping(value: object) -> Row:
    """Return a dict unchanged, {} for anything else."""
    return value if isinstance(value, dict) else {}


def from_json(value: Any) -> Any:
    """Parse a string or bytes as JSON, None if invalid; return other values unchanged."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return load_json(value.encode() if isinstance(value, str) else value)
    except ValueError:
        return None


def json_object(data: bytes | str) -> Row:
    """Parse a JSON object; return {} for anything else, such as an incomplete last line."""
    return mapping(from_json(data))


def total(parts: Iterable[float]) -> float | None:
    """Return the sum of the parts that are not NaN, None if all are NaN."""
    numbers_only = [part for part in parts if not math.isnan(part)]
    return math.fsum(numbers_only) if numbers_only else None


_CRITERION = ("name", "criterion", "criteria", "question")
_REASONS = ("reasons", "reason", "explanation", "judge_response")
# Characters; longer criteria are written for one prompt, so they are no parts of the reward
_LONGEST_CRITERION = 60


def rubric(obj: Row) -> tuple[dict[str, float], str]:
    """Return (criterion -> score, the judge's reasons as text) of rubrics, ({}, "") without any.

    A rubric is a list of criteria, each a dict with a name (short, else left out) and a score. It
    may be under any key of ``obj``.
    """
    parts: dict[str, float] = {}
    reasons: list[str] = []
    for key, value in obj.items():
        if not _is_rubric(dicts(value)):
            continue
        # Only now by ``get``, which marks the key as recognized
        for criterion in map(read_all, dicts(obj.get(key))):
            name = coerce.text(first_of(criterion, _CRITERION))
            score = coerce.real(criterion["score"])
            if score is not None and len(name) <= _LONGEST_CRITERION:
                parts[name] = score
            reason = first_of(criterion, _REASONS)
            # A list has an item, as ``first_of`` skips empty values.
            reason = reason[0] if isinstance(reason, list) else reason
            text = f"{name}: {coerce.text(criterion['score'])}. {coerce.text(reason)}"
            reasons.append(text.strip())
    return parts, "\n".join(reasons)


def _is_rubric(criteria: Sequence[Row]) -> bool:
    if not criteria:
        return False
    return all("score" in one and first_of(one, _CRITERION) for one in criteria)


def first_of(obj: Row, keys: Collection[str]) -> Any:
    """Return the first value under ``keys`` that is not empty, None without any."""
    return next((obj[key] for key in keys if obj.get(key)), None)


def _advantages(value: Any) -> list[float] | float | None:
    """Convert advantages: one per token, or one for the whole response."""
    return coerce.numbers(value) if isinstance(value, list) else coerce.real(value)


def _error_texts(errors: Any) -> list[str] | None:
    texts = [coerce.text(error) for error in errors or () if error]
    return texts or None


def _none_if_empty(parts: Any) -> Any:
    return parts or None


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "group_id": coerce.text_if_any,
    "rollout_id": coerce.text_if_any,
    "ground_truth": coerce.text_if_any,
    "dataset": coerce.text_if_any,
    "finish_reason": coerce.string,
    "agent": coerce.string,
    "env": coerce.string,
    "task": coerce.string,
    "model": coerce.string,
    "logprobs": coerce.numbers,
    "sampler_logprobs": coerce.numbers,
    "ref_logprobs": coerce.numbers,
    "token_ids": coerce.ints,
    "prompt_token_ids": coerce.ints,
    "ground_truth_ids": coerce.ints,
    "advantages": _advantages,
    "seconds": coerce.real,
    "policy_version": coerce.version_range,
    "errors": _error_texts,
    "reward_parts": _none_if_empty,
}


def fields(**values: Any) -> Row:
    """Return the given fields of a row, converted to their types, without those that are None."""
    row: Row = {}
    for name, value in values.items():
        convert = _CONVERSIONS.get(name)
        typed = value if convert is None else convert(value)
        if typed is not None:
            row[name] = typed
    return row


def columns(obj: Mapping[str, Any], used: Collection[str] = ()) -> Row:
    """Return the extra columns of a row: scalars of ``obj`` under keys that are not in ``used``.

    Texts of a judge, of any length, come on top, see ``judged``. Strings are unquoted. A key with
    the name of a canonical field gets the suffix ``_logged``.
    """
    row: Row = {}
    read = obj.read if isinstance(obj, KeyTracker) else set()
    for key, value in obj.items():
        if key not in used and is_scalar(value):
            # What the log calls ``advantages``, for example, may mean something else.
            name = f"{key}_logged" if key in CANONICAL else key
            row[name] = coerce.unquoted(value) if isinstance(value, str) else value
            read.add(key)
    for name, text in judges_texts(obj).items():
        if name in used:
            continue
        row.setdefault(name, text)
        read.add(name)
        key, _, inner = name.partition(".")
        within = obj.get(key) if name not in obj else None
        if isinstance(within, KeyTracker):
            within.read.add(inner)
    return row


def is_scalar(value: object) -> bool:
    """Return whether a value is a number or a text that is short enough for a column."""
    if isinstance(value, str):
        return len(value) <= SHORT
    return isinstance(value, int | float)


def step_of(
    value: object,
    where: Where,
    pattern: re.Pattern[str] | None = None,
    default: int | None = None,
) -> int:
    """Return the step of a row, or raise RowError if there is none.

    It is ``value`` if that is an integer, else what ``pattern`` finds in the file's path, else the
    step in ``where``, else ``default``.
    """
    in_path = None if pattern is None else step_in_path(where.name, pattern)
    candidates = (coerce.integer(value), in_path, where.step, default)
    step = next((one for one in candidates if one is not None), None)
    if step is None:
        raise RowError(message("no step in the row or in the path"))
    return step


@lru_cache  # called for every row
def step_in_path(name: str, pattern: re.Pattern[str]) -> int | None:
    """Return the step in a path: the pattern's group ``step``, else first group; None if absent."""
    match = pattern.search(name)
    if match is None:
        return None
    named = match.groupdict().get("step")
    # Of alternatives in a pattern, only one has a group with text.
    return coerce.integer(named or next(filter(None, match.groups()), None))


def failed_fields(prompt: str, *errors: str) -> Row:
    """Return the fields of a rollout that failed: without a response, left out of statistics."""
    row = {"prompt": prompt, "response": "", "reward": None}
    return {**row, "trainable": False, "errors": list(errors)}


def each(entries: Iterable[Entry], row_of: Callable[[Entry], Row]) -> Iterator[Row]:
    """Yield the row of each entry, an ``UnreadRow`` where it cannot be converted."""
    for entry in entries:
        try:
            yield row_of(entry)
        except RowError as error:
            yield UnreadRow(error)


def lines_of(file: FileStamp) -> Iterator[Row]:
    """Yield the object in each line of a file, {} for a line that is not a JSON object."""
    with Path(file.path).open("rb") as lines:
        yield from map(json_object, lines)


def document_of(file: FileStamp) -> Row:
    """Return the JSON object in a file, {} if it is unreadable, too large or not an object."""
    try:
        return json_object(read_bounded(Path(file.path), MAX_JSON))
    except (OSError, LimitError):
        return {}


def error_text(error: object, *keys: str) -> str:
    """Join the texts under ``keys`` (default: type, message) of an error by ": "; "" if none."""
    parts = [mapping(error).get(key) for key in keys or ("type", "message")]
    return ": ".join(coerce.text(part) for part in parts if part)


def seconds_of(times: Row, *keys: str) -> float | None:
    """Return the first duration that is logged under ``keys`` (in ms) as seconds, else None."""
    key = next((key for key in keys if key in times), None)
    millis = None if key is None else coerce.real(times[key])
    return None if millis is None else millis / 1000
