"""Parts of the sample: some responses read back, as units and figures of their tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, finite_sums
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import MAX_TEXT
from rlreport.read.cache import format_keys
from rlreport.read.readback import RowLocations, batches, read_rows
from rlreport.read.rows import Row
from rlreport.read.tokens import token_rows
from rlreport.rollout import TokenFigures
from rlreport.store import Store, pack, program, unpack
from rlreport.tables import GAP
from rlreport.text.clean import clean_text, safe_text
from rlreport.text.special import without_special
from rlreport.text.tokens import detect_style, readable_tokens
from rlreport.text.units import spaced_units, units

EDGE = 1024
"""Of a longer response the first and the last EDGE tokens (or words) are sampled."""

FIGURES = ("kl", "log_ratio", "prob", "ref_prob", "value_error")
_MAX_STRING = 200
_DECILES = 10
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_LARGEST = 2.0**40
"""Larger values count as this: k3 may be infinite."""


class Part(NamedTuple):
    """Some sampled responses; ``ids`` are indices into ``strings``.

    ``ids`` holds the units of all responses, cut by ``lengths``; rows are places among those
    to be read. ``words`` and ``references`` are indices into ``word_strings``: the words of the
    responses, cut by ``word_lengths``, and of the reference's, of ``reference_rows``. ``labels``
    is as in ``TextSample``. ``figures`` is float32 (len(FIGURES), units), or empty without any
    token. ``bigrams`` and ``distinct`` count those of each response. ``tenths`` and
    ``tenth_sums`` sum the critic's errors by tenth.
    """

    rows: Ints
    lengths: Ints
    ids: NDArray[np.int32]
    is_token: NDArray[np.bool_]
    figures: NDArray[np.float32]
    bigrams: Ints
    distinct: Ints
    words: NDArray[np.int32]
    word_lengths: Ints
    labels: NDArray[np.int8]
    reference_rows: Ints
    reference_lengths: Ints
    references: NDArray[np.int32]
    tenths: Ints
    tenth_sums: Floats
    strings: list[str]
    word_strings: list[str]


def read_part(
    responses: pd.DataFrame,
    shared: tuple[RowLocations, ReadOptions, FigureOptions, Store | None],
) -> Part:
    """Read some responses back, or take what an earlier build kept of the same lines."""
    locations, options, figures, store = shared
    locations.select(responses)
    rows, hashes = responses.index.to_numpy(), responses["line_hash"].to_numpy()
    key = _key(hashes, locations, options, figures) if store else b""
    part = _load(store, key, len(rows)) if store and key else None
    if part is None:
        reader = _Reader(options, figures)
        for batch in batches(read_rows(locations, range(len(rows)))):
            reader.add(batch)
        part = reader.part()
        if store and key:
            store.put(key, pack({"strings": part[-2:]}, part[:-2]))
    return part._replace(rows=rows[part.rows], reference_rows=rows[part.reference_rows])


def _key(
    hashes: NDArray[np.uint64],
    locations: RowLocations,
    options: ReadOptions,
    figures: FigureOptions,
) -> bytes:
    """Return the key of a part; b"" if it is not kept."""
    files = np.unique(locations.file).tolist()
    formats = format_keys([locations.formats[file] for file in files], options.tokenizer)
    if not formats or not hashes.all():
        return b""
    texts = options.pad_tokens, options.tokenizer, options.mapping, options.step_from_path
    names = [locations.sources[file].name for file in files]
    parts = ("sample", program(), texts, figures, names, formats)
    return repr(parts).encode(errors="surrogatepass") + hashes.tobytes() + locations.sub.tobytes()


def _load(store: Store, key: bytes, rows: int) -> Part | None:
    data = store.get(key)
    if data is None:
        return None
    try:
        head, arrays = unpack(data)
        strings = [[str(string) for string in kind] for kind in head["strings"]]
        part = Part._make([*arrays, *strings])
        last_word = max(part.words.max(initial=-1), part.references.max(initial=-1))
        fits = len(part.rows) == rows and len(part.ids) == part.lengths.sum()
        fits &= len(part.words) == part.word_lengths.sum() and last_word < len(part.word_strings)
        fits &= part.ids.max(initial=-1) < len(part.strings)
        return part if fits and part.rows.max(initial=0) < rows else None
    except (ValueError, TypeError, LookupError):
        return None


class Numbers(dict[str, int]):
    """Numbers strings in the order they are met."""

    def __missing__(self, string: str) -> int:
        self[string] = number = len(self)
        return number


class _Reader:
    """Reads sampled responses batch by batch."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self._options, self._figures = options, figures
        self._numbers, self._word_numbers = Numbers(), Numbers()
        self._rows: list[int] = []
        self._words: list[NDArray[np.int32]] = []
        self._labels: list[int] = []
        self._is_token: list[bool] = []
        self._ids: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.float32]] = []
        self._bigrams: list[tuple[int, int]] = []
        self._reference_rows: list[int] = []
        self._references: list[NDArray[np.int32]] = []
        self._tenths = np.zeros(_DECILES, np.int64)
        self._tenth_sums = np.zeros((3, _DECILES))

    def add(self, batch: Sequence[tuple[int, Row]]) -> None:
        found = [row.tokens for _, row in batch]
        pads = frozenset(self._options.pad_tokens)
        with np.errstate(over="ignore", invalid="ignore"):
            tokens = token_rows(found, pads)
            tokens = None if tokens is None else tokens.sampled_only()
            figures = TokenFigures() if tokens is None else tokens.figures(self._figures)
            if tokens is not None:
                self._add_positions(figures, tokens.offsets)
        strings = [] if tokens is None else list(tokens.strings_of())
        place = {} if tokens is None else {r: i for i, r in enumerate(tokens.rows.tolist())}
        for i, (number, row) in enumerate(batch):
            at = place.get(i)
            self._rows.append(number)
            own = None if at is None or tokens is None or not tokens.named[at] else strings[at]
            text = row.response
            if own is not None and row.tokens.mask is not None:  # what the policy itself wrote
                text = "".join(readable_tokens(own, detect_style(own)))
            text = clean_text(text, self._options.pad_tokens)[:MAX_TEXT]
            words = spaced_units(without_special(text))
            self._words.append(_cut(words, self._word_numbers))
            self._labels.append(holds_label(text, row.carried.get("ground_truth")))
            if row.reference is not None:
                other = clean_text(row.reference, self._options.pad_tokens)[:MAX_TEXT]
                self._reference_rows.append(number)
                self._references.append(_cut(spaced_units(other), self._word_numbers))
            if own is not None and tokens is not None and at is not None:
                start, stop = tokens.offsets[at : at + 2].tolist()
                self._add_units(own, figures.between(start, stop))
            else:
                self._add_units(units(text), None)

    def _add_units(self, strings: Sequence[str], figures: TokenFigures | None) -> None:
        ids = _number(strings, self._numbers)
        self._is_token.append(figures is not None)
        pairs = ids[:-1].astype(np.int64) << 32 | ids[1:]
        self._bigrams.append((len(pairs), len(np.unique(pairs))))
        self._ids.append(_cut(strings, self._numbers))
        if figures is None:
            self._values.append(no_values(len(self._ids[-1])))
            return
        values = no_values(len(ids))
        for i, name in enumerate(FIGURES):
            if (own := getattr(figures, name)) is not None:
                values[i] = np.clip(own, -_LARGEST, _LARGEST)
        self._values.append(self._cut_values(values))

    @staticmethod
    def _cut_values(values: NDArray[np.float32]) -> NDArray[np.float32]:
        if values.shape[1] <= 2 * EDGE:
            return values
        return np.concatenate([values[:, :EDGE], no_values(1), values[:, -EDGE:]], axis=1)

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
        self._tenths += np.bincount(decile, count, _DECILES).astype(np.int64)
        self._tenth_sums += np.stack([np.bincount(decile, one, _DECILES) for one in sums])

    def part(self) -> Part:
        bigrams = np.array(self._bigrams, dtype=np.int64).reshape(-1, 2)
        return Part(
            np.array(self._rows, np.int64),
            np.array([len(ids) for ids in self._ids], np.int64),
            _concatenated(self._ids),
            np.array(self._is_token, bool),
            np.concatenate(self._values, axis=1) if any(self._is_token) else no_values(0),
            bigrams[:, 0],
            bigrams[:, 1],
            _concatenated(self._words),
            np.array([len(ids) for ids in self._words], np.int64),
            np.array(self._labels, np.int8),
            np.array(self._reference_rows, np.int64),
            np.array([len(ids) for ids in self._references], np.int64),
            _concatenated(self._references),
            self._tenths,
            self._tenth_sums,
            [safe_text(string[:_MAX_STRING]) for string in self._numbers],
            [string[:_MAX_STRING] for string in self._word_numbers],
        )


def holds_label(response: str, label: object) -> int:
    """Say whether a response holds its label as text or number: 1, 0, or −1 without one.

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


def no_values(count: int) -> NDArray[np.float32]:
    """Return NaN for so many units, float32 (len(FIGURES), count)."""
    return np.full((len(FIGURES), count), np.nan, dtype=np.float32)


def _number(strings: Sequence[str], numbers: Numbers) -> NDArray[np.int32]:
    return np.fromiter(map(numbers.__getitem__, strings), np.int32, len(strings))


def _cut(strings: Sequence[str], numbers: Numbers) -> NDArray[np.int32]:
    """Return the numbers of the first and the last EDGE strings."""
    ids = _number(strings, numbers)
    if len(ids) <= 2 * EDGE:
        return ids
    return np.concatenate([ids[:EDGE], _number([GAP], numbers), ids[-EDGE:]])


def _concatenated(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)
