"""Random logs that violate a relation between fields: with a fault at several strengths.

A relation is a ``Case``: a function that makes a log with a fault of a given strength, where 0 is a
correct log. Cases of one subject are in a file of their own, and ``law_cases`` has all. Seeds are
fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Severity
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.tables_builder import make_tables

Floats = NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True)
class Shape:
    """The shape of a random log: so many steps, prompts a step and responses a prompt."""

    steps: int
    prompts: int
    group: int

    @property
    def rows(self) -> int:
        return self.steps * self.prompts * self.group

    @property
    def step(self) -> NDArray[np.int64]:
        """The step of each response, (rows,), from 1."""
        return 1 + np.repeat(np.arange(self.steps), self.prompts * self.group)

    @property
    def prompt(self) -> NDArray[np.int64]:
        """The prompt of each response, (rows,): each step has prompts of its own."""
        return np.repeat(np.arange(self.steps * self.prompts), self.group)

    def log(
        self,
        *,
        prompt_texts: list[str] | None = None,
        texts: list[list[str]] | None = None,
        extra: dict[str, Any] | None = None,
        reward_parts: tuple[str, ...] = (),
        **columns: Any,
    ) -> Tables:
        """Return the tables of a log with these columns of responses, texts and extra fields."""
        filled = {
            name: np.broadcast_to(values, self.rows) for name, values in columns.items()
        }
        more: dict[str, Any] = {}
        if reward_parts:
            more["reward_parts"] = list(reward_parts)
        if extra is not None:
            more["extras"] = pd.DataFrame(extra)
        return make_tables(
            {"step": self.step, "prompt_id": self.prompt, **filled},
            prompts=prompt_texts,
            texts=texts,
            unit="word",
            **more,
        )


def random_shape(random: Random) -> Shape:
    """Return a usual shape: 10–60 steps, 4–16 prompts a step, 4–16 responses a prompt."""
    return Shape(
        steps=int(random.integers(10, 60)),
        prompts=int(random.integers(4, 17)),
        group=int(random.choice([4, 8, 16])),
    )


def rewards(random: Random, shape: Shape) -> Floats:
    """Return rewards of 0 and 1, (rows,): prompts differ in difficulty, and the policy learns."""
    difficulty = np.repeat(
        random.beta(1.2, 1.2, shape.steps * shape.prompts), shape.group
    )
    gain = random.uniform(-0.05, 0.3) * (shape.step - 1) / shape.steps
    chance = np.clip(difficulty + gain, 0.02, 0.98)
    return (random.random(shape.rows) < chance).astype(np.float64)


@dataclass(frozen=True)
class Case:
    """A relation, and how to make a log that violates it."""

    check: str  # id
    unit: str  # what the strengths are ("share of responses")
    strengths: tuple[float, ...]
    make: Callable[[Random, Shape, float], Tables]
    severities: tuple[Severity, ...] = (Severity.WARNING, Severity.CRITICAL)
    name: str = ""  # the fault, where the docstring of ``make`` does not tell it

    @property
    def fault(self) -> str:
        """The fault in a few words."""
        told = (self.make.__doc__ or "").split(".", maxsplit=1)[0]
        told = told.split(";", maxsplit=1)[0].removeprefix("Return ")
        told = told.replace("``", "").replace("strength", "s")
        return self.name or told[:1].lower() + told[1:]

    def is_found(self, seed: int, strength: float) -> bool:
        """Return whether the check finds the fault in a random log; a note is enough if it may."""
        random = np.random.default_rng(seed)
        made = self.make(random, random_shape(random), strength)
        result = BY_ID[self.check].run(Run(made))
        return result.finding is not None and result.finding.severity in self.severities

    def found(self, strength: float, logs: int) -> float:
        """Return the share of so many random logs in which the fault is found."""
        found = [self.is_found(seed, strength) for seed in range(logs)]
        return float(np.mean(found))


def _reference(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which a share of responses has the reference's log-probabilities."""
    ratio = np.abs(random.normal(0, 0.02, shape.rows)) + 1e-6
    ratio[shape.step == 1] = 0.0  # of the untrained policy
    is_same = random.random(shape.rows) < strength
    ratio = np.where(is_same, 0.0, ratio)
    return shape.log(
        reward=rewards(random, shape), kl_k1=ratio, kl_k3=ratio, log_ratio_most=ratio
    )


REFERENCE = Case(
    "reference_is_policy", "share of responses", (0.5, 0.9, 1.0), _reference
)
