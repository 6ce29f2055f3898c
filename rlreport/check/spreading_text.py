"""Texts that spread, and which of them are one thing under several names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlreport.check.text_views import ANY, Kind
from rlreport.figures.ragged import Ints

SAME = 0.8
"""Overlap (Jaccard) of the responses that hold two texts, if one says nothing beyond the other."""

_MARKS = re.compile(r"[\W\d_]*")
"""Numbers and signs alone, as lists and headings are made of."""


@dataclass(frozen=True, slots=True)
class SpreadingText:
    """A text that spreads: which sampled responses hold it, how often and where, (S,) each."""

    kind: Kind
    words: str
    n: int
    before: float
    after: float
    z: float
    counts: Ints
    position: Ints


def named_once(found: dict[str, list[SpreadingText]]) -> list[SpreadingText]:
    """Return the texts, each thing under the name that a person would give it.

    A form is named for what it is, not for its marks; a word for its stem, not for its
    pieces; but a phrase, where there is one, rather than one of its words.
    """
    structures = found.get("structure", [])
    whole = [text for text in structures if text.words == ANY]
    if whole:
        alike = [t for t in structures if t.words != ANY and _alike(t, whole[0])]
        structures = alike[:1] or whole
    texts = found["text"]
    texts = [
        t
        for t in texts
        if not (_MARKS.fullmatch(t.words) and any(_inside(t, form) for form in structures))
    ]
    stems = [
        s
        for s in found.get("stem", [])
        if not any(s.words.strip("*") in t.words.lower() and _alike(s, t) for t in texts)
    ]
    texts = [
        t for t in texts if not any(_piece_of(t.words, s.words) and _inside(t, s) for s in stems)
    ]
    kept = sorted([*structures, *stems, *texts], key=lambda text: -text.z)
    for kind in ("opening", "closing"):
        for text in found.get(kind, []):
            if not any(_alike(text, other) for other in kept):
                kept.append(text)
    return kept


def _piece_of(text: str, name: str) -> bool:
    """Say whether a text is a piece or a form of a word, rather than a phrase around it."""
    letters, root = text.lower().strip(" .,;:!?*"), name.strip("*")
    return letters in root or (root in letters and " " not in letters) or letters.isalpha()


def _alike(one: SpreadingText, other: SpreadingText) -> bool:
    held, held_too = one.counts > 0, other.counts > 0
    return bool((held & held_too).sum() >= SAME * (held | held_too).sum())


def _inside(one: SpreadingText, other: SpreadingText) -> bool:
    held = one.counts > 0
    return bool((held & (other.counts > 0)).sum() >= SAME * held.sum())
