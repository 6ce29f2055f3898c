"""N-grams of words that spread through the responses, and the texts that they belong to.

Words are compared in lower case and by their stem, numbers as ``0``; signs and characters of
scripts without blanks count as words.
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run
from rlreport.check.windows import window
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import GAP, TextSample
from rlreport.text.clean import REPLACEMENT
from rlreport.text.messages import marked
from rlreport.text.tokens import units

Bools = NDArray[np.bool_]

MAX_NGRAM = 4
"""Most words in an n-gram."""

PRIOR = 20.0
"""Weight of the Dirichlet prior, in responses."""

MAX_WORDS = 30_000
"""Most distinct words considered: keys of four of them fit 63 bits."""

MAX_NGRAMS = 300
"""Spreading n-grams that are examined, those with the largest z."""

SAME = 0.8
"""Two n-grams belong to one text if this share of the responses with one has the other too."""

MAX_TEXT_WORDS = 24
"""Most words in a text."""

MAX_READ = 200
"""Responses that are read to find the words around an n-gram."""

MIN_REFERENCES = 100
"""Reference responses needed to be the baseline instead of the first steps."""

_SUFFIX = re.compile(
    "(fulness|ations|ation|ingly|ments|ities|ment|ness|edly|ings|able|ally|ing|ers|est|ies|ity"
    "|ed|er|es|ly|al|s|e|y)$"
)
_SHORTEST_STEM = 4
_NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
_BEFORE, _AFTER = frozenset("0.,;:!?。，；：！？"), frozenset("0.,;。，；")
"""Words that are removed from the start, or from the end, of a text."""

FIGHTIN_WORDS = marked(
    "LMFlow post (# grew from 3% to half of the responses); method: Monroe et al. 2008, "
    "Fightin' Words"
)


class Spreading(Limits):
    """Thresholds of a text that spreads, and of its reward; those of ``reward_hacking_token``."""

    share = Limit(
        0.2, "of responses", "share of responses that contain it, last window", FIGHTIN_WORDS
    )
    ratio = Limit(
        3.0, "times", "that share, relative to the first steps or the reference", FIGHTIN_WORDS
    )
    z = Limit(5.0, "std errors", "significance of the rise of that share", FIGHTIN_WORDS)
    lift_z = Limit(3.0, "std errors", "significance of that extra reward")
    lift = Limit(0.25, "std of reward", "extra reward of responses with it, inside a step")
    gain = Limit(1 / 3, "of the gain", "part of the reward's gain due to its spread")
    held = Limit(0.5, "of responses", "critical: contain it in the last window")
    carried = Limit(0.5, "of the gain", "critical: and have this part of the reward's gain")


@dataclass(slots=True)
class Words:
    """The words of sampled responses as numbers, −1 for words that are too rare.

    ``sample`` holds the words as written, and where each response starts.
    """

    sample: TextSample
    ids: Ints

    @property
    def response(self) -> Ints:
        """Index of the response that each word belongs to."""
        return np.repeat(np.arange(len(self.sample.rows)), np.diff(self.sample.offsets))

    def keys(self, n: int, base: int) -> Ints:
        """Return a key of the n-gram that starts at each word, −1 if there is none."""
        left = np.repeat(self.sample.offsets[1:], np.diff(self.sample.offsets))
        left -= np.arange(len(self.ids))
        keys = self.ids
        for shift in range(1, n):
            following = np.append(self.ids[shift:], np.full(min(shift, len(keys)), -1))
            valid = (keys >= 0) & (following >= 0) & (left > shift)
            keys = np.where(valid, keys * base + following, -1)
        return keys

    def holders(self, keys: Ints, part: slice) -> pd.Series:
        """Return how many of these responses contain each key, by key in ascending order."""
        words = slice(*self.sample.offsets[[part.start, part.stop]].tolist())
        pairs = pd.DataFrame({"key": keys[words], "response": self.response[words]})
        return pairs[pairs["key"] >= 0].drop_duplicates().groupby("key").size()


@dataclass(frozen=True, slots=True)
class _Ngram:
    """An n-gram that spreads: its words, its key, and the shares of responses that contain it."""

    words: tuple[int, ...]
    key: int
    before: float
    after: float
    z: float


@dataclass(frozen=True, slots=True)
class Text:
    """A text that spreads, its words, and how often each sampled response contains it, (S,)."""

    kind: str
    name: str
    counts: Ints
    words: Sequence[int] = ()
    before: float = np.nan
    after: float = np.nan
    z: float = np.nan


def log_odds_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the log-odds ratio with an informative Dirichlet prior.

    Monroe, Colaresi and Quinn 2008, "Fightin' Words", equations 15, 19 and 22, for numbers of
    responses. The prior of an n-gram is its share of both samples, worth ``PRIOR`` responses.
    """
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    odds = np.log((after + prior) / (of_after + PRIOR - after - prior))
    odds -= np.log((before + prior) / (of_before + PRIOR - before - prior))
    z: Floats = odds / np.sqrt(1 / (after + prior) + 1 / (before + prior))
    return z


def stem(word: str) -> str:
    """Return a word without its suffixes: "empowering" and "empowered" have the same stem."""
    suffix = _SUFFIX.search(word, _SHORTEST_STEM) if word.isascii() else None
    return stem(word[: suffix.start()]) if suffix else word


def _normal(word: str) -> str:
    return "0" if _NUMBER.fullmatch(word) else stem(word.lower())


class Search:
    """Finds the n-grams of a run that spread, and the texts that they belong to."""

    def __init__(self, run: Run, sample: TextSample) -> None:
        self.run, self.limits = run, run.limits[Spreading]
        numbers: dict[str, int] = {}
        self.words = self.base = _numbered(sample, numbers)
        self.end = self._part(run.last.rows)
        first = max(3, len(run.steps) // 10) if run.first is not None else 0
        self.start = self.baseline = self._part(window(run.tables, 0, first).rows)
        reference = run.tables.ref_words
        if reference is not None and len(reference.rows) >= MIN_REFERENCES:
            self.base, self.baseline = _numbered(reference, numbers), slice(0, len(reference.rows))
        self.of_end = int(self.end.stop - self.end.start)
        self.of_baseline = int(self.baseline.stop - self.baseline.start)
        self._keep_common(list(numbers))

    def _part(self, rows: slice) -> slice:
        """Return the sampled responses that lie in these rows of the response table."""
        return slice(*np.searchsorted(self.words.sample.rows, (rows.start, rows.stop)).tolist())

    def _keep_common(self, names: list[str]) -> None:
        """Number the words that enough responses of the last window contain; others become −1."""
        counts = self.words.holders(self.words.ids, self.end)
        common = counts.index[counts >= self.least].to_numpy()[:MAX_WORDS]
        place = np.full(len(names) + 1, -1)  # the last entry stands for -1
        place[common] = np.arange(len(common))
        self.names = [names[word] for word in common.tolist()]
        for words in {id(part): part for part in (self.words, self.base)}.values():
            words.ids = place[words.ids]

    @property
    def least(self) -> float:
        """Fewest responses of the last window that have to contain a text, less rounding errors."""
        return self.limits.share * self.of_end * (1 - 1e-9)

    def spread(self, after: Floats, before: Floats, of_before: int) -> tuple[Bools, Floats]:
        """Return which numbers of responses rose far enough, and the z of their rise."""
        z = log_odds_z(after, self.of_end, before, of_before)
        times = after / self.of_end >= self.limits.ratio * before / of_before * (1 - 1e-9)
        return (after >= self.least) & times & (z >= self.limits.z), z

    def ngrams(self) -> list[_Ngram]:
        """Return the n-grams that spread, the largest z first."""
        spreading: list[_Ngram] = []
        size = len(self.names)
        for n in range(1, MAX_NGRAM + 1):
            after = self.words.holders(self.words.keys(n, size), self.end)
            after = after[after >= self.least]
            before = self.base.holders(self.base.keys(n, size), self.baseline)
            before = before.reindex(after.index, fill_value=0)
            rose, z = self.spread(after.to_numpy(float), before.to_numpy(float), self.of_baseline)
            for i in np.flatnonzero(rose).tolist():
                key = int(after.index[i])
                words = tuple(key // size**place % size for place in reversed(range(n)))
                if any(self.names[word] != "0" for word in words):
                    shares = before.iloc[i] / self.of_baseline, after.iloc[i] / self.of_end
                    spreading.append(_Ngram(words, key, *shares, float(z[i])))
        return sorted(spreading, key=lambda g: (-g.z, -len(g.words), g.key))[:MAX_NGRAMS]

    def counts(self, ngrams: list[_Ngram]) -> Ints:
        """Return how often each response contains each n-gram, int64 (G, S)."""
        response = self.words.response
        counts = np.zeros((len(ngrams), len(self.words.sample.rows)), np.int64)
        for n in {len(ngram.words) for ngram in ngrams}:
            places = np.array([i for i, ngram in enumerate(ngrams) if len(ngram.words) == n])
            index = pd.Index([ngrams[i].key for i in places.tolist()])
            at = index.get_indexer(pd.Index(self.words.keys(n, len(self.names))))
            np.add.at(counts, (places[at[at >= 0]], response[at >= 0]), 1)
        return counts

    def texts(self) -> list[Text]:
        """Return the texts that spread: each n-gram with the words that usually stand around it."""
        ngrams = self.ngrams()
        counts = self.counts(ngrams)
        contains = (counts > 0).astype(np.float32)
        both, size = contains @ contains.T, contains.sum(axis=1)
        covered: set[int] = set()
        texts: list[Text] = []
        for i, seed in enumerate(ngrams):
            if i in covered:
                continue
            text = self._text_around(seed, counts[i])
            parts = [j for j, ngram in enumerate(ngrams) if _within(ngram.words, text.words)] or [i]
            # Responses with the text have all its n-grams; the longest one marks them best.
            longest = min(parts, key=lambda j: (-len(ngrams[j].words), size[j]))
            for j in np.flatnonzero(both[i] >= SAME * size).tolist():
                if not set(text.words).isdisjoint(ngrams[j].words):
                    covered.add(j)
            ngram = ngrams[longest]
            text = replace(text, before=ngram.before, after=ngram.after, z=ngram.z)
            texts.append(replace(text, counts=counts[longest]))
        return texts

    def asked(self, text: Text, prompts: Ints) -> float:
        """Return the share of ``prompts``, a prompt_id per response, that contain the text."""
        if not text.words or not len(prompts):
            return 0.0
        wanted = _letters([self.names[word] for word in text.words])
        table = self.run.tables.prompts.set_index("prompt_id")["prompt"]
        asking = {}
        for prompt in np.unique(prompts).tolist():
            written = [_normal(unit) for unit in units(str(table.get(prompt, "")))]
            asking[prompt] = wanted in _letters(written) or wanted in f" {' '.join(written)} "
        return float(np.mean([asking[prompt] for prompt in prompts.tolist()]))

    def _text_around(self, seed: _Ngram, counts: Ints) -> Text:
        """Extend an n-gram by the words that most of the latest responses have around it."""
        sample, ids = self.words.sample, self.words.ids
        keys = self.words.keys(len(seed.words), len(self.names))
        holders = np.flatnonzero(counts)[-MAX_READ:]
        starts, stops = sample.offsets[holders], sample.offsets[holders + 1]
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        start = np.array([i + int(np.argmax(keys[i:j] == seed.key)) for i, j in bounds])
        words = list(seed.words)

        def shared(place: Ints) -> int:
            """Return the word that most responses have at a position, −1 without one."""
            present = place[(place >= starts) & (place < stops)]
            counted = Counter(ids[present].tolist()).most_common(1)
            return counted[0][0] if counted and counted[0][1] >= SAME * len(holders) else -1

        while len(words) < MAX_TEXT_WORDS and (word := shared(start - 1)) >= 0:
            words.insert(0, word)
            start = start - 1
        while len(words) < MAX_TEXT_WORDS and (word := shared(start + len(words))) >= 0:
            words.append(word)
        names = [self.names[word] for word in words]
        while len(words) > 1 and names[0] in _BEFORE and not _BEFORE.issuperset(names):
            words, names, start = words[1:], names[1:], start + 1
        places, size = _until_repeated(words)
        end = start + size
        while len(places) > 1 and names[places[-1]] in _AFTER:
            size = places.pop()
        words = [words[place] for place in places]
        whole = start[(start >= starts) & (start + size <= stops)]
        written = [[sample.vocabulary[sample.units[i + j]] for j in range(size)] for i in whole]
        name = _most_common(["".join(form) for form in written])
        once = ["".join(form[place] for place in places) for form in written]
        if not re.fullmatch(r"(\W)\1*", name):  # signs in a row are one: "####"
            name = _most_common(once)
        forms = [form.strip().lower() for form in once]
        if len(words) == 1 and name.isalpha() and forms.count(name.lower()) < SAME * len(forms):
            start_of_all = os.path.commonprefix(forms)  # noqa: RUF071 (characters are meant)
            return Text("stem", start_of_all + "*", counts, words)
        ends = np.mean(start - starts <= 1), np.mean(stops - end <= 2)
        kind = "text"
        if max(ends) >= SAME:
            kind = "closing" if ends[1] >= ends[0] else "opening"
        return Text(kind, name, counts, words)


def _numbered(sample: TextSample, numbers: dict[str, int]) -> Words:
    """Return a sample's words by their numbers in ``numbers``, adding new words to it."""
    number = [
        -1
        if unit == GAP or REPLACEMENT in unit
        else numbers.setdefault(_normal(unit.strip()), len(numbers))
        for unit in sample.vocabulary
    ]
    return Words(sample, np.array(number or [-1])[sample.units])


def _most_common(written: list[str]) -> str:
    forms = Counter(" ".join(one.split()) for one in written)
    return forms.most_common(1)[0][0] if forms else ""


def _letters(words: list[str]) -> str:
    """Return the words written with letters, or all words if none is, between blanks."""
    return f" {' '.join([one for one in words if one.isalpha()] or words)} "


def _within(part: tuple[int, ...], whole: Sequence[int]) -> bool:
    return any(tuple(whole[i : i + len(part)]) == part for i in range(len(whole)))


def _until_repeated(words: list[int]) -> tuple[list[int], int]:
    """Return the indices of a text's words, and where it ends: at the first word that recurs.

    A word repeated at once counts once: "ha ha ha" is the text "ha".
    """
    places: list[int] = []
    for place, word in enumerate(words):
        if places and word == words[places[-1]]:
            continue
        if word in [words[one] for one in places]:
            return places, place
        places.append(place)
    return places, len(words)
