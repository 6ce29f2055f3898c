"""Checks of the reference policy: relations of log-probabilities that hold in a correct run."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import KL, Check
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.laws import NOT_OBSERVED, Figure, figures_by_block
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.text.messages import translatable

# Log-probabilities that differ by less than this are the same numbers
SAME_LOGP = 1e-9


class _ReferenceIsPolicy(Limits):
    share = Limit(
        0.95,
        LimitKind.SHARE,
        "of responses",
        "share whose log-probabilities are all those of the reference, after the first step",
        translatable("trl#702: policy and reference were one model"),
    )
    steps = Limit(5, LimitKind.COUNT, "steps", "least number of such steps")


@Check(
    name="policy and reference are the same model",
    rank=Rank.CAUSE,
    needs=(KL,),
    charts=("kl",),
    limits=_ReferenceIsPolicy,
    title="Policy and reference have identical log-probabilities in {share:percent} of responses "
    "after the first step: the KL is exactly 0.",
    statement="policy and reference are identical (KL is exactly 0)",
    why="Either the reference is the policy itself, so that there is no KL penalty, or no update "
    "reaches the policy.",
    suggestion="Make sure that the reference is a copy of its own, and that weights are updated.",
    explains=("reward_stalled",),
)
def reference_is_policy(check: Check, run: Run) -> Result:
    """Find that the policy's log-probabilities are those of the reference after it was trained."""
    limits = _ReferenceIsPolicy
    # An untrained policy is the reference: the first step is correct in any case.
    first_trained = int(np.searchsorted(run.step_index, 1))
    largest = run.column("log_ratio_most")
    is_same = np.where(np.isfinite(largest), largest < SAME_LOGP, np.nan)
    is_same[:first_trained] = np.nan
    is_judged = np.isfinite(is_same)
    if np.unique(run.step_index[is_judged]).size < run.limits.value(limits.steps):
        return Result()

    def share_of_same(window: Window) -> Figure:
        of_window = is_same[window.rows]
        if not np.isfinite(of_window).any():
            return NOT_OBSERVED
        share = mean(of_window)
        return Figure(share, run.limits.test(limits.share, ">", share).met)

    blocks = figures_by_block(run, share_of_same, among=is_judged)
    if not blocks.is_observed:
        return Result()
    tested = run.limits.test(limits.share, ">", float(np.nanmax(blocks.values)))
    if not blocks.is_violated:
        return Result(tested=(tested,))
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {"share": mean(is_same[blocks.rows])},
        Ranking(largest, highest=False, unit="nats", among=is_same == 1),
        onset=blocks.onset,
        until=blocks.until,
        steps=blocks.steps,
    )
