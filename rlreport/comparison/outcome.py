"""Results of a comparison: effects, findings, texts, and the result of the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.noise import log_odds_z
from rlreport.comparison.compare import NEVER_BETTER, Comparison, Guardrail, compare_runs
from rlreport.comparison.earlier import ResponseId
from rlreport.comparison.run import ComparedRun, RunFinding
from rlreport.comparison.statistics import shrunk
from rlreport.figures.ragged import Floats
from rlreport.options import FAIL_ON, CompareOptions
from rlreport.text.messages import message
from rlreport.text.tokens import units

MAX_FLIPS = 200

MAX_TEXTS = 512
"""Words are counted in a seeded sample of this many responses of each side in the window."""

MAX_NGRAM = 3
MAX_WORDS = 2048
"""Maximum number of words counted in a response."""

MIN_Z = 3.0
MAX_LISTED = 20
ALIKE = 0.9
"""An n-gram that contains another one replaces it if it occurs in this share of its texts."""

PASSED, FAILED, INCONCLUSIVE = 0, 1, 3


class Gate(NamedTuple):
    """Conditions of the gate, those that failed (``worse``, ``guardrail:ID``), and exit status."""

    fail_on: tuple[str, ...]
    failed: tuple[str, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A prompt won or lost: its mean rewards in the window and their difference.

    ``base_response`` and ``new_response`` are (step, n) of the responses nearest to these means,
    ``number`` is the number of the prompt in NEW; unavailable texts are None.
    """

    pair: int
    base: float
    new: float
    delta: float
    base_response: ResponseId
    new_response: ResponseId
    number: int = 0
    prompt: str | None = None
    base_text: str | None = None
    new_text: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison with its runs, texts, findings and the result of the gate.

    Attributes:
        changed: findings that are ``new``, ``fixed`` or ``still`` there relative to the first
            BASE, and those that are ``critical`` in NEW only.
        ngrams: see ``distinctive_texts``.
        counted: number of responses whose words were counted, of BASE and of NEW.
        tokens: see ``tokens_of_kl``.
        redact: whether texts are left out.
    """

    bases: Sequence[ComparedRun]
    new: ComparedRun
    comparison: Comparison
    changed: Mapping[str, list[RunFinding]]
    gate: Gate
    flips: Sequence[Flip]
    ngrams: pd.DataFrame
    counted: tuple[int, int]
    tokens: pd.DataFrame
    redact: bool

    @property
    def single_base(self) -> bool:
        """Whether BASE is one run, so that differences cannot be attributed to the change."""
        return len(self.bases) == 1

    @property
    def base(self) -> ComparedRun:
        """The first run of BASE, which curves, findings and flips refer to."""
        return self.bases[0]

    @property
    def broken(self) -> list[tuple[str, ComparedRun]]:
        """Labels of the runs whose verdict is critical, and these runs."""
        bases = [
            ("BASE" if self.single_base else message("BASE ({run})", run=run.name), run)
            for run in self.bases
        ]
        return [(name, run) for name, run in (*bases, ("NEW", self.new)) if run.broken]


def outcome_of(bases: Sequence[ComparedRun], new: ComparedRun, options: CompareOptions) -> Outcome:
    """Compare a run with one or several runs of BASE, and read the texts to show."""
    base = bases[0]
    comparison = compare_runs([run.side for run in bases], new.side, seed=options.seed)
    guardrails = [_unless_collapsed(g, base, new) for g in comparison.guardrails]
    if comparison.within_runs:
        guardrails = [
            g._replace(level="changed") if g.level in ("better", "worse") else g for g in guardrails
        ]
    comparison = replace(comparison, guardrails=guardrails)
    changed = _changed(base, new)
    won_and_lost = flips(comparison)
    numbers = prompt_numbers(new)
    texts_by_side, words = [], []
    for run, frame, in_flips in (
        (base, comparison.inside[0], {flip.base_response for flip in won_and_lost}),
        (new, comparison.inside[-1], {flip.new_response for flip in won_and_lost}),
    ):
        counted = _counted(run, frame, options.seed)
        texts = {} if options.redact else run.texts({*counted, *in_flips})
        texts_by_side.append(texts)
        words.append([texts[one][1] for one in sorted(counted) if one in texts][:MAX_TEXTS])
    return Outcome(
        bases,
        new,
        comparison,
        changed,
        _gate(comparison, changed["critical"], options),
        [_with_texts(flip, numbers[flip.pair], *texts_by_side) for flip in won_and_lost],
        distinctive_texts(*words),
        (len(words[0]), len(words[1])),
        tokens_of_kl(None, None) if options.redact else tokens_of_kl(base.tokens, new.tokens),
        bool(options.redact),
    )


def _unless_collapsed(guardrail: Guardrail, base: ComparedRun, new: ComparedRun) -> Guardrail:
    """Return a guardrail with level ``changed`` if the collapse of a run explains its difference.

    Nothing is better because a run collapsed, or worse because the other run did.
    """
    if new.collapsed:
        by_collapse = guardrail.level == "better"
    elif guardrail.id in NEVER_BETTER:
        by_collapse = base.collapsed and guardrail.level == "worse"
    else:
        by_collapse = False
    return guardrail._replace(level="changed") if by_collapse else guardrail


def _changed(base: ComparedRun, new: ComparedRun) -> dict[str, list[RunFinding]]:
    critical_in_base = {
        name for name, finding in base.findings.items() if finding.severity == "critical"
    }
    return {
        "new": [one for name, one in new.findings.items() if name not in base.findings],
        "fixed": [one for name, one in base.findings.items() if name not in new.findings],
        "still": [one for name, one in new.findings.items() if name in base.findings],
        "critical": [
            one
            for name, one in new.findings.items()
            if one.severity == "critical" and name not in critical_in_base
        ],
    }


def _gate(comparison: Comparison, critical: list[RunFinding], options: CompareOptions) -> Gate:
    wanted = set(FAIL_ON) if "any" in options.fail_on else set(options.fail_on)
    failed = []
    # NaN, of runs that cannot be compared, is not below anything.
    lower = comparison.effect.high < -options.margin and not comparison.metrics_alone
    if "worse" in wanted and lower:
        failed.append("worse")
    if "guardrail" in wanted:
        failed += [f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"]
    if "new-critical" in wanted:
        failed += [f"new-critical:{finding.id}" for finding in critical]
    evidence = comparison.level in ("better", "worse") or not options.require_evidence
    status = FAILED if failed else PASSED if evidence else INCONCLUSIVE
    return Gate(tuple(sorted(wanted)), tuple(failed), status)


def flips(comparison: Comparison, most: int = MAX_FLIPS) -> list[Flip]:
    """Return prompts whose mean rewards differ by more than rounding, most significant first."""
    if not comparison.effect.paired:
        return []
    base, new = comparison.inside[0], comparison.inside[-1]
    scored = [frame[np.isfinite(frame["reward"])] for frame in (base, new)]
    sides = [_rewards_by_prompt(one[one["pair"].isin(other["pair"])])
             for one, other in (scored, scored[::-1])]  # fmt: skip
    table = sides[0].add_suffix("_base").join(sides[1].add_suffix("_new"))
    delta = (table["reward_new"] - table["reward_base"]).to_numpy()
    errors = np.hypot(table["error_base"].to_numpy(), table["error_new"].to_numpy())
    table = table.iloc[np.argsort(-np.abs(shrunk(delta, errors)), kind="stable")]
    return [
        Flip(pair, old, current, current - old, nearest_old, nearest)
        for pair, old, _, nearest_old, current, _, nearest in table.itertuples(name=None)
        if abs(current - old) > comparison.rounding
    ][:most]


def _rewards_by_prompt(frame: pd.DataFrame) -> pd.DataFrame:
    """Return by prompt the mean ``reward``, its ``error``, and the ``response`` nearest to it.

    The error uses the pooled variance of all prompts.
    """
    frame = frame.reset_index(drop=True)
    rewards = frame.groupby("pair")["reward"]
    deviation, counts = frame["reward"] - rewards.transform("mean"), rewards.count()
    variance = (deviation**2).sum() / max(1, len(frame) - len(counts))
    nearest = frame.loc[deviation.abs().groupby(frame["pair"]).idxmin(), ["step", "n"]]
    table = pd.DataFrame({"reward": rewards.mean(), "error": np.sqrt(variance / counts)})
    places = zip(nearest["step"].tolist(), nearest["n"].tolist(), strict=True)
    return table.assign(response=pd.Series(list(places), table.index, dtype=object))


def prompt_numbers(run: ComparedRun) -> dict[int, int]:
    """Return the number of each prompt in a run, from 1, by ``pair``."""
    first = run.side.responses.drop_duplicates("pair")
    return dict(zip(first["pair"].tolist(), (first["prompt_id"] + 1).tolist(), strict=True))


def _with_texts(
    flip: Flip,
    number: int,
    base: Mapping[ResponseId, tuple[str, str]],
    new: Mapping[ResponseId, tuple[str, str]],
) -> Flip:
    base_prompt, base_text = base.get(flip.base_response, (None, None))
    new_prompt, new_text = new.get(flip.new_response, (None, None))
    prompt = base_prompt if new_prompt is None else new_prompt
    return replace(flip, number=number, prompt=prompt, base_text=base_text, new_text=new_text)


def _counted(run: ComparedRun, inside: pd.DataFrame, seed: int) -> set[ResponseId]:
    """Return the responses of a window whose words are counted.

    Of a report these are all responses, as it contains the texts of some only.
    """
    if run.from_logs and len(inside) > MAX_TEXTS:
        inside = inside.iloc[np.random.default_rng(seed).permutation(len(inside))[:MAX_TEXTS]]
    return set(inside[["step", "n"]].itertuples(index=False, name=None))


def distinctive_texts(base: Sequence[str], new: Sequence[str]) -> pd.DataFrame:
    """Return the n-grams that more responses of NEW contain than of BASE.

    Returns:
        ``ngram``, ``base_share``, ``new_share`` (of responses that contain it) and ``z``
        (``log_odds_z``), the largest z first, at most MAX_LISTED.
    """
    if not base or not new:
        return pd.DataFrame(columns=["ngram", "base_share", "new_share", "z"])
    before, after = _holders(base), _holders(new)
    ngrams = sorted(ngram for ngram, count in after.items() if count >= 2)
    held, was = (
        np.array([counts[ngram] for ngram in ngrams], np.float64) for counts in (after, before)
    )
    z = log_odds_z(held, len(new), was, len(base))
    chosen: list[int] = []
    for i in np.argsort(-z, kind="stable").tolist():
        if z[i] < MIN_Z or len(chosen) == MAX_LISTED:
            break
        if not any(_same(ngrams[i], ngrams[j], held[[i, j]]) for j in chosen):
            chosen.append(i)
    shares = {"base_share": was[chosen] / len(base), "new_share": held[chosen] / len(new)}
    return pd.DataFrame({"ngram": [ngrams[i] for i in chosen], **shares, "z": z[chosen]})


def _holders(texts: Sequence[str]) -> Counter[str]:
    """Return the number of texts that contain each n-gram (words joined by blanks)."""
    counts: Counter[str] = Counter()
    for text in texts:
        words = units(text)[:MAX_WORDS]
        lengths = range(1, MAX_NGRAM + 1)
        counts.update(
            {" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)}
        )
    return counts


def _same(ngram: str, other: str, held: Floats) -> bool:
    """Return whether one of two n-grams is redundant given the other."""
    inside = f" {ngram} " in f" {other} " or f" {other} " in f" {ngram} "
    return inside and bool(held.min() >= ALIKE * held.max())


def tokens_of_kl(base: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame:
    """Compare tokens by their share of the run's KL: ``token`` and ``kl_share`` of each side.

    Returns:
        ``token``, ``base_share``, ``new_share`` and ``change``, the largest change first.
    """
    if base is None or new is None:
        return pd.DataFrame(columns=["token", "base_share", "new_share", "change"])
    shares = [table.groupby("token")["kl_share"].sum() for table in (base, new)]
    both = pd.DataFrame({"base_share": shares[0], "new_share": shares[1]}).fillna(0.0)
    both["change"] = both["new_share"] - both["base_share"]
    both = both[both["change"] != 0].rename_axis("token")
    order = np.argsort(-both["change"].abs().to_numpy(), kind="stable")[:MAX_LISTED]
    return both.iloc[order].reset_index()
