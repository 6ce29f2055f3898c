"""The outcome of a comparison: effects, findings, texts, ``--fail-on``, and its exported files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport import __version__
from rlreport.check.finding import FIRST_WORDS, Finding
from rlreport.check.noise import log_odds_z, share_z
from rlreport.check.registry import BY_ID
from rlreport.comparison.compare import (
    GUARDRAILS,
    NEVER_BETTER,
    OF_WHOLE_TEXTS,
    Comparison,
    Guardrail,
    compare_runs,
)
from rlreport.comparison.reports import PART, TRAINER, ResponseId
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.statistics import Effect, shrunk
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change, difference, significant
from rlreport.options import FAIL_ON, CompareOptions
from rlreport.summarise.steps import rounded_columns
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
from rlreport.text.tokens import units

MAX_FLIPS = 200

MAX_TEXTS = 512  # Words are counted in a random sample of this many compared responses per run
MAX_NGRAM = 3
MAX_WORDS = 2048  # Maximum number of words counted in a response
MIN_Z = 3.0
MAX_LISTED = 20
# If an n-gram contains another and their counts differ by up to 10%, only one is listed
ALIKE = 0.9

PASSED = 0
FAILED = 1
INCONCLUSIVE = 3

_Texts = Mapping[ResponseId, tuple[str, str]]  # id of a response -> (prompt, response)


class Gate(NamedTuple):
    """Result of ``--fail-on``: its conditions, those met (``guardrail:kl``), and exit status."""

    fail_on: tuple[str, ...]
    failed: tuple[str, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A prompt won or lost by NEW: its mean rewards in both runs, and ``delta``, NEW - BASE."""

    pair: int
    base: float
    new: float
    delta: float
    # the responses with the reward nearest to these means
    base_response: ResponseId
    new_response: ResponseId
    number: int = 0  # number of the prompt in NEW, from 1
    # texts, None if unavailable
    prompt: str | None = None
    base_text: str | None = None
    new_text: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison with its runs, texts, findings and the result of ``--fail-on`` (``gate``)."""

    bases: Sequence[ComparedRun]
    news: Sequence[ComparedRun]
    comparison: Comparison
    # lists of findings (detected problems): ``new``, ``fixed`` or ``still`` present in the first
    # NEW run relative to the first BASE run, and ``critical`` in NEW only
    changed: Mapping[str, list[Finding]]
    gate: Gate
    flips: Sequence[Flip]
    ngrams: pd.DataFrame  # see ``distinctive_texts``
    counted: tuple[int, int]  # number of responses whose words were counted, of BASE and of NEW
    tokens: pd.DataFrame  # see ``tokens_of_kl``
    redact: bool  # whether ``--redact`` leaves texts out

    @property
    def is_pair(self) -> bool:
        """Whether both sides are one run, so that a difference may be due to the seed alone."""
        return len(self.bases) == len(self.news) == 1

    @property
    def base(self) -> ComparedRun:
        """The first BASE run; curves, findings, and prompts won or lost compare it with ``new``."""
        return self.bases[0]

    @property
    def new(self) -> ComparedRun:
        return self.news[0]

    @property
    def runs(self) -> list[tuple[str, ComparedRun]]:
        """(label such as ``NEW`` or ``BASE (seed1)``, run) of each run."""
        return [
            (side if len(runs) == 1 else f"{side} ({run.name})", run)
            for side, runs in (("BASE", self.bases), ("NEW", self.news))
            for run in runs
        ]

    @property
    def broken(self) -> list[tuple[str, ComparedRun]]:

        return [(name, run) for name, run in self.runs if run.broken]


def outcome_of(
    bases: Sequence[ComparedRun], news: Sequence[ComparedRun], options: CompareOptions
) -> Outcome:
    """Compare NEW with BASE, one or several runs each, and read the texts that the pages show."""
    base = bases[0]
    new = news[0]
    comparison = compare_runs([run.side for run in bases], [run.side for run in news])
    guardrails = [
        g._replace(level="changed") if _is_undecided(g, base, new, comparison) else g
        for g in comparison.guardrails
    ]
    comparison = replace(comparison, guardrails=guardrails)
    changed = _changed_findings(base, new)
    won_and_lost = flips(comparison)
    numbers = prompt_numbers(new)
    texts_by_side = []
    words = []
    for run, inside, in_flips in (
        (base, comparison.compared[0], {flip.base_response for flip in won_and_lost}),
        (new, comparison.compared[1], {flip.new_response for flip in won_and_lost}),
    ):
        ids = inside[["step", "n"]]
        if run.from_logs and len(ids) > MAX_TEXTS:
            ids = ids.iloc[np.random.default_rng(0).permutation(len(ids))[:MAX_TEXTS]]
        counted_ids = set(ids.itertuples(index=False, name=None))
        texts = {} if options.redact else run.texts({*counted_ids, *in_flips})
        texts_by_side.append(texts)
        words.append([texts[key][1] for key in sorted(counted_ids) if key in texts][:MAX_TEXTS])
    return Outcome(
        bases,
        news,
        comparison,
        changed,
        _gate(comparison, changed["critical"], options),
        [_with_texts(flip, numbers[flip.pair], *texts_by_side) for flip in won_and_lost],
        distinctive_texts(*words),
        (len(words[0]), len(words[1])),
        tokens_of_kl(None, None) if options.redact else tokens_of_kl(base.tokens, new.tokens),
        bool(options.redact),
    )


def _is_undecided(
    guardrail: Guardrail, base: ComparedRun, new: ComparedRun, comparison: Comparison
) -> bool:
    """Return whether a guardrail only "changed": after a collapse, or with few runs of metrics."""
    if comparison.metrics_alone and not comparison.has_enough_runs:
        return guardrail.level in ("better", "worse")
    if new.collapsed:
        return guardrail.level == "better"
    return base.collapsed and guardrail.level == "worse" and guardrail.id in NEVER_BETTER


def _changed_findings(base: ComparedRun, new: ComparedRun) -> dict[str, list[Finding]]:
    critical = [finding for finding in new.findings.values() if finding.severity == "critical"]
    known = {name for name, finding in base.findings.items() if finding.severity == "critical"}
    return {
        "new": [finding for name, finding in new.findings.items() if name not in base.findings],
        "fixed": [finding for name, finding in base.findings.items() if name not in new.findings],
        "still": [finding for name, finding in new.findings.items() if name in base.findings],
        "critical": [finding for finding in critical if finding.id not in known],
    }


def _gate(comparison: Comparison, critical: list[Finding], options: CompareOptions) -> Gate:
    conditions = set(FAIL_ON if "any" in options.fail_on else options.fail_on)
    failed = []
    # ``high`` is NaN for runs that cannot be compared; the comparison is false then.
    lower = comparison.effect.high < -options.margin
    if (
        "worse" in conditions
        and lower
        and (comparison.has_enough_runs or not comparison.metrics_alone)
    ):
        failed.append("worse")
    if "guardrail" in conditions:
        failed += [f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"]
    if "new-critical" in conditions:
        failed += [f"new-critical:{finding.id}" for finding in critical]
    evidence = comparison.level in ("better", "worse") or not options.require_evidence
    status = FAILED if failed else PASSED if evidence else INCONCLUSIVE
    return Gate(tuple(sorted(conditions)), tuple(failed), status)


def flips(comparison: Comparison, most: int = MAX_FLIPS) -> list[Flip]:
    """Return up to ``most`` paired prompts with different rewards, by ``shrunk`` difference."""
    if not comparison.effect.paired:
        return []
    base, new = comparison.compared
    scored = [frame[np.isfinite(frame["reward"])] for frame in (base, new)]
    sides = [_rewards_by_prompt(one[one["pair"].isin(other["pair"])])
             for one, other in (scored, scored[::-1])]  # fmt: skip
    table = sides[0].add_suffix("_base").join(sides[1].add_suffix("_new"))
    delta = difference(table["reward_new"], table["reward_base"])
    errors = np.hypot(table["error_base"].to_numpy(), table["error_new"].to_numpy())
    table = table.iloc[np.argsort(-np.abs(shrunk(delta, errors)), kind="stable")]
    return [
        Flip(pair, old, current, change(old, current), nearest_old, nearest)
        for pair, old, _, nearest_old, current, _, nearest in table.itertuples(name=None)
        if not isclose(current, old)
    ][:most]


def _rewards_by_prompt(frame: pd.DataFrame) -> pd.DataFrame:
    """Return per prompt the mean ``reward``, its ``error`` and the ``response`` nearest to it."""
    frame = frame.reset_index(drop=True)
    rewards = frame.groupby("pair")["reward"]
    means = rewards.transform("mean")
    counts = rewards.count()
    deviation = pd.Series(difference(frame["reward"], means), frame.index)
    variance = (deviation**2).sum() / max(1, len(frame) - len(counts))
    nearest = frame.loc[deviation.abs().groupby(frame["pair"]).idxmin(), ["step", "n"]]
    columns = {"reward": rewards.mean(), "error": np.sqrt(variance / counts)}
    table = rounded_columns(pd.DataFrame(columns))
    ids = zip(nearest["step"].tolist(), nearest["n"].tolist(), strict=True)
    return table.assign(response=pd.Series(list(ids), table.index, dtype=object))


def prompt_numbers(run: ComparedRun) -> dict[int, int]:
    """Return ``pair`` (key of a prompt) -> number of the prompt in the run, counted from 1."""
    first = run.side.responses.drop_duplicates("pair")
    return dict(zip(first["pair"].tolist(), (first["prompt_id"] + 1).tolist(), strict=True))


def _with_texts(flip: Flip, number: int, base: _Texts, new: _Texts) -> Flip:
    base_prompt, base_text = base.get(flip.base_response, (None, None))
    new_prompt, new_text = new.get(flip.new_response, (None, None))
    prompt = base_prompt if new_prompt is None else new_prompt
    return replace(flip, number=number, prompt=prompt, base_text=base_text, new_text=new_text)


def distinctive_texts(base: Sequence[str], new: Sequence[str]) -> pd.DataFrame:
    """Return up to MAX_LISTED n-grams that are in clearly more texts of NEW, by descending z."""
    if not base or not new:
        return pd.DataFrame(columns=["ngram", "base_share", "new_share", "z"])
    before = _text_counts(base)
    after = _text_counts(new)
    ngrams = sorted(ngram for ngram, count in after.items() if count >= 2)
    new_counts = np.array([after[ngram] for ngram in ngrams], np.float64)
    base_counts = np.array([before[ngram] for ngram in ngrams], np.float64)
    counts = new_counts, len(new), base_counts, len(base)
    z = np.minimum(log_odds_z(*counts), share_z(*counts))
    chosen: list[int] = []
    for i in np.argsort(-z, kind="stable").tolist():
        if z[i] < MIN_Z or len(chosen) == MAX_LISTED:
            break
        if not any(_is_redundant(ngrams[i], ngrams[j], new_counts[[i, j]]) for j in chosen):
            chosen.append(i)
    base_share = base_counts[chosen] / len(base)
    new_share = new_counts[chosen] / len(new)
    shares = {"base_share": significant(base_share), "new_share": significant(new_share)}
    return pd.DataFrame({"ngram": [ngrams[i] for i in chosen], **shares, "z": z[chosen]})


def _text_counts(texts: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    sizes = range(1, MAX_NGRAM + 1)
    for text in texts:
        words = units(text)[:MAX_WORDS]
        counts.update(
            {" ".join(words[i : i + n]) for n in sizes for i in range(len(words) - n + 1)}
        )
    return counts


def _is_redundant(ngram: str, other: str, counts: Floats) -> bool:
    """Return whether one n-gram contains the other and both have nearly the same count."""
    inside = f" {ngram} " in f" {other} " or f" {other} " in f" {ngram} "
    return inside and bool(counts.min() >= ALIKE * counts.max())


def tokens_of_kl(base: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame:
    """Return up to MAX_LISTED tokens whose share of the KL differs, the largest change first."""
    if base is None or new is None:
        return pd.DataFrame(columns=["token", "base_share", "new_share", "change"])
    shares = [table.groupby("token")["kl_share"].sum() for table in (base, new)]
    both = pd.DataFrame({"base_share": shares[0], "new_share": shares[1]}).fillna(0.0)
    both["change"] = difference(both["new_share"], both["base_share"])
    both = rounded_columns(both)
    both = both[both["change"] != 0].rename_axis("token")
    order = np.argsort(-both["change"].abs().to_numpy(), kind="stable")[:MAX_LISTED]
    return both.iloc[order].reset_index()


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
        return message("Both are broken") if outcome.is_pair else message("All are broken")
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
        return sentences([*parts, message("{clause}.", clause=name), _reasons(outcome)[-1]])
    paired = translatable("{pairs} prompts in pairs")
    unpaired = translatable("unpaired, at least {pairs} prompts per side")
    if comparison.metrics_alone:
        unpaired = translatable("within these runs, at least {pairs} blocks of steps per side")
    places = {
        "effect": signed(effect.value),
        "interval": message("{low} to {high}", low=figure(effect.low), high=figure(effect.high)),
        "prompts": message(paired if effect.paired else unpaired, pairs=whole(effect.pairs)),
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
            parts.append(message(_REACHED[name], reward=figure(reached.reward), **sides))
        result.append(message("Reached {parts} (mean of a window).", parts=clauses(parts)))
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
    return [message(literal, run=name, reason=_lead(run)) for name, run in outcome.broken]


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
    worse = [guardrail_name(g) for g in outcome.comparison.guardrails if g.level == "worse"]
    new = [check_name(f.id) for f in outcome.changed["critical"] if f.id != outcome.new.lead]
    lists = (
        (translatable("Guardrails that are worse in NEW: {names}."), worse),
        (translatable("New critical findings: {names}."), new),
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
    comparison = outcome.comparison
    places = {"base_window": _base_window(outcome), "new_window": span(comparison.windows.new)}
    return [message(REASONS[reason], **places) for reason in comparison.reasons]


def notes(outcome: Outcome) -> list[str]:
    """Return sentences on what was compared, its limits, and the data that each run lacks."""
    comparison = outcome.comparison
    parts = [_compared(outcome)]
    if (mde := comparison.effect.mde) > 0:
        parts.append(message("Minimum detectable effect (80% power): {mde}.", mde=figure(mde)))
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
    dropped = translatable(
        "{run}: its report lacks the figures of {rows} responses from the first steps, because "
        "of its size limit."
    )
    sampled = translatable("{run}: distinct-2 and shares of the KL are {sample}.")
    unpaired = translatable("{run}: responses without the field of --pair-by, left out: {rows}.")
    remarks = ((run.dropped, dropped), (run.sample_note, sampled), (run.side.unpaired, unpaired))
    return [
        message(literal, run=run.name, rows=whole(value), sample=value)
        for value, literal in remarks
        if value
    ]


def texts_note(outcome: Outcome) -> str:
    """Return a sentence on why texts are missing, "" if all are available."""
    if outcome.redact:
        return message("Texts are left out (--redact).")
    missing = sum(flip.base_text is None or flip.new_text is None for flip in outcome.flips)
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
        return message("At equal KL: not compared, as this needs KL per response in both runs.")
    rewards = comparison.equal_kl["reward"]
    watched = comparison.equal_kl["valid_reward"]
    if rewards is None:
        return message("At equal KL: not compared, as rewards or a common KL range are missing.")
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
    return message(next(label for name, label, *_ in GUARDRAILS if name == guardrail.id))


def guardrails_note(comparison: Comparison) -> str:
    """Return which guardrails are not compared (but for unlogged metrics) and why, or ""."""
    no_data = translatable("Not compared, as a run has no data: {names}.")
    too_few = translatable("Not compared, as too few prompts or blocks have data: {names}.")
    cut = translatable("Not compared, as the logger cuts texts: {names}.")
    names: dict[str, list[str]] = {no_data: [], cut: [], too_few: []}
    for guardrail in (one for one in comparison.guardrails if one.level == "missing"):
        logged = bool(np.isfinite([guardrail.base, guardrail.new]).all())
        # Only few trainers log what responses do not have.
        if logged or not guardrail.column.startswith(TRAINER):
            is_cut = comparison.cut and guardrail.column in OF_WHOLE_TEXTS
            why = too_few if logged else cut if is_cut else no_data
            names[why].append(guardrail_name(guardrail))
    return sentences([message(text, names=listed(part)) for text, part in names.items() if part])


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


SCHEMA = 3
PROMPT_CHARACTERS = 400


def compare_json(outcome: Outcome) -> dict[str, Any]:
    comparison = outcome.comparison
    changed = outcome.changed
    effect = comparison.effect
    windows = comparison.windows
    band = comparison.band
    equal_kl = {name: one and one._asdict() for name, one in comparison.equal_kl.items()}
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {"base": [r.name for r in outcome.bases], "new": [r.name for r in outcome.news]},
        "levels": {
            "base": [run.level for run in outcome.bases],
            "new": [run.level for run in outcome.news],
        },
        "window": {"steps": windows.new, "steps_base": windows.bases[0], "split": comparison.split},
        "gate": {"failed": list(outcome.gate.failed), "exit": outcome.gate.exit},
        "verdict": {
            "level": comparison.level,
            "sentence": sentence(outcome),
            **_effect(effect),
            "pairs": effect.pairs if effect.paired else 0,
            "only_base": comparison.only_base,
            "only_new": comparison.only_new,
            "paired": effect.paired,
            "reasons": comparison.reasons,
        },
        "guardrails": [
            {"id": g.id, "base": g.base, "new": g.new, **_effect(g.effect), "level": g.level}
            for g in comparison.guardrails
        ],
        "curves": {
            "step": windows.common.tolist(),
            **{name: values.tolist() for name, values in band._asdict().items()},
        },
        "findings": {name: [one.id for one in changed[name]] for name in ("new", "fixed", "still")},
        "flips": [_flip(flip) for flip in outcome.flips],
        "speed": {name: one._asdict() for name, one in comparison.speed.items()} or None,
        "equal_kl": equal_kl["reward"],
        "equal_kl_watched": equal_kl["valid_reward"],
    }


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return a row per compared prompt: unless redacted, with hash and, if in ``flips``, text."""
    sides = [
        frame.groupby("pair")["reward"].agg(responses="size", reward="mean").add_prefix(prefix)
        for prefix, frame in zip(("base_", "new_"), outcome.comparison.compared, strict=True)
    ]
    table: pd.DataFrame = sides[0].join(sides[1], how="outer").sort_index()
    table["difference"] = difference(table["new_reward"], table["base_reward"])
    table = rounded_columns(table)
    table.insert(0, "prompt_new", table.index.map(prompt_numbers(outcome.new)).astype("Int64"))
    if not outcome.redact and outcome.new.side.named and outcome.base.side.named:
        texts = {flip.pair: (flip.prompt or "")[:PROMPT_CHARACTERS] for flip in outcome.flips}
        table.insert(1, "prompt_hash", [f"{pair:016x}" for pair in table.index])
        table.insert(2, "prompt", [texts.get(pair, "") for pair in table.index])
    return table


def _effect(effect: Effect) -> dict[str, float]:
    return {"effect": effect.value, "low": effect.low, "high": effect.high, "mde": effect.mde}


def _flip(flip: Flip) -> dict[str, Any]:
    prompt = flip.number if flip.prompt is None else flip.prompt[:PROMPT_CHARACTERS]
    responses = {"base": flip.base_response, "new": flip.new_response}
    return {
        "prompt": prompt,
        **{name: getattr(flip, name) for name in ("base", "new", "delta")},
        "responses": {side: {"step": step, "n": n} for side, (step, n) in responses.items()},
    }
