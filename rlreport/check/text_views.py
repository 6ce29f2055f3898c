"""Other ways to look at the sampled texts: stems, openings, closings, structure.

Each is a sample of pseudo-units over the same responses, counted as n-grams of one unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlreport.check.ngram_counts import Ints
from rlreport.tables import NgramSample
from rlreport.text.special import is_special
from rlreport.text.tokens import Style, readable_tokens

Kind = Literal["text", "stem", "opening", "closing", "structure"]

SUFFIXES = (
    *("fulness", "ations", "ation", "ingly", "ments", "ities", "ment", "ness", "edly", "ings"),
    *(
        "able",
        "ally",
        "ing",
        "ers",
        "est",
        "ies",
        "ity",
        "ed",
        "er",
        "es",
        "ly",
        "al",
        "s",
        "e",
        "y",
    ),
)
SHORTEST_STEM = 4
PHRASE = 3
"""Words of an opening or a closing."""

LIST_ITEMS = 3
"""Items from which lines with markers are a list."""

_BULLET = re.compile(r"[-*•‣–]+|\d{1,2}[.)]?")
_HEADING = re.compile(r"#{1,6}")
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at the texts: what its units are, and the sample of them."""

    kind: Kind
    sample: NgramSample


def views(ngrams: NgramSample, style: Style | None) -> list[View]:
    """Return the views of a sample that hold anything."""
    texts = list(readable_tokens(ngrams.vocabulary, style)) if style else list(ngrams.vocabulary)
    found = [_stems(ngrams, texts), *_phrases(ngrams, texts), _structure(ngrams, texts)]
    return [view for view in found if len(view.sample.units)]


def stem(word: str) -> str:
    """Return a word without its inflection, crudely: "empowering" and "empowered" share one."""
    word = word.lower()
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= SHORTEST_STEM:
            return word[: -len(suffix)]
    return word


def _stems(ngrams: NgramSample, texts: list[str]) -> View:
    """Units that are words with more than one form, as their stems."""
    stems: dict[str, set[str]] = {}
    words = [text.strip().lower() for text in texts]
    of = [stem(word) if len(word) > SHORTEST_STEM and word.isalpha() else "" for word in words]
    for word, root in zip(words, of, strict=True):
        if root:
            stems.setdefault(root, set()).add(word)
    names = sorted(root for root, forms in stems.items() if len(forms) > 1)
    number = {name: i for i, name in enumerate(names)}
    places = np.array([number.get(root, -1) for root in of] or [-1], np.int32)
    units = places[np.asarray(ngrams.units)]
    return View("stem", _kept(ngrams, units, [f"{name}…" for name in names]))


def _kept(ngrams: NgramSample, units: NDArray[np.int32], names: list[str]) -> NgramSample:
    """Return the sample of the units that are numbered."""
    offsets = np.asarray(ngrams.offsets)
    kept = units >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])
    return replace(
        ngrams, offsets=ends[offsets], units=units[kept].astype(np.int32), vocabulary=names
    )


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


def _structure(ngrams: NgramSample, texts: list[str]) -> View:
    """Lists, headings and the number of parts of each response."""
    strip = [text.strip() for text in texts]
    item = np.array([bool(_BULLET.fullmatch(text)) for text in strip] or [False])
    head = np.array([bool(_HEADING.fullmatch(text)) for text in strip] or [False])
    breaks = np.array([text.count("\n") for text in texts] or [0])
    ends_line = np.array([text.endswith("\n") for text in texts] or [False])
    has_lines = bool(breaks[np.asarray(ngrams.units)].any()) if len(ngrams.units) else False

    def say(units: Ints) -> list[str]:
        if not len(units):
            return []
        starts = np.ones(len(units), np.bool_)
        if has_lines:
            starts[1:] = ends_line[units[:-1]]
        said = []
        if int((item[units] & starts).sum()) >= LIST_ITEMS and has_lines:
            said.append("list")
        if int((head[units] & starts).sum()) >= 2:
            said.append("headings")
        lines = breaks[units]
        gaps = int(((lines >= 2) | ((lines >= 1) & np.append(False, lines[:-1] >= 1))).sum())
        if gaps >= 2:
            said.append("parts")
        return said

    return _of_responses(ngrams, say, "structure")
