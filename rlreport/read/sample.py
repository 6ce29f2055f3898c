"""The sample of responses that every figure of texts and tokens comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, finite_sums, offsets_of, places_in_runs
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress
from rlreport.read.batch import MAX_TEXT
from rlreport.read.notes import LogPosition, Remarks
from rlreport.read.readback import RowLocations, batches, read_rows, reading_order
from rlreport.read.rows import Row
from rlreport.read.tokens import token_rows
from rlreport.rollout import TokenFigures
from rlreport.tables import GAP, TextSample, TokenSample
from rlreport.text.clean import clean_text, safe_text
from rlreport.text.hashing import Hashes, mix
from rlreport.text.units import units
from rlreport.workers import Workers

MAX_RESPONSES = 8192
MAX_TOKENS = 4_000_000
EDGE = 1024
"""Of a longer response the first and the last EDGE tokens (or words) are sampled."""

FIGURES = ("kl", "log_ratio", "prob", "ref_prob", "value_error")
_CHARS_PER_WORD = 3
_MAX_STRING = 200
_PART_BYTES, _PART_ROWS = 16 << 20, 512
_DECILES = 10
_LARGEST = 2.0**40
"""Larger values count as this: k3 may be infinite."""


@dataclass(slots=True)
class Sample:
    """Texts and tokens of sampled responses.

    Attributes:
        texts: units of responses; None without any text.
        references: units of the reference's responses to the same prompts, None without.
        tokens: figures of the units of ``texts`` that are tokens, None without tokens.
        positions: critic error by relative position: ``decile`` 0-9, ``count``,
            ``abs_error_mean``, ``value_mean``, ``return_mean``.
        distinct_2: float64 (R,), of each response of the table; NaN outside the sample.
        size: responses sampled.
    """

    texts: TextSample | None
    references: TextSample | None
    tokens: TokenSample | None
    positions: pd.DataFrame
    distinct_2: Floats
    size: int


def sampled_rows(responses: pd.DataFrame, file_names: Sequence[str]) -> Ints:
    """Choose the rows of the response table that are sampled, ascending.

    All of them up to MAX_RESPONSES. Beyond: k training responses per step, whole groups in
    the order of a hash of where they lie; k is the largest power of two with which the sample
    stays within MAX_RESPONSES and MAX_TOKENS, so a growing run rarely changes its sample.
    With more steps than that, one response of every m-th step, m a power of two.
    """
    cost = _cost(responses)
    if len(responses) <= MAX_RESPONSES and cost.sum() <= MAX_TOKENS:
        return np.arange(len(responses))
    rows = np.flatnonzero(responses["validation"].to_numpy() == 0)
    step = responses["step"].to_numpy()[rows]
    priority = _priorities(responses, file_names)[rows]
    group = responses["group"].to_numpy()[rows]
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    order = np.lexsort((priority, group, priority[first][member], step))
    place = places_in_runs(step[order])
    ordinal = np.unique(step[order], return_inverse=True)[1]
    per_step, every = MAX_RESPONSES, 1
    while True:
        chosen = rows[order[(place < per_step) & (ordinal % every == 0)]]
        if len(chosen) <= MAX_RESPONSES and cost[chosen].sum() <= MAX_TOKENS:
            return np.sort(chosen)
        if per_step > 1:
            per_step //= 2
        else:
            every *= 2


def _cost(responses: pd.DataFrame) -> Floats:
    """Return the units that each response adds to the sample, as far as the table tells."""
    tokens = responses["response_tokens"].to_numpy(np.float64)
    words = responses["response_chars"].to_numpy(np.float64) / _CHARS_PER_WORD
    return np.minimum(np.where(np.isnan(tokens), words, tokens), 2 * EDGE)


def _priorities(responses: pd.DataFrame, file_names: Sequence[str]) -> Hashes:
    """Return a number per response that looks random and depends only on where it lies."""
    names = np.array([xxhash.xxh3_64_intdigest(os.fsencode(n)) for n in file_names], np.uint64)
    file, offset, sub = (responses[name].to_numpy() for name in ("file", "offset", "sub"))
    place = mix(names[file]) + offset.astype(np.uint64)
    return mix(mix(place) + sub.astype(np.uint64))


def read_sample(
    responses: pd.DataFrame,
    locations: RowLocations,
    options: ReadOptions,
    figures: FigureOptions,
    workers: Workers,
    progress: Progress,
    *,
    parallel: bool,
) -> Sample:
    """Read the sampled responses back.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    names = [source.name for source in locations.sources]
    rows = sampled_rows(responses, names)
    parts = list(_parts(locations, reading_order(locations, rows)))
    collected = _Collected()
    with progress.phase("sample", len(rows), "responses") as phase:
        for part in workers.map(
            _read_part, parts, (locations, options, figures), parallel=parallel
        ):
            collected.add(part)
            phase.advance(len(part.rows))
    return collected.sample(responses)


def _parts(locations: RowLocations, rows: Ints) -> Iterator[Ints]:
    """Cut rows into jobs; a compressed file is one, as it is read through."""
    length, file = locations.length[rows], locations.file[rows]
    start = size = 0
    for i in range(len(rows)):
        source = locations.sources[file[i]]
        whole = source.compression or locations.formats[file[i]].container != "lines"
        full = size + length[i] > _PART_BYTES or i - start >= _PART_ROWS
        if i > start and (file[i] != file[i - 1] if whole else full):
            yield rows[start:i]
            start, size = i, 0
        size += int(length[i])
    if len(rows):
        yield rows[start:]


class _Part(NamedTuple):
    """Some sampled responses; ``ids`` are indices into ``strings``.

    ``ids`` holds the units of all responses, cut by ``lengths``; ``references`` likewise those
    of ``reference_rows``. ``figures`` is float32 (len(FIGURES), units), or empty without any
    token. ``bigrams`` and ``distinct`` count those of each response. ``tenths`` and
    ``tenth_sums`` sum the critic's errors by tenth of the response.
    """

    rows: Ints
    lengths: Ints
    ids: NDArray[np.int32]
    is_token: NDArray[np.bool_]
    figures: NDArray[np.float32]
    bigrams: Ints
    distinct: Ints
    reference_rows: Ints
    reference_lengths: Ints
    references: NDArray[np.int32]
    strings: list[str]
    tenths: Ints
    tenth_sums: Floats


def _read_part(rows: Ints, shared: tuple[RowLocations, ReadOptions, FigureOptions]) -> _Part:
    locations, options, figures = shared
    reader = _PartReader(options, figures)
    for batch in batches(read_rows(locations, rows.tolist())):
        reader.add(batch)
    return reader.part()


class _Numbers(dict[str, int]):
    """Numbers strings in the order they are met."""

    def __missing__(self, string: str) -> int:
        self[string] = number = len(self)
        return number


class _PartReader:
    """Reads sampled responses batch by batch."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self._options, self._figures = options, figures
        self._numbers = _Numbers()
        self._rows: list[int] = []
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
        nowhere = [LogPosition(0, 0, 0)] * len(batch)
        pads = frozenset(self._options.pad_tokens)
        with np.errstate(over="ignore", invalid="ignore"):
            tokens = token_rows(found, nowhere, pads, Remarks())
            tokens = None if tokens is None else tokens.sampled_only()
            figures = TokenFigures() if tokens is None else tokens.figures(self._figures)
            if tokens is not None:
                self._add_positions(figures, tokens.offsets)
        strings = [] if tokens is None else list(tokens.strings_of())
        place = {} if tokens is None else {r: i for i, r in enumerate(tokens.rows.tolist())}
        for i, (number, row) in enumerate(batch):
            at = place.get(i)
            self._rows.append(number)
            if tokens is not None and at is not None and tokens.named[at]:
                start, stop = tokens.offsets[at : at + 2].tolist()
                self._add_units(strings[at], figures.between(start, stop))
                continue
            self._add_units(self._words(row.response), None)
            if row.reference is not None:
                # Words can be compared with words only, not with tokens.
                ids = self._number(self._words(row.reference))
                self._reference_rows.append(number)
                self._references.append(self._cut(ids))

    def _words(self, text: str) -> list[str]:
        return units(clean_text(text, self._options.pad_tokens)[:MAX_TEXT])

    def _number(self, strings: Sequence[str]) -> NDArray[np.int32]:
        return np.fromiter(map(self._numbers.__getitem__, strings), np.int32, len(strings))

    def _add_units(self, strings: Sequence[str], figures: TokenFigures | None) -> None:
        ids = self._number(strings)
        self._is_token.append(figures is not None)
        pairs = ids[:-1].astype(np.int64) << 32 | ids[1:]
        self._bigrams.append((len(pairs), len(np.unique(pairs))))
        self._ids.append(self._cut(ids))
        if figures is None:
            self._values.append(_no_values(len(self._ids[-1])))
            return
        values = _no_values(len(ids))
        for i, name in enumerate(FIGURES):
            if (own := getattr(figures, name)) is not None:
                values[i] = np.clip(own, -_LARGEST, _LARGEST)
        self._values.append(self._cut_values(values))

    def _cut(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        if len(ids) <= 2 * EDGE:
            return ids
        return np.concatenate([ids[:EDGE], self._number([GAP]), ids[-EDGE:]])

    @staticmethod
    def _cut_values(values: NDArray[np.float32]) -> NDArray[np.float32]:
        if values.shape[1] <= 2 * EDGE:
            return values
        return np.concatenate([values[:, :EDGE], _no_values(1), values[:, -EDGE:]], axis=1)

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

    def part(self) -> _Part:
        bigrams = np.array(self._bigrams, dtype=np.int64).reshape(-1, 2)
        return _Part(
            np.array(self._rows, np.int64),
            np.array([len(ids) for ids in self._ids], np.int64),
            _concatenated(self._ids),
            np.array(self._is_token, bool),
            np.concatenate(self._values, axis=1) if any(self._is_token) else _no_values(0),
            bigrams[:, 0],
            bigrams[:, 1],
            np.array(self._reference_rows, np.int64),
            np.array([len(ids) for ids in self._references], np.int64),
            _concatenated(self._references),
            [safe_text(string[:_MAX_STRING]) for string in self._numbers],
            self._tenths,
            self._tenth_sums,
        )


def _no_values(count: int) -> NDArray[np.float32]:
    return np.full((len(FIGURES), count), np.nan, dtype=np.float32)


def _concatenated(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


@dataclass(slots=True)
class _Collected:
    """Parts with the units of all numbered alike."""

    parts: list[_Part] = field(default_factory=list)
    numbers: _Numbers = field(default_factory=_Numbers)

    def add(self, part: _Part) -> None:
        number = np.array([self.numbers[string] for string in part.strings], np.int32)
        self.parts.append(
            part._replace(
                ids=number[part.ids] if len(part.ids) else part.ids,
                references=number[part.references] if len(part.references) else part.references,
                strings=[],
            )
        )

    def sample(self, responses: pd.DataFrame) -> Sample:
        parts, count = self.parts, len(responses)
        rows = np.concatenate([part.rows for part in parts])
        is_token = np.concatenate([part.is_token for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        bigrams, distinct = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("bigrams", "distinct")
        )
        distinct_2 = np.full(count, np.nan)
        distinct_2[rows[bigrams > 0]] = distinct[bigrams > 0] / bigrams[bigrams > 0]
        training = responses["validation"].to_numpy()[rows] == 0
        unit = "token" if (is_token & (lengths > 0)).any() else "word"
        kept = np.flatnonzero(training & (is_token == (unit == "token")))
        kept = kept[np.argsort(rows[kept])]
        vocabulary = list(self.numbers)
        place = _places(lengths, kept)
        ids = np.concatenate([part.ids for part in parts])[place]
        texts = TextSample(rows[kept], offsets_of(lengths[kept]), ids, vocabulary, unit)
        tokens = None
        if unit == "token":
            figures = np.concatenate(
                [
                    part.figures if any(part.is_token) else _no_values(int(part.lengths.sum()))
                    for part in parts
                ],
                axis=1,
            )[:, place]
            tokens = TokenSample(texts, **dict(zip(FIGURES, figures, strict=True)))
        return Sample(
            texts if len(ids) else None,
            self._references(responses, unit),
            tokens,
            self._positions(),
            distinct_2,
            len(rows),
        )

    def _references(self, responses: pd.DataFrame, unit: str) -> TextSample | None:
        rows = np.concatenate([part.reference_rows for part in self.parts])
        lengths = np.concatenate([part.reference_lengths for part in self.parts])
        kept = np.flatnonzero(responses["validation"].to_numpy()[rows] == 0)
        kept = kept[np.argsort(rows[kept])]
        ids = np.concatenate([part.references for part in self.parts])[_places(lengths, kept)]
        if unit == "token" or not len(ids):
            return None
        return TextSample(rows[kept], offsets_of(lengths[kept]), ids, list(self.numbers), unit)

    def _positions(self) -> pd.DataFrame:
        tenths = np.sum([part.tenths for part in self.parts], axis=0)
        sums = np.sum([part.tenth_sums for part in self.parts], axis=0)
        deciles = np.flatnonzero(tenths)
        names = ("abs_error_mean", "value_mean", "return_mean")
        means = sums[:, deciles] / tenths[deciles]
        return pd.DataFrame(
            {"decile": deciles, "count": tenths[deciles], **dict(zip(names, means, strict=True))}
        )


def _places(lengths: Ints, chosen: Ints) -> Ints:
    """Return where the units of chosen rows lie, one row after the other."""
    offsets = offsets_of(lengths)
    own = lengths[chosen]
    starts = np.repeat(offsets[:-1][chosen] - offsets_of(own)[:-1], own)
    places: Ints = np.arange(int(own.sum())) + starts
    return places
