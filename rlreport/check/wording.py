"""The words of a verdict, made from its facts: titles, reasons, the sentence, the subject.

After redaction, and here alone. The verdict's sentence says what, since when and in which
share; what that did to reward, KL and length; and which checkpoint to keep. The windows that
its figures speak of are said where the figures are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlreport.check.finding import Finding, Moved, Verdict
from rlreport.check.registry import BY_ID
from rlreport.text.messages import message, phrases, sentences, told, whole

MOST_EFFECTS = 2
"""Consequences that the sentence names."""

TELL_THE_REWARD = {
    *("nan_metrics", "broken_log", "reward_shift", "reward_hacking_token", "length_hacking"),
    *("reward_collapse", "watched_reward_fall"),
}
"""Findings whose own words say what became of the reward, or why it says nothing."""


SETTINGS = {
    "KL coefficient": ("kl_coef", "kl_coefficient", "init_kl_coef", "kl_loss_coef", "beta"),
    "learning rate": ("learning_rate", "lr"),
}
"""What a suggestion speaks of, and the names under which a run's configuration holds it."""

MOST_SETTINGS = 3


def worded(
    verdict: Verdict, card: Mapping[str, object] | None = None, sample_note: str = ""
) -> Verdict:
    """Return the verdict with the words of its findings, and its sentence.

    Args:
        verdict: what was found.
        card: the run's configuration, dotted name -> value; what a suggestion would change is
            named with it.
        sample_note: from which responses figures of texts come, "" if from all.
    """

    def said(finding: Finding) -> Finding:
        return _finding(finding, card or {}, sample_note)

    findings = [said(finding) for finding in verdict.findings]
    muted = [replace(muted, finding=said(muted.finding)) for muted in verdict.muted]
    filled = replace(verdict, findings=findings, muted=muted)
    return replace(filled, sentence=_sentence(filled))


def retold(finding: Mapping[str, Any], title: str) -> str:
    """Return the title of a finding of a report, which its data hold in English.

    Where this version makes the same title of the same facts, it is a message, and can be said
    in another language; else it stays as the report has it.

    Args:
        finding: as ``report.json`` holds it.
        title: its title, cleaned.
    """
    check, facts = BY_ID.get(str(finding.get("id"))), finding.get("facts")
    if check is None or not isinstance(facts, dict):
        return title
    known = {key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    try:
        said = check.said(known)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return title
    return said if said == title else title


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words, as a subject holds it."""
    lead = _lead(verdict)
    if lead is None:
        if verdict.level == "unjudged":
            return message("Not judged: the run is too short")
        if verdict.level == "unclear":
            return message("Unclear: no clear learning")
        return message("Healthy")
    places = {"name": lead.name, "step": lead.onset.step if lead.onset else ""}
    if verdict.level == "critical":
        if lead.onset:
            return message("Broken: {name} since step {step}", **places)
        return message("Broken: {name}", **places)
    if lead.onset:
        return message("Warning: {name} since step {step}", **places)
    return message("Warning: {name}", **places)


def _lead(verdict: Verdict) -> Finding | None:
    return next((f for f in verdict.findings if f.id == verdict.lead), None)


def _finding(finding: Finding, card: Mapping[str, object], sample_note: str) -> Finding:
    check = BY_ID.get(finding.id)
    if check is None:
        return finding
    sampled = sample_note and not finding.facts.keys().isdisjoint(check.sampled)
    return replace(
        finding,
        name=message(check.name),
        title=check.said(finding.facts),
        clause=check.led_to(finding.facts),
        why=message(check.why),
        sample=message("Counted {sample}.", sample=sample_note) if sampled else "",
        suggestion=_suggested(check.suggestion, card),
        source=message(check.source),
    )


def _suggested(literal: str, card: Mapping[str, object]) -> str:
    """Return a suggestion, with the values that the run had of what it would change."""
    names = {name for what, own in SETTINGS.items() if what in literal for name in own}
    asked = {n: v for n, v in card.items() if n.rpartition(".")[2].lower() in names}
    had = tuple(f"{name} = {value}" for name, value in asked.items() if _is_number(value))
    said = message("This run had {settings}.", settings=had[:MOST_SETTINGS]) if had else ""
    return sentences([message(literal), said])


def _is_number(value: object) -> bool:
    """Say whether a setting is a number; YAML takes 1e-6 for a text."""
    try:
        return not isinstance(value, bool) and math.isfinite(float(str(value)))
    except ValueError:
        return False


def _sentence(verdict: Verdict) -> str:
    """Return the verdict as a person would say it: what, what that did, what to keep."""
    lead = _lead(verdict)
    said = [message("{headline}.", headline=headline(verdict))]
    if verdict.level == "unjudged":
        steps = whole(verdict.step_count)
        said.append(message("Steps: {steps}, too few to tell a trend.", steps=steps))
    if lead is None:
        told_of = [moved for moved in verdict.moved if moved.figure in ("reward", "kl")]
        said.append(_both([_moved(moved) for moved in told_of]))
        kept = message(
            "The best checkpoint is the last one saved at or before step {step}.",
            step=verdict.keep_step,
        )
    else:
        effects = [f for f in verdict.folded(lead) if f.severity != "info"][:MOST_EFFECTS]
        clauses = [f.clause for f in effects]
        if not any(f.id in TELL_THE_REWARD for f in (lead, *effects)):
            clauses += [_moved(moved) for moved in verdict.moved if moved.figure == "reward"]
        said.append(_with_effects(lead.title, clauses))
        apart = [
            f.name
            for f in verdict.findings
            if f.severity != "info" and not f.explained_by and f.id != lead.id
        ]
        if apart:
            said.append(message("Besides: {names}.", names=tuple(apart)))
        kept = message(
            "Keep the last checkpoint saved at or before step {step}.", step=verdict.keep_step
        )
    if verdict.keep_step is not None and verdict.level != "unjudged":
        said.append(kept)
    return sentences(said)


def _both(clauses: list[str]) -> str:
    """Return one or two clauses as a sentence, "" without any."""
    if len(clauses) == 2:
        return message("{one:capital} and {other}.", one=clauses[0], other=clauses[1])
    return message("{one:capital}.", one=clauses[0]) if clauses else ""


def _with_effects(title: str, effects: list[str]) -> str:
    """Return a finding's title and what that led to as a sentence."""
    if not effects:
        return message("{title:clause}.", title=title)
    *rest, last = effects
    led_to = message("{rest} and {last}", rest=phrases(rest), last=last) if rest else last
    return message("{title:clause}; {effects}.", title=title, effects=led_to)


def _moved(moved: Moved) -> str:
    """Return as a clause what reward or KL did."""
    facts = {"first": moved.first, "last": moved.last}
    if moved.figure == "kl":
        return told("the policy is {last:figure} nats a response from the reference", facts)
    if moved.first is None:
        return told("the mean reward is {last:figure}", facts)
    if moved.rose is False and moved.last >= moved.first:
        return told(
            "the reward did not clearly rise: {first:figure} at first, {last:figure} at the end",
            facts,
        )
    if moved.rose:
        return told("the reward rose from {first:figure} to {last:figure}", facts)
    return told("the reward went from {first:figure} to {last:figure}", facts)
