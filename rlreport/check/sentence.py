"""The verdict in words: four lines that a senior colleague would say after an hour with the logs.

*What* happened and since when, the *course* of what was to rise, the *evidence*, and what to do
*next*, with the checkpoint to keep. ``course_words`` has the words for courses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlreport.check.advice import Advice, Setup, advice_for
from rlreport.check.course import WATCHED, Quantity
from rlreport.check.course_words import (
    COLLAPSES,
    brief_clauses,
    course_clause,
    gain_sentence,
    names_whole_gain,
    rest_of_course,
    right_answers_sentence,
    scores_of,
)
from rlreport.check.finding import Fact, Facts, Finding, Rank, Severity, ToldFinding
from rlreport.check.registry import BY_ID
from rlreport.check.settings import Remedy
from rlreport.check.verdict import FIRST_WORDS, Judged, ShownExample, Verdict
from rlreport.text.messages import (
    Message,
    clauses,
    format_message,
    message,
    plural,
    sentences,
    span,
    translatable,
)

MAX_WORDS = 25  # Maximum number of words in the first line

# Ids of checks that tell what the reward pays for instead of right answers
OF_REWARD = ("unearned_gain", "right_answers_unpaid")

# An onset within more steps than this is told as "about"
EXACT = 2


def with_texts(
    judged: Judged[Finding], sample_note: str = "", setup: Setup | None = None
) -> Verdict:
    """Return the verdict with its four lines and its findings' texts.

    Args:
        judged: the outcome of all checks.
        sample_note: in which responses phrases were counted, "" if in all.
        setup: how the run was trained, for advice; by default unknown.
    """
    setup = setup or Setup()

    def tell(finding: Finding) -> ToldFinding:
        excluded = _excluded(finding, judged.findings)
        check = BY_ID[finding.id]
        advice = advice_for(check, finding.facts, setup, excluded)
        return _told(finding, sample_note, advice)

    return with_sentence(Verdict.of(judged, tell))


def _excluded(finding: Finding, findings: Sequence[Finding]) -> frozenset[Remedy]:
    """Return what the advice on a finding may not say because of the other findings.

    It may not undo what the advice on more important ones says.
    """
    excluded: set[Remedy] = set()
    is_earlier = True
    for other in findings:
        if other.id == finding.id:
            is_earlier = False
        elif other.severity is not Severity.INFO:
            check = BY_ID[other.id]
            excluded.update(check.rules_out)
            if is_earlier:
                excluded |= check.opposites(other.facts)
                excluded.update(check.no_cure)
    return frozenset(excluded)


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


def _told(finding: Finding, sample_note: str, advice: Advice) -> ToldFinding:
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
        suggestion=advice.text,
        settings=advice.settings,
        source=message(check.source),
    )


def with_sentence(verdict: Verdict) -> Verdict:
    """Return the verdict with its four lines, and all of it as one ``sentence``."""
    lead = verdict.leading
    keep = checkpoint_sentence(verdict)
    if lead is None:
        what, course = _without_lead(verdict)
    elif verdict.level == "unjudged":
        text = _dated(lead, lead.clause, verdict, lasting="{level}: {what}")
        what = message("{text}.", text=text)
        course = lead.title  # which runs they are, and what to do
    else:
        what = _lead_sentence(lead, verdict)
        course = _course_with_lead(lead, verdict, what)
    return replace(
        verdict,
        what=what,
        course_sentence=course,
        evidence=_evidence_of(lead, verdict),
        next=sentences([_advice_of(lead, verdict), keep]),
        sentence=sentences([what, course, keep]),
    )


def checkpoint_sentence(verdict: Verdict) -> str:
    """Return which checkpoint to keep, or why the log names none."""
    checkpoint = verdict.checkpoint
    if verdict.level == "unjudged":  # the first line says why
        return message("The log does not tell which checkpoint is best.")
    if checkpoint.step is None:
        literal = translatable("The log does not tell which checkpoint is best: {why}.")
        if checkpoint.none_is_better:
            literal = translatable("No checkpoint is better than the start: {why}.")
        return message(literal, why=checkpoint.why)
    if checkpoint.step == verdict.last_step:
        return message("Keep the last checkpoint.")
    literal = translatable("Keep step {step} or the checkpoint before it.")
    return message(literal, step=checkpoint.step)


def _advice_of(lead: ToldFinding | None, verdict: Verdict) -> str:
    """Return what to do: about the lead or, if nothing was learned, about that."""
    if lead is not None:
        return lead.suggestion
    if verdict.right_answers is not None:
        return message("Compare with a baseline whose prompt shows the answer format.")
    if verdict.level == "unclear":
        for finding in verdict.findings:
            if finding.id == "reward_stalled":
                return finding.suggestion
    return ""


def _evidence_of(lead: ToldFinding | None, verdict: Verdict) -> ShownExample | None:
    """Return the example that shows the lead or, if it has none, one of its effects."""
    if lead is None:
        return None
    for finding in (lead, *verdict.effects_of(lead)):
        if finding.evidence:
            return ShownExample(finding.id, 0)
    return None


def _without_lead(verdict: Verdict) -> tuple[str, str]:
    """Return the first two lines of a verdict without a lead.

    The first has the score that rose or else the one that counts most, if it is short enough.
    """
    scores = [] if verdict.level == "unjudged" else scores_of(verdict)
    rising = [name for name in scores if verdict.courses[name].rose]
    for name in (rising or scores)[:1]:
        choices = brief_clauses(verdict, name)
        for clause in choices:
            what = message(
                "{level}: {clause}.", level=_level_words(verdict), clause=clause
            )
            if not _is_short(what):
                continue
            others = [other for other in scores if other != name]
            rest = [rest_of_course(verdict, name), right_answers_sentence(verdict)]
            rest.append(_course_of(verdict, others))
            names_part = len(choices) > 1 and clause is choices[0]
            if not (names_part and names_whole_gain(verdict)):
                rest.append(gain_sentence(verdict))
            return what, sentences(rest)
    return message("{headline}.", headline=headline(verdict)), _course_of(
        verdict, scores
    )


def _course_of(verdict: Verdict, scores: Sequence[Quantity], cause: str = "") -> str:
    """Return a sentence on the courses of scores, without what ``cause`` already states."""
    if not scores:
        return ""
    text = clauses([course_clause(verdict, name, cause) for name in scores])
    return message("{one:capital}.", one=text)


def _course_with_lead(lead: ToldFinding, verdict: Verdict, what: str) -> str:
    """Return the second line: the course of validation and, where that says more, the reward."""
    scores = scores_of(verdict)
    is_reward_told = any(
        finding.id == "reward_collapse" and finding.clause in what
        for finding in verdict.findings
    )
    watched = [
        name
        for name in scores
        if name in WATCHED and not verdict.courses[name].is_single
    ]
    if is_reward_told and watched:
        scores = watched
    return sentences(
        [_course_of(verdict, scores, what), _earlier_sentence(lead, verdict, what)]
    )


def _is_short(text: str) -> bool:
    """Return whether a text is short enough to be the first line."""
    return len(text.split()) <= MAX_WORDS


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words ("Broken: reward collapse since step 40")."""
    lead = verdict.leading
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


def _level_words(verdict: Verdict) -> str:
    if verdict.level == "healthy" and verdict.basis:
        return message("Healthy as far as {basis} show", basis=verdict.basis)
    return FIRST_WORDS[verdict.level]


def _dated(lead: ToldFinding, what: str, verdict: Verdict, lasting: str) -> str:
    """Return the level, what happened and when; ``lasting`` is the template of lasting problems."""
    if lead.onset is None or _says_when(what) or _says_from_start(lead):
        literal = translatable("{level}: {what}")
    elif lead.until is not None:
        literal = translatable("{level}: {what} in {steps}")
    elif lead.onset.from_start:
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


def _says_when(clause: str) -> bool:
    """Return whether a statement has its own steps, in a place of that name."""
    return isinstance(clause, Message) and "{in_steps}" in clause.literal


def _says_from_start(finding: ToldFinding) -> bool:
    """Return whether its own words say that it is there from the first step on."""
    return str(finding.facts.get("kind")).startswith("start")


def _lead_sentence(lead: ToldFinding, verdict: Verdict) -> str:
    """Return what happened and when, with the first of its effects if that is short enough."""
    lasting = translatable("{level}: {what}, starting at step {step}")
    if lead.onset and lead.onset.high - lead.onset.low > EXACT:
        lasting = translatable("{level}: {what}, since about step {step}")
    text = _dated(lead, lead.clause, verdict, lasting)
    for effect in _effects_to_tell(lead, verdict):
        both = message("{cause}; {effect}", cause=text, effect=effect.clause)
        if _is_short(both):
            text = both
            break
    return message("{text}.", text=text)


def _effects_to_tell(lead: ToldFinding, verdict: Verdict) -> list[ToldFinding]:
    """Return the effects of a finding, collapses first, then dips of a reward."""
    is_collapse = lead.id in COLLAPSES
    effects = []
    for effect in verdict.effects_of(lead):
        is_stated = is_collapse and effect.id in COLLAPSES
        if effect.severity is not Severity.INFO and not is_stated:
            effects.append(effect)
    effects.sort(key=_order_of_effect)
    if lead.onset and not is_collapse:  # a fall that recovered is a note
        for finding in verdict.findings:
            is_dip = finding.facts.get("kind") == "dip"
            if is_dip and (finding.until or 0) >= lead.onset.step:
                effects.append(finding)
    return effects


def _order_of_effect(effect: ToldFinding) -> int:
    """Return 0 for losses of a score, which come first; causes that a death brought come last."""
    if effect.id in COLLAPSES:
        return 0
    if effect.id in OF_REWARD:
        return 1
    return 3 if BY_ID[effect.id].rank is Rank.CAUSE else 2


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
