"""Recognize logged objects with trainer metrics, and read their step and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from rlreport.fields import LARGEST_STEP

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

Record = tuple[int, dict[str, float]]  # A step, and its metrics by name
_MAX_DEPTH = 16  # Maximum depth to which nested objects are searched for metrics
MAX_NAME = 500  # Maximum length of a metric's name; metrics with longer names are omitted
_STEP_OF_STEPS = re.compile(r"(\d{1,16})/\d+")  # such as "3/100"

# Names of numbers that are not metrics
NO_METRICS = frozenset({*STEP_KEYS, "epoch", "total_flos", "_timestamp", "_runtime", "timestamp"})

# Kinds of events that report training itself; names of their metrics get no prefix
_TRAINING = re.compile(r"(train|optim|update|learn|step|metric|log|iter|grpo|ppo|rl\b).*")

_KIND = re.compile(r"[a-z][\w.-]{0,39}")

_NON_FINITE = {"NaN", "Infinity", "-Infinity"}  # Strings that stand for non-finite numbers in JSON


def flat_numbers(
    obj: dict[str, Any], prefix: str = "", depth: int = _MAX_DEPTH
) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of every metric in an object; nested keys are joined by ``/``."""
    for key, logged in obj.items():
        name, value = f"{prefix}{key}", logged
        if len(name) > MAX_NAME:
            continue
        if isinstance(logged, str) and logged in _NON_FINITE:
            value = float(logged)
        if isinstance(value, dict) and depth:
            yield from flat_numbers(value, f"{name}/", depth - 1)
        elif isinstance(value, int | float) and name not in NO_METRICS:
            try:
                yield name, float(value)
            except OverflowError:
                yield name, math.inf  # an integer beyond float64


def step_in(obj: dict[str, Any]) -> int | None:
    """Return the step of an object, None if it has no step, or an invalid or too large one.

    Only the first of STEP_KEYS in the object is used, because others may count something else.
    """
    value = next((value for key in STEP_KEYS if (value := obj.get(key)) is not None), None)
    if isinstance(value, str):
        match = _STEP_OF_STEPS.fullmatch(value)
        return int(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) <= LARGEST_STEP and value == int(value) else None


def numbers_of(event: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a logged event by name.

    If its kind is not training, the kind becomes a prefix of the names, as in ``eval/loss``.
    """
    metrics = _metrics_object(event)
    kinds = (
        value.lower() for key, value in event.items() if key in KIND_KEYS and isinstance(value, str)
    )
    kind = next(kinds, "")
    numbers = dict(flat_numbers(metrics))
    return {prefixed(kind, name): value for name, value in numbers.items()} if kind else numbers


def prefixed(kind: str, name: str) -> str:
    """Return ``kind/name``, or ``name`` if it begins with kind, or kind is training or invalid."""
    if not kind or _TRAINING.fullmatch(kind) or not _KIND.fullmatch(kind) or name.startswith(kind):
        return name
    return f"{kind}/{name}"


def is_event(obj: object) -> bool:
    """Return whether an object is a row of metrics: step and numbers, no long text, no list."""
    if not isinstance(obj, dict) or step_in(obj) is None:
        return False
    metrics = _metrics_object(obj)
    if any(isinstance(value, list) for value in metrics.values()):
        return False
    if not TEXT_KEYS.isdisjoint(metrics):
        return False
    if any(isinstance(value, str) and len(value) > MAX_NAME for value in metrics.values()):
        return False
    return any(True for _ in flat_numbers(metrics))


def _metrics_object(event: dict[str, Any]) -> dict[str, Any]:
    metrics = event.get("data")
    return metrics if isinstance(metrics, dict) else event
