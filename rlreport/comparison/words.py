"""Texts of a comparison: verdict, notes on its limits, names of guardrails (such as the KL)."""

from __future__ import annotations

from rlreport.check.finding import FIRST_WORDS
from rlreport.check.registry import BY_ID
from rlreport.check.run import has
from rlreport.columns import RESPONSE
from rlreport.comparison.compare import GUARDRAILS, Comparison, Guardrail
from rlreport.comparison.data import PART
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    marked,
    message,
    plural,
    sentences,
    span,
    told,
    whole,
)
from rlreport.text.numbers import written

_LEVELS = {
    "better": marked("Better"),
    "worse": marked("Worse"),
    "no_evidence": marked("No evidence either way"),
    "incomparable": marked("Cannot be compared"),
}
_IN_A_PAIR = {"better": marked("Higher in this pair"), "worse": marked("Lower in this pair")}
# Used instead of "Better" and "Worse", which would claim too much if BASE is a single run
# (_IN_A_PAIR), any run is broken, or the interval does not cover variation between runs
_IN_THESE_RUNS = {"better": marked("Higher"), "worse": marked("Lower")}

REASONS = {
    "no_common_steps": marked(
        "The runs have no steps in common. Compared are {base_window} of BASE and {new_window} "
        "of NEW, near the end of the range that both cover. The curve of the difference is "
        "not drawn."
    ),
    "early_common_steps": marked(
        "The steps that both runs have end long before the runs do: {base_window} of BASE and "
        "{new_window} of NEW, near the end of each, are compared instead."
    ),
    "no_overlap": marked(
        "The runs have neither common steps nor a common range of steps: their ends are "
        "compared, {base_window} of BASE and {new_window} of NEW."
    ),
    "no_band": marked(
        "The difference has no band at steps with fewer than three prompts, or with one value of "
        "the trainer's metrics: how far it varies there is unknown."
    ),
    "few_common_prompts": marked(
        "Fewer than 30% of the prompts are in both runs: compared unpaired, clustered by "
        "prompt, with far less power."
    ),
    "metrics_alone": marked(
        "Of runs with trainer metrics only, blocks of steps are compared. The interval "
        "covers variation within these runs; another run may differ by more. With three or more "
        "BASE runs, the variation between runs is used."
    ),
    "redacted": marked(
        "A side is a report without texts or hashes (--redact): its prompts cannot be "
        "paired, so the runs are compared unpaired, clustered by prompt, with far less "
        "power."
    ),
    "no_reward": marked("A side has no rewards in the compared responses."),
    "few_prompts": marked("Fewer than three prompts can be compared."),
    "few_blocks": marked("Fewer than three blocks of steps can be compared."),
}

_SPLITS = {"val": marked("validation"), "train": marked("training"), "all": marked("all")}
# If only one of two runs logs one of these columns, a note says so
_ONE_SIDED = ("kl_k1", "ref_reward", "valid_reward", "surprisal_mean", "response_tokens")


def signed(value: float) -> str:
    """Format a difference with its sign: "+0.31", "−0.2"."""
    text = figure(value)
    return f"+{text}" if value > 0 and not text.startswith("+") else text


def headline(outcome: Outcome) -> str:
    """Return the verdict in a few words, for example for the subject of a mail."""
    comparison, broken = outcome.comparison, outcome.broken
    if len(broken) > len(outcome.bases):
        return message("Both are broken") if outcome.single_base else message("All are broken")
    if broken:
        return clauses(_broken(outcome))
    name, effect = _level(outcome), signed(comparison.effect.value)
    if comparison.observed_level in ("better", "worse"):
        return message("{name}: reward {effect}", name=name, effect=effect)
    return name


def sentence(outcome: Outcome) -> str:
    """Return the verdict as sentences: broken runs, then the effect with its interval."""
    parts = [message("{clause}.", clause=clause) for clause in _broken(outcome)]
    if len(parts) > len(outcome.bases):
        parts.insert(
            0, message("{all}, so the difference between them means little.", all=headline(outcome))
        )
    comparison, name = outcome.comparison, _level(outcome)
    effect = comparison.effect
    if comparison.level == "incomparable":
        parts.append(message("{name}: {why:small}", name=name, why=_reasons(outcome)[-1]))
        return sentences(parts)
    paired = marked("{pairs} prompts in pairs")
    unpaired = marked("unpaired, at least {pairs} prompts per side")
    if comparison.metrics_alone:
        unpaired = marked("within these runs, at least {pairs} blocks of steps per side")
    prompts = message(paired if effect.paired else unpaired, pairs=whole(effect.pairs))
    parts.append(
        message(
            "{name}: reward {effect} (95% interval {interval}; {prompts}, {window}).",
            name=name,
            effect=signed(effect.value),
            interval=message("{low} to {high}", low=figure(effect.low), high=figure(effect.high)),
            prompts=prompts,
            window=_window(outcome),
        )
    )
    if comparison.observed_level == "no_evidence":
        most = figure(max(abs(effect.low), abs(effect.high)))
        parts.append(message("The effect could be up to ±{most}.", most=most))
    return sentences(parts)


def _broken(outcome: Outcome) -> list[str]:
    literal = marked("{run} is broken: {reason}")
    return [message(literal, run=name, reason=_lead(run)) for name, run in outcome.broken]


def _level(outcome: Outcome) -> str:
    """Return the verdict as text; "Better" or "Worse" only if it is one on the change."""
    level, within_runs = outcome.comparison.observed_level, outcome.comparison.within_runs
    limited = _IN_THESE_RUNS if outcome.broken or within_runs else _LEVELS
    names = _IN_A_PAIR if outcome.single_base else limited
    return message(names.get(level, _LEVELS[level]))


def run_verdict(run: ComparedRun) -> str:
    """Return the level of a run's own verdict as text, with its main finding."""
    level = message(FIRST_WORDS.get(run.level, run.level))
    if run.lead is None:
        return level
    return message("{level}: {reason}", level=level, reason=_lead(run))


def _lead(run: ComparedRun) -> str:
    lead = run.findings.get(run.lead or "")
    name = check_name(run.lead) if run.lead else message("critical findings")
    if lead is None or lead.onset is None:
        return name
    return message("{name} since step {step}", name=name, step=lead.onset)


def check_name(check: str) -> str:
    """Return the readable name of a check."""
    return message(BY_ID[check].name) if check in BY_ID else check.replace("_", " ")


def caveats(outcome: Outcome) -> str:
    """Return sentences on figures (guardrails) that got worse and new critical findings, or ""."""
    worse = [guardrail_name(g) for g in outcome.comparison.guardrails if g.level == "worse"]
    new = [finding.id for finding in outcome.changed["critical"] if finding.id != outcome.new.lead]
    lists = (
        (marked("Guardrails that are worse in NEW: {names}."), worse),
        (marked("New critical findings: {names}."), [check_name(check) for check in new]),
    )
    return sentences([message(text, names=listed(names)) for text, names in lists if names])


def _window(outcome: Outcome) -> str:
    windows = outcome.comparison.windows
    if set(windows.bases) == {windows.new}:
        return span(windows.new)
    places = {"base": _base_window(outcome), "new": span(windows.new)}
    return message("{base} of BASE against {new} of NEW", **places)


def _base_window(outcome: Outcome) -> str:
    return listed(map(span, dict.fromkeys(outcome.comparison.windows.bases)))


def _reasons(outcome: Outcome) -> list[str]:
    """Return one sentence per reason why the comparison is limited."""
    new = span(outcome.comparison.windows.new)
    places = {"base_window": _base_window(outcome), "new_window": new}
    blocks = {"few_prompts": "few_blocks"} if outcome.comparison.metrics_alone else {}
    reasons = [blocks.get(reason, reason) for reason in outcome.comparison.reasons]
    return [message(REASONS[reason], **places) for reason in reasons]


def notes(outcome: Outcome) -> list[str]:
    """Return sentences on what was compared, its limits, and the data that each run lacks."""
    comparison = outcome.comparison
    parts = [_compared(outcome)]
    if (mde := comparison.effect.mde) > 0:
        parts.append(message("Minimum detectable effect (80% power): {mde}.", mde=figure(mde)))
    if comparison.level != "incomparable" or len(comparison.reasons) > 1:
        parts += _reasons(outcome)
    if not outcome.single_base:
        parts.append(
            message(
                "BASE has {runs} runs: the interval covers one more run (Student's t) and "
                "the variation of prompts; curves, findings and examples are from the first.",
                runs=whole(len(outcome.bases)),
            )
        )
    elif comparison.observed_level in ("better", "worse"):
        parts.append(
            message(
                "One run on each side can show that these two runs differ, but not that the "
                "change caused it: for that, give BASE three times or more, one run per "
                "seed."
            )
        )
    base, new = outcome.base.side.responses, outcome.new.side.responses
    for here, there, name in ((base, new, "BASE"), (new, base, "NEW")):
        missing = tuple(RESPONSE[c].label for c in _ONE_SIDED if c in here and c not in there)
        if missing:
            figures = told("{names:small}", {"names": missing})
            literal = marked("Only {side} logs {figures}, which cannot be compared.")
            parts.append(message(literal, side=name, figures=figures))
    for run in (*outcome.bases, outcome.new):
        parts += _run_notes(run)
    return parts


def _compared(outcome: Outcome) -> str:
    comparison = outcome.comparison
    if comparison.metrics_alone:
        return message("Compared: {window} of the trainer's metrics.", window=_window(outcome))
    compared = plural(
        "Compared: {window} of {split} responses; {count} prompt in common.",
        "Compared: {window} of {split} responses; {count} prompts in common.",
        comparison.shared,
        window=_window(outcome),
        split=message(_SPLITS[comparison.split]),
    )
    only = [
        plural("{count} prompt only in {side}.", "{count} prompts only in {side}.", n, side=side)
        for side, n in (("BASE", comparison.only_base), ("NEW", comparison.only_new))
        if n
    ]
    return sentences([compared, *only])


def _run_notes(run: ComparedRun) -> list[str]:
    dropped = marked(
        "{run}: its report lacks the figures of {rows} responses from the first steps, because "
        "of its size limit."
    )
    sampled = marked("{run}: distinct-2 and shares of the KL are {sample}.")
    unpaired = marked("{run}: {rows} responses lack the field of --pair-by and are left out.")
    remarks = ((run.dropped, dropped), (run.sample_note, sampled), (run.side.unpaired, unpaired))
    return [
        message(literal, run=run.name, rows=whole(value), sample=value)
        for value, literal in remarks
        if value
    ]


def texts_note(outcome: Outcome) -> str:
    """Return a sentence on why texts are missing, "" if all are available."""
    flips = outcome.flips
    missing = sum(flip.base_text is None or flip.new_text is None for flip in flips)
    if outcome.redact:
        return message("Texts are left out (--redact).")
    if missing:
        return message(
            "{missing} of {flips} pairs are shown without text, because an earlier report does "
            "not contain it.",
            missing=whole(missing),
            flips=whole(len(flips)),
        )
    return ""


def equal_kl(outcome: Outcome) -> str:
    """Return a sentence on the difference of rewards at equal KL to the reference policy."""
    comparison = outcome.comparison
    if not comparison.paths:
        return message("At equal KL: not compared, as this needs KL per response in both runs.")
    rewards, watched = comparison.equal_kl["reward"], comparison.equal_kl["valid_reward"]
    if rewards is None:
        return message("At equal KL: not compared, as the ranges of KL do not overlap.")
    parts = [
        message(
            "{name} {effect} (95% interval {low} to {high})",
            name=message(name),
            effect=signed(one.effect),
            low=figure(one.low),
            high=figure(one.high),
        )
        for name, one in ((marked("reward"), rewards), (marked("watched reward"), watched))
        if one is not None
    ]
    return message(
        "At equal KL: {parts}, over {share} of the range of √KL that either run reached.",
        parts=listed(parts),
        share=written(rewards.overlap, "share"),
    )


def guardrail_name(guardrail: Guardrail) -> str:
    """Return the name of a guardrail as shown on pages."""
    if guardrail.id.startswith(PART):
        return message("Reward part: {name}", name=guardrail.id.removeprefix(PART))
    return message(next(label for name, label, *_ in GUARDRAILS if name == guardrail.id))


def guardrails_note(comparison: Comparison) -> str:
    """Return sentences on the guardrails that are not compared, "" if all are."""
    few: list[str] = []
    missing: list[str] = []
    for guardrail in comparison.guardrails:
        if guardrail.level == "missing":
            logged = all(has(frame, guardrail.column) for frame in comparison.inside)
            # The trainer's metrics may contain the KL per token, which is not compared.
            per_response = guardrail.id == "kl" and not logged
            name = message("KL per response") if per_response else guardrail_name(guardrail)
            (few if logged else missing).append(name)
    no_data = marked("Not compared, as a run has no data: {names}.")
    too_few = marked("Not compared, as fewer than three prompts have data: {names}.")
    if comparison.metrics_alone:
        too_few = marked("Not compared, as fewer than three blocks of steps have data: {names}.")
    lists = ((no_data, missing), (too_few, few))
    return sentences([message(text, names=listed(names)) for text, names in lists if names])


def guardrail_level(guardrail: Guardrail, *, in_a_pair: bool) -> str:
    """Return the result for a guardrail, such as "worse"; "~" means no significant difference."""
    if guardrail.level == "none":
        return "~"
    if guardrail.level != "changed" and not in_a_pair:
        return message("better") if guardrail.level == "better" else message("worse")
    if guardrail.effect.value > 0:
        return message("higher in this pair") if in_a_pair else message("higher")
    return message("lower in this pair") if in_a_pair else message("lower")


def gate_sentence(outcome: Outcome) -> str:
    """Return the result of the ``--fail-on`` gate as a sentence, "" if there is no gate."""
    gate = outcome.gate
    if gate.failed:
        return message("The gate fails: {what}.", what=listed(gate.failed))
    if gate.exit:
        return message("The gate is inconclusive: the evidence that was required is missing.")
    if gate.fail_on:
        return message("The gate passes ({what}).", what=listed(gate.fail_on))
    return ""
