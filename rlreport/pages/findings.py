"""The verdict and its findings, formatted for templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rlreport.check.finding import REFERENCE_REWARD, Example, ToldFinding
from rlreport.check.limits import LimitKind, Tested
from rlreport.check.registry import BY_ID
from rlreport.check.verdict import Verdict
from rlreport.draw.chart import evenly
from rlreport.pages.page import Addresses
from rlreport.pages.table import Link
from rlreport.text.messages import (
    figure,
    listed,
    message,
    percent,
    plural,
    sentences,
    translatable,
    whole,
    with_unit,
)

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> dict[str, Any]:
    """Return the verdict for templates; findings that another explains are in its ``folded``."""
    top = [
        finding_view(f, addresses, verdict.effects_of(f))
        for f in verdict.findings
        if not f.explained_by
    ]
    lead = [f for f in top if f["id"] == verdict.lead][:1]
    others = [f for f in top if f not in lead and f["severity"] != "info"]
    notes = [f for f in top if f not in lead and f["severity"] == "info"]
    passed = [message(BY_ID[name].name) for name in verdict.passed if name in BY_ID]
    return {
        "level": verdict.level,
        "headline": verdict.headline,
        "course": verdict.course_text,
        "lead": lead[0] if lead else None,
        "others": others,
        "notes": notes,
        "findings": [*lead, *others, *notes],
        "muted": verdict.muted,
        "close": [one.title for one in verdict.close],
        "not_observed": listed(verdict.not_observed),
        "passed": passed,
        "not_run": [
            (message(BY_ID[c.id].name) if c.id in BY_ID else c.id, c.needs)
            for c in verdict.not_run
        ],
        "checks_run": message(
            "{passed}, {not_run:count} not applicable to this log",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
    }


def finding_view(
    finding: ToldFinding, addresses: Addresses, folded: Sequence[ToldFinding] = ()
) -> dict[str, Any]:
    """Return a finding for templates, with its effects ``folded`` and links to up to 12 steps."""
    onset = finding.onset
    steps = [
        finding.steps[index] for index in evenly(len(finding.steps), MOST_STEP_LINKS)
    ]
    since = onset and Link(
        message("step {step}", step=onset.step), addresses.step(onset.step)
    )
    return {item.name: getattr(finding, item.name) for item in fields(finding)} | {
        "why": sentences([finding.why, finding.sample]),
        "since": since,
        "interval": f"{onset.low}–{onset.high}"
        if onset and onset.low < onset.high
        else "",
        "limits": [_limit(tested) for tested in finding.met],
        "steps": [Link(str(step), addresses.step(step)) for step in steps],
        "examples": [_example(example, addresses) for example in finding.evidence],
        "unseen": finding.unseen
        and plural(
            "Not visible in the {count} response read from its steps.",
            "Not visible in the {count} responses read from its steps.",
            finding.unseen,
        ),
        "folded": [finding_view(other, addresses) for other in folded],
        "related": plural(
            "{count} related finding", "{count} related findings", len(folded)
        ),
    }


# Unit in the plural -> in the singular, for the value 1
_ONE = {
    "tokens": translatable("token"),
    "steps": translatable("step"),
    "calls": translatable("call"),
    "times in its step": translatable("time in its step"),
    "occurrences": translatable("occurrence"),
}


def _limit(tested: Tested) -> str:
    limit = tested.limit
    if limit.kind is LimitKind.SHARE:
        value = percent(tested.value)
        bound = percent(tested.bound)
    else:
        value = with_unit(figure(tested.value), message(limit.unit))
        bound = figure(tested.bound)
    facts = {"meaning": message(limit.meaning), "value": value, "limit": bound}
    if tested.op.startswith("<"):
        return message("{meaning}: {value} (threshold: below {limit})", **facts)
    return message("{meaning}: {value} (threshold {limit})", **facts)


def _example(example: Example, addresses: Addresses) -> dict[str, Any]:
    value = ""
    if (
        example.value is not None and example.unit
    ):  # readers cannot interpret other values
        number = (
            whole(example.value)
            if example.value.is_integer()
            else figure(example.value)
        )
        if example.unit.startswith("of "):  # a share
            number = percent(example.value)
        if example.unit == "reward":
            value = message("reward {reward}", reward=number)
        elif example.unit == REFERENCE_REWARD:
            value = message("reward of the reference {reward}", reward=number)
        else:
            unit = (
                _ONE.get(example.unit, example.unit)
                if example.value == 1
                else example.unit
            )
            value = with_unit(number, message(unit))
    address = addresses.response(
        example.step, example.n, token=example.token, turn=example.turn
    )
    return {
        "link": Link(
            message("step {step}, response {n}", step=example.step, n=example.n),
            address,
        ),
        "excerpt": example.excerpt,
        "value": value,
        "before": _example(example.before, addresses) if example.before else None,
    }
