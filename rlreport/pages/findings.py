"""The verdict and its findings, formatted for templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from rlreport.check.finding import Example, Onset, Severity, ToldFinding
from rlreport.check.four_lines import (
    evidence_text,
    example_value,
    finding_shown,
    found_nothing_text,
    not_logged_text,
    other_examples,
    place_text,
    shown_example,
    why_no_example,
)
from rlreport.check.limits import LimitKind, Tested
from rlreport.check.unlogged import Log, unlogged
from rlreport.check.verdict import FIRST_WORDS, Muted, Verdict
from rlreport.draw.chart import evenly
from rlreport.pages.page import Addresses
from rlreport.pages.table import Link
from rlreport.text.messages import (
    figure,
    listed,
    message,
    percent,
    phrases,
    sentences,
    span,
    with_unit,
)

# Ids of checks of labels and of parts of the reward: where they find anything, the report has the
# page of the grader
_OF_GRADER = frozenset(
    (
        "label_lost",
        "label_reward_mismatch",
        "rewards_shifted",
        "right_answers_unpaid",
        "format_rewarded",
        "reward_part_dominance",
        "unearned_gain",
        "part_stays_zero",
    )
)
MOST_STEP_LINKS = 12  # Maximum number of steps that a finding links to


@dataclass(frozen=True, slots=True)
class ExampleView:
    """A response that shows a finding."""

    link: Link
    excerpt: str | None
    value: str  # with its unit, "" if readers cannot interpret it
    before: ExampleView | None  # a response from before the onset, to compare


# Part of the data page that says what would log what is not logged
NOT_LOGGED = "not-logged"


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding for templates."""

    id: str
    severity: Severity
    name: str
    title: str
    onset: Onset | None
    until: int | None
    since: Link | None
    interval: str  # of the onset, "" if it is known exactly
    limits: list[str]
    why: str
    suggestion: str
    source: str
    texts: tuple[str, ...]
    steps: list[Link]
    page: Link | None  # the page that shows more of it
    examples: list[ExampleView]
    unseen: str  # that no response read shows the finding, "" if one does
    charts: tuple[str, ...]  # names of charts that show the finding


class FindingLink(NamedTuple):
    """A finding in a few words, with its address on the overview."""

    severity: Severity
    link: Link
    since: str  # "" if it is unknown when it began


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """What shows that the verdict is true."""

    example: ExampleView | None
    why_none: str  # why there is no example, "" if there is one
    more: Link | None  # to the finding's other examples
    text: str  # all of it as a line of text


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The verdict for templates: its four lines, then its findings and what was not found."""

    level: str
    word: str  # the level in a word, with which ``what`` usually begins
    what: str
    course: str
    evidence: EvidenceView
    next: str
    lead: FindingView | None
    causes: list[FindingView]  # further findings that no other explains
    effects: list[FindingView]  # findings that another explains
    notes: list[FindingView]
    muted: list[Muted[ToldFinding]]
    close: list[str]
    not_observed: str
    counts: str  # how many checks found nothing, and how many need what is not logged
    checks: Link  # to the list of all checks
    how_to_log: Link | None  # to what would log what is not, if the report says so

    @property
    def what_after_word(self) -> str:
        """What follows the level's word in ``what``; all of it if it does not begin with that."""
        return self.what.removeprefix(self.word)

    @property
    def leading(self) -> list[FindingView]:
        """The finding that leads, as a list that is empty without one."""
        return [] if self.lead is None else [self.lead]

    @property
    def findings(self) -> list[FindingView]:
        """All findings, in the order of the report."""
        return [*self.leading, *self.causes, *self.effects, *self.notes]


def verdict_view(verdict: Verdict, addresses: Addresses) -> VerdictView:
    """Return a verdict for templates, its findings with links into the report."""
    lead = None
    causes = []
    effects = []
    notes = []
    for finding in verdict.findings:
        view = finding_view(finding, addresses)
        if finding.explained_by:
            effects.append(view)
        elif lead is None and finding.id == verdict.lead:
            lead = replace(view, examples=_further_examples(view, verdict))
        elif finding.severity == "info":
            notes.append(view)
        else:
            causes.append(view)
    return VerdictView(
        level=verdict.level,
        word=FIRST_WORDS[verdict.level],
        what=verdict.what,
        course=verdict.course_sentence,
        evidence=_evidence(verdict, addresses),
        next=verdict.next,
        lead=lead,
        causes=causes,
        effects=effects,
        notes=notes,
        muted=verdict.muted,
        close=[one.title for one in verdict.close],
        not_observed=listed(verdict.not_observed),
        counts=phrases([found_nothing_text(verdict), not_logged_text(verdict)]),
        checks=Link(message("list of checks"), addresses.page("data")),
        how_to_log=_how_to_log(verdict, addresses),
    )


def _how_to_log(verdict: Verdict, addresses: Addresses) -> Link | None:
    """Return a link to what would log what is missing, None if the data page does not say it."""
    if not unlogged(verdict.not_run, Log()):
        return None
    return Link(message("What would log it"), addresses.part("data", NOT_LOGGED))


def _further_examples(lead: FindingView, verdict: Verdict) -> list[ExampleView]:
    """Return the examples of the lead without the one that the verdict shows."""
    shown = verdict.evidence
    if shown is None or shown.finding != lead.id:
        return lead.examples
    return lead.examples[: shown.item] + lead.examples[shown.item + 1 :]


def _evidence(verdict: Verdict, addresses: Addresses) -> EvidenceView:
    """Return the example that shows the verdict, or why there is none."""
    text = evidence_text(verdict)
    example = shown_example(verdict)
    if example is None:
        return EvidenceView(None, why_no_example(verdict), None, text)
    finding = finding_shown(verdict)
    others = other_examples(verdict)
    more = None
    if finding and others:
        more = Link(others, addresses.finding(finding.id))
    return EvidenceView(_example(example, addresses), "", more, text)


def finding_view(finding: ToldFinding, addresses: Addresses) -> FindingView:
    """Return a finding for templates."""
    onset = finding.onset
    since = None
    interval = ""
    if onset:
        text = message("step {step}", step=onset.step)
        since = Link(text, addresses.step(onset.step))
        # The step is an estimate; it lies within these limits.
        if onset.low < onset.high:
            interval = f"{onset.low}–{onset.high}"
    linked_steps = [
        finding.steps[index] for index in evenly(len(finding.steps), MOST_STEP_LINKS)
    ]
    return FindingView(
        id=finding.id,
        severity=finding.severity,
        name=finding.name,
        title=finding.title,
        onset=onset,
        until=finding.until,
        since=since,
        interval=interval,
        limits=[_tested_text(tested) for tested in finding.met],
        why=sentences([finding.why, finding.sample]),
        suggestion=finding.suggestion,
        source=finding.source,
        texts=finding.texts,
        steps=[Link(str(step), addresses.step(step)) for step in linked_steps],
        page=_page_of(finding, addresses),
        examples=[_example(example, addresses) for example in finding.evidence],
        unseen=finding.unseen_text,
        charts=finding.charts,
    )


def finding_link(finding: ToldFinding, addresses: Addresses) -> FindingLink:
    """Return a finding for pages that only name it."""
    onset = finding.onset
    since = message("since step {step}", step=onset.step) if onset else ""
    link = Link(finding.name, addresses.finding(finding.id))
    return FindingLink(finding.severity, link, since)


def _page_of(finding: ToldFinding, addresses: Addresses) -> Link | None:
    if finding.id not in _OF_GRADER:
        return None
    return Link(message("Grader"), addresses.page("grader"))


def _tested_text(tested: Tested) -> str:
    """Return a measured value and its threshold, such as "KL: 12 nats (threshold 10)"."""
    limit = tested.limit
    if limit.kind is LimitKind.SHARE:
        value = percent(tested.value)
        bound = percent(tested.bound)
    else:  # the bound has the unit of the value, which is not repeated
        value = with_unit(figure(tested.value), message(limit.unit))
        bound = figure(tested.bound)
    if tested.steps is not None:
        value = message("{value} in {steps}", value=value, steps=span(tested.steps))
    facts = {"meaning": message(limit.meaning), "value": value, "limit": bound}
    if tested.op.startswith("<"):
        return message("{meaning}: {value} (threshold: below {limit})", **facts)
    return message("{meaning}: {value} (threshold {limit})", **facts)


def _example(example: Example, addresses: Addresses) -> ExampleView:
    """Return an example for templates, and the response from before the onset within it."""
    address = addresses.response(
        example.step, example.n, token=example.token, turn=example.turn
    )
    before = example.before
    return ExampleView(
        link=Link(place_text(example), address),
        excerpt=example.excerpt,
        value=example_value(example),
        before=None if before is None else _example(before, addresses),
    )
