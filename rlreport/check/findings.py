"""The verdict as ``findings.json`` holds it; ``rlreport/schemas`` has its JSON Schema."""

from __future__ import annotations

import math
from typing import Any

from rlreport.check.finding import Example, Fact, Finding, Onset, Verdict

SCHEMA = 2


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as plain values, keys in a fixed order; see checks.md."""
    return {
        "schema": SCHEMA,
        "verdict": {
            "level": verdict.level,
            "sentence": verdict.sentence,
            "lead": verdict.lead,
            "keep_step": verdict.keep_step,
        },
        "findings": [_finding(finding) for finding in verdict.findings],
        "passed": list(verdict.passed),
        "not_run": [{"id": check.id, "needs": check.needs} for check in verdict.not_run],
        "muted": [{"id": muted.finding.id, "reason": muted.reason} for muted in verdict.muted],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "rank": finding.rank,
        "explained_by": finding.explained_by,
        "title": finding.title,
        "facts": {name: _fact(fact) for name, fact in finding.facts.items()},
        "onset": _onset(finding.onset),
        "until": finding.until,
        "thresholds": [
            {
                "name": met.name,
                "op": met.op,
                "limit": met.limit,
                "value": _number(met.value),
                "unit": met.unit,
            }
            for met in finding.thresholds
        ],
        "evidence": [_example(example) for example in finding.evidence],
        "steps": list(finding.steps),
        "why": finding.why,
        "try": finding.suggestion,
        "source": finding.source,
    }


def _onset(onset: Onset | None) -> dict[str, int] | None:
    return {"step": onset.step, "low": onset.low, "high": onset.high} if onset else None


def _fact(fact: Fact) -> Any:
    if isinstance(fact, tuple):
        return [_fact(part) for part in fact]
    if isinstance(fact, str):
        return str(fact)
    return _number(fact)


def _number(value: Any) -> Any:
    """Return a number as JSON can hold it: what is not finite is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _example(example: Example) -> dict[str, Any]:
    made = {
        "step": example.step,
        "n": example.n,
        "token": example.token,
        "value": _number(example.value),
        "unit": example.unit,
        "excerpt": example.excerpt,
    }
    return {**made, "before": _example_before(example)}


def _example_before(example: Example) -> dict[str, Any] | None:
    if example.before is None:
        return None
    found = _example(example.before)
    del found["before"]
    return found
