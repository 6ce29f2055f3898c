"""Helpers of log formats: track the keys that are read, convert values, tokens and metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, TypeVar

from rlreport.errors import MissingExtraError, RowError, UnreadRow, UsageError
from rlreport.fields import CANONICAL, LARGEST_STEP
from rlreport.formats.base import FileStamp, Row, Where
from rlreport.system import coerce
from rlreport.system.documents import MAX_JSON, LimitError, load_json, read_bounded
from rlreport.text.clean import is_special
from rlreport.text.messages import message
from rlreport.text.numbers import byte_size
from rlreport.text.tokens import Style, detect_style, readable_tokens

Entry = TypeVar("Entry")

SHORT = 200  # Maximum characters of a string that becomes a column; longer strings are not scalars
# Levels of nested dicts whose keys are tracked: e.g. an episode's traces, and their nodes
_TRACKED_LEVELS = 2

# A step in a path, such as ``global_step_12/``, ``iter-12/`` or ``train_step_12.jsonl``
STEP_WORD = re.compile(
    r"(?<![a-z])(?:step|iter|iteration|checkpoint|ckpt)[_=-]?(\d+)", re.IGNORECASE
)


class KeyTracker(dict[str, Any]):
    """A logged object (dict) that records which of its keys are read with ``get`` or ``[]``."""

    def __init__(self, obj: dict[str, Any], depth: int = 0) -> None:
        super().__init__({key: _tracked(value, depth) for key, value in obj.items()})
        self.plain = obj
        self.read: set[str] = set()
        self.entries: list[KeyTracker] = []  # if any, only the keys of these are tracked

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
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, KeyTracker):
                    yield from child.unread(f"{prefix}{key}.")


def _tracked(value: Any, depth: int) -> Any:
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
    """Yield an object per item of the lists, all as long as that of ``key``, or raise RowError."""
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
        entry = {name: v[i] if isinstance(v, list) else v for name, v in obj.items()}
        yield entry_of(obj, entry)


def required(obj: Mapping[str, Any], key: str) -> float | None:
    """Return the reward under ``key``, None for null (not graded); raise RowError without it."""
    if key not in obj:
        raise RowError(message("{field} is missing", field=f"`{key}`"))
    return coerce.grade(obj[key])


def dicts(value: object) -> list[Row]:
    """Return the elements of a list that are dicts, [] if ``value`` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def mapping(value: object) -> Row:
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
_LONGEST_CRITERION = 60  # characters; longer criteria belong to one prompt: no reward parts


def rubric(obj: Row) -> tuple[dict[str, float], str]:
    """Return (criterion -> score, the judge's reasons as text) of rubrics, ({}, "") without any.

    A rubric is a list of criteria, each a dict with a name (short, else left out) and a score.
    """
    parts: dict[str, float] = {}
    said: list[str] = []
    for key, value in obj.items():
        judged = dicts(value)
        if not judged or not all("score" in one and first_of(one, _CRITERION) for one in judged):
            continue
        for one in map(read_all, dicts(obj.get(key))):
            name = coerce.text(first_of(one, _CRITERION))
            reason = first_of(one, _REASONS)
            reason = reason[0] if isinstance(reason, list) else reason
            score = coerce.real(one["score"])
            if score is not None and len(name) <= _LONGEST_CRITERION:
                parts[name] = score
            said.append(f"{name}: {coerce.text(one['score'])}. {coerce.text(reason)}".strip())
    return parts, "\n".join(said)


def first_of(obj: Row, keys: Collection[str]) -> Any:
    return next((obj[key] for key in keys if obj.get(key)), None)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("group_id", "rollout_id", "ground_truth", "dataset"), coerce.text_if_any),
    **dict.fromkeys(("finish_reason", "agent", "env", "task", "model"), coerce.string),
    **dict.fromkeys(("logprobs", "sampler_logprobs", "ref_logprobs"), coerce.numbers),
    **dict.fromkeys(("token_ids", "prompt_token_ids", "ground_truth_ids"), coerce.ints),
    "advantages": lambda value: (coerce.numbers if isinstance(value, list) else coerce.real)(value),
    "seconds": coerce.real,
    "policy_version": coerce.version_range,
    "errors": lambda errors: [coerce.text(error) for error in errors or () if error] or None,
    "reward_parts": lambda parts: parts or None,
}


def fields(**values: Any) -> Row:
    """Return the given fields of a row, converted to their types, without those that are None."""
    return {
        name: typed
        for name, value in values.items()
        if (typed := _CONVERSIONS[name](value) if name in _CONVERSIONS else value) is not None
    }


def columns(obj: Mapping[str, Any], used: Collection[str] = ()) -> Row:
    """Return scalars of ``obj`` but ``used``; unquote strings, add _logged to canonical names."""
    row: Row = {}
    taken = obj.read if isinstance(obj, KeyTracker) else set()
    for key, value in obj.items():
        if key not in used and is_scalar(value):
            name = f"{key}_logged" if key in CANONICAL else key  # its meaning may differ
            row[name] = coerce.unquoted(value) if isinstance(value, str) else value
            taken.add(key)
    return row


def is_scalar(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= SHORT)


def step_of(
    value: object,
    where: Where,
    pattern: re.Pattern[str] | None = None,
    default: int | None = None,
) -> int:
    """Return the step of ``value``, else path, ``where``, ``default``; raise RowError if none."""
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
    return coerce.integer(named or next(filter(None, match.groups()), None))


def failed_fields(prompt: str, *errors: str) -> Row:
    row = {"prompt": prompt, "response": "", "reward": None}
    return {**row, "trainable": False, "errors": list(errors)}


def each(entries: Iterable[Entry], row_of: Callable[[Entry], Row]) -> Iterator[Row]:
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


# Maximum bytes of a tokenizer file; the largest tokenizers in use have 33 MB
MOST_BYTES = 500_000_000


class TokenNames:
    """A picklable converter of token ids to strings; without a tokenizer, ``#17`` for token 17."""

    def __init__(self, tokenizer: str | None = None) -> None:
        self._path = tokenizer
        if tokenizer is not None:
            _load(tokenizer)

    def strings(self, ids: Sequence[int]) -> list[str]:
        if self._path is None:
            return [f"#{token}" for token in ids]
        tokenizer, _ = _load(self._path)
        return [tokenizer.id_to_token(token) or f"#{token}" for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text without special tokens; without a tokenizer, ``#17 #19``."""
        if self._path is None:
            return " ".join(self.strings(ids))
        tokens = readable_tokens(self.strings(ids), _load(self._path)[1])
        return "".join(token for token in tokens if not is_special(token))

    def fill(self, row: Row) -> Row:
        """Set missing tokens and texts from token ids, in place; return the row."""
        ids = row.get("token_ids")
        if isinstance(ids, list):
            if row.get("response_tokens") is None:
                row["response_tokens"] = self.strings(ids)
            if row.get("response") is None:
                mask = row.get("response_mask")
                if isinstance(mask, list) and len(mask) == len(ids):
                    ids = list(compress(ids, mask))
                row["response"] = self.text(ids)
        if row.get("prompt") is None and isinstance(row.get("prompt_token_ids"), list):
            row["prompt"] = self.text(row["prompt_token_ids"])
        if "ground_truth_ids" in row:
            row["ground_truth"] = self.text(row.pop("ground_truth_ids"))
        return row


@lru_cache(maxsize=4)
def _load(path: str) -> tuple[Any, Style]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(
            "--tokenizer needs the tokenizers library: pip install 'rlreport[tokenizer]'"
        ) from None
    # Only regular files: reading a pipe or a device might never end.
    if not Path(path).is_file() or Path(path).stat().st_size > MOST_BYTES:
        raise UsageError(f"--tokenizer {path}: must be a file of at most {byte_size(MOST_BYTES)}")
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise UsageError(
            f"{path} is not a tokenizer file of the tokenizers library: {error}"
        ) from None
    vocabulary = tokenizer.get_vocab()
    return tokenizer, detect_style(vocabulary) if vocabulary else Style.PLAIN


def after_prompt(
    obj: Row, ids: Sequence[int], sampled: Sequence[Any], arrays: Mapping[str, str]
) -> Row:
    """Split a token sequence at its first sampled token; return the row's token fields.

    ``sampled`` is true for tokens of the policy; ids beyond its end are padding. ``arrays`` maps
    keys of float arrays in ``obj``, as long as ``ids``, to fields of the row.
    """
    mask = [int(bool(one)) for one in sampled[: len(ids)]]
    first = mask.index(1) if any(mask) else len(mask)
    stop = len(mask)
    floats = {canonical: coerce.numbers(obj.get(name)) for name, canonical in arrays.items()}
    return {
        "prompt_token_ids": ids[:first],
        "token_ids": ids[first:stop],
        "response_mask": mask[first:],
        **{name: values[first:stop] for name, values in floats.items() if values is not None},
    }


def tokens_of_steps(steps: Iterable[tuple[Any, Any, Any]]) -> Row:
    """Join the steps (model calls) of a conversation; return the row's token fields.

    A step is (ids of the prompt, ids of the reply, logprobs of the reply). Return {} if a step has
    no ids, or if a prompt does not begin with the prompt and reply of the step before.
    """
    history: list[int] = []
    row: Row = {}
    for prompt_ids, reply_ids, reply_logprobs in steps:
        prompt = coerce.ints(prompt_ids)
        reply = coerce.ints(reply_ids)
        if not prompt or not reply or prompt[: len(history)] != history:
            return {}
        context = prompt[len(history) :]
        logprobs = coerce.numbers(reply_logprobs) or []
        if len(logprobs) != len(reply):
            logprobs = [math.nan] * len(reply)
        if not row:
            row = {"prompt_token_ids": prompt, "token_ids": [], "response_mask": [], "logprobs": []}
            context = []
        row["token_ids"] += context + reply
        row["response_mask"] += [0] * len(context) + [1] * len(reply)
        row["logprobs"] += [math.nan] * len(context) + logprobs
        history = prompt + reply
    if row and all(map(math.isnan, row["logprobs"])):
        del row["logprobs"]
    return row


def mask_runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of consecutive equal values in a mask."""
    edges = [0, *(i for i in range(1, len(mask)) if mask[i] != mask[i - 1]), len(mask)]
    return list(pairwise(edges)) if mask else []


def set_spans(turns: Sequence[Row], spans: Sequence[tuple[int, int]]) -> None:
    """Set ``tokens`` of turns to (start, stop) of their tokens, if there is a span for each."""
    if len(turns) == len(spans):
        for turn, span in zip(turns, spans, strict=True):
            turn["tokens"] = list(span)


def error_text(error: object, *keys: str) -> str:
    """Join the texts under ``keys`` (default: type, message) of an error by ": "; "" if none."""
    parts = [mapping(error).get(key) for key in keys or ("type", "message")]
    return ": ".join(coerce.text(part) for part in parts if part)


def seconds_of(times: Row, *keys: str) -> float | None:
    """Return the first logged duration under ``keys`` (milliseconds) in seconds, else None."""
    millis = coerce.real(next((times[key] for key in keys if key in times), None))
    return None if millis is None else millis / 1000


def span_turns(row: Row) -> None:
    """Set ``tokens`` of a row's turns to (start, stop) of their tokens, found in the mask.

    Each run of 1 in the mask is a turn of the policy; nothing is set if their numbers differ or the
    mask starts with 0. A single turn between two turns of the policy gets the tokens between them.
    """
    turns = row.get("turns")
    mask = row.get("response_mask")
    if not turns or not mask:
        return
    runs = [run for run in mask_runs(mask) if mask[run[0]]]
    sampled = [i for i, turn in enumerate(turns) if turn["sampled"]]
    if len(runs) != len(sampled) or runs[0][0]:
        return
    set_spans([turns[i] for i in sampled], runs)
    for i in range(1, len(turns) - 1):
        if not turns[i]["sampled"] and {i - 1, i + 1} <= set(sampled):
            turns[i]["tokens"] = [turns[i - 1]["tokens"][1], turns[i + 1]["tokens"][0]]


# Keys under which trainers log the step, most preferred first: rollout before optimizer steps
STEP_KEYS = (
    "grpo_step", "ppo_step", "rollout_step", "rollout/step", "step", "training_step",
    "training/global_step", "train/global_step", "trainer/global_step", "iteration",
    "global_step", "_step", "Step", "global_step/max_steps",  # ms-swift, as "3/100"
    "train/step", "eval/step", "optimizer_step", "optim_step",
)  # fmt: skip

# Keys whose value is the kind of an event, such as ``train`` or ``eval``
KIND_KEYS = frozenset({"type", "kind", "split", "phase", "mode", "event"})

# Keys of a rollout's texts; an object with one of them is not a row of metrics
TEXT_KEYS = frozenset({"prompt", "response", "completion", "input", "output"})

Record = tuple[int, dict[str, float]]  # A step, and its metrics by name, and COUNTERs
_MAX_DEPTH = 16  # Maximum depth to which nested objects are searched for metrics
MAX_NAME = 500  # Maximum length of a metric's name; metrics with longer names are omitted
_STEP_OF_STEPS = re.compile(r"(\d{1,16})/\d+")  # such as "3/100"

# Names of numbers that are not metrics
NO_METRICS = frozenset({*STEP_KEYS, "epoch", "total_flos", "_timestamp", "_runtime", "timestamp"})

COUNTER = "counter of the log: "  # before the keys of numbers of NO_METRICS in a Record
# Numbers of NO_METRICS that belong to the logger: they go on from one start of a run to the next
_OF_THE_LOGGER = frozenset({"_timestamp", "timestamp", "_runtime", "_step", "Step"})

# Kinds of events that report training itself; names of their metrics get no prefix
_TRAINING = re.compile(r"(train|optim|update|learn|step|metric|log|iter|grpo|ppo|rl\b).*")

_KIND = re.compile(r"[a-z][\w.-]{0,39}")

_NON_FINITE = {"NaN", "Infinity", "-Infinity"}  # Strings that stand for non-finite numbers in JSON


def non_finite(value: Any) -> Any:
    """Return the float that a string such as ``Infinity`` stands for; other values unchanged."""
    return float(value) if isinstance(value, str) and value in _NON_FINITE else value


def flat_numbers(
    obj: dict[str, Any], prefix: str = "", depth: int = _MAX_DEPTH
) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of every metric in an object; nested keys are joined by ``/``."""
    for key, logged in obj.items():
        name = f"{prefix}{key}"
        value = non_finite(logged)
        if len(name) > MAX_NAME:
            continue
        if isinstance(value, dict) and depth:
            yield from flat_numbers(value, f"{name}/", depth - 1)
        elif isinstance(value, int | float) and name not in NO_METRICS:
            try:
                yield name, float(value)
            except OverflowError:
                yield name, math.inf  # an integer beyond float64


def step_in(obj: dict[str, Any]) -> int | None:
    """Return the step of an object; None if it is missing, invalid or too large."""
    # Only the first key is used, because others may count something else.
    value = next((value for key in STEP_KEYS if (value := obj.get(key)) is not None), None)
    if isinstance(value, str):
        match = _STEP_OF_STEPS.fullmatch(value)
        return int(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) <= LARGEST_STEP and value == int(value) else None


def counters_of(event: Mapping[str, object]) -> dict[str, float]:
    """Return what an event counts besides the step, such as ``epoch``, by COUNTER and its key.

    These are no metrics. They tell whether a training goes on where its step is set back.
    """
    step_key = next((key for key in STEP_KEYS if event.get(key) is not None), None)
    names = NO_METRICS & event.keys() - _OF_THE_LOGGER - {step_key}
    counted = {f"{COUNTER}{name}": coerce.real(event[name]) for name in sorted(names)}
    return {name: value for name, value in counted.items() if value is not None}


def numbers_of(event: dict[str, Any]) -> dict[str, float]:
    """Return metric -> value of a logged event, ``prefixed`` with the kind of the event."""
    kinds = (v.lower() for key, v in event.items() if key in KIND_KEYS and isinstance(v, str))
    kind = next(kinds, "")
    numbers = dict(flat_numbers(_metrics_object(event)))
    return {prefixed(kind, name): value for name, value in numbers.items()}


def prefixed(kind: str, name: str) -> str:
    """Return ``kind/name``; only ``name`` if it has the prefix, or kind is training or invalid."""
    if not kind or _TRAINING.fullmatch(kind) or not _KIND.fullmatch(kind) or name.startswith(kind):
        return name
    return f"{kind}/{name}"


def is_event(obj: object) -> bool:
    """Return whether an object is a row of metrics: step, numbers, no rollout text and no list."""
    if not isinstance(obj, dict) or step_in(obj) is None:
        return False
    metrics = _metrics_object(obj)
    if not TEXT_KEYS.isdisjoint(metrics):
        return False
    for value in metrics.values():
        if isinstance(value, list) or (isinstance(value, str) and len(value) > MAX_NAME):
            return False
    return next(flat_numbers(metrics), None) is not None


def _metrics_object(event: dict[str, Any]) -> dict[str, Any]:
    return event["data"] if isinstance(event.get("data"), dict) else event
