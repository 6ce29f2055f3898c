"""Choose the responses that show a finding."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import Example, Onset
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import significant

# Examples lie beyond this quantile of the responses before the onset...
NORMAL = 0.9
# ... if these are so many
LEAST_NORMAL = 10

MAX_EXAMPLES = 3  # Maximum number of example responses in the evidence of a finding
# So many of the first by rank are enough to find three different prompts
MAX_RANKED = 400


class Ranking(NamedTuple):
    """How to choose a finding's example responses: those with the highest (or lowest) ``by``."""

    by: Floats  # a figure of each response, float64 (rows,)
    highest: bool = True
    unit: str = ""  # of ``by``; "" does not show the values
    # index of the token to look at, float64 (rows,), NaN for none
    token: Floats | None = None
    # Which responses fulfil what the finding claims, bool (rows,): only they are examples, and
    # only others are shown as earlier responses to the same prompt.
    among: NDArray[np.bool_] | None = None
    # Excerpts show this text, or the end if ``at_end``.
    look_for: str = ""
    at_end: bool = False
    # whether the claim is one on the last steps, whenever it began
    in_last_window: bool = False

    def inside(self, rows: slice) -> Ranking:
        """Return the ranking of these rows alone: a range of the table of responses."""
        chosen = np.zeros(len(self.by), bool)
        chosen[rows] = True if self.among is None else self.among[rows]
        return self._replace(among=chosen)


def examples(
    run: Run, ranking: Ranking, onset: Onset | None, until: int | None = None
) -> tuple[Example, ...]:
    """Return up to three responses that show a finding, of different prompts first.

    Only responses whose texts were read, and whose ``by`` would have been unusual before the
    onset, are eligible; without an onset, all of the last window or, if none, of the run. If there
    are fewer than three prompts, further responses to them fill up the three. Each example comes
    with the last response to its prompt before the onset, if there is one.

    Args:
        run: the run that was judged.
        ranking: how to choose them.
        onset: when the problem began, None if unknown.
        until: its last step if it ended; later responses are no examples.
    """
    # Values that differ by rounding errors alone must not decide about the order.
    ranking = ranking._replace(by=significant(ranking.by))
    eligible = np.flatnonzero(_eligible(run, ranking, onset, until))
    by = ranking.by[eligible]
    clearest_first = np.argsort(-by if ranking.highest else by, kind="stable")
    ranked = eligible[clearest_first]
    ranked = ranked[:MAX_RANKED]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    _, first_of_prompt = np.unique(prompts[ranked], return_index=True)
    # Sorted, as ``unique`` orders them by prompt, not by rank
    of_different_prompts = ranked[np.sort(first_of_prompt)].tolist()
    # A dict keeps the order and drops those that come twice.
    chosen = dict.fromkeys([*of_different_prompts, *ranked.tolist()])
    # Without an onset, no response is an earlier one.
    end = _end_of_normal(run, onset) if onset else -np.inf
    rows = list(chosen)[:MAX_EXAMPLES]
    return tuple(_with_earlier(run, ranking, row, end) for row in rows)


def _end_of_normal(run: Run, onset: Onset) -> int:
    """Return the step before which responses are normal.

    That is where the problem may have begun. If that may be the first step, no response would be
    normal: then it is the step of the onset.
    """
    return onset.low if onset.low > run.steps[0] else onset.step


def _has_text(run: Run) -> NDArray[np.bool_]:
    return np.asarray(run.responses["has_texts"].to_numpy() == 1)


def _eligible(
    run: Run, ranking: Ranking, onset: Onset | None, until: int | None
) -> NDArray[np.bool_]:
    """Return which responses may be examples, bool (rows,); arguments are those of ``examples``.

    The onset is an interval: responses before its ``low`` are surely normal, and those from its
    ``step`` on should show the problem. Those between are neither.
    """
    by = ranking.by
    step = run.responses["step"].to_numpy(np.int64)
    usable = np.isfinite(by) & _has_text(run)
    if ranking.among is not None:
        usable &= ranking.among
    in_last_window = usable & (step >= run.last.steps[0])
    if ranking.in_last_window:
        eligible = in_last_window
    elif onset is None:
        eligible = in_last_window if in_last_window.any() else usable
    else:
        normal = usable & (step < _end_of_normal(run, onset))
        eligible = usable & (step >= onset.step)
        eligible &= is_unusual(by, normal, highest=ranking.highest)
    if until is None:
        return eligible
    return eligible & (step <= until)


def _with_earlier(run: Run, ranking: Ranking, row: int, end: float) -> Example:
    """Return the response of ``row``, and the last one to its prompt before step ``end``.

    The earlier one is shown for contrast: it does not fulfil what the finding claims.
    """
    is_contrast = _has_text(run)
    if ranking.among is not None:
        is_contrast &= ~ranking.among
    step = run.responses["step"].to_numpy(np.int64)
    prompt = run.responses["prompt_id"].to_numpy(np.int64)
    is_earlier = (prompt == prompt[row]) & (step < end)
    earlier: Ints = np.flatnonzero(is_earlier & is_contrast)
    example = _example(run, ranking, row)
    if not len(earlier):
        return example
    latest = int(earlier[-1])  # rows are in the order of steps
    return replace(example, before=_example(run, ranking, latest))


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


def with_texts_since(run: Run, onset: Onset | None) -> int:
    """Return how many responses since the onset (None: in the last window) have texts."""
    late = run.responses["step"].isin(run.since(onset))
    return int((run.responses.loc[late, "has_texts"] == 1).sum())


def is_unusual(
    by: Floats, normal: NDArray[np.bool_], *, highest: bool
) -> NDArray[np.bool_]:
    """Return which values are as extreme as the outer tenth of the ``normal`` ones, bool (rows,).

    All are if fewer than LEAST_NORMAL are normal, which then say too little.

    Args:
        by: one number per response, float64 (rows,).
        normal: which of them are those of normal responses, bool (rows,).
        highest: whether high values are extreme, else low ones.
    """
    if normal.sum() < LEAST_NORMAL:
        return np.ones(len(by), bool)
    bound = np.quantile(by[normal], NORMAL if highest else 1 - NORMAL)
    return by >= bound if highest else by <= bound
