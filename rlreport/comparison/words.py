"""A comparison in words: the verdict, what was paired, what could not be compared."""

from __future__ import annotations

from rlreport.check.finding import FIRST_WORDS
from rlreport.check.registry import BY_ID
from rlreport.columns import RESPONSE
from rlreport.comparison.data import PART
from rlreport.comparison.figures import GUARDRAILS, Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.statistics import Effect
from rlreport.text.messages import (
    clauses,
    figure,
    listed,
    marked,
    message,
    sentences,
    span,
    told,
    whole,
)
from rlreport.text.numbers import written

HEADLINES = {
    "better": marked("Better"),
    "worse": marked("Worse"),
    "no_evidence": marked("No evidence either way"),
    "incomparable": marked("Cannot be compared"),
}
IN_A_PAIR = {"better": marked("Higher in this pair"), "worse": marked("Lower in this pair")}
BESIDE_A_BROKEN_RUN = {"better": marked("Higher"), "worse": marked("Lower")}
"""Levels in words where a difference of the reward is neither good nor bad."""

_REASONS = {
    "no_common_steps": marked(
        "No step is in both runs: {base_window} of BASE and {new_window} of NEW are compared, "
        "the end of the steps that both cover, and no curve of the difference is drawn."
    ),
    "early_common_steps": marked(
        "The steps that both runs have end long before the runs do: {base_window} of BASE and "
        "{new_window} of NEW, near the end of each, are compared instead."
    ),
    "no_overlap": marked(
        "The runs have no steps in common, not even a range: each one's own end is compared, "
        "{base_window} of BASE and {new_window} of NEW."
    ),
    "few_common_prompts": marked(
        "Fewer than 30% of the prompts are in both runs: compared unpaired, clustered by prompt, "
        "which sees far less."
    ),
    "redacted": marked(
        "A side is a report without texts or hashes (--redact): its prompts cannot be paired, so "
        "the runs are compared unpaired, clustered by prompt, which sees far less."
    ),
    "no_reward": marked("A side has no reward in what is compared."),
    "few_prompts": marked("Fewer than three prompts can be compared."),
}

SEVERAL_SEEDS = marked(
    "One run on each side shows that these two runs differ, never that the change made the "
    "difference: give BASE three times or more, one run a seed, to tell."
)


def signed(value: float) -> str:
    """Return a difference with its sign: "+0.31", "−0.2"."""
    text = figure(value)
    return f"+{text}" if value > 0 and not text.startswith("+") else text


def headline(outcome: Outcome) -> str:
    """Return the verdict in a few words, as a subject holds it."""
    comparison, broken = outcome.comparison, outcome.broken
    if len(broken) > len(outcome.bases):
        return message("Both are broken") if outcome.one_each else message("All are broken")
    if broken:
        return clauses(_each_broken(outcome))
    name, effect = _level(outcome), signed(comparison.effect.value)
    if comparison.level in ("better", "worse"):
        return message("{name}: reward {effect}", name=name, effect=effect)
    return name


def sentence(outcome: Outcome) -> str:
    """Return the verdict: which run is broken, then the effect with interval and pairs."""
    return sentences([_broken(outcome), _effect(outcome)])


def run_verdict(run: ComparedRun) -> str:
    """Return a run's own verdict in its first word, and what leads it."""
    word = message(FIRST_WORDS.get(run.level, run.level))
    if run.lead is None:
        return word
    return message("{level}: {reason}", level=word, reason=_reason(run))


def _broken(outcome: Outcome) -> str:
    said = [message("{clause}.", clause=clause) for clause in _each_broken(outcome)]
    if len(said) > len(outcome.bases):
        said.insert(0, message("{all}, the difference means little.", all=headline(outcome)))
    return sentences(said)


def _each_broken(outcome: Outcome) -> list[str]:
    literal = marked("{run} is broken: {reason}")
    return [message(literal, run=name, reason=_reason(run)) for name, run in outcome.broken]


def _reason(run: ComparedRun) -> str:
    lead = run.findings.get(run.lead or "")
    name = name_of(run.lead) if run.lead else message("critical findings")
    if lead is None or lead.onset is None:
        return name
    return message("{name} since step {step}", name=name, step=lead.onset)


def _effect(outcome: Outcome) -> str:
    comparison, name = outcome.comparison, _level(outcome)
    effect = comparison.effect
    if comparison.level == "incomparable":
        return message("{name}: {why:small}", name=name, why=reasons(outcome)[-1])
    said = message(
        "{name}: reward {effect} (95% interval {interval}; {prompts}, {window}).",
        name=name,
        effect=signed(effect.value),
        interval=message("{low} to {high}", low=figure(effect.low), high=figure(effect.high)),
        prompts=_prompts(effect),
        window=_window(outcome),
    )
    if comparison.level != "no_evidence":
        return said
    most = figure(max(abs(effect.low), abs(effect.high)))
    return sentences([said, message("The effect could be up to ±{most}.", most=most)])


def against(outcome: Outcome) -> str:
    """Return what got worse whatever the reward did, "" where nothing did."""
    worse = [guardrail_name(g) for g in outcome.comparison.guardrails if g.level == "worse"]
    new = [found.id for found in outcome.changed.critical if found.id != outcome.new.lead]
    critical = [name_of(check) for check in new]
    lists = (
        (marked("Guardrails that are worse in NEW: {names}."), worse),
        (marked("New critical findings: {names}."), critical),
    )
    return sentences([message(text, names=listed(names)) for text, names in lists if names])


def _level(outcome: Outcome) -> str:
    """Return the level in words: only sound runs of several seeds are better or worse."""
    level = outcome.comparison.level
    words = IN_A_PAIR if outcome.one_each else BESIDE_A_BROKEN_RUN if outcome.broken else HEADLINES
    return message(words.get(level, HEADLINES[level]))


def name_of(check: str) -> str:
    """Return the name of a check in words."""
    return message(BY_ID[check].name) if check in BY_ID else check.replace("_", " ")


def _window(outcome: Outcome) -> str:
    windows = outcome.comparison.windows
    if all(window == windows.new for window in windows.sides):
        return span(windows.new)
    places = {"base": _base_window(outcome), "new": span(windows.new)}
    return message("{base} of BASE against {new} of NEW", **places)


def _base_window(outcome: Outcome) -> str:
    windows = dict.fromkeys(outcome.comparison.windows.sides[:-1])
    return listed([span(window) for window in windows])


def _prompts(effect: Effect) -> str:
    pairs = whole(effect.pairs)
    if effect.paired:
        return message("{pairs} prompts in pairs", pairs=pairs)
    return message("unpaired, at least {pairs} prompts a side", pairs=pairs)


def reasons(outcome: Outcome) -> list[str]:
    """Return what could not be compared as usual, a sentence each."""
    windows = outcome.comparison.windows
    places = {"base_window": _base_window(outcome), "new_window": span(windows.new)}
    return [message(_REASONS[reason], **places) for reason in outcome.comparison.reasons]


_DROPPED = marked(
    "{run}: its report had no room for the figures of {rows} responses, those of the first steps."
)
_SAMPLED = marked("{run}: distinct-2 and shares of the KL are {sample}.")
_UNPAIRED = marked("{run}: {rows} responses lack the field of --pair-by and are left out.")


def notes(outcome: Outcome) -> list[str]:
    """Return what a reader has to know of the comparison, a sentence each."""
    comparison = outcome.comparison
    said = [_compared(outcome)]
    if (mde := comparison.effect.mde) > 0:
        said.append(message("Minimum detectable effect (80% power): {mde}.", mde=figure(mde)))
    if comparison.level != "incomparable" or len(comparison.reasons) > 1:
        said += reasons(outcome)
    if outcome.one_each:
        if comparison.level in ("better", "worse"):
            said.append(message(SEVERAL_SEEDS))
    else:
        said.append(
            message(
                "BASE is {runs} runs: the interval holds for one run more, by Student's t, and for "
                "prompts; curves, findings and examples are of the first.",
                runs=whole(len(outcome.bases)),
            )
        )
    said += _one_sided(outcome)
    for run in (*outcome.bases, outcome.new):
        remarks = (
            (run.dropped, _DROPPED),
            (run.sample_note, _SAMPLED),
            (run.side.unpaired, _UNPAIRED),
        )
        said += [
            message(literal, run=run.name, rows=whole(value), sample=value)
            for value, literal in remarks
            if value
        ]
    return said


def _compared(outcome: Outcome) -> str:
    comparison = outcome.comparison
    compared = marked("Compared: {window} of {split} responses; {pairs} prompts in common.")
    names = {"val": marked("validation"), "train": marked("training"), "all": marked("all")}
    split, pairs = message(names[comparison.split]), whole(comparison.shared)
    said = [message(compared, window=_window(outcome), split=split, pairs=pairs)]
    for side, only in (("BASE", comparison.only_base), ("NEW", comparison.only_new)):
        if only:
            said.append(message("{only} prompts only in {side}.", only=whole(only), side=side))
    return sentences(said)


_COMPARED = ("kl_k1", "ref_reward", "valid_reward", "surprisal_mean", "response_tokens")


def _one_sided(outcome: Outcome) -> list[str]:
    base, new = outcome.base.side.responses, outcome.new.side.responses
    literal = marked("Only {side} logs {figures}, which cannot be compared.")
    said = []
    for here, there, name in ((base, new, "BASE"), (new, base, "NEW")):
        missing = tuple(RESPONSE[c].label for c in _COMPARED if c in here and c not in there)
        if missing:
            figures = told("{names:small}", {"names": missing})
            said.append(message(literal, side=name, figures=figures))
    return said


def texts_note(outcome: Outcome) -> str:
    """Return why texts are missing, "" where all are known."""
    flips = outcome.flips
    missing = sum(flip.base_text is None or flip.new_text is None for flip in flips)
    if outcome.redact:
        return message("Texts are left out (--redact).")
    if missing:
        return message(
            "{missing} of {flips} pairs lack a text that an earlier report did not keep.",
            missing=whole(missing),
            flips=whole(len(flips)),
        )
    return ""


def equal_kl(outcome: Outcome) -> str:
    """Return the comparison at the same distance from the reference."""
    comparison = outcome.comparison
    if not comparison.paths:
        return message("At equal KL: not compared, as KL is not logged by both runs.")
    if comparison.equal_kl is None:
        return message("At equal KL: no overlap; the runs were never as far from the reference.")
    both = {
        marked("reward"): comparison.equal_kl,
        marked("watched reward"): comparison.equal_kl_watched,
    }
    literal = marked("{name} {effect} (95% interval {low} to {high})")
    parts = [
        message(literal, name=message(name), effect=signed(found.effect), low=figure(found.low),
                high=figure(found.high))
        for name, found in both.items()
        if found is not None
    ]  # fmt: skip
    share = written(comparison.equal_kl.overlap, "share")
    literal = marked(
        "At equal KL: {parts}, over {share} of the range of √KL that either run reached."
    )
    return message(literal, parts=listed(parts), share=share)


def guardrail_name(guardrail: Guardrail) -> str:
    """Return its name as pages have it."""
    if guardrail.id.startswith(PART):
        return message("Reward part: {name}", name=guardrail.id.removeprefix(PART))
    return message({name: said for name, said, *_ in GUARDRAILS}[guardrail.id])


def unit_of(guardrail: Guardrail) -> str:
    """Return the unit of its figure."""
    return RESPONSE[guardrail.column].unit if guardrail.column in RESPONSE else ""


def shown(guardrail: Guardrail, *, in_a_pair: bool) -> str:
    """Return its level as benchstat would: "~" where nothing is shown."""
    if guardrail.level in ("none", "missing"):
        return {"none": "~", "missing": "–"}[guardrail.level]
    if guardrail.level != "changed" and not in_a_pair:
        return message("better") if guardrail.level == "better" else message("worse")
    if guardrail.effect.value > 0:
        return message("higher in this pair") if in_a_pair else message("higher")
    return message("lower in this pair") if in_a_pair else message("lower")


def failures(outcome: Outcome) -> str:
    """Return what the gate says, "" where it was not asked."""
    found = outcome.gate
    if found.failed:
        return message("The gate fails: {what}.", what=listed(found.failed))
    if found.exit:
        return message("The gate is inconclusive: evidence was required and there is none.")
    if found.fail_on:
        return message("The gate passes ({what}).", what=listed(found.fail_on))
    return ""
