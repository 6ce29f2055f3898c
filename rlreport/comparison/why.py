"""What a difference of rewards goes with, in one sentence: its largest part."""

from __future__ import annotations

import math

from rlreport.comparison.decomposition import (
    ANY_MARK,
    ENVIRONMENT,
    FORMAT,
    Property,
    RewardPart,
)
from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.words import short_signed
from rlreport.text.messages import (
    clauses,
    figure,
    message,
    percent,
    quoted,
    short_figure,
    translatable,
)

# How marks are written that do not stand for themselves
_MARKS = {"answer": translatable("“Answer:”"), "json": translatable("JSON at the end")}

# Responses earn about the same if their difference is surely below this part of the effect
ALIKE = 0.5

# The whole difference goes with something if this part of it or more does
WHOLE = 0.95
# A property is lost, or new, if its share changes by this or more
LOST = 0.5

# Property -> (what the difference goes with, how many responses have it, how the others compare)
_HAVE = {
    "cut_off": (
        translatable("cut-off responses"),
        translatable(
            "{new} of the responses of {new_name} are cut off, {base} of {base_name}"
        ),
        translatable("those that are not cut off"),
    ),
    "unclosed_thinking": (
        translatable("thinking that does not end"),
        translatable(
            "{new_name} does not close its thinking in {new} of its responses, {base_name} in "
            "{base}"
        ),
        translatable("those that close it"),
    ),
    "tool_failed": (
        translatable("failed tool calls"),
        translatable(
            "a tool call fails in {new} of the responses of {new_name}, in {base} of {base_name}"
        ),
        translatable("those without"),
    ),
    "unparsed_call": (
        translatable("tool calls that cannot be parsed"),
        translatable(
            "{new} of the responses of {new_name} have a tool call that cannot be parsed, {base} "
            "of {base_name}"
        ),
        translatable("those without"),
    ),
    "other_script": (
        translatable("responses in another script"),
        translatable(
            "{new} of the responses of {new_name} are in another script than the prompt, {base} "
            "of {base_name}"
        ),
        translatable("the others"),
    ),
}
_FORMAT = translatable("the answer's format")
_OF_ENVIRONMENT = translatable(
    "{new} of the responses of {new_name} are of {mark}, {base} of those of {base_name}"
)
# Whether any mark counts, not a certain one -> how many responses have it, and how many do not
_MARKS_IN = {
    False: (
        translatable(
            "{new_name} has {mark} in {new} of its responses, {base_name} in {base}"
        ),
        translatable(
            "{new_name} leaves out {mark} in {new} of its responses, {base_name} in {base}"
        ),
    ),
    True: (
        translatable(
            "{new_name} marks its answer in {new} of its responses, {base_name} in {base}"
        ),
        translatable(
            "{new_name} does not mark its answer in {new} of its responses, {base_name} in {base}"
        ),
    ),
}


def why(outcome: Outcome) -> str:
    """Return a sentence on the largest part of the difference that goes with something, or "".

    It says with what the difference goes, never that this is its cause.
    """
    found = outcome.decomposition
    effect = outcome.comparison.effect.value
    if found.main and _divides_a_side(found.main):
        said = _on_property(found.main, effect, outcome.labels)
        return _goes_with(effect, found.main.part, *said)
    if found.main_part:
        said = _on_part(found.main_part, outcome.labels)
        return _goes_with(effect, found.main_part.part, *said)
    unknown = [one for one in found.listed if _is_lost(one)]
    if unknown and outcome.comparison.effect.is_shown:
        return message(
            "{shares}. Hardly any prompt has responses of both kinds in one run, so that it is "
            "unknown how much of the difference goes with this.",
            shares=_shares(unknown[0], outcome.labels),
        )
    return ""


def _is_lost(found: Property) -> bool:
    """Return whether most responses got or lost a property, whose part cannot be told."""
    change = abs(found.new_share - found.base_share)
    return change >= LOST and not found.contrast.is_shown


def _divides_a_side(found: Property) -> bool:
    """Return whether responses with the property, or those without, are on both sides.

    If all of one side have it and none of the other, their rewards cannot be told apart by it.
    """
    having = math.isfinite(found.base_with) and math.isfinite(found.new_with)
    lacking = math.isfinite(found.base_without) and math.isfinite(found.new_without)
    return having or lacking


def _goes_with(effect: float, part: float, what: str, detail: str) -> str:
    # Both have the same sign: the headline says which side earns more.
    if part / effect >= WHOLE:
        return message(
            "The difference goes with {what}: {detail}.", what=what, detail=detail
        )
    return message(
        "{part} of the {effect} goes with {what}: {detail}.",
        part=short_figure(abs(part)),
        effect=short_figure(abs(effect)),
        what=what,
        detail=detail,
    )


def _on_part(part: RewardPart, labels: Labels) -> tuple[str, str]:
    """Return the name of a part of the reward, and its means."""
    what = message("the reward's part {name}", name=quoted(part.name))
    detail = message(
        "{new_name} {new}, {base_name} {base}",
        new=short_figure(part.new),
        base=short_figure(part.base),
        new_name=labels.new,
        base_name=labels.base,
    )
    return what, detail


def _on_property(found: Property, effect: float, labels: Labels) -> tuple[str, str]:
    """Return the name of a property, and how many responses have it and what the others earn."""
    if found.id == FORMAT:
        return message(_FORMAT), _on_format(found, effect, labels)
    if found.id == ENVIRONMENT:
        return message("the mix of environments"), _shares(found, labels)
    what, _, others = _HAVE[found.id]
    shares = _shares(found, labels)
    rewards = _rewards_of(message(others), found.new_without, found.base_without)
    return message(what), clauses([shares, rewards])


def _shares(found: Property, labels: Labels, *, lacking: bool = False) -> str:
    """Return how many responses of each side have a property.

    ``lacking``: count those that do not have it, of which only a format has words.
    """
    new = found.new_share
    base = found.base_share
    if found.id == FORMAT:
        having_words, lacking_words = _MARKS_IN[found.mark == ANY_MARK]
        literal = lacking_words if lacking else having_words
    elif found.id == ENVIRONMENT:
        literal = _OF_ENVIRONMENT
    else:
        literal = _HAVE[found.id][1]
    return message(
        literal,
        new=percent(1 - new if lacking else new),
        base=percent(1 - base if lacking else base),
        new_name=labels.new,
        base_name=labels.base,
        mark=_mark(found),
    )


def _on_format(found: Property, effect: float, labels: Labels) -> str:
    """Return how many responses mark their answer in a way, and what those earn that do well."""
    change = found.new_share - found.base_share
    # Whether responses with the mark earn more than those without
    is_good = found.part * change > 0
    shares = _shares(found, labels, lacking=is_good and change < 0)
    if is_good:
        return clauses([shares, _among_marked(found, effect)])
    without = message("those without it")
    rewards = _rewards_of(without, found.new_without, found.base_without)
    return clauses([shares, rewards])


def _mark(found: Property) -> str:
    if found.mark in _MARKS:
        return message(_MARKS[found.mark])
    return quoted(found.mark)


def _among_marked(found: Property, effect: float) -> str:
    """Return how responses with a marked answer differ between the sides."""
    within = found.within
    if not math.isfinite(within.low):
        return _rewards_of(message("those with it"), found.new_with, found.base_with)
    literal = translatable(
        "with it, the difference is {effect} (95% interval {low} to {high})"
    )
    most = max(abs(within.low), abs(within.high))
    if within.low <= 0 <= within.high and most <= ALIKE * abs(effect):
        literal = translatable(
            "with it, both earn about the same ({effect}; 95% interval {low} to {high})"
        )
    return message(
        literal,
        effect=short_signed(within.value),
        low=short_figure(within.low),
        high=short_figure(within.high),
    )


def _rewards_of(responses: str, new: float, base: float) -> str:
    """Return the mean rewards of some responses of both sides, "" if a side has none."""
    if not (math.isfinite(new) and math.isfinite(base)):
        return ""
    return message(
        "{responses} earn {new} against {base}",
        responses=responses,
        new=figure(new),
        base=figure(base),
    )
