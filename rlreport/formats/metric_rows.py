"""Rows of trainer metrics: the step and the numbers of one logged object."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from rlreport.fields import LARGEST_STEP

STEP_KEYS = (
    "grpo_step", "ppo_step", "rollout_step", "rollout/step", "step", "training_step",
    "training/global_step", "train/global_step", "trainer/global_step", "iteration",
    "global_step", "_step", "Step", "global_step/max_steps",  # ms-swift, as "3/100"
    "train/step", "eval/step", "optimizer_step", "optim_step",
)  # fmt: skip
"""Keys of the step in order of preference: rollout steps before optimizer steps."""

KIND_KEYS = frozenset({"type", "kind", "split", "phase", "mode", "event"})
"""Keys of the field with the kind of a row: rollout phase, update or evaluation, for example."""

TEXT_KEYS = frozenset({"prompt", "response", "completion", "input", "output"})
"""Keys of the texts of a rollout, which is no row of metrics."""

Record = tuple[int, dict[str, float]]
"""Step and the metrics logged at it."""

_DEEPEST = 16
"""Maximum nesting of objects that are searched for metrics."""

MAX_NAME = 500
"""Maximum length of a metric's name; metrics with longer names are omitted."""

_STEP_OF_STEPS = re.compile(r"(\d{1,16})/\d+")

NO_METRICS = frozenset({*STEP_KEYS, "epoch", "total_flos", "_timestamp", "_runtime", "timestamp"})

_TRAINING = re.compile(r"(train|optim|update|learn|step|metric|log|iter|grpo|ppo|rl\b).*")
"""Kinds of rows that report training itself."""

_KIND = re.compile(r"[a-z][\w.-]{0,39}")

_NON_FINITE = {"NaN", "Infinity", "-Infinity"}
"""Strings for non-finite numbers in JSON."""


def flat_numbers(
    obj: dict[str, Any], prefix: str = "", depth: int = _DEEPEST
) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of every number in an object, nested names joined by ``/``."""
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
    """Return the step of an object, None if it has none.

    A step that is not a whole number, or too large for float64, is none: another key would count
    something else.
    """
    value = next((value for key in STEP_KEYS if (value := obj.get(key)) is not None), None)
    if isinstance(value, str):
        counted = _STEP_OF_STEPS.fullmatch(value)
        return int(counted[1]) if counted else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) <= LARGEST_STEP and value == int(value) else None


def numbers_of(event: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of an event by name.

    Names of metrics that do not report training are prefixed with the kind of the event.
    """
    own = _own_metrics(event)
    kinds = (
        value.lower() for key, value in event.items() if key in KIND_KEYS and isinstance(value, str)
    )
    kind = next(kinds, "")
    found = dict(flat_numbers(own))
    return {prefixed(kind, name): value for name, value in found.items()} if kind else found


def prefixed(kind: str, name: str) -> str:
    """Return the name of a metric in an event of a kind: with the kind unless it is training's."""
    if not kind or _TRAINING.fullmatch(kind) or not _KIND.fullmatch(kind) or name.startswith(kind):
        return name
    return f"{kind}/{name}"


def is_event(obj: object) -> bool:
    """Return whether an object has a step and numbers, but no text or list of a rollout."""
    if not isinstance(obj, dict) or step_in(obj) is None:
        return False
    own = _own_metrics(obj)
    if any(isinstance(value, list) for value in own.values()):
        return False
    if not TEXT_KEYS.isdisjoint(own):
        return False
    if any(isinstance(value, str) and len(value) > MAX_NAME for value in own.values()):
        return False
    return any(True for _ in flat_numbers(own))


def _own_metrics(event: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the metrics of an event: verl puts them under ``data``."""
    own = event.get("data")
    return own if isinstance(own, dict) else event
