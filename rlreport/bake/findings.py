"""The verdict, its findings, and how it is made, as pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rlreport.bake.pages import Addresses, link
from rlreport.check.finding import Example, Finding, Met, Verdict
from rlreport.check.limits import Thresholds
from rlreport.check.registry import BY_ID, CHECKS, METHOD, describe
from rlreport.choose.detail import evenly
from rlreport.text.messages import figure, message, plural, sentences, whole, with_unit

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> dict[str, Any]:
    """Return the verdict: findings that none explains as ``lead``, ``others`` and ``notes``."""
    top = [
        finding_view(f, addresses, verdict.effects_of(f))
        for f in verdict.findings
        if not f.explained_by
    ]
    lead = [f for f in top if f["id"] == verdict.lead][:1]
    others = [f for f in top if f not in lead and f["severity"] != "info"]
    notes = [f for f in top if f not in lead and f["severity"] == "info"]
    passed = [message(BY_ID[name].looks_for) for name in verdict.passed if name in BY_ID]
    return {
        "level": verdict.level,
        "sentence": verdict.sentence,
        "lead": lead[0] if lead else None,
        "others": others,
        "notes": notes,
        "findings": [*lead, *others, *notes],
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
    since = onset and link(message("step {step}", step=onset.step), addresses.step(onset.step))
    return {item.name: getattr(finding, item.name) for item in fields(finding)} | {
        "why": sentences([finding.why, finding.sample]),
        "since": since,
        "interval": f"{onset.low}–{onset.high}" if onset and onset.low < onset.high else "",
        "limits": [_limit(finding.id, met) for met in finding.thresholds],
        "steps": [link(str(step), addresses.step(step)) for step in steps],
        "examples": [_example(example, addresses) for example in finding.evidence],
        "folded": [finding_view(other, addresses) for other in folded],
    }


def _limit(check: str, met: Met) -> str:
    declared = BY_ID[check].limits.declared() if check in BY_ID else {}
    return message(
        "{meaning}: {value}, limit {limit}",
        meaning=message(declared[met.name].meaning if met.name in declared else met.name),
        value=figure(met.value),
        limit=with_unit(figure(met.limit), message(met.unit)),
    )


def _example(example: Example, addresses: Addresses) -> dict[str, Any]:
    value = ""
    if example.value is not None:
        shown = whole(example.value) if example.value.is_integer() else figure(example.value)
        value = with_unit(shown, message(example.unit))
    address = addresses.response(example.step, example.n, example.token)
    return {
        "link": link(message("step {step}, response {n}", step=example.step, n=example.n), address),
        "excerpt": example.excerpt,
        "value": value,
        "before": _example(example.before, addresses) if example.before else None,
    }


def method_view(thresholds: Thresholds) -> dict[str, Any]:
    """Return how the verdict is made, each check with the limits that this report used."""
    rows = describe(thresholds)
    checks = [
        {
            "id": check.id,
            "name": message("{name:capital}", name=message(check.name)),
            "facts": [
                (message("Looks for"), message(check.looks_for)),
                (message("Needs"), check.requirements),
                (message("Why it matters"), message(check.why)),
                (message("What to try"), message(check.suggestion)),
                (message("Source"), message(check.source)),
            ],
            "limits": [
                (
                    message(row.limit.meaning),
                    with_unit(figure(row.value), message(row.limit.unit)),
                    message(row.limit.source),
                )
                for row in rows
                if row.group == check.id
            ],
        }
        for check in CHECKS
    ]
    parts = [(message(title), [message(text) for text in texts]) for title, texts in METHOD]
    return {"parts": parts, "checks": checks}
