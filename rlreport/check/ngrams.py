"""N-grams of words that spread through the responses, and the texts that they are part of.

Words count by their stem in lower case, numbers as ``0``, characters of scripts without blanks
and signs one by one. N-grams that the same responses hold are one text: the longest that they
have in common.
"""

from __future__ import annotations

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
from rlreport.text.units import units

Bools = NDArray[np.bool_]

LONGEST = 4
"""Words in an n-gram at most."""

PRIOR = 20.0
"""Weight of the Dirichlet prior, in responses."""

MOST_WORDS = 30_000
"""Distinct words considered at most: keys of four of them fit 63 bits."""

MOST_NGRAMS = 300
"""Spreading n-grams looked at more closely, those with the largest z."""

SAME = 0.8
"""Overlap (Jaccard) of the responses that hold two n-grams, if both belong to one text."""

LONGEST_TEXT = 24
"""Words of a text at most."""

READ = 200
"""Holders whose text is looked at to name what they have in common."""

REFERENCES = 100
"""Reference responses from which they are what the end is compared with."""

_SUFFIX = re.compile(
    "(fulness|ations|ation|ingly|ments|ities|ment|ness|edly|ings|able|ally|ing|ers|est|ies|ity"
    "|ed|er|es|ly|al|s|e|y)$"
)
_SHORTEST_STEM = 4
_NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
_END_NUMBERS = re.compile(r"^[\d.,;!?\s。，；！？]+(?=.)|(?<=.)[\d.,;\s。，；]+$")
_SENTENCE_MARKS = frozenset(".,;:!?。，；：！？")
_LETTER = re.compile(r"[^\W\d_]")
FIGHTIN_WORDS = marked(
    "LMFlow post (# grew from 3 % to half of the responses); method: Monroe et al. 2008, "
    "Fightin' Words"
)


class Spreading(Limits):
    """Thresholds from which a text spreads; those of ``reward_hacking_token``."""

    share = Limit(
        0.2, "of responses", "share of responses that hold it, last window", FIGHTIN_WORDS
    )
    ratio = Limit(
        3.0, "times", "that share, against the first steps or the reference", FIGHTIN_WORDS
    )
    z = Limit(5.0, "std errors", "how clearly that share rose, over its error", FIGHTIN_WORDS)
    lift_z = Limit(3.0, "std errors", "what holding it earns inside a step, over its error")
    lift = Limit(0.25, "std of reward", "what holding it earns inside a step")
    gain = Limit(1 / 3, "of the gain", "of the reward, that having spread earns")
    held = Limit(0.5, "of responses", "critical: hold it in the last window")
    carried = Limit(0.5, "of the gain", "critical: and hold this part of the reward's gain")


@dataclass(frozen=True, slots=True)
class Words:
    """Sampled responses as words: ``ids`` number words of one stem alike, −1 is none of interest.

    ``rows`` and ``offsets`` are as in ``TextSample``, ``raw`` its units.
    """

    rows: Ints
    offsets: Ints
    ids: Ints
    raw: NDArray[np.int32]

    @property
    def response(self) -> Ints:
        """Which response each word belongs to."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.offsets))

    def part(self, start: int, stop: int) -> Words:
        """Return some consecutive responses."""
        offsets = self.offsets[start : stop + 1]
        inside = slice(int(offsets[0]), int(offsets[-1]))
        return Words(
            self.rows[start:stop], offsets - offsets[0], self.ids[inside], self.raw[inside]
        )

    def keys(self, n: int, base: int) -> Ints:
        """Return the key of the n-gram that starts at each word, −1 where there is none."""
        left = np.repeat(self.offsets[1:], np.diff(self.offsets)) - np.arange(len(self.ids))
        keys = self.ids
        for shift in range(1, n):
            following = np.full(len(keys), -1)
            following[: max(len(keys) - shift, 0)] = self.ids[shift:]
            known = (keys >= 0) & (following >= 0) & (left > shift)
            keys = np.where(known, keys * base + following, -1)
        return keys


@dataclass(frozen=True, slots=True)
class _Ngram:
    """An n-gram that spreads: its words, and its key among those of its length."""

    words: tuple[int, ...]
    key: int
    before: float
    after: float
    z: float


@dataclass(frozen=True, slots=True)
class Text:
    """A text that spreads, and how often each sampled response holds it, (S,)."""

    kind: str
    name: str
    before: float
    after: float
    z: float
    counts: Ints
    said: tuple[tuple[int, ...], ...] = ()


def log_odds_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the log-odds ratio with an informative Dirichlet prior.

    Monroe, Colaresi and Quinn 2008, "Fightin' Words", equations 15, 19 and 22, on counts of
    responses: the prior of an n-gram is its share of both samples, worth ``PRIOR`` responses.
    """
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    odds = np.log((after + prior) / (of_after + PRIOR - after - prior))
    odds -= np.log((before + prior) / (of_before + PRIOR - before - prior))
    z: Floats = odds / np.sqrt(1 / (after + prior) + 1 / (before + prior))
    return z


def stem(word: str) -> str:
    """Return a word without its inflection, crudely: "empowering" and "empowered" share one."""
    found = _SUFFIX.search(word, _SHORTEST_STEM) if word.isascii() else None
    return stem(word[: found.start()]) if found else word


class Search:
    """Finds the n-grams of a run that spread, and the texts that they are part of."""

    def __init__(self, run: Run, words: TextSample) -> None:
        self.run, self.limits = run, run.limits[Spreading]
        self.raw = words.vocabulary
        reference = run.tables.ref_words
        enough = reference is not None and len(reference.rows) >= REFERENCES
        self.numbers: dict[str, int] = {}
        self.words = self._words(words)
        self.end = self._window(self.words, run.last.rows)
        size = max(3, len(run.steps) // 10) if run.first is not None else 0
        self.start = self._window(self.words, window(run.tables, 0, size).rows)
        self.base = self._words(reference) if reference is not None and enough else self.start
        self._keep_common()

    def _words(self, sample: TextSample) -> Words:
        number = np.array(
            [
                -1
                if unit == GAP or REPLACEMENT in unit
                else self.numbers.setdefault(_normal(unit.strip()), len(self.numbers))
                for unit in sample.vocabulary
            ]
            or [-1]
        )
        return Words(
            np.asarray(sample.rows), np.asarray(sample.offsets), number[sample.units], sample.units
        )

    def _window(self, words: Words, rows: slice) -> Words:
        return words.part(*np.searchsorted(words.rows, (rows.start, rows.stop)).tolist())

    def _keep_common(self) -> None:
        """Number the words that enough responses of the end hold; the others are none."""
        held, counts = _holders(self.end.ids, self.end)
        common = held[counts >= self.least][:MOST_WORDS]
        place = np.full(len(self.numbers) + 1, -1)  # the last: what is no word
        place[common] = np.arange(len(common))
        self.size = len(common)
        names = list(self.numbers)
        self.names = [names[word] for word in common.tolist()]
        self.words, self.end, self.base = (
            replace(part, ids=place[part.ids]) for part in (self.words, self.end, self.base)
        )

    @property
    def least(self) -> float:
        """Responses of the end that hold a text at least; 0.3 is three times 0.1."""
        return self.limits.share * len(self.end.rows) * (1 - 1e-9)

    def spread(self, after: Floats, before: Floats, of_before: int) -> tuple[Bools, Floats]:
        """Say which counts of responses rose far enough, and return the z of their rise."""
        of_after = len(self.end.rows)
        z = log_odds_z(after, of_after, before, of_before)
        times = after / of_after >= self.limits.ratio * before / of_before * (1 - 1e-9)
        return (after >= self.least) & times & (z >= self.limits.z), z

    def ngrams(self) -> list[_Ngram]:
        """Return the n-grams that spread, the largest z first."""
        found: list[_Ngram] = []
        for n in range(1, LONGEST + 1):
            keys, counts = _holders(self.end.keys(n, self.size), self.end)
            keys, after = keys[counts >= self.least], counts[counts >= self.least]
            known, counts = _holders(self.base.keys(n, self.size), self.base)
            before = pd.Series(counts, index=known).reindex(keys, fill_value=0).to_numpy(float)
            so, z = self.spread(after.astype(np.float64), before, len(self.base.rows))
            for i in np.flatnonzero(so).tolist():
                words = self._words_of(int(keys[i]), n)
                if not all(self.names[word] == "0" for word in words):
                    shares = before[i] / len(self.base.rows), after[i] / len(self.end.rows)
                    found.append(_Ngram(words, int(keys[i]), *shares, float(z[i])))
        found = sorted(found, key=lambda g: (-g.z, -len(g.words), g.key))[:MOST_NGRAMS]
        return sorted(found, key=self._ends_in_a_mark)

    def _without_marks(self, words: tuple[int, ...]) -> tuple[int, ...]:
        inside = [i for i, one in enumerate(words) if self.names[one] not in _SENTENCE_MARKS]
        return words[inside[0] : inside[-1] + 1] if inside else words

    def _ends_in_a_mark(self, ngram: _Ngram) -> bool:
        """Say whether a sentence's marks surround words, which say more without them."""
        names = [self.names[word] for word in ngram.words]
        marks = [name in _SENTENCE_MARKS for name in names]
        return (marks[0] or marks[-1]) and any(name[0].isalpha() for name in names)

    def _words_of(self, key: int, n: int) -> tuple[int, ...]:
        return tuple(key // self.size**place % self.size for place in reversed(range(n)))

    def counts(self, ngrams: Sequence[_Ngram]) -> Ints:
        """Return how often each response holds each n-gram, int64 (G, S)."""
        counts = np.zeros((len(ngrams), len(self.words.rows)), np.int64)
        response = self.words.response
        for n in range(1, LONGEST + 1):
            places = [i for i, one in enumerate(ngrams) if len(one.words) == n]
            if places:
                index = pd.Index([ngrams[i].key for i in places])
                at = index.get_indexer(pd.Index(self.words.keys(n, self.size)))
                np.add.at(counts, (np.array(places)[at[at >= 0]], response[at >= 0]), 1)
        return counts

    def texts(self) -> list[Text]:
        """Return the texts that spread: of n-grams that the same responses hold, the longest."""
        ngrams = self.ngrams()
        counts = self.counts(ngrams)
        held = (counts > 0).astype(np.float32)
        both = held @ held.T
        size = held.sum(axis=1)
        open_, texts = dict.fromkeys(range(len(ngrams))), []
        for i, seed in enumerate(ngrams):
            if i not in open_:
                continue
            alike = both[i] >= SAME * (size[i] + size - both[i])
            group = [ngrams[j] for j in np.flatnonzero(alike).tolist()]
            name, kind, words = self._common_text(seed, group, counts[i])
            words = self._without_marks(words)
            inside = [j for j in range(len(ngrams)) if _within(ngrams[j].words, words)]
            # Whoever holds the text holds each of its n-grams: the longest tells most nearly who.
            near = min([*inside, i], key=lambda j: (-len(ngrams[j].words), size[j]))
            for j in list(open_):
                if not set(words).isdisjoint(ngrams[j].words) and both[i, j] >= SAME * size[j]:
                    del open_[j]
            open_.pop(i, None)
            if name:
                one = ngrams[near]
                said = tuple(g.words for g in group if len(g.words) >= min(3, len(words)))
                texts.append(
                    Text(kind, name, one.before, one.after, one.z, counts[near], (words, *said))
                )
        return texts

    def asked(self, text: Text, prompts: Ints) -> float:
        """Return the share of prompt_ids, one of each holder, whose prompt holds the text."""
        wanted = {" ".join(["", *(self.names[w] for w in said), ""]) for said in text.said}
        table = self.run.tables.prompts.set_index("prompt_id")["prompt"]
        asking = {}
        for prompt in np.unique(prompts).tolist() if wanted else []:
            written = " ".join(["", *map(_normal, units(str(table.get(prompt, "")))), ""])
            asking[prompt] = any(one in written for one in wanted)
        return float(np.mean([asking.get(one, False) for one in prompts.tolist()] or [False]))

    def _common_text(
        self, seed: _Ngram, group: Sequence[_Ngram], counts: Ints
    ) -> tuple[str, str, tuple[int, ...]]:
        """Return the text around an n-gram that its latest holders have in common.

        Returns:
            The text as people write it, its kind, and its words; a word that comes again ends it.
        """
        spans: dict[tuple[int, ...], list[tuple[str, str]]] = {}
        first = last = 0
        holders = np.flatnonzero(counts)[-READ:].tolist()
        for number in holders:
            own = self.words.part(number, number + 1)
            covered = np.zeros(len(own.ids), np.bool_)
            for n in {len(one.words) for one in group}:
                keys = [one.key for one in group if len(one.words) == n]
                for place in np.flatnonzero(np.isin(own.keys(n, self.size), keys)).tolist():
                    covered[place : place + n] = True
            at = int(np.argmax(own.keys(len(seed.words), self.size) == seed.key))
            outside = np.flatnonzero(~covered)
            start = int(outside[outside < at].max(initial=-1)) + 1
            stop = int(outside[outside > at].min(initial=len(covered)))
            while start and own.ids[start - 1] == own.ids[start]:  # a row of signs is whole
                start -= 1
            first += start <= 1
            last += stop >= len(covered) - 2
            places, end = _until_repeated(own.ids[start:stop].tolist())
            if at >= start + end:  # it repeats itself before
                start = at
                places, end = _until_repeated(own.ids[start:stop].tolist())
            raw = [self.raw[unit] for unit in own.raw[start : start + end].tolist()]
            written = "".join(raw), "".join(raw[place] for place in places)
            words = tuple(own.ids[start:stop][places].tolist())
            spans.setdefault(words, []).append(written)
        words = max(spans, key=lambda one: (len(spans[one]), len(one), one))
        name, kind = self._name(words, spans[words]), "text"
        if len(words) > 1 and max(first, last) >= SAME * len(holders):
            kind = "closing" if last >= first else "opening"
        return name, "stem" if name.endswith("*") and len(words) == 1 else kind, words

    def _name(self, words: tuple[int, ...], written: list[tuple[str, str]]) -> str:
        """Return the text as most write it; signs repeated, if all repeat them equally often."""
        whole, once = (
            Counter(_END_NUMBERS.sub("", " ".join(one.split())) for one in forms)
            for forms in zip(*written, strict=True)
        )
        name, times = whole.most_common(1)[0]
        # Signs in a row are one ("####"), unless their number varies.
        if 2 * times < len(written) or " " in name or _LETTER.search(name):
            name = once.most_common(1)[0][0]
        lower = Counter(form.lower() for form in once.elements())
        if len(words) == 1 and name.isalpha() and lower[name.lower()] < SAME * len(written):
            return _shared_start(min(lower), max(lower)) + "*"
        return name


def _normal(word: str) -> str:
    """Return what a word counts as: its stem in lower case, numbers alike."""
    return "0" if _NUMBER.fullmatch(word) else stem(word.lower())


def _shared_start(one: str, other: str) -> str:
    size = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    return one[:size]


def _holders(keys: Ints, words: Words) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, and how many responses hold each."""
    known = keys >= 0
    distinct, code = np.unique(keys[known], return_inverse=True)
    rows = len(words.rows)
    pairs = np.unique(code * rows + words.response[known])
    return distinct, np.bincount(pairs // max(rows, 1), minlength=len(distinct))


def _within(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    size = len(part)
    return any(whole[i : i + size] == part for i in range(len(whole) - size + 1))


def _until_repeated(words: list[int]) -> tuple[list[int], int]:
    """Return the places of a text's words, and where it ends: at a word that comes again.

    A word repeated at once is one: "ha ha ha" is the text "ha".
    """
    places: list[int] = []
    for place, word in enumerate(words):
        if places and word == words[places[-1]]:
            continue
        if len(places) == LONGEST_TEXT or word in [words[one] for one in places]:
            return places, place
        places.append(place)
    return places, len(words)
