"""Logged objects that are trainer metrics: their step and their numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlreport.fields import LARGEST_STEP
from rlreport.system import coerce
from rlreport.system.timestamps import timestamp_in

# Keys under which trainers log the step, most preferred first: rollout before optimizer steps
STEP_KEYS = (
    "grpo_step",
    "ppo_step",
    "rollout_step",
    "rollout/step",
    "step",
    "training_step",
    "training/global_step",
    "train/global_step",
    "trainer/global_step",
    "iteration",
    "global_step",
    "_step",
    "Step",
    "global_step/max_steps",  # ms-swift, as "3/100"
    "train/step",
    "eval/step",
    "optimizer_step",
    "optim_step",
)

# Keys that count steps where none of STEP_KEYS is logged, most preferred first; in lower case
OTHER_STEP_KEYS = (
    "steps",
    "global_steps",
    "train_step",
    "train_steps",
    "training_steps",
    "n_step",
    "update",
    "updates",
    "update_step",
    "iter",
    "iters",
    "iterations",
    "it",
    "round",
    "rounds",
    "episode",
    "episodes",
    "batch",
    "batch_idx",
    "epoch",
    "epochs",
)

# Keys whose value is the kind of an event, such as ``train`` or ``eval``
KIND_KEYS = frozenset({"type", "kind", "split", "phase", "mode", "event"})

# Keys of a rollout's texts; an object with one of them is not a row of metrics
TEXT_KEYS = frozenset({"prompt", "response", "completion", "input", "output"})

Record = tuple[int, dict[str, float]]  # A step, and its metrics by name, and COUNTERs
_MAX_DEPTH = 16  # Maximum depth to which nested objects are searched for metrics
# Maximum length of a metric's name; metrics with longer ones are omitted
MAX_NAME = 500
_STEP_OF_STEPS = re.compile(r"(\d{1,16})/\d+")  # such as "3/100"

# Names of numbers that are not metrics
NO_METRICS = frozenset(
    {*STEP_KEYS, "epoch", "total_flos", "_timestamp", "_runtime", "timestamp"}
)

COUNTER = "counter of the log: "  # before the keys of numbers of NO_METRICS in a Record
# Names in a Record of when it was logged, in seconds since 1970: in UTC, and in an unknown time
# zone; and of the seconds since the run began, as a logger or trainer counts them
CLOCK = f"{COUNTER}time"
LOCAL_CLOCK = f"{COUNTER}local time"
RUNTIME = f"{COUNTER}runtime"
CLOCKS = frozenset({CLOCK, LOCAL_CLOCK, RUNTIME})
# Numbers of NO_METRICS that belong to the logger: they go on from one start of a run to the next
_OF_THE_LOGGER = frozenset({"_timestamp", "timestamp", "_runtime", "_step", "Step"})

# Kinds of events that report training itself; names of their metrics get no prefix
_TRAINING = re.compile(
    r"(train|optim|update|learn|step|metric|log|iter|grpo|ppo|rl\b).*"
)

_KIND = re.compile(r"[a-z][\w.-]{0,39}")

# Strings that stand for non-finite numbers in JSON
_NON_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


def non_finite(value: Any) -> Any:
    """Return the float that a string such as ``Infinity`` stands for; other values unchanged."""
    return float(value) if isinstance(value, str) and value in _NON_FINITE else value


def flat_numbers(
    obj: dict[str, Any], prefix: str = "", depth: int = _MAX_DEPTH
) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of every metric in an object; nested keys are joined by ``/``.

    ``prefix`` comes before each name; ``depth`` is the number of levels of objects inside ``obj``
    that are searched.
    """
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
    key = own_step_key(obj)
    value = None if key is None else obj[key]
    if isinstance(value, str):
        # Any other text is no step.
        match = _STEP_OF_STEPS.fullmatch(value)
        return int(match[1]) if match else None
    return whole(value)


def own_step_key(obj: Mapping[str, object]) -> str | None:
    """Return the key of STEP_KEYS under which an object has its step, None without any."""
    for key in STEP_KEYS:
        if obj.get(key) is not None:
            return key
    return None


def step_key(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key under which most of the rows count steps, None if there is none.

    A key of OTHER_STEP_KEYS has to count: whole numbers that hardly ever fall, and of which each is
    that of few rows, unlike those of epochs with many rows.
    """
    for key in STEP_KEYS:
        count = sum(
            own_step_key(row) == key and step_in(dict(row)) is not None for row in rows
        )
        if rows and 2 * count >= len(rows):
            return key
    names: dict[str, str] = {}  # in lower case -> as logged
    for row in rows:
        for name in row:
            names.setdefault(name.lower(), name)
    for key in OTHER_STEP_KEYS:
        if key in names and _counts([row.get(names[key]) for row in rows]):
            return names[key]
    return None


def _counts(values: Sequence[object]) -> bool:
    """Return whether most of the values, in the order of the log, count steps."""
    steps = [step for step in map(whole, values) if step is not None]
    if len(steps) < 2 or 2 * len(steps) < len(values):
        return False
    falls = sum(after < before for before, after in pairwise(steps))
    return 10 * falls <= len(steps) and 2 * len(set(steps)) >= len(steps)


def whole(value: object) -> int | None:
    """Return a whole number that may be a step as an int, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) <= LARGEST_STEP and value == int(value) else None


def counters_of(event: Mapping[str, object]) -> dict[str, float]:
    """Return what an event counts besides the step, such as ``epoch``, by COUNTER and its key.

    These are no metrics. They tell whether a training goes on where its step is set back.
    """
    names = NO_METRICS & event.keys() - _OF_THE_LOGGER - {own_step_key(event)}
    counted = {f"{COUNTER}{name}": coerce.real(event[name]) for name in sorted(names)}
    counted |= {RUNTIME: coerce.real(event.get("_runtime")), **clock_of(event)}
    return {name: value for name, value in counted.items() if value is not None}


def clock_of(event: Mapping[str, object]) -> dict[str, float]:
    """Return when an event was logged, as a counter of a Record; {} if it does not say."""
    time = timestamp_in(event)
    if time is None:
        return {}
    return {CLOCK if time.is_utc else LOCAL_CLOCK: time.seconds}


def numbers_of(event: dict[str, Any]) -> dict[str, float]:
    """Return metric -> value of a logged event, ``prefixed`` with the kind of the event."""
    kind = _kind_of(event)
    numbers = dict(flat_numbers(_metrics_object(event)))
    return {prefixed(kind, name): value for name, value in numbers.items()}


def _kind_of(event: Mapping[str, object]) -> str:
    """Return the kind of an event in lower case, such as ``eval``; "" if it has none."""
    for key, value in event.items():
        if key in KIND_KEYS and isinstance(value, str):
            return value.lower()
    return ""


def prefixed(kind: str, name: str) -> str:
    """Return ``kind/name``; only ``name`` if it has the prefix, or kind is training or invalid."""
    is_valid = _KIND.fullmatch(kind) and not _TRAINING.fullmatch(kind)
    if not is_valid or name.startswith(kind):
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
        # A short text may be the name of a run; a long one is of a rollout.
        is_text = isinstance(value, str) and len(value) > MAX_NAME
        if is_text or isinstance(value, list):
            return False
    return next(flat_numbers(metrics), None) is not None


def _metrics_object(event: dict[str, Any]) -> dict[str, Any]:
    """Return the object that holds an event's metrics: ``data``, or the event itself."""
    data = event.get("data")
    return data if isinstance(data, dict) else event
