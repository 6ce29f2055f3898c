"""Families of random logs for each relation between fields: with a fault at several strengths.

``python -m tests.law_families 200`` prints the table of docs/checks.md: of how many logs a fault is
found at each strength, and how many of 1,000 correct logs are called faulty. Seeds are fixed. A
relation is a case in ``CASES``: a function that makes a log with a fault of a given strength, where
0 is a correct log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
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

    def log(self, **columns: Any) -> Tables:
        """Return the tables of a log with these columns of responses."""
        filled = {
            name: np.broadcast_to(values, self.rows) for name, values in columns.items()
        }
        return make_tables({"step": self.step, "prompt_id": self.prompt, **filled})


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


CASES: tuple[Case, ...] = (
    Case("reference_is_policy", "share of responses", (0.5, 0.9, 1.0), _reference),
)

# Run as a script, this module has another name than the one by which the next one imports it.
sys.modules.setdefault("tests.law_families", sys.modules[__name__])
from tests.law_families_metrics import CASES as OF_METRICS  # noqa: E402

CASES += OF_METRICS


def table(logs: int) -> Iterator[str]:
    """Yield the lines of the table of docs/checks.md."""
    yield "| relation | strength: found | of 1,000 correct logs |"
    yield "|---|---|---|"
    for case in CASES:
        powers = [
            f"{strength:g}: {case.found(strength, logs):.0%}"
            for strength in case.strengths
        ]
        false = 1000 * case.found(0.0, logs)
        yield f"| `{case.check}` | {case.unit} {', '.join(powers)} | {false:.0f} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        print(line)
