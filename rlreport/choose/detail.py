"""How much of a step its page shows: texts, token data and its digits, packed greedily."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.text.messages import message

FINEST_DIGITS = 6
DIGITS = (FINEST_DIGITS, 4, 3)
"""Significant digits of token values, tried in this order before anything is left out."""

COMPACT = 4
"""With so many digits or fewer a page derives DERIVABLE arrays itself."""

DERIVABLE = frozenset({"ref_logp", "advantage", "return"})
"""Token arrays that follow from others (see token_codec)."""

MOST_FINE_VALUES = 120_000
"""Token values of one page above which they are kept to COMPACT digits: a page stays near 1 MB."""

PAGE, ROW, CHAR, TOKEN, DIGIT = 40_000.0, 500.0, 1.2, 9.0, 0.6
"""Costs of a page without responses, of a response, and of each of its characters, tokens and
significant digits of a token value, roughly in bytes; only their ratios count (see packing)."""

LEAST = 2
"""Responses shown at least."""

_PACKED = (
    ("rows", LEAST),
    ("rows", 6),
    ("tokens", 1),
    ("rows", 16),
    ("tokens", 4),
    ("rows", None),
    ("tokens", None),
)
"""What is packed next, up to how many of the step's responses."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step whose page can be shown.

    Attributes:
        step: the step.
        rows: int64, rows of the response table in order of worth.
        pointed: how many of the first rows findings and extremes point at: they are shown, with
            tokens, before others.
        responses: responses of the step in all.
        chars: float64, characters of each of ``rows``.
        tokens: float64, tokens of each of ``rows``.
        arrays: token arrays that are carried, 0 without tokens.
    """

    step: int
    rows: NDArray[np.int64]
    pointed: int
    responses: int
    chars: NDArray[np.float64]
    tokens: NDArray[np.float64]
    arrays: int

    def cost(self, rows: int, with_tokens: int, digits: int) -> float:
        """Rough cost of a page with so many rows."""
        texts = ROW * rows + CHAR * float(self.chars[:rows].sum())
        return PAGE + texts + self._per_token(digits) * float(self.tokens[:with_tokens].sum())

    def cost_of(self, plan: StepPlan) -> float:
        """Rough cost of what a plan shows."""
        return self.cost(len(plan.rows), plan.with_tokens, plan.digits)

    def whole(self) -> float:
        """Rough cost of the page that shows most."""
        count = len(self.rows)
        return self.cost(count, count if self.arrays else 0, FINEST_DIGITS)

    def packed(self, budget: float) -> StepPlan:
        """The most that fits into a cost of ``budget``; the least when nothing fits."""
        count = len(self.rows)
        with_tokens = count if self.arrays else 0
        for digits in DIGITS:
            if self.cost(count, with_tokens, digits) <= budget:
                return self._plan(count, with_tokens, digits)
        shown = {"rows": min(count, LEAST), "tokens": 0}
        each = {
            "rows": ROW + CHAR * self.chars,
            "tokens": self._per_token(digits) * self.tokens[:with_tokens],
        }
        left = budget - self.cost(shown["rows"], 0, digits)
        for part, most in _PACKED:
            stop = count if most is None else max(most, self.pointed)
            room = each[part][shown[part] : min(stop, shown["rows"] if part == "tokens" else count)]
            fitting = int(np.searchsorted(np.cumsum(room), left, side="right")) if left > 0 else 0
            shown[part] += fitting
            left -= float(room[:fitting].sum())
            if fitting < len(room):
                break
        return self._plan(shown["rows"], shown["tokens"], digits)

    def _plan(self, rows: int, with_tokens: int, digits: int) -> StepPlan:
        values = self.arrays * float(self.tokens[:with_tokens].sum())
        kept = digits if values <= MOST_FINE_VALUES else min(digits, COMPACT)
        return StepPlan(self.step, self.rows[:rows], with_tokens, kept, self.responses)

    def _per_token(self, digits: int) -> float:
        carried = self.arrays - len(DERIVABLE) if digits <= COMPACT else self.arrays
        return TOKEN + DIGIT * digits * max(carried, 0)


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

    @property
    def responses(self) -> int:
        """Responses shown."""
        return sum(len(step.rows) for step in self.steps)

    def left_out(self, responses_in_all: int, token_responses: int) -> list[str]:
        """Sentences that say what is not in the report; empty when everything is."""
        said = []
        if len(self.steps) < self.steps_in_all:
            said.append(
                message(
                    "{some:count} of {all:count} steps have no page of their own: the first, the "
                    "last, those of findings and an even selection of the others do.",
                    some=self.steps_in_all - len(self.steps),
                    all=self.steps_in_all,
                )
            )
        if self.responses < responses_in_all:
            said.append(
                message(
                    "{some:count} of {all:count} responses are shown with their text: those that "
                    "findings point at, the extremes of every metric, and a seeded sample of the "
                    "rest. Figures and tables come from all of them.",
                    some=self.responses,
                    all=responses_in_all,
                )
            )
        shown = sum(step.with_tokens for step in self.steps)
        if token_responses and shown < min(self.responses, token_responses):
            said.append(
                message(
                    "Token data is kept for {some:count} of {all:count} shown responses, those "
                    "most worth a look first.",
                    some=shown,
                    all=self.responses,
                )
            )
        kept = {step.digits for step in self.steps} or {FINEST_DIGITS}
        if token_responses and min(kept) < FINEST_DIGITS:
            said.append(
                message(
                    "Token values are kept to {digits} significant digits in steps that hold many.",
                    digits=min(kept),
                )
                if len(kept) > 1
                else message(
                    "Token values are kept to {digits} significant digits.", digits=min(kept)
                )
            )
        return said


def fewer_steps(steps: Sequence[Candidate], room: int) -> list[Candidate]:
    """An even selection of ``room`` steps, two at least.

    The first and the last stay, and those that findings and extremes point at as long as they fit.
    """
    room = max(2, room)
    if room >= len(steps):
        return list(steps)
    pointed = [place for place, step in enumerate(steps) if step.pointed]
    kept = set(list(dict.fromkeys([0, len(steps) - 1, *pointed]))[:room])
    others = [place for place in range(len(steps)) if place not in kept]
    if more := room - len(kept):
        kept.update(others[i] for i in evenly(len(others), more).tolist())
    return [steps[place] for place in sorted(kept)]


def evenly(count: int, room: int) -> NDArray[np.int64]:
    """Positions of an even selection of ``room`` out of ``count``, both ends kept; all that fit."""
    return np.linspace(0, count - 1, min(count, room)).round().astype(np.int64)


def steady(amount: float) -> float:
    """Return the amount rounded down to one of seven between it and its half."""
    if not math.isfinite(amount):
        return amount
    fraction, exponent = math.frexp(amount)
    return math.ldexp(math.floor(fraction * 14) / 14, exponent)
