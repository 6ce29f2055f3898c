"""The verdict and its findings, formatted for templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.check.finding import (
    REFERENCE_REWARD,
    Example,
    Onset,
    Severity,
    ToldFinding,
)
from rlreport.check.limits import LimitKind, Tested
from rlreport.check.registry import BY_ID
from rlreport.check.verdict import Muted, Verdict
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
    folded: list[FindingView]  # findings that this one explains
    related: str  # how many these are


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The verdict for templates; findings that another explains are in its ``folded``."""

    level: str
    headline: str
    course: str
    lead: FindingView | None
    others: list[FindingView]
    notes: list[FindingView]
    findings: list[FindingView]  # all of these
    muted: list[Muted[ToldFinding]]
    close: list[str]
    not_observed: str
    passed: list[str]
    not_run: list[tuple[str, str]]  # name of a check, and what it needs
    checks_run: str


def verdict_view(verdict: Verdict, addresses: Addresses) -> VerdictView:
    """Return a verdict for templates, its findings with links into the report."""
    lead = None
    others = []
    notes = []
    for finding in verdict.findings:
        if finding.explained_by:  # shown within the finding that explains it
            continue
        view = finding_view(finding, addresses, verdict.effects_of(finding))
        if lead is None and finding.id == verdict.lead:
            lead = view
        elif finding.severity == "info":
            notes.append(view)
        else:
            others.append(view)
    leading = [] if lead is None else [lead]
    passed = [_check_name(check_id) for check_id in verdict.passed]
    return VerdictView(
        level=verdict.level,
        headline=verdict.headline,
        course=verdict.course_text,
        lead=lead,
        others=others,
        notes=notes,
        findings=[*leading, *others, *notes],
        muted=verdict.muted,
        close=[one.title for one in verdict.close],
        not_observed=listed(verdict.not_observed),
        passed=passed,
        not_run=[(_check_name(check.id), check.needs) for check in verdict.not_run],
        checks_run=message(
            "{passed}, {not_run:count} not applicable to this log",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
    )


def _check_name(check_id: str) -> str:
    return message(BY_ID[check_id].name)


def finding_view(
    finding: ToldFinding, addresses: Addresses, folded: Sequence[ToldFinding] = ()
) -> FindingView:
    """Return a finding for templates; ``folded``: the findings that it explains."""
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
        folded=[finding_view(other, addresses) for other in folded],
        related=plural(
            "{count} related finding", "{count} related findings", len(folded)
        ),
    )


def _page_of(finding: ToldFinding, addresses: Addresses) -> Link | None:
    if finding.id not in _OF_GRADER:
        return None
    return Link(message("Grader"), addresses.page("grader"))


# Unit in the plural -> in the singular, for the value 1
_ONE = {
    "tokens": translatable("token"),
    "steps": translatable("step"),
    "calls": translatable("call"),
    "times in its step": translatable("time in its step"),
    "occurrences": translatable("occurrence"),
}


def _tested_text(tested: Tested) -> str:
    """Return a measured value and its threshold, such as "KL: 12 nats (threshold 10)"."""
    limit = tested.limit
    if limit.kind is LimitKind.SHARE:
        value = percent(tested.value)
        bound = percent(tested.bound)
    else:  # the bound has the unit of the value, which is not repeated
        value = with_unit(figure(tested.value), message(limit.unit))
        bound = figure(tested.bound)
    facts = {"meaning": message(limit.meaning), "value": value, "limit": bound}
    if tested.op.startswith("<"):
        return message("{meaning}: {value} (threshold: below {limit})", **facts)
    return message("{meaning}: {value} (threshold {limit})", **facts)


def _example(example: Example, addresses: Addresses) -> ExampleView:
    """Return an example for templates, and the response from before the onset within it."""
    address = addresses.response(
        example.step, example.n, token=example.token, turn=example.turn
    )
    text = message("step {step}, response {n}", step=example.step, n=example.n)
    before = example.before
    return ExampleView(
        link=Link(text, address),
        excerpt=example.excerpt,
        value=_example_value(example),
        before=None if before is None else _example(before, addresses),
    )


def _example_value(example: Example) -> str:
    """Return an example's value in words; "" without a unit, as readers cannot interpret it."""
    value = example.value
    unit = example.unit
    if value is None or not unit:
        return ""
    if unit.startswith("of "):  # a share
        return with_unit(percent(value), message(unit))
    number = whole(value) if value.is_integer() else figure(value)
    if unit == "reward":
        return message("reward {reward}", reward=number)
    if unit == REFERENCE_REWARD:
        return message("reward of the reference {reward}", reward=number)
    if value == 1:
        unit = _ONE.get(unit, unit)
    return with_unit(number, message(unit))
