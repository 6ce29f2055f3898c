"""The verdict as ``findings.json`` holds it."""

from __future__ import annotations

from typing import Any

from rlreport.check.finding import Finding, ResponseRef, Verdict


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as plain values, keys in a fixed order.

    ``{"verdict", "findings": [{"id", "severity", "title", "steps", "responses", "why",
    "try", "source"}], "passed": [id], "not_run": [{"id", "needs"}]}``; a response is
    ``{"step", "n"}``, with ``"token"`` (position from 0) where one is to blame.
    """
    return {
        "verdict": verdict.sentence,
        "findings": [_finding(finding) for finding in verdict.findings],
        "passed": list(verdict.passed),
        "not_run": [{"id": check.id, "needs": check.needs} for check in verdict.not_run],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "title": finding.title,
        "steps": list(finding.steps),
        "responses": [_response(response) for response in finding.responses],
        "why": finding.why,
        "try": finding.suggestion,
        "source": finding.source,
    }


def _response(response: ResponseRef) -> dict[str, int]:
    named = {"step": response.step, "n": response.n}
    return named if response.token is None else {**named, "token": response.token}
