"""Write the texts of a verdict: excerpts of responses, titles, the sentence and the headline.

All texts but the excerpts are templates filled with values of the finding (``facts``), after
redaction. The sentence says what happened, when, its effects, and which checkpoint to keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import FIRST_WORDS, Example, Finding, Moved, Verdict
from rlreport.check.registry import BY_ID
from rlreport.rollout import Rollout
from rlreport.text.messages import message, phrases, plural, sentences, told

# Headline of a verdict without warnings, by its level ("healthy", ...)
HEADLINES: dict[str, str] = {
    "unjudged": message("Not judged: the run is too short"),
    "unclear": message("Unclear: no clear learning"),
    "healthy": FIRST_WORDS["healthy"],
}

MAX_EFFECTS = 2  # Maximum number of effects of the main finding that the verdict's sentence names
# Ids of checks whose titles already say what happened to the reward, so nothing is added
TELL_THE_REWARD = {
    *("nan_metrics", "broken_log", "reward_shift", "reward_hacking_token", "length_hacking"),
    *("reward_collapse", "watched_reward_fall"),
}


# Phrase in a suggestion that means a setting -> names of that setting in configurations
SETTINGS = {
    "KL coefficient": ("kl_coef", "kl_coefficient", "init_kl_coef", "kl_loss_coef", "beta"),
    "learning rate": ("learning_rate", "lr"),
}

MAX_SETTINGS = 3

EXCERPT = 60  # Maximum number of characters in an excerpt


def with_excerpts(
    verdict: Verdict, responses: pd.DataFrame, fetch: Callable[[Sequence[int]], Iterable[Rollout]]
) -> Verdict:
    """Return the verdict with an excerpt in each example response of its findings.

    ``fetch`` returns the rollouts of the given rows of the response table, in the same order.
    """
    findings = [*verdict.findings, *(muted.finding for muted in verdict.muted)]
    named = {(example.step, example.n) for finding in findings for example in finding.shown}
    steps = responses["step"].to_numpy()
    rows = {(step, n): int(np.searchsorted(steps, step)) + n for step, n in sorted(named)}
    order = sorted(set(rows.values()))
    texts = dict(zip(order, fetch(order), strict=True)) if order else {}

    def with_excerpt(example: Example) -> Example:
        rollout = texts[rows[example.step, example.n]]
        before = example.before and with_excerpt(example.before)
        return replace(example, excerpt=_excerpt(rollout, example), before=before)

    return verdict.map(
        lambda finding: replace(finding, evidence=tuple(map(with_excerpt, finding.evidence)))
    )


def _excerpt(rollout: Rollout, example: Example) -> str:
    """Return at most EXCERPT characters of a response, around the position of the example."""
    text = " ".join(rollout.response.split())
    if len(text) <= EXCERPT:
        return text
    center = len(text) if example.at_end else 0
    if example.token is not None and example.token < len(rollout.tokens):
        joined = "".join(rollout.tokens[: example.token])
        center = len(" ".join(joined.split()))
    if example.look_for:
        index = text.lower().find(example.look_for.lower())
        center = index if index >= 0 else center
    start = max(0, min(center - EXCERPT // 2, len(text) - EXCERPT))
    part = text[start : start + EXCERPT]
    return ("…" if start else "") + part + ("…" if start + len(part) < len(text) else "")


def worded(
    verdict: Verdict, card: Mapping[str, object] | None = None, sample_note: str = ""
) -> Verdict:
    """Return the verdict with its sentence and its findings' texts filled in.

    Suggestions quote settings from ``card``, the run's configuration (dotted name -> value).
    ``sample_note`` says in which responses phrases were counted, "" if in all.
    """
    worded_verdict = verdict.map(lambda finding: _fill_texts(finding, card or {}, sample_note))
    return replace(worded_verdict, sentence=_sentence(worded_verdict))


def translatable_title(finding: Mapping[str, Any], title: str) -> str:
    """Return the title of a finding read from ``report.json``, now as a translatable message.

    A title that this version would write differently is returned unchanged, as plain text.
    """
    check, facts = BY_ID.get(str(finding.get("id"))), finding.get("facts")
    if check is None or not isinstance(facts, dict):
        return title
    values = {key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    try:
        retitled = check.format_title(values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return title
    return retitled if retitled == title else title


def headline(verdict: Verdict) -> str:
    """Return the verdict in a few words ("Broken: reward collapse since step 40")."""
    lead = _leading_finding(verdict)
    if lead is None and verdict.level == "unjudged" and verdict.windows is not None:
        if not verdict.reward_count:
            return message("Not judged: no reward is logged")
        return plural(
            "Not judged: the reward has only {count} value",
            "Not judged: the reward has only {count} values",
            verdict.reward_count,
        )
    if lead is None:
        return HEADLINES[verdict.level]
    level = FIRST_WORDS[verdict.level]
    if lead.onset:
        step = lead.onset.step
        if lead.id == "reward_shift":
            return message("{level}: {name} at step {step}", level=level, name=lead.name, step=step)
        return message("{level}: {name} since step {step}", level=level, name=lead.name, step=step)
    return message("{level}: {name}", level=level, name=lead.name)


def _leading_finding(verdict: Verdict) -> Finding | None:
    return next((f for f in verdict.findings if f.id == verdict.lead), None)


def _fill_texts(finding: Finding, card: Mapping[str, object], sample_note: str) -> Finding:
    """Return a finding with its texts filled in; ``card`` and ``sample_note`` as for ``worded``."""
    check = BY_ID.get(finding.id)
    if check is None:
        return finding
    sampled = sample_note and not finding.facts.keys().isdisjoint(check.sampled)
    return replace(
        finding,
        name=message(check.name),
        title=check.format_title(finding.facts),
        clause=check.format_clause(finding.facts),
        why=message(check.why),
        sample=message("Counted {sample}.", sample=sample_note) if sampled else "",
        suggestion=_suggestion(check.suggestion, card),
        source=message(check.source),
    )


def _suggestion(literal: str, card: Mapping[str, object]) -> str:
    """Return a suggestion, plus this run's values of its settings ("This run had lr = 1e-6.")."""
    names = {name for phrase, keys in SETTINGS.items() if phrase in literal for name in keys}
    settings = {n: v for n, v in card.items() if n.rpartition(".")[2].lower() in names}
    values = tuple(f"{name} = {value}" for name, value in settings.items() if _is_number(value))
    current = message("This run had {settings}.", settings=values[:MAX_SETTINGS]) if values else ""
    return sentences([message(literal), current])


def _is_number(value: object) -> bool:
    """Return whether a setting is a number, or a string of one (YAML reads 1e-6 as a string)."""
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def _sentence(verdict: Verdict) -> str:
    """Return the verdict in sentences: main finding, its effects, which checkpoint to keep."""
    lead = _leading_finding(verdict)
    parts = [message("{headline}.", headline=headline(verdict))]
    if verdict.level == "unjudged" and verdict.windows is None:
        parts.append(
            plural(
                "Only {count} step, too few to judge a trend.",
                "Only {count} steps, too few to judge a trend.",
                verdict.step_count,
            )
        )
    if lead is None:
        figures = [moved for moved in verdict.moved if moved.figure in ("reward", "kl")]
        if figures:
            moves = _join_clauses([_change_clause(moved) for moved in figures])
            parts.append(message("{one:capital}.", one=moves))
        checkpoint = message(
            "The best checkpoint is the last one saved at or before step {step}.",
            step=verdict.keep_step,
        )
    else:
        effects = [f for f in verdict.effects_of(lead) if f.severity != "info"][:MAX_EFFECTS]
        clauses = [f.clause for f in effects]
        if not any(f.id in TELL_THE_REWARD for f in (lead, *effects)):
            clauses += [
                _change_clause(moved) for moved in verdict.moved if moved.figure == "reward"
            ]
        if clauses:
            parts.append(
                message(
                    "{title:clause}; {effects}.", title=lead.title, effects=_join_clauses(clauses)
                )
            )
        else:
            parts.append(lead.title)
        others = [
            f.name
            for f in verdict.findings
            if f.severity != "info" and not f.explained_by and f.id != lead.id
        ]
        if others:
            parts.append(message("Also found: {names}.", names=tuple(others)))
        checkpoint = message(
            "Keep the last checkpoint saved at or before step {step}.", step=verdict.keep_step
        )
    if verdict.keep_step is not None and verdict.level != "unjudged":
        parts.append(checkpoint)
    return sentences(parts)


def _join_clauses(clauses: list[str]) -> str:
    """Return clauses joined by commas and "and"."""
    *rest, last = clauses
    return message("{rest}, and {last}", rest=phrases(rest), last=last) if rest else last


def _change_clause(moved: Moved) -> str:
    """Return a clause that says how the reward changed, or how large the KL is."""
    facts = {"first": moved.first, "last": moved.last}
    if moved.figure == "kl":
        return told("KL to the reference is {last:figure} nats per response", facts)
    if moved.first is None:
        return told("the mean reward is {last:figure}", facts)
    if moved.rose is False:
        if moved.last < moved.first:
            return told("the reward ended lower: {first:figure} → {last:figure}", facts)
        return told(
            "the reward did not clearly rise: {first:figure} at first, {last:figure} at the end",
            facts,
        )
    if moved.rose:
        return told("the reward rose from {first:figure} to {last:figure}", facts)
    return told("the reward went from {first:figure} to {last:figure}", facts)
