"""Find texts that become frequent in responses, and how much reward responses with them earn."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means
from rlreport.check.curve import LEAST_LEVEL, LEVEL_SHARE, MOST_LEVEL
from rlreport.check.limits import Limit, LimitKind, Limits, meets
from rlreport.check.run import Run, once_per_run
from rlreport.check.windows import Window, centred, log_odds_z
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded, significant
from rlreport.tables import GAP, Tables, TextSample
from rlreport.text.clean import REPLACEMENT
from rlreport.text.messages import translatable
from rlreport.text.tokens import STRUCTURES, units

Bools = NDArray[np.bool_]

# A text is dropped if this fraction of the responses with it contain a better one
SAME = 0.8
# A text is an opening or closing if it begins or ends this fraction of the responses with it
AT_END = 0.95
# A longer phrase replaces a shorter one if this fraction of responses with that contain it
CONTINUED = 0.9
MAX_NGRAM = 4  # Maximum number of words in a phrase that repeats a word
MAX_WORDS = 24  # Maximum number of words in any phrase
MAX_READ = 200  # Maximum number of responses read to spell a phrase
MAX_TEXTS = 20  # Maximum number of texts found
EXAMPLES = 5  # Number of examples for each text
# Minimum number of reference responses for a baseline; with fewer, the first steps are used
MIN_REFERENCES = 100
# Rewards are compared within prompts if these have at least this many responses on average
MIN_RECURRENCE = 5

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

_SUFFIX = re.compile(
    "(fulness|ations|ation|ingly|ments|ities|ment|ness|edly|ings|able|ally|ing|ers|est|ies|ity"
    "|ed|er|es|ly|al|s|e|y)$"
)
_NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
# Signs (and "0", any number) that are removed from the start, or from the end, of a text
_BEFORE = frozenset("0.,;:!?。，；：！？")
_AFTER = frozenset("0.,;。，；")

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
    words: tuple[str, ...]
    counts: Ints  # how often each sampled response contains it
    # shares of responses with it in the baseline and at the end
    before: float
    after: float
    z: float
    kind: str = "structure"
    name: str = ""
    # whether not the share of responses with it rose, but its count in each
    often: bool = False


def prevalence(kind: str, counts: Floats) -> Floats:
    """Return ``has_text`` of a text; for the kind "often" its counts, with NaN instead of 0."""
    return np.where(counts > 0, counts, np.nan) if kind == "often" else has_text(counts)


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
    growth = _growth_of_length(run)
    for text in [] if sample is None else _texts(run, sample):
        assert sample is not None
        counts = np.full(len(run.responses), np.nan)
        counts[sample.rows] = text.counts
        if text.name in counts_of or not _has_spread(run, text, counts, growth):
            continue
        rows.append(_row(run, text, counts))
        shares = {
            "step": run.steps,
            "ngram": text.name,
            "share": run.by_step(has_text(counts)),
        }
        shares_by_step.append(pd.DataFrame(shares).dropna())
        counts_of[text.name] = counts
        if len(rows) == MAX_TEXTS:
            break
    if not shares_by_step:
        shares_by_step.append(pd.DataFrame(columns=["step", "ngram", "share"]))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return SpreadingTexts(table, pd.concat(shares_by_step), counts_of)


def _growth_of_length(run: Run) -> float:
    """Return the factor by which responses surely grew, 1 if they did not."""
    length = means.change(run, run.column(run.length))
    return max(1.0, length.last / length.first) if length.rose else 1.0


def _has_spread(run: Run, text: _Text, counts: Floats, growth: float) -> bool:
    """Return whether a text became more frequent, and by more than responses grew."""
    first = _first_steps(run)
    change = means.change(run, prevalence(text.kind, counts), first=first)
    if first is not None and not change.rose:
        return False
    if growth <= 1:
        return True
    ratio = run.limits[Spreading].ratio
    # A longer response contains any word more often.
    if text.often:
        return not change.last < ratio * change.first * growth
    expected = 1 - (1 - change.first) ** growth
    # A share has no more room than to 1: it is enough that so many times fewer are without it.
    least = min(ratio * expected, 1 - (1 - expected) / ratio)
    return not change.last < least


def _row(run: Run, text: _Text, counts: Floats) -> dict[str, object]:
    """Return the row of a text in the table of ``SpreadingTexts``."""
    shares = has_text(counts)
    values = prevalence(text.kind, counts)
    often = means.change(run, values)
    share_first = text.before
    share_last = text.after
    if text.often:
        share = means.change(run, shares)
        share_first = share.first
        share_last = share.last
    holders = run.responses[(run.step_index >= run.last_index) & (shares == 1)]
    best = holders.sort_values("reward", ascending=False, kind="stable")
    shown = best[:EXAMPLES]
    examples = zip(shown["step"], shown["n"], strict=True)
    return {
        "kind": text.kind,
        "ngram": text.name,
        "share_first": share_first,
        "share_last": share_last,
        "often_first": often.first,
        "often_last": often.last,
        "z": text.z,
        **_lift(run, counts, run.by_step(values), often=text.often),
        "asked": _asked_share(text.words, best["prompt_id"], run.tables.prompts),
        "examples": list(examples),
    }


def _residuals(
    run: Run, counts: Floats, shares_by_step: Floats, *, often: bool
) -> _Residuals:
    reward = run.column("reward")
    rows = np.flatnonzero(np.isfinite(counts) & np.isfinite(reward))
    steps = run.responses["step"].to_numpy(np.int64)[rows]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    are_recurring = len(rows) >= MIN_RECURRENCE * max(len(np.unique(prompts)), 1)
    onset = run.onset(shares_by_step)
    after = steps >= (onset.low if onset else steps.min(initial=0))
    freedom = int(after.sum()) - len(np.unique(steps[after])) - 2
    labels = [steps]
    if are_recurring:
        freedom -= len(np.unique(prompts[after]))
        # Centring on steps and prompts alternately converges: both means approach zero.
        labels += [prompts, steps] * 3

    def residual(figure: Floats) -> Floats:
        values = figure[rows]
        for label in labels:
            values = centred(values, label)
        return values[after]

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
    run: Run, counts: Floats, shares_by_step: Floats, *, often: bool = False
) -> dict[str, float]:
    """Return the columns ``reward_lift`` to ``of_gain`` of ``SpreadingTexts.table`` for a text.

    Reward is regressed on whether a response contains the text, after the means of steps (and of
    recurring prompts) are subtracted; if it occurs ``often``, on the number of occurrences, and
    ``lift`` is the correlation.
    """
    residuals = _residuals(run, counts, shares_by_step, often=often)
    rewards = residuals.reward
    variance = rounded((rewards * rewards).sum())
    is_known = variance >= 1e-9 and residuals.freedom >= 1
    texts = (residuals.explaining, residuals.counts)
    varied = significant([(text * text).sum() for text in texts])
    products = np.array([(rewards * text).sum() for text in texts])
    slopes = np.where(
        (varied >= 1e-9) & is_known, products / np.maximum(varied, 1e-9), np.nan
    )
    lift = slopes[0]
    r = lift * np.sqrt(varied[0] / max(variance, 1e-9))
    r = np.clip(r, -0.999999, 0.999999)  # the arctanh of 1 is infinite
    std = np.sqrt(max(variance, 1e-9) / max(len(rewards), 1))
    earned = slopes[1] * means.change(run, counts).difference
    if not often:
        by_share = lift * means.change(run, has_text(counts)).difference
        earned = max(by_share, earned)
    gain = _gain(run)
    freedom = np.sqrt(max(residuals.freedom, 0))
    return {
        "reward_lift": rounded(lift),
        "lift": rounded(r if often else lift / std),
        "lift_z": rounded(np.arctanh(r) * freedom),
        "of_gain": rounded(earned / gain) if gain > 0 else np.nan,
    }


def _gain(run: Run) -> float:
    """Return how much the reward, or its gap to the reference, rose; 0 if unknown."""
    gains = [
        means.change(run, run.column(name)).difference
        for name in ("reward", "reward_gap")
    ]
    return float(np.nan_to_num(gains, nan=0.0).max())


def _corpus(run: Run, sample: TextSample) -> _Corpus:
    samples = [sample]
    reference = run.tables.ref_words
    if reference is not None and has_reference(run.tables):
        samples.append(reference)
    numbers: dict[str, int] = {}
    words = np.concatenate([_word_ids(one, numbers) for one in samples])
    lengths = np.concatenate([np.diff(one.offsets) for one in samples])
    # Index of each response's step; -1 for those of the reference, which come last
    step = np.full(len(lengths), -1)
    step[: len(sample.rows)] = run.step_index[sample.rows]
    baseline = step < 0
    if len(samples) == 1:
        baseline = _is_early(run, step)
    return _Corpus(
        words=words,
        names=list(numbers),
        response=np.repeat(np.arange(len(lengths)), lengths),
        baseline=baseline,
        end=step >= run.last_index,
    )


def _is_early(run: Run, step: Ints) -> Bools:
    """Return which responses are of the first steps, by the index of their step."""
    first = _first_steps(run)
    count = len(first.steps) if first is not None else 0
    return (step >= 0) & (step < count)


def _first_steps(run: Run) -> Window | None:
    """Return the steps with which the end is compared, None for a run that is too short.

    A text may spread within a few steps, so these are as many as a level of a curve has.
    """
    if run.first is None:
        return None
    share = int(LEVEL_SHARE * len(run.steps) + 0.5)
    return run.window(0, max(LEAST_LEVEL, min(MOST_LEVEL, share)))


class _Corpus(NamedTuple):
    """The words of the sampled responses and, after them, of the reference's responses."""

    words: Ints  # number of each word in ``names``, -1 for a gap, (words,)
    names: list[str]  # words without endings, in lower case
    response: Ints  # index of each word's response, (words,)
    # Which responses belong to the baseline, and which to the last window, (responses,)
    baseline: Bools
    end: Bools


def _texts(run: Run, sample: TextSample) -> list[_Text]:
    """Return phrases that spread and at most one structure (e.g. lists), most significant first."""
    corpus = _corpus(run, sample)
    if not (corpus.end.any() and corpus.baseline.any()):
        return []
    size = len(sample.rows)
    steps_of_sample = run.step_index[sample.rows]
    start = _is_early(run, steps_of_sample)
    texts = _structures(run, sample, start, corpus.end[:size])
    for phrase in _spreading_phrases(run, sample, corpus):
        if not any(_is_same(phrase, other) for other in texts):
            texts.append(phrase)
    return sorted(texts, key=lambda text: -text.z)


def _spreading_phrases(run: Run, sample: TextSample, corpus: _Corpus) -> list[_Text]:
    """Return the phrases that spread, the most significant first."""
    limits = run.limits[Spreading]
    size = len(sample.rows)
    least = limits.share * corpus.end.sum()
    in_end = corpus.end[corpus.response]
    phrases = []
    for phrase, starts in _phrases(
        corpus.words, corpus.names, corpus.response, in_end, least
    ):
        responses = corpus.response[starts]
        counts = np.bincount(responses, minlength=len(corpus.end))
        text = _spreading_text(limits, phrase, counts, corpus.baseline, corpus.end)
        if text is not None:
            text = text._replace(counts=counts[:size])
            in_sample = starts[responses < size]
            phrases.append(_spell_out(text, sample, corpus.words, in_sample))

    # For equal z, prefer the phrase that occurs most often: the others are shifted repetitions.
    def order(text: _Text) -> tuple[float, int, int]:
        return -text.z, -int(text.counts.sum()), -len(text.words)

    return sorted(phrases, key=order)


def _spreading_text(
    limits: Spreading, words: tuple[str, ...], counts: Ints, baseline: Bools, end: Bools
) -> _Text | None:
    """Return the text if far more responses at the ``end`` have it, or have it far more often."""
    of_end = int(end.sum())
    of_baseline = int(baseline.sum())
    with_text_at_end = np.array((counts[end] > 0).sum(), float)
    with_text_before = np.array((counts[baseline] > 0).sum(), float)
    z = float(log_odds_z(with_text_at_end, of_end, with_text_before, of_baseline))
    before = float(with_text_before / of_baseline)
    after = float(with_text_at_end / of_end)
    rose = meets(">=", after, max(limits.share, limits.ratio * before))
    if rose and z >= limits.z:
        return _Text(words, counts, before, after, z)
    if min(before, after) < limits.held or _BEFORE.issuperset(words):
        return None
    last = counts[end & (counts > 0)]
    first = counts[baseline & (counts > 0)]
    variance = last.var() / len(last) + first.var() / len(first)
    error = np.sqrt(variance)
    z = rounded((last.mean() - first.mean()) / max(error, 1e-9))
    if last.mean() < limits.ratio * first.mean() or z < limits.z:
        return None
    return _Text(words, counts, before, after, z, often=True)


def _structures(run: Run, sample: TextSample, start: Bools, end: Bools) -> list[_Text]:
    """Return [the structure, such as lists, that spread to most responses], or []."""
    if not start.any():
        return []
    bits = run.responses["structure"].to_numpy(np.int64)[sample.rows]
    masks = {name: 1 << bit for bit, name in enumerate(STRUCTURES)}
    masks[ANY_STRUCTURE] = -1
    structures = []
    for name, mask in masks.items():
        counts = np.asarray(bits & mask != 0, np.int64)
        text = _spreading_text(run.limits[Spreading], (), counts, start, end)
        if text is not None:
            structures.append(text._replace(name=name))
    # Prefer a specific structure to ANY_STRUCTURE if most responses with any structure have it.
    structures.sort(key=_rank_of_structure)
    return structures[:1]


def _rank_of_structure(text: _Text) -> float:
    return -text.after * SAME if text.name == ANY_STRUCTURE else -text.after


def _word_ids(sample: TextSample, numbers: dict[str, int]) -> Ints:
    number = np.full(max(len(sample.vocabulary), 1), -1)
    for i, unit in enumerate(sample.vocabulary):
        if unit != GAP and REPLACEMENT not in unit:
            number[i] = numbers.setdefault(_normalize(unit.strip()), len(numbers))
    return number[sample.units]


def _phrases(
    words: Ints, vocabulary: list[str], response: Ints, in_end: Bools, least: float
) -> Iterator[tuple[tuple[str, ...], Ints]]:
    """Yield phrases in ``least`` responses of the last window, and the indices where they start.

    A longer phrase replaces a shorter one if nearly as common. They grow by a word in each pass.
    In pass n, ``index`` numbers the n-word phrases that start at the words ``at``, and a key is
    that number × vocabulary size + next word (-1: none).
    """
    phrases: list[tuple[str, ...]] = [()]
    holders = np.zeros(1)
    at = np.arange(len(words))
    index = np.zeros(len(words), np.int64)
    for n in range(MAX_WORDS + 1):
        last = np.minimum(at + n, len(words) - 1)
        # A phrase ends before the end of its response, and before a gap (-1).
        is_word = words[last] >= 0
        inside = (at + n == last) & (response[last] == response[at]) & is_word
        keys = np.where(inside, index * len(vocabulary) + words[last], -1)
        pairs = pd.DataFrame({"key": keys, "response": response[at]}, copy=False)
        counted = pairs[inside & in_end[at]].drop_duplicates().groupby("key").size()
        counted = counted[counted >= least * (1 - 1e-9)]
        common = counted.index.tolist() if n < MAX_WORDS else []
        longer = _longer_phrases(phrases, vocabulary, common, repeats=n < MAX_NGRAM)
        of_longer: Floats = np.asarray(counted[list(longer)], np.float64)
        replaced = _replaced(phrases, holders, list(longer.values()), of_longer)
        if n:  # the empty phrase is none
            # Rows of ``at`` of each phrase, in the order of their numbers
            rows_of = pd.Series(at).groupby(index).indices.values()
            for number, rows in enumerate(rows_of):
                if number not in replaced:
                    yield phrases[number], at[rows]
        phrases = list(longer.values())
        holders = of_longer
        if not phrases:
            break
        numbers = pd.Index(list(longer), dtype=np.int64)
        numbered = numbers.get_indexer(pd.Index(keys))
        at = at[numbered >= 0]
        index = numbered[numbered >= 0]


def _longer_phrases(
    phrases: list[tuple[str, ...]],
    vocabulary: list[str],
    keys: list[int],
    *,
    repeats: bool,
) -> dict[int, tuple[str, ...]]:
    """Return key -> phrase with one word more; one that repeats a word only if it may."""
    longer = {}
    for key in keys:
        part = phrases[key // len(vocabulary)]
        word = vocabulary[key % len(vocabulary)]
        if repeats or word not in part:
            longer[key] = (*part, word)
    return longer


def _replaced(
    phrases: list[tuple[str, ...]],
    holders: Floats,
    longer: list[tuple[str, ...]],
    of_longer: Floats,
) -> set[int]:
    """Return the indices of phrases that are not to be told.

    A phrase is replaced by a longer one that nearly as many responses contain (``holders`` and
    ``of_longer``, each the number of responses). Numbers between punctuation marks are not text.
    """
    numbers = {phrase: index for index, phrase in enumerate(phrases)}
    replaced = set()
    for index, phrase in enumerate(phrases):
        if "0" in phrase and _BEFORE.issuperset(phrase):
            replaced.add(index)
    for phrase, count in zip(longer, of_longer, strict=True):
        if len(set(phrase)) < len(phrase):
            continue  # its repetitions say nothing on how common its parts are
        parts = []
        if phrase[-1] not in _AFTER:
            parts.append(numbers[phrase[:-1]])
        if phrase[0] not in _BEFORE:
            parts.append(numbers[phrase[1:]])
        for part in parts:
            if count >= CONTINUED * holders[part]:
                replaced.add(part)
    return replaced


def _spell_out(text: _Text, sample: TextSample, ids: Ints, positions: Ints) -> _Text:
    """Return a text with ``name`` (its usual spelling), ``kind``, and no outer punctuation.

    ``positions`` are the indices in ``ids`` (the words' numbers) at which it starts.
    """
    low, high = _inner_words(text)
    response = np.flatnonzero(text.counts)[-MAX_READ:]
    starts = sample.offsets[response]
    stops = sample.offsets[response + 1]
    # Index of the first occurrence in each of these responses
    first = positions[np.searchsorted(positions, starts)]
    kind = _kind_by_place(first + low - starts, stops - first - high)
    words = text.words[low:high]
    first = first + low
    # Extend a repeated sign to its usual number of repetitions: "####".
    is_sign = len(set(words)) == 1 and not words[0].isalnum()
    while is_sign and len(words) < MAX_WORDS:
        comes_before = (first > starts) & (ids[first - 1] == ids[first])
        if comes_before.mean() < SAME:
            break
        words = (*words, words[0])
        first = np.where(comes_before, first - 1, first)
    written = _spellings(sample, first, len(words))
    name = _most_common(written)
    if not re.fullmatch(r"(\W)\1*", name):
        # A word that comes twice is named once.
        once = [index for index, word in enumerate(words) if word not in words[:index]]
        written = [_at(forms, once) for forms in written]
        name = _most_common(written)
        if len(once) == 1 and name.isalpha():
            stem = _common_stem(name, written)
            if stem is not None:
                kind = "stem"
                name = stem
    return text._replace(words=words, kind="often" if text.often else kind, name=name)


def _inner_words(text: _Text) -> tuple[int, int]:
    """Return start and stop of the words without punctuation marks around them."""
    low = 0
    high = len(text.words)
    if not (text.often or _BEFORE.issuperset(text.words)):
        while high - low > 1 and text.words[low] in _BEFORE:
            low += 1
    while high - low > 1 and text.words[high - 1] in _AFTER:
        high -= 1
    return low, high


def _kind_by_place(words_before: Ints, words_after: Ints) -> str:
    """Return whether a text opens or closes most responses with it, by the words around it."""
    opens = np.mean(words_before == 0)
    closes = np.mean(words_after == 0)
    if max(opens, closes) < AT_END:
        return "text"
    return "opening" if opens > closes else "closing"


def _spellings(sample: TextSample, starts: Ints, length: int) -> list[list[str]]:
    """Return how the words from each start are written."""
    written = []
    for start in starts.tolist():
        of_text = sample.units[start : start + length].tolist()
        written.append([sample.vocabulary[unit] for unit in of_text])
    return written


def _at(forms: list[str], indices: list[int]) -> list[str]:
    return [forms[index] for index in indices]


def _common_stem(name: str, written: list[list[str]]) -> str | None:
    """Return the common start of a word's forms and "*", None if nearly all are ``name``."""
    forms = [form[0].strip().lower() for form in written]
    if forms.count(name.lower()) >= SAME * len(forms):
        return None
    return os.path.commonprefix(forms) + "*"  # noqa: RUF071 (characters are meant)


def _most_common(written: list[list[str]]) -> str:
    forms = Counter(" ".join("".join(form).split()) for form in written)
    return forms.most_common(1)[0][0]


def _is_same(text: _Text, other: _Text) -> bool:
    """Return whether ``text`` shares a word with ``other`` and rarely occurs without it."""
    if set(text.words).isdisjoint(other.words):
        return False
    with_text = text.counts > 0
    both = int((with_text & (other.counts > 0)).sum())
    return both >= SAME * int(with_text.sum())


def _asked_share(
    words: tuple[str, ...], prompts: pd.Series, table: pd.DataFrame
) -> float:
    """Return the fraction of responses whose prompt contains the words."""
    if not words or prompts.empty:
        return 0.0
    pattern = _letters(words)
    asking = {}
    rows = table[table["prompt_id"].isin(prompts)]
    for prompt, text in zip(rows["prompt_id"], rows["prompt"], strict=True):
        written = [_normalize(unit) for unit in units(str(text))]
        in_words = pattern in f" {' '.join(written)} "
        asking[prompt] = in_words or pattern in _letters(written)
    return float(prompts.map(asking).eq(True).mean())


def _letters(words: Sequence[str]) -> str:
    """Return the alphabetic words, or all words if none is, with spaces between and around."""
    return f" {' '.join([word for word in words if word.isalpha()] or words)} "


def _normalize(word: str) -> str:
    return "0" if _NUMBER.fullmatch(word) else _stem(word.lower())


def _stem(word: str) -> str:
    """Return a word without English suffixes after its fourth letter: "empowering" -> "empower"."""
    suffix = _SUFFIX.search(word, 4) if word.isascii() else None
    return _stem(word[: suffix.start()]) if suffix else word
