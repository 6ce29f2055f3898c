"""Choose which responses a report shows, the most interesting first, and with how much detail.

All pages of steps have the same level of detail, the most detailed that fits the report's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.verdict import Verdict
from rlreport.columns import RESPONSE
from rlreport.errors import UnusableInputError
from rlreport.figures.tokens import LOGGED
from rlreport.options import ReportOptions
from rlreport.read.choice import METRICS, extremeness
from rlreport.read.tables import mix
from rlreport.tables import RowRole, Tables, counted_in_all, length_column
from rlreport.text.messages import message, translatable

# Fraction of a step's shown responses that have extreme metrics; the others are sampled
EXTREME_SHARE = 0.5

TOOL_ERRORS = "tool_errors"

# Extremes: (label, metric, "min" or "max", whether to link to the token with the largest KL)
_ENDS = (
    (translatable("Lowest reward"), "reward", "min", False),
    (translatable("Highest reward"), "reward", "max", False),
    (translatable("Furthest below the reference"), "reward_gap", "min", False),
    (translatable("Furthest above the reference"), "reward_gap", "max", False),
    (translatable("Largest KL"), "kl_k1", "max", True),
    (translatable("Most negative KL"), "kl_k1", "min", False),
    (RESPONSE["kl_max"].label, "kl_max", "max", True),
    (translatable("Longest"), "response_tokens", "max", False),
    (translatable("Shortest"), "response_tokens", "min", False),
    (translatable("Highest surprisal"), "surprisal_mean", "max", False),
    (translatable("Lowest surprisal"), "surprisal_mean", "min", False),
)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The response with the lowest or highest value of a metric, or the first tool error."""

    label: str
    metric: str
    row: int  # of the response table
    value: float
    token: int | None = None  # index of the token that links lead to, if any


def extremes(responses: pd.DataFrame) -> list[Extreme]:
    """Return the last response at each of ``_ENDS`` (but no branch), then the first tool error."""
    result = []
    branches = responses["validation"].to_numpy() == RowRole.BRANCH
    for label, metric, end, at_token in _ENDS:
        column = length_column(responses) if metric == "response_tokens" else metric
        values = np.where(branches, np.nan, responses[column].to_numpy(np.float64))
        finite = values[np.isfinite(values)]
        if not len(finite) or finite.min() == finite.max():
            continue
        value = float(finite.min() if end == "min" else finite.max())
        if end == "min" and metric == "kl_k1" and value >= 0:
            continue
        row = int(np.flatnonzero(values == value)[-1])
        position = responses["kl_max_position"].to_numpy()[row] if at_token else np.nan
        token = None if np.isnan(position) else int(position)
        result.append(Extreme(message(label), column, row, value, token))
    errors = responses[TOOL_ERRORS].to_numpy(np.float64)
    for row in np.flatnonzero(errors > 0)[:1].tolist():
        result.append(
            Extreme(message("First tool error"), TOOL_ERRORS, row, float(errors[row]))
        )
    return result


def rank_by_interest(
    responses: pd.DataFrame, shown: int, pinned: Iterable[int] = ()
) -> NDArray[np.int64]:
    """Return indices of up to ``shown`` rows of a step: ``n`` in ``pinned``, extremes, a sample."""
    rank = extremeness(responses[list(METRICS)].to_numpy(np.float64))
    is_pinned = np.isin(responses["n"].to_numpy(), np.fromiter(pinned, np.int64))
    rank[is_pinned] = -1
    branches = responses["validation"].to_numpy() == RowRole.BRANCH
    if branches.any():  # a branch gets the rank of the trained response of its rollout
        trained = (
            pd.Series(rank).mask(branches).groupby(responses["rollout"].to_numpy())
        )
        rank[branches] = trained.transform("min").fillna(len(rank))[branches]
    order = rank.argsort(kind="stable")
    if len(order) <= shown:
        return order
    leading = min(max(int(is_pinned.sum()), int(shown * EXTREME_SHARE)), shown)
    rest = np.sort(order[leading:])
    prompt = responses["prompt_id"].to_numpy()[rest]
    nth = pd.Series(prompt).groupby(prompt).cumcount()
    # All steps take prompts in the same random order, so that a prompt can be followed.
    rest = rest[np.lexsort((mix(prompt.astype(np.uint64)), nth))]
    return np.concatenate([order[:leading], rest[: shown - leading]])


FINEST_DIGITS = 6  # Significant digits of token values at the highest level of detail
COMPACT = 4  # Significant digits on pages with many token values

# Typical compressed bytes of a page, of a response, and of a token value by its digits. The first
# rendering shows how far these estimates are off.
PAGE_BYTES, ROW_BYTES = 8_000, 1_000
VALUE_BYTES = {FINEST_DIGITS: 2.4, COMPACT: 1.7, 3: 1.3}
FEWEST = 24  # this many steps get a page even if only the lowest level of detail fits

# Maximum number of steps with a page; longer runs have pages for every n-th step only
MAX_STEP_PAGES = 1_000

# If any page has more token values, all are rounded to COMPACT digits, to stay near 1 MB
MAX_FINE_VALUES = 120_000


class Level(NamedTuple):
    """A level of detail for the pages of steps; a limit of None is no limit."""

    rows: int | None  # maximum number of responses on a page
    with_tokens: int | None  # maximum number of responses with token values
    digits: int  # significant digits of token values


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
    rows: NDArray[
        np.int64
    ]  # int64, row numbers in the response table, the most interesting first
    pinned: int  # number of leading ``rows`` that findings cite or that are extremes of the run
    tokens: NDArray[
        np.float64
    ]  # float64, number of tokens of each response in ``rows``
    arrays: int  # number of values that the page has for each token, 0 if no tokens are logged
    with_tokens: int = (
        0  # how many of ``rows``, from the first on, are shown with token values
    )
    digits: int = FINEST_DIGITS  # significant digits of token values

    def at(self, level: int) -> StepPlan:
        wanted = LEVELS[level]
        count = len(self.rows)
        pinned = 0 if level == len(LEVELS) - 1 else self.pinned
        rows = count if wanted.rows is None else min(count, max(wanted.rows, pinned))
        tokens = (
            rows
            if wanted.with_tokens is None
            else min(rows, max(wanted.with_tokens, pinned))
        )
        return replace(
            self,
            rows=self.rows[:rows],
            with_tokens=tokens if self.arrays else 0,
            digits=wanted.digits,
        )


def expected_bytes(candidates: Sequence[StepPlan], level: int) -> float:
    """Return the estimated bytes of the pages of these steps at a level of detail."""
    total = 0.0
    for candidate in candidates:
        plan = candidate.at(level)
        values = candidate.arrays * float(candidate.tokens[: plan.with_tokens].sum())
        total += (
            PAGE_BYTES + ROW_BYTES * len(plan.rows) + VALUE_BYTES[plan.digits] * values
        )
    return total


def fitting_level(candidates: Sequence[StepPlan], room: float) -> int:
    """Return the index of the first level within ``room`` and MAX_FINE_VALUES, else of the last."""
    most_values = max(
        (c.arrays * float(c.tokens.sum()) for c in candidates), default=0.0
    )
    for level in range(0 if most_values <= MAX_FINE_VALUES else 1, len(LEVELS) - 1):
        if expected_bytes(candidates, level) <= room:
            return level
    return len(LEVELS) - 1


def affordable(candidates: Sequence[StepPlan], room: float) -> int:
    """Return how many steps fit: at LEVELS[-2], or up to FEWEST at LEVELS[-1] if that is more."""
    second_lowest, lowest = (
        expected_bytes(candidates, level) / len(candidates)
        for level in (len(LEVELS) - 2, len(LEVELS) - 1)
    )
    return max(int(room / second_lowest), min(FEWEST, int(room / lowest)))


def left_out(
    steps: Sequence[StepPlan],
    steps_in_all: int,
    splits: pd.Series,
    token_responses: int,
) -> list[str]:
    """Return sentences on what a report with pages of ``steps`` leaves out; [] if nothing.

    ``splits`` is the column ``validation`` of all responses.
    """
    responses = sum(len(step.rows) for step in steps)
    token_rows = sum(step.with_tokens for step in steps)
    digits = min((step.digits for step in steps), default=FINEST_DIGITS)
    pages = message(
        "{some:count} of {all:count} steps have no page; the first, the last, those of findings "
        "and extremes, and every n-th of the others have one.",
        some=steps_in_all - len(steps),
        all=steps_in_all,
    )
    texts = message(
        "{some:count} of {all} are shown with their text: those that findings "
        "refer to, the extremes of every metric, and a seeded sample of the rest. Figures do not "
        "depend on this choice.",
        some=responses,
        all=counted_in_all(splits),
    )
    tokens = message(
        "Token data is included for the {some:count} most interesting of {all:count} shown "
        "responses.",
        some=token_rows,
        all=responses,
    )
    values = message(
        "Token values are kept to {digits} significant digits.", digits=digits
    )
    sentences = (
        (pages, len(steps) < steps_in_all),
        (texts, responses < len(splits)),
        (tokens, token_rows < min(responses, token_responses)),
        (values, token_responses and digits < FINEST_DIGITS),
    )
    return [text for text, applies in sentences if applies]


def fewer_steps(steps: Sequence[StepPlan], room: int) -> list[StepPlan]:
    """Choose up to ``room`` steps: first, last, those with pinned responses, and every n-th."""
    room = min(max(2, room), MAX_STEP_PAGES)
    if room >= len(steps):
        return list(steps)
    pinned_indices = [index for index, step in enumerate(steps) if step.pinned]
    indices = set(list(dict.fromkeys([0, len(steps) - 1, *pinned_indices]))[:room])
    stride = 2  # and its powers, so that the choice rarely changes while a run grows
    while len(indices.union(range(0, len(steps), stride))) > room:
        stride *= 2
    return [
        steps[index] for index in sorted(indices.union(range(0, len(steps), stride)))
    ]


MOST_STEPS = 20_000  # Maximum number of steps in a report


def choose(tables: Tables, verdict: Verdict, options: ReportOptions) -> list[StepPlan]:
    """Return a plan per step with chosen responses: up to ``max_responses``, ranked by interest."""
    if len(tables.steps) > MOST_STEPS:
        raise UnusableInputError(
            f"the logs have {len(tables.steps):,} steps, but a report can list at most "
            f"{MOST_STEPS:,}. If 'step' counts samples or tokens, name the field of the training "
            "step with --map step=FIELD; otherwise build several reports, each from fewer files"
        )
    with_texts = np.flatnonzero(tables.responses["has_texts"].to_numpy() == 1)
    if not len(with_texts):
        return []
    responses = tables.responses.iloc[with_texts]
    steps = responses["step"].to_numpy()
    numbers = responses["n"].to_numpy()
    pinned: dict[
        int, set[int]
    ] = {}  # step -> n that findings cite or that are extremes of the run
    for finding in verdict.findings:
        for ref in finding.shown:
            pinned.setdefault(ref.step, set()).add(ref.n)
    for extreme in extremes(responses):
        pinned.setdefault(int(steps[extreme.row]), set()).add(int(numbers[extreme.row]))
    token_counts = np.nan_to_num(responses["response_tokens"].to_numpy(np.float64))
    array_count = sum(
        1 for name in LOGGED.keys() - {"advantages"} if tables.fields.get(name)
    )
    has_tokens = bool(
        tables.fields.get("response_tokens") or tables.fields.get("token_ids")
    )
    # Pages also contain three computed arrays: log-ratios, advantages and returns.
    arrays = array_count + 3 if has_tokens and array_count else int(has_tokens)
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    plans = []
    for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
        step = int(steps[start])
        of_step = pinned.get(step, set())
        rows = start + rank_by_interest(
            responses.iloc[start:stop], options.max_responses, of_step
        )
        plans.append(
            StepPlan(step, with_texts[rows], len(of_step), token_counts[rows], arrays)
        )
    return plans


def shown_prompts(
    responses: pd.DataFrame, shown: Sequence[NDArray[np.int64]]
) -> dict[str, list[int]]:
    """Return prompt_id -> [step, n, step, n, …] of prompts shown at several steps, one n each."""
    if not shown:
        return {}
    rows = responses[["prompt_id", "step", "n"]].iloc[np.concatenate(shown)]
    one_per_step = rows.drop_duplicates(["prompt_id", "step"]).sort_values(
        ["prompt_id", "step"]
    )
    recurring = one_per_step[one_per_step["prompt_id"].duplicated(keep=False)]
    return {
        str(prompt): group[["step", "n"]].to_numpy().ravel().tolist()
        for prompt, group in recurring.groupby("prompt_id")
    }
