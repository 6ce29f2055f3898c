"""Levels of detail for pages of steps, to limit a report's size; all pages use the same level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.text.messages import message

FINEST_DIGITS = 6  # Significant digits of token values at the highest level of detail
# With at most this many significant digits, pages omit arrays in DERIVABLE to save space
COMPACT = 4

# Arrays of token values that the page's scripts can compute from the other arrays
DERIVABLE = frozenset({"ref_logp", "advantage", "return"})

# Typical bytes of a page, of a response and of a token value by its digits, compressed. The first
# rendering tells how far they are off.
PAGE_BYTES, ROW_BYTES = 8_000, 1_000
VALUE_BYTES = {FINEST_DIGITS: 2.4, COMPACT: 1.7, 3: 1.3}
FEWEST = 24  # steps that have a page even if only the lowest level of detail fits

# Maximum number of steps with a page; longer runs have pages for every n-th step only
MAX_STEP_PAGES = 1_000

# If any page has more token values, all are rounded to COMPACT digits, to stay near 1 MB
MAX_FINE_VALUES = 120_000


class Level(NamedTuple):
    """A level of detail for the pages of steps.

    A page shows at most ``rows`` responses, at most ``with_tokens`` of them with token values
    (None: no limit), which have ``digits`` significant digits.
    """

    rows: int | None
    with_tokens: int | None
    digits: int


# Levels of detail, the most detailed first. All but the last may exceed their limits to show every
# response that a finding cites or that is an extreme of the run
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


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the page of a step shows: its responses, ranked by interest, at a level of detail."""

    step: int
    rows: NDArray[np.int64]  # int64, row numbers in the response table, the most interesting first
    # how many of ``rows``, from the first on, a finding cites or are extremes of the run
    pinned: int
    tokens: NDArray[np.float64]  # float64, number of tokens of each response in ``rows``
    arrays: int  # number of values that the page has for each token, 0 if no tokens are logged
    with_tokens: int = 0  # how many of ``rows``, from the first on, are shown with token values
    digits: int = FINEST_DIGITS  # significant digits of token values

    def at(self, level: int) -> StepPlan:
        """Return the plan at a level of detail (an index into LEVELS)."""
        wanted, count = LEVELS[level], len(self.rows)
        pinned = 0 if level == len(LEVELS) - 1 else self.pinned
        rows = count if wanted.rows is None else min(count, max(wanted.rows, pinned))
        tokens = rows if wanted.with_tokens is None else min(rows, max(wanted.with_tokens, pinned))
        return replace(
            self,
            rows=self.rows[:rows],
            with_tokens=tokens if self.arrays else 0,
            digits=wanted.digits,
        )


def expected_bytes(candidates: Sequence[StepPlan], level: int) -> float:
    """Return roughly how many bytes the pages of these steps take at a level of detail."""
    total = 0.0
    for candidate in candidates:
        plan = candidate.at(level)
        values = candidate.arrays * float(candidate.tokens[: plan.with_tokens].sum())
        total += PAGE_BYTES + ROW_BYTES * len(plan.rows) + VALUE_BYTES[plan.digits] * values
    return total


def fitting_level(candidates: Sequence[StepPlan], room: float) -> int:
    """Return the most detailed level (index into LEVELS) expected to fit into ``room`` bytes.

    Level 0 is skipped if a page has more than MAX_FINE_VALUES values; the last level is returned
    if none fits.
    """
    most_values = max((c.arrays * float(c.tokens.sum()) for c in candidates), default=0.0)
    for level in range(0 if most_values <= MAX_FINE_VALUES else 1, len(LEVELS) - 1):
        if expected_bytes(candidates, level) <= room:
            return level
    return len(LEVELS) - 1


def affordable(candidates: Sequence[StepPlan], room: float) -> int:
    """Return how many of the steps can have a page if these may take ``room`` bytes in all.

    Pages are counted at the second lowest level of detail, or the lowest if few steps would fit.
    """
    second_lowest, lowest = (
        expected_bytes(candidates, level) / len(candidates)
        for level in (len(LEVELS) - 2, len(LEVELS) - 1)
    )
    return max(int(room / second_lowest), min(FEWEST, int(room / lowest)))


def left_out(
    steps: Sequence[StepPlan], steps_in_all: int, responses_in_all: int, token_responses: int
) -> list[str]:
    """Return sentences about what the pages of these steps leave out; empty if nothing.

    The run has ``responses_in_all`` responses, ``token_responses`` of them with tokens;
    ``steps_in_all`` also counts the steps without a page.
    """
    responses, sentences = sum(len(step.rows) for step in steps), []
    if len(steps) < steps_in_all:
        sentences.append(
            message(
                "{some:count} of {all:count} steps have no page; the first, the last, "
                "those of findings and extremes, and every n-th of the others have one.",
                some=steps_in_all - len(steps),
                all=steps_in_all,
            )
        )
    if responses < responses_in_all:
        sentences.append(
            message(
                "{some:count} of {all:count} responses are shown with their text: those "
                "that findings refer to, the extremes of every metric, and a seeded "
                "sample of the rest. Figures do not depend on this choice.",
                some=responses,
                all=responses_in_all,
            )
        )
    token_rows = sum(step.with_tokens for step in steps)
    if token_responses and token_rows < min(responses, token_responses):
        sentences.append(
            message(
                "Token data is included for the {some:count} most interesting of {all:count} "
                "shown responses.",
                some=token_rows,
                all=responses,
            )
        )
    digits = min((step.digits for step in steps), default=FINEST_DIGITS)
    if token_responses and digits < FINEST_DIGITS:
        sentences.append(
            message("Token values are kept to {digits} significant digits.", digits=digits)
        )
    return sentences


def fewer_steps(steps: Sequence[StepPlan], room: int) -> list[StepPlan]:
    """Choose at most ``room`` steps, but at least two, that get a page.

    These are the first and the last step, as many as possible of the steps with responses that
    findings cite or that are extremes of the run, and every n-th step. n is a power of two, so
    that the choice rarely changes while a run grows.
    """
    room = min(max(2, room), MAX_STEP_PAGES)
    if room >= len(steps):
        return list(steps)
    pinned_indices = [index for index, step in enumerate(steps) if step.pinned]
    indices = set(list(dict.fromkeys([0, len(steps) - 1, *pinned_indices]))[:room])
    stride = 2
    while len(indices.union(range(0, len(steps), stride))) > room:
        stride *= 2
    return [steps[index] for index in sorted(indices.union(range(0, len(steps), stride)))]


def evenly(count: int, room: int) -> NDArray[np.int64]:
    """Return ``room`` evenly spaced indices from 0 to ``count - 1``, or all if there are fewer."""
    return np.linspace(0, count - 1, min(count, room)).round().astype(np.int64)
