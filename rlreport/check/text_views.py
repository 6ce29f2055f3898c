"""Other ways to look at the sampled texts: stems, openings, closings, structure.

Each is a sample of pseudo-units over the same responses, counted as n-grams of one unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import ascii_letters
from typing import Literal

import numpy as np
import pandas as pd

from rlreport.check.ngram_counts import Bools, Sample, holders
from rlreport.figures.ragged import Ints, offsets_of
from rlreport.tables import TextSample
from rlreport.text.special import is_special
from rlreport.text.units import STRUCTURES

Kind = Literal["text", "stem", "opening", "closing", "structure"]

_SUFFIX = re.compile(
    "(fulness|ations|ation|ingly|ments|ities|ment|ness|edly|ings|able|ally|ing|ers|est|ies|ity"
    "|ed|er|es|ly|al|s|e|y)$"
)
SHORTEST_STEM = 4
PHRASE = 3
"""Words of an opening or a closing."""

MOST_PIECES = 8
"""Tokens of a word at most."""

ONE_FORM = 0.8
"""Share of a stem's uses that are one form, from which it is named by that form."""

ANY = "structure"
"""Any of the structures: the reward may pay for each of them."""

_LETTERS = re.compile(r"[^\W\d_]+")
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at the texts: what its units are, and the sample of them."""

    kind: Kind
    sample: TextSample


@dataclass(frozen=True, slots=True)
class Common:
    """What is worth counting: units that so many responses of a part of the sample hold.

    Attributes:
        ending: the part.
        least: responses of it.
    """

    ending: Sample
    least: float

    def places(self, ngrams: TextSample) -> slice:
        """Return the part's responses among those of the sample."""
        start = int(np.searchsorted(ngrams.rows, self.ending.rows[0]))
        return slice(start, start + len(self.ending.rows))

    def held(self, numbers: Ints, places: Ints, ngrams: TextSample) -> Bools:
        """Say of each number from 0 on whether enough responses hold it.

        Args:
            numbers: int64 (W,).
            places: int64 (W,), the unit of the sample at which each stands.
            ngrams: the sample.
        """
        marks = np.full(len(ngrams.units), -1, np.int32)
        marks[places] = numbers
        own = self.places(ngrams)
        ending = replace(
            self.ending, units=marks[ngrams.offsets[own.start] : ngrams.offsets[own.stop]]
        )
        held, counts = holders(ending, lambda part: part.units.astype(np.int64))
        enough = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
        enough[held[counts >= self.least]] = True
        return enough


def views(
    ngrams: TextSample,
    texts: Sequence[str],
    responses: pd.DataFrame | None,
    common: Common | None = None,
) -> list[View]:
    """Return the views of a sample that hold anything.

    Args:
        ngrams: the sample.
        texts: its vocabulary as people read it.
        responses: the response table, which knows the structure; None for references.
        common: units that are rarer may be left out.
    """
    found = [View("stem", _stems(ngrams, texts, common)), *_phrases(ngrams, texts, common)]
    if responses is not None:
        found.insert(0, View("structure", _structure(ngrams, responses)))
    return [view for view in found if len(view.sample.units)]


def stem(word: str) -> str:
    """Return a word without its inflection, crudely: "empowering" and "empowered" share one."""
    found = _SUFFIX.search(word, SHORTEST_STEM)
    return stem(word[: found.start()]) if found else word


def _stems(ngrams: TextSample, texts: Sequence[str], common: Common | None) -> TextSample:
    """Words that have several forms or several tokens, as their stems."""
    first, words, of_word = _words(ngrams, texts, common)
    roots = [stem(word) if len(word) > SHORTEST_STEM else "" for word in words]
    if common is not None:
        numbers = {root: i for i, root in enumerate(dict.fromkeys(roots))}
        root_of = np.array([numbers[root] for root in roots], np.int64)[of_word]
        enough = common.held(root_of, first, ngrams)
        roots = [root if enough[numbers[root]] else "" for root in roots]
    used = np.bincount(of_word, minlength=len(words))
    forms: dict[str, dict[str, int]] = {}
    for word, root, times in zip(words, roots, used.tolist(), strict=True):
        if root:
            own = forms.setdefault(root, {})
            own[word] = own.get(word, 0) + times
    plain = {text.strip().lower() for text in texts} if forms else set()
    names = {
        root: _stem_name(own)
        for root, own in sorted(forms.items())
        if len(own) > 1 or not plain.issuperset(own)
    }
    number = {root: i for i, root in enumerate(names)}
    told = np.array([number.get(root, -1) for root in roots] or [-1])[of_word]
    kept = told >= 0
    ends = np.searchsorted(first[kept], np.asarray(ngrams.offsets))
    return replace(
        ngrams, offsets=ends, units=told[kept].astype(np.int32), vocabulary=list(names.values())
    )


def _stem_name(forms: dict[str, int]) -> str:
    most = max(forms, key=lambda word: (forms[word], word))
    if forms[most] >= ONE_FORM * sum(forms.values()):
        return most
    shortest, longest = min(forms), max(forms)
    shared = next(
        (i for i, pair in enumerate(zip(shortest, longest, strict=False)) if pair[0] != pair[1]),
        len(shortest),
    )
    return shortest[:shared] + "*"


def _words(
    ngrams: TextSample, texts: Sequence[str], common: Common | None
) -> tuple[Ints, list[str], Ints]:
    """Join the tokens of words.

    Scripts without capitals are left out: some are written without blanks between words. So are
    words that begin as no common stem can.

    Returns:
        where each word starts, int64 (W,); the distinct words in small letters; and the
        number of each word among them, int64 (W,).
    """
    units, offsets = np.asarray(ngrams.units, np.int64), np.asarray(ngrams.offsets)
    tails = [_tail(text) for text in texts]
    begins = np.array([bool(tail) for tail in tails] or [False])[units]
    # Words of logs without tokens, and tokens without blanks, stand for themselves.
    spaced = any(text[:1].isspace() for text in texts)
    inner = [
        bool(tail) and tail == text and spaced for text, tail in zip(texts, tails, strict=True)
    ]
    joins = np.array(inner or [False])[units]
    joins[1:] &= begins[:-1]
    joins[offsets[:-1][offsets[:-1] < len(units)]] = False
    starts = np.flatnonzero(~joins)
    word = begins[starts]
    first, size = starts[word], np.diff(np.append(starts, len(units)))[word]
    if common is not None:
        kept = _may_be_common(tails, units, first, size, ngrams, common)
        first, size = first[kept], size[kept]
    # Pieces of a word are joined tokens right behind its first; a hash tells words apart.
    size = np.minimum(size, MOST_PIECES)
    key = units[first].astype(np.uint64)
    for piece in range(1, MOST_PIECES):
        longer = np.flatnonzero(size > piece)
        key[longer] = key[longer] * _MIX + units[first[longer] + piece].astype(np.uint64)
    _, example, number = np.unique(key, return_index=True, return_inverse=True)
    stops = offsets_of(size[example])
    places = np.repeat(first[example] - stops[:-1], size[example]) + np.arange(stops[-1])
    pieces = [tails[unit] for unit in units[places].tolist()]
    words = ["".join(pieces[i:j]).lower() for i, j in pairwise(stops.tolist())]
    return first, words, number.astype(np.int64)


def _tail(text: str) -> str:
    """Return the letters that a token ends with, "" where they have no capitals."""
    end = len(text.rstrip(ascii_letters))
    while end and text[end - 1].isalpha() and text[end - 1].lower() != text[end - 1].upper():
        end -= 1
    return text[end:]


def _may_be_common(
    tails: list[str], units: Ints, first: Ints, size: Ints, ngrams: TextSample, common: Common
) -> Bools:
    """Say of each word whether enough responses hold words that begin like it, bool (W,).

    All words of a stem have their first SHORTEST_STEM letters in common. Other words may be told
    to begin so by the hash, which rules nothing out.
    """
    # A sigma is written in another way where a word ends, which a part of it does not tell.
    small = [tail.lower().replace("ς", "σ") for tail in tails]
    letters = np.array(small, f"U{SHORTEST_STEM}").view(np.uint32).reshape(-1, SHORTEST_STEM)
    hashes, factors = np.zeros((2, len(tails), SHORTEST_STEM + 1), np.uint64)
    factors[:, 0] = 1
    for place in range(SHORTEST_STEM):
        hashes[:, place + 1] = hashes[:, place] * _MIX + letters[:, place]
        factors[:, place + 1] = factors[:, place] * _MIX
    lengths = (letters > 0).sum(axis=1)
    beginning, left = np.zeros(len(first), np.uint64), np.full(len(first), SHORTEST_STEM)
    open_ = np.arange(len(first))
    for piece in range(SHORTEST_STEM):
        open_ = open_[(size[open_] > piece) & (left[open_] > 0)]
        unit = units[first[open_] + piece]
        taken = np.minimum(left[open_], lengths[unit])
        beginning[open_] = beginning[open_] * factors[unit, taken] + hashes[unit, taken]
        left[open_] -= taken
    number = np.unique(beginning, return_inverse=True)[1]
    kept: Bools = common.held(number, first, ngrams)[number] & (left == 0)
    return kept


def _structure(ngrams: TextSample, responses: pd.DataFrame) -> TextSample:
    """Each structure of a response, and whether it has any."""
    bits = responses["structure"].to_numpy(np.int64)[np.asarray(ngrams.rows)]
    held = np.column_stack([bits > 0, *(bits >> i & 1 for i in range(len(STRUCTURES)))])
    units = np.nonzero(held)[1].astype(np.int32)
    offsets = offsets_of(held.sum(axis=1).astype(np.int64))
    return replace(ngrams, offsets=offsets, units=units, vocabulary=[ANY, *STRUCTURES])


def _of_responses(
    ngrams: TextSample, say: Callable[[Ints], list[str]], kind: Kind, common: Common | None
) -> View:
    """Return the view of what is said of each response, given its units."""
    number: dict[str, int] = {}
    offsets, units = np.asarray(ngrams.offsets), np.asarray(ngrams.units, np.int64)
    cuts = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    told: Counter[str] = Counter()
    if common is not None:
        ending = cuts[common.places(ngrams)]
        told.update(text for low, high in ending for text in say(units[low:high]))
        told = Counter({text: times for text, times in told.items() if times >= common.least})
        cuts = cuts if told else []
    found: list[int] = []
    ends = [0]
    for low, high in cuts:
        said = say(units[low:high])
        found += [number.setdefault(t, len(number)) for t in said if common is None or t in told]
        ends.append(len(found))
    sample = replace(
        ngrams,
        offsets=np.array(ends, np.int64),
        units=np.array(found, np.int32),
        vocabulary=list(number),
    )
    return View(kind, sample)


def _phrases(ngrams: TextSample, texts: Sequence[str], common: Common | None) -> list[View]:
    """The first and the last words of each response, in small letters, without punctuation."""
    blank = [is_special(raw) for raw in ngrams.vocabulary]
    reach = 4 * PHRASE

    def words(units: Ints) -> list[str]:
        text = "".join(
            (texts[u] if ngrams.unit == "token" else f" {texts[u]}")
            for u in units.tolist()
            if not blank[u]
        )
        return [word.lower() for word in _LETTERS.findall(text)]

    def opening(units: Ints) -> list[str]:
        first = words(units[:reach])[:PHRASE]
        return [" ".join(first[:n]) for n in range(2, len(first) + 1)]

    def closing(units: Ints) -> list[str]:
        last = words(units[-reach:])[-PHRASE:]
        return [" ".join(last[-n:]) for n in range(2, len(last) + 1)]

    return [
        _of_responses(ngrams, opening, "opening", common),
        _of_responses(ngrams, closing, "closing", common),
    ]
