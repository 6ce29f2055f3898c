"""From many overlapping n-grams to the few texts a person would name."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.check.ngram_counts import Bools
from rlreport.text.tokens import Style, readable_tokens

SAME = 0.8
"""Overlap (Jaccard) of the responses that hold two n-grams, if both belong to one text."""

LONGEST_TEXT = 24
"""Units in a merged text at most."""


Units = tuple[int, ...]


def merge(ngrams: Sequence[Units], held: Bools) -> list[Units]:
    """Join overlapping n-grams that the same responses hold, and drop what they cover.

    The one most worth telling comes first; ``held`` is bool (n-grams, responses).
    """
    by_start: dict[Units, list[int]] = {}
    by_end: dict[Units, list[int]] = {}
    for i, units in enumerate(ngrams):
        by_start.setdefault(units[:-1], []).append(i)
        by_end.setdefault(units[1:], []).append(i)
    open_, texts = set(range(len(ngrams))), []
    for i, units in enumerate(ngrams):
        if i not in open_:
            continue
        grown = _grow(i, units, ngrams, held, by_start, by_end)
        texts.append(grown)
        for j in list(open_):
            covered = set(ngrams[j]) & set(grown)
            if covered and (held[i] & held[j]).sum() >= SAME * held[j].sum():
                open_.discard(j)
        open_.discard(i)
    return texts


def _grow(
    seed: int,
    units: Units,
    ngrams: Sequence[Units],
    held: Bools,
    by_start: dict[Units, list[int]],
    by_end: dict[Units, list[int]],
) -> Units:
    """Extend an n-gram to both sides as long as the same responses hold what is added.

    A unit that is already there ends it: "ha ha ha" is the text "ha", repeated.
    """

    def fits(j: int, new: int) -> bool:
        both = (held[seed] & held[j]).sum()
        either = (held[seed] | held[j]).sum()
        return new not in units and bool(both >= SAME * either)

    growing = True
    while growing and len(units) < LONGEST_TEXT:
        growing = False
        for overlap in (2, 1):
            right = next(
                (j for j in by_start.get(units[-overlap:], ()) if fits(j, ngrams[j][-1])), None
            )
            if right is not None and len(units) >= overlap:
                units, growing = (*units, ngrams[right][-1]), True
                break
            left = next((j for j in by_end.get(units[:overlap], ()) if fits(j, ngrams[j][0])), None)
            if left is not None and len(units) >= overlap:
                units, growing = (ngrams[left][0], *units), True
                break
    return units


def readable(units: Sequence[str], unit: str, style: Style | None) -> str:
    """Return the units as one text: parts of characters joined, loose ones at the ends dropped."""
    if unit == "token":
        return "".join(readable_tokens(units, style)).strip("\ufffd").strip()
    joined = ""
    for part in units:
        spaced = (
            joined
            and joined[-1].isascii()
            and joined[-1].isalnum()
            and part[:1].isascii()
            and part[:1].isalnum()
        )
        joined += f" {part}" if spaced else part
    return joined.strip()
