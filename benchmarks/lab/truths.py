"""Truths: the findings that a report should have, from planted faults and clear figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .figures import MEASURED, Row, beyond_doubt, by_step, series

CHECKS = (
    "nan_metrics", "broken_log", "reward_shift", "reward_hacking_token", "length_hacking",
    "engine_mismatch", "ratio_drift", "negative_kl", "value_divergence", "zero_variance_groups",
    "entropy_explosion", "reward_collapse", "watched_reward_fall", "length_collapse",
    "diversity_collapse", "entropy_collapse", "missing_eos", "kl_explosion", "language_drift",
)  # fmt: skip
"""Findings of warning or worse that a run may get, causes first."""

CAUSES = CHECKS[: CHECKS.index("entropy_explosion") + 1]


@dataclass
class Planted:
    """The fault that was planted in a run.

    Attributes:
        findings: that must be found; empty in a healthy run.
        since: the step at which the change sets in; None where there is none.
        by: the figure of a row by which the change is seen, else its onset is at ``since``.
        within: steps after ``since`` at which the trouble may be said to begin, where no
            figure shows it.
        may: findings on which two colleagues could differ.
        lead: findings of which one should lead; by default the planted causes, else any.
    """

    findings: tuple[str, ...] = ()
    since: int | None = None
    by: Callable[[Row], float] | None = None
    within: int = 0
    may: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()


def onset_interval(rows: Sequence[Row], planted: Planted) -> list[int] | None:
    """Return the first and last acceptable step for the onset of the fault.

    The first is the step at which the change sets in; the last the one from which the
    figure, smoothed over three steps, stays beyond a third of its whole change.
    """
    if planted.since is None:
        return None
    steps = by_step(rows)
    numbers = [s[0]["step"] for s in steps]
    if planted.by is None:
        return [planted.since, planted.since + planted.within]
    figure = series(steps, planted.by)
    start = numbers.index(planted.since)
    before = np.nanmean(figure[: max(start, 3)])
    padded = np.concatenate([figure[:1], figure, figure[-1:]])
    smooth = np.convolve(padded, np.ones(3) / 3, "valid")
    whole = np.nanmean(figure[-5:]) - before
    beyond = (smooth - before) / whole
    third = (
        max((i for i in range(len(beyond)) if not beyond[i] >= 1 / 3), default=0) + 1
    )
    small = max((i for i in range(third) if not beyond[i] >= 0.03), default=start)
    low = max(start, min(small, third) - 1)
    return [numbers[low], numbers[min(max(third, low + 3), len(numbers) - 1)]]


def truth_of(rows: Sequence[Row], planted: Planted) -> dict[str, Any]:
    """Return the run's truth: expected, not_expected, lead, onset."""
    if not planted.findings:
        quiet = [c for c in CHECKS if c not in planted.may]
        lead: list[str] | None = (
            None if planted.may else []
        )  # null: whatever leads is right
        return {"expected": [], "not_expected": quiet, "lead": lead, "onset": None}
    judged = rows
    if "nan_metrics" in planted.findings:
        judged = [row for row in rows if row["step"] < (planted.since or 0)]
    says = beyond_doubt(judged)
    if (
        "reward_shift" in planted.findings
    ):  # the reward fell, but not by the policy's doing
        says["reward_collapse"] = False
    expected = [
        c for c in CHECKS
        if c in planted.findings or (says.get(c) is True and c not in planted.may)
    ]  # fmt: skip
    expected += [c for c in planted.findings if c not in CHECKS]
    absent = [
        c for c in CHECKS
        if c not in expected and c not in planted.may
        and (c not in MEASURED or says.get(c) is False)
    ]  # fmt: skip
    leading = [c for c in expected if c in CAUSES and c in planted.findings]
    # Where no cause was planted, any consequence that may come may lead.
    open_to = [c for c in CHECKS if c not in absent and c not in CAUSES]
    lead = (
        list(planted.lead) or leading or (open_to if planted.since is not None else [])
    )
    return {
        "expected": expected,
        "not_expected": absent,
        "lead": lead,
        "onset": onset_interval(rows, planted),
    }
