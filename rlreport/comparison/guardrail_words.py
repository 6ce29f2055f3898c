"""Guardrails in words: their names, what each shows, and which are not compared."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from rlreport.comparison.compare import Comparison
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.guardrails import GUARDRAILS, OF_WHOLE_TEXTS, Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.scale_words import rewards_differ
from rlreport.comparison.statistics import LEVEL, Effect
from rlreport.comparison.words import check_name
from rlreport.text.messages import (
    clauses,
    listed,
    message,
    plural,
    sentences,
    short_figure,
    translatable,
)

# (whether NEW is higher, whether that is better) -> words
_IN_THESE_RUNS = {
    (True, True): translatable("higher, better in these runs"),
    (True, False): translatable("higher, worse in these runs"),
    (False, True): translatable("lower, better in these runs"),
    (False, False): translatable("lower, worse in these runs"),
}

# (whether units are blocks of steps, whether NEW is higher) -> words
_TOO_FEW = {
    (True, True): translatable(
        "higher, but too few blocks of steps to be sure after correction"
    ),
    (True, False): translatable(
        "lower, but too few blocks of steps to be sure after correction"
    ),
    (False, True): translatable(
        "higher, but too few prompts to be sure after correction"
    ),
    (False, False): translatable(
        "lower, but too few prompts to be sure after correction"
    ),
}
_FAR = 10  # A difference of more than this multiple of a figure's values is no limit
_LARGE_FACTOR = 100.0  # A factor of more than this is no limit


def guardrail_name(guardrail: Guardrail) -> str:
    if guardrail.id.startswith(PART):
        return message("Reward part: {name}", name=guardrail.id.removeprefix(PART))
    name = next(figure.name for figure in GUARDRAILS if figure.id == guardrail.id)
    return message(name)


def guardrail_level(guardrail: Guardrail, comparison: Comparison) -> str:
    """Return what a guardrail shows: "worse", "no difference shown (up to ±50)", and so on.

    With few runs, a difference may come from their seeds; the words say so.
    """
    if guardrail.level == "none":
        return _not_shown(guardrail, comparison)
    is_higher = guardrail.effect.value > 0
    if guardrail.level == "changed":
        return message("higher") if is_higher else message("lower")
    is_better = guardrail.level == "better"
    if comparison.has_enough_runs:
        return message("better") if is_better else message("worse")
    return message(_IN_THESE_RUNS[is_higher, is_better])


def _not_shown(guardrail: Guardrail, comparison: Comparison) -> str:
    """Return ``not_shown``, or why it would mislead."""
    effect = guardrail.effect
    tested = [one for one in comparison.guardrails if np.isfinite(one.effect.low)]
    if effect.is_shown and _are_too_few(effect, tested):
        in_blocks = comparison.metrics_alone or guardrail.column.startswith(TRAINER)
        return message(_TOO_FEW[in_blocks, effect.value > 0])
    if not effect.is_shown and guardrail.ratio is not None:
        return _no_factor_shown(guardrail.ratio.largest_factor)
    if not effect.is_shown and _says_nothing(_most(effect), guardrail):
        return message("no difference shown")
    return not_shown(effect, len(tested))


def not_shown(effect: Effect, count: int) -> str:
    """Return words on a difference that is not significant after correction for ``count`` figures.

    They say how large it may be.
    """
    if effect.low == effect.high == 0:
        return message("equal")
    if not effect.is_shown:
        most = short_figure(_most(effect))
        return message("no difference shown (up to ±{most})", most=most)
    if effect.value > 0:
        return plural(
            "higher, but not after correction for {count} figure",
            "higher, but not after correction for {count} figures",
            count,
        )
    return plural(
        "lower, but not after correction for {count} figure",
        "lower, but not after correction for {count} figures",
        count,
    )


def _no_factor_shown(most: float) -> str:
    """Return words on a ratio that may be 1; a factor of ``most`` is not excluded."""
    if most > _LARGE_FACTOR:
        return message("no difference shown")
    return message("no difference shown (up to ×{most})", most=short_figure(most))


def _most(effect: Effect) -> float:
    return max(abs(effect.low), abs(effect.high))


def _says_nothing(most: float, guardrail: Guardrail) -> bool:
    """Return whether a difference of up to ``most`` is no limit, next to the figure's values.

    Shares near 0 are an exception: a rise by some hundredths is small, however large a multiple.
    """
    largest = max(abs(guardrail.base), abs(guardrail.new))
    return most > largest * (1 if most > 1 else _FAR)


def _are_too_few(effect: Effect, tested: Sequence[Guardrail]) -> bool:
    """Return whether a permutation test of so few units cannot pass Holm's correction.

    It has 2 of 2**n signs of pairs on its side at best, or 2 of the assignments to the sides.
    """
    count = effect.pairs
    permutations = 2**count if effect.paired else comb(2 * count, count)
    rejected = sum(one.level != "none" for one in tested)
    return 2 / permutations * (len(tested) - rejected) > 1 - LEVEL


def guardrails_note(comparison: Comparison) -> str:
    """Return which guardrails are not compared (but for unlogged metrics) and why, or ""."""
    no_data = []
    cut = []
    too_few = []
    for guardrail in comparison.guardrails:
        if guardrail.level != "missing":
            continue
        name = guardrail_name(guardrail)
        if np.isfinite([guardrail.base, guardrail.new]).all():
            # Both sides have a mean, but no interval.
            too_few.append(name)
        elif guardrail.column.startswith(TRAINER):
            # Only few trainers log what responses do not have.
            continue
        elif comparison.cut and guardrail.column in OF_WHOLE_TEXTS:
            cut.append(name)
        else:
            no_data.append(name)
    parts = []
    if no_data:
        parts.append(
            message(
                "Not compared, as a run has no data: {names}.", names=listed(no_data)
            )
        )
    if cut:
        parts.append(
            message(
                "Not compared, as the logger cuts texts: {names}.", names=listed(cut)
            )
        )
    if too_few:
        parts.append(
            message(
                "Not compared, as too few prompts or blocks have data: {names}.",
                names=listed(too_few),
            )
        )
    return sentences(parts)


def caveats(outcome: Outcome) -> str:
    """Return sentences on rewards, guardrails that got worse and new critical findings, or ""."""
    worse = [
        guardrail_name(guardrail)
        for guardrail in outcome.comparison.guardrails
        if guardrail.level == "worse"
    ]
    # The main finding is in the verdict already.
    new = [
        check_name(finding.id)
        for finding in outcome.changed["critical"]
        if finding.id != outcome.new.lead
    ]
    parts = [rewards_differ(outcome)]
    if worse:
        literal = translatable("Guardrails that got worse ({new}): {names}.")
        parts.append(message(literal, new=outcome.labels.new, names=clauses(worse)))
    if new:
        literal = translatable("New critical findings ({new}): {names}.")
        parts.append(message(literal, new=outcome.labels.new, names=listed(new)))
    return sentences(parts)
