"""Other ways to look at the sampled texts: stems, openings, closings, structure.

Each is a sample of pseudo-units over the same responses, counted as n-grams of one unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Ints, offsets_of
from rlreport.tables import NgramSample
from rlreport.text.special import is_special
from rlreport.text.structure import STRUCTURES
from rlreport.text.tokens import Style, readable_tokens

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


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at the texts: what its units are, and the sample of them."""

    kind: Kind
    sample: NgramSample


def views(ngrams: NgramSample, style: Style | None, responses: pd.DataFrame | None) -> list[View]:
    """Return the views of a sample that hold anything.

    Args:
        ngrams: the sample.
        style: how its tokens are written, None for words.
        responses: the response table, which knows the structure; None for references.
    """
    texts = list(readable_tokens(ngrams.vocabulary, style)) if style else list(ngrams.vocabulary)
    found = [View("stem", _stems(ngrams, texts)), *_phrases(ngrams, texts)]
    if responses is not None:
        found.insert(0, View("structure", _structure(ngrams, responses)))
    return [view for view in found if len(view.sample.units)]


def stem(word: str) -> str:
    """Return a word without its inflection, crudely: "empowering" and "empowered" share one."""
    found = _SUFFIX.search(word, SHORTEST_STEM)
    return stem(word[: found.start()]) if found else word


def _stems(ngrams: NgramSample, texts: list[str]) -> NgramSample:
    """Words that have several forms or several tokens, as their stems."""
    units, offsets = np.asarray(ngrams.units, np.int64), np.asarray(ngrams.offsets)
    first, words, of_word = _words(units, offsets, texts)
    roots = [stem(word) if len(word) > SHORTEST_STEM else "" for word in words]
    used = np.bincount(of_word, minlength=len(words))
    forms: dict[str, dict[str, int]] = {}
    for word, root, times in zip(words, roots, used.tolist(), strict=True):
        if root:
            own = forms.setdefault(root, {})
            own[word] = own.get(word, 0) + times
    plain = {text.strip().lower() for text in texts}
    names = {
        root: _stem_name(own)
        for root, own in sorted(forms.items())
        if len(own) > 1 or not plain.issuperset(own)
    }
    number = {root: i for i, root in enumerate(names)}
    told = np.array([number.get(root, -1) for root in roots] or [-1])[of_word]
    kept = told >= 0
    ends = np.searchsorted(first[kept], offsets)
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


def _words(units: Ints, offsets: Ints, texts: list[str]) -> tuple[Ints, list[str], Ints]:
    """Join the tokens of words.

    Scripts without capitals are left out: some are written without blanks between words.

    Returns:
        where each word starts, int64 (W,); the distinct words in small letters; and the
        number of each word among them, int64 (W,).
    """
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
    first = np.flatnonzero(begins & ~joins)
    # Pieces of a word are joined tokens right behind its first; a hash tells words apart.
    key = units[first].astype(np.uint64)
    size = np.ones(len(first), np.int64)
    going = np.ones(len(first), np.bool_)
    for piece in range(1, MOST_PIECES):
        at = np.minimum(first + piece, max(len(units) - 1, 0))
        going &= (first + piece < len(units)) & joins[at] if len(units) else False
        key[going] = key[going] * np.uint64(0x9E3779B97F4A7C15) + units[at[going]].astype(np.uint64)
        size[going] += 1
    _, example, number = np.unique(key, return_index=True, return_inverse=True)
    words = [
        "".join(tails[u] for u in units[first[i] : first[i] + size[i]].tolist()).lower()
        for i in example.tolist()
    ]
    return first, words, number.astype(np.int64)


def _tail(text: str) -> str:
    """Return the letters that a token ends with, "" where they have no capitals."""
    end = len(text)
    while end and text[end - 1].isalpha() and text[end - 1].lower() != text[end - 1].upper():
        end -= 1
    return text[end:]


def _structure(ngrams: NgramSample, responses: pd.DataFrame) -> NgramSample:
    """Each structure of a response, and whether it has any."""
    bits = responses["structure"].to_numpy(np.int64)[np.asarray(ngrams.rows)]
    held = np.column_stack([bits > 0, *(bits >> i & 1 for i in range(len(STRUCTURES)))])
    units = np.nonzero(held)[1].astype(np.int32)
    offsets = offsets_of(held.sum(axis=1).astype(np.int64))
    return replace(ngrams, offsets=offsets, units=units, vocabulary=[ANY, *STRUCTURES])


def _of_responses(ngrams: NgramSample, say: Callable[[Ints], list[str]], kind: Kind) -> View:
    """Return the view of what is said of each response, given its units."""
    number: dict[str, int] = {}
    offsets, units = np.asarray(ngrams.offsets), np.asarray(ngrams.units, np.int64)
    found: list[int] = []
    ends = [0]
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        found += [number.setdefault(text, len(number)) for text in say(units[low:high])]
        ends.append(len(found))
    sample = replace(
        ngrams,
        offsets=np.array(ends, np.int64),
        units=np.array(found, np.int32),
        vocabulary=list(number),
    )
    return View(kind, sample)


def _phrases(ngrams: NgramSample, texts: list[str]) -> list[View]:
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
        _of_responses(ngrams, opening, "opening"),
        _of_responses(ngrams, closing, "closing"),
    ]
