"""Read the sample for statistics of texts and tokens, in parts that can be cached.

A part has the ids of the tokens and words of some responses, and values such as KL per token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, finite_sums, offsets_of
from rlreport.figures.token import TokenFigures
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import MAX_TEXT
from rlreport.read.chunk import format_keys
from rlreport.read.readback import RowLocations, batches, read_rows
from rlreport.read.rows import Row
from rlreport.read.tokens import token_rows
from rlreport.store import Store, pack, program, unpack
from rlreport.tables import GAP
from rlreport.text.clean import clean_text, safe_text, without_special
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units, units

EDGE = 1024
"""Of longer responses only the first and the last EDGE tokens (or words) are sampled."""

FIGURES = ("kl", "log_ratio", "prob", "ref_prob", "value_error")
_MAX_STRING = 200
_DECILES = 10
_LARGEST = 2.0**40
"""Values are clipped to this, as k3 may be infinite."""

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


class Units(NamedTuple):
    """Texts as units: row and length of each text, and the ids of all their units."""

    rows: Ints
    lengths: Ints
    ids: NDArray[np.int32]

    def chosen(self, keep: NDArray[np.bool_]) -> tuple[Units, Ints]:
        """Return the texts to keep, sorted by row, and the positions of their units."""
        texts = np.flatnonzero(keep)
        texts = texts[np.argsort(self.rows[texts])]
        lengths = self.lengths[texts]
        starts = offsets_of(self.lengths)[:-1][texts] - offsets_of(lengths)[:-1]
        places: Ints = np.arange(int(lengths.sum())) + np.repeat(starts, lengths)
        return Units(self.rows[texts], lengths, self.ids[places]), places


class Part(NamedTuple):
    """Some sampled responses, as workers return them and the cache stores them.

    Attributes:
        units, words, references: of the responses, and of the reference's responses.
        is_token: bool (rows,), whether the units are tokens.
        distinct_2: float64 (rows,), distinct among all bigrams, NaN without any.
        labels: int8 (rows,), see ``TextSample``.
        figures: float32 (len(FIGURES), units), or empty if no units are tokens.
        tenths: float64 (4, 10): tokens with a critic error by tenth of the response, and sums
            of the absolute errors, values and returns.
        strings, word_strings: strings of the ids in ``units``, and in the others.
    """

    units: Units
    words: Units
    references: Units
    is_token: NDArray[np.bool_]
    distinct_2: Floats
    labels: NDArray[np.int8]
    figures: NDArray[np.float32]
    tenths: Floats
    strings: list[str]
    word_strings: list[str]

    def moved(self, rows: Ints) -> Part:
        """Return the part with its row numbers replaced by these rows of the response table."""
        units, words, references = (
            text._replace(rows=rows[text.rows])
            for text in (self.units, self.words, self.references)
        )
        return self._replace(units=units, words=words, references=references)


def read_part(
    responses: pd.DataFrame,
    shared: tuple[RowLocations, ReadOptions, FigureOptions, Store | None],
) -> Part:
    """Read some responses again, or use the cached part of the same lines."""
    locations, options, figures, store = shared
    locations.select(responses)
    hashes = responses["line_hash"].to_numpy()
    key = _key(hashes, locations, options, figures) if store else b""
    part = _decoded(store.get(key), len(responses)) if store and key else None
    if part is None:
        reader = _Reader(options, figures)
        for batch in batches(read_rows(locations, range(len(responses)))):
            reader.add(batch)
        part = reader.part()
        if store and key:
            arrays: list[Any] = [*part.units, *part.words, *part.references, *part[3:-2]]
            store.put(key, pack({"strings": part[-2:]}, arrays))
    return part.moved(responses.index.to_numpy())


def _key(
    hashes: NDArray[np.uint64],
    locations: RowLocations,
    options: ReadOptions,
    figures: FigureOptions,
) -> bytes:
    """Return the cache key of a part; b"" if it cannot be cached."""
    files = np.unique(locations.file).tolist()
    formats = format_keys([locations.formats[file] for file in files], options.tokenizer)
    if not formats or not hashes.all():
        return b""
    texts = options.pad_tokens, options.tokenizer, options.mapping, options.step_from_path
    names = [locations.sources[file].name for file in files]
    parts = ("sample", program(), texts, figures, names, formats)
    return repr(parts).encode(errors="surrogatepass") + hashes.tobytes() + locations.sub.tobytes()


def _decoded(data: bytes | None, rows: int) -> Part | None:
    """Return a part of so many rows; None if it is missing or damaged."""
    try:
        head, arrays = unpack(data or b"")
        strings, words = ([str(string) for string in kind] for kind in head["strings"])
        own, word, reference = (Units(*arrays[i : i + 3]) for i in (0, 3, 6))
        part = Part._make([own, word, reference, *arrays[9:], strings, words])
        fits = len(own.rows) == rows
        for text, vocabulary in ((own, strings), (word, words), (reference, words)):
            fits &= len(text.ids) == text.lengths.sum() and len(text.rows) == len(text.lengths)
            fits &= text.ids.max(initial=-1) < len(vocabulary) and text.rows.max(initial=0) < rows
        return part if fits else None
    except (ValueError, TypeError, LookupError):
        return None


class Numbers(dict[str, int]):
    """Assigns ids to strings in the order of their first occurrence."""

    def __missing__(self, string: str) -> int:
        self[string] = number = len(self)
        return number

    def of(self, strings: Sequence[str]) -> NDArray[np.int32]:
        """Return the id of each string."""
        return np.fromiter(map(self.__getitem__, strings), np.int32, len(strings))


class _Reader:
    """Reads sampled responses batch by batch."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self._options, self._figures = options, figures
        self._numbers, self._word_numbers = Numbers(), Numbers()
        self._units: list[tuple[int, NDArray[np.int32]]] = []
        self._words: list[tuple[int, NDArray[np.int32]]] = []
        self._references: list[tuple[int, NDArray[np.int32]]] = []
        self._is_token: list[bool] = []
        self._distinct_2: list[float] = []
        self._labels: list[int] = []
        self._values: list[NDArray[np.float32]] = []
        self._tenths = np.zeros((4, _DECILES))

    def add(self, batch: Sequence[tuple[int, Row]]) -> None:
        pads = self._options.pad_tokens
        with np.errstate(over="ignore", invalid="ignore"):
            tokens = token_rows([row.tokens for _, row in batch], frozenset(pads))
            tokens = None if tokens is None else tokens.sampled_only()
            figures = TokenFigures() if tokens is None else tokens.figures(self._figures)
            if tokens is not None:
                self._add_positions(figures, tokens.offsets)
        tokens_of: dict[int, tuple[list[str], TokenFigures]] = {}
        if tokens is not None:
            cuts = zip(tokens.offsets[:-1].tolist(), tokens.offsets[1:].tolist(), strict=True)
            for place, strings, cut in zip(tokens.rows.tolist(), tokens.strings, cuts, strict=True):
                if strings is not None:
                    tokens_of[place] = strings, figures.between(*cut)
        for place, (number, row) in enumerate(batch):
            strings, values = tokens_of.get(place, (None, None))
            text = row.response
            if strings is not None and row.tokens.mask is not None:  # what the policy itself wrote
                text = "".join(readable_tokens(strings, detect_style(strings)))
            text = clean_text(text, pads)[:MAX_TEXT]
            words = self._word_numbers.of(spaced_units(without_special(text)))
            self._words.append((number, self._edges(words, self._word_numbers)))
            self._labels.append(holds_label(text, row.carried.get("ground_truth")))
            if row.reference is not None:
                other = spaced_units(clean_text(row.reference, pads)[:MAX_TEXT])
                ids = self._edges(self._word_numbers.of(other), self._word_numbers)
                self._references.append((number, ids))
            self._add_units(number, units(text) if strings is None else strings, values)

    def _add_units(self, row: int, strings: Sequence[str], figures: TokenFigures | None) -> None:
        ids = self._numbers.of(strings)
        self._is_token.append(figures is not None)
        pairs = ids[:-1].astype(np.int64) << 32 | ids[1:]
        self._distinct_2.append(len(np.unique(pairs)) / len(pairs) if len(pairs) else np.nan)
        self._units.append((row, self._edges(ids, self._numbers)))
        values = no_values(len(ids) if figures is not None else len(self._units[-1][1]))
        for i, name in enumerate(FIGURES):
            if (logged := getattr(figures, name, None)) is not None:
                values[i] = np.clip(logged, -_LARGEST, _LARGEST)
        if values.shape[1] > 2 * EDGE + 1:
            values = np.concatenate([values[:, :EDGE], no_values(1), values[:, -EDGE:]], axis=1)
        self._values.append(values)

    @staticmethod
    def _edges(ids: NDArray[np.int32], numbers: Numbers) -> NDArray[np.int32]:
        if len(ids) <= 2 * EDGE:
            return ids
        return np.concatenate([ids[:EDGE], numbers.of([GAP]), ids[-EDGE:]])

    def _add_positions(self, figures: TokenFigures, offsets: Ints) -> None:
        """Sum the critic's error by tenth of the response: token t of T is in floor(10 t / T)."""
        if figures.value is None or figures.return_ is None or figures.value_error is None:
            return
        error = np.abs(figures.value_error)
        lengths = np.diff(offsets)
        tenths = np.arange(_DECILES + 1)
        cuts = offsets[:-1, None] + -(-lengths[:, None] * tenths // _DECILES)
        pieces = np.append(cuts[:, :-1].reshape(-1), offsets[-1])
        decile = np.tile(tenths[:-1], len(lengths))
        count, total = finite_sums(error, pieces)
        known = np.isfinite(error)
        others = (np.where(known, one, np.nan) for one in (figures.value, figures.return_))
        sums = [total, *(finite_sums(one, pieces)[1] for one in others)]
        self._tenths += np.stack([np.bincount(decile, one, _DECILES) for one in (count, *sums)])

    def part(self) -> Part:
        return Part(
            _as_units(self._units),
            _as_units(self._words),
            _as_units(self._references),
            np.array(self._is_token, bool),
            np.array(self._distinct_2, np.float64),
            np.array(self._labels, np.int8),
            np.concatenate(self._values, axis=1) if any(self._is_token) else no_values(0),
            self._tenths,
            [safe_text(string[:_MAX_STRING]) for string in self._numbers],
            [string[:_MAX_STRING] for string in self._word_numbers],
        )


def _as_units(texts: Sequence[tuple[int, NDArray[np.int32]]]) -> Units:
    rows = np.array([row for row, _ in texts], np.int64)
    lengths = np.array([len(ids) for _, ids in texts], np.int64)
    return Units(rows, lengths, np.concatenate([np.zeros(0, np.int32), *(ids for _, ids in texts)]))


def no_values(count: int) -> NDArray[np.float32]:
    """Return NaN for so many units, float32 (len(FIGURES), count)."""
    return np.full((len(FIGURES), count), np.nan, dtype=np.float32)


def holds_label(response: str, label: object) -> int:
    """Return whether a response contains its label as text or number: 1, 0, or −1 without one.

    Of a worked solution, the label is what follows ``####``.
    """
    if label is None or isinstance(label, dict | list):
        return -1
    wanted = _plain(str(label).rpartition("####")[2])
    if not wanted:
        return -1
    text = _plain(response)
    if not wanted[-1].isdigit():
        return int(wanted in text)
    return int(re.search(rf"(?<![\d.]){re.escape(wanted)}(?:\.0+)?(?!\.?\d)", text) is not None)


def _plain(text: str) -> str:
    """Return a text in lower case, with single blanks and without separators of thousands."""
    return _THOUSANDS.sub("", " ".join(text.lower().split()))
