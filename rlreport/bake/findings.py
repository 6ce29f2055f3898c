"""Findings and the verdict as pages show them."""

from __future__ import annotations

from rlreport.bake.addresses import Addresses, link
from rlreport.bake.views import FindingView, VerdictView
from rlreport.check.finding import Finding, Verdict

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> VerdictView:
    """The verdict with every finding's evidence linked."""
    return VerdictView(
        verdict.level,
        verdict.sentence,
        [finding_view(finding, addresses) for finding in verdict.findings],
        list(verdict.passed),
        [(check.id, check.needs) for check in verdict.not_run],
    )


def finding_view(finding: Finding, addresses: Addresses) -> FindingView:
    """One finding with links; long runs of steps are named by their ends."""
    responses = [
        link(
            f"step {ref.step}, response {ref.n}"
            + ("" if ref.token is None else f", token {ref.token}"),
            addresses.response(ref.step, ref.n, ref.token),
        )
        for ref in finding.responses
    ]
    return FindingView(
        finding.id,
        finding.severity,
        finding.title,
        finding.why,
        finding.suggestion,
        finding.source,
        [link(str(step), addresses.step(step)) for step in _thinned(finding.steps)],
        responses,
        list(finding.ngrams),
    )


def _thinned(steps: tuple[int, ...]) -> list[int]:
    """At most MOST_STEP_LINKS of ``steps``, evenly, both ends kept."""
    if len(steps) <= MOST_STEP_LINKS:
        return list(steps)
    last = len(steps) - 1
    return [steps[round(i * last / (MOST_STEP_LINKS - 1))] for i in range(MOST_STEP_LINKS)]
