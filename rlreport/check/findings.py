"""Serializes the verdict as ``findings.json``; its JSON Schema is in ``rlreport/schemas``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rlreport.check.finding import Example, Fact, Finding, Verdict
from rlreport.text.messages import sentences

SCHEMA = 3


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as JSON values, with keys in a fixed order; see checks.md."""
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


_FINDING = ("id", "severity", "rank", "explained_by", "title")
_EXAMPLE = ("step", "n", "token", "value", "unit", "excerpt")


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        **{name: getattr(finding, name) for name in _FINDING},
        "facts": {name: _plain(fact) for name, fact in finding.facts.items()},
        "onset": asdict(finding.onset) if finding.onset else None,
        "until": finding.until,
        "thresholds": [
            {k: _plain(v) for k, v in asdict(met).items()} for met in finding.thresholds
        ],
        "evidence": [
            {**_example(example), "before": example.before and _example(example.before)}
            for example in finding.evidence
        ],
        "steps": list(finding.steps),
        "why": sentences([finding.why, finding.sample]),
        "try": finding.suggestion,
        "source": finding.source,
        "series_from": finding.facts.get("series_from"),
    }


def _example(example: Example) -> dict[str, Any]:
    return {name: _plain(getattr(example, name)) for name in _EXAMPLE}


def _plain(value: Fact) -> Any:
    """Return a fact as a JSON value; numbers that are not finite become null."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
