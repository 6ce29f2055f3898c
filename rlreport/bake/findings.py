"""Findings and the verdict as pages show them."""

from __future__ import annotations

from rlreport.bake.addresses import Addresses, link
from rlreport.bake.views import ExampleView, FindingView, Link, VerdictView
from rlreport.check.finding import Example, Finding, Met, Verdict
from rlreport.check.registry import BY_ID
from rlreport.choose.detail import evenly
from rlreport.text.messages import figure, message, plural, sentences, whole, with_unit

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> VerdictView:
    """The verdict with every finding's evidence linked, and what is explained folded."""
    top = [
        finding_view(f, addresses, [finding_view(g, addresses) for g in verdict.effects_of(f)])
        for f in verdict.findings
        if not f.explained_by
    ]
    lead = next((view for view in top if view.id == verdict.lead), None)
    rest = [view for view in top if view is not lead]
    passed = [message(BY_ID[name].looks_for) for name in verdict.passed if name in BY_ID]
    return VerdictView(
        verdict.level,
        verdict.sentence,
        lead,
        [view for view in rest if view.severity != "info"],
        [view for view in rest if view.severity == "info"],
        [(finding_view(muted.finding, addresses), muted.reason) for muted in verdict.muted],
        passed,
        [(message(BY_ID[c.id].name) if c.id in BY_ID else c.id, c.needs) for c in verdict.not_run],
        message(
            "{passed}, {not_run:count} could not run",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
        Link(message("How the verdict is made"), addresses.page("checks")),
    )


def finding_view(
    finding: Finding, addresses: Addresses, folded: list[FindingView] | None = None
) -> FindingView:
    """One finding with links; long runs of steps are named by their ends."""
    onset = finding.onset
    return FindingView(
        finding.id,
        finding.severity,
        finding.name,
        finding.title,
        sentences([finding.why, finding.sample]),
        finding.suggestion,
        finding.source,
        link(message("step {step}", step=onset.step), addresses.step(onset.step))
        if onset
        else None,
        f"{onset.low}–{onset.high}" if onset and onset.low < onset.high else "",
        [limit_words(finding.id, met) for met in finding.thresholds],
        [
            link(str(step), addresses.step(step))
            for step in (finding.steps[k] for k in evenly(len(finding.steps), MOST_STEP_LINKS))
        ],
        [_example(example, addresses) for example in finding.evidence],
        list(finding.texts),
        folded or [],
        list(finding.charts),
        (onset.step, finding.until) if onset else None,
    )


def limit_words(check: str, met: Met) -> str:
    """A value beside its limit."""
    declared = BY_ID[check].limits.declared() if check in BY_ID else {}
    return message(
        "{meaning}: {value}, limit {limit}",
        meaning=message(declared[met.name].meaning if met.name in declared else met.name),
        value=figure(met.value),
        limit=with_unit(figure(met.limit), message(met.unit)),
    )


def _example(example: Example, addresses: Addresses) -> ExampleView:
    before = _example(example.before, addresses) if example.before else None
    words = ""
    if example.value is not None:
        shown = whole(example.value) if example.value.is_integer() else figure(example.value)
        words = with_unit(shown, message(example.unit))
    address = addresses.response(example.step, example.n, example.token)
    named = link(message("step {step}, response {n}", step=example.step, n=example.n), address)
    return ExampleView(named, example.excerpt, words, before)
