"""What is judged, and what a tool says of it: runs with a known fault, and findings by kind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

REWARD = "reward"
KL = "KL"
ENTROPY = "entropy"
LENGTH = "length"
GRADIENT = "gradient"
HACKING = "reward hacking"
GROUPS = "groups without signal"
FUNCTION = "reward function"
VARIETY = "variety of texts"
PLATEAU = "plateau"
OTHER = "other"
"""Kinds of faults. A run that stopped learning has a plateau, which is no fault by itself."""

METRICS = {
    "reward": "mean reward",
    "reward_std": "standard deviation of rewards",
    "kl": "KL to the reference, nats per token",
    "entropy": "entropy, nats per token",
    "completions/mean_length": "mean tokens of a response",
    "completions/clipped_ratio": "share of responses without an end",
    "grad_norm": "norm of the gradient",
    "frac_reward_zero_std": "share of groups whose rewards are equal",
}
"""Columns of a run's metrics beside ``step``, under TRL's names, which all tools know."""


@dataclass(frozen=True)
class LabelledRun:
    """A run and what is wrong with it.

    Attributes:
        name: name of its folder, unique.
        group: row of the table in which it counts.
        kinds: kinds of fault of which a tool should name one; none: the run is healthy.
        onset: first and last step at which the fault may be said to begin, if known.
        metrics: one row per step; ``step`` and columns of ``METRICS``.
        rollouts: folder with its logs of responses, if there are any.
    """

    name: str
    group: str
    kinds: frozenset[str]
    onset: tuple[int, int] | None
    metrics: pd.DataFrame
    rollouts: Path | None = None


@dataclass(frozen=True)
class Said:
    """A finding of a tool.

    Attributes:
        name: the tool's name of the finding.
        is_warning: whether it is a warning or worse, not a note.
        kinds: kinds of fault that it is taken for.
        steps: steps that it names.
    """

    name: str
    is_warning: bool
    kinds: frozenset[str]
    steps: tuple[float, ...] = ()


def write_metrics(run: LabelledRun, path: Path) -> None:
    """Write a run's metrics as JSON lines; values that are missing are left out."""
    with path.open("w", encoding="utf-8") as lines:
        for row in run.metrics.to_dict("records"):
            lines.write(json.dumps(_finite(row)) + "\n")


def _finite(row: Mapping[Hashable, float]) -> dict[str, float]:
    return {str(name): value for name, value in row.items() if np.isfinite(value)}


def distance(run: LabelledRun, found: Iterable[Said]) -> float | None:
    """Return how far the nearest step that findings name is from the fault's onset, in steps."""
    if run.onset is None:
        return None
    low, high = run.onset
    steps = itertools.chain.from_iterable(one.steps for one in found)
    return min((max(low - step, 0, step - high) for step in steps), default=None)
