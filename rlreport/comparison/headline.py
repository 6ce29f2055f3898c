"""The result of a comparison in a sentence: which side is better, and by how much."""

from __future__ import annotations

import math
from typing import NamedTuple

from rlreport.comparison.labels import changed_settings, values_of
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.remarks import reasons
from rlreport.comparison.words import lead_of, window, with_sign
from rlreport.text.clean import one_line
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    message,
    plural,
    sentences,
    short_figure,
    translatable,
    whole,
)
from rlreport.text.numbers import fixed

_SAYS = {
    "better": translatable("{new} is better than {base} by {difference}"),
    "worse": translatable("{new} is worse than {base} by {difference}"),
}
# Of runs of which one is broken: a higher reward is no merit there
_EARNS = {
    "better": translatable("{new} earns {difference} more than {base}"),
    "worse": translatable("{new} earns {difference} less than {base}"),
}
# The same of NEW that is broken, after a sentence that says so
_IT_EARNS = {
    "better": translatable("It earns {difference} more than {base}"),
    "worse": translatable("It earns {difference} less than {base}"),
}
_EQUAL = translatable("{new} and {base} earn the same")
_NO_EVIDENCE = translatable("No evidence either way between {new} and {base}")
_INCOMPARABLE = translatable("{new} and {base} cannot be compared")

_REWARDS = {
    "val": translatable("validation reward"),
    "train": translatable("reward"),
    "all": translatable("reward"),
}

# Numbers from 10⁶ on, and below 0.0001, are not written with fixed decimals
_LEAST = 1e-4
_MOST = 1e6
_LONGEST_KEY = 80  # Characters of a setting's name
_MOST_SETTINGS = 3  # that are listed with their values


class _Numbers(NamedTuple):
    """Numbers of the sentence as texts, with as many digits as the difference needs."""

    difference: str  # without a sign
    change: str  # with its sign
    low: str
    high: str
    base: str
    new: str


def headline(outcome: Outcome) -> str:
    """Return the result in a few words, for example for the subject of a mail.

    Broken runs come first: their rewards say little.
    """
    if _all_broken(outcome):
        return _both_broken(outcome)
    if outcome.broken:
        literal = translatable("{run} is broken: {reason}")
        return clauses(_broken(outcome, literal))
    return _result(outcome)


def _all_broken(outcome: Outcome) -> bool:
    return len(outcome.broken) == len(outcome.runs)


def _both_broken(outcome: Outcome) -> str:
    if outcome.is_pair:
        return message("Both runs are broken")
    return message("All runs are broken")


def sentence(outcome: Outcome) -> str:
    """Return the result as sentences: broken runs, then the difference with its interval."""
    comparison = outcome.comparison
    parts = []
    if _all_broken(outcome):
        literal = translatable(
            "{all}, so the difference between them means little ({runs})."
        )
        reasons_of_runs = clauses(_broken(outcome, translatable("{run}: {reason}")))
        parts.append(message(literal, all=_both_broken(outcome), runs=reasons_of_runs))
    elif outcome.broken:
        parts.append(_sentence(headline(outcome)))
    if comparison.level == "incomparable":
        why = reasons(outcome)[-1]  # the last reason says why there is no interval
        return sentences([*parts, _sentence(_result(outcome)), why])
    numbers = _numbers(outcome)
    if _is_equal(outcome):
        literal = translatable("{result} (reward {new}; {extent}; {scope})")
    elif comparison.level == "no_evidence":
        literal = translatable(
            "{result}: {reward} {new} against {base} (difference {change}; 95% interval {low} to "
            "{high}; {extent}; {scope})"
        )
    else:
        literal = translatable(
            "{result} ({reward} {new} against {base}; 95% interval {low} to {high}; {extent}; "
            "{scope})"
        )
    extent = message(
        "{prompts}, {window}", prompts=_prompts(outcome), window=window(outcome)
    )
    result = message(
        literal,
        result=_result(outcome, names_new=not _only_new_is_broken(outcome)),
        reward=message(_REWARDS[comparison.split]),
        extent=extent,
        scope=_scope(outcome),
        **numbers._asdict(),
    )
    parts.append(_sentence(clauses([result, _settings_count(outcome)])))
    parts.append(_possible(outcome))
    return sentences(parts)


def _sentence(clause: str) -> str:
    return message("{clause}.", clause=clause)


def _only_new_is_broken(outcome: Outcome) -> bool:
    return [run for _, run in outcome.broken] == [*outcome.news]


def _is_equal(outcome: Outcome) -> bool:
    """Return whether no reward differs: the interval is 0 to 0."""
    effect = outcome.comparison.effect
    return effect.low == effect.high == 0


def _result(outcome: Outcome, *, names_new: bool = True) -> str:
    """Return which side is better and by how much, without what tells how sure that is.

    ``names_new``: whether NEW has its name, or the sentence before had it.
    """
    comparison = outcome.comparison
    labels = outcome.labels
    if comparison.level == "incomparable":
        literal = _INCOMPARABLE
    elif _is_equal(outcome):
        literal = _EQUAL
    elif comparison.level == "no_evidence":
        literal = _NO_EVIDENCE
    elif outcome.broken:
        literal = (_EARNS if names_new else _IT_EARNS)[comparison.level]
    else:
        literal = _SAYS[comparison.level]
    return message(
        literal,
        new=labels.new,
        base=labels.against,
        difference=_numbers(outcome).difference,
    )


def _numbers(outcome: Outcome) -> _Numbers:
    """Return the numbers: the difference with three digits, and means with as many as show it.

    Where one side is better, the interval is that of the amount by which it is; where none is,
    two digits are enough.
    """
    effect = outcome.comparison.effect
    base, new = outcome.comparison.reward_means
    low = effect.low
    high = effect.high
    if outcome.comparison.level == "worse":
        low, high = -high, -low
    sizes = [abs(effect.value), abs(low), abs(high)]
    largest = max(filter(math.isfinite, sizes), default=0.0)
    digits = 2 if outcome.comparison.level == "no_evidence" else 3
    decimals = None
    of_means = None
    if _LEAST <= largest < _MOST and max(abs(base), abs(new)) < _MOST:
        exponent = int(f"{largest:.2e}".split("e")[1])
        decimals = max(0, digits - 1 - exponent)
        of_means = decimals if exponent >= 0 else max(2, decimals - 1)
    return _Numbers(
        difference=_number(abs(effect.value), decimals),
        change=with_sign(_number(effect.value, decimals), effect.value),
        low=_number(low, decimals),
        high=_number(high, decimals),
        base=_number(base, of_means),
        new=_number(new, of_means),
    )


def _number(value: float, decimals: int | None) -> str:
    if decimals is None or not math.isfinite(value) or value == 0:
        return figure(value)
    return fixed(value, decimals)


def _prompts(outcome: Outcome) -> str:
    """Return a clause on how many prompts were compared, and whether in pairs."""
    comparison = outcome.comparison
    count = whole(comparison.effect.pairs)
    if comparison.metrics_alone:
        return message("at least {pairs} blocks of steps per side", pairs=count)
    if comparison.effect.paired:
        return message("{pairs} prompts in pairs", pairs=count)
    return message("unpaired, at least {pairs} prompts per side", pairs=count)


def _scope(outcome: Outcome) -> str:
    """Return of what the result is evidence: of the change, or of these runs only."""
    if outcome.comparison.has_enough_runs:
        return message(
            "{new:count} runs against {base:count}",
            new=len(outcome.news),
            base=len(outcome.bases),
        )
    if outcome.is_pair:
        return message("within these two runs")
    return message("within these {count:count} runs", count=len(outcome.runs))


def _settings_count(outcome: Outcome) -> str:
    """Return how many settings differ, "" if none does or its name is in the labels."""
    count = len(changed_settings(outcome.bases, outcome.news))
    if not count or outcome.labels.setting:
        return ""
    return plural("{count} setting differs", "{count} settings differ", count)


def _possible(outcome: Outcome) -> str:
    """Return how large an effect may be that was not shown, else ""."""
    effect = outcome.comparison.effect
    most = max(abs(effect.low), abs(effect.high))
    if outcome.comparison.level != "no_evidence" or most == 0:
        return ""
    if effect.mde > 0:  # NaN if there are too few prompts
        return message(
            "The effect could be up to ±{most}; one of {mde} would be found in 80% of such "
            "comparisons.",
            most=short_figure(most),
            mde=short_figure(effect.mde),
        )
    return message("The effect could be up to ±{most}.", most=short_figure(most))


def _broken(outcome: Outcome, literal: str) -> list[str]:
    """Return a clause on each broken run: which ``{run}`` it is, and the ``{reason}``."""
    found = []
    for runs, label in (
        (outcome.bases, outcome.labels.base),
        (outcome.news, outcome.labels.new),
    ):
        for run in runs:
            if run.broken:
                name = label if len(runs) == 1 else run.name
                found.append(message(literal, run=name, reason=lead_of(run)))
    return found


def changed(outcome: Outcome) -> str:
    """Return a sentence on the settings that differ, "" if there are none or one in the labels."""
    settings = changed_settings(outcome.bases, outcome.news)
    if not settings or outcome.labels.setting:
        return ""
    items = []
    for setting in settings[:_MOST_SETTINGS]:
        base, new = values_of(setting, redact=outcome.redact)
        item = message(
            "{setting} {base} → {new}",
            setting=one_line(setting.key.removeprefix("config."), _LONGEST_KEY),
            base=base,
            new=new,
        )
        items.append(item)
    rest = len(settings) - len(items)
    if rest:
        items.append(message("{count:count} more", count=rest))
    return message("Settings that differ: {settings}.", settings=listed(items))
