"""What the page of a comparison shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rlreport.check.finding import Severity, ToldFinding
from rlreport.comparison.guardrail_words import caveats
from rlreport.comparison.headline import changed, sentence
from rlreport.comparison.learning import learning
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.remarks import (
    equal_kl,
    findings_note,
    gate_sentence,
    notes,
    texts_note,
)
from rlreport.comparison.run import ComparedRun, settings_that_differ
from rlreport.comparison.why import why
from rlreport.comparison.words import check_name, run_verdict
from rlreport.draw.chart import Chart
from rlreport.pages.compare.flips import Pair, flips_table, pair_of
from rlreport.pages.compare.guardrails import guardrails_table
from rlreport.pages.compare.rows import rows_data
from rlreport.pages.compare.settings import CARD, VERSIONS, settings_table
from rlreport.pages.compare.texts import ngrams_table, tokens_table
from rlreport.pages.page_data import RowsData
from rlreport.pages.table import TableView
from rlreport.text.messages import message

# Result of the comparison -> level of a verdict, whose colour the page uses for the result
LEVELS = {
    "better": "healthy",
    "worse": "critical",
    "no_evidence": "info",
    "incomparable": "unjudged",
}

_CHANGES = {
    "new": message("New"),
    "fixed": message("Fixed"),
    "still": message("Still there"),
}


class ComparedSide(NamedTuple):
    """BASE or NEW at the head of the page."""

    side: str
    name: str
    level: str
    words: str


class ChangedFindings(NamedTuple):
    """Findings that are new, fixed or still there, each as (severity, title)."""

    label: str
    findings: list[tuple[Severity, str]]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What the page of a comparison shows; mail and Markdown show parts of it."""

    level: str
    sentence: str
    why: str  # what the difference goes with, or ""
    changed: str  # the settings that differ, "" if the sentence names the only one
    course: str
    against: str  # caveats
    gate: str
    notes: list[str]
    runs: list[ComparedSide]
    charts: list[Chart]
    equal_kl: str
    guardrails: TableView
    findings: list[ChangedFindings]
    findings_note: str
    card: TableView | None
    versions: TableView | None
    flips: TableView
    data: RowsData  # for scripts
    prompts: (
        bool  # whether responses are compared; else the next two tables are empty, too
    )
    ngrams: TableView
    tokens: TableView
    left_out: list[str]
    pairs: list[Pair]


def comparison_view(
    outcome: Outcome, charts: Sequence[Chart], shown: int
) -> ComparisonView:
    """Return what the page shows; ``shown``: maximum number of prompts won or lost."""
    flips = outcome.flips[:shown]
    against = caveats(outcome)
    card, versions = settings_that_differ(outcome.base, outcome.new)
    return ComparisonView(
        level=_severity(outcome, against),
        sentence=sentence(outcome),
        why=why(outcome),
        changed=changed(outcome),
        course=learning(outcome),
        against=against,
        gate=gate_sentence(outcome),
        notes=notes(outcome),
        runs=[_compared_side(label, run) for label, run in outcome.runs],
        charts=list(charts),
        equal_kl=equal_kl(outcome),
        guardrails=guardrails_table(outcome),
        findings=_changed_findings(outcome),
        findings_note=findings_note(outcome),
        card=settings_table("card", CARD, card, redact=outcome.redact),
        versions=settings_table("versions", VERSIONS, versions, redact=outcome.redact),
        flips=flips_table(flips),
        data=rows_data(flips, outcome),
        prompts=not outcome.comparison.metrics_alone,
        ngrams=ngrams_table(outcome),
        tokens=tokens_table(outcome),
        left_out=_left_out(outcome, shown),
        pairs=[
            pair_of(flip)
            for flip in flips
            if flip.new_text is not None and flip.base_text is not None
        ],
    )


def _compared_side(label: str, run: ComparedRun) -> ComparedSide:
    side = label.partition(" ")[0]  # ``BASE`` of ``BASE (seed1)``
    return ComparedSide(side, run.name, run.level, run_verdict(run))


def _changed_findings(outcome: Outcome) -> list[ChangedFindings]:
    """Return the findings that are new, fixed and still there, without empty lists."""
    result = []
    for change, label in _CHANGES.items():
        findings = outcome.changed[change]
        titles = [(one.severity, _title(one, outcome)) for one in findings]
        if titles:
            result.append(ChangedFindings(label, titles))
    return result


def _title(finding: ToldFinding, outcome: Outcome) -> str:
    if outcome.redact:
        return check_name(finding.id)
    return finding.title or finding.id


def _left_out(outcome: Outcome, shown: int) -> list[str]:
    """Return sentences on the texts and prompts that the page does not show.

    ``shown``: maximum number of prompts won or lost.
    """
    sentences = []
    texts = texts_note(outcome)
    if texts:
        sentences.append(texts)
    if shown < len(outcome.flips):
        some = message(
            "Only the {some:count} clearest of {all:count} prompts won or lost are shown.",
            some=shown,
            all=len(outcome.flips),
        )
        sentences.append(some)
    return sentences


def _severity(outcome: Outcome, against: str) -> str:
    """Return the level that colours the result, "healthy" only if there are no caveats.

    A broken run is one whose verdict is critical: its better figures may mislead.
    """
    level = outcome.comparison.level
    if any(run.broken for run in outcome.news):
        return "critical"
    if level == "better" and against:
        return "warning"
    # Better than a broken run of BASE, or than too few runs, is no good news yet.
    if outcome.broken or (level == "better" and not outcome.comparison.has_enough_runs):
        return "info"
    return LEVELS[level]
