"""A comparison in words: its verdict, remarks, guardrails and the result of ``--fail-on``."""

from __future__ import annotations

import numpy as np

from rlreport.check.registry import BY_ID
from rlreport.check.verdict import FIRST_WORDS
from rlreport.comparison.compare import (
    GUARDRAILS,
    OF_WHOLE_TEXTS,
    Comparison,
    Guardrail,
)
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
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
    """Return the verdict in a few words, for example for the subject of a mail."""
    comparison = outcome.comparison
    broken = outcome.broken
    if len(broken) == len(outcome.runs):
        return (
            message("Both are broken") if outcome.is_pair else message("All are broken")
        )
    if broken:
        return clauses(_broken(outcome))
    name = _level(outcome)
    effect = signed(comparison.effect.value)
    if comparison.level in ("better", "worse"):
        return message("{name}: reward {effect}", name=name, effect=effect)
    return name


def sentence(outcome: Outcome) -> str:
    """Return the verdict as sentences: broken runs, then the effect with its interval."""
    parts = [message("{clause}.", clause=clause) for clause in _broken(outcome)]
    if len(parts) == len(outcome.runs):
        literal = translatable("{all}, so the difference between them means little.")
        parts.insert(0, message(literal, all=headline(outcome)))
    comparison = outcome.comparison
    effect = outcome.comparison.effect
    name = _level(outcome)
    if comparison.level == "incomparable":
        return sentences(
            [*parts, message("{clause}.", clause=name), _reasons(outcome)[-1]]
        )
    paired = translatable("{pairs} prompts in pairs")
    unpaired = translatable("unpaired, at least {pairs} prompts per side")
    if comparison.metrics_alone:
        unpaired = translatable(
            "within these runs, at least {pairs} blocks of steps per side"
        )
    places = {
        "effect": signed(effect.value),
        "interval": message(
            "{low} to {high}", low=figure(effect.low), high=figure(effect.high)
        ),
        "prompts": message(
            paired if effect.paired else unpaired, pairs=whole(effect.pairs)
        ),
        "window": _window(outcome),
    }
    literal = translatable(
        "{name}: reward {effect} (95% interval {interval}; {prompts}, {window})."
    )
    parts.append(message(literal, name=name, **places))
    if comparison.level == "no_evidence":
        most = figure(max(abs(effect.low), abs(effect.high)))
        parts.append(message("The effect could be up to ±{most}.", most=most))
    return sentences(parts)


_REACHED = {
    "half": translatable("{reward} (half of the gain): NEW {new}, BASE {base}"),
    "most": translatable("{reward} (90% of it): NEW {new}, BASE {base}"),
}


def learning(outcome: Outcome) -> str:
    """Return sentences on how fast the runs learned, and on evaluations by the trainer, or ""."""
    result = []
    if (speed := outcome.comparison.speed) and not outcome.broken:
        parts = []
        for name, reached in speed.items():
            sides = {"new": _reached(reached.new), "base": _reached(reached.base)}
            parts.append(
                message(_REACHED[name], reward=figure(reached.reward), **sides)
            )
        result.append(
            message("Reached {parts} (mean of a window).", parts=clauses(parts))
        )
    evaluations = [
        message(
            "{side} {last} at the end, {best} at best (step {step})",
            side=side,
            last=figure(course.last.value),
            best=figure(course.best.value),
            step=course.best.steps[0],
        )
        for side, run in (("BASE", outcome.base), ("NEW", outcome.new))
        if (course := run.side.evaluation)
    ]
    if outcome.comparison.split != "val" and len(evaluations) == 2:
        result.append(message("Validation: {sides}.", sides=clauses(evaluations)))
    return sentences(result)


def _reached(step: int | None) -> str:
    return message("never") if step is None else message("at step {step}", step=step)


def _broken(outcome: Outcome) -> list[str]:
    literal = translatable("{run} is broken: {reason}")
    return [
        message(literal, run=name, reason=_lead(run)) for name, run in outcome.broken
    ]


def _level(outcome: Outcome) -> str:
    level = outcome.comparison.level
    of_change = outcome.comparison.has_enough_runs
    names = _LEVELS if of_change and not outcome.broken else _IN_THESE_RUNS
    return message(names.get(level, _LEVELS[level]))


def run_verdict(run: ComparedRun) -> str:
    level = message(FIRST_WORDS.get(run.level, run.level))
    if run.lead is None:
        return level
    return message("{level}: {reason}", level=level, reason=_lead(run))


def _lead(run: ComparedRun) -> str:
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
        guardrail_name(g) for g in outcome.comparison.guardrails if g.level == "worse"
    ]
    new = [
        check_name(f.id)
        for f in outcome.changed["critical"]
        if f.id != outcome.new.lead
    ]
    lists = (
        (translatable("Guardrails that are worse in NEW: {names}."), worse),
        (translatable("New critical findings: {names}."), new),
    )
    return sentences(
        [message(text, names=listed(names)) for text, names in lists if names]
    )


def _window(outcome: Outcome) -> str:
    windows = outcome.comparison.windows
    if set(windows.bases) == {windows.new}:
        return span(windows.new)
    places = {"base": _base_window(outcome), "new": span(windows.new)}
    return message("{base} of BASE against {new} of NEW", **places)


def _base_window(outcome: Outcome) -> str:
    return listed(map(span, dict.fromkeys(outcome.comparison.windows.bases)))


def _reasons(outcome: Outcome) -> list[str]:
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
    if (mde := comparison.effect.mde) > 0:
        parts.append(
            message("Minimum detectable effect (80% power): {mde}.", mde=figure(mde))
        )
    if comparison.level != "incomparable" or len(comparison.reasons) > 1:
        parts += _reasons(outcome)
    if not outcome.is_pair:
        literal = translatable(
            "Runs: {base:count} of BASE, {new:count} of NEW. The interval covers the variation "
            "between runs and between prompts; curves, findings and examples are from the first "
            "of each."
        )
        parts.append(message(literal, base=len(outcome.bases), new=len(outcome.news)))
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
    only = [
        plural(
            "{count} prompt only in {side}.",
            "{count} prompts only in {side}.",
            n,
            side=side,
        )
        for side, n in (("BASE", comparison.only_base), ("NEW", comparison.only_new))
        if n
    ]
    return sentences([compared, *only])


def _run_notes(run: ComparedRun) -> list[str]:
    dropped = translatable(
        "{run}: its report lacks the figures of {rows} responses from the first steps, because "
        "of its size limit."
    )
    sampled = translatable("{run}: distinct-2 and shares of the KL are {sample}.")
    unpaired = translatable(
        "{run}: responses without the field of --pair-by, left out: {rows}."
    )
    remarks = (
        (run.dropped, dropped),
        (run.sample_note, sampled),
        (run.side.unpaired, unpaired),
    )
    return [
        message(literal, run=run.name, rows=whole(value), sample=value)
        for value, literal in remarks
        if value
    ]


def texts_note(outcome: Outcome) -> str:
    """Return a sentence on why texts are missing, "" if all are available."""
    if outcome.redact:
        return message("Texts are left out (--redact).")
    missing = sum(
        flip.base_text is None or flip.new_text is None for flip in outcome.flips
    )
    literal = translatable(
        "{missing} of {flips} pairs are shown without text, because an earlier report does "
        "not contain it."
    )
    places = {"missing": whole(missing), "flips": whole(len(outcome.flips))}
    return message(literal, **places) if missing else ""


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
    parts = [
        message(
            "{name} {effect} (95% interval {low} to {high})",
            name=message(name),
            effect=signed(one.effect),
            low=figure(one.low),
            high=figure(one.high),
        )
        for name, one in (
            (translatable("reward"), rewards),
            (translatable("watched reward"), watched),
        )
        if one is not None
    ]
    return message(
        "At equal KL: {parts}, over {share} of the range of √KL that either run reached.",
        parts=listed(parts),
        share=written(rewards.overlap, "share"),
    )


def guardrail_name(guardrail: Guardrail) -> str:
    if guardrail.id.startswith(PART):
        return message("Reward part: {name}", name=guardrail.id.removeprefix(PART))
    return message(
        next(label for name, label, *_ in GUARDRAILS if name == guardrail.id)
    )


def guardrails_note(comparison: Comparison) -> str:
    """Return which guardrails are not compared (but for unlogged metrics) and why, or ""."""
    no_data = translatable("Not compared, as a run has no data: {names}.")
    too_few = translatable(
        "Not compared, as too few prompts or blocks have data: {names}."
    )
    cut = translatable("Not compared, as the logger cuts texts: {names}.")
    names: dict[str, list[str]] = {no_data: [], cut: [], too_few: []}
    for guardrail in (one for one in comparison.guardrails if one.level == "missing"):
        logged = bool(np.isfinite([guardrail.base, guardrail.new]).all())
        # Only few trainers log what responses do not have.
        if logged or not guardrail.column.startswith(TRAINER):
            is_cut = comparison.cut and guardrail.column in OF_WHOLE_TEXTS
            why = too_few if logged else cut if is_cut else no_data
            names[why].append(guardrail_name(guardrail))
    return sentences(
        [message(text, names=listed(part)) for text, part in names.items() if part]
    )


def guardrail_level(guardrail: Guardrail, comparison: Comparison) -> str:
    """Return "~" (not significant), "better" or "worse", or if undecided "higher" or "lower"."""
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
