"""Read the sampled responses back from the logs, in parts that workers return and a cache stores.

A part holds the token and word ids of some responses, and values such as the KL per token.
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
from rlreport.system.cache import Store, pack, program, unpack
from rlreport.tables import GAP
from rlreport.text.clean import clean_text, safe_text, without_special
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units, units

# Of responses over 2 * EDGE tokens (or words), only the first and last EDGE are sampled
EDGE = 1024

FIGURES = ("kl", "log_ratio", "prob", "ref_prob", "value_error")
_MAX_STRING = 200
_DECILES = 10
_LARGEST = 2.0**40  # Values per token are clipped to ± this, as the KL estimate k3 may be infinite
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


class Units(NamedTuple):
    """Texts as token or word ids: row and length of each text, and the ids of all, concatenated."""

    rows: Ints
    lengths: Ints
    ids: NDArray[np.int32]

    def chosen(self, keep: NDArray[np.bool_]) -> tuple[Units, Ints]:
        """Return the texts selected by ``keep``, sorted by row, and the indices of their ids."""
        texts = np.flatnonzero(keep)
        texts = texts[np.argsort(self.rows[texts])]
        lengths = self.lengths[texts]
        starts = offsets_of(self.lengths)[:-1][texts] - offsets_of(lengths)[:-1]
        places: Ints = np.arange(int(lengths.sum())) + np.repeat(starts, lengths)
        return Units(self.rows[texts], lengths, self.ids[places]), places


class Part(NamedTuple):
    """Texts and values per token of some sampled responses, from a worker or the cache."""

    units: Units  # tokens of the responses; words for a response without logged tokens
    # words of the responses, and of the reference policy's responses
    words: Units
    references: Units
    is_token: NDArray[np.bool_]  # bool (rows,), whether the response's ``units`` are tokens
    distinct_2: Floats  # float64 (rows,), distinct bigrams / all bigrams, NaN without bigrams
    # int8 (rows,), whether the text contains the correct answer, see ``holds_label``
    labels: NDArray[np.int8]
    # float32 (len(FIGURES), ids of ``units``): KL etc. of each; empty without tokens
    figures: NDArray[np.float32]
    # float64 (4, 10), per tenth of the response: number of tokens with a critic error, and their
    # sums of absolute errors, of values and of returns
    tenths: Floats
    # strings of the ids in ``units``, and in ``words``, ``references``
    strings: list[str]
    word_strings: list[str]

    def moved(self, rows: Ints) -> Part:
        """Return the part with each row number r replaced by ``rows[r]``."""
        units, words, references = (
            text._replace(rows=rows[text.rows])
            for text in (self.units, self.words, self.references)
        )
        return self._replace(units=units, words=words, references=references)


def read_part(
    responses: pd.DataFrame,
    shared: tuple[RowLocations, ReadOptions, FigureOptions, Store | None],
) -> Part:
    """Read these responses from the logs, or from the cache if their lines have not changed."""
    locations, options, figures, store = shared
    locations.select(responses)
    hashes = responses["line_hash"].to_numpy()
    key = _key(hashes, locations, options, figures) if store else b""
    part = _decode(store.get(key), len(responses)) if store and key else None
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


def _decode(data: bytes | None, rows: int) -> Part | None:
    """Decode a cached part; None if it is missing, damaged or not of ``rows`` responses."""
    try:
        head, arrays = unpack(data or b"")
        strings, words = ([str(string) for string in kind] for kind in head["strings"])
        units, word_units, references = (Units(*arrays[i : i + 3]) for i in (0, 3, 6))
        part = Part._make([units, word_units, references, *arrays[9:], strings, words])
        fits = len(units.rows) == rows
        for text, vocabulary in ((units, strings), (word_units, words), (references, words)):
            fits &= len(text.ids) == text.lengths.sum() and len(text.rows) == len(text.lengths)
            fits &= text.ids.max(initial=-1) < len(vocabulary) and text.rows.max(initial=0) < rows
        return part if fits else None
    except (ValueError, TypeError, LookupError):
        return None


class Numbers(dict[str, int]):
    """A dict from string to id that assigns ids in the order of first occurrence."""

    def __missing__(self, string: str) -> int:
        self[string] = number = len(self)
        return number

    def of(self, strings: Sequence[str]) -> NDArray[np.int32]:
        """Return the id of each string."""
        return np.fromiter(map(self.__getitem__, strings), np.int32, len(strings))


class _Reader:
    """Collects batches of sampled responses (``add``) into a part (``part``)."""

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
            for index, strings, cut in zip(tokens.rows.tolist(), tokens.strings, cuts, strict=True):
                if strings is not None:
                    tokens_of[index] = strings, figures.between(*cut)
        for index, (number, row) in enumerate(batch):
            strings, values = tokens_of.get(index, (None, None))
            text = row.response
            if strings is not None and row.tokens.mask is not None:  # omit tool outputs
                text = "".join(readable_tokens(strings, detect_style(strings)))
            text = clean_text(text, pads)[:MAX_TEXT]
            words = self._word_numbers.of(spaced_units(without_special(text)))
            self._words.append((number, self._edges(words, self._word_numbers)))
            self._labels.append(holds_label(text, row.carried.get("ground_truth")))
            if row.reference is not None:
                reference = spaced_units(clean_text(row.reference, pads)[:MAX_TEXT])
                ids = self._edges(self._word_numbers.of(reference), self._word_numbers)
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
        """Sum the critic's error by tenth of the response (token t of T is in floor(10 t / T))."""
        if figures.value is None or figures.return_ is None or figures.value_error is None:
            return
        error = np.abs(figures.value_error)
        lengths = np.diff(offsets)
        tenths = np.arange(_DECILES + 1)
        cuts = offsets[:-1, None] + -(-lengths[:, None] * tenths // _DECILES)
        pieces = np.append(cuts[:, :-1].reshape(-1), offsets[-1])
        decile = np.tile(tenths[:-1], len(lengths))
        count, total = finite_sums(error, pieces)
        finite = np.isfinite(error)
        others = (np.where(finite, values, np.nan) for values in (figures.value, figures.return_))
        sums = [total, *(finite_sums(values, pieces)[1] for values in others)]
        self._tenths += np.stack([np.bincount(decile, part, _DECILES) for part in (count, *sums)])

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
    """Return NaN for all FIGURES of ``count`` tokens, float32 (len(FIGURES), count)."""
    return np.full((len(FIGURES), count), np.nan, dtype=np.float32)


def holds_label(response: str, label: object) -> int:
    """Return 1 if a response contains its label (correct answer), else 0; −1 without a label.

    In a label that is a worked solution, only the text after ``####`` counts.
    """
    if label is None or isinstance(label, dict | list):
        return -1
    wanted = _normalize(str(label).rpartition("####")[2])
    if not wanted:
        return -1
    text = _normalize(response)
    if not wanted[-1].isdigit():
        return int(wanted in text)
    return int(re.search(rf"(?<![\d.]){re.escape(wanted)}(?:\.0+)?(?!\.?\d)", text) is not None)


def _normalize(text: str) -> str:
    """Return a text in lower case, with single spaces and without thousands separators."""
    return _THOUSANDS.sub("", " ".join(text.lower().split()))
