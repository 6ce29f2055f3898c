"""How many prompts improved, regressed or did neither, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlreport.comparison.compare import Comparison
from rlreport.text.messages import clauses, message, phrases, plural, translatable

# Value of ``change`` in ``Comparison.prompt_changes`` -> how many prompts it has
_COUNTED = {
    "improved": translatable("{count:count} improved"),
    "regressed": translatable("{count:count} regressed"),
    "same": translatable("{count:count} not clearly changed"),
    "always": translatable("{count:count} always solved"),
    "never": translatable("{count:count} never solved"),
}
_DIRECTIONS = {
    "lower": translatable("{count:count} lower"),
    "higher": translatable("{count:count} higher"),
    "equal": translatable("{count:count} equal"),
}
# The same as labels of counts
CHANGES = {
    "improved": translatable("Improved"),
    "regressed": translatable("Regressed"),
    "same": translatable("Not clearly changed"),
    "always": translatable("Always solved"),
    "never": translatable("Never solved"),
}
_DIRECTION_LABELS = {
    "lower": translatable("Lower"),
    "higher": translatable("Higher"),
    "equal": translatable("Equal"),
}


@dataclass(frozen=True, slots=True)
class PromptCounts:
    """Numbers of prompts that both sides have.

    Attributes:
        changes: by ``change`` of ``Comparison.prompt_changes``.
        directions: of those neither improved nor regressed nor always or never solved, how many
            have a "lower", "higher" or "equal" mean reward in NEW.
        can_tell: whether the responses suffice to tell that a single prompt changed.
        responses: to a prompt, of the side with fewer; the median over prompts.
    """

    changes: Mapping[str, int]
    directions: Mapping[str, int]
    can_tell: bool
    responses: int


def prompt_counts(comparison: Comparison) -> PromptCounts:
    """Count the changes of prompts, and the directions of those that are not clear."""
    table = comparison.prompt_changes
    unclear = table.loc[table["change"] == "same", "delta"].to_numpy(np.float64)
    directions = {
        "lower": int((unclear < 0).sum()),
        "higher": int((unclear > 0).sum()),
        "equal": int((unclear == 0).sum()),
    }
    responses = table[["base_count", "new_count"]].min(axis=1)
    return PromptCounts(
        changes=Counter(table["change"].tolist()),
        directions=directions,
        can_tell=comparison.can_tell_prompts,
        responses=int(responses.median()) if len(table) else 0,
    )


def prompts_note(comparison: Comparison) -> str:
    """Return a sentence on how many prompts improved, regressed and so on, "" if unpaired."""
    counts = prompt_counts(comparison)
    if not counts.changes:
        return ""
    return message("Prompts: {counts}.", counts=counted(counts))


def counted(counts: PromptCounts) -> str:
    """Return the counts as a clause."""
    return clauses([_listed(counts), no_single_prompt(counts)])


def _listed(counts: PromptCounts) -> str:
    """Return the counts as phrases; without clear changes, only their directions."""
    directions = _of(_DIRECTIONS, counts.directions)
    parts = []
    for change, words in _COUNTED.items():
        if not counts.changes.get(change):
            continue
        if change == "same" and not counts.can_tell:
            parts += directions
            continue
        part = message(words, count=counts.changes[change])
        if change == "same":
            part = message(
                "{counted} ({directions})", counted=part, directions=phrases(directions)
            )
        parts.append(part)
    return phrases(parts)


def no_single_prompt(counts: PromptCounts) -> str:
    """Return the clause that no single prompt can be judged, "" if some can be."""
    if counts.can_tell:
        return ""
    return plural(
        "with {count} response per prompt, no single prompt can be judged",
        "with {count} responses per prompt, no single prompt can be judged",
        counts.responses,
    )


def labelled_counts(counts: PromptCounts) -> list[tuple[str, int]]:
    """Return (label, number of prompts) of each count that is not 0.

    Of improved and regressed prompts, also 0 is a result, if a single prompt can be judged.
    """
    found = []
    for change, label in CHANGES.items():
        count = counts.changes.get(change, 0)
        if change == "same" and not counts.can_tell:
            found += [
                (message(_DIRECTION_LABELS[way]), number)
                for way, number in counts.directions.items()
                if number
            ]
        elif count or (counts.can_tell and change in ("improved", "regressed")):
            found.append((_label(change, label, counts), count))
    return found


def _label(change: str, label: str, counts: PromptCounts) -> str:
    if change != "same":
        return message(label)
    return message(
        "{counted} ({directions})",
        counted=message(label),
        directions=phrases(_of(_DIRECTIONS, counts.directions)),
    )


def _of(words: Mapping[str, str], counts: Mapping[str, int]) -> list[str]:
    return [
        message(literal, count=counts[name])
        for name, literal in words.items()
        if counts[name]
    ]
