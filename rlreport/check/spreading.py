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
from rlreport.check.limits import Limit, LimitKind, Limits, meets
from rlreport.check.noise import centred, log_odds_z
from rlreport.check.run import Run, once_per_run
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded, significant
from rlreport.tables import GAP, Tables, TextSample
from rlreport.text.clean import REPLACEMENT
from rlreport.text.messages import translatable
from rlreport.text.tokens import STRUCTURES, units

Bools = NDArray[np.bool_]

# SAME: a text is dropped if this fraction of the responses with it contain a better one. AT_END: a
# text is an opening or closing if it begins or ends this fraction of the responses with it
SAME, AT_END = 0.8, 0.95
# A longer phrase replaces a shorter one if this fraction of responses with that contain it
CONTINUED = 0.9
# Maximum number of words in a phrase that repeats a word, and in any phrase
MAX_NGRAM, MAX_WORDS = 4, 24
# Maximum number of responses read to spell a phrase, of texts found, of examples per text
MAX_READ = 200
MAX_TEXTS = 20
EXAMPLES = 5
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
    """The texts that spread through the responses of a run, the most significant first."""

    # one row per text: ``kind`` (text, stem, opening, closing, structure or often: a text of most
    # responses from the start that occurs far more often in each), ``ngram`` (in its
    # usual spelling), ``share_first`` and ``share_last`` (share of responses that contain it, in
    # the baseline and in the last window), ``often_first`` and ``often_last`` (for the kind often,
    # how often responses that contain it do), ``z`` (of the log-odds ratio), ``reward_lift`` (mean
    # reward of responses with the text minus that of others of the same step and prompt, since
    # its onset), ``lift`` (the same in std of the reward), ``lift_z``, ``of_gain`` (fraction
    # of the reward's gain due to its spread), ``asked`` (fraction of its responses whose prompt
    # contains it), ``examples`` ((step, n) of responses in the last window, best reward first)
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
    often: bool = (
        False  # whether not the share of responses with it rose, but its count in each
    )


def prevalence(kind: str, counts: Floats) -> Floats:
    """Return ``has_text`` of a text; for the kind "often" its counts, with NaN instead of 0."""
    return np.where(counts > 0, counts, np.nan) if kind == "often" else has_text(counts)


def has_text(counts: Floats) -> Floats:
    """Return 1 for responses that contain a text (count > 0), else 0; NaN if not sampled."""
    return np.where(np.isfinite(counts), counts > 0, np.nan)


def has_reference(tables: Tables) -> bool:
    return tables.ref_words is not None and len(tables.ref_words.rows) >= MIN_REFERENCES


@once_per_run
def spreading_texts(run: Run) -> SpreadingTexts:
    """Return texts far more common in the last than in the reference's or the first responses."""
    rows: list[dict[str, object]] = []
    by_step = [pd.DataFrame(columns=["step", "ngram", "share"])]
    counts_of: dict[str, Floats] = {}
    sample = run.tables.words
    sampled = slice(0) if sample is None else sample.rows
    length = means.change(run, run.column(run.length))
    growth = max(1.0, length.last / length.first) if length.rose else 1.0
    for text in [] if sample is None else _texts(run, sample):
        counts = np.full(len(run.responses), np.nan)
        counts[sampled] = text.counts
        shares = has_text(counts)
        values = prevalence(text.kind, counts)
        moved = means.change(run, values)
        # A longer response contains any word more often.
        before = moved.first * growth if text.often else 1 - (1 - moved.first) ** growth
        min_share = run.limits[Spreading].ratio * before
        if text.name in counts_of or (growth > 1 and moved.last < min_share):
            continue
        if run.first is not None and not moved.rose:
            continue
        series = run.by_step(values)
        holders = run.responses[(run.step_index >= run.last_index) & (shares == 1)]
        best = holders.sort_values("reward", ascending=False, kind="stable")
        rows.append(
            {
                "kind": text.kind,
                "ngram": text.name,
                "share_first": means.change(run, shares).first
                if text.often
                else text.before,
                "share_last": means.change(run, shares).last
                if text.often
                else text.after,
                "often_first": moved.first,
                "often_last": moved.last,
                "z": text.z,
                **_lift(run, counts, series, often=text.often),
                "asked": _asked_share(
                    text.words, best["prompt_id"], run.tables.prompts
                ),
                "examples": list(
                    zip(best["step"][:EXAMPLES], best["n"][:EXAMPLES], strict=True)
                ),
            }
        )
        shares_of_text = {
            "step": run.steps,
            "ngram": text.name,
            "share": run.by_step(shares),
        }
        by_step.append(pd.DataFrame(shares_of_text).dropna())
        counts_of[text.name] = counts
        if len(rows) == MAX_TEXTS:
            break
    table = pd.DataFrame(rows, columns=COLUMNS)
    return SpreadingTexts(table, pd.concat(by_step[1:] or by_step), counts_of)


def _lift(  # noqa: PLR0914
    run: Run, counts: Floats, shares_by_step: Floats, *, often: bool = False
) -> dict[str, float]:
    """Return the columns ``reward_lift`` to ``of_gain`` of ``SpreadingTexts.table`` for a text.

    Reward is regressed on whether a response contains the text, after the means of steps (and of
    recurring prompts) are subtracted; if it occurs ``often``, on the number of occurrences, and
    ``lift`` is the correlation.
    """
    reward = run.column("reward")
    shares = has_text(counts)
    rows = np.flatnonzero(np.isfinite(counts) & np.isfinite(reward))
    steps, prompts = run.responses[["step", "prompt_id"]].to_numpy(np.int64)[rows].T
    recurring = len(rows) >= MIN_RECURRENCE * max(len(np.unique(prompts)), 1)
    onset = run.onset(shares_by_step)
    after = steps >= (onset.low if onset else steps.min(initial=0))
    # Centring on steps and prompts alternately converges: both means approach zero.
    groups = [steps, *([prompts, steps] * 3 if recurring else [])]
    freedom = (
        int(after.sum()) - sum(len(np.unique(group[after])) for group in groups[:2]) - 2
    )
    residuals = []
    for figure in (reward, counts if often else shares, counts):
        values = figure[rows]
        for group in groups:
            values = centred(values, group)
        residuals.append(values[after])
    rewards, *texts = residuals
    variance = rounded((rewards * rewards).sum())
    varied = significant([(text * text).sum() for text in texts])
    products = np.array([(rewards * text).sum() for text in texts])
    valid = variance >= 1e-9 and freedom >= 1
    lift, per_count = np.where(
        (varied >= 1e-9) & valid, products / np.maximum(varied, 1e-9), np.nan
    )
    r = np.clip(lift * np.sqrt(varied[0] / max(variance, 1e-9)), -0.999999, 0.999999)
    earned = per_count * means.change(run, counts).difference
    earned = (
        earned if often else max(lift * means.change(run, shares).difference, earned)
    )
    std = np.sqrt(max(variance, 1e-9) / max(int(after.sum()), 1))
    gains = [
        means.change(run, run.column(name)).difference
        for name in ("reward", "reward_gap")
    ]
    gain = float(np.nan_to_num(gains, nan=0.0).max())
    return {
        "reward_lift": rounded(lift),
        "lift": rounded(r if often else lift / std),
        "lift_z": rounded(np.arctanh(r) * np.sqrt(max(freedom, 0))),
        "of_gain": rounded(earned / gain) if gain > 0 else np.nan,
    }


def _texts(run: Run, sample: TextSample) -> list[_Text]:
    """Return phrases that spread and at most one structure (e.g. lists), most significant first."""
    limits = run.limits[Spreading]
    reference = run.tables.ref_words
    samples = [sample]
    if reference is not None and has_reference(run.tables):
        samples.append(reference)
    numbers: dict[str, int] = {}
    words = np.concatenate([_word_ids(part_sample, numbers) for part_sample in samples])
    names = list(numbers)
    size = len(sample.rows)
    lengths = np.concatenate([np.diff(part_sample.offsets) for part_sample in samples])
    response = np.repeat(np.arange(len(lengths)), lengths)
    step = np.full(
        len(lengths), -1
    )  # -1 for responses of the reference, which come last
    step[:size] = run.step_index[sample.rows]
    first = max(3, len(run.steps) // 10) if run.first is not None else 0
    start = (step >= 0) & (step < first)
    end = step >= run.last_index
    baseline = start if len(samples) == 1 else step < 0
    if not (end.any() and baseline.any()):
        return []
    texts = _structures(run, sample, start[:size], end[:size])
    least = limits.share * end.sum()
    phrases = []
    for phrase, starts in _phrases(words, names, response, end[response], least):
        counts = np.bincount(response[starts], minlength=len(lengths))
        if text := _spreading_text(limits, phrase, counts, baseline, end):
            text = text._replace(counts=counts[:size])
            phrases.append(
                _spell_out(text, sample, words, starts[response[starts] < size])
            )
    # For equal z, prefer the phrase that occurs most often: the others are shifted repetitions.
    phrases.sort(key=lambda text: (-text.z, -text.counts.sum(), -len(text.words)))
    for text in phrases:
        if not any(_is_same(text, other) for other in texts):
            texts.append(text)
    return sorted(texts, key=lambda text: -text.z)


def _spreading_text(
    limits: Spreading, words: tuple[str, ...], counts: Ints, baseline: Bools, end: Bools
) -> _Text | None:
    """Return the text if far more responses at the ``end`` have it, or have it far more often."""
    of_end = int(end.sum())
    of_baseline = int(baseline.sum())
    with_text = [np.array((counts[part] > 0).sum(), float) for part in (end, baseline)]
    z = float(log_odds_z(with_text[0], of_end, with_text[1], of_baseline))
    shares = float(with_text[1] / of_baseline), float(with_text[0] / of_end)
    rose = meets(">=", shares[1], max(limits.share, limits.ratio * shares[0]))
    if rose and z >= limits.z:
        return _Text(words, counts, *shares, z)
    if min(shares) < limits.held or _BEFORE.issuperset(words):
        return None
    last, first = (counts[part & (counts > 0)] for part in (end, baseline))
    error = np.sqrt(last.var() / len(last) + first.var() / len(first))
    z = rounded((last.mean() - first.mean()) / max(error, 1e-9))
    if last.mean() < limits.ratio * first.mean() or z < limits.z:
        return None
    return _Text(words, counts, *shares, z, often=True)


def _structures(run: Run, sample: TextSample, start: Bools, end: Bools) -> list[_Text]:
    """Return [the structure, such as lists, that spread to most responses], or []."""
    bits = run.responses["structure"].to_numpy(np.int64)[sample.rows]
    masks = {name: 1 << bit for bit, name in enumerate(STRUCTURES)} | {
        ANY_STRUCTURE: -1
    }
    structures = []
    for name, mask in masks.items() if start.any() else ():
        counts = np.asarray(bits & mask != 0, np.int64)
        if text := _spreading_text(run.limits[Spreading], (), counts, start, end):
            structures.append(text._replace(name=name))
    # Prefer a specific structure to ANY_STRUCTURE if most responses with any structure have it.
    structures.sort(
        key=lambda text: -text.after * (SAME if text.name == ANY_STRUCTURE else 1)
    )
    return structures[:1]


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
        inside = (
            (at + n == last) & (response[last] == response[at]) & (words[last] >= 0)
        )
        keys = np.where(inside, index * len(vocabulary) + words[last], -1)
        pairs = pd.DataFrame({"key": keys, "response": response[at]}, copy=False)
        counted = pairs[inside & in_end[at]].drop_duplicates().groupby("key").size()
        counted = counted[counted >= least * (1 - 1e-9)]
        longer = {}
        for key in counted.index.tolist() if n < MAX_WORDS else ():
            part = phrases[key // len(vocabulary)]
            word = vocabulary[key % len(vocabulary)]
            if n < MAX_NGRAM or word not in part:
                longer[key] = (*part, word)
        of_longer: Floats = np.asarray(counted[list(longer)], np.float64)
        numbers = {phrase: i for i, phrase in enumerate(phrases)}
        # Phrases that a longer one replaces; numbers between punctuation marks are not text.
        continued = {
            i for i, p in enumerate(phrases) if "0" in p and _BEFORE.issuperset(p)
        }
        for row, phrase in enumerate(longer.values()):
            distinct = len({*phrase}) == len(phrase)
            parts = (
                [numbers[phrase[:-1]]] if distinct and phrase[-1] not in _AFTER else []
            )
            parts += (
                [numbers[phrase[1:]]] if distinct and phrase[0] not in _BEFORE else []
            )
            parts = [
                part for part in parts if of_longer[row] >= CONTINUED * holders[part]
            ]
            continued.update(parts)
        for i, rows in enumerate(
            pd.Series(at).groupby(index).indices.values() if n else ()
        ):
            if i not in continued:
                yield phrases[i], at[rows]
        phrases = list(longer.values())
        holders = of_longer
        if not phrases:
            break
        numbered = pd.Index(list(longer), dtype=np.int64).get_indexer(pd.Index(keys))
        at, index = at[numbered >= 0], numbered[numbered >= 0]


def _spell_out(text: _Text, sample: TextSample, ids: Ints, positions: Ints) -> _Text:  # noqa: PLR0914
    """Return a text with ``name`` (its usual spelling), ``kind``, and no outer punctuation."""
    words = text.words
    low = 0
    high = len(text.words)
    whole = text.often or _BEFORE.issuperset(words)
    while not whole and high - low > 1 and words[low] in _BEFORE:
        low += 1
    while high - low > 1 and words[high - 1] in _AFTER:
        high -= 1
    response = np.flatnonzero(text.counts)[-MAX_READ:]
    starts = sample.offsets[response]
    stops = sample.offsets[response + 1]
    first = positions[np.searchsorted(positions, starts)]
    opens = np.mean(first + low == starts)
    closes = np.mean(stops - first == high)
    end = "opening" if opens > closes else "closing"
    kind = end if max(opens, closes) >= AT_END else "text"
    words, first = words[low:high], first + low
    # Extend a repeated sign to its usual number of repetitions: "####".
    while len({*words}) == 1 and not words[0].isalnum() and len(words) < MAX_WORDS:
        again = (first > starts) & (ids[first - 1] == ids[first])
        if again.mean() < SAME:
            break
        words, first = (*words, words[0]), first - again
    spans = [sample.units[i : i + len(words)].tolist() for i in first.tolist()]
    written = [[sample.vocabulary[unit] for unit in span] for span in spans]
    once = [i for i, word in enumerate(words) if word not in words[:i]]
    name = _most_common(written)
    if not re.fullmatch(r"(\W)\1*", name):
        written = [[form[i] for i in once] for form in written]
        name = _most_common(written)
    forms = [form[0].strip().lower() for form in written]
    if (
        len(once) == 1
        and name.isalpha()
        and forms.count(name.lower()) < SAME * len(forms)
    ):
        start = os.path.commonprefix(forms)  # noqa: RUF071 (characters are meant)
        kind = "stem"
        name = start + "*"
    return text._replace(words=words, kind="often" if text.often else kind, name=name)


def _most_common(written: list[list[str]]) -> str:
    forms = Counter(" ".join("".join(form).split()) for form in written)
    return forms.most_common(1)[0][0]


def _is_same(text: _Text, other: _Text) -> bool:
    """Return whether ``text`` shares a word with ``other`` and rarely occurs without it."""
    with_text = text.counts > 0
    both = int((with_text & (other.counts > 0)).sum())
    return bool({*text.words} & {*other.words}) and both >= SAME * int(with_text.sum())


def _asked_share(
    words: tuple[str, ...], prompts: pd.Series, table: pd.DataFrame
) -> float:
    if not words or prompts.empty:
        return 0.0
    pattern = _letters(words)
    asking = {}
    for prompt, text in table[table["prompt_id"].isin(prompts)][
        ["prompt_id", "prompt"]
    ].to_numpy():
        written = [_normalize(unit) for unit in units(str(text))]
        asking[prompt] = (
            pattern in _letters(written) or pattern in f" {' '.join(written)} "
        )
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
