"""Fits what is shown into a size: texts, token data and its digits, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FINEST_DIGITS = 6
DIGITS = (FINEST_DIGITS, 4, 3)
"""Significant digits of token values, tried in this order before anything is left out."""

COMPACT = 4
"""With so many digits or fewer a page derives DERIVED of the arrays itself (see token_codec)."""

DERIVED = 3
MOST_FINE_VALUES = 120_000
"""Token values of one page above which they are kept to COMPACT digits: a page stays near 1 MB."""

_STAGES = (
    ("tokens", 4.0),
    ("rows", 16.0),
    ("tokens", 1.0),
    ("rows", 6.0),
    ("steps", 24.0),
    ("tokens", 0.0),
    ("rows", 2.0),
    ("steps", 2.0),
)
"""What is cut next, down to which number (a step, or in all): token data of the responses least
worth a look first, then their texts, then whole steps; each in turn rather than one to nothing."""

_SPREAD = 0.6180339887498949
"""Golden ratio: multiples of it modulo 1 spread evenly, so shares of rows do over the steps."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Expected bytes in one output form; the baked size has the last word.

    Attributes:
        fixed: pages other than steps, and assets.
        step: a step page without responses.
        row: a response's figures.
        char: one character of text.
        token: one token's id and bookkeeping.
        digit: one significant digit of one token value.
    """

    fixed: float
    step: float
    row: float
    char: float
    token: float
    digit: float


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step's page shows.

    Attributes:
        step: the step.
        rows: int64, rows of the response table in order of worth.
        with_tokens: how many of the first rows carry token data.
        digits: significant digits of token values.
        responses: responses of the step in all.
    """

    step: int
    rows: NDArray[np.int64]
    with_tokens: int
    digits: int
    responses: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What the report shows, and what it leaves out in words."""

    steps: list[StepPlan]
    steps_in_all: int
    expected: float

    @property
    def responses(self) -> int:
        """Responses shown."""
        return sum(len(step.rows) for step in self.steps)

    def left_out(self, responses_in_all: int, token_responses: int) -> list[str]:
        """Sentences that say what is not in the report; empty when everything is."""
        said = []
        if len(self.steps) < self.steps_in_all:
            said.append(
                f"{self.steps_in_all - len(self.steps):,} of {self.steps_in_all:,} steps have no "
                "page of their own: the first, the last, those of findings and an even "
                "selection of the others do."
            )
        if self.responses < responses_in_all:
            said.append(
                f"{self.responses:,} of {responses_in_all:,} responses are shown with their "
                "text: those that findings point at, the extremes of every metric, and a seeded "
                "sample of the rest. Figures and tables come from all of them."
            )
        shown = sum(step.with_tokens for step in self.steps)
        if token_responses and shown < min(self.responses, token_responses):
            said.append(
                f"Token data is kept for {shown:,} of {self.responses:,} shown responses, those "
                "most worth a look first."
            )
        kept = {step.digits for step in self.steps} or {FINEST_DIGITS}
        if token_responses and min(kept) < FINEST_DIGITS:
            where = " in steps that hold many" if len(kept) > 1 else ""
            said.append(f"Token values are kept to {min(kept)} significant digits{where}.")
        return said


@dataclass(frozen=True, slots=True)
class _Cut:
    """Most of each: token data and responses a step (on average), and steps."""

    tokens: float
    rows: float
    steps: float


def plan(
    chosen: Mapping[int, NDArray[np.int64]],
    responses: pd.DataFrame,
    *,
    evidence: Mapping[int, int],
    cost: CostModel,
    budget: float,
    arrays: int,
) -> Plan:
    """Plans the largest report that is expected to fit.

    Args:
        chosen: step -> its rows in order of worth.
        responses: RESPONSE_COLUMNS.
        evidence: step -> how many of its first rows findings and extremes point at. Such steps
            stay when steps are thinned, and such rows keep their token data longest.
        cost: expected bytes of each part.
        budget: bytes.
        arrays: token arrays that are logged.

    Returns:
        The plan; when even the least does not fit, the least.
    """
    planner = _Planner(chosen, responses, evidence, cost, arrays)
    most = float(max(map(len, chosen.values())))
    cut = _Cut(tokens=most, rows=most, steps=float(len(chosen)))
    for digits in DIGITS:
        whole = planner.made(cut, digits)
        if whole.expected <= budget:
            return whole
    for part, floor in _STAGES:
        most = getattr(cut, part)
        if most <= floor:
            continue
        least = replace(cut, **{part: floor})
        if planner.made(least, digits).expected > budget:
            cut = least
            continue
        low, high = floor, most
        for _ in range(16):
            middle = (low + high) / 2
            if planner.made(replace(cut, **{part: middle}), digits).expected <= budget:
                low = middle
            else:
                high = middle
        return planner.made(replace(cut, **{part: low}), digits)
    return planner.made(cut, digits)


class _Planner:
    """Makes plans over one response table and tells their expected size."""

    def __init__(
        self,
        chosen: Mapping[int, NDArray[np.int64]],
        responses: pd.DataFrame,
        evidence: Mapping[int, int],
        cost: CostModel,
        arrays: int,
    ) -> None:
        self.chosen = chosen
        self.evidence = evidence
        self.cost = cost
        self.arrays = arrays
        self.steps = sorted(chosen)
        self.counts = responses["step"].value_counts().to_dict()
        chars = (
            responses["prompt_chars"]
            + responses["response_chars"]
            + responses["ref_response_chars"].fillna(0)
        )
        row_bytes = cost.row + cost.char * chars.to_numpy(np.float64)
        tokens = np.nan_to_num(responses["response_tokens"].to_numpy(np.float64))
        # Of each step: bytes of its first k rows, and tokens of its first k rows.
        self.bytes = {step: _running(row_bytes[rows]) for step, rows in chosen.items()}
        self.tokens = {step: _running(tokens[rows]) for step, rows in chosen.items()}

    def made(self, cut: _Cut, digits: int) -> Plan:
        """The plan that shows what ``cut`` leaves."""
        cost, steps = self.cost, []
        expected = cost.fixed
        for place, step in enumerate(_thinned(self.steps, int(cut.steps), self.evidence)):
            rows, pointed = self.chosen[step], self.evidence.get(step, 0)
            shown = min(len(rows), max(_spread(cut.rows, place), pointed))
            with_tokens = 0
            if self.arrays and cut.tokens:
                with_tokens = min(shown, max(_spread(cut.tokens, place), pointed))
            tokens = self.tokens[step][with_tokens]
            kept = digits if tokens * self.arrays <= MOST_FINE_VALUES else min(digits, COMPACT)
            steps.append(StepPlan(step, rows[:shown], with_tokens, kept, int(self.counts[step])))
            carried = self.arrays - DERIVED if kept <= COMPACT else self.arrays
            expected += cost.step + self.bytes[step][shown]
            expected += (cost.token + cost.digit * kept * max(carried, 0)) * tokens
        return Plan(steps, len(self.steps), float(expected))


def _running(values: NDArray[np.float64]) -> list[float]:
    """Sums of the first 0, 1, 2, … values."""
    return [0.0, *np.cumsum(values).tolist()]


def _spread(average: float, place: int) -> int:
    """A whole number for each place, ``average`` on average."""
    return int(average + place * _SPREAD % 1)


def _thinned(steps: list[int], room: int, keep: Mapping[int, int]) -> list[int]:
    """An even selection of steps: the first, the last and ``keep`` stay as long as they fit."""
    if room >= len(steps):
        return steps
    must = [steps[0], steps[-1], *(step for step in steps if step in keep)]
    kept = set(list(dict.fromkeys(must))[: max(2, room)])
    others = [step for step in steps if step not in kept]
    more = max(2, room) - len(kept)
    if more > 0:
        places = np.linspace(0, len(others) - 1, more).round().astype(int)
        kept.update(others[i] for i in places)
    return sorted(kept)
