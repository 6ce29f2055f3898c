"""Whether the rewards of two runs are on one scale, in words."""

from __future__ import annotations

import re

from rlreport.comparison.labels import changed_settings, values_of
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.scale import Levels
from rlreport.text.clean import one_line
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    message,
    sentences,
    translatable,
)
from rlreport.text.numbers import fixed

# Means from the first to the second are written with two decimals
_LEAST = 0.01
_MOST = 1e6
_MOST_LISTED = 5  # parts, or settings
_LONGEST_NAME = 60  # Characters of the name of a part, or of a setting
# Matches names of settings of how rewards are computed
_OF_REWARD = re.compile(r"(?=.*reward).*(?:weight|coef|scal|func|fn)", re.IGNORECASE)


def reward_scale(outcome: Outcome) -> str:
    """Return that the rewards are on two scales and how that shows, "" if they are on one."""
    comparison = outcome.comparison
    if comparison.reference is None:
        return ""
    means = Levels(*comparison.reward_means)
    return message(
        "The rewards ({rewards}) are not on one scale: the reference's responses to the same "
        "prompts earn {reference}.",
        rewards=against(means),
        reference=against(comparison.reference),
    )


def against(levels: Levels) -> str:
    """Return both means, NEW's first: "0.50 against 1.48"."""
    return message(
        "{new} against {base}",
        new=_level(levels.new, levels),
        base=_level(levels.base, levels),
    )


def _level(value: float, both: Levels) -> str:
    if value and _LEAST <= max(map(abs, both)) < _MOST:
        return fixed(value, 2)
    return figure(value)


def rewards_differ(outcome: Outcome) -> str:
    """Return sentences on reward parts of one side only and on settings of the reward, or ""."""
    return sentences([_parts(outcome), _settings(outcome)])


def _parts(outcome: Outcome) -> str:
    """Return which parts of the reward only one side has."""
    labels = outcome.labels
    base, new = outcome.comparison.reward_parts_that_differ
    literal = translatable("{names} ({side})")
    sides = [
        message(literal, names=_names(names), side=label)
        for names, label in ((base, labels.base), (new, labels.new))
        if names
    ]
    if not sides:
        return ""
    return message(
        "Parts of the reward on one side only: {sides}.", sides=clauses(sides)
    )


def _names(names: list[str]) -> str:
    shown = [one_line(name, _LONGEST_NAME) for name in names[:_MOST_LISTED]]
    return listed([*shown, *_rest(len(names) - len(shown))])


def _rest(count: int) -> list[str]:
    return [message("{count:count} more", count=count)] if count > 0 else []


def _settings(outcome: Outcome) -> str:
    """Return which settings of the reward differ."""
    found = [
        setting
        for setting in changed_settings(outcome.bases, outcome.news)
        if _OF_REWARD.match(setting.key)
    ]
    items = []
    for setting in found[:_MOST_LISTED]:
        base, new = values_of(setting, redact=outcome.redact)
        name = one_line(setting.key.removeprefix("config."), _LONGEST_NAME)
        literal = translatable("{setting} {base} → {new}")
        items.append(message(literal, setting=name, base=base, new=new))
    if not items:
        return ""
    return message(
        "Settings of the reward differ: {settings}.",
        settings=listed([*items, *_rest(len(found) - len(items))]),
    )
