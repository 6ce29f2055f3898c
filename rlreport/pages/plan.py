"""Choose which responses a report shows, the most interesting first, and with how much detail.

All pages of steps have the same level of detail, the most detailed that fits the report's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Example
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


class _End(NamedTuple):
    """A metric whose lowest or highest value makes a response an extreme."""

    label: str
    metric: str
    end: Literal["min", "max"]
    at_token: bool = False  # whether to link to the token with the largest KL


_ENDS = (
    _End(translatable("Lowest reward"), "reward", "min"),
    _End(translatable("Highest reward"), "reward", "max"),
    _End(translatable("Furthest below the reference"), "reward_gap", "min"),
    _End(translatable("Furthest above the reference"), "reward_gap", "max"),
    _End(translatable("Largest KL"), "kl_k1", "max", at_token=True),
    _End(translatable("Most negative KL"), "kl_k1", "min"),
    _End(RESPONSE["kl_max"].label, "kl_max", "max", at_token=True),
    _End(translatable("Longest"), "response_tokens", "max"),
    _End(translatable("Shortest"), "response_tokens", "min"),
    _End(translatable("Highest surprisal"), "surprisal_mean", "max"),
    _End(translatable("Lowest surprisal"), "surprisal_mean", "min"),
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
    for end in _ENDS:
        extreme = _extreme(responses, end)
        if extreme:
            result.append(extreme)
    errors = responses[TOOL_ERRORS].to_numpy(np.float64)
    rows = np.flatnonzero(errors > 0)
    if len(rows):
        row = int(rows[0])
        label = message("First tool error")
        result.append(Extreme(label, TOOL_ERRORS, row, float(errors[row])))
    return result


def _extreme(responses: pd.DataFrame, end: _End) -> Extreme | None:
    """Return the last response at an end of a metric, None if all values are the same.

    A branch (``RowRole.BRANCH``), which was not trained, is never an extreme.
    """
    metric = end.metric
    if metric == "response_tokens":
        metric = length_column(responses)
    is_branch = responses["validation"].to_numpy() == RowRole.BRANCH
    values = np.where(is_branch, np.nan, responses[metric].to_numpy(np.float64))
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.min() == finite.max():
        return None
    value = float(finite.min() if end.end == "min" else finite.max())
    # "Most negative KL" needs a negative one.
    if end.end == "min" and metric == "kl_k1" and value >= 0:
        return None
    row = int(np.flatnonzero(values == value)[-1])
    token = None
    if end.at_token:
        position = responses["kl_max_position"].to_numpy()[row]
        token = None if np.isnan(position) else int(position)
    return Extreme(message(end.label), metric, row, value, token)


class RankedColumns(NamedTuple):
    """The columns of the response table by which responses are ranked, arrays of R rows."""

    metrics: NDArray[np.float64]  # (R, number of METRICS)
    n: NDArray[np.int64]
    prompt: NDArray[np.int64]  # ids
    is_branch: NDArray[np.bool_]
    rollout: NDArray[np.int64]

    @classmethod
    def of(cls, responses: pd.DataFrame) -> RankedColumns:
        return cls(
            metrics=responses[list(METRICS)].to_numpy(np.float64),
            n=responses["n"].to_numpy(),
            prompt=responses["prompt_id"].to_numpy(),
            is_branch=responses["validation"].to_numpy() == RowRole.BRANCH,
            rollout=responses["rollout"].to_numpy(),
        )

    def part(self, start: int, stop: int) -> RankedColumns:
        """Return the rows from ``start`` to before ``stop``."""
        # Slices of arrays, as slices of a table take a millisecond for each of many steps.
        return RankedColumns._make(column[start:stop] for column in self)


def rank_by_interest(
    responses: RankedColumns, shown: int, pinned: Iterable[int] = ()
) -> NDArray[np.int64]:
    """Return the indices of up to ``shown`` rows of a step, the most interesting first.

    Responses whose n is ``pinned`` come first, then extremes, then a sample of the others.
    """
    rank = extremeness(responses.metrics)
    is_pinned = np.isin(responses.n, np.fromiter(pinned, np.int64))
    rank[is_pinned] = -1  # before all others, whose ranks begin at 0
    is_branch = responses.is_branch
    if is_branch.any():  # a branch gets the rank of the trained response of its rollout
        trained = pd.Series(rank).mask(is_branch)
        of_rollout = trained.groupby(responses.rollout).transform("min")
        # Without a trained response it comes last.
        rank[is_branch] = of_rollout.fillna(len(rank))[is_branch]
    order = rank.argsort(kind="stable")
    if len(order) <= shown:
        return order
    # All pinned ones come first, and at least a share of extremes.
    leading = max(int(is_pinned.sum()), int(shown * EXTREME_SHARE))
    leading = min(leading, shown)
    rest = np.sort(order[leading:])  # in log order
    prompt = responses.prompt[rest]
    nth = pd.Series(prompt).groupby(prompt).cumcount()
    # The first response of each prompt comes first, then the second of each, … ``mix`` hashes the
    # id: all steps take prompts in the same random order, so that a prompt can be followed.
    random_order = mix(prompt.astype(np.uint64))
    rest = rest[np.lexsort((random_order, nth))]  # the last key counts most
    return np.concatenate([order[:leading], rest[: shown - leading]])


FINEST_DIGITS = 6  # Significant digits of token values at the highest level of detail
COMPACT = 4  # Significant digits on pages with many token values

# Typical compressed bytes of a page, of a response, and of a token value by its digits. The first
# rendering shows how far these estimates are off.
PAGE_BYTES = 8_000
ROW_BYTES = 1_000
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
    # row numbers in the response table, the most interesting first
    rows: NDArray[np.int64]
    pinned: int  # number of leading ``rows`` that findings cite or that are extremes of the run
    tokens: NDArray[np.float64]  # number of tokens of each response in ``rows``
    arrays: int  # number of values that the page has for each token, 0 if no tokens are logged
    # how many of ``rows``, from the first on, are shown with token values
    with_tokens: int = 0
    digits: int = FINEST_DIGITS  # significant digits of token values

    def at(self, level: int) -> StepPlan:
        """Return the plan at a level of detail, an index into LEVELS."""
        limits = LEVELS[level]
        # Pinned rows are shown beyond the limits, but not at the last level, which must be small.
        is_last = level == len(LEVELS) - 1
        pinned = 0 if is_last else self.pinned
        rows = len(self.rows)
        if limits.rows is not None:
            rows = min(rows, max(limits.rows, pinned))
        with_tokens = rows if self.arrays else 0
        if limits.with_tokens is not None:
            with_tokens = min(with_tokens, max(limits.with_tokens, pinned))
        return replace(
            self,
            rows=self.rows[:rows],
            with_tokens=with_tokens,
            digits=limits.digits,
        )

    @property
    def expected_bytes(self) -> float:
        values = self.arrays * float(self.tokens[: self.with_tokens].sum())
        texts = PAGE_BYTES + ROW_BYTES * len(self.rows)
        return texts + VALUE_BYTES[self.digits] * values


def expected_bytes(candidates: Sequence[StepPlan], level: int) -> float:
    """Return the estimated bytes of the pages of these steps at a level of detail."""
    total = 0.0
    for candidate in candidates:
        total += candidate.at(level).expected_bytes
    return total


def fitting_level(candidates: Sequence[StepPlan], room: float) -> int:
    """Return the index of the first level within ``room`` and MAX_FINE_VALUES, else of the last."""
    most_values = 0.0  # values per token of the page with most of them
    for candidate in candidates:
        values = candidate.arrays * float(candidate.tokens.sum())
        most_values = max(most_values, values)
    # Level 0 has more digits than level 1, and is the same otherwise.
    finest = 0 if most_values <= MAX_FINE_VALUES else 1
    last = len(LEVELS) - 1
    for level in range(finest, last):
        if expected_bytes(candidates, level) <= room:
            return level
    return last


def affordable(candidates: Sequence[StepPlan], room: float) -> int:
    """Return how many steps may have a page if all pages take up to ``room`` bytes.

    It is how many fit at the level before the last or, if that is fewer than FEWEST, up to FEWEST
    at the last.
    """
    last = len(LEVELS) - 1
    # Mean bytes of a page at the level before the last, and at the last
    second_lowest = expected_bytes(candidates, last - 1) / len(candidates)
    lowest = expected_bytes(candidates, last) / len(candidates)
    return max(int(room / second_lowest), min(FEWEST, int(room / lowest)))


def left_out(
    steps: Sequence[StepPlan],
    steps_in_all: int,
    splits: pd.Series,
    token_responses: int,
) -> list[str]:
    """Return sentences on what a report with pages of ``steps`` leaves out; [] if nothing.

    Args:
        steps: the steps that have a page, with what it shows.
        steps_in_all: number of steps with responses.
        splits: the column ``validation`` of all responses.
        token_responses: number of responses with values per token.
    """
    responses = sum(len(step.rows) for step in steps)
    token_rows = sum(step.with_tokens for step in steps)
    digits = min((step.digits for step in steps), default=FINEST_DIGITS)
    sentences = []
    if len(steps) < steps_in_all:
        pages = message(
            "{some:count} of {all:count} steps have no page; the first, the last, those of "
            "findings and extremes, and every n-th of the others have one.",
            some=steps_in_all - len(steps),
            all=steps_in_all,
        )
        sentences.append(pages)
    if responses < len(splits):
        texts = message(
            "{some:count} of {all} are shown with their text: those that findings "
            "refer to, the extremes of every metric, and a seeded sample of the rest. Figures do "
            "not depend on this choice.",
            some=responses,
            all=counted_in_all(splits),
        )
        sentences.append(texts)
    if token_rows < min(responses, token_responses):
        tokens = message(
            "Token data is included for the {some:count} most interesting of {all:count} shown "
            "responses.",
            some=token_rows,
            all=responses,
        )
        sentences.append(tokens)
    if token_responses and digits < FINEST_DIGITS:
        values = message(
            "Token values are kept to {digits} significant digits.", digits=digits
        )
        sentences.append(values)
    return sentences


def fewer_steps(steps: Sequence[StepPlan], room: int) -> list[StepPlan]:
    """Choose up to ``room`` steps: first, last, those with pinned responses, and every n-th.

    A response is pinned if a finding cites it or it is an extreme of the run.
    """
    room = min(max(2, room), MAX_STEP_PAGES)
    if room >= len(steps):
        return list(steps)
    pinned = [index for index, step in enumerate(steps) if step.pinned]
    # The first and the last step come first, in case not all of these fit.
    last = len(steps) - 1
    wanted = list(dict.fromkeys([0, last, *pinned]))[:room]
    stride = 2  # or a power of 2, so that the choice rarely changes while a run grows
    while len({*wanted, *range(0, len(steps), stride)}) > room:
        stride *= 2
    indices = {*wanted, *range(0, len(steps), stride)}
    return [steps[index] for index in sorted(indices)]


MOST_STEPS = 100_000  # Maximum number of steps in a report


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
    pinned = _pinned(responses, verdict)
    tokens = np.nan_to_num(responses["response_tokens"].to_numpy(np.float64))
    arrays = _arrays_per_token(tables)
    # The rows of a step follow each other.
    steps = responses["step"].to_numpy()
    # The first row starts a step, too, as another number is put before it.
    is_start = np.diff(steps, prepend=steps[0] - 1) != 0
    starts = np.flatnonzero(is_start).tolist()
    stops = [*starts[1:], len(steps)]
    columns = RankedColumns.of(responses)
    plans = []
    for start, stop in zip(starts, stops, strict=True):
        step = int(steps[start])
        of_step = pinned.get(step, set())
        part = columns.part(start, stop)
        ranked = rank_by_interest(part, options.max_responses, of_step)
        # Rows of ``responses``; ``with_texts`` has their numbers in the response table.
        rows = start + ranked
        plan = StepPlan(
            step=step,
            rows=with_texts[rows],
            pinned=len(of_step),
            tokens=tokens[rows],
            arrays=arrays,
        )
        plans.append(plan)
    return plans


def _pinned(responses: pd.DataFrame, verdict: Verdict) -> dict[int, set[int]]:
    """Return step -> n of the responses that the verdict cites or that are extremes of the run."""
    steps = responses["step"].to_numpy()
    numbers = responses["n"].to_numpy()
    pinned: dict[int, set[int]] = {}
    cited: list[Example] = []
    for finding in verdict.findings:
        cited += finding.shown
    if verdict.pair:
        cited.append(verdict.pair)
        if verdict.pair.before:
            cited.append(verdict.pair.before)
    for example in cited:
        pinned.setdefault(example.step, set()).add(example.n)
    for extreme in extremes(responses):
        step = int(steps[extreme.row])
        pinned.setdefault(step, set()).add(int(numbers[extreme.row]))
    return pinned


def _arrays_per_token(tables: Tables) -> int:
    """Return how many values pages have for each token."""
    has_tokens = tables.fields.get("response_tokens") or tables.fields.get("token_ids")
    if not has_tokens:
        return 0
    # Advantages are among the computed arrays, also if they are logged.
    logged = [n for n in LOGGED if n != "advantages" and tables.fields.get(n)]
    if not logged:
        return 1  # which token it is
    # Pages also contain three computed arrays: log-ratios, advantages and returns.
    return len(logged) + 3


def shown_prompts(
    responses: pd.DataFrame, shown: Sequence[NDArray[np.int64]]
) -> dict[str, list[int]]:
    """Return prompt_id -> [step, n, step, n, …] of prompts shown at several steps, one n each.

    ``shown``: for each page of a step, the rows of ``responses`` that it shows.
    """
    if not shown:
        return {}
    rows = responses[["prompt_id", "step", "n"]].iloc[np.concatenate(shown)]
    keys = ["prompt_id", "step"]
    one_per_step = rows.drop_duplicates(keys).sort_values(keys)
    recurring = one_per_step[one_per_step["prompt_id"].duplicated(keep=False)]
    return {
        str(prompt): group[["step", "n"]].to_numpy().ravel().tolist()
        for prompt, group in recurring.groupby("prompt_id")
    }
