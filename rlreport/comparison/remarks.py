"""Remarks on a comparison: what was compared, the limits of its evidence, and the gate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.scale_words import reward_scale
from rlreport.comparison.statistics import EqualKL
from rlreport.comparison.words import signed, window
from rlreport.figures.ragged import spans
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    message,
    span,
    translatable,
    whole,
)
from rlreport.text.numbers import written

REASONS = {
    "other_steps": translatable(
        "The runs have no common steps near their ends, so the last steps of each are compared. "
        "The curve of the difference covers common steps only."
    ),
    "no_band": translatable(
        "The difference has no band at steps with fewer than three prompts or with one value, as "
        "its variation there is unknown."
    ),
    "few_common_prompts": translatable(
        "Fewer than 30% of the smallest run's prompts are in all runs, so the runs are compared "
        "unpaired, clustered by prompt, with far less power."
    ),
    "metrics_alone": translatable(
        "Only the trainer's metrics are logged, so the runs are compared by blocks of steps."
    ),
    "redacted": translatable(
        "A side is a report without texts or hashes (--redact): its prompts cannot be "
        "paired, so the runs are compared unpaired, clustered by prompt, with far less "
        "power."
    ),
    "trainer_disagrees": translatable(
        "The trainer's mean rewards differ the other way than those of the logged responses, so "
        "neither side is called better."
    ),
    "no_reward": translatable(
        "A side has no rewards in the compared responses: none is logged, or each is NaN, infinite "
        "or beyond ±1e150."
    ),
    "few_prompts": translatable(
        "Fewer than three prompts (of metrics: blocks of steps) can be compared."
    ),
}

_MOST_SPANS = 3  # of steps, that are listed


def notes(outcome: Outcome) -> list[str]:
    """Return sentences on what was compared and on what limits the result."""
    comparison = outcome.comparison
    parts = [_prompts_of_one_side(outcome)]
    # A single reason why runs cannot be compared is in the result already.
    if comparison.level != "incomparable" or len(comparison.reasons) > 1:
        # What the trainer says is beside the result, too.
        told = zip(comparison.reasons, reasons(outcome), strict=True)
        parts += [words for reason, words in told if reason != "trainer_disagrees"]
    parts.append(band_note(outcome))
    if not outcome.is_pair:
        literal = translatable(
            "Runs: {base:count} of BASE, {new:count} of NEW. The interval covers the variation "
            "between runs and between prompts; curves, findings and examples are from the first "
            "of each."
        )
        counts = {"base": len(outcome.bases), "new": len(outcome.news)}
        parts.append(message(literal, **counts))
    if not comparison.has_enough_runs and comparison.level in ("better", "worse"):
        few = message(
            "With so few runs, the difference may come from their seeds rather than the change: to "
            "judge the change, pass at least three runs per side, one per seed."
        )
        parts.append(few)
    for _, run in outcome.runs:
        parts += _run_notes(run)
    return [part for part in parts if part]


def reasons(outcome: Outcome) -> list[str]:
    """Return the sentences of ``Comparison.reasons``, in the same order."""
    scale = reward_scale(outcome)
    return [
        scale if reason == "scales" else message(REASONS[reason])
        for reason in outcome.comparison.reasons
    ]


def _prompts_of_one_side(outcome: Outcome) -> str:
    """Return a sentence on prompts that only one side has, "" if there are none."""
    comparison = outcome.comparison
    if comparison.metrics_alone or not (comparison.only_base or comparison.only_new):
        return ""
    return message(
        "Prompts in common: {shared:count}; on one side only: {base:count} ({base_name}), "
        "{new:count} ({new_name}).",
        shared=comparison.shared,
        base=comparison.only_base,
        base_name=outcome.labels.base,
        new=comparison.only_new,
        new_name=outcome.labels.new,
    )


def band_note(outcome: Outcome) -> str:
    """Return why the band of the difference by step seems to contradict the result, or ""."""
    comparison = outcome.comparison
    low = comparison.band.low
    high = comparison.band.high
    if not np.isfinite(low).any() or comparison.level == "incomparable":
        return ""
    above = low > 0  # false where there is no band
    below = high < 0
    steps = window(outcome)
    if comparison.level == "no_evidence":
        if not (above | below).any():
            return ""
        return message(
            "The band of the difference excludes 0 at {where}; the result is on {window} only.",
            where=_where(above | below, outcome),
            window=steps,
        )
    opposite = below if comparison.level == "better" else above
    if opposite.any():
        return message(
            "The band of the difference has the opposite sign at {where}; the result is on "
            "{window} only.",
            where=_where(opposite, outcome),
            window=steps,
        )
    if (above | below).any():
        return ""
    return message(
        "No single step is beyond the band of the difference, which allows for looking at all "
        "steps; the mean of {window} is known more precisely.",
        window=steps,
    )


def _where(chosen: NDArray[np.bool_], outcome: Outcome) -> str:
    """Return the chosen ones of the common steps: "steps 3–9, step 12"."""
    steps = outcome.comparison.windows.common.tolist()
    parts = []
    for start, stop in spans(chosen).tolist():
        first_and_last = (steps[start], steps[stop - 1])
        parts.append(span(first_and_last))
    rest = len(parts) - _MOST_SPANS
    if rest > 0:
        parts = [*parts[:_MOST_SPANS], message("{count:count} more", count=rest)]
    return listed(parts)


def _run_notes(run: ComparedRun) -> list[str]:
    """Return sentences on the responses of a run that are missing or not used."""
    remarks = []
    if run.dropped:
        remarks.append(
            message(
                "{run}: its report lacks the figures of {rows} responses from the first steps, "
                "because of its size limit.",
                run=run.name,
                rows=whole(run.dropped),
            )
        )
    if run.sample_note:
        remarks.append(
            message(
                "{run}: distinct-2 and shares of the KL are {sample}.",
                run=run.name,
                sample=run.sample_note,
            )
        )
    if run.side.unpaired:
        remarks.append(
            message(
                "{run}: responses without the field of --pair-by, left out: {rows}.",
                run=run.name,
                rows=whole(run.side.unpaired),
            )
        )
    return remarks


def findings_note(outcome: Outcome) -> str:
    """Return that no run has a warning, if so, and how many notes each of the first runs has."""
    has_warnings = bool(outcome.base.findings or outcome.new.findings)
    none = "" if has_warnings else message("Neither run has a warning")
    counts = ""
    if outcome.base.notes or outcome.new.notes:
        counts = message(
            "notes: {base:count} ({base_name}), {new:count} ({new_name})",
            base=outcome.base.notes,
            base_name=outcome.labels.base,
            new=outcome.new.notes,
            new_name=outcome.labels.new,
        )
    said = clauses([none, counts])
    if not said:
        return ""
    return message("{clause:capital}.", clause=said)


def texts_note(outcome: Outcome) -> str:
    """Return a sentence on why texts are missing, "" if all are available."""
    if outcome.redact:
        return message("Texts are left out (--redact).")
    without_text = [
        flip
        for flip in outcome.flips
        if flip.base_text is None or flip.new_text is None
    ]
    if not without_text:
        return ""
    return message(
        "{missing} of {flips} pairs are shown without text, because an earlier report does "
        "not contain it.",
        missing=whole(len(without_text)),
        flips=whole(len(outcome.flips)),
    )


def equal_kl(outcome: Outcome) -> str:
    """Return a sentence on the rewards at equal KL to the reference policy, or "".

    It is "" unless both runs have rewards and KL, and their ranges of KL overlap.
    """
    comparison = outcome.comparison
    rewards = comparison.equal_kl.get("reward")
    watched = comparison.equal_kl.get("valid_reward")
    if rewards is None:
        return ""
    parts = [_equal_kl_clause(message("reward"), rewards)]
    if watched is not None:
        parts.append(_equal_kl_clause(message("second reward"), watched))
    return message(
        "At equal KL: {parts}, over {share} of the range of √KL that either run reached.",
        parts=listed(parts),
        share=written(rewards.overlap, "share"),
    )


def _equal_kl_clause(name: str, effect: EqualKL) -> str:
    return message(
        "{name} {effect} (95% interval {low} to {high})",
        name=name,
        effect=signed(effect.effect),
        low=figure(effect.low),
        high=figure(effect.high),
    )


def gate_sentence(outcome: Outcome) -> str:
    """Return the result of ``--fail-on``, or that ``--require-evidence`` is not met, or ""."""
    gate = outcome.gate
    if gate.failed:
        return message("The gate fails: {what}.", what=listed(gate.failed))
    if gate.exit:
        return message(
            "The gate is inconclusive: --require-evidence needs a significant difference."
        )
    if gate.fail_on:
        return message("The gate passes ({what}).", what=listed(gate.fail_on))
    return ""
