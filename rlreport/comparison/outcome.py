"""The outcome of a comparison: effects, findings, texts, ``--fail-on``, and its exported files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.finding import ToldFinding
from rlreport.check.noise import log_odds_z, share_z
from rlreport.comparison.compare import (
    NEVER_BETTER,
    Comparison,
    Guardrail,
    compare_runs,
)
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.saved import ResponseId
from rlreport.comparison.statistics import shrunk
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change, difference, significant
from rlreport.options import FAIL_ON, CompareOptions
from rlreport.summarise.steps import rounded_columns
from rlreport.text.tokens import units

MAX_FLIPS = 200

MAX_TEXTS = (
    512  # Words are counted in a random sample of this many compared responses per run
)
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
    changed: Mapping[str, list[ToldFinding]]
    gate: Gate
    flips: Sequence[Flip]
    ngrams: pd.DataFrame  # see ``distinctive_texts``
    counted: tuple[
        int, int
    ]  # number of responses whose words were counted, of BASE and of NEW
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
        words.append(
            [texts[key][1] for key in sorted(counted_ids) if key in texts][:MAX_TEXTS]
        )
    return Outcome(
        bases,
        news,
        comparison,
        changed,
        _gate(comparison, changed["critical"], options),
        [
            _with_texts(flip, numbers[flip.pair], *texts_by_side)
            for flip in won_and_lost
        ],
        distinctive_texts(*words),
        (len(words[0]), len(words[1])),
        tokens_of_kl(None, None)
        if options.redact
        else tokens_of_kl(base.tokens, new.tokens),
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
    return (
        base.collapsed and guardrail.level == "worse" and guardrail.id in NEVER_BETTER
    )


def _changed_findings(
    base: ComparedRun, new: ComparedRun
) -> dict[str, list[ToldFinding]]:
    critical = [
        finding for finding in new.findings.values() if finding.severity == "critical"
    ]
    known = {
        name
        for name, finding in base.findings.items()
        if finding.severity == "critical"
    }
    return {
        "new": [
            finding
            for name, finding in new.findings.items()
            if name not in base.findings
        ],
        "fixed": [
            finding
            for name, finding in base.findings.items()
            if name not in new.findings
        ],
        "still": [
            finding for name, finding in new.findings.items() if name in base.findings
        ],
        "critical": [finding for finding in critical if finding.id not in known],
    }


def _gate(
    comparison: Comparison, critical: list[ToldFinding], options: CompareOptions
) -> Gate:
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
        failed += [
            f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"
        ]
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
        for pair, old, _, nearest_old, current, _, nearest in table.itertuples(
            name=None
        )
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
    return dict(
        zip(first["pair"].tolist(), (first["prompt_id"] + 1).tolist(), strict=True)
    )


def _with_texts(flip: Flip, number: int, base: _Texts, new: _Texts) -> Flip:
    base_prompt, base_text = base.get(flip.base_response, (None, None))
    new_prompt, new_text = new.get(flip.new_response, (None, None))
    prompt = base_prompt if new_prompt is None else new_prompt
    return replace(
        flip, number=number, prompt=prompt, base_text=base_text, new_text=new_text
    )


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
        if not any(
            _is_redundant(ngrams[i], ngrams[j], new_counts[[i, j]]) for j in chosen
        ):
            chosen.append(i)
    base_share = base_counts[chosen] / len(base)
    new_share = new_counts[chosen] / len(new)
    shares = {
        "base_share": significant(base_share),
        "new_share": significant(new_share),
    }
    return pd.DataFrame(
        {"ngram": [ngrams[i] for i in chosen], **shares, "z": z[chosen]}
    )


def _text_counts(texts: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    sizes = range(1, MAX_NGRAM + 1)
    for text in texts:
        words = units(text)[:MAX_WORDS]
        counts.update(
            {
                " ".join(words[i : i + n])
                for n in sizes
                for i in range(len(words) - n + 1)
            }
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
