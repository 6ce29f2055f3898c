"""How fast the runs of a comparison learned, and their trainers' evaluations, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlreport.check.course import Course
from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.speed import Reached
from rlreport.text.messages import (
    clauses,
    figure,
    message,
    phrases,
    sentences,
    short_figure,
    translatable,
)

# A step counts as earlier than another if it is by this factor; steps are counted from 1
CLEARLY = 1.2

_FASTER = {
    # (half of the gain, 90% of it): 1 if NEW is earlier, −1 if it is later, 0 for about equal
    (1, 1): translatable("{new} learns faster"),
    (-1, -1): translatable("{new} learns more slowly"),
    (0, 0): translatable("Both learn about equally fast"),
    (1, -1): translatable("{new} learns faster at first, more slowly later"),
    (-1, 1): translatable("{new} learns more slowly at first, faster later"),
}
_AT = {
    "half": translatable("half of the gain ({reward}) at step {new} against {base}"),
    "most": translatable("90% ({reward}) at step {new} against {base}"),
}
_SHARES = {
    "half": translatable("half of the gain"),
    "most": translatable("90% of the gain"),
}
# Whether NEW, not BASE, is the side that never reaches a reward -> a sentence of its own, and what
# follows rewards that both reach
_NEVER = {
    True: (
        translatable(
            "{new} never reaches {reward} ({share}), {base} does at step {step}."
        ),
        translatable("never {reward} ({share}), which {base} reaches at step {step}"),
    ),
    False: (
        translatable(
            "{new} reaches {reward} ({share}) at step {step}, {base} never does."
        ),
        translatable("{reward} ({share}) at step {step}, which {base} never reaches"),
    ),
}


def learning(outcome: Outcome) -> str:
    """Return sentences on how fast the runs learned, and on evaluations by the trainer, or ""."""
    comparison = outcome.comparison
    parts = []
    # The reward of a broken run may be an artefact, however fast it rose.
    # Of runs without common steps, steps may be of different lengths.
    is_comparable = not outcome.broken and "other_steps" not in comparison.reasons
    if comparison.speed and is_comparable:
        parts.append(_speed(comparison.speed, outcome.labels))
    base = outcome.base.side.evaluation
    new = outcome.new.side.evaluation
    # A comparison of validation responses says this itself.
    if comparison.split != "val" and base is not None and new is not None:
        parts.append(_evaluations(base, new))
    return sentences(parts)


def _speed(speed: Mapping[str, Reached], labels: Labels) -> str:
    """Return a sentence on when each side reached "half" and "most" of the gain, or ""."""
    both: list[str] = []  # clauses on rewards that both sides reach
    orders = []
    for share, reached in speed.items():
        if reached.base is None or reached.new is None:
            if reached.base is None and reached.new is None:
                break
            orders.append(-1 if reached.new is None else 1)
            places = {
                "new": labels.new,
                "base": labels.base,
                "reward": short_figure(reached.reward),
                "share": message(_SHARES[share]),
                "step": reached.base if reached.new is None else reached.new,
            }
            first, later = _NEVER[reached.new is None]
            if not both:
                return message(first, **places)
            both.append(message(later, **places))
            break
        at = message(
            _AT[share],
            reward=short_figure(reached.reward),
            new=reached.new,
            base=reached.base,
        )
        both.append(at)
        orders.append(_order(reached.base, reached.new))
    if not both:
        return ""
    how = message(_FASTER[_orders(orders)], new=labels.new)
    return message("{how}: {steps}.", how=how, steps=phrases(both))


def _order(base: int, new: int) -> int:
    """Return 1 if NEW's step is clearly earlier, −1 if it is clearly later, else 0."""
    if (new + 1) * CLEARLY <= base + 1:
        return 1
    return -1 if (base + 1) * CLEARLY <= new + 1 else 0


def _orders(orders: list[int]) -> tuple[int, int]:
    """Return the order at both shares of the gain; where it is open at one, that of the other."""
    half = orders[0]
    most = orders[-1]
    return (half or most, most or half)


def _evaluations(base: Course, new: Course) -> str:
    """Return a sentence on both sides' validation, as their trainers logged it: NEW's first."""
    common, in_base, in_new = np.intersect1d(base.steps, new.steps, return_indices=True)
    parts = []
    if len(common):
        differences = new.values[in_new] - base.values[in_base]
        parts.append(_at_common_steps(differences))
        last = message(
            "{new} against {base} at step {step}, the last in common",
            new=figure(new.values[in_new[-1]]),
            base=figure(base.values[in_base[-1]]),
            step=int(common[-1]),
        )
        parts.append(last)
    best = message(
        "{new} (step {new_step}) against {base} (step {base_step}) at best",
        new=figure(new.top.value),
        new_step=new.top.steps[0],
        base=figure(base.top.value),
        base_step=base.top.steps[0],
    )
    parts.append(best)
    return message("Validation: {parts}.", parts=clauses(parts))


def _at_common_steps(differences: np.ndarray) -> str:
    """Return at how many of several common steps NEW is higher or lower, "" of one step."""
    count = len(differences)
    higher = int((differences > 0).sum())
    lower = int((differences < 0).sum())
    if count < 2:
        return ""
    if higher >= lower:
        literal = translatable("higher at {some:count} of {all:count} common steps")
        return message(literal, some=higher, all=count)
    literal = translatable("lower at {some:count} of {all:count} common steps")
    return message(literal, some=lower, all=count)
