"""The outcome of a comparison: effects, findings, texts, and the result of ``--fail-on``."""

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

MAX_TEXTS = 512  # Words are counted in a random sample of this many compared responses per run
MAX_NGRAM = 3
MAX_WORDS = 2048  # Maximum number of words counted in a response
MIN_Z = 3.0
MAX_LISTED = 20
# If an n-gram contains another and their counts differ by up to 10%, only one is listed
ALIKE = 0.9

PASSED, FAILED, INCONCLUSIVE = 0, 1, 3


class Gate(NamedTuple):
    """Result of ``--fail-on``: conditions given, those met (``guardrail:kl``), and exit status."""

    fail_on: tuple[str, ...]
    failed: tuple[str, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A prompt won or lost by NEW: its mean rewards in both runs, and their difference NEW - BASE.

    ``base_response`` and ``new_response`` are the responses with the reward nearest to these means.
    ``number`` is the number of the prompt in NEW, from 1. Unavailable texts are None.
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
    """A comparison with its runs, texts, findings and the result of ``--fail-on`` (``gate``)."""

    bases: Sequence[ComparedRun]
    new: ComparedRun
    comparison: Comparison
    # lists of findings (detected problems): ``new``, ``fixed`` or ``still`` present relative to the
    # first BASE run, and ``critical`` in NEW only
    changed: Mapping[str, list[RunFinding]]
    gate: Gate
    flips: Sequence[Flip]
    ngrams: pd.DataFrame  # see ``distinctive_texts``
    counted: tuple[int, int]  # number of responses whose words were counted, of BASE and of NEW
    tokens: pd.DataFrame  # see ``tokens_of_kl``
    redact: bool  # whether ``--redact`` leaves texts out

    @property
    def single_base(self) -> bool:
        """Whether BASE is one run, so that a difference may be due to the seed alone."""
        return len(self.bases) == 1

    @property
    def base(self) -> ComparedRun:
        """The first BASE run; curves, findings, and prompts won or lost compare NEW with it."""
        return self.bases[0]

    @property
    def broken(self) -> list[tuple[str, ComparedRun]]:
        """(label such as ``NEW``, run) of each run whose own verdict is critical."""
        bases = [
            ("BASE" if self.single_base else message("BASE ({run})", run=run.name), run)
            for run in self.bases
        ]
        return [(name, run) for name, run in (*bases, ("NEW", self.new)) if run.broken]


def outcome_of(bases: Sequence[ComparedRun], new: ComparedRun, options: CompareOptions) -> Outcome:
    """Compare NEW with one or several BASE runs, and read the texts that the pages show."""
    base = bases[0]
    comparison = compare_runs([run.side for run in bases], new.side, seed=options.seed)
    guardrails = [_discount_collapse(g, base, new) for g in comparison.guardrails]
    if comparison.within_runs:
        guardrails = [
            g._replace(level="changed") if g.level in ("better", "worse") else g for g in guardrails
        ]
    comparison = replace(comparison, guardrails=guardrails)
    changed = _changed_findings(base, new)
    won_and_lost = flips(comparison)
    numbers = prompt_numbers(new)
    texts_by_side, words = [], []
    for run, frame, in_flips in (
        (base, comparison.inside[0], {flip.base_response for flip in won_and_lost}),
        (new, comparison.inside[-1], {flip.new_response for flip in won_and_lost}),
    ):
        counted_ids = _ids_to_count(run, frame, options.seed)
        texts = {} if options.redact else run.texts({*counted_ids, *in_flips})
        texts_by_side.append(texts)
        words.append([texts[key][1] for key in sorted(counted_ids) if key in texts][:MAX_TEXTS])
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


def _discount_collapse(guardrail: Guardrail, base: ComparedRun, new: ComparedRun) -> Guardrail:
    """Return the guardrail, with level ``changed`` if a collapsed policy explains the difference.

    A collapse of NEW makes no guardrail better, and one of BASE makes NEW's length no worse.
    """
    if new.collapsed:
        by_collapse = guardrail.level == "better"
    elif guardrail.id in NEVER_BETTER:
        by_collapse = base.collapsed and guardrail.level == "worse"
    else:
        by_collapse = False
    return guardrail._replace(level="changed") if by_collapse else guardrail


def _changed_findings(base: ComparedRun, new: ComparedRun) -> dict[str, list[RunFinding]]:
    critical_in_base = {
        name for name, finding in base.findings.items() if finding.severity == "critical"
    }
    return {
        "new": [finding for name, finding in new.findings.items() if name not in base.findings],
        "fixed": [finding for name, finding in base.findings.items() if name not in new.findings],
        "still": [finding for name, finding in new.findings.items() if name in base.findings],
        "critical": [
            finding
            for name, finding in new.findings.items()
            if finding.severity == "critical" and name not in critical_in_base
        ],
    }


def _gate(comparison: Comparison, critical: list[RunFinding], options: CompareOptions) -> Gate:
    conditions = set(FAIL_ON) if "any" in options.fail_on else set(options.fail_on)
    failed = []
    # ``high`` is NaN for runs that cannot be compared; the comparison is false then.
    lower = comparison.effect.high < -options.margin and not comparison.metrics_alone
    if "worse" in conditions and lower:
        failed.append("worse")
    if "guardrail" in conditions:
        failed += [f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"]
    if "new-critical" in conditions:
        failed += [f"new-critical:{finding.id}" for finding in critical]
    evidence = comparison.level in ("better", "worse") or not options.require_evidence
    status = FAILED if failed else PASSED if evidence else INCONCLUSIVE
    return Gate(tuple(sorted(conditions)), tuple(failed), status)


def flips(comparison: Comparison, most: int = MAX_FLIPS) -> list[Flip]:
    """Return the prompts whose mean reward differs between the runs, largest difference first.

    For sorting, noisy differences (few responses) are reduced, see ``statistics.shrunk``.
    """
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
    """Return a row per prompt: mean ``reward``, its standard ``error``, and a ``response``.

    ``error`` uses one variance pooled over all prompts. ``response`` is the id of the response
    whose reward is nearest to the mean.
    """
    frame = frame.reset_index(drop=True)
    rewards = frame.groupby("pair")["reward"]
    deviation, counts = frame["reward"] - rewards.transform("mean"), rewards.count()
    variance = (deviation**2).sum() / max(1, len(frame) - len(counts))
    nearest = frame.loc[deviation.abs().groupby(frame["pair"]).idxmin(), ["step", "n"]]
    table = pd.DataFrame({"reward": rewards.mean(), "error": np.sqrt(variance / counts)})
    ids = zip(nearest["step"].tolist(), nearest["n"].tolist(), strict=True)
    return table.assign(response=pd.Series(list(ids), table.index, dtype=object))


def prompt_numbers(run: ComparedRun) -> dict[int, int]:
    """Return ``pair`` (key of a prompt) -> number of the prompt in the run, counted from 1."""
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


def _ids_to_count(run: ComparedRun, inside: pd.DataFrame, seed: int) -> set[ResponseId]:
    """Return the ids of the responses whose words are counted: for logs, a random sample.

    For a report all ids are returned, as it contains the texts of few responses anyway.
    """
    if run.from_logs and len(inside) > MAX_TEXTS:
        inside = inside.iloc[np.random.default_rng(seed).permutation(len(inside))[:MAX_TEXTS]]
    return set(inside[["step", "n"]].itertuples(index=False, name=None))


def distinctive_texts(base: Sequence[str], new: Sequence[str]) -> pd.DataFrame:
    """Find n-grams that are clearly more frequent in responses of NEW than in those of BASE.

    Returns:
        Up to MAX_LISTED rows by descending z: ``ngram``, ``base_share`` and ``new_share`` (fraction
        of responses that contain it) and ``z`` (``log_odds_z``).
    """
    if not base or not new:
        return pd.DataFrame(columns=["ngram", "base_share", "new_share", "z"])
    before, after = _text_counts(base), _text_counts(new)
    ngrams = sorted(ngram for ngram, count in after.items() if count >= 2)
    new_counts, base_counts = (
        np.array([counts[ngram] for ngram in ngrams], np.float64) for counts in (after, before)
    )
    z = log_odds_z(new_counts, len(new), base_counts, len(base))
    chosen: list[int] = []
    for i in np.argsort(-z, kind="stable").tolist():
        if z[i] < MIN_Z or len(chosen) == MAX_LISTED:
            break
        if not any(_is_redundant(ngrams[i], ngrams[j], new_counts[[i, j]]) for j in chosen):
            chosen.append(i)
    shares = {
        "base_share": base_counts[chosen] / len(base),
        "new_share": new_counts[chosen] / len(new),
    }
    return pd.DataFrame({"ngram": [ngrams[i] for i in chosen], **shares, "z": z[chosen]})


def _text_counts(texts: Sequence[str]) -> Counter[str]:
    """Return n-gram (words joined by blanks) -> number of texts that contain it."""
    counts: Counter[str] = Counter()
    for text in texts:
        words = units(text)[:MAX_WORDS]
        lengths = range(1, MAX_NGRAM + 1)
        counts.update(
            {" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)}
        )
    return counts


def _is_redundant(ngram: str, other: str, counts: Floats) -> bool:
    """Return whether one n-gram contains the other and both have nearly the same count."""
    inside = f" {ngram} " in f" {other} " or f" {other} " in f" {ngram} "
    return inside and bool(counts.min() >= ALIKE * counts.max())


def tokens_of_kl(base: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame:
    """Compare tokens by their share of a run's KL, given ``token`` and ``kl_share`` of each run.

    Returns:
        Rows by descending absolute change: ``token``, ``base_share``, ``new_share``, ``change``;
        none if the tokens of a run are None.
    """
    if base is None or new is None:
        return pd.DataFrame(columns=["token", "base_share", "new_share", "change"])
    shares = [table.groupby("token")["kl_share"].sum() for table in (base, new)]
    both = pd.DataFrame({"base_share": shares[0], "new_share": shares[1]}).fillna(0.0)
    both["change"] = both["new_share"] - both["base_share"]
    both = both[both["change"] != 0].rename_axis("token")
    order = np.argsort(-both["change"].abs().to_numpy(), kind="stable")[:MAX_LISTED]
    return both.iloc[order].reset_index()
