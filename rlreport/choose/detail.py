"""Level of detail of the steps' pages, the same for the whole report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.text.messages import message

FINEST_DIGITS = 6

COMPACT = 4
"""With at most this many digits, pages compute DERIVABLE arrays themselves."""

DERIVABLE = frozenset({"ref_logp", "advantage", "return"})
"""Token arrays that can be computed from others (see token_codec)."""

LEAST_BYTES = 0.5
"""Minimum bytes of a token value in a page; 1.5 are usual."""

MAX_STEP_PAGES = 1_000
"""Runs with more steps have a page for every n-th step only; the table of steps has all."""

MAX_FINE_VALUES = 120_000
"""Pages with more token values use COMPACT digits, so that a page stays near 1 MB."""


class Level(NamedTuple):
    """Level of detail: responses, how many of them with tokens (None for all), and digits."""

    rows: int | None
    with_tokens: int | None
    digits: int


LEVELS = (
    Level(None, None, FINEST_DIGITS),
    Level(None, None, COMPACT),
    Level(None, None, 3),
    Level(None, 32, 3),
    Level(None, 8, 3),
    Level(32, 4, 3),
    Level(8, 1, 3),
    Level(2, 0, 3),
)
"""Levels of detail, the most detailed first. All but the last show every response that findings
and extremes refer to, even beyond the limit."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the page of a step shows.

    Attributes:
        rows: int64, rows of the response table, the most interesting first.
        with_tokens: number of leading rows with token data.
        digits: significant digits of token values.
    """

    step: int
    rows: NDArray[np.int64]
    with_tokens: int
    digits: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step whose page can be shown.

    Attributes:
        rows: int64, rows of the response table, the most interesting first.
        pinned: number of leading rows that findings or extremes refer to.
        tokens: float64, number of tokens of each of ``rows``.
        arrays: number of token arrays in a page, 0 without tokens.
    """

    step: int
    rows: NDArray[np.int64]
    pinned: int
    tokens: NDArray[np.float64]
    arrays: int

    def at(self, level: int) -> StepPlan:
        """Return the plan of the page at a level, an index into LEVELS."""
        wanted, count = LEVELS[level], len(self.rows)
        pinned = 0 if level == len(LEVELS) - 1 else self.pinned
        rows = count if wanted.rows is None else min(count, max(wanted.rows, pinned))
        tokens = rows if wanted.with_tokens is None else min(rows, max(wanted.with_tokens, pinned))
        shown = tokens if self.arrays else 0
        return StepPlan(self.step, self.rows[:rows], shown, wanted.digits)


def first_level(candidates: Sequence[Candidate], room: float = math.inf) -> int:
    """Return the first level whose pages may fit into ``room`` bytes in total.

    Levels that cannot fit are skipped, as rendering pages to measure them takes much memory and
    time. If a page has many token values, levels with many digits are skipped, too.
    """
    most = max((one.arrays * float(one.tokens.sum()) for one in candidates), default=0.0)
    for level in range(0 if most <= MAX_FINE_VALUES else 1, len(LEVELS) - 1):
        values = sum(
            one.arrays * float(one.tokens[: one.at(level).with_tokens].sum()) for one in candidates
        )
        if LEAST_BYTES * values <= room:
            return level
    return len(LEVELS) - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps' pages, and sentences on what they leave out."""

    steps: list[StepPlan]
    steps_in_all: int

    @property
    def responses(self) -> int:
        """Number of shown responses."""
        return sum(len(step.rows) for step in self.steps)

    def left_out(self, responses_in_all: int, token_responses: int) -> list[str]:
        """Return sentences on what is not in the report; empty if it is complete."""
        sentences = []
        if len(self.steps) < self.steps_in_all:
            sentences.append(
                message(
                    "{some:count} of {all:count} steps have no page; the first, the last, "
                    "those of findings and extremes, and every n-th of the others have one.",
                    some=self.steps_in_all - len(self.steps),
                    all=self.steps_in_all,
                )
            )
        if self.responses < responses_in_all:
            sentences.append(
                message(
                    "{some:count} of {all:count} responses are shown with their text: those "
                    "that findings refer to, the extremes of every metric, and a seeded "
                    "sample of the rest. Figures do not depend on this choice.",
                    some=self.responses,
                    all=responses_in_all,
                )
            )
        shown = sum(step.with_tokens for step in self.steps)
        if token_responses and shown < min(self.responses, token_responses):
            sentences.append(
                message(
                    "Token data is included for the {some:count} most interesting of {all:count} "
                    "shown responses.",
                    some=shown,
                    all=self.responses,
                )
            )
        digits = min((step.digits for step in self.steps), default=FINEST_DIGITS)
        if token_responses and digits < FINEST_DIGITS:
            sentences.append(
                message("Token values are kept to {digits} significant digits.", digits=digits)
            )
        return sentences


def fewer_steps(steps: Sequence[Candidate], room: int) -> list[Candidate]:
    """Return at most ``room`` steps, but at least two, to have pages.

    These are the first and the last step, those that findings and extremes refer to while they
    fit, and every n-th step. n is a power of two, so a growing run rarely changes the choice.
    """
    room = min(max(2, room), MAX_STEP_PAGES)
    if room >= len(steps):
        return list(steps)
    pinned = [place for place, step in enumerate(steps) if step.pinned]
    kept = set(list(dict.fromkeys([0, len(steps) - 1, *pinned]))[:room])
    stride = 2
    while len(kept.union(range(0, len(steps), stride))) > room:
        stride *= 2
    return [steps[place] for place in sorted(kept.union(range(0, len(steps), stride)))]


def evenly(count: int, room: int) -> NDArray[np.int64]:
    """Return ``room`` evenly spaced indices below ``count`` with both ends, or all if they fit."""
    return np.linspace(0, count - 1, min(count, room)).round().astype(np.int64)
