"""A comparison in words: its verdict, remarks, guardrails and the result of ``--fail-on``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlreport.check.course import Course
from rlreport.check.registry import BY_ID
from rlreport.check.verdict import FIRST_WORDS
from rlreport.comparison.compare import Comparison
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.guardrails import GUARDRAILS, OF_WHOLE_TEXTS, Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.speed import Reached
from rlreport.comparison.statistics import EqualKL
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    message,
    plural,
    sentences,
    span,
    translatable,
    whole,
)
from rlreport.text.numbers import written

_LEVELS = {
    "better": translatable("Better"),
    "worse": translatable("Worse"),
    "no_evidence": translatable("No evidence either way"),
    "incomparable": translatable("Cannot be compared"),
}
# Instead of "Better" and "Worse" if a side has fewer than three runs, or if any run is broken
_IN_THESE_RUNS = {
    "better": translatable("Higher in these runs"),
    "worse": translatable("Lower in these runs"),
}

REASONS = {
    "other_steps": translatable(
        "The runs have no common steps near their ends. Compared: {base_window} of BASE with "
        "{new_window} of NEW. The curve of the difference covers common steps only."
    ),
    "no_band": translatable(
        "The difference has no band at steps with fewer than three prompts, or with one value of "
        "the trainer's metrics, as its variation there is unknown."
    ),
    "few_common_prompts": translatable(
        "Fewer than 30% of the smallest run's prompts are in all runs, so the runs are compared "
        "unpaired, clustered by prompt, with far less power."
    ),
    "metrics_alone": translatable(
        "Runs with trainer metrics only are compared by blocks of steps. The interval covers "
        "variation within these runs; another run may differ by more."
    ),
    "redacted": translatable(
        "A side is a report without texts or hashes (--redact): its prompts cannot be "
        "paired, so the runs are compared unpaired, clustered by prompt, with far less "
        "power."
    ),
    "no_reward": translatable("A side has no rewards in the compared responses."),
    "few_prompts": translatable(
        "Fewer than three prompts (of metrics: blocks of steps) can be compared."
    ),
}

_SPLITS = {
    "val": translatable("validation"),
    "train": translatable("training"),
    "all": translatable("all"),
}


def signed(value: float) -> str:
    """Format a difference with its sign: "+0.31", "−0.2"."""
    text = figure(value)
    return f"+{text}" if value > 0 and not text.startswith("+") else text


def headline(outcome: Outcome) -> str:
    """Return the verdict in a few words, for example for the subject of a mail.

    Broken runs come first: their rewards say little.
    """
    comparison = outcome.comparison
    broken = outcome.broken
    if len(broken) == len(outcome.runs):
        if outcome.is_pair:
            return message("Both are broken")
        return message("All are broken")
    if broken:
        return clauses(_broken(outcome))
    verdict = _level(outcome)
    effect = signed(comparison.effect.value)
    if comparison.level in ("better", "worse"):
        return message("{name}: reward {effect}", name=verdict, effect=effect)
    return verdict


def sentence(outcome: Outcome) -> str:
    """Return the verdict as sentences: broken runs, then the effect with its interval."""
    parts = [message("{clause}.", clause=clause) for clause in _broken(outcome)]
    if len(parts) == len(outcome.runs):
        # The headline is then "Both are broken" or "All are broken".
        literal = translatable("{all}, so the difference between them means little.")
        parts.insert(0, message(literal, all=headline(outcome)))
    comparison = outcome.comparison
    effect = outcome.comparison.effect
    verdict = _level(outcome)
    if comparison.level == "incomparable":
        why = _reasons(outcome)[-1]  # the last reason says why there is no interval
        return sentences([*parts, message("{clause}.", clause=verdict), why])
    places = {
        "effect": signed(effect.value),
        "interval": message(
            "{low} to {high}", low=figure(effect.low), high=figure(effect.high)
        ),
        "prompts": _prompts(comparison),
        "window": _window(outcome),
    }
    literal = translatable(
        "{name}: reward {effect} (95% interval {interval}; {prompts}, {window})."
    )
    parts.append(message(literal, name=verdict, **places))
    if comparison.level == "no_evidence":
        most = figure(max(abs(effect.low), abs(effect.high)))
        parts.append(message("The effect could be up to ±{most}.", most=most))
    return sentences(parts)


def _prompts(comparison: Comparison) -> str:
    """Return a clause on how many prompts were compared, and whether in pairs."""
    count = whole(comparison.effect.pairs)
    if comparison.effect.paired:
        return message("{pairs} prompts in pairs", pairs=count)
    if comparison.metrics_alone:
        return message(
            "within these runs, at least {pairs} blocks of steps per side", pairs=count
        )
    return message("unpaired, at least {pairs} prompts per side", pairs=count)


_REACHED = {
    "half": translatable("{reward} (half of the gain): NEW {new}, BASE {base}"),
    "most": translatable("{reward} (90% of it): NEW {new}, BASE {base}"),
}


def learning(outcome: Outcome) -> str:
    """Return sentences on how fast the runs learned, and on evaluations by the trainer, or ""."""
    parts = []
    speed = outcome.comparison.speed
    # The reward of a broken run may be an artefact, however fast it rose.
    if speed and not outcome.broken:
        parts.append(_speed(speed))
    evaluations = []
    for side, run in (("BASE", outcome.base), ("NEW", outcome.new)):
        course = run.side.evaluation
        if course is not None:
            evaluations.append(_evaluation(side, course))
    # A comparison of validation responses says this itself.
    if outcome.comparison.split != "val" and len(evaluations) == 2:
        parts.append(message("Validation: {sides}.", sides=clauses(evaluations)))
    return sentences(parts)


def _speed(speed: Mapping[str, Reached]) -> str:
    """Return a sentence on when each run reached "half" and "most" of the gain."""
    parts = []
    for share_name, reached in speed.items():
        part = message(
            _REACHED[share_name],
            reward=figure(reached.reward),
            new=_reached(reached.new),
            base=_reached(reached.base),
        )
        parts.append(part)
    return message("Reached {parts} (mean of a window).", parts=clauses(parts))


def _evaluation(side: str, course: Course) -> str:
    """Return a clause on a side's validation metric, as its trainer logged it."""
    return message(
        "{side} {last} at the end, {best} at best (step {step})",
        side=side,
        last=figure(course.last.value),
        best=figure(course.top.value),
        step=course.top.steps[0],
    )


def _reached(step: int | None) -> str:
    return message("never") if step is None else message("at step {step}", step=step)


def _broken(outcome: Outcome) -> list[str]:
    literal = translatable("{run} is broken: {reason}")
    return [
        message(literal, run=name, reason=_lead(run)) for name, run in outcome.broken
    ]


def _level(outcome: Outcome) -> str:
    """Return the verdict on the reward, such as "Better" or "No evidence either way"."""
    level = outcome.comparison.level
    verdict = _LEVELS[level]
    if outcome.broken or not outcome.comparison.has_enough_runs:
        verdict = _IN_THESE_RUNS.get(level, verdict)
    return message(verdict)


def run_verdict(run: ComparedRun) -> str:
    level = message(FIRST_WORDS.get(run.level, run.level))
    if run.lead is None:
        return level
    return message("{level}: {reason}", level=level, reason=_lead(run))


def _lead(run: ComparedRun) -> str:
    """Return the name of a run's main finding, and the step at which it began if that is known."""
    lead = run.findings.get(run.lead or "")
    name = check_name(run.lead) if run.lead else message("critical findings")
    if lead is None or lead.onset is None:
        return name
    return message("{name} since step {step}", name=name, step=lead.onset.step)


def check_name(check: str) -> str:
    return message(BY_ID[check].name) if check in BY_ID else check.replace("_", " ")


def caveats(outcome: Outcome) -> str:
    """Return sentences on figures (guardrails) that got worse and new critical findings, or ""."""
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
    parts = []
    if worse:
        parts.append(
            message("Guardrails that are worse in NEW: {names}.", names=listed(worse))
        )
    if new:
        parts.append(message("New critical findings: {names}.", names=listed(new)))
    return sentences(parts)


def _window(outcome: Outcome) -> str:
    windows = outcome.comparison.windows
    if set(windows.bases) == {windows.new}:
        return span(windows.new)
    places = {"base": _base_window(outcome), "new": span(windows.new)}
    return message("{base} of BASE against {new} of NEW", **places)


def _base_window(outcome: Outcome) -> str:
    return listed(map(span, dict.fromkeys(outcome.comparison.windows.bases)))


def _reasons(outcome: Outcome) -> list[str]:
    """Return the sentences of ``Comparison.reasons``, in the same order."""
    comparison = outcome.comparison
    places = {
        "base_window": _base_window(outcome),
        "new_window": span(comparison.windows.new),
    }
    return [message(REASONS[reason], **places) for reason in comparison.reasons]


def notes(outcome: Outcome) -> list[str]:
    """Return sentences on what was compared, its limits, and the data that each run lacks."""
    comparison = outcome.comparison
    parts = [_compared(outcome)]
    mde = comparison.effect.mde
    if mde > 0:  # NaN if there are too few prompts
        parts.append(
            message("Minimum detectable effect (80% power): {mde}.", mde=figure(mde))
        )
    # A single reason why runs cannot be compared is in ``sentence`` already.
    if comparison.level != "incomparable" or len(comparison.reasons) > 1:
        parts += _reasons(outcome)
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
    return parts


def _compared(outcome: Outcome) -> str:
    """Return sentences on the compared responses, and on prompts that only one side has."""
    comparison = outcome.comparison
    if comparison.metrics_alone:
        return message(
            "Compared: {window} of the trainer's metrics.", window=_window(outcome)
        )
    compared = plural(
        "Compared: {window} of {split} responses; {count} prompt in common.",
        "Compared: {window} of {split} responses; {count} prompts in common.",
        comparison.shared,
        window=_window(outcome),
        split=message(_SPLITS[comparison.split]),
    )
    parts = [compared]
    for side, count in (("BASE", comparison.only_base), ("NEW", comparison.only_new)):
        if count:
            only = plural(
                "{count} prompt only in {side}.",
                "{count} prompts only in {side}.",
                count,
                side=side,
            )
            parts.append(only)
    return sentences(parts)


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
    """Return a sentence on the difference of rewards at equal KL to the reference policy."""
    comparison = outcome.comparison
    if not comparison.paths:
        return message(
            "At equal KL: not compared, as this needs KL per response in both runs."
        )
    rewards = comparison.equal_kl["reward"]
    watched = comparison.equal_kl["valid_reward"]
    if rewards is None:
        return message(
            "At equal KL: not compared, as rewards or a common KL range are missing."
        )
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


def guardrail_name(guardrail: Guardrail) -> str:
    if guardrail.id.startswith(PART):
        return message("Reward part: {name}", name=guardrail.id.removeprefix(PART))
    name = next(figure.name for figure in GUARDRAILS if figure.id == guardrail.id)
    return message(name)


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


def guardrail_level(guardrail: Guardrail, comparison: Comparison) -> str:
    """Return "~" (not significant), "better" or "worse", or if undecided "higher" or "lower".

    With few runs, a difference may come from their seeds: it is undecided, too.
    """
    if guardrail.level == "none":
        return "~"
    if guardrail.level != "changed" and comparison.has_enough_runs:
        return message("better") if guardrail.level == "better" else message("worse")
    return message("higher") if guardrail.effect.value > 0 else message("lower")


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
