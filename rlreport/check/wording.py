"""The words of a verdict, made from its facts: titles, reasons, the sentence, the subject.

After redaction, and here alone. The verdict's sentence says what, since when and in which
share; what that led to; what reward, KL and length did; and which checkpoint to keep.
"""

from __future__ import annotations

from dataclasses import replace

from rlreport.check.finding import Finding, Moved, Verdict
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.words import figure, listed, marked, message, span, whole

MOST_EFFECTS = 2
"""Consequences that the sentence names."""

NAMES = {check.id: check.name for check in CHECKS}


def worded(verdict: Verdict) -> Verdict:
    """Return the verdict with the words of its findings, and its sentence."""
    findings = [_finding(finding) for finding in verdict.findings]
    muted = [replace(muted, finding=_finding(muted.finding)) for muted in verdict.muted]
    told = replace(verdict, findings=findings, muted=muted)
    return replace(told, sentence=_sentence(told))


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words, as a subject holds it."""
    lead = _lead(verdict)
    if lead is None:
        if verdict.level == "unjudged":
            return message("Not judged: the run is too short")
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


def _finding(finding: Finding) -> Finding:
    check = BY_ID.get(finding.id)
    if check is None:
        return finding
    return replace(
        finding,
        name=message(check.name),
        title=check.title(finding.facts),
        effect=(check.effect or check.title)(finding.facts),
        why=message(check.why),
        suggestion=message(check.suggestion),
        source=check.source,
    )


def _sentence(verdict: Verdict) -> str:
    """Return the whole sentence of the verdict, sentences of one thought each."""
    lead = _lead(verdict)
    said = [message("{headline}.", headline=headline(verdict))]
    if lead is None:
        if verdict.level == "unjudged":
            steps = whole(verdict.step_count)
            said.append(message("Steps: {steps}, too few to tell a trend.", steps=steps))
        else:
            said.append(message("Nothing wrong was found."))
    else:
        said.append(lead.title)
        effects = [f.effect for f in verdict.folded(lead) if f.severity != "info"]
        said += effects[:MOST_EFFECTS]
        apart = [
            f.name
            for f in verdict.findings
            if f.severity != "info" and not f.explained_by and f.id != lead.id
        ]
        if apart:
            said.append(message("Besides: {names}.", names=listed(apart)))
    said += _figures(verdict)
    if verdict.keep_step is not None and lead is not None:
        said.append(message("Keep the checkpoint of step {step}.", step=verdict.keep_step))
    elif verdict.keep_step is not None and verdict.level == "healthy":
        said.append(message("The best checkpoint is that of step {step}.", step=verdict.keep_step))
    return " ".join(said)


def _figures(verdict: Verdict) -> list[str]:
    """Return one sentence with reward, KL and length of both windows."""
    if not verdict.moved:
        return []
    figures = listed([_moved(moved) for moved in verdict.moved])
    figures = figures[0].upper() + figures[1:]
    if verdict.windows is None:
        return [message("{figures}.", figures=figures)]
    first, last = verdict.windows
    return [
        message(
            "{figures} (means of {first} and of {last}).",
            figures=figures,
            first=span(first),
            last=span(last),
        )
    ]


def _moved(moved: Moved) -> str:
    places = {"first": figure(moved.first), "last": figure(moved.last)}
    if moved.first is None:
        return message(
            {
                "reward": marked("reward {last}"),
                "kl": marked("KL {last} nats"),
                "tokens": marked("length {last} tokens"),
                "characters": marked("length {last} characters"),
            }[moved.figure],
            **places,
        )
    return message(
        {
            "reward": marked("reward {first} → {last}"),
            "kl": marked("KL {first} → {last} nats"),
            "tokens": marked("length {first} → {last} tokens"),
            "characters": marked("length {first} → {last} characters"),
        }[moved.figure],
        **places,
    )
