"""Choose the responses that show a finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check import progress
from rlreport.check.finding import Evidence, Example, Onset
from rlreport.check.limits import Op
from rlreport.check.means import mean, median
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import significant

MAX_EXAMPLES = 3  # Maximum number of example responses in the evidence of a finding
# So many of the first by rank are enough to find three different prompts
MAX_RANKED = 400
# A pair of responses shows progress from this part of the first steps to that of the last ones or,
# without a prompt in both, from one half of the run to the other
ENDS = (1 / 3, 1 / 2)
# Rewards of such a pair are as typical as others if they differ by less than this part of the gain
ALIKE = 0.25
# A response shorter than this part of the usual length is not typical
STUB = 0.25

Bools = NDArray[np.bool_]


class Ranking(NamedTuple):
    """How to choose a finding's example responses: those that fulfil its claim, clearest first.

    ``among`` is what the finding claims, as a predicate on one response: 1 for responses that
    fulfil it, 0 for those that do not, and NaN where that is not known. Only the first are
    examples, and only the second are shown as earlier responses to the same prompt.
    """

    by: Floats  # a figure of each response, float64 (rows,); NaN comes last
    among: Floats | Bools  # (rows,)
    # whether those with the highest figure come first, else the lowest
    highest: bool = True
    unit: str = ""  # of ``by``; "" does not show the values
    # index of the token to look at, float64 (rows,), NaN for none
    token: Floats | None = None
    # Excerpts show this text, or the end if ``at_end``.
    look_for: str = ""
    at_end: bool = False
    # whether the claim is one on the last steps, whenever it began
    in_last_window: bool = False

    @classmethod
    def beyond(
        cls,
        values: Floats,
        op: Op,
        bound: float,
        *,
        unit: str = "",
        at_end: bool = False,
    ) -> Ranking:
        """Choose responses for which ``value op bound``, those that are farthest beyond it first.

        ``values`` are those of responses, float64 (rows,), NaN for one without a value.
        """
        is_highest = op in {">", ">="}
        return cls(values, beyond(values, op, bound), is_highest, unit, at_end=at_end)

    @property
    def fulfils(self) -> Bools:
        """Which responses fulfil the claim, bool (rows,)."""
        return np.asarray(self.among == 1)

    @property
    def fails(self) -> Bools:
        """Which responses do not; one without a figure may fulfil it, bool (rows,)."""
        return np.asarray((self.among == 0) & np.isfinite(self.by))


def where_known(values: Floats, condition: Bools) -> Floats:
    """Return 1 where a condition on these values is met, 0 elsewhere, NaN where a value is NaN."""
    return np.where(np.isfinite(values), condition, np.nan)


def beyond(values: Floats, op: Op, bound: float) -> Floats:
    """Return 1 where ``value op bound``, 0 elsewhere, NaN where a value is NaN, float64 (rows,)."""
    compare = {
        ">": np.greater,
        ">=": np.greater_equal,
        "<": np.less,
        "<=": np.less_equal,
    }[op]
    return where_known(values, compare(values, bound))


def nearer(values: Floats, to: float, than: float) -> Floats:
    """Return 1 for values nearer to one level than to another one, 0 for others, NaN for NaN.

    Those are the values on its side of the middle: with two kinds of values around both levels,
    the responses that made a mean move from the second level to the first.
    """
    middle = (to + than) / 2
    return beyond(values, "<" if to < than else ">", middle)


def evidence_of(
    run: Run,
    ranking: Ranking,
    onset: Onset | None,
    until: int | None = None,
    steps: Iterable[int] | None = None,
) -> Evidence:
    """Return up to three responses that show a finding, of different prompts first.

    Only responses whose texts were read and that fulfil the claim in the steps of the finding are
    eligible. If there are fewer than three prompts, further responses to them fill up the three.
    Each example comes with the last response to its prompt before the onset that does not fulfil
    the claim, if there is one; of equally clear ones, those that have one come first.

    Args:
        run: the run that was judged.
        ranking: how to choose them.
        onset: when the problem began, None if unknown.
        until: its last step if it ended; later responses are no examples.
        steps: the steps that it concerns; by default those since the onset, and without one those
            of the last window.
    """
    # Values that differ by rounding errors alone must not decide about the order.
    ranking = ranking._replace(by=significant(ranking.by))
    of_steps = _has_text(run) & _is_in_steps(run, ranking, onset, until, steps)
    eligible = np.flatnonzero(of_steps & ranking.fulfils)
    if not len(eligible):
        is_known = ranking.fulfils | np.asarray(ranking.among == 0)
        return Evidence((), int((of_steps & is_known).sum()))
    # Without an onset, no response is an earlier one.
    end = _end_of_normal(run, onset) if onset else -np.inf
    earlier = _earlier(run, ranking, end)
    by = ranking.by[eligible]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    has_none = ~np.isin(prompts[eligible], list(earlier))
    clearest_first = np.lexsort((has_none, -by if ranking.highest else by))
    ranked = eligible[clearest_first][:MAX_RANKED]
    _, first_of_prompt = np.unique(prompts[ranked], return_index=True)
    # Sorted, as ``unique`` orders them by prompt, not by rank
    of_different_prompts = ranked[np.sort(first_of_prompt)].tolist()
    # A dict keeps the order and drops those that come twice.
    chosen = dict.fromkeys([*of_different_prompts, *ranked.tolist()])
    rows = list(chosen)[:MAX_EXAMPLES]
    return Evidence(
        tuple(
            _with_earlier(run, ranking, row, earlier.get(int(prompts[row])))
            for row in rows
        )
    )


def _end_of_normal(run: Run, onset: Onset) -> int:
    """Return the step before which responses are normal.

    That is where the problem may have begun. If that may be the first step, no response would be
    normal: then it is the step of the onset.
    """
    return onset.low if onset.low > run.steps[0] else onset.step


def _has_text(run: Run) -> Bools:
    return np.asarray(run.responses["has_texts"].to_numpy() == 1)


def _is_in_steps(
    run: Run,
    ranking: Ranking,
    onset: Onset | None,
    until: int | None,
    steps: Iterable[int] | None,
) -> Bools:
    """Return which responses are of the steps of a finding, bool (rows,).

    The onset is an interval: responses before its ``low`` are surely normal, and those from its
    ``step`` on should show the problem. Those between are neither.
    """
    step = run.responses["step"].to_numpy(np.int64)
    first = run.steps[0] if onset is None else onset.step
    if ranking.in_last_window or (onset is None and steps is None):
        first = max(first, run.last.steps[0])
    last = run.steps[-1] if until is None else until
    is_inside = (step >= first) & (step <= last)
    if steps is None:
        return np.asarray(is_inside)
    return np.asarray(is_inside & np.isin(step, list(steps)))


def _earlier(run: Run, ranking: Ranking, end: float) -> dict[int, int]:
    """Return prompt -> row of its last response before step ``end`` that fails the claim."""
    step = run.responses["step"].to_numpy(np.int64)
    rows: Ints = np.flatnonzero(_has_text(run) & ranking.fails & (step < end))
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    # Rows are in the order of steps: the last one of a prompt stays.
    return dict(zip(prompts.tolist(), rows.tolist(), strict=True))


def _with_earlier(run: Run, ranking: Ranking, row: int, earlier: int | None) -> Example:
    """Return the response of ``row`` with the one of row ``earlier``, if any, for contrast."""
    example = _example(run, ranking, row)
    if earlier is None:
        return example
    return replace(example, before=_example(run, ranking, earlier))


def _example(run: Run, ranking: Ranking, row: int) -> Example:
    """Return the response of a row as an example; its excerpt is set when texts are read."""
    by = ranking.by[row]
    token = np.nan if ranking.token is None else ranking.token[row]
    return Example(
        step=int(run.responses["step"].iloc[row]),
        n=int(run.responses["n"].iloc[row]),
        token=int(token) if np.isfinite(token) else None,
        value=float(by) if np.isfinite(by) else None,
        unit=ranking.unit,
        look_for=ranking.look_for,
        at_end=ranking.at_end,
    )


def progress_pair(
    run: Run, counts: Floats | None = None, text: str = ""
) -> Example | None:
    """Return a late response with a high reward, and an early one to its prompt with a low one.

    Both are typical: their rewards are about those of the first and of the last steps, but beyond
    them, and they are no stubs; of these, the shortest ones are chosen. If most of the reward's
    rise is the format of answers, both answers are right. None if the reward of the logged
    responses did not rise, or no prompt has two such responses.

    Args:
        run: the run.
        counts: how often each response has a text that was learned, float64 (rows,), NaN if
            unknown: only the late response has it. None without such a text.
        text: that text, which the excerpt shows.
    """
    if run.responses.empty:
        return None
    for part in ENDS:
        # Of few steps, the first and the last one
        count = max(int(part * len(run.steps)), 1)
        early = run.step_index < count
        late = run.step_index >= max(len(run.steps) - count, count)
        pair = _pair(run, early, late, counts) if late.any() else None
        if pair is not None:
            before = pair.before and replace(pair.before, look_for=text)
            return replace(pair, look_for=text, before=before)
    return None


def _pair(run: Run, early: Bools, late: Bools, counts: Floats | None) -> Example | None:
    """Return the pair of an early and a late response to a prompt, None without one."""
    reward = run.column("reward")
    before = mean(reward[early])
    after = mean(reward[late])
    if not after > before:
        return None
    lacks, has = _with_and_without(run, counts)
    is_low = early & lacks & (reward <= before)
    is_high = late & has & (reward >= after)
    size = ALIKE * (after - before)
    of_low = _typical(run, is_low, np.abs(reward - before) // size, early)
    of_high = _typical(run, is_high, np.abs(reward - after) // size, late)
    shared = of_low.keys() & of_high.keys()
    if not shared:
        return None

    def order(prompt: int) -> tuple[float, float, int]:
        low = of_low[prompt]
        high = of_high[prompt]
        return low.distance + high.distance, low.length + high.length, high.row

    prompt = min(shared, key=order)
    by = significant(reward)
    # What decides on the reward of an answer with a label stands at its end.
    at_end = run.has("label_hit") or progress.verifiable(run)
    ranking = Ranking(by, is_high, unit="reward", at_end=at_end)
    return _with_earlier(run, ranking, of_high[prompt].row, of_low[prompt].row)


def _with_and_without(run: Run, counts: Floats | None) -> tuple[Bools, Bools]:
    """Return which responses can be the early one and the late one of a pair, (rows,) each."""
    if counts is not None:
        return np.asarray(counts == 0), np.asarray(counts > 0)
    if progress.gained_format(run):
        is_right = run.column("label_hit") == 1
        return is_right, is_right
    everything = np.ones(len(run.responses), bool)
    return everything, everything


class _Typical(NamedTuple):
    """The response to a prompt that is most typical of some steps."""

    distance: float  # from their mean reward, as a whole number of steps
    length: float
    row: int


def _typical(
    run: Run, among: Bools, distance: Floats, of_steps: Bools
) -> dict[int, _Typical]:
    """Return prompt -> the response among these nearest to the mean reward, then the shortest.

    Args:
        run: the run.
        among: which responses come into question, bool (rows,).
        distance: how far the reward of each is from the mean, float64 (rows,).
        of_steps: the responses of these steps, whose median length is the usual one, bool (rows,).
    """
    length = run.column("response_chars")
    is_whole = length >= max(STUB * median(length[of_steps]), 1.0)
    rows = np.flatnonzero(among & is_whole & _has_text(run))
    order = rows[np.lexsort((length[rows], distance[rows]))]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    typical: dict[int, _Typical] = {}
    for row in order.tolist():
        one = _Typical(float(distance[row]), float(length[row]), row)
        typical.setdefault(int(prompts[row]), one)
    return typical
