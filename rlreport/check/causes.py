"""Which findings explain which others, and in which order a report tells them.

A cause comes before its consequences. A finding explains another only if its onset interval does
not lie wholly after the other's. The death of the reward divides a run: causes are judged on what
lies before it, and what is found from then on is its consequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rlreport.check import progress
from rlreport.check.checkpoint import DISTANCE, HACKS, LOSSES
from rlreport.check.finding import Finding, Rank, Severity
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run

# Ids of checks whose critical findings always come first: the policy no longer works
DEATHS = ("reward_collapse", "length_collapse")


def in_order(findings: list[Finding], run: Run, best_step: int | None) -> list[Finding]:
    """Return the findings, most important first, each followed by those that it explains.

    Args:
        findings: what was found.
        run: the run that was judged.
        best_step: step of the checkpoint to keep, None if none is. What began before it did not
            keep the run from gaining: it explains no loss, and others come first.
    """
    ranked = sorted(findings, key=lambda f: (_rank_order(f), f.severity.order))
    harmless = [one for one in ranked if _came_before_gain(one, run, best_step)]
    # Id of a finding -> id of that which explains it in the end, its own if none does
    roots = {finding.id: _root(finding, ranked, harmless).id for finding in ranked}
    groups = []
    for top in ranked:
        if roots[top.id] == top.id:
            explained = [one for one in ranked if roots[one.id] == top.id]
            groups.append(_Group(top, explained))
    last = harmless if any(map(_is_loss, ranked)) else []
    groups.sort(key=lambda group: group.order(run, last))
    ordered: list[Finding] = []
    for group in groups:
        ordered.append(replace(group.top, explained_by=None))
        for finding in group.findings:
            if finding.id != group.top.id:
                ordered.append(replace(finding, explained_by=group.top.id))
    return ordered


class _Group(NamedTuple):
    """A finding that no other explains, and all that it explains, itself included."""

    top: Finding
    findings: list[Finding]

    def order(self, run: Run, last: Sequence[Finding]) -> tuple[int, int, int, int]:
        """Return the place among the groups: the smallest comes first, of equals the earliest."""
        severity = min(finding.severity.order for finding in self.findings)
        rank = _rank_order(self.top)
        onset = self.top.onset
        always = onset is None or onset.step <= run.steps[0]
        # What was there from the start did not keep the reward from rising.
        is_harmless = self.top.rank is Rank.CAUSE and always and progress.learned(run)
        if is_harmless or self.top in last:
            rank = Rank.NOTE.order
        # A critical death leads before any other finding.
        first = -1 if _is_death(self.top) else severity
        step = onset.step if onset is not None else int(run.steps[0])
        return first, rank, severity, step


def _came_before_gain(finding: Finding, run: Run, best_step: int | None) -> bool:
    """Return whether the run gained although the problem was there.

    The gain of a hack is the problem itself.
    """
    onset = finding.onset
    if finding.rank is Rank.INVALID or finding.id in HACKS:
        return False
    if onset is None:
        return finding.rank is Rank.CAUSE and progress.learned(run)
    if onset.from_start and progress.learned(run):
        return True
    # A distance that the run first gained with may grow until it loses.
    if finding.id == DISTANCE and finding.severity is Severity.CRITICAL:
        return False
    return best_step is not None and onset.high < best_step


def _is_loss(finding: Finding) -> bool:
    """Return whether a finding is that a score is lost, and did not recover."""
    is_serious = finding.severity is not Severity.INFO
    return finding.id in LOSSES and finding.until is None and is_serious


def _root(
    finding: Finding, ranked: Sequence[Finding], harmless: Sequence[Finding]
) -> Finding:
    """Return the finding that explains this one in the end, itself if none does.

    ``harmless``: what explains no loss.
    """
    chain = [finding]
    while True:
        others = [one for one in ranked if one not in chain]
        cause = _cause_of(chain[-1], others, harmless)
        if cause is None:
            return chain[-1]
        chain.append(cause)


def _cause_of(
    finding: Finding, others: Sequence[Finding], harmless: Sequence[Finding]
) -> Finding | None:
    """Return the first of others that explains a finding, None without one."""
    told = _explained_by(finding, others)
    if told is not None:
        return told
    for other in others:
        is_harmless = _is_loss(finding) and other in harmless
        if not is_harmless and _explains(other, finding):
            return other
    return None


def _explained_by(finding: Finding, others: Sequence[Finding]) -> Finding | None:
    """Return the finding that explains this one whatever their onsets, None without one."""
    for other in others:
        if other.id == finding.explained_by and other.severity is not Severity.INFO:
            return other
    return None


def _is_death(finding: Finding) -> bool:
    return finding.severity is Severity.CRITICAL and finding.id in DEATHS


def _rank_order(finding: Finding) -> int:
    return -1 if _is_death(finding) else finding.rank.order


def _is_end_of_reward(finding: Finding) -> bool:
    return _is_death(finding) and finding.facts.get("kind") == "dead"


def _may_explain(cause: Finding, other: Finding) -> bool:
    """Return whether the checks of two findings allow that the first explains the second."""
    if other.id in BY_ID[cause.id].explains:
        return True
    # A run whose reward is dead has no signal: whatever happens from then on follows from that.
    return _is_end_of_reward(cause) and other.rank is Rank.CONSEQUENCE


def _explains(cause: Finding, other: Finding) -> bool:
    """Return whether one finding may have caused another, by their checks, ranks and onsets."""
    if cause.severity is Severity.INFO or not _may_explain(cause, other):
        return False
    explains_death = _is_death(other) and cause.rank is not Rank.CONSEQUENCE
    if _rank_order(cause) > _rank_order(other) and not explains_death:
        return False
    is_tie = cause.rank is other.rank and _may_explain(other, cause)
    # The earlier one explains; of two with equal onsets, the first in the registry.
    if is_tie and _start(cause) > _start(other):
        return False
    if cause.onset is None or other.onset is None:
        return True
    # What was there from the first step on has no cause that began later.
    if other.onset.from_start and not cause.onset.from_start:
        return False
    if other.rank is Rank.NOTE:
        return True
    if cause.rank is other.rank:
        return cause.onset.step <= other.onset.high
    return cause.onset.low <= other.onset.high


def _start(finding: Finding) -> tuple[int, int]:
    """Return the step of the onset, -1 if unknown, and the place in the registry."""
    step = finding.onset.step if finding.onset else -1
    return step, list(BY_ID).index(finding.id)
