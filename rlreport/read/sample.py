"""The sample of responses that every figure of texts and tokens comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of, places_in_runs
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress
from rlreport.read.readback import RowLocations, reading_order
from rlreport.read.sample_parts import EDGE, FIGURES, Numbers, Part, no_values, read_part
from rlreport.store import store_at
from rlreport.tables import TextSample, TokenSample
from rlreport.text.hashing import Hashes, mix
from rlreport.workers import Workers

MAX_RESPONSES = 8192
MAX_TOKENS = 4_000_000
_CHARS_PER_WORD = 3
_PART_BYTES, _PART_ROWS, _MIN_PART_BYTES = 16 << 20, 512, 1 << 20


@dataclass(slots=True)
class Sample:
    """Texts and tokens of sampled responses.

    Attributes:
        texts: units of responses; None without any text.
        words: words of the responses, with the blanks before them; None without any text.
        references: the same of the reference's responses to the same prompts, None without.
        tokens: figures of the units of ``texts`` that are tokens, None without tokens.
        positions: critic error by relative position: ``decile`` 0-9, ``count``,
            ``abs_error_mean``, ``value_mean``, ``return_mean``.
        every: units of all sampled training responses; ``texts`` leaves out those that have
            tokens where most do not, or the reverse.
        distinct_2: float64 (R,), of each response of the table; NaN outside the sample.
        size: responses sampled.
        of: responses that the sample was drawn from: all, or those of training.
        shortened: sampled responses of which only the first and the last EDGE units count.
    """

    texts: TextSample | None
    words: TextSample | None
    references: TextSample | None
    tokens: TokenSample | None
    positions: pd.DataFrame
    every: TextSample | None
    distinct_2: Floats
    size: int
    of: int
    shortened: int


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
    jobs = (responses.iloc[part] for part in _parts(locations, reading_order(locations, rows)))
    store = store_at(options.cache, options.cache_size) if options.cache else None
    shared = locations.without_rows(), options, figures, store
    collected = _Collected()
    with progress.phase("sample", len(rows), "responses") as phase:
        for part in workers.map(read_part, jobs, shared, parallel=parallel):
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
        # Parts of a file do not depend on how much other files grew.
        other = file[i] != file[i - 1] and (whole or size > _MIN_PART_BYTES)
        if i > start and (other or (full and not whole)):
            yield rows[start:i]
            start, size = i, 0
        size += int(length[i])
    if len(rows):
        yield rows[start:]


@dataclass(slots=True)
class _Collected:
    """Parts with the units of all numbered alike."""

    parts: list[Part] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)
    words: Numbers = field(default_factory=Numbers)

    def add(self, part: Part) -> None:
        number = np.array([self.numbers[string] for string in part.strings], np.int32)
        word = np.array([self.words[string] for string in part.word_strings], np.int32)
        self.parts.append(
            part._replace(
                ids=number[part.ids] if len(part.ids) else part.ids,
                words=word[part.words] if len(part.words) else part.words,
                references=word[part.references] if len(part.references) else part.references,
                strings=[],
                word_strings=[],
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
        filled = training & (lengths > 0)
        most = 2 * np.count_nonzero(filled & is_token) >= np.count_nonzero(filled)
        unit = "token" if most and filled.any() else "word"
        units = np.concatenate([part.ids for part in parts])
        vocabulary = list(self.numbers)

        def taken(chosen: NDArray[np.bool_]) -> tuple[TextSample | None, Ints]:
            kept = np.flatnonzero(chosen)
            kept = kept[np.argsort(rows[kept])]
            place = _places(lengths, kept)
            sample = TextSample(
                rows[kept], offsets_of(lengths[kept]), units[place], vocabulary, unit
            )
            return (sample if len(place) else None), place

        texts, place = taken(training & (is_token == (unit == "token")))
        every = texts if (is_token == is_token[:1]).all() else taken(training)[0]
        tokens = None
        if unit == "token" and texts is not None:
            figures = np.concatenate(
                [
                    part.figures if any(part.is_token) else no_values(int(part.lengths.sum()))
                    for part in parts
                ],
                axis=1,
            )[:, place]
            tokens = TokenSample(texts, **dict(zip(FIGURES, figures, strict=True)))
        return Sample(
            texts,
            self._words(responses, "rows", "words", "word_lengths", "labels"),
            self._words(responses, "reference_rows", "references", "reference_lengths"),
            tokens,
            self._positions(),
            every,
            distinct_2,
            len(rows),
            count if len(rows) == count else int((responses["validation"] == 0).sum()),
            int(np.count_nonzero(lengths > 2 * EDGE)),
        )

    def _words(self, responses: pd.DataFrame, *names: str) -> TextSample | None:
        """Return a sample of words, given the fields of parts with its rows, words and lengths."""
        rows, words, lengths, *labels = (
            np.concatenate([getattr(part, name) for part in self.parts]) for name in names
        )
        kept = np.flatnonzero(responses["validation"].to_numpy()[rows] == 0)
        kept = kept[np.argsort(rows[kept])]
        ids = words[_places(lengths, kept)]
        if not len(ids):
            return None
        held = labels[0][kept] if labels else None
        return TextSample(
            rows[kept], offsets_of(lengths[kept]), ids, list(self.words), "word", held
        )

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
