"""Find the phrases that many responses contain: from single words on, they grow word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Ints, offsets_of
from rlreport.tables import GAP, TextSample
from rlreport.text.clean import REPLACEMENT

Bools = NDArray[np.bool_]

# A longer phrase replaces a shorter one if this fraction of responses with that contain it
CONTINUED = 0.9
MAX_NGRAM = 4  # Maximum number of words in a phrase that repeats a word
MAX_WORDS = 24  # Maximum number of words in any phrase

# Fewest letters of a word that is found inside of other units
GLUED_LETTERS = 4

_SUFFIX = re.compile(
    "(fulness|ations|ation|ingly|ments|ities|ment|ness|edly|ings|able|ally|ing|ers|est|ies|ity"
    "|ed|er|es|ly|al|s|e|y)$"
)
# A word that is written several times without spaces; GLUED_LETTERS or more each time
_REPEATED = re.compile(r"([^\W\d_]{4,}?)\1+")
_NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
# Signs (and "0", any number) that are removed from the start, or from the end, of a text
BEFORE = frozenset("0.,;:!?。，；：！？")
AFTER = frozenset("0.,;。，；")


class Corpus(NamedTuple):
    """The words of the sampled responses and, after them, of the reference's responses."""

    words: Ints  # number of each word in ``names``, -1 for a gap, (words,)
    names: list[str]  # words without endings, in lower case
    response: Ints  # index of each word's response, (words,)
    # Which responses belong to the baseline, and which to the last window, (responses,)
    baseline: Bools
    end: Bools

    def among(self, responses: Bools) -> Corpus:
        """Return only the words of these responses, which keep their indices."""
        is_kept = responses[self.response]
        return self._replace(words=self.words[is_kept], response=self.response[is_kept])

    def starts_of(self, phrase: tuple[str, ...]) -> Ints:
        """Return the indices of the words at which a phrase starts, ascending."""
        numbers = [self.names.index(word) for word in phrase]
        at = np.flatnonzero(self.words == numbers[0])
        for n, number in enumerate(numbers[1:], 1):
            at = at[at + n < len(self.words)]
            is_next = self.words[at + n] == number
            is_same_response = self.response[at + n] == self.response[at]
            at = at[is_next & is_same_response]
        return at


def common_phrases(
    corpus: Corpus, least: float
) -> Iterator[tuple[tuple[str, ...], Ints]]:
    """Yield phrases in ``least`` responses of the last window, and the indices where they start.

    A longer phrase replaces a shorter one if nearly as common. They grow by a word in each pass.
    In pass n, ``phrases`` are those of n words, ``holders`` the number of late responses with
    each, and ``index`` numbers the phrases that start at the words ``at``.
    """
    phrases: list[tuple[str, ...]] = [()]
    holders = np.zeros(1, np.int64)
    at = np.arange(len(corpus.words))
    index = np.zeros(len(corpus.words), np.int64)
    for n in range(MAX_WORDS + 1):
        keys = _keys_of_longer(corpus, at, index, n)
        late_keys, counts = _late_holders(corpus, at, keys)
        # ``least`` is a computed share of responses: it may be too large by a rounding error.
        is_common = counts >= least * (1 - 1e-9)
        common = late_keys[is_common].tolist() if n < MAX_WORDS else []
        longer = _longer_phrases(phrases, corpus.names, common, repeats=n < MAX_NGRAM)
        of_longer = counts[np.isin(late_keys, list(longer))]
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
        # Number the longer phrases by the order of their keys; drop the starts of other ones.
        numbers = pd.Index(list(longer), dtype=np.int64)
        numbered = numbers.get_indexer(pd.Index(keys))
        at = at[numbered >= 0]
        index = numbered[numbered >= 0]


def _keys_of_longer(corpus: Corpus, at: Ints, index: Ints, n: int) -> Ints:
    """Return the key of the phrase of n + 1 words at each start, -1 without a next word.

    Args:
        corpus: the words.
        at: the indices of words at which phrases of n words start.
        index: the number of the phrase at each of these starts. A key is this number × the size of
            the vocabulary + the number of the next word.
        n: number of words.
    """
    next_word = np.minimum(at + n, len(corpus.words) - 1)
    is_in_corpus = at + n == next_word
    # A phrase ends before the end of its response, and before a gap (-1).
    is_same_response = corpus.response[next_word] == corpus.response[at]
    is_word = corpus.words[next_word] >= 0
    keys = index * len(corpus.names) + corpus.words[next_word]
    return np.where(is_in_corpus & is_same_response & is_word, keys, -1)


def _late_holders(corpus: Corpus, at: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """Return the keys of phrases of late responses, ascending, and how many of these have each.

    See ``_keys_of_longer`` for the arguments.
    """
    response = corpus.response[at]
    is_late = (keys >= 0) & corpus.end[response]
    # A key and a response as one number: a response with several occurrences counts once.
    pairs = np.sort(keys[is_late] * len(corpus.end) + response[is_late])
    distinct = Grouped.by(pairs).first(pairs)
    keys_of_pairs = distinct // len(corpus.end)
    by_key = Grouped.by(keys_of_pairs)
    return by_key.first(keys_of_pairs), by_key.counts


def _longer_phrases(
    phrases: list[tuple[str, ...]],
    vocabulary: list[str],
    keys: list[int],
    *,
    repeats: bool,
) -> dict[int, tuple[str, ...]]:
    """Return key -> the phrase with one word more, in the order of ``keys``.

    Args:
        phrases: the phrases, in the order of their numbers.
        vocabulary: the words, in the order of their numbers.
        keys: the number of a phrase × the size of the vocabulary + the number of its next word.
        repeats: whether a phrase may contain a word twice.
    """
    longer = {}
    for key in keys:
        part = phrases[key // len(vocabulary)]
        word = vocabulary[key % len(vocabulary)]
        if repeats or word not in part:
            longer[key] = (*part, word)
    return longer


def _replaced(
    phrases: list[tuple[str, ...]],
    holders: Ints,
    longer: list[tuple[str, ...]],
    of_longer: Ints,
) -> set[int]:
    """Return the indices of phrases that are not to be told.

    A phrase is replaced by a longer one that nearly as many responses contain. Numbers between
    punctuation marks are not text.

    Args:
        phrases: the phrases of n words.
        holders: the number of late responses that contain each of them.
        longer: the common phrases of n + 1 words.
        of_longer: the number of late responses that contain each of these.
    """
    numbers = {phrase: index for index, phrase in enumerate(phrases)}
    replaced = set()
    for index, phrase in enumerate(phrases):
        if "0" in phrase and BEFORE.issuperset(phrase):
            replaced.add(index)
    for phrase, count in zip(longer, of_longer, strict=True):
        if len(set(phrase)) < len(phrase):
            continue  # its repetitions say nothing on how common its parts are
        # A punctuation mark or a number next to a phrase does not make a better one.
        parts = []
        if phrase[-1] not in AFTER:
            parts.append(numbers[phrase[:-1]])
        if phrase[0] not in BEFORE:
            parts.append(numbers[phrase[1:]])
        for part in parts:
            if count >= CONTINUED * holders[part]:
                replaced.add(part)
    return replaced


def word_ids(sample: TextSample, numbers: dict[str, int]) -> Ints:
    """Return the number of each word of the sampled responses, (words,), -1 for a gap.

    Args:
        sample: the sampled responses; a part of a broken character counts as a gap, too.
        numbers: normalized word -> its number; words that are not yet in it are added.
    """
    # By index in the vocabulary
    number = np.full(max(len(sample.vocabulary), 1), -1)
    for index, unit in enumerate(sample.vocabulary):
        if unit != GAP and REPLACEMENT not in unit:
            word = normalize(unit.strip())
            number[index] = numbers.setdefault(word, len(numbers))
    return number[sample.units]


def glued(sample: TextSample, word: str) -> Ints:
    """Return how often each response has a word inside of longer units, as in "4great", (S,).

    A unit counts if it repeats the word, or if nothing else of it is a letter: "great" is not a
    part of "greatest". Shorter words than GLUED_LETTERS are parts of too many others.
    """
    if not (word.isalpha() and len(word) >= GLUED_LETTERS):
        return np.zeros(len(sample.rows), np.int64)
    of_unit = np.zeros(len(sample.vocabulary), np.int64)
    for index, unit in enumerate(sample.vocabulary):
        text = unit.strip().lower()
        found = text.count(word)
        if not found:
            continue
        if normalize(text) == word:
            of_unit[index] = found - 1  # one is counted as a word
        elif found > 1 or not any(map(str.isalpha, text.replace(word, ""))):
            of_unit[index] = found
    before = offsets_of(of_unit[sample.units])
    return np.diff(before[sample.offsets])


def normalize(word: str) -> str:
    """Return a word in lower case, once and without endings, "0" for any number."""
    if _NUMBER.fullmatch(word):
        return "0"
    return _stem(written_once(word.lower()))


def written_once(word: str) -> str:
    """Return a word without its repetitions: "greatgreat" -> "great"."""
    repeated = _REPEATED.fullmatch(word)
    return repeated[1] if repeated else word


def _stem(word: str) -> str:
    """Return a word without English suffixes after its fourth letter: "empowering" -> "empower"."""
    suffix = _SUFFIX.search(word, 4) if word.isascii() else None
    return _stem(word[: suffix.start()]) if suffix else word
