"""The course of a reward, of validation or of another score, in words.

Numbers have two significant digits, three where two would print different numbers alike, and the
steps of which they are the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rlreport.check.course import TREND_Z, WATCHED, Course, Quantity
from rlreport.check.curve import LEAST_TREND, PROBABLY_Z, trend_z
from rlreport.check.fall import MIX
from rlreport.check.finding import Fact, Severity, ToldFinding
from rlreport.check.gain import GainPart
from rlreport.check.pieces import PieceKind
from rlreport.check.verdict import Verdict
from rlreport.text.messages import (
    format_message,
    listed,
    message,
    sentences,
    span,
    translatable,
)
from rlreport.text.numbers import short

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
# Values within this part of a fall's size of its end are at its end
NEAR = 0.03
# A change by this fraction of the larger value is stated even if it may be noise
LARGE = 1 / 3
# A part of the reward leads its gain if it is this part of it
MOST_OF_GAIN = 0.5
# And is all of it, but for noise, from this part on
ALL_OF_GAIN = 0.95
# Levels that differ by less than this many standard errors are within noise
WITHIN_NOISE = 2.0
NAMES: dict[Quantity, str] = {
    "reward": translatable("the reward"),
    "validation": translatable("validation"),
    "second_reward": translatable("the second reward"),
    "accuracy": translatable("{part:quoted}"),
}


def scores_of(verdict: Verdict) -> list[Quantity]:
    """Return the scores that are logged, in the order of telling: what is not trained on first.

    One evaluation has no course, so it comes last.
    """
    logged: list[Quantity] = [name for name in NAMES if name in verdict.courses]
    order = (*WATCHED, "reward")
    return sorted(
        logged, key=lambda name: (verdict.courses[name].is_single, order.index(name))
    )


def course_clause(verdict: Verdict, quantity: Quantity, cause: str) -> str:
    """Return a clause on the course of a score, without what ``cause`` already states."""
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
    clause = format_message(literal, _facts_of_course(told, literal))
    if told.rose and not told.fell:
        clause = _with_plateau(_with_source(clause, told), told)
    return _with_reason(_with_low(clause, literal, told), told)


def brief_clauses(verdict: Verdict, quantity: Quantity) -> list[str]:
    """Return a clause on the first and the last level of a score, for the verdict's first line.

    If one part makes up most of the reward's rise, the first of two clauses names it, and the
    second, which is shorter, does not.
    """
    told = _Telling(verdict, quantity, cause="")
    literal = _course_words(told)
    clause = format_message(literal, _facts_of_course(told, literal))
    choices = [clause]
    if told.rose and not told.fell:
        choices = [_with_source(clause, told)]
        part = _leading_part(verdict)
        if quantity == "reward" and part is not None:
            choices.insert(0, _with_part(clause, part))
    return [_with_reason(choice, told) for choice in choices]


def rest_of_course(verdict: Verdict, quantity: Quantity) -> str:
    """Return what ``brief_clause`` leaves out: what lay between the two levels."""
    told = _Telling(verdict, quantity, cause="")
    if told.course.is_single:
        return ""
    if told.rose and not told.fell:
        return _way_up(told)
    course = told.course
    if _stays_level(course):
        first, last = numbers_of([course.first.value, course.last.value], course)
        return message(
            "{name:capital} was {first} in {start} and {last} in {end}.",
            name=_name_of(course),
            first=first,
            start=span(course.first.steps),
            last=last,
            end=span(course.last.steps),
        )
    noise = numbers_of([course.curve.noise], course)[0]
    if told.fell or told.dipped or not math.isfinite(course.curve.noise):
        return ""
    return message(
        "Single steps differ from this course by {noise} (standard deviation).",
        noise=noise,
    )


def right_answers_sentence(verdict: Verdict) -> str:
    """Return what the share of right answers did where the gain is their format, else ""."""
    course = verdict.right_answers
    if course is None:
        return ""
    return message(
        "{first:percent} of answers were right in {start}, {last:percent} in {end}.",
        first=course.first.value,
        start=span(course.first.steps),
        last=course.last.value,
        end=span(course.last.steps),
    )


def gain_sentence(verdict: Verdict) -> str:
    """Return which parts the reward's gain is made of, "" if that is not known."""
    gain = verdict.gain
    if gain is None or not gain.rose or not verdict.courses["reward"].rose:
        return ""
    if gain.rose[0].share >= ALL_OF_GAIN:
        return message("All of the gain is {part:quoted}.", part=gain.rose[0].name)
    parts = [
        message("{share:percent} {part:quoted}", share=part.share, part=part.name)
        for part in gain.rose
    ]
    return message("The gain is {parts}.", parts=listed(parts))


def names_whole_gain(verdict: Verdict) -> bool:
    """Return whether no other part is to be told than the one that ``brief_clauses`` names."""
    part = _leading_part(verdict)
    gain = verdict.gain
    if part is None or gain is None:
        return False
    return part.share >= ALL_OF_GAIN or len(gain.rose) == 1


def _leading_part(verdict: Verdict) -> GainPart | None:
    """Return the part that makes up most of the reward's rise, None without one."""
    gain = verdict.gain
    if gain is None or not gain.rose or gain.rose[0].share < MOST_OF_GAIN:
        return None
    return gain.rose[0]


def _with_part(clause: str, part: GainPart) -> str:
    """Return a clause on a reward that rose, with the part that makes up most of its rise."""
    if part.share >= ALL_OF_GAIN:
        return message(
            "{clause}, all of it {part:quoted}", clause=clause, part=part.name
        )
    return message(
        "{clause}, {share:percent} of it {part:quoted}",
        clause=clause,
        share=part.share,
        part=part.name,
    )


def _way_up(told: _Telling) -> str:
    """Return a sentence on a low before the rise, and on where it ended."""
    low = ""
    if told.low is not None:
        number = numbers_of([told.low.value], told.course)[0]
        literal = translatable("{name:capital} had a low of {low} in {when}.")
        if told.low_is_above_start:
            literal = translatable("{name:capital} dipped to {low} in {when}.")
        low = message(
            literal,
            name=_name_of(told.course),
            low=number,
            when=span(told.low.steps),
        )
    return sentences([low, _end_of_rise(told)])


def _end_of_rise(told: _Telling) -> str:
    """Return whether a rise is over, or when half of it was reached; "" if that says nothing."""
    curve = told.course.curve
    name = _name_of(told.course)
    if told.has_slipped:
        return ""
    if _is_flat_at_the_end(told.course):
        return message(
            "{name:capital} is flat since step {since}.",
            name=name,
            since=curve.settled_since,
        )
    if curve.ends_rising and not told.course.slipped:
        return message("{name:capital} still rises at the end.", name=name)
    middle = (curve.first.value + curve.last.value) / 2
    halfway = curve.steps[curve.lines >= middle]
    if not len(halfway) or len(curve) < LEAST_TREND:
        return ""
    literal = translatable("{name:capital} had half of this gain by step {step}.")
    return message(literal, name=name, step=int(halfway[0]))


def _name_of(course: Course) -> str:
    assert course.quantity is not None
    return message(NAMES[course.quantity], part=course.name)


class _Low(NamedTuple):
    """A level from which a quantity came back.

    Its steps are those from the fall to the recovery or, after a gradual fall, those of the level.
    """

    value: float
    steps: tuple[int, int]
    # the levels before and after it
    before: float
    after: float
    is_gradual: bool = False


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
        if self.fall and is_dead(self.fall):
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

    def seems(self, lower: str, higher: str) -> bool:
        """Return whether one level is higher than another, also in print."""
        return self.values[higher] > self.values[lower] and self.differ(lower, higher)

    @property
    def is_lower(self) -> bool:
        """Whether it is lower at the end than at its best."""
        return self.values["best"] > self.values["last"] and self.differ("best", "last")

    @property
    def has_slipped(self) -> bool:
        """Whether it is lower at the end than at its best, which lies before the end."""
        is_before = self.course.top.steps[1] < self.course.last.steps[0]
        return self.course.slipped and self.is_lower and is_before

    @cached_property
    def settled(self) -> int | None:
        """First step from which on all values are about the last level, None if not before it."""
        course = self.course
        steps = course.steps
        allowed = max(
            WITHIN_NOISE * course.last.se, NEAR * (course.top.value - course.last.value)
        )
        is_away = abs(course.values - course.last.value) > allowed
        away = np.flatnonzero(is_away)
        if not len(away) or away[-1] + 2 >= len(steps):
            return None
        since = int(steps[away[-1] + 1])
        return since if since < course.last.steps[0] else None

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
            return _Low(lowest.value, lowest.steps, first, last, is_gradual=True)
        return None

    @property
    def low_is_above_start(self) -> bool:
        """Whether the low is a loss of a part of what was gained before."""
        return self.low is not None and self.low.value > self.course.first.value

    @property
    def dipped(self) -> bool:
        """Whether it fell and came back, to a number that is not clearly another."""
        return self.low is not None and not self.course.curve.fell

    @property
    def sank(self) -> bool:
        """Whether it ends below its start, without a finding that it fell."""
        return self.differ("first", "last") and self.course.curve.fell


def is_dead(finding: ToldFinding) -> bool:
    """Return whether a finding is that the reward ends at its worst value and stays there."""
    return finding.id == "reward_collapse" and finding.facts.get("kind") == "dead"


def _is_healthy_by_other_means(verdict: Verdict) -> bool:
    """Return whether the run is healthy although neither its reward nor validation rose."""
    rewards = [verdict.courses[name] for name in NAMES if name in verdict.courses]
    return verdict.level == "healthy" and not any(course.rose for course in rewards)


def _course_words(told: _Telling) -> str:
    """Return the template that says what the quantity did: the first case that applies."""
    if told.fell:
        return _fall_words(told)
    if told.rose:
        return _rise_words(told)
    if told.dipped:
        return _dip_words(told)
    if told.sank:
        return translatable("{name} fell from {first} ({start}) to {last} ({end})")
    if told.course.probable > 0 and told.seems("first", "last"):
        return translatable(
            "{name} probably rose from {first} ({start}) to {last} ({end})"
        )
    if told.course.probable < 0 and told.seems("last", "first"):
        return translatable(
            "{name} probably fell from {first} ({start}) to {last} ({end})"
        )
    return _unchanged_words(told.course, told.verdict)


def _rise_words(told: _Telling) -> str:
    if told.has_slipped:
        return translatable(
            "{name} rose from {first} ({start}) to {best} ({at}) and is {last} at the end"
        )
    return translatable("{name} rose from {first} ({start}) to {last} ({end})")


def _with_source(clause: str, told: _Telling) -> str:
    """Return a clause on a reward that rose, with what most of its rise is if that is known."""
    if told.quantity == "reward" and told.verdict.right_answers is not None:
        return message("{clause}, most of it the answer format", clause=clause)
    return clause


def _with_plateau(clause: str, told: _Telling) -> str:
    """Return a clause on a score that rose; with since when it is flat, if it is."""
    if told.has_slipped:
        return clause
    # A reward is not called flat while validation still rises.
    others = [told.verdict.courses.get(name) for name in WATCHED]
    shown = next((one for one in others if one is not None), told.course)
    still_rises = told.quantity == "reward" and shown.curve.ends_rising
    if still_rises or not _is_flat_at_the_end(told.course):
        return clause
    since = told.course.curve.settled_since
    return message("{clause}, flat since step {since}", clause=clause, since=since)


def _dip_words(told: _Telling) -> str:
    """Return the template for a quantity that fell and recovered."""
    if told.fall_is_told and not told.differ("first", "last"):
        return translatable("{name} starts and ends at {last}")
    before, after = _levels_around_low(told)
    if told.low is not None and told.low.is_gradual:
        return translatable(
            "{name} fell gradually from {before} to {low:short} ({when}) and recovered to {after}"
        )
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
    if told.fell and told.settled is not None:
        facts["end"] = message("from step {step} on", step=told.settled)
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


def _with_low(clause: str, literal: str, told: _Telling) -> str:
    """Return the clause; if the quantity recovered, with the low before.

    ``literal`` is the template of the clause, which may have a place for the low already.
    """
    low = told.low
    if low is None or "{low" in literal or told.fall_is_told:
        return clause
    number = numbers_of([low.value], told.course)[0]
    when = span(low.steps)
    if told.low_is_above_start:
        words = message("a dip to {low} in {when}", low=number, when=when)
        return message("{clause}, with {dip}", clause=clause, dip=words)
    words = message("a low of {low} in {when}", low=number, when=when)
    return message("{clause}, after {low}", clause=clause, low=words)


def _fall_words(told: _Telling) -> str:
    """Return the template for a fall, without the low if that is already stated."""
    course = told.course
    seems_higher = told.differ("first", "best")
    if course.gained and seems_higher:
        if told.fall_is_told:
            return translatable(
                "{name} had risen from {first} ({start}) to {best} ({at})"
            )
        return translatable(
            "{name} rose from {first} ({start}) to {best} ({at}), then fell to {last} ({end})"
        )
    rose = seems_higher and course.top.steps[0] > course.first.steps[1]
    if told.fall_is_told and rose:
        return translatable(
            "{name} was {first} in {start} and {best} at its best ({at})"
        )
    if told.fall_is_told:
        return translatable("{name} was {best} in {at}")
    if rose and not course.lost:
        return translatable(
            "{name} went from {first} ({start}) to {best} ({at}) and is {last} at the end"
        )
    return translatable("{name} fell from {best} ({at}) to {last} ({end})")


def _stays_level(course: Course) -> bool:
    """Return whether it has one level, without a trend that may be more than noise."""
    return course.curve.is_flat and abs(course.curve.trend) < PROBABLY_Z


def _unchanged_words(course: Course, verdict: Verdict) -> str:
    """Return the template for a quantity that neither rose nor fell beyond noise."""
    first = course.first.value
    last = course.last.value
    if len(course.steps) == 1:
        return translatable("{name} was {last} in {end}, the only step logged")
    values = course.values
    if len(values) and values.min() == values.max():
        return translatable("{name} stays at {mean}")
    if _stays_level(course):
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
    is_steady = abs(trend_z(course.values[steps >= since])) < TREND_Z
    return is_steady and course.curve.pieces[-1].kind is PieceKind.FLAT


def _with_reason(clause: str, told: _Telling) -> str:
    """Return a clause; if on a reward that fell, with a likely reason such as harder prompts."""
    course = told.course
    verdict = told.verdict
    if told.quantity != "reward":
        return clause
    if _is_contradicted(course, verdict):
        return message(
            "{clause} by the trainer's metric, which the logged responses contradict",
            clause=clause,
        )
    if course.lost or course.direction < 0:
        if any(finding.id == "mix_changed" for finding in verdict.findings):
            return message("{clause}, as harder tasks came in", clause=clause)
        if told.fall is not None and told.fall.facts.get("kind") == MIX:
            return message("{clause}, when harder tasks came in", clause=clause)
        if verdict.harder_prompts:
            return message("{clause}, as the prompts became harder", clause=clause)
    if verdict.one_prompt and course.source == "rollouts" and not course.rose:
        return message("{clause}; each step has a single prompt", clause=clause)
    return clause


def _is_contradicted(course: Course, verdict: Verdict) -> bool:
    """Return whether the course is that of a metric with which the rollouts disagree."""
    return course.source == "metrics" and any(
        finding.id == "sources_disagree" and finding.facts["kind"] == course.quantity
        for finding in verdict.findings
    )


def numbers_of(values: Sequence[float], course: Course) -> list[str]:
    """Format numbers with two digits, three where two would be alike, and % for percentages."""
    texts = [short(value, 2) for value in values]
    if len(set(texts)) < len(set(values)):
        texts = [short(value, 3) for value in values]
    return [text + course.unit if text != "0" else text for text in texts]
