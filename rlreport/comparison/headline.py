"""The result of a comparison in a sentence: which side is better, and by how much."""

from __future__ import annotations

import math
from typing import NamedTuple

from rlreport.comparison.labels import changed_settings, values_of
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.remarks import reasons
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.scale_words import against
from rlreport.comparison.words import lead_of, window, with_sign
from rlreport.text.clean import one_line
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    message,
    phrases,
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
_BROKEN = translatable("{run} is broken: {reason}")
_EQUAL = translatable("{new} and {base} earn the same")
_NO_EVIDENCE = translatable("No evidence either way between {new} and {base}")
_INCOMPARABLE = translatable("{new} and {base} cannot be compared")
_OTHER_SCALE = translatable("{new} and {base} cannot be compared by reward")

_REWARDS = {
    "val": translatable("validation reward"),
    "train": translatable("reward"),
    "all": translatable("reward"),
}

_RESPONSES = {
    "val": translatable("validation responses"),
    "train": translatable("training responses"),
    "all": translatable("all responses"),
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
        return clauses(_broken(outcome, _BROKEN, told=_BROKEN))
    return _result(outcome)


def _all_broken(outcome: Outcome) -> bool:
    return len(outcome.broken) == len(outcome.runs)


def _both_broken(outcome: Outcome) -> str:
    if outcome.is_pair:
        return message("Both runs are broken")
    return message("All runs are broken")


def sentence(outcome: Outcome) -> str:
    """Return the result with its evidence, as one text."""
    return sentences([result(outcome), evidence(outcome)])


def result(outcome: Outcome) -> str:
    """Return broken runs, then which side is better, by how much, and both rewards."""
    parts = [_broken_runs(outcome)]
    short = _result(outcome, names_new=not _only_new_is_broken(outcome))
    if outcome.comparison.level == "incomparable":
        return sentences([*parts, _sentence(short)])
    numbers = _numbers(outcome)
    literal = translatable("{result} ({reward} {new} against {base}).")
    if _is_equal(outcome):
        literal = translatable("{result} ({reward} {new}).")
    with_rewards = message(
        literal,
        result=short,
        reward=message(_REWARDS[outcome.comparison.split]),
        new=numbers.new,
        base=numbers.base,
    )
    return sentences([*parts, with_rewards])


def evidence(outcome: Outcome) -> str:
    """Return how sure the result is, and of what it is evidence."""
    comparison = outcome.comparison
    if comparison.level == "incomparable":
        return reasons(outcome)[-1]  # the last reason says why there is no interval
    clause = clauses(
        [
            _interval(outcome),
            _compared(outcome),
            _scope(outcome),
            _settings_count(outcome),
        ]
    )
    return sentences(
        [
            message("{clause:capital}.", clause=clause),
            trainer_levels(outcome),
            _detectable(outcome),
        ]
    )


def trainer_levels(outcome: Outcome) -> str:
    """Return the trainer's mean rewards if they are others than of the logged responses, or ""."""
    comparison = outcome.comparison
    levels = comparison.trainer_levels
    if levels is None:
        return ""
    if comparison.logged_share is None:
        clause = message(
            "The trainer's own mean rewards are {means}, as the logged responses may be a sample",
            means=against(levels),
        )
    else:
        some, whole_batch = comparison.logged_share
        clause = message(
            "Only {some:count} of {all:count} responses per step are logged: the trainer's mean "
            "rewards over all are {means}",
            some=some,
            all=whole_batch,
            means=against(levels),
        )
    if not comparison.trainer_disagrees:
        return _sentence(clause)
    return message(
        "{clause}; the two disagree, so neither side is called better.", clause=clause
    )


def _interval(outcome: Outcome) -> str:
    """Return the interval, "" if all rewards are equal."""
    if _is_equal(outcome):
        return ""
    literal = translatable("95% interval {low} to {high}")
    if outcome.comparison.level == "no_evidence":
        literal = translatable("difference {change}, 95% interval {low} to {high}")
    numbers = _numbers(outcome)
    return message(literal, change=numbers.change, low=numbers.low, high=numbers.high)


def _compared(outcome: Outcome) -> str:
    """Return what was compared: how many prompts, of which responses, at which steps."""
    parts = [_prompts(outcome), window(outcome)]
    if not outcome.comparison.metrics_alone:
        parts.insert(1, message(_RESPONSES[outcome.comparison.split]))
    return phrases(parts)


def run_lines(outcome: Outcome) -> list[str]:
    """Return a line on each broken or warned run: what its own report says of it."""
    lines = []
    for run, name in _named(outcome):
        what = _own_words(run, outcome)
        if what:
            lines.append(message("{run} · {verdict}", run=name, verdict=what))
    return lines


def _own_words(run: ComparedRun, outcome: Outcome) -> str:
    """Return what a broken or warned run's report says of it, "" if that is hidden or unknown."""
    is_ill = run.level in ("critical", "warning")
    return run.what if is_ill and not outcome.redact else ""


def _named(outcome: Outcome) -> list[tuple[ComparedRun, str]]:
    """Return each run with what sentences call it: its side's label, or one of several's name."""
    named = []
    for runs, label in (
        (outcome.bases, outcome.labels.base),
        (outcome.news, outcome.labels.new),
    ):
        named += [(run, label if len(runs) == 1 else run.name) for run in runs]
    return named


def _broken_runs(outcome: Outcome) -> str:
    """Return a sentence on broken runs, "" without any; ``run_lines`` tells more of them."""
    if not _all_broken(outcome):
        broken = _broken(outcome, _BROKEN, told=translatable("{run} is broken"))
        return _sentence(clauses(broken)) if broken else ""
    others = clauses(_broken(outcome, translatable("{run}: {reason}")))
    literal = translatable("{all}, so the difference between them means little.")
    if others:
        literal = translatable(
            "{all}, so the difference between them means little ({runs})."
        )
    return message(literal, all=_both_broken(outcome), runs=others)


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
        literal = _INCOMPARABLE if comparison.reference is None else _OTHER_SCALE
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


def _detectable(outcome: Outcome) -> str:
    """Return how large an effect would have been found, where none was, else ""."""
    effect = outcome.comparison.effect
    # NaN if there are too few prompts, 0 if all rewards are equal
    if outcome.comparison.level != "no_evidence" or not effect.mde > 0:
        return ""
    return message(
        "An effect of {mde} or more would probably have been found (80% power).",
        mde=short_figure(effect.mde),
    )


def _broken(outcome: Outcome, literal: str, told: str = "") -> list[str]:
    """Return a clause on each broken run: which ``{run}`` it is, and the ``{reason}``.

    ``told``: the clause on those of which ``run_lines`` tells more, "" if they need none.
    """
    found = []
    for run, name in _named(outcome):
        chosen = told if _own_words(run, outcome) else literal
        if run.broken and chosen:
            found.append(message(chosen, run=name, reason=lead_of(run)))
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
