"""Findings and the verdict as pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rlreport.bake.addresses import Addresses, link
from rlreport.check.finding import Example, Finding, Met, Verdict
from rlreport.check.registry import BY_ID
from rlreport.choose.detail import evenly
from rlreport.text.messages import figure, message, plural, sentences, whole, with_unit

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> dict[str, Any]:
    """Return the verdict with every finding's evidence linked, and what is explained folded.

    ``findings`` are those that nothing explains: ``lead``, ``others`` and ``notes``.
    """
    top = [
        finding_view(f, addresses, verdict.effects_of(f))
        for f in verdict.findings
        if not f.explained_by
    ]
    lead = next((f for f in top if f["id"] == verdict.lead), None)
    others = [f for f in top if f is not lead and f["severity"] != "info"]
    notes = [f for f in top if f is not lead and f["severity"] == "info"]
    passed = [message(BY_ID[name].looks_for) for name in verdict.passed if name in BY_ID]
    return {
        "level": verdict.level,
        "sentence": verdict.sentence,
        "lead": lead,
        "others": others,
        "notes": notes,
        "findings": [*([lead] if lead else []), *others, *notes],
        "muted": verdict.muted,
        "passed": passed,
        "not_run": [
            (message(BY_ID[c.id].name) if c.id in BY_ID else c.id, c.needs) for c in verdict.not_run
        ],
        "checks_run": message(
            "{passed}, {not_run:count} could not run",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
        "method": link(message("How the verdict is made"), addresses.page("checks")),
    }


def finding_view(
    finding: Finding, addresses: Addresses, folded: Sequence[Finding] = ()
) -> dict[str, Any]:
    """Return a finding with links; of many steps an even selection is named."""
    onset = finding.onset
    steps = [finding.steps[place] for place in evenly(len(finding.steps), MOST_STEP_LINKS)]
    return {item.name: getattr(finding, item.name) for item in fields(finding)} | {
        "why": sentences([finding.why, finding.sample]),
        "since": link(message("step {step}", step=onset.step), addresses.step(onset.step))
        if onset
        else None,
        "interval": f"{onset.low}–{onset.high}" if onset and onset.low < onset.high else "",
        "limits": [limit_words(finding.id, met) for met in finding.thresholds],
        "steps": [link(str(step), addresses.step(step)) for step in steps],
        "examples": [_example(example, addresses) for example in finding.evidence],
        "folded": [finding_view(other, addresses) for other in folded],
    }


def limit_words(check: str, met: Met) -> str:
    """Return a value with its threshold in words."""
    declared = BY_ID[check].limits.declared() if check in BY_ID else {}
    return message(
        "{meaning}: {value}, limit {limit}",
        meaning=message(declared[met.name].meaning if met.name in declared else met.name),
        value=figure(met.value),
        limit=with_unit(figure(met.limit), message(met.unit)),
    )


def _example(example: Example, addresses: Addresses) -> dict[str, Any]:
    words = ""
    if example.value is not None:
        shown = whole(example.value) if example.value.is_integer() else figure(example.value)
        words = with_unit(shown, message(example.unit))
    address = addresses.response(example.step, example.n, example.token)
    return {
        "link": link(message("step {step}, response {n}", step=example.step, n=example.n), address),
        "excerpt": example.excerpt,
        "value": words,
        "before": _example(example.before, addresses) if example.before else None,
    }
