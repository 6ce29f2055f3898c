"""Presets of a list of responses: what a reader looks for first, as a filter and a sort.

Scripts apply them; of those that apply to no response, a list has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlreport.check import trust
from rlreport.check.finding import ToldFinding
from rlreport.figures.ragged import Floats
from rlreport.figures.turns import ENDING_WORDS, Ending
from rlreport.pages.listed import BRANCH, CITED, ENDING, ERRORS, FINDING, SPLIT
from rlreport.pages.page_data import PresetData
from rlreport.text.messages import message
from rlreport.text.numbers import written

# Worst, best and longest are this share of the listed responses, and all that equal the last one
END_SHARE = 0.1

# Key of the preset whose responses were stopped by a limit; lists show how they end
CUT_OFF = "cut_off"

# The longest responses are no preset if more of the listed ones than this have the same length: a
# limit cuts them
MOST_LONGEST = 0.5

_LENGTHS = ("response_tokens", "response_chars")

Strings = Mapping[str, Sequence[str | None]]
Mask = NDArray[np.bool_]
End = Literal["low", "high"]


def presets(
    values: Mapping[str, Floats],
    strings: Strings,
    *,
    distrusting: ToldFinding | None,
    order: str = "",
) -> list[PresetData]:
    """Return the presets that apply to listed responses, in the order of their buttons.

    Args:
        values: numeric columns of the list, by key.
        strings: its columns of short strings.
        distrusting: finding that says that a low reward is no sign of a bad response, None if
            the reward can be trusted.
        order: key of the column that sorts rows with equal values, "" if they are as listed.
    """
    listed = _without_branches(values, strings)
    then = [order] if order else []
    found = [
        _cited(listed),
        _worst(listed, distrusting, strings, then),
        _best(listed, distrusting, then),
        _longest(listed, then),
        _errors(listed, then),
        _cut_off(values, strings),
    ]
    return [preset for preset in found if preset is not None]


def cut_off(values: Mapping[str, Floats], strings: Strings) -> Mask:
    """Return which responses did not end by themselves, but at a limit of tokens."""
    if ENDING.key in strings:
        limit = message(ENDING_WORDS[Ending.CUT_OFF])
        return np.array([text == limit for text in strings[ENDING.key]], np.bool_)
    if "finished" in values:
        return np.equal(values["finished"], 0.0)
    rows = len(next(iter(values.values()), ()))
    return np.zeros(rows, np.bool_)


def _without_branches(
    values: Mapping[str, Floats], strings: Strings
) -> Mapping[str, Floats]:
    """Return the columns of the responses that lists show first: without untrained branches."""
    splits = strings.get(SPLIT)
    if splits is None:
        return values
    is_listed = np.array([split != BRANCH for split in splits], np.bool_)
    return {key: column[is_listed] for key, column in values.items()}


def _cited(values: Mapping[str, Floats]) -> PresetData | None:
    if not _has_positive(values, CITED.key):
        return None
    return {
        "key": "cited",
        "label": message("Cited"),
        "help": message("findings cite these responses"),
        "sort": "",
        "ranges": {CITED.key: (1, None)},
    }


def _worst(
    values: Mapping[str, Floats],
    distrusting: ToldFinding | None,
    strings: Strings,
    then: list[str],
) -> PresetData | None:
    """Return the lowest rewards; what a finding cites if a low reward is no sign of a bad response.

    Of a hacked reward, the highest ones are the worst, and come first.
    """
    label = message("Worst")
    if distrusting is not None:
        name = distrusting.name
        citing = [text for text in strings.get(FINDING.key, ()) if text is not None]
        is_cited = any(name in text for text in citing)
        overpaid = distrusting.id in trust.OVERPAID
        why = message(
            "cited by the finding “{name}”, as a low reward is no sign of a bad response here",
            name=name,
        )
        worst: PresetData = {
            "key": "worst",
            "label": label,
            "help": why,
            "sort": ",".join(["-reward", *then]) if overpaid else "",
            "words": {FINDING.key: name},
        }
        return worst if is_cited else None
    limit = _limit(values, "reward", "low")
    if limit is None:
        return None
    return {
        "key": "worst",
        "label": label,
        "help": message("reward of {value} or less", value=written(limit)),
        "sort": ",".join(["reward", *then]),
        "ranges": {"reward": (None, limit)},
    }


def _best(
    values: Mapping[str, Floats], distrusting: ToldFinding | None, then: list[str]
) -> PresetData | None:
    """Return the preset of the highest rewards; ``distrusting`` says that they are not earned."""
    limit = _limit(values, "reward", "high")
    if limit is None:
        return None
    why = message("reward of {value} or more", value=written(limit))
    if distrusting is not None:
        why = message(
            "reward of {value} or more, which the finding “{name}” says is not earned",
            value=written(limit),
            name=distrusting.name,
        )
    return {
        "key": "best",
        "label": message("Best"),
        "help": why,
        "sort": ",".join(["-reward", *then]),
        "ranges": {"reward": (limit, None)},
    }


def _longest(values: Mapping[str, Floats], then: list[str]) -> PresetData | None:
    """Return the preset of the longest responses, None if they are no exception."""
    key = next((key for key in _LENGTHS if key in values), "")
    limit = _limit(values, key, "high")
    if limit is None or np.mean(values[key] >= limit) > MOST_LONGEST:
        return None
    number = written(limit, "count")
    why = message("{value} tokens or more", value=number)
    if key == "response_chars":
        why = message("{value} characters or more", value=number)
    return {
        "key": "longest",
        "label": message("Longest"),
        "help": why,
        "sort": ",".join([f"-{key}", *then]),
        "ranges": {key: (limit, None)},
    }


def _errors(values: Mapping[str, Floats], then: list[str]) -> PresetData | None:
    if not _has_positive(values, ERRORS.key):
        return None
    return {
        "key": "errors",
        "label": message("Errors"),
        "help": ERRORS.help,
        "sort": ",".join([f"-{ERRORS.key}", *then]),
        "ranges": {ERRORS.key: (1, None)},
    }


def _cut_off(values: Mapping[str, Floats], strings: Strings) -> PresetData | None:
    """Return the preset of responses that were cut off, None without any."""
    if not cut_off(values, strings).any():
        return None
    preset: PresetData = {
        "key": CUT_OFF,
        "label": message("Cut off"),
        "help": message("stopped at the limit of tokens, not by themselves"),
        "sort": "",
    }
    if ENDING.key in strings:
        preset["words"] = {ENDING.key: message(ENDING_WORDS[Ending.CUT_OFF])}
    else:
        preset["ranges"] = {"finished": (None, 0)}
    return preset


def _has_positive(values: Mapping[str, Floats], key: str) -> bool:
    return key in values and bool((values[key] > 0).any())


def _limit(values: Mapping[str, Floats], key: str, end: End) -> float | None:
    """Return the value up to which, or from which on, the END_SHARE at an end lies.

    Values that equal it belong to that end, but never all values: None if they are all the same.
    """
    if key not in values:
        return None
    finite = values[key][np.isfinite(values[key])]
    if not len(finite) or finite.min() == finite.max():
        return None
    # From the end on, so that the same rule serves both.
    sign = 1.0 if end == "low" else -1.0
    ordered = np.sort(sign * finite)
    limit = ordered[math.ceil(END_SHARE * len(ordered)) - 1]
    if limit == ordered[-1]:
        limit = ordered[ordered < limit][-1]
    return float(sign * limit)
