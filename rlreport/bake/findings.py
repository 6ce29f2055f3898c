"""Template values for the verdict, its findings, and the page on how the verdict is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rlreport.bake.pages import Addresses
from rlreport.bake.views import Link
from rlreport.check.finding import REFERENCE_REWARD, Example, Finding, Met, Verdict
from rlreport.check.limits import Thresholds
from rlreport.check.registry import BY_ID, CHECKS, METHOD, describe
from rlreport.choose import evenly
from rlreport.text.messages import (
    figure,
    marked,
    message,
    percent,
    plural,
    sentences,
    whole,
    with_unit,
)

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> dict[str, Any]:
    """Return the values that templates print about the verdict.

    Findings that no other one explains are ``lead`` (the main one), ``notes`` (severity info) or
    ``others``.
    """
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
            "{passed}, {not_run:count} not applicable to this log",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
        "method": Link(message("How the verdict is made"), addresses.page("checks")),
    }


def finding_view(
    finding: Finding, addresses: Addresses, folded: Sequence[Finding] = ()
) -> dict[str, Any]:
    """Return the values that templates print about a finding and those it explains (``folded``).

    At most MOST_STEP_LINKS of the finding's steps, evenly spaced, are linked.
    """
    onset = finding.onset
    steps = [finding.steps[index] for index in evenly(len(finding.steps), MOST_STEP_LINKS)]
    since = onset and Link(message("step {step}", step=onset.step), addresses.step(onset.step))
    return {item.name: getattr(finding, item.name) for item in fields(finding)} | {
        "why": sentences([finding.why, finding.sample]),
        "since": since,
        "interval": f"{onset.low}–{onset.high}" if onset and onset.low < onset.high else "",
        "limits": [_limit(finding.id, met) for met in finding.thresholds],
        "steps": [Link(str(step), addresses.step(step)) for step in steps],
        "examples": [_example(example, addresses) for example in finding.evidence],
        "folded": [finding_view(other, addresses) for other in folded],
        "related": plural("{count} related finding", "{count} related findings", len(folded)),
    }


# Unit in the plural -> in the singular, for the value 1
_ONE = {
    "tokens": marked("token"),
    "steps": marked("step"),
    "calls": marked("call"),
    "times in its step": marked("time in its step"),
}


def _limit(check: str, met: Met) -> str:
    declared = BY_ID[check].limits.declared() if check in BY_ID else {}
    if met.unit.startswith("of "):  # a share
        value, limit = percent(met.value), percent(met.limit)
    else:
        value, limit = with_unit(figure(met.value), message(met.unit)), figure(met.limit)
    meaning = message(declared[met.name].meaning if met.name in declared else met.name)
    facts = {"meaning": meaning, "value": value, "limit": limit}
    if met.op.startswith("<"):
        return message("{meaning}: {value} (threshold: below {limit})", **facts)
    return message("{meaning}: {value} (threshold {limit})", **facts)


def _example(example: Example, addresses: Addresses) -> dict[str, Any]:
    value = ""
    if example.value is not None and example.unit:  # readers cannot interpret other values
        number = whole(example.value) if example.value.is_integer() else figure(example.value)
        if example.unit == "reward":
            value = message("reward {reward}", reward=number)
        elif example.unit == REFERENCE_REWARD:
            value = message("reward of the reference {reward}", reward=number)
        else:
            unit = _ONE.get(example.unit, example.unit) if example.value == 1 else example.unit
            value = with_unit(number, message(unit))
    address = addresses.response(example.step, example.n, example.token)
    return {
        "link": Link(message("step {step}, response {n}", step=example.step, n=example.n), address),
        "excerpt": example.excerpt,
        "value": value,
        "before": _example(example.before, addresses) if example.before else None,
    }


def method_view(thresholds: Thresholds) -> dict[str, Any]:
    """Return the values that the template of the page "How the verdict is made" prints."""
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
