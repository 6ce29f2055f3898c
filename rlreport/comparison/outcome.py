"""The outcome of a comparison: effects, findings, texts, and the result of ``--fail-on``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.finding import ToldFinding
from rlreport.check.windows import log_odds_z, share_z
from rlreport.comparison.compare import Comparison, compare_runs
from rlreport.comparison.decomposition import ENVIRONMENT, Decomposition, Property
from rlreport.comparison.guardrails import NEVER_BETTER, Guardrail
from rlreport.comparison.labels import Labels, labels_of
from rlreport.comparison.pair_tokens import TokenPair, token_pairs
from rlreport.comparison.run import ComparedRun, settings_that_differ
from rlreport.comparison.saved import ResponseId
from rlreport.comparison.statistics import shrunk
from rlreport.comparison.tasks import Tasks
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change, difference, significant
from rlreport.options import FAIL_ON, CompareOptions
from rlreport.summarise.steps import rounded_columns
from rlreport.text.placeholders import Redactor
from rlreport.text.tokens import units

MAX_FLIPS = 200

# Matches names of settings that name the model, or the reference
_OF_MODEL = re.compile(r"model|checkpoint|\bref", re.IGNORECASE)

# Words are counted in a random sample of this many compared responses per run
MAX_TEXTS = 512
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


@dataclass(frozen=True)
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
    # number of responses whose words were counted, of BASE and of NEW
    counted: tuple[int, int]
    tokens: pd.DataFrame  # see ``tokens_of_kl``
    redact: bool  # whether ``--redact`` leaves texts out
    # tokens of the responses of each of ``flips``, in their order
    token_pairs: Sequence[TokenPair] = ()
    # what other options hide of texts and names, a sentence each
    hidden_in_words: Sequence[str] = ()

    @cached_property
    def labels(self) -> Labels:
        """What the sides are called: by the setting that differs, or by their runs' names."""
        return labels_of(self.bases, self.news, redact=self.redact)

    @cached_property
    def tasks(self) -> Tasks:
        """The difference by task; with ``--redact``, numbers replace the names of environments."""
        tasks = self.comparison.tasks
        if not self.redact:
            return tasks
        # "" stands for all others.
        environments = [
            task._replace(name=self._redactor(task.name) if task.name else "")
            for task in tasks.environments
        ]
        return replace(tasks, environments=environments)

    @cached_property
    def decomposition(self) -> Decomposition:
        """What the difference goes with; environments are named as in ``tasks``."""
        found = self.comparison.decomposition
        if not self.redact:
            return found
        _ = self.tasks  # their names have the first numbers
        return replace(
            found,
            properties=[self._redacted(one) for one in found.properties],
            main=found.main and self._redacted(found.main),
        )

    def _redacted(self, found: Property) -> Property:
        if found.id != ENVIRONMENT:
            return found
        return found._replace(mark=self._redactor(found.mark))

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor()

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
        labelled = []
        for side, runs in (("BASE", self.bases), ("NEW", self.news)):
            for run in runs:
                label = side if len(runs) == 1 else f"{side} ({run.name})"
                labelled.append((label, run))
        return labelled

    @property
    def broken(self) -> list[tuple[str, ComparedRun]]:
        return [(name, run) for name, run in self.runs if run.broken]


def outcome_of(
    bases: Sequence[ComparedRun], news: Sequence[ComparedRun], options: CompareOptions
) -> Outcome:
    """Compare NEW with BASE, one or several runs each, and read the texts that the pages show."""
    # Figures are compared over all runs. Findings, texts and tokens are compared of the first run
    # of each side only, as pages show them side by side.
    base = bases[0]
    new = news[0]
    comparison = compare_runs([run.side for run in bases], [run.side for run in news])
    comparison = _with_undecided_guardrails(comparison, base, new)
    if _models_differ(base, new):
        # Their references may differ, and with them what these earn.
        comparison = replace(comparison, reference=None)
    changed = _changed_findings(base, new)
    won_and_lost = flips(comparison)
    base_responses, new_responses = comparison.compared
    base_ids = {flip.base_response for flip in won_and_lost}
    new_ids = {flip.new_response for flip in won_and_lost}
    base_texts = _read_texts(base, base_responses, base_ids, options)
    new_texts = _read_texts(new, new_responses, new_ids, options)
    numbers = prompt_numbers(new)
    return Outcome(
        bases=bases,
        news=news,
        comparison=comparison,
        changed=changed,
        gate=_gate(comparison, changed["critical"], options),
        flips=[
            _with_texts(flip, numbers[flip.pair], base_texts.by_id, new_texts.by_id)
            for flip in won_and_lost
        ],
        ngrams=distinctive_texts(base_texts.counted, new_texts.counted),
        counted=(len(base_texts.counted), len(new_texts.counted)),
        tokens=_tokens_of(base, new, options),
        redact=bool(options.redact),
        token_pairs=_token_pairs(base, new, won_and_lost, options),
    )


class _ReadTexts(NamedTuple):
    """Texts of one run."""

    by_id: _Texts
    counted: list[str]  # responses whose words are counted


def _read_texts(
    run: ComparedRun,
    compared: pd.DataFrame,
    of_flips: set[ResponseId],
    options: CompareOptions,
) -> _ReadTexts:
    """Read the texts of prompts won and lost, and of a sample of the compared responses."""
    ids = compared[["step", "n"]]
    # A report contains only few of the texts, so it is asked for all of them.
    if run.from_logs and len(ids) > MAX_TEXTS:
        order = np.random.default_rng(0).permutation(len(ids))
        ids = ids.iloc[order[:MAX_TEXTS]]
    sample = set(ids.itertuples(index=False, name=None))
    texts = {} if options.redact else run.texts({*sample, *of_flips})
    # Words of placeholders are none of the run.
    counted = [id for id in sorted(sample) if id in texts and id not in run.hidden]
    responses = [texts[id][1] for id in counted]
    return _ReadTexts(texts, counted=responses[:MAX_TEXTS])


def _token_pairs(
    base: ComparedRun,
    new: ComparedRun,
    flips: Sequence[Flip],
    options: CompareOptions,
) -> list[TokenPair]:
    if options.redact:  # tokens are texts
        return []
    return token_pairs(
        base, new, [(flip.base_response, flip.new_response) for flip in flips]
    )


def _tokens_of(
    base: ComparedRun, new: ComparedRun, options: CompareOptions
) -> pd.DataFrame:
    if options.redact:
        return tokens_of_kl(None, None)
    return tokens_of_kl(base.tokens, new.tokens)


def _with_undecided_guardrails(
    comparison: Comparison, base: ComparedRun, new: ComparedRun
) -> Comparison:
    """Set the level of guardrails that ``_is_undecided`` to "changed"; others stay as they are."""
    guardrails = []
    for guardrail in comparison.guardrails:
        if _is_undecided(guardrail, base, new, comparison):
            guardrails.append(guardrail._replace(level="changed"))
        else:
            guardrails.append(guardrail)
    return replace(comparison, guardrails=guardrails)


def _is_undecided(
    guardrail: Guardrail, base: ComparedRun, new: ComparedRun, comparison: Comparison
) -> bool:
    """Return whether it is open if a guardrail got better or worse, although it clearly changed."""
    # Blocks of a metric's steps say nothing about another run with the same settings.
    if comparison.metrics_alone and not comparison.has_enough_runs:
        return guardrail.level in ("better", "worse")
    # A collapse improves some figures: they get better in NEW if it collapsed, and those of
    # NEVER_BETTER seem to get worse if BASE did.
    if new.collapsed:
        return guardrail.level == "better"
    return (
        base.collapsed and guardrail.level == "worse" and guardrail.id in NEVER_BETTER
    )


def _models_differ(base: ComparedRun, new: ComparedRun) -> bool:
    relevant, _ = settings_that_differ(base, new)
    return any(_OF_MODEL.search(setting.key) for setting in relevant)


def _changed_findings(
    base: ComparedRun, new: ComparedRun
) -> dict[str, list[ToldFinding]]:
    """Return the lists of ``Outcome.changed``; a finding is the same if its id is."""
    before = base.findings
    after = new.findings
    critical_before = {
        id for id, finding in before.items() if finding.severity == "critical"
    }
    return {
        "new": [finding for id, finding in after.items() if id not in before],
        "fixed": [finding for id, finding in before.items() if id not in after],
        "still": [finding for id, finding in after.items() if id in before],
        # Also those that were a warning in BASE
        "critical": [
            finding
            for id, finding in after.items()
            if finding.severity == "critical" and id not in critical_before
        ],
    }


def _gate(
    comparison: Comparison, critical: list[ToldFinding], options: CompareOptions
) -> Gate:
    """Apply ``--fail-on`` and ``--require-evidence``; ``critical`` are findings in NEW only.

    A condition that is met fails the gate. If none is, it may still be inconclusive.
    """
    conditions = set(FAIL_ON if "any" in options.fail_on else options.fail_on)
    failed = []
    # ``high`` is NaN for runs that cannot be compared; the comparison is false then.
    is_lower = comparison.effect.high < -options.margin
    # Blocks of a metric's steps say nothing about another run with the same settings.
    is_evidence = comparison.has_enough_runs or not comparison.metrics_alone
    if "worse" in conditions and is_lower and is_evidence:
        failed.append("worse")
    if "guardrail" in conditions:
        failed += [
            f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"
        ]
    if "new-critical" in conditions:
        failed += [f"new-critical:{finding.id}" for finding in critical]
    is_significant = comparison.level in ("better", "worse")
    if failed:
        status = FAILED
    elif options.require_evidence and not is_significant:
        status = INCONCLUSIVE
    else:
        status = PASSED
    return Gate(tuple(sorted(conditions)), tuple(failed), status)


def flips(comparison: Comparison, most: int = MAX_FLIPS) -> list[Flip]:
    """Return up to ``most`` paired prompts with different rewards.

    Those with the largest differences come first, after noisy differences were ``shrunk``.
    """
    if not comparison.effect.paired:
        return []
    # The responses with a reward, of the first run of each side
    base, new = (frame[np.isfinite(frame["reward"])] for frame in comparison.compared)
    base_rewards = _rewards_by_prompt(base[base["pair"].isin(new["pair"])])
    new_rewards = _rewards_by_prompt(new[new["pair"].isin(base["pair"])])
    table = base_rewards.add_suffix("_base").join(new_rewards.add_suffix("_new"))
    delta = difference(table["reward_new"], table["reward_base"])
    errors = np.hypot(table["error_base"].to_numpy(), table["error_new"].to_numpy())
    order = np.argsort(-np.abs(shrunk(delta, errors)), kind="stable")
    table = table.iloc[order]
    changed = []
    for pair, base_reward, new_reward, base_response, new_response in zip(
        table.index.tolist(),
        table["reward_base"].tolist(),
        table["reward_new"].tolist(),
        table["response_base"],
        table["response_new"],
        strict=True,
    ):
        if not isclose(new_reward, base_reward):  # else neither won nor lost
            flip = Flip(
                pair,
                base_reward,
                new_reward,
                delta=change(base_reward, new_reward),
                base_response=base_response,
                new_response=new_response,
            )
            changed.append(flip)
    return changed[:most]


def _rewards_by_prompt(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean ``reward`` of each prompt, its ``error`` and its ``response``, by ``pair``.

    The error is the standard error of the mean; the response is the id of the one whose reward is
    nearest to the mean.
    """
    frame = frame.reset_index(drop=True)
    rewards = frame.groupby("pair")["reward"]
    means = rewards.transform("mean")
    counts = rewards.count()
    deviation = pd.Series(difference(frame["reward"], means), frame.index)
    # One variance for all prompts, as most have too few responses for one of their own. Each
    # prompt's mean takes one degree of freedom.
    freedom = max(1, len(frame) - len(counts))
    variance = (deviation**2).sum() / freedom
    errors = np.sqrt(variance / counts)
    table = rounded_columns(pd.DataFrame({"reward": rewards.mean(), "error": errors}))
    rows = deviation.abs().groupby(frame["pair"]).idxmin()
    nearest = frame.loc[rows, ["step", "n"]]
    ids = list(nearest.itertuples(index=False, name=None))
    return table.assign(response=pd.Series(ids, table.index, dtype=object))


def prompt_numbers(run: ComparedRun) -> dict[int, int]:
    """Return ``pair`` (key of a prompt) -> number of the prompt in the run, counted from 1."""
    first = run.side.responses.drop_duplicates("pair")
    numbers = first["prompt_id"] + 1
    return dict(zip(first["pair"].tolist(), numbers.tolist(), strict=True))


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
    base_texts_with = _text_counts(base)
    new_texts_with = _text_counts(new)
    # An n-gram of a single text is no habit. Sorted, so that equal z keep the same order.
    ngrams = sorted(ngram for ngram, count in new_texts_with.items() if count >= 2)
    new_counts = np.array([new_texts_with[ngram] for ngram in ngrams], np.float64)
    base_counts = np.array([base_texts_with[ngram] for ngram in ngrams], np.float64)
    counts = (new_counts, len(new), base_counts, len(base))
    # Of n-grams that most texts of both sides contain, ``log_odds_z`` alone is too large.
    z = np.minimum(log_odds_z(*counts), share_z(*counts))
    chosen: list[int] = []  # indices of ``ngrams``
    for i in np.argsort(-z, kind="stable").tolist():
        if z[i] < MIN_Z or len(chosen) == MAX_LISTED:
            break
        # "is the final answer" is listed, but not "the final answer" as well.
        is_redundant = any(
            _is_redundant(ngrams[i], ngrams[j], new_counts[[i, j]]) for j in chosen
        )
        if not is_redundant:
            chosen.append(i)
    return pd.DataFrame(
        {
            "ngram": [ngrams[i] for i in chosen],
            "base_share": significant(base_counts[chosen] / len(base)),
            "new_share": significant(new_counts[chosen] / len(new)),
            "z": z[chosen],
        }
    )


def _text_counts(texts: Sequence[str]) -> Counter[str]:
    """Return n-gram -> number of texts that contain it, for n up to MAX_NGRAM words."""
    counts: Counter[str] = Counter()
    for text in texts:
        words = units(text)[:MAX_WORDS]
        ngrams: set[str] = set()
        for size in range(1, MAX_NGRAM + 1):
            starts = range(len(words) - size + 1)
            ngrams.update(" ".join(words[start : start + size]) for start in starts)
        counts.update(ngrams)  # a set, so that each counts once per text
    return counts


def _is_redundant(ngram: str, other: str, counts: Floats) -> bool:
    """Return whether one n-gram contains the other and both have nearly the same count."""
    inside = f" {ngram} " in f" {other} " or f" {other} " in f" {ngram} "
    return inside and bool(counts.min() >= ALIKE * counts.max())


def tokens_of_kl(base: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame:
    """Return up to MAX_LISTED tokens whose share of the KL differs, the largest change first.

    ``base`` and ``new`` have the columns ``token`` and ``kl_share``; None without tokens.
    """
    if base is None or new is None:
        return pd.DataFrame(columns=["token", "base_share", "new_share", "change"])
    base_shares = base.groupby("token")["kl_share"].sum()
    new_shares = new.groupby("token")["kl_share"].sum()
    both = pd.DataFrame({"base_share": base_shares, "new_share": new_shares})
    both = both.fillna(0.0)  # a token that only one run has
    both["change"] = difference(both["new_share"], both["base_share"])
    both = rounded_columns(both)
    both = both[both["change"] != 0].rename_axis("token")
    order = np.argsort(-both["change"].abs().to_numpy(), kind="stable")
    return both.iloc[order[:MAX_LISTED]].reset_index()
