"""What the page of a comparison shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rlreport.check.finding import Severity, ToldFinding
from rlreport.comparison.guardrail_words import caveats
from rlreport.comparison.headline import changed, evidence, result, run_lines
from rlreport.comparison.labels import Labels
from rlreport.comparison.learning import learning
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.comparison.prompt_words import prompts_note
from rlreport.comparison.remarks import (
    equal_kl,
    findings_note,
    gate_sentence,
    notes,
    texts_note,
)
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.why import why
from rlreport.comparison.words import check_name, run_verdict
from rlreport.draw.chart import Chart
from rlreport.pages.compare.flips import Pair, flips_table, pairs_of
from rlreport.pages.compare.guardrails import guardrails_table
from rlreport.pages.compare.rows import rows_data
from rlreport.pages.compare.settings import SettingsView, settings_view
from rlreport.pages.compare.side_map import SideMapView, side_map_view
from rlreport.pages.compare.tasks import task_tables
from rlreport.pages.compare.texts import ngrams_table, tokens_table
from rlreport.pages.compare.why import property_table, reward_parts_table
from rlreport.pages.page_data import RowsData
from rlreport.pages.table import TableView
from rlreport.text.language import Language
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
class TasksView:
    """For which tasks the rewards differ: the map of prompts, and tables."""

    map: SideMapView | None
    tables: list[TableView]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What the page of a comparison shows; mail and Markdown show parts of it."""

    level: str
    labels: Labels
    result: str
    evidence: str
    run_lines: list[str]  # what happened to broken and warned runs
    goes_with: str  # with what the difference goes, or ""
    changed: str  # the settings that differ, "" if the sentence names the only one
    prompts: str  # how many improved, regressed and so on, or ""
    course: str
    against: str  # caveats
    gate: str
    notes: list[str]
    runs: list[ComparedSide]
    settings: SettingsView
    charts: list[Chart]
    equal_kl: str
    why: list[TableView]  # parts of the difference
    tasks: TasksView | None  # None if nothing can be said of tasks
    guardrails: TableView
    findings: list[ChangedFindings]
    findings_note: str
    flips: TableView | None  # None without responses
    data: RowsData  # for scripts
    ngrams: TableView | None  # texts more frequent in NEW, None without any
    tokens: TableView | None  # tokens of the KL, likewise
    left_out: list[str]
    pairs: list[Pair]


def comparison_view(
    outcome: Outcome,
    charts: Sequence[Chart],
    shown: int,
    with_tokens: Sequence[int],
    language: Language,
) -> ComparisonView:
    """Return what the page shows.

    Args:
        outcome: the comparison.
        charts: of both runs.
        shown: maximum number of prompts won or lost.
        with_tokens: numbers of those, from 1, whose tokens are kept.
        language: of the texts of drawings.
    """
    flips = outcome.flips[:shown]
    against = caveats(outcome)
    return ComparisonView(
        level=_severity(outcome, against),
        labels=outcome.labels,
        result=result(outcome),
        evidence=evidence(outcome),
        run_lines=run_lines(outcome),
        goes_with=why(outcome),
        changed=changed(outcome),
        prompts=prompts_note(outcome.comparison),
        course=learning(outcome),
        against=against,
        gate=gate_sentence(outcome),
        notes=notes(outcome),
        runs=[_compared_side(label, run) for label, run in outcome.runs],
        settings=settings_view(outcome),
        charts=list(charts),
        equal_kl=equal_kl(outcome),
        why=_not_none(property_table(outcome), reward_parts_table(outcome)),
        tasks=_tasks(outcome, flips, language),
        guardrails=guardrails_table(outcome),
        findings=_changed_findings(outcome),
        findings_note=findings_note(outcome),
        flips=flips_table(flips, outcome) if flips else None,
        data=rows_data(flips, outcome, with_tokens),
        ngrams=ngrams_table(outcome),
        tokens=tokens_table(outcome),
        left_out=_left_out(outcome, shown, len(with_tokens)),
        pairs=pairs_of(flips),
    )


def _not_none(*tables: TableView | None) -> list[TableView]:
    return [table for table in tables if table is not None]


def _tasks(
    outcome: Outcome, flips: Sequence[Flip], language: Language
) -> TasksView | None:
    comparison = outcome.comparison
    if comparison.metrics_alone or comparison.reference is not None:
        return None
    drawn = side_map_view(outcome, flips, language)
    tables = task_tables(outcome)
    return TasksView(drawn, tables) if drawn or tables else None


def _compared_side(label: str, run: ComparedRun) -> ComparedSide:
    side = label.partition(" ")[0]  # ``BASE`` of ``BASE (seed1)``
    return ComparedSide(side, run.name, run.level, run_verdict(run))


def _changed_findings(outcome: Outcome) -> list[ChangedFindings]:
    """Return the findings that are new, fixed and still there, without empty lists."""
    result = []
    for change, label in _CHANGES.items():
        findings = outcome.changed[change]
        is_still = change == "still"
        titles = [
            (one.severity, _title(one, outcome, of_both=is_still)) for one in findings
        ]
        if titles:
            result.append(ChangedFindings(label, titles))
    return result


def _title(finding: ToldFinding, outcome: Outcome, *, of_both: bool) -> str:
    """Return a finding's title; ``of_both``: BASE has it too, maybe with other figures."""
    if outcome.redact:
        return check_name(finding.id)
    new = finding.title or finding.id
    base = outcome.base.findings[finding.id].title if of_both else ""
    if not base or base == new:
        return new
    return message(
        "{base_name}: {base} {new_name}: {new}",
        base_name=outcome.labels.base,
        base=base,
        new_name=outcome.labels.new,
        new=new,
    )


def _left_out(outcome: Outcome, shown: int, with_tokens: int) -> list[str]:
    """Return sentences on the texts, prompts and tokens that the page does not show.

    ``shown``: maximum number of prompts won or lost; ``with_tokens``: how many have tokens.
    """
    sentences = list(outcome.hidden_in_words)
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
    listed = min(shown, len(outcome.flips))
    if with_tokens < listed and any(pair.size for pair in outcome.token_pairs):
        tokens = message(
            "Token values are included for {some:count} of {all:count} prompts won or lost.",
            some=with_tokens,
            all=listed,
        )
        sentences.append(tokens)
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
