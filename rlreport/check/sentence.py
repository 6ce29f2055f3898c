"""The verdict in words: what happened and since when, the course, and the checkpoint to keep.

Numbers have two significant digits, three where two would print different numbers alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from rlreport.check.course import WATCHED, Course, Quantity
from rlreport.check.finding import Fact, Facts, Finding, Severity, ToldFinding
from rlreport.check.pieces import PieceKind
from rlreport.check.registry import BY_ID
from rlreport.check.verdict import FIRST_WORDS, Judged, ShownExample, Verdict
from rlreport.text.messages import (
    clauses,
    format_message,
    message,
    plural,
    sentences,
    span,
    translatable,
)
from rlreport.text.numbers import short


def with_texts(judged: Judged[Finding], sample_note: str = "") -> Verdict:
    """Return the verdict with its sentence and its findings' texts.

    ``sample_note`` says in which responses phrases were counted, "" if in all.
    """

    def tell(finding: Finding) -> ToldFinding:
        return _told(finding, sample_note)

    return with_sentence(Verdict.of(judged, tell))


def translatable_title(finding: Mapping[str, Any], title: str) -> str:
    """Return the title of a finding of findings.json; translatable if its facts reproduce it."""
    check = BY_ID.get(str(finding.get("id")))
    facts = finding.get("facts")
    if check is None or not isinstance(facts, dict):
        return title
    values = {
        key: tuple(fact) if isinstance(fact, list) else fact
        for key, fact in facts.items()
    }
    try:
        retitled = check.format_title(values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return title
    return retitled if retitled == title else title


class _CourseClause(NamedTuple):
    quantity: Quantity
    clause: str


def _told(finding: Finding, sample_note: str) -> ToldFinding:
    check = BY_ID[finding.id]
    sample = ""
    if sample_note and not finding.facts.keys().isdisjoint(check.sampled):
        sample = message("Counted {sample}.", sample=sample_note)
    return ToldFinding.of(
        finding,
        name=message(check.name),
        title=check.format_title(finding.facts),
        clause=check.format_statement(finding.facts),
        why=message(check.why),
        sample=sample,
        suggestion=message(check.suggestion),
        source=message(check.source),
    )


MAX_WORDS = 25  # Maximum number of words in the bold sentence, checkpoint included

# Ids of the checks that find the fall of a quantity
FALL_OF: dict[Quantity, tuple[str, ...]] = {
    "reward": ("reward_collapse",),
    "validation": ("watched_reward_fall",),
    "second_reward": ("watched_reward_fall",),
    "accuracy": ("part_falls", "watched_reward_fall"),
}
COLLAPSES = ("reward_collapse", "watched_reward_fall")

# A flat phase at the end is mentioned if it has at least this fraction of the steps
LONG_PART = 0.2
# A quantity "stays" if its first and last window are this close to its mean
STILL = 0.1
# A change by this fraction of the larger value is stated even if it may be noise
LARGE = 1 / 3
# Levels that differ by less than this many standard errors are within noise
WITHIN_NOISE = 2.0
NAMES: dict[Quantity, str] = {
    "reward": translatable("the reward"),
    "validation": translatable("validation"),
    "second_reward": translatable("the second reward"),
    "accuracy": translatable("{part:quoted}"),
}


def with_sentence(verdict: Verdict) -> Verdict:
    """Return the verdict with its four lines and ``sentence`` filled in."""
    lead = _lead_of(verdict)
    keep = _keep_sentence(verdict)
    if lead is None:
        courses = _course_clauses(verdict, cause="")
        first, courses = _first_sentence(verdict, courses, keep)
        course = _in_one_sentence(courses)
    else:
        first = _lead_sentence(lead, verdict)
        courses = _course_clauses(verdict, cause=first)
        earlier = _earlier_sentence(lead, verdict, first)
        course = sentences([_in_one_sentence(courses), earlier])
        if verdict.level == "unjudged":
            course = lead.title  # which runs they are, and what to do
    return replace(
        verdict,
        what=first,
        course_sentence=course,
        evidence=_evidence_of(lead, verdict),
        next=sentences([lead.suggestion if lead else "", keep]),
        sentence=sentences([first, course, keep]),
    )


def _lead_of(verdict: Verdict) -> ToldFinding | None:
    for finding in verdict.findings:
        if finding.id == verdict.lead:
            return finding
    return None


def _evidence_of(lead: ToldFinding | None, verdict: Verdict) -> ShownExample | None:
    """Return the example that shows the lead or, if it has none, one of its effects."""
    if lead is None:
        return None
    for finding in (lead, *verdict.effects_of(lead)):
        if finding.evidence:
            return ShownExample(finding.id, 0)
    return None


def _course_clauses(verdict: Verdict, cause: str) -> list[_CourseClause]:
    """Return a clause on each reward, without what the sentence ``cause`` already states."""
    if verdict.level == "unjudged":
        return []
    return [
        _CourseClause(quantity, _course_clause(verdict, quantity, cause))
        for quantity in NAMES
        if quantity in verdict.courses
    ]


def _first_sentence(
    verdict: Verdict, courses: list[_CourseClause], keep: str
) -> tuple[str, list[_CourseClause]]:
    """Return the first sentence of a verdict without a lead, and the clauses that remain.

    What rose, or else the reward, is the headline if it is short enough beside ``keep``.
    """
    first = message("{headline}.", headline=headline(verdict))
    rising = [one for one in courses if verdict.courses[one.quantity].rose]
    for chosen in (rising or courses)[:1]:
        level = _level_words(verdict)
        text = message("{level}: {clause}.", level=level, clause=chosen.clause)
        if _is_short(text, keep):
            return text, [one for one in courses if one is not chosen]
    return first, courses


def _in_one_sentence(courses: Sequence[_CourseClause]) -> str:
    if not courses:
        return ""
    text = clauses([course.clause for course in courses])
    return message("{one:capital}.", one=text)


def _is_short(*texts: str) -> bool:
    """Return whether texts together are short enough to be the bold sentence."""
    return len(" ".join(texts).split()) <= MAX_WORDS


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words ("Broken: reward collapse since step 40")."""
    lead = _lead_of(verdict)
    if lead is not None:
        lasting = translatable("{level}: {what} since step {step}")
        return _dated(lead, lead.name, verdict, lasting)
    if verdict.level == "unjudged":
        return _why_not_judged(verdict)
    if verdict.level == "unclear":
        return message("Unclear: no clear learning")
    return _level_words(verdict)


def _why_not_judged(verdict: Verdict) -> str:
    if verdict.windows is None and verdict.reward_count == verdict.step_count:
        return plural(
            "Not judged: only {count} step, too few to judge a trend",
            "Not judged: only {count} steps, too few to judge a trend",
            verdict.step_count,
        )
    if not verdict.reward_count:
        return message("Not judged: no reward is logged")
    return plural(
        "Not judged: the reward has only {count} value",
        "Not judged: the reward has only {count} values",
        verdict.reward_count,
    )


def _dated(lead: ToldFinding, what: str, verdict: Verdict, lasting: str) -> str:
    """Return the level, what happened and when; ``lasting`` is the template of lasting problems."""
    if lead.onset and lead.until is not None:
        literal = translatable("{level}: {what} in {steps}")
    elif lead.onset is None or _says_from_start(lead):
        literal = translatable("{level}: {what}")
    elif lead.onset.step == verdict.first_step:
        literal = translatable("{level}: {what}, from the first step on")
    elif BY_ID[lead.id].event:
        literal = translatable("{level}: {what} at step {step}")
    else:
        literal = lasting
    facts: dict[str, Fact] = {"level": FIRST_WORDS[verdict.level], "what": what}
    if lead.onset:
        facts["step"] = lead.onset.step
        facts["steps"] = span((lead.onset.step, lead.until))
    return format_message(literal, facts)


def _says_from_start(finding: ToldFinding) -> bool:
    """Return whether its own words say that it is there from the first step on."""
    return str(finding.facts.get("kind")).startswith("start")


def _level_words(verdict: Verdict) -> str:
    if verdict.level == "healthy" and verdict.basis:
        return message("Healthy as far as {basis} show", basis=verdict.basis)
    return FIRST_WORDS[verdict.level]


def _lead_sentence(lead: ToldFinding, verdict: Verdict) -> str:
    """Return what happened and when, with the first of its effects if that is short enough."""
    if _is_dead(lead):
        literal = translatable("{level}: {what} from step {since} on")
        facts = {"level": FIRST_WORDS[verdict.level], "what": lead.clause, **lead.facts}
        text = format_message(literal, facts)
    else:
        lasting = translatable("{level}: {what}, starting at step {step}")
        if lead.onset and lead.onset.high - lead.onset.low > 2:  # a wide interval
            lasting = translatable("{level}: {what}, since about step {step}")
        text = _dated(lead, lead.clause, verdict, lasting)
    for effect in _effects_to_tell(lead, verdict)[:1]:
        both = message("{cause}; {effect}", cause=text, effect=effect.clause)
        if _is_short(both):
            text = both
    return message("{text}.", text=text)


def _effects_to_tell(lead: ToldFinding, verdict: Verdict) -> list[ToldFinding]:
    """Return the effects of a finding, collapses first, then dips of a reward."""
    is_collapse = lead.id in COLLAPSES
    effects = []
    for effect in verdict.effects_of(lead):
        is_stated = is_collapse and effect.id in COLLAPSES
        if effect.severity is not Severity.INFO and not is_stated:
            effects.append(effect)
    effects.sort(key=lambda effect: effect.id not in COLLAPSES)
    if lead.onset and not is_collapse:  # a fall that recovered is a note
        for finding in verdict.findings:
            is_dip = finding.facts.get("kind") == "dip"
            if is_dip and (finding.until or 0) >= lead.onset.step:
                effects.append(finding)
    return effects


def _earlier_sentence(lead: ToldFinding, verdict: Verdict, cause: str) -> str:
    """Return a sentence on a further problem that began between ``keep_step`` and lead, or ""."""
    if lead.onset is None or verdict.keep_step is None:
        return ""
    between = range(verdict.keep_step + 1, lead.onset.step)
    for finding in verdict.findings:
        if finding.severity is Severity.INFO or finding.clause in cause:
            continue
        if finding.explained_by is not None or finding.onset is None:
            continue
        if finding.onset.step in between:
            literal = translatable("From about step {step} on, {what}.")
            facts: Facts = {"what": finding.clause, "step": finding.onset.step}
            return format_message(literal, facts)
    return ""


class _Low(NamedTuple):
    """A level from which a quantity came back, and its first and last step."""

    value: float
    steps: tuple[int, int]
    # the levels before and after it
    before: float
    after: float


@dataclass(frozen=True)
class _Telling:
    """A course as the verdict's sentence tells it: without what ``cause`` has already said."""

    verdict: Verdict
    quantity: Quantity
    cause: str

    @property
    def course(self) -> Course:
        return self.verdict.courses[self.quantity]

    @cached_property
    def fall(self) -> ToldFinding | None:
        """The finding that the quantity fell, None without any."""
        for finding in self.verdict.findings:
            is_second = str(finding.facts.get("kind")).startswith("second_")
            of_other = is_second != (self.quantity == "second_reward")
            # Another part of the reward than the one that stands in for validation
            part = finding.facts.get("part", self.course.name)
            of_other = of_other or part != self.course.name
            if finding.id in FALL_OF[self.quantity] and not of_other:
                return finding
        return None

    @property
    def fall_is_told(self) -> bool:
        return self.fall is not None and self.fall.clause in self.cause

    @cached_property
    def values(self) -> dict[str, float]:
        """The first, best and last level, by the names of their places."""
        course = self.course
        last = course.last.value
        if self.fall and _is_dead(self.fall):
            # The last window may begin before the collapse.
            end = self.fall.facts["end"]
            last = end if isinstance(end, float) else last
        return {"first": course.first.value, "best": course.top.value, "last": last}

    @cached_property
    def printed(self) -> dict[str, str]:
        numbers = numbers_of(list(self.values.values()), self.course)
        return dict(zip(self.values, numbers, strict=True))

    def differ(self, one: str, other: str) -> bool:
        """Return whether two numbers differ in print: readers see no other change."""
        return self.printed[one] != self.printed[other]

    @property
    def is_lower(self) -> bool:
        """Whether it is lower at the end than at its best."""
        return self.values["best"] > self.values["last"] and self.differ("best", "last")

    @property
    def fell(self) -> bool:
        if not self.is_lower:
            return False
        if self.course.lost:
            return True
        # A collapse is told even if the windows are too noisy to prove the loss.
        has_collapsed = any(
            finding.id in COLLAPSES and finding.severity is not Severity.INFO
            for finding in self.verdict.findings
        )
        return has_collapsed and self.course.top.steps[1] < self.course.last.steps[0]

    @property
    def rose(self) -> bool:
        if not self.differ("first", "last"):
            return False
        if self.course.rose:
            return True
        is_higher = self.values["last"] > self.values["first"]
        return is_higher and _is_healthy_by_other_means(self.verdict)

    @cached_property
    def low(self) -> _Low | None:
        """The low from which it came back, None without one."""
        curve = self.course.curve
        first = curve.first.value
        last = curve.last.value
        valley = curve.valley
        climb = curve.climb
        if valley is not None:
            steps = (valley.onset, valley.until)
            if climb is not None and climb.onset >= valley.until:
                last = climb.level  # it may have changed since
            return _Low(curve.lowest_in(steps).value, steps, valley.before, last)
        # It may have fallen too slowly for a valley, but surely have risen since.
        if climb is not None and not curve.rose and not self.course.gained:
            lowest = curve.lowest_in((int(curve.steps[0]), climb.onset))
            return _Low(lowest.value, lowest.steps, first, last)
        return None

    @property
    def dipped(self) -> bool:
        """Whether it fell and came back, to a number that is not clearly another."""
        return self.low is not None and not self.course.curve.fell

    @property
    def sank(self) -> bool:
        """Whether it ends below its start, without a finding that it fell."""
        return self.differ("first", "last") and self.course.curve.fell


def _is_dead(finding: ToldFinding) -> bool:
    return finding.id == "reward_collapse" and finding.facts.get("kind") == "dead"


def _keep_sentence(verdict: Verdict) -> str:
    step = verdict.keep_step
    if step is None or verdict.level == "unjudged":
        return ""
    if step == verdict.last_step:
        return message("Keep the last checkpoint.")
    return message("Keep step {step} or the checkpoint before it.", step=step)


def _is_healthy_by_other_means(verdict: Verdict) -> bool:
    """Return whether the run is healthy although neither its reward nor validation rose."""
    rewards = [verdict.courses[name] for name in NAMES if name in verdict.courses]
    return verdict.level == "healthy" and not any(course.rose for course in rewards)


def _course_clause(verdict: Verdict, quantity: Quantity, cause: str) -> str:
    """Return a clause on the course of a quantity, without what ``cause`` already states."""
    course = verdict.courses[quantity]
    if course.is_single and quantity in WATCHED:
        return message(
            "{name} was {value} in the one evaluation logged (step {step})",
            name=_name_of(course),
            value=numbers_of([course.last.value], course)[0],
            step=int(course.steps[0]),
        )
    told = _Telling(verdict, quantity, cause)
    literal = _course_words(told)
    clause = _with_low(literal, _facts_of_course(told, literal), told)
    return _with_reason(clause, course, verdict, quantity)


def _course_words(told: _Telling) -> str:
    """Return the template that says what the quantity did: the first case that applies."""
    if told.fell:
        return _fall_words(told)
    if told.rose:
        return _rise_words(told)
    if told.dipped:
        return _dip_words(told)
    if told.sank:
        return translatable("{name} fell from {first} to {last}")
    if told.course.curve.probably_rose and told.differ("first", "last"):
        return translatable("{name} probably rose from {first} to {last}")
    if told.course.curve.probably_fell and told.differ("first", "last"):
        return translatable("{name} probably fell from {first} to {last}")
    return _unchanged_words(told.course, told.verdict)


def _rise_words(told: _Telling) -> str:
    if told.course.slipped and told.is_lower:
        return translatable(
            "{name} rose from {first} to {best} ({at}) and is {last} at the end"
        )
    # A reward is not called flat while validation still rises.
    others = [told.verdict.courses.get(name) for name in WATCHED]
    shown = next((one for one in others if one is not None), told.course)
    pieces = shown.curve.pieces
    ends_rising = bool(pieces) and pieces[-1].kind is PieceKind.RISE
    still_rises = told.quantity == "reward" and ends_rising
    is_flat = _is_flat_at_the_end(told.course) and not still_rises
    if told.quantity == "reward" and told.verdict.gained_format:
        return _format_words(is_flat=is_flat)
    if is_flat:
        return translatable(
            "{name} rose from {first} to {last} and is flat since step {since}"
        )
    return translatable("{name} rose from {first} to {last}")


def _format_words(*, is_flat: bool) -> str:
    """Return the template for a reward of which most of the rise is the answers' format."""
    if is_flat:
        return translatable(
            "{name} rose from {first} to {last}, most of it the answer format, and is flat since "
            "step {since}"
        )
    return translatable(
        "{name} rose from {first} to {last}, most of it the answer format"
    )


def _dip_words(told: _Telling) -> str:
    if told.fall_is_told and not told.differ("first", "last"):
        return translatable("{name} starts and ends at {last}")
    before, after = _levels_around_low(told)
    if before == after:
        return translatable(
            "{name} fell from {before} to {low:short} in {when} and recovered"
        )
    return translatable(
        "{name} fell from {before} to {low:short} in {when} and recovered to {after}"
    )


def _levels_around_low(told: _Telling) -> tuple[str, str]:
    """Return the levels before and after the low, in print."""
    assert told.low is not None
    before, after = numbers_of([told.low.before, told.low.after], told.course)
    return before, after


def _facts_of_course(told: _Telling, literal: str) -> dict[str, Fact]:
    """Return the values of the template's places."""
    course = told.course
    facts: dict[str, Fact] = {
        "name": _name_of(course),
        "since": course.curve.settled_since,
        "start": span(course.first.steps),
        "at": span(course.top.steps),
        "end": span(course.last.steps),
    }
    if told.low is not None and "{low" in literal:
        facts["low"] = told.low.value
        facts["when"] = span(told.low.steps)
        facts["before"], facts["after"] = _levels_around_low(told)
    if "{mean}" in literal:
        facts["mean"] = numbers_of([course.curve.pieces[0].start], course)[0]
    # Only numbers that are printed together need digits to tell them apart.
    shown = [name for name in told.values if f"{{{name}}}" in literal]
    numbers = numbers_of([told.values[name] for name in shown], course)
    facts.update(zip(shown, numbers, strict=True))
    return facts


def _with_low(literal: str, facts: dict[str, Fact], told: _Telling) -> str:
    """Return the clause; if the quantity recovered, with the low before, where it belongs."""
    low = told.low
    if low is None or "{low" in literal or told.fall_is_told:
        return format_message(literal, facts)
    words = message(
        "a low of {low} in {when}", low=short(low.value, 2), when=span(low.steps)
    )
    if "{at}" in literal and low.steps[1] < told.course.top.steps[0]:
        at = message("{at}, after {low}", at=facts["at"], low=words)
        return format_message(literal, {**facts, "at": at})
    clause = format_message(literal, facts)
    return message("{clause}, after {low}", clause=clause, low=words)


def _fall_words(told: _Telling) -> str:
    """Return the template for a fall, without the low if that is already stated."""
    course = told.course
    seems_higher = told.differ("first", "best")
    if course.gained and seems_higher:
        if told.fall_is_told:
            return translatable("{name} had risen from {first} to {best} ({at})")
        return translatable(
            "{name} rose from {first} to {best} ({at}), then fell to {last}"
        )
    rose = seems_higher and course.top.steps[0] > course.first.steps[1]
    if told.fall_is_told and rose:
        return translatable("{name} was {first} at first and {best} at its best ({at})")
    if told.fall_is_told:
        return translatable("{name} was {best} in {at}")
    if rose and not course.lost:
        return translatable(
            "{name} went from {first} to {best} ({at}) and is {last} at the end"
        )
    return translatable("{name} fell from {best} ({at}) to {last}")


def _unchanged_words(course: Course, verdict: Verdict) -> str:
    """Return the template for a quantity that neither rose nor fell beyond noise."""
    first = course.first.value
    last = course.last.value
    if course.curve.is_flat:
        mean = course.curve.pieces[0].start
        is_still = max(abs(first - mean), abs(last - mean)) <= STILL * abs(mean)
        # Of a noisy quantity, a few values at both ends say less than the mean of all.
        error = math.hypot(course.first.se, course.last.se)
        if is_still or abs(last - first) < WITHIN_NOISE * error:
            return translatable("{name} stays at about {mean}")
    if verdict.level == "healthy":
        return translatable("{name} is {last} in {end} ({first} in {start})")
    if abs(last - first) > LARGE * max(abs(first), abs(last)):
        return translatable(
            "{name} went from {first} in {start} to {last} in {end}, which may be noise"
        )
    return translatable(
        "{name} did not clearly change: {first} in {start}, {last} in {end}"
    )


def _is_flat_at_the_end(course: Course) -> bool:
    """Return whether the course ends in a flat phase that is long enough to be mentioned."""
    since = course.curve.settled_since
    steps = course.steps
    if since is None:
        return False
    if steps[-1] - since < LONG_PART * (steps[-1] - steps[0]):
        return False
    return course.curve.pieces[-1].kind is PieceKind.FLAT


def _with_reason(
    clause: str, course: Course, verdict: Verdict, quantity: Quantity
) -> str:
    """Return a clause; if on a reward that fell, with a likely reason such as harder prompts."""
    if quantity != "reward":
        return clause
    if _is_contradicted(course, verdict):
        return message(
            "{clause} by the trainer's metric, which the logged responses contradict",
            clause=clause,
        )
    if course.lost or course.direction < 0:
        if any(finding.id == "mix_changed" for finding in verdict.findings):
            return message("{clause}, as harder tasks came in", clause=clause)
        if verdict.harder_prompts:
            return message("{clause}, as the prompts became harder", clause=clause)
    if verdict.one_prompt and course.source == "rollouts" and not course.rose:
        return message("{clause}, but each step has a single prompt", clause=clause)
    return clause


def _is_contradicted(course: Course, verdict: Verdict) -> bool:
    """Return whether the course is that of a metric with which the rollouts disagree."""
    return course.source == "metrics" and any(
        finding.id == "sources_disagree" and finding.facts["kind"] == course.quantity
        for finding in verdict.findings
    )


def _name_of(course: Course) -> str:
    assert course.quantity is not None
    return message(NAMES[course.quantity], part=course.name)


def numbers_of(values: Sequence[float], course: Course) -> list[str]:
    """Format numbers with two digits, three where two would be alike, and % for percentages."""
    unit = "%" if is_percentage(course) else ""
    texts = [short(value, 2) for value in values]
    if len(set(texts)) < len(set(values)):
        texts = [short(value, 3) for value in values]
    return [text + unit if text != "0" else text for text in texts]


def is_percentage(course: Course) -> bool:
    """Return whether the values, by their size and column's name, are percentages up to 100."""
    if course.name:
        return False  # parts are in units of the reward
    name = course.column.lower()
    top = float(course.values.max(initial=0.0))
    words = ("acc", "percent", "pct", "rate", "pass", "solve")
    return 1.5 < top <= 100 and any(word in name for word in words)
