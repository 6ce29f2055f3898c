"""The verdict in words: what happened and since when, the course, and the checkpoint to keep.

Numbers have two significant digits, three where two would print different numbers alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from rlreport.check.course_data import Course, Phase, Quantity
from rlreport.check.finding import Fact, Finding, ToldFinding
from rlreport.check.registry import BY_ID
from rlreport.check.verdict import FIRST_WORDS, Judged, Verdict
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

# Check id -> quantity whose first and last mean the clause of the finding states
OF_COURSES: dict[str, Quantity] = {
    "length_collapse": "length",
    "length_hacking": "length",
    "entropy_collapse": "entropy",
    "entropy_explosion": "entropy",
}


def with_texts(judged: Judged[Finding], sample_note: str = "") -> Verdict:
    """Return the verdict with its sentence and its findings' texts.

    ``sample_note`` says in which responses phrases were counted, "" if in all.
    """

    def tell(finding: Finding) -> ToldFinding:
        return _told(finding, judged, sample_note)

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


def _told(finding: Finding, judged: Judged[Finding], sample_note: str) -> ToldFinding:
    check = BY_ID[finding.id]
    sample = ""
    if sample_note and not finding.facts.keys().isdisjoint(check.sampled):
        sample = message("Counted {sample}.", sample=sample_note)
    facts = {**finding.facts, **_course_facts(finding, judged)}
    return ToldFinding.of(
        finding,
        name=message(check.name),
        title=check.format_title(finding.facts),
        clause=check.format_statement(facts),
        why=message(check.why),
        sample=sample,
        suggestion=message(check.suggestion),
        source=message(check.source),
    )


def _course_facts(finding: Finding, judged: Judged[Finding]) -> dict[str, Fact]:
    """Return {"start": first mean, "early": its steps, "end": last mean} of its course, or {}."""
    quantity = OF_COURSES.get(finding.id)
    course = judged.courses.get(quantity) if quantity else None
    if course is None or finding.facts.get("kind") == "finished":
        return {}
    first = course.first
    return {"start": first.value, "early": span(first.steps), "end": course.last.value}


MAX_WORDS = 25  # Maximum number of words in the bold sentence, checkpoint included

FALL_OF = {"reward": "reward_collapse", "watched_reward": "watched_reward_fall"}
COLLAPSES = tuple(FALL_OF.values())

# A flat phase at the end is mentioned if it has at least this fraction of the steps
LONG_PART = 0.2
STILL = (
    0.1  # A quantity "stays" if its first and last window are this close to its mean
)
LARGE = (
    1 / 3
)  # A change by this fraction of the larger value is stated even if it may be noise
NAMES: dict[Quantity, str] = {
    "reward": translatable("the reward"),
    "watched_reward": translatable("validation"),
}


def with_sentence(verdict: Verdict) -> Verdict:
    """Return the verdict with ``headline``, ``course_text`` and ``sentence`` filled in."""
    lead = next((f for f in verdict.findings if f.id == verdict.lead), None)
    cause = "" if lead is None else _lead_sentence(lead, verdict)
    told_courses = [
        (quantity, _course_clause(verdict.courses[quantity], verdict, quantity, cause))
        for quantity in NAMES
        if quantity in verdict.courses
        and verdict.windows
        and verdict.level != "unjudged"
    ]
    keep = _keep_sentence(verdict)
    first = cause
    if lead is None:
        first = message("{headline}.", headline=headline(verdict))
        # What rose, or else the reward, is the headline; the rest is the second line.
        rose = (one for one in told_courses if _rose(verdict.courses[one[0]]))
        if chosen := next(rose, next(iter(told_courses), None)):
            text = message(
                "{level}: {clause}.", level=_level_words(verdict), clause=chosen[1]
            )
            if len(f"{text} {keep}".split()) <= MAX_WORDS:
                first = text
                told_courses.remove(chosen)
    course = ""
    if told_courses:
        text = clauses([clause for _, clause in told_courses])
        course = message("{one:capital}.", one=text)
    course = sentences(
        [course, _earlier_sentence(lead, verdict, cause) if lead else ""]
    )
    if lead and verdict.level == "unjudged":
        course = lead.title  # which runs they are, and what to do
    return replace(
        verdict,
        headline=sentences([first, keep]),
        course_text=course,
        sentence=sentences([first, course, keep]),
    )


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words ("Broken: reward collapse since step 40")."""
    lead = next((f for f in verdict.findings if f.id == verdict.lead), None)
    if lead is None:
        if verdict.level == "unjudged" and verdict.windows is not None:
            if not verdict.reward_count:
                return message("Not judged: no reward is logged")
            return plural(
                "Not judged: the reward has only {count} value",
                "Not judged: the reward has only {count} values",
                verdict.reward_count,
            )
        if verdict.level == "unjudged":
            return plural(
                "Not judged: only {count} step, too few to judge a trend",
                "Not judged: only {count} steps, too few to judge a trend",
                verdict.step_count,
            )
        if verdict.level == "unclear":
            return message("Unclear: no clear learning")
        return _level_words(verdict)
    return _dated(
        lead, lead.name, verdict, translatable("{level}: {what} since step {step}")
    )


def _dated(lead: ToldFinding, what: str, verdict: Verdict, lasting: str) -> str:
    """Return the level, what happened and when; ``lasting`` is the template of lasting problems."""
    if lead.onset and lead.until is not None:
        literal = translatable("{level}: {what} in {steps}")
    elif lead.onset is None or lead.onset.step == verdict.first_step:
        literal = translatable("{level}: {what}")
    else:
        literal = (
            translatable("{level}: {what} at step {step}")
            if BY_ID[lead.id].event
            else lasting
        )
    facts: dict[str, Fact] = {"level": FIRST_WORDS[verdict.level], "what": what}
    if lead.onset:
        facts |= {"step": lead.onset.step, "steps": span((lead.onset.step, lead.until))}
    return format_message(literal, facts)


def _level_words(verdict: Verdict) -> str:
    if verdict.level == "healthy" and verdict.basis:
        return message("Healthy as far as {basis} show", basis=verdict.basis)
    return FIRST_WORDS[verdict.level]


def _lead_sentence(lead: ToldFinding, verdict: Verdict) -> str:
    if _is_dead(lead):
        literal = translatable("{level}: {what} from step {since} on")
        facts = {"level": FIRST_WORDS[verdict.level], "what": lead.clause, **lead.facts}
        text = format_message(literal, facts)
    else:
        lasting = translatable("{level}: {what}, starting at step {step}")
        if lead.onset and lead.onset.high - lead.onset.low > 2:  # a wide interval
            lasting = translatable("{level}: {what}, since about step {step}")
        text = _dated(lead, lead.clause, verdict, lasting)
    already_stated = COLLAPSES if lead.id in COLLAPSES else ()
    effects = [
        effect
        for effect in verdict.effects_of(lead)
        if effect.severity != "info" and effect.id not in already_stated
    ]
    effects.sort(key=lambda effect: effect.id not in COLLAPSES)
    if lead.onset and lead.id not in COLLAPSES:  # a fall that recovered is a note
        dips = [f for f in verdict.findings if f.facts.get("kind") == "dip"]
        effects += [f for f in dips if (f.until or 0) >= lead.onset.step]
    for effect in effects[:1]:
        both = message("{cause}; {effect}", cause=text, effect=effect.clause)
        if len(f"{both} {_keep_sentence(verdict)}".split()) <= MAX_WORDS:
            text = both
    return message("{text}.", text=text)


def _earlier_sentence(lead: ToldFinding, verdict: Verdict, cause: str) -> str:
    """Return a sentence on a further problem that began between ``keep_step`` and lead, or ""."""
    if lead.onset is None or verdict.keep_step is None:
        return ""
    between = range(verdict.keep_step + 1, lead.onset.step)
    for finding in verdict.findings:
        untold = finding.severity != "info" and finding.clause not in cause
        own = untold and finding.explained_by is None
        if own and finding.onset and finding.onset.step in between:
            literal = translatable("From about step {step} on, {what}.")
            return format_message(
                literal, {"what": finding.clause, "step": finding.onset.step}
            )
    return ""


def _is_dead(finding: ToldFinding) -> bool:
    return finding.id == "reward_collapse" and finding.facts.get("kind") == "dead"


def _keep_sentence(verdict: Verdict) -> str:
    step = verdict.keep_step
    if step is None or verdict.level == "unjudged":
        return ""
    if step == verdict.last_step:
        return message("Keep the last checkpoint.")
    return message("Keep step {step} or the checkpoint before it.", step=step)


def _rose(course: Course) -> bool:
    return course.direction > 0 or (
        course.gained and course.last.value > course.first.value
    )


def _is_healthy_by_other_means(verdict: Verdict) -> bool:
    """Return whether the run is healthy although neither its reward nor validation rose."""
    rewards = [verdict.courses[name] for name in NAMES if name in verdict.courses]
    return verdict.level == "healthy" and not any(map(_rose, rewards))


def _course_clause(  # noqa: PLR0912, PLR0914, PLR0915
    course: Course, verdict: Verdict, quantity: Quantity, cause: str
) -> str:
    """Return a clause on the course of a quantity, without what ``cause`` already states."""
    if course.is_single and quantity == "watched_reward":
        return message(
            "validation was {value} in the one evaluation logged (step {step})",
            value=numbers_of([course.last.value], course)[0],
            step=int(course.steps[0]),
        )
    first, best, last = (
        part.value for part in (course.first, course.best, course.last)
    )
    fall = next((f for f in verdict.findings if f.id == FALL_OF[quantity]), None)
    is_told = fall is not None and fall.clause in cause
    if fall and _is_dead(fall) and isinstance(end := fall.facts["end"], float):
        last = end  # the last window may begin before the collapse
    texts = numbers_of((first, best, last), course)
    collapsed = {f.id for f in verdict.findings if f.severity != "info"} & set(
        COLLAPSES
    )
    is_lower = best > last and texts[1] != texts[2]
    is_flat = [phase.kind for phase in course.phases] == ["flat"]
    lost = course.lost and not is_flat
    fell = is_lower and (
        lost or (collapsed and course.best.steps[1] < course.last.steps[0])
    )
    by_other_means = _is_healthy_by_other_means(verdict)
    has_dip = (
        fall is not None and fall.facts.get("kind") == "dip" and texts[0] == texts[2]
    )
    facts: dict[str, Fact] = {
        "name": message(NAMES[quantity]),
        "since": course.settled_since,
    }
    facts |= {"at": span(course.best.steps), "end": span(course.last.steps)}
    facts["start"] = span(course.first.steps)
    if fell:
        literal = _fall_words(course, texts, is_told=is_told)
    elif texts[0] != texts[2] and (_rose(course) or (last > first and by_other_means)):
        # A reward is not called flat while validation still rises.
        watched = verdict.courses.get("watched_reward", course)
        phases = watched.phases
        rising = quantity == "reward" and len(phases) > 0 and phases[-1].kind == "rise"
        literal = translatable("{name} rose from {first} to {last}")
        if course.slipped and is_lower:
            literal = translatable(
                "{name} rose from {first} to {best} ({at}) and is {last} at the end"
            )
        elif _is_flat_at_the_end(course) and not rising:
            literal = translatable(
                "{name} rose from {first} to {last} and is flat since step {since}"
            )
    elif fall and has_dip and quantity == "reward":
        literal = translatable("{name} starts and ends at {last}")
        if not is_told:
            facts |= {
                "low": fall.facts["low"],
                "when": span((fall.facts["since"], fall.until)),
            }
            literal = translatable(
                "{name} starts and ends at {last}, with a low of {low:short} within {when}"
            )
    elif course.direction < 0 and texts[0] != texts[2] and not is_flat:
        literal = translatable("{name} fell from {first} to {last}")
    else:
        literal = _unchanged_words(course, verdict)
    values = {"first": first, "best": best, "last": last}
    shown = [name for name in values if f"{{{name}}}" in literal]
    numbers = numbers_of([values[name] for name in shown], course)
    facts |= zip(shown, numbers, strict=True)
    low = _low_before_recovery(course)
    if low and not has_dip:
        facts["low"] = message(
            "a low of {low} in {when}", low=short(low.end, 2), when=span(low.steps)
        )
        if "{at}" in literal and low.steps[1] < course.best.steps[0]:
            facts["at"] = format_message(translatable("{at}, after {low}"), facts)
        else:
            facts["clause"] = format_message(literal, facts)
            literal = translatable("{clause}, after {low}")
    clause = format_message(literal, facts)
    return _with_reason(clause, course, verdict, quantity)


def _fall_words(course: Course, texts: Sequence[str], *, is_told: bool) -> str:
    """Return the template for a fall; ``is_told`` leaves out the low, which is already stated."""
    if course.gained and texts[0] != texts[1]:
        if is_told:
            return translatable("{name} had risen from {first} to {best} ({at})")
        return translatable(
            "{name} rose from {first} to {best} ({at}), then fell to {last}"
        )
    rose = texts[0] != texts[1] and course.best.steps[0] > course.first.steps[1]
    if is_told and rose:
        return translatable("{name} was {first} at first and {best} at its best ({at})")
    if is_told:
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
    mean = float(course.values.mean())
    if max(abs(first - mean), abs(last - mean)) <= STILL * abs(mean):
        return translatable("{name} stays at about {last}")
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
    since = course.settled_since
    steps = course.steps
    if since is None or steps[-1] - since < LONG_PART * (steps[-1] - steps[0]):
        return False
    after = course.values[steps >= since][: course.window].mean()
    return course.phases[-1].kind == "flat" and bool(
        abs(course.last.value - after) <= course.error
    )


def _low_before_recovery(course: Course) -> Phase | None:
    """Return the first phase before a recovery that ends below half of first and last window."""
    half = min(course.first.value, course.last.value) / 2
    for phase, after in pairwise(course.phases):
        if phase.kind != "rise" and after.kind == "recovery" and phase.end < half:
            return phase
    return None


def _with_reason(
    clause: str, course: Course, verdict: Verdict, quantity: Quantity
) -> str:
    """Return a clause; if on a reward that fell, with a likely reason such as harder prompts."""
    if quantity != "reward":
        return clause
    if course.lost or course.direction < 0:
        if any(f.id == "mix_changed" for f in verdict.findings):
            return message("{clause}, as harder tasks came in", clause=clause)
        if verdict.harder_prompts:
            return message("{clause}, as the prompts became harder", clause=clause)
    if verdict.one_prompt and course.source == "rollouts" and course.direction < 0:
        return message("{clause}, but each step has a single prompt", clause=clause)
    return clause


def numbers_of(values: Sequence[float], course: Course) -> list[str]:
    """Format numbers with two digits, three where two would be alike, and % for percentages."""
    unit = "%" if is_percentage(course) else ""
    texts = [short(value, 2) for value in values]
    if len(set(texts)) < len(set(values)):
        texts = [short(value, 3) for value in values]
    return [text + unit if text != "0" else text for text in texts]


def is_percentage(course: Course) -> bool:
    """Return whether the values, by their size and column's name, are percentages up to 100."""
    name = course.column.lower()
    top = float(course.values.max(initial=0.0))
    words = ("acc", "percent", "pct", "rate", "pass", "solve")
    return 1.5 < top <= 100 and any(word in name for word in words)
