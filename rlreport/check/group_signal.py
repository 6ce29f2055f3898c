"""How many groups of a run gave no learning signal, and why.

A group whose responses all have the same reward (std below 1e-6) has advantages of zero, so that
its rollouts give no learning signal. The share of such groups is ``zero_variance_groups`` of the
table of steps, from which all sentences, tiles and charts take it. Its parts are the groups that
all earn the run's lowest reward, those that all earn its best one, and those that are equal in
between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.curve import Level
from rlreport.check.series import Series
from rlreport.tables import Tables
from rlreport.text.messages import (
    listed,
    message,
    plural,
    sentences,
    span,
    translatable,
)

# Least share of responses that are in a group; a few prompts that happen to recur are no groups
_LEAST_GROUPED = 0.5

# Column of the table of steps -> what its groups have in common
_PARTS = {
    "wrong_groups": translatable("{share:percent} all wrong"),
    "equal_groups": translatable("{share:percent} equal in between"),
    "right_groups": translatable("{share:percent} all right"),
}


@dataclass(frozen=True, slots=True)
class GroupSignal:
    """Shares of the groups of a run.

    Attributes:
        groups: number of groups with at least two rewards.
        equal: share of them whose rewards are equal.
        parts: the same by column of ``_PARTS``.
        dropped: share of them whose rewards differ, but which the trainer left out.
        last: the share of equal ones at the end of the run, None if it is the only level.
    """

    groups: int
    equal: float
    parts: dict[str, float]
    dropped: float
    last: Level | None


def group_signal(tables: Tables) -> GroupSignal | None:
    """Return the shares of the groups of training, None if the run does not learn from groups.

    Without the step in progress. A run with a critic learns from single responses.
    """
    judged = tables.without_step_in_progress().training()
    steps = judged.steps
    responses = judged.responses
    if responses.empty or responses["value_mean"].notna().any():
        return None
    groups = steps["groups"].to_numpy(np.float64)
    graded = responses.loc[responses["reward"].notna(), ["step", "group"]]
    sizes = graded.groupby(["step", "group"]).size()
    if sizes[sizes >= 2].sum() < _LEAST_GROUPED * max(1, sizes.sum()):
        return None
    shares = {}
    for name in ("zero_variance_groups", *_PARTS, "dropped_groups"):
        share = steps[name].to_numpy(np.float64)
        shares[name] = float(np.nansum(share * groups) / groups.sum())
    series = Series(
        steps["step"].to_numpy(np.int64),
        steps["zero_variance_groups"].to_numpy(np.float64),
    )
    curve = series.curve
    last = None if curve is None or curve.first == curve.last else curve.last
    return GroupSignal(
        groups=int(groups.sum()),
        equal=shares["zero_variance_groups"],
        parts={name: shares[name] for name in _PARTS},
        dropped=shares["dropped_groups"],
        last=last,
    )


def signal_in_words(signal: GroupSignal) -> str:
    """Return the shares as one or two sentences."""
    found = [
        message(words, share=signal.parts[name])
        for name, words in _PARTS.items()
        if signal.parts[name] > 0
    ]
    texts = []
    if not found:
        texts.append(
            plural(
                "The rewards of {count} group differ: it gives a learning signal.",
                "The rewards of all {count} groups differ: each gives a learning signal.",
                signal.groups,
            )
        )
    else:
        texts.append(
            plural(
                "{share:percent} of {count} group gave no learning signal ({parts}).",
                "{share:percent} of {count} groups gave no learning signal ({parts}).",
                signal.groups,
                share=signal.equal,
                parts=listed(found),
            )
        )
        if signal.last is not None:
            texts.append(
                message(
                    "In {steps} it was {share:percent}.",
                    steps=span(signal.last.steps),
                    share=signal.last.value,
                )
            )
    if signal.dropped > 0:
        texts.append(
            message(
                "The trainer left out another {share:percent}, although their rewards differ.",
                share=signal.dropped,
            )
        )
    return sentences(texts)
