"""Find texts that become frequent in responses, and how much reward responses with them earn."""

from __future__ import annotations

import os.path
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means
from rlreport.check.curve import LEAST_LEVEL, LEVEL_SHARE, MOST_LEVEL
from rlreport.check.limits import Limit, LimitKind, Limits, meets
from rlreport.check.phrases import (
    AFTER,
    BEFORE,
    MAX_WORDS,
    Corpus,
    common_phrases,
    glued,
    normalize,
    word_ids,
    written_once,
)
from rlreport.check.run import Run, once_per_run
from rlreport.check.windows import (
    Change,
    Window,
    centred_by,
    group_index,
    log_odds_z,
)
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded, significant
from rlreport.tables import Tables, TextSample
from rlreport.text.messages import translatable
from rlreport.text.tokens import STRUCTURES, units

Bools = NDArray[np.bool_]

# A text is dropped if this fraction of the responses with it contain a better one
SAME = 0.8
# A text is an opening or closing if it begins or ends this fraction of the responses with it
AT_END = 0.95
MAX_READ = 200  # Maximum number of responses read to spell a phrase
MAX_TEXTS = 20  # Maximum number of texts found
EXAMPLES = 5  # Number of examples for each text
# Minimum number of reference responses for a baseline; with fewer, the first steps are used
MIN_REFERENCES = 100
# Rewards are compared within prompts if these have at least this many responses on average
MIN_RECURRENCE = 5
# A sum of squared residuals below this is a rounding error
NO_SQUARES = 1e-9

# Fewest responses, early and late, whose occurrences of a text are compared
LEAST_HOLDERS = 5
# Signs of sums, "0" for any number, and "" for space between words, such as an indentation
SUMS = frozenset(["", *"0=+-*/×÷·<>≤≥≈%^()"])

ANY_STRUCTURE = "structure"
COLUMNS = (
    "kind",
    "ngram",
    "share_first",
    "share_last",
    "z",
    "reward_lift",
    "lift",
    "lift_z",
    "often_first",
    "often_last",
    "of_gain",
    "asked",
    "examples",
)

FIGHTIN_WORDS = translatable(
    "LMFlow post (# grew from 3% to half of the responses); method: Monroe et al. 2008, "
    "Fightin' Words"
)


class Spreading(Limits):
    """Thresholds of ``reward_hacking_token``: how far a text spread, and what reward it earns."""

    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "share of responses that contain it, last window",
        FIGHTIN_WORDS,
    )
    ratio = Limit(
        3.0,
        LimitKind.RATIO,
        "times",
        "that share, relative to the first steps or the reference",
        FIGHTIN_WORDS,
    )
    z = Limit(
        5.0,
        LimitKind.ERRORS,
        "std errors",
        "significance of the rise of that share",
        FIGHTIN_WORDS,
    )
    lift_z = Limit(
        3.0, LimitKind.ERRORS, "std errors", "significance of that extra reward"
    )
    lift = Limit(
        0.25,
        LimitKind.VALUE,
        "std of reward",
        "extra reward of responses with it, inside a step",
    )
    gain = Limit(
        1 / 3,
        LimitKind.SHARE,
        "of the gain",
        "part of the reward's gain due to its spread",
    )
    held = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share of responses that contain it, last window (critical)",
    )
    carried = Limit(
        0.5,
        LimitKind.SHARE,
        "of the gain",
        "part of the reward's gain due to its spread (critical)",
    )


@dataclass(frozen=True, slots=True)
class SpreadingTexts:
    """The texts that spread through the responses of a run, the most significant first.

    The columns of ``table``, one row per text:

    ======================== =====================================================================
    kind                     text, stem, opening, closing, structure or often (a text of most
                             responses from the start that occurs far more often in each)
    ngram                    the text in its usual spelling
    share_first, share_last  share of responses that contain it, in the baseline and the last window
    often_first, often_last  of the kind often: how often responses that contain it do
    z                        of the log-odds ratio
    reward_lift              mean reward of responses with the text minus that of others of the same
                             step and prompt, since its onset
    lift, lift_z             the same in std of the reward, and its z
    of_gain                  fraction of the reward's gain due to its spread
    asked                    fraction of its responses whose prompt contains it
    examples                 (step, n) of responses in the last window, best reward first
    ======================== =====================================================================
    """

    table: pd.DataFrame
    # a row per ``step`` and ``ngram``, with the ``share`` of responses that contain it
    by_step: pd.DataFrame
    # text -> occurrences in each response, float64 (rows,), NaN if not sampled
    counts: dict[str, Floats] = field(default_factory=dict)


class _Text(NamedTuple):
    """A text that spread: a phrase or, without words, a structure such as lists."""

    words: tuple[str, ...]  # as ``normalize`` writes them
    counts: Ints  # how often each sampled response contains it
    # shares of responses with it in the baseline and at the end
    before: float
    after: float
    z: float
    kind: str = "structure"  # see ``SpreadingTexts``
    name: str = ""  # the text in its usual spelling, or the name of the structure
    # whether not the share of responses with it rose, but its count in each
    often: bool = False


def prevalence(kind: str, counts: Floats) -> Floats:
    """Return for each response the figure that rose as a text spread, float64 (rows,).

    It is ``has_text``. Of the kind "often", which most responses contain from the start, it is the
    number of occurrences in those that do, and NaN for the others.
    """
    if kind == "often":
        return np.where(counts > 0, counts, np.nan)
    return has_text(counts)


def has_text(counts: Floats) -> Floats:
    """Return 1 for responses that contain a text (count > 0), else 0; NaN if not sampled."""
    return np.where(np.isfinite(counts), counts > 0, np.nan)


def has_reference(tables: Tables) -> bool:
    """Return whether there are enough responses of the reference for a baseline."""
    return tables.ref_words is not None and len(tables.ref_words.rows) >= MIN_REFERENCES


@once_per_run
def spreading_texts(run: Run) -> SpreadingTexts:
    """Return texts far more common in the last than in the reference's or the first responses."""
    rows: list[dict[str, object]] = []
    shares_by_step: list[pd.DataFrame] = []
    counts_of: dict[str, Floats] = {}
    sample = run.tables.words
    texts = [] if sample is None else _texts(run, sample)
    growth = _growth_of_length(run)
    for text in texts:
        assert sample is not None
        # NaN for responses that were not sampled
        counts = np.full(len(run.responses), np.nan)
        counts[sample.rows] = text.counts
        if text.name in counts_of:  # as of two phrases with one stem
            continue
        risen_figure = prevalence(text.kind, counts)
        change = means.change(run, risen_figure, first=_first_steps(run))
        if not _has_spread(run, text, change, growth):
            continue
        rows.append(_row(run, text, counts, change))
        shares = {
            "step": run.steps,
            "ngram": text.name,
            "share": run.by_step(has_text(counts)),
        }
        shares_by_step.append(pd.DataFrame(shares).dropna())
        counts_of[text.name] = counts
        if len(rows) == MAX_TEXTS:
            break
    if not shares_by_step:  # ``concat`` needs at least one table
        shares_by_step.append(pd.DataFrame(columns=["step", "ngram", "share"]))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return SpreadingTexts(table, pd.concat(shares_by_step), counts_of)


def _growth_of_length(run: Run) -> float:
    """Return the factor by which responses surely grew, 1 if they did not."""
    length = means.change(run, run.column(run.length))
    return max(1.0, length.last / length.first) if length.rose else 1.0


def _has_spread(run: Run, text: _Text, change: Change, growth: float) -> bool:
    """Return whether a text became more frequent, and by more than responses grew.

    Args:
        run: the run. If it is too short for a comparison with first steps, it counts as risen.
        text: the text.
        change: that of its ``prevalence`` since the first steps.
        growth: the factor by which responses grew, at least 1.
    """
    if run.first is not None and not change.rose:
        return False
    if growth <= 1:
        return True
    ratio = run.limits[Spreading].ratio
    # A response that is ``growth`` times as long contains any word so many times as often...
    if text.often:
        return not change.last < ratio * change.first * growth
    # ... and is without it with the probability that as many short ones are.
    expected = 1 - (1 - change.first) ** growth
    # A share has no more room than to 1: it is enough that ``ratio`` times fewer are without it.
    least = min(ratio * expected, 1 - (1 - expected) / ratio)
    return not change.last < least


def _row(run: Run, text: _Text, counts: Floats, change: Change) -> dict[str, object]:
    """Return the row of a text in the table of ``SpreadingTexts``.

    ``counts`` are its occurrences in each response, float64 (rows,), NaN if not sampled; ``change``
    is that of its ``prevalence`` since the first steps.
    """
    contains = has_text(counts)
    risen_figure = prevalence(text.kind, counts)
    share_first = text.before
    share_last = text.after
    if text.often:
        # Of the same windows as ``change``: ``before`` may be the share of a reference.
        share = means.change(run, contains, first=_first_steps(run))
        share_first = share.first
        share_last = share.last
    late_holders = run.responses[(run.step_index >= run.last_index) & (contains == 1)]
    best_first = late_holders.sort_values("reward", ascending=False, kind="stable")
    shown = best_first[:EXAMPLES]
    examples = zip(shown["step"], shown["n"], strict=True)
    return {
        "kind": text.kind,
        "ngram": text.name,
        "share_first": share_first,
        "share_last": share_last,
        # Only of the kind often are these numbers of occurrences.
        "often_first": change.first,
        "often_last": change.last,
        "z": text.z,
        **_lift(run, counts, run.by_step(risen_figure), often=text.often),
        "asked": _asked_share(run, text.words, best_first["prompt_id"]),
        "examples": list(examples),
    }


def _residuals(
    run: Run, counts: Floats, risen_by_step: Floats, *, often: bool
) -> _Residuals:
    """Return reward and occurrences of a text without the means of steps (and prompts).

    Args:
        run: the run. Means of prompts are subtracted, too, if prompts recur often enough.
        counts: occurrences in each response, float64 (rows,), NaN if not sampled.
        risen_by_step: the figure that rose as the text spread, float64 (S,), for its onset.
        often: whether the reward is explained by the number of occurrences.
    """
    reward = run.column("reward")
    rows = np.flatnonzero(np.isfinite(counts) & np.isfinite(reward))
    steps = run.responses["step"].to_numpy(np.int64)[rows]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    are_recurring = len(rows) >= MIN_RECURRENCE * max(len(np.unique(prompts)), 1)
    onset = run.onset(risen_by_step)
    since = onset.low if onset else steps.min(initial=0)  # without an onset, all steps
    is_late = steps >= since
    # Each mean that is subtracted takes one degree of freedom.
    freedom = int(is_late.sum()) - len(np.unique(steps[is_late])) - 2
    by_step = group_index(steps)
    groups = [by_step]
    if are_recurring:
        freedom -= len(np.unique(prompts[is_late]))
        # Centring on steps and prompts alternately converges: both means approach zero.
        groups += [group_index(prompts), by_step] * 3

    def residual(figure: Floats) -> Floats:
        values = figure[rows]
        for index in groups:
            values = centred_by(values, index)
        # Means are those of the whole run, so that a prompt's earlier responses count.
        return values[is_late]

    return _Residuals(
        reward=residual(reward),
        explaining=residual(counts if often else has_text(counts)),
        counts=residual(counts),
        freedom=freedom,
    )


class _Residuals(NamedTuple):
    """Figures of responses since the onset of a text, minus means of steps and prompts."""

    reward: Floats
    explaining: Floats  # whether a response contains the text or, if often, how often
    counts: Floats  # how often
    freedom: int  # degrees of freedom that the means leave


def _lift(
    run: Run, counts: Floats, risen_by_step: Floats, *, often: bool = False
) -> dict[str, float]:
    """Return the columns ``reward_lift`` to ``of_gain`` of ``SpreadingTexts.table`` for a text.

    Reward is regressed on whether a response contains the text, after the means of steps (and of
    recurring prompts) are subtracted; if it occurs ``often``, on the number of occurrences, and
    ``lift`` is the correlation. See ``_residuals`` for the arguments.
    """
    residuals = _residuals(run, counts, risen_by_step, often=often)
    rewards = residuals.reward
    # Sums of squares, and of products, of the residuals
    reward_squares = rounded((rewards * rewards).sum())
    is_known = reward_squares >= NO_SQUARES and residuals.freedom >= 1
    # Two regressions, each with one of these: slope = Σ xy / Σ x²
    texts = (residuals.explaining, residuals.counts)
    text_squares = significant([(text * text).sum() for text in texts])
    products = np.array([(rewards * text).sum() for text in texts])
    slopes = np.where(
        (text_squares >= NO_SQUARES) & is_known,
        products / np.maximum(text_squares, NO_SQUARES),
        np.nan,
    )
    lift = slopes[0]
    # It is divided by, also where the lift is NaN.
    reward_squares = max(reward_squares, NO_SQUARES)
    r = lift * np.sqrt(text_squares[0] / reward_squares)
    r = np.clip(r, -0.999999, 0.999999)  # the arctanh of 1 is infinite
    std = np.sqrt(reward_squares / max(len(rewards), 1))
    first = _first_steps(run)
    earned = slopes[1] * means.rise(run, counts, first=first)
    if not often:
        # A text may spread to more responses, or within those that have it: the larger part counts.
        by_share = lift * means.rise(run, has_text(counts), first=first)
        earned = max(by_share, earned)
    gain = _gain(run)
    root_of_freedom = np.sqrt(max(residuals.freedom, 0))
    return {
        "reward_lift": rounded(lift),
        "lift": rounded(r if often else lift / std),
        # Fisher's z of the correlation
        "lift_z": rounded(np.arctanh(r) * root_of_freedom),
        "of_gain": rounded(earned / gain) if gain > 0 else np.nan,
    }


@once_per_run
def _gain(run: Run) -> float:
    """Return how much the reward, or its gap to the reference, rose; 0 if unknown."""
    first = _first_steps(run)
    gains = [
        means.rise(run, run.column(name), first=first)
        for name in ("reward", "reward_gap")
    ]
    return float(np.nan_to_num(gains, nan=0.0).max())


def _corpus(run: Run, sample: TextSample) -> Corpus:
    """Return the words of the sampled responses and, if they are the baseline, the reference's."""
    samples = [sample]
    reference = run.tables.ref_words
    if reference is not None and has_reference(run.tables):
        samples.append(reference)
    numbers: dict[str, int] = {}  # shared, so that equal words of both have one number
    words = np.concatenate([word_ids(one, numbers) for one in samples])
    lengths = np.concatenate([np.diff(one.offsets) for one in samples])
    # Index of each response's step; -1 for those of the reference, which come last
    step = np.full(len(lengths), -1)
    step[: len(sample.rows)] = run.step_index[sample.rows]
    baseline = step < 0
    if len(samples) == 1:  # without a reference
        baseline = _is_early(run, step)
    return Corpus(
        words=words,
        names=list(numbers),
        response=np.repeat(np.arange(len(lengths)), lengths),
        baseline=baseline,
        end=step >= run.last_index,
    )


def _is_early(run: Run, step: Ints) -> Bools:
    """Return which responses are of the first steps, by the index of their step; of -1, none is."""
    first = _first_steps(run)
    count = len(first.steps) if first is not None else 0
    return (step >= 0) & (step < count)


def _first_steps(run: Run) -> Window | None:
    """Return the steps with which the end is compared, None for a run that is too short.

    A text may spread within a few steps, so these are as many as a level of a curve has.
    """
    if run.first is None:
        return None
    size = int(LEVEL_SHARE * len(run.steps) + 0.5)  # rounded to the nearest
    return run.window(0, max(LEAST_LEVEL, min(MOST_LEVEL, size)))


def _texts(run: Run, sample: TextSample) -> list[_Text]:
    """Return phrases that spread and at most one structure (e.g. lists), most significant first."""
    corpus = _corpus(run, sample)
    if not (corpus.end.any() and corpus.baseline.any()):
        return []
    # Structures of the reference's responses are not known: the first steps are their baseline.
    size = len(sample.rows)
    steps_of_sample = run.step_index[sample.rows]
    start = _is_early(run, steps_of_sample)
    texts = _structures(run, sample, start, corpus.end[:size])
    # Phrases come the most significant first: of two that are the same, the first is kept.
    for phrase in _spreading_phrases(run, sample, corpus):
        if not any(_is_same(phrase, other) for other in texts):
            texts.append(phrase)
    return sorted(texts, key=lambda text: -text.z)


def _spreading_phrases(run: Run, sample: TextSample, corpus: Corpus) -> list[_Text]:
    """Return the phrases that spread, the most significant first."""
    limits = run.limits[Spreading]
    phrases = []
    size = len(sample.rows)  # responses of the reference have higher indices
    least = limits.share * corpus.end.sum()
    # Of few phrases more is needed than how often these responses have them.
    compared = corpus.among(corpus.baseline | corpus.end)
    for words, starts in common_phrases(compared, least):
        counts = np.bincount(compared.response[starts], minlength=len(corpus.end))
        text = _spreading_text(limits, words, counts, corpus.baseline, corpus.end)
        if text is not None:
            in_corpus = corpus.starts_of(words)
            in_sample = in_corpus[corpus.response[in_corpus] < size]
            counts = np.bincount(corpus.response[in_sample], minlength=size)
            if len(words) == 1:
                counts += glued(sample, words[0])
            text = text._replace(counts=counts)
            phrases.append(_spell_out(text, sample, corpus.words, in_sample))

    # For equal z, prefer the phrase that occurs most often: the others are shifted repetitions.
    def order(text: _Text) -> tuple[float, int, int]:
        return -text.z, -int(text.counts.sum()), -len(text.words)

    return sorted(phrases, key=order)


def _spreading_text(
    limits: Spreading, words: tuple[str, ...], counts: Ints, baseline: Bools, end: Bools
) -> _Text | None:
    """Return the text if far more responses at the ``end`` have it, or have it far more often.

    Args:
        limits: the thresholds of this run.
        words: the words of the phrase, () for a structure.
        counts: its occurrences in each response, (responses,).
        baseline: which responses it is compared with, (responses,).
        end: which responses are those of the last window, (responses,).
    """
    if words and SUMS.issuperset(words):
        return None  # a habit of writing sums
    of_end = int(end.sum())
    of_baseline = int(baseline.sum())
    # Only responses that have the text
    last = counts[end & (counts > 0)]
    first = counts[baseline & (counts > 0)]
    before = len(first) / of_baseline
    after = len(last) / of_end
    if meets(">=", after, max(limits.share, limits.ratio * before)):
        z = float(log_odds_z(len(last), of_end, len(first), of_baseline))
        if z >= limits.z:
            return _Text(words, counts, before, after, z)
    # Where the share of a text does not become a multiple, its occurrences in each may.
    if after < limits.share or _is_usual_sign(words):
        return None
    if min(len(last), len(first)) < LEAST_HOLDERS:
        return None
    if last.mean() < limits.ratio * first.mean():
        return None
    z = rounded((last.mean() - first.mean()) / _error_of_counts(last, first))
    if z < limits.z:
        return None
    return _Text(words, counts, before, after, z, often=True)


def _error_of_counts(last: Ints, first: Ints) -> float:
    """Return the standard error of a difference of mean counts.

    A few counts may all be 1 by chance: the variance is at least that of a Poisson process.
    """
    variance = 0.0
    for counts in (last, first):
        variance += max(counts.var(), counts.mean()) / len(counts)
    return float(np.sqrt(variance))


def _is_usual_sign(words: tuple[str, ...]) -> bool:
    """Return whether a text is a sign or a number, which belong to a format, a table or a list.

    A pictograph does not, nor several signs in a row such as ":)".
    """
    if BEFORE.issuperset(words):
        return True
    return len(words) == 1 and not any(
        sign.isalpha() or unicodedata.category(sign) == "So" for sign in words[0]
    )


def _structures(run: Run, sample: TextSample, start: Bools, end: Bools) -> list[_Text]:
    """Return [the structure, such as lists, that spread to most responses], or [].

    Args:
        run: the run. Column ``structure`` of its responses has a bit for each of STRUCTURES.
        sample: the sampled responses.
        start: which of these are of the first steps, (sampled responses,).
        end: which of these are of the last window, (sampled responses,).
    """
    if not start.any():
        return []
    bits = run.responses["structure"].to_numpy(np.int64)[sample.rows]
    masks = {name: 1 << bit for bit, name in enumerate(STRUCTURES)}
    masks[ANY_STRUCTURE] = -1  # all bits
    structures = []
    for name, mask in masks.items():
        # A response has a structure or not: its occurrences are not counted.
        counts = np.asarray(bits & mask != 0, np.int64)
        text = _spreading_text(run.limits[Spreading], (), counts, start, end)
        if text is not None:
            structures.append(text._replace(name=name))
    # Prefer a specific structure to ANY_STRUCTURE if most responses with any structure have it.
    structures.sort(key=_rank_of_structure)
    return structures[:1]


def _rank_of_structure(text: _Text) -> float:
    """Return the sort key of a structure: that of most late responses comes first."""
    return -text.after * SAME if text.name == ANY_STRUCTURE else -text.after


def _spell_out(text: _Text, sample: TextSample, ids: Ints, positions: Ints) -> _Text:
    """Return a text with ``name`` (its usual spelling), ``kind``, and no outer punctuation.

    Args:
        text: the text; its counts are those of the sampled responses.
        sample: the sampled responses, of which the last MAX_READ with the text are read.
        ids: the number of each word of the corpus, which begins with those of the sample.
        positions: the indices in ``ids`` at which the text starts, ascending.
    """
    low, high = _inner_words(text)
    response = np.flatnonzero(text.counts)[-MAX_READ:]
    starts = sample.offsets[response]
    stops = sample.offsets[response + 1]
    # Index of the first occurrence in each of these responses
    first = positions[np.searchsorted(positions, starts)]
    kind = _kind_by_place(
        words_before=first + low - starts, words_after=stops - first - high
    )
    words, first = _with_repetitions(text.words[low:high], first + low, starts, ids)
    name, is_stem = _usual_name(words, _spellings(sample, first, len(words)))
    if is_stem:
        kind = "stem"
    if text.often:
        kind = "often"
    return text._replace(words=words, kind=kind, name=name)


def _with_repetitions(
    words: tuple[str, ...], first: Ints, starts: Ints, ids: Ints
) -> tuple[tuple[str, ...], Ints]:
    """Return a repeated sign with its usual number of repetitions ("####"), and where it starts.

    Other words are returned as they are.

    Args:
        words: the words of a text.
        first: index in ``ids`` of the text's first occurrence in each response.
        starts: index in ``ids`` of the first word of each of these responses.
        ids: the number of each word.
    """
    is_sign = len(set(words)) == 1 and not words[0].isalnum()
    while is_sign and len(words) < MAX_WORDS:
        comes_before = (first > starts) & (ids[first - 1] == ids[first])
        if comes_before.mean() < SAME:
            break
        words = (*words, words[0])
        first = np.where(comes_before, first - 1, first)
    return words, first


def _usual_name(words: tuple[str, ...], written: list[list[str]]) -> tuple[str, bool]:
    """Return the name of a text, and whether it is a stem with "*" for several forms of a word.

    Args:
        words: its words, normalized.
        written: how these are written at each place.
    """
    name = _most_common(written)
    if re.fullmatch(r"(\W)\1*", name):  # a sign, once or repeated
        return name, False
    # A word that comes twice is named once.
    once = [index for index, word in enumerate(words) if word not in words[:index]]
    written = [_at(forms, once) for forms in written]
    name = _most_common(written)
    if len(once) == 1:
        name = written_once(name)
    stem = None
    if len(once) == 1 and name.isalpha():
        stem = _common_stem(name, [spelling for (spelling,) in written])
    return (name, False) if stem is None else (stem, True)


def _inner_words(text: _Text) -> tuple[int, int]:
    """Return start and stop of a text's words without the punctuation around them.

    At least one word remains. Punctuation stays at the start of a text that occurs often, or that
    consists of nothing else.
    """
    low = 0
    high = len(text.words)
    if not (text.often or BEFORE.issuperset(text.words)):
        while high - low > 1 and text.words[low] in BEFORE:
            low += 1
    while high - low > 1 and text.words[high - 1] in AFTER:
        high -= 1
    return low, high


def _kind_by_place(words_before: Ints, words_after: Ints) -> str:
    """Return "opening" or "closing" if a text begins or ends nearly all responses, else "text".

    Both arguments are numbers of words in each response: before the text, and after it.
    """
    opens = np.mean(words_before == 0)
    closes = np.mean(words_after == 0)
    if max(opens, closes) < AT_END:
        return "text"
    return "opening" if opens > closes else "closing"


def _spellings(sample: TextSample, starts: Ints, length: int) -> list[list[str]]:
    """Return for each start how the ``length`` words from there on are written, as logged."""
    written = []
    for start in starts.tolist():
        units_of_text = sample.units[start : start + length].tolist()
        written.append([sample.vocabulary[unit] for unit in units_of_text])
    return written


def _at(forms: list[str], indices: list[int]) -> list[str]:
    return [forms[index] for index in indices]


def _common_stem(name: str, spellings: list[str]) -> str | None:
    """Return the common start of a word's forms and "*", None if nearly all are ``name``.

    ``spellings`` are those of the word at each place, as logged.
    """
    forms = [written_once(spelling.strip().lower()) for spelling in spellings]
    if forms.count(name.lower()) >= SAME * len(forms):
        return None
    return os.path.commonprefix(forms) + "*"  # noqa: RUF071 (characters are meant)


def _most_common(written: list[list[str]]) -> str:
    forms = Counter(" ".join("".join(form).split()) for form in written)
    return forms.most_common(1)[0][0]


def _is_same(text: _Text, other: _Text) -> bool:
    """Return whether ``text`` shares a word with ``other`` and rarely occurs without it.

    It is then a part of it, or overlaps with it; a structure has no words, so it is never the same.
    """
    if set(text.words).isdisjoint(other.words):
        return False
    with_text = text.counts > 0
    both = int((with_text & (other.counts > 0)).sum())
    return both >= SAME * int(with_text.sum())


def _asked_share(run: Run, words: tuple[str, ...], prompts: pd.Series) -> float:
    """Return the fraction of responses whose prompt contains the words of a text.

    Args:
        run: the run.
        words: the words of the text, normalized; () for a structure, which no prompt contains.
        prompts: the ``prompt_id`` of each response.
    """
    if not words or prompts.empty:
        return 0.0
    words_of_prompts = run.once(_WordsOfPrompts)
    pattern = _letters(words)
    asking: dict[int, bool] = {}  # prompt_id -> whether the prompt contains the words
    for prompt_id in prompts.unique().tolist():
        written = words_of_prompts[prompt_id]
        # With and without the punctuation between the words of the prompt
        in_words = pattern in f" {' '.join(written)} "
        asking[prompt_id] = in_words or pattern in _letters(written)
    return float(prompts.map(asking).mean())


class _WordsOfPrompts(dict[int, list[str]]):
    """``prompt_id`` -> the words of the prompt, normalized; none of a prompt without a text."""

    def __init__(self, run: Run) -> None:
        table = run.tables.prompts
        texts = table["prompt"].astype(str)
        self._texts = dict(zip(table["prompt_id"].tolist(), texts, strict=True))

    def __missing__(self, prompt_id: int) -> list[str]:
        text = self._texts.get(prompt_id, "")
        self[prompt_id] = words = [normalize(unit) for unit in units(text)]
        return words


def _letters(words: Sequence[str]) -> str:
    """Return the alphabetic words, or all words if none is, with spaces between and around."""
    return f" {' '.join([word for word in words if word.isalpha()] or words)} "
