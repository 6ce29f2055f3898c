"""Findings that say that the reward does not tell good responses from bad ones.

A reader who looks for the worst responses of such a run needs those that findings cite, not those
with the lowest reward.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from rlreport.check.checkpoint import HACKS, UNEARNED
from rlreport.check.finding import Finding, Severity
from rlreport.check.verdict import Judged

F = TypeVar("F", bound=Finding)

# Ids of checks whose findings say that high rewards are paid for something else than the task:
# a text, length, one part of the reward. The highest rewards are then the worst responses
OVERPAID = (*HACKS, UNEARNED)

# Ids of checks whose findings say that responses have rewards of others, or that right and wrong
# answers earn the same: neither end of the reward is the bad one
UNRELATED = ("rewards_shifted", "label_reward_mismatch", "answers_other_prompt")


def distrusts_reward(finding: Finding) -> bool:
    """Return whether a finding says that a low reward is no sign of a bad response."""
    is_serious = finding.severity is not Severity.INFO
    return is_serious and finding.id in (*OVERPAID, *UNRELATED)


def first_distrusting(findings: Iterable[F]) -> F | None:
    """Return the first finding that distrusts the reward, None without one."""
    return next(filter(distrusts_reward, findings), None)


def overpaid_steps(judged: Judged[Any]) -> tuple[int, int | None] | None:
    """Return the first and last step whose high rewards are not earned, by the leading finding.

    None if it does not say so; the last step is None if they last until the end of the run.
    """
    lead = judged.leading
    if lead is None or lead.id not in OVERPAID or judged.first_step is None:
        return None
    is_dated = lead.onset is not None and not lead.onset.from_start
    first = lead.onset.step if lead.onset and is_dated else judged.first_step
    return first, lead.until
