"""The texts of a film strip: excerpts of answers, their characters, lines and new words.

``static/js/prompts/film-text.js`` is the same in JavaScript; a test holds both together.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, TypedDict

import numpy as np

from rlreport.figures.ragged import Floats
from rlreport.text.cells import cells, is_in_word
from rlreport.text.clean import REPLACEMENT
from rlreport.text.word_changes import new_words

MIDDLE = 6  # the bin around 0
BINS = 11
# An answer is cut to its beginning, its end and what is around the cited token, so many
# characters of each
EXCERPT = 300
_BEFORE_CITED = 90


class FilmRowData(TypedDict):
    """An answer of a film strip; ``name`` is what a screen reader says of its link."""

    name: str
    head: str
    about: list[str]
    above: str
    pieces: list[list[str]]
    bins: list[list[int]]
    cited: tuple[int, int] | None
    step: int
    reward: float | None
    href: str | None


class Excerpt(NamedTuple):
    """The parts of an answer that a strip can show, as tokens with their bins."""

    pieces: list[list[str]]
    bins: list[list[int]]
    cited: tuple[int, int] | None  # piece, and token in it


def excerpt(texts: Sequence[str], bins: Sequence[int], cited: int | None) -> Excerpt:
    """Cut an answer to EXCERPT characters of its beginning and its end, and around a token.

    ``bins`` are those of the tokens, 0 for one without a value; ``cited`` is the index of a token.
    """
    starts = [0, *accumulate(map(len, texts))]
    size = starts[-1]
    windows = [(0, EXCERPT), (max(0, size - EXCERPT), size)]
    if cited is not None and 0 <= cited < len(texts):
        start = max(0, starts[cited] - _BEFORE_CITED)
        windows.insert(1, (start, start + EXCERPT))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(windows):
        if joined and start <= joined[-1][1]:
            first, last = joined.pop()
            joined.append((first, max(stop, last)))
        else:
            joined.append((start, stop))
    result = Excerpt([], [], None)
    place = None
    for number, (start, stop) in enumerate(joined):
        first = bisect_left(starts, start)
        if first == len(starts) or starts[first] > start:
            first -= 1  # the window begins within a token
        piece: list[str] = []
        bins_of_piece: list[int] = []
        for index in range(first, len(texts)):
            if starts[index] >= stop:
                break
            if index == cited and place is None:
                place = (number, len(piece))
            within = max(0, start - starts[index])
            piece.append(texts[index][within : stop - starts[index]])
            bins_of_piece.append(bins[index])
        result.pieces.append(piece)
        result.bins.append(bins_of_piece)
    return result._replace(cited=place)


CLIP = 0.98  # share of the log-ratios that the colours of a strip cover


def clip_of(values: Floats) -> float:
    """Return the log-ratio at the ends of the colours: the 98th percentile of the magnitudes.

    It is the end of ``Scale`` in ``static/js/response/metrics.js``; 0 if there are no values.
    """
    sizes = np.sort(np.abs(values[np.isfinite(values)]))
    if not len(sizes):
        return 0.0
    quantile = float(sizes[math.ceil(CLIP * (len(sizes) - 1))])
    return quantile or float(sizes[-1]) or 1.0


def bin_of(value: float, clip: float) -> int:
    """Return the bin of a log-ratio, 1 to 11 of the signed scale; 0 for NaN."""
    if math.isnan(value):
        return 0
    # Halved first: the range of large values may be infinite.
    share = (value / 2 + clip / 2) / clip
    return math.floor(min(BINS - 1, max(0, share * BINS))) + 1


class Atom(NamedTuple):
    """A character of the grid."""

    text: str
    width: int
    bin: int
    is_cited: bool
    is_new: bool = False


def _atoms(texts: Sequence[str], bins: Sequence[int], cited: int) -> list[Atom]:
    """Return the characters of a piece of an answer; ``cited`` is the index of a token or -1.

    A token without text is part of the character that the next one ends. White space that
    follows each other is one character, and so are bytes that are none (U+FFFD).
    """
    starts = [0, *accumulate(map(len, texts))]
    atoms: list[Atom] = []
    before = -1  # the last token so far
    for cell in cells("".join(texts)):
        token = bisect_right(starts, cell.start) - 1
        first = token
        while first - 1 > before and not texts[first - 1]:
            first -= 1
        parts = range(first, token + 1)
        before = max(before, token)
        strongest = max((bins[part] for part in parts), key=_strength)
        atom = Atom(cell.text, cell.width, strongest, cited in parts)
        if atoms and _is_one(atoms[-1], atom):
            atoms[-1] = _merged(atoms[-1], atom)
        else:
            atoms.append(atom)
    return atoms


_LINE_END = "↵"
_SPACES = (" ", _LINE_END, "⇥")


def _is_one(first: Atom, second: Atom) -> bool:
    if first.text in _SPACES:
        return second.text in _SPACES
    return first.text == second.text == REPLACEMENT


def _merged(first: Atom, second: Atom) -> Atom:
    """Return what is shown of both: a line end before a space, the bin that is further from 0."""
    text = _LINE_END if _LINE_END in (first.text, second.text) else first.text
    return first._replace(
        text=text,
        bin=max(first.bin, second.bin, key=_strength),
        is_cited=first.is_cited or second.is_cited,
    )


def _strength(one: int) -> int:
    return abs(one - MIDDLE) + 1 if one else 0


def _text_of(atoms: Sequence[Atom]) -> str:
    return "".join(atom.text for atom in atoms)


class Row(NamedTuple):
    """A row as its drawing needs it."""

    data: FilmRowData
    pieces: list[list[Atom]]

    @property
    def text(self) -> str:
        return " … ".join(map(_text_of, self.pieces))


def marked_rows(data: Sequence[FilmRowData]) -> list[Row]:
    """Return rows whose words that the row above does not have are marked."""
    rows: list[Row] = []
    before: list[str] | None = None
    for one in data:
        place, token = one["cited"] or (-1, -1)
        pieces = []
        for number, texts in enumerate(one["pieces"]):
            cited = token if number == place else -1
            pieces.append(_atoms(texts, one["bins"][number], cited))
        words = [_words(piece) for piece in pieces]
        now = [text for text, _, _ in chain.from_iterable(words)]
        # Answers to different prompts are not compared.
        if before is not None and not one["above"]:
            flags = iter(new_words(before, now))
            for piece, of_piece in zip(pieces, words, strict=True):
                _mark_new(piece, of_piece, flags)
        before = now
        rows.append(Row(one, pieces))
    return rows


_Word = tuple[str, int, int]  # its text, and its first and last + 1 atom


def _words(atoms: Sequence[Atom]) -> list[_Word]:
    """Return the words of a piece: letters and digits together, other characters alone."""
    words: list[_Word] = []
    for index, atom in enumerate(atoms):
        if atom.text in _SPACES:
            continue
        if words:
            text, first, stop = words[-1]
            if stop == index and is_in_word(text[0]) and is_in_word(atom.text[0]):
                words[-1] = (text + atom.text, first, index + 1)
                continue
        words.append((atom.text, index, index + 1))
    return words


def _mark_new(atoms: list[Atom], words: Sequence[_Word], flags: Iterator[bool]) -> None:
    """Mark new words in place, and what is between two of them."""
    stop_before = -1  # where the new word before ends
    for _, first, stop in words:
        is_new = next(flags)
        if is_new:
            start = stop_before if stop_before >= 0 else first
            for index in range(start, stop):
                atoms[index] = atoms[index]._replace(is_new=True)
        stop_before = stop if is_new else -1


class ShownLine(NamedTuple):
    atoms: Sequence[Atom]
    goes_on: bool  # whether what follows is left out


def shown_lines(
    pieces: Sequence[Sequence[Atom]], columns: int, most: int
) -> list[ShownLine]:
    """Return up to ``most`` lines: the first ones and the last ones, and those of the citation."""
    lines: list[Sequence[Atom]] = []
    gaps = set()  # lines after which text is left out already
    for piece in pieces:
        # Room for an ellipsis
        lines += _wrapped(piece, columns - 2)
        gaps.add(len(lines) - 1)
    gaps.discard(len(lines) - 1)
    chosen = _chosen(lines, most)
    shown = []
    for index in chosen:
        is_last = index == len(lines) - 1
        goes_on = not is_last and (index + 1 not in chosen or index in gaps)
        shown.append(ShownLine(lines[index], goes_on))
    return shown


def _chosen(lines: Sequence[Sequence[Atom]], most: int) -> list[int]:
    """Return which of the lines are shown, ascending: both ends, and around the citation."""
    count = len(lines)
    if count <= most:
        return list(range(count))
    last = count - 1
    wanted = [0, last]
    for index, line in enumerate(lines):
        if any(atom.is_cited for atom in line):
            wanted += [index, min(index + 1, last), max(index - 1, 0)]
            break
    # From both ends in turn, the beginning first
    for k in range(1, count):
        wanted += [k, last - k]
    return sorted(list(dict.fromkeys(wanted))[:most])


def _wrapped(atoms: Sequence[Atom], columns: int) -> list[Sequence[Atom]]:
    """Break a piece into lines of at most ``columns`` cells, which are 2 or more."""
    lines: list[Sequence[Atom]] = []
    start = 0
    while start < len(atoms):
        stop = _line_end(atoms, start, columns)
        lines.append(atoms[start:stop])
        start = stop
    return lines or [[]]


def _line_end(atoms: Sequence[Atom], start: int, columns: int) -> int:
    """Return the end of the line that begins at an atom.

    Lines are broken after a space or a wide character, those that have none anywhere.
    """
    last_break = start  # the last place at which the line may be broken
    used = 0
    for index in range(start, len(atoms)):
        atom = atoms[index]
        # A space at the end of a line needs no room.
        if used + atom.width > columns and atom.text != " ":
            return last_break if last_break > start else index
        used += atom.width
        if atom.text in (" ", _LINE_END) or atom.width == 2:
            last_break = index + 1
    return len(atoms)


def fitting(words: str, letters: float) -> str:
    """Return a text of at most so many cells, cut with an ellipsis."""
    found = list(cells(words))
    if sum(cell.width for cell in found) <= letters:
        return "".join(cell.text for cell in found)
    used = 1  # by the ellipsis
    kept = ""
    for cell in found:
        used += cell.width
        if used > letters:
            break
        kept += cell.text
    return kept.rstrip() + "…"


def paragraph(words: str, letters: float, most: int) -> list[str]:
    """Break words into up to ``most`` lines of so many cells."""
    atoms = [Atom(cell.text, cell.width, 0, False) for cell in cells(words)]
    wrapped = _wrapped(atoms, math.floor(letters))
    lines = [_text_of(line).strip() for line in wrapped]
    if len(lines) > most:
        rest = " ".join(lines[most - 1 :])
        lines = [*lines[: most - 1], fitting(rest, letters)]
    return lines
