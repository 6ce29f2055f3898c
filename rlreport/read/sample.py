"""Collect the texts and tokens of the sampled responses, as ids of words and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.constant import compact
from rlreport.figures.ragged import Ints, offsets_of
from rlreport.figures.rounding import significant
from rlreport.figures.tokens import TokenFigures, find_loops
from rlreport.options import ReadOptions
from rlreport.read.chunk import MAX_TEXT
from rlreport.read.kept_sample import Ids, KeptSample, Part, Units
from rlreport.read.limits import ReadLimits
from rlreport.read.rollouts import (
    EDGE,
    HAS_MASK,
    HAS_TOKENS,
    Rollouts,
    Selection,
)
from rlreport.read.tables import Scan
from rlreport.read.vocabulary import Numbers
from rlreport.system.workers import Workers
from rlreport.tables import GAP, Note, NoteKind, RowRole, TextSample, TokenSample
from rlreport.text.clean import clean_text, safe_text, without_special
from rlreport.text.messages import message
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units

FIGURES = ("kl", "log_ratio", "prob", "value_error")
# Those of ``Rollouts`` that they follow from
_LOGGED_FIGURES = ("logp", "log_ratio", "value", "return")
_MAX_STRING = 200
# Values per token are clipped to ± this, as the KL estimate k3 may be infinite
_LARGEST = 2.0**40
_ROWS_PER_SECOND = 4_000  # that one process collects, to decide whether to use several

Number = TypeVar("Number", np.int32, np.int64)


def with_sample(
    scan: Scan, rows: Ints, options: ReadOptions, workers: Workers, limits: ReadLimits
) -> Scan:
    """Return the scan with text samples of ``rows``; set ``distinct_2`` and ``loop_share``.

    ``rows`` are those of the response table to sample, ascending.
    """
    strings = Numbers()
    parts = []
    for part in _parts(scan.rollouts, _jobs(scan, rows, limits), options, workers):
        # Each part numbers the strings it found: ``numbers`` leads to those across all parts.
        numbers = strings.of(part.strings)
        renumbered = part._replace(
            units=part.units.renumbered(numbers),
            words=part.words.renumbered(numbers),
            references=part.references.renumbered(numbers),
            strings=[],  # they are in ``strings`` now
        )
        parts.append(renumbered)
    return _with_texts(scan, rows, parts, list(strings))


def _parts(
    rollouts: Rollouts, jobs: Sequence[Ints], options: ReadOptions, workers: Workers
) -> Iterator[Part]:
    """Yield the part of the sample with the rows of each job, from the cache if it is there."""
    kept = KeptSample.of(rollouts, options)
    found: list[Part | None] = [None] * len(jobs)
    keys = [b""] * len(jobs)
    if kept:
        keys = [kept.key(rollouts, rows) for rows in jobs]
        found = [kept.part(*job) for job in zip(keys, jobs, strict=True)]
    missing = [rows for rows, part in zip(jobs, found, strict=True) if part is None]
    seconds = sum(map(len, missing)) / _ROWS_PER_SECOND
    selections = [Selection(rollouts, rows) for rows in missing]
    collected = workers.map(_collect, selections, options, seconds=seconds)
    for key, rows, part in zip(keys, jobs, found, strict=True):
        if part is not None:
            yield part
            continue
        new = next(collected)
        if kept:
            kept.keep(key, new, rows)
        yield new


def _jobs(scan: Scan, rows: Ints, limits: ReadLimits) -> list[Ints]:
    """Divide rows of the response table into jobs within the limits of a job."""
    lengths = scan.rollouts.lengths[scan.rollouts.indices(rows)].tolist()
    starts = [0]
    tokens = 0
    for i, length in enumerate(lengths):
        tokens += length
        has_rows = i - starts[-1] == limits.sample_job_rows
        if i > starts[-1] and (has_rows or tokens > limits.sample_job_tokens):
            starts.append(i)
            tokens = length
    return np.split(rows, starts[1:])


def _collect(selection: Selection, options: ReadOptions) -> Part:
    """Return the sample of some responses; a job of a worker."""
    rollouts, rows = selection
    indices = rollouts.indices(rows)
    collector = _Collector(rollouts, options.pad_tokens)
    # Where the sampled tokens of all these responses are, and which of them are of each response
    places = rollouts.tokens_of(indices)
    is_sampled = rollouts.sampled[places]
    sampled_before = offsets_of(is_sampled.astype(np.int64))
    bounds = sampled_before[offsets_of(rollouts.lengths[indices])].tolist()
    places = places[is_sampled]
    ids = rollouts.ids[places]
    texts = rollouts.each_text("response", indices)
    references = rollouts.each_text("ref_response", indices)
    for row, flags, text, reference, (start, stop) in zip(
        rows.tolist(),
        rollouts.flags[indices].tolist(),
        texts,
        references,
        pairwise(bounds),
        strict=True,
    ):
        tokens = None
        if flags & HAS_TOKENS:
            tokens = _Tokens(ids[start:stop], places[start:stop])
        response = text or ""
        if tokens is not None and flags & HAS_MASK:
            # Of a conversation, the response has the outputs of tools: omit them.
            response = collector.text_of(tokens.ids)
        collector.add(row, response, tokens)
        if reference is not None:
            collector.add_reference(row, reference)
    part = collector.part()
    rollouts.unload()
    return part


class _Tokens(NamedTuple):
    """The sampled tokens of a response."""

    ids: Ids  # indices of the run's vocabulary
    places: Ints  # where they are in ``Rollouts``


class _UnitNumbers(Numbers):
    """A dict from a unit, with the white space before it or not, to the id that it has without."""

    def __init__(self, number_of_string: Numbers) -> None:
        self._number_of_string = number_of_string

    def __missing__(self, spaced: str) -> int:
        self[spaced] = number = self._number_of_string[spaced.lstrip()]
        return number


class _Collector:
    """Converts responses to ids one by one, and numbers the strings of all."""

    def __init__(self, rollouts: Rollouts, pads: tuple[str, ...]) -> None:
        self._rollouts = rollouts
        self._pads = pads
        self._number_of_string = Numbers()
        self._number_of_unit = _UnitNumbers(self._number_of_string)
        # (row, ids) of each text: units, words, references
        self._texts: tuple[list[tuple[int, Ids]], ...] = ([], [], [])
        self._is_token: list[bool] = []
        self._distinct_2: list[float] = []
        # of each response, where its units are in ``Rollouts``, −1 for those that are no tokens
        self._places: list[Ints] = []

    def add(self, row: int, text: str, tokens: _Tokens | None) -> None:
        """Add a response: its row in the response table, its text, and its tokens if logged."""
        text = text[:MAX_TEXT]
        without_tags = without_special(text)
        spaced = spaced_units(without_tags)
        all_units, words, _ = self._texts
        words.append((row, self._edges(self._number_of_string.of(spaced))))
        if tokens is not None:
            # Negative until ``part`` numbers the strings of all tokens at once
            ids = -1 - tokens.ids
            places = tokens.places
        else:
            if without_tags != text:
                spaced = spaced_units(text)
            ids = self._number_of_unit.of(spaced)
            places = np.full(len(ids), -1)
        self._is_token.append(tokens is not None)
        # Of the whole response, not of its ends only
        self._distinct_2.append(_distinct_bigrams(ids))
        all_units.append((row, self._edges(ids)))
        self._places.append(_edges(places, gap=-1))

    def add_reference(self, row: int, text: str) -> None:
        """Add the reference policy's response to the prompt of the response in a row."""
        _, _, references = self._texts
        spaced = spaced_units(text[:MAX_TEXT])
        references.append((row, self._edges(self._number_of_string.of(spaced))))

    def text_of(self, tokens: Ids) -> str:
        """Return the text of tokens, given as indices of the run's vocabulary, cleaned."""
        vocabulary = self._rollouts.vocabulary
        strings = [vocabulary[number] for number in tokens.tolist()]
        readable = readable_tokens(strings, detect_style(strings))
        return clean_text("".join(readable), self._pads)

    def _edges(self, ids: Ids) -> Ids:
        """Return the ids of a text; of a long one, its first and last EDGE with GAP between."""
        if len(ids) <= 2 * EDGE:
            return ids
        return _edges(ids, gap=self._number_of_string[GAP])

    def part(self) -> Part:
        """Return the sample of all responses that were added."""
        units, words, references = map(_as_units, self._texts)
        # In place. It numbers the strings of tokens, too, so it comes before ``strings`` below;
        # words were numbered when they were added.
        self._number_tokens(units.ids)
        return Part(
            units=units,
            words=words,
            references=references,
            is_token=np.array(self._is_token, bool),
            distinct_2=np.array(self._distinct_2, np.float64),
            figures=_figures_at(self._rollouts, np.concatenate(self._places)),
            strings=[string[:_MAX_STRING] for string in self._number_of_string],
        )

    def _number_tokens(self, ids: Ids) -> None:
        """Replace −1 − index in the vocabulary by the number of the token's string, in place.

        Tokens with the same string, and words equal to it, get the same number.
        """
        is_token = ids < 0
        tokens = -1 - ids[is_token]
        used = np.flatnonzero(np.bincount(tokens))
        vocabulary = self._rollouts.vocabulary
        # Token strings are model output of any length.
        strings = [
            safe_text(vocabulary[number][:_MAX_STRING]) for number in used.tolist()
        ]
        number_of_token = np.zeros(used.max(initial=-1) + 1, np.int32)
        number_of_token[used] = self._number_of_string.of(strings)
        ids[is_token] = number_of_token[tokens]


def _figures_at(rollouts: Rollouts, places: Ints) -> NDArray[np.float32]:
    """Return FIGURES at these places of tokens, (figures, places), NaN where not logged.

    A place of −1 has no token.
    """
    is_token = places >= 0
    figures = _figures_of_tokens(rollouts, places[is_token])
    if is_token.all():  # as usual: no copy is needed
        return figures
    with_gaps = np.full((len(FIGURES), len(places)), np.nan, np.float32)
    with_gaps[:, is_token] = figures
    return with_gaps


def _figures_of_tokens(rollouts: Rollouts, places: Ints) -> NDArray[np.float32]:
    logged = TokenFigures()
    for name in _LOGGED_FIGURES:
        if name in rollouts.figures:
            logged[name] = rollouts.figures[name][places].astype(np.float64)
    derived = logged.derive()
    figures = np.full((len(FIGURES), len(places)), np.nan, np.float32)
    for values, name in zip(figures, FIGURES, strict=True):
        if name in derived:
            values[:] = np.clip(derived[name], -_LARGEST, _LARGEST)
    return figures


def _edges(values: NDArray[Number], gap: int) -> NDArray[Number]:
    """Return a value per unit of a text; of a long one, the first and last EDGE around ``gap``."""
    if len(values) <= 2 * EDGE:
        return values
    between = np.array([gap], values.dtype)
    return np.concatenate([values[:EDGE], between, values[-EDGE:]])


def _distinct_bigrams(ids: Ids) -> float:
    """Return distinct bigrams / all bigrams, NaN without bigrams."""
    # Each pair of ids as one number: the first in the upper 32 bits
    bigrams = (ids[:-1].astype(np.int64) << 32) + ids[1:]
    if not len(bigrams):
        return np.nan
    bigrams.sort()
    # Equal ones are neighbours now.
    distinct = 1 + np.count_nonzero(bigrams[1:] != bigrams[:-1])
    return float(distinct / len(bigrams))


def _as_units(texts: list[tuple[int, Ids]]) -> Units:
    """Concatenate texts, a pair of row and ids each."""
    ids_of_texts = [ids for _, ids in texts]
    no_ids = np.zeros(0, np.int32)  # as there may be no text
    return Units(
        rows=np.array([row for row, _ in texts], np.int64),
        lengths=np.array([len(ids) for ids in ids_of_texts], np.int64),
        ids=np.concatenate([no_ids, *ids_of_texts]),
    )


def _with_texts(scan: Scan, rows: Ints, parts: list[Part], strings: list[str]) -> Scan:
    """Return the scan with samples of ``parts``, whose ids are indices of ``strings``.

    ``rows`` are those of the response table that all parts together have. Texts of validation are
    in no sample, only in the columns of the table.
    """
    training = scan.responses["validation"].to_numpy() == RowRole.TRAINING
    trained = training[rows]
    all_units = _joined([part.units for part in parts])
    words = _joined([part.words for part in parts])
    references = _joined([part.references for part in parts])
    is_token = np.concatenate([part.is_token for part in parts])
    _set_columns(scan.responses, rows, parts, words)
    part_figures = [part.figures for part in parts]
    parts.clear()  # to save memory, as all else of them is joined
    # Figures are either of tokens or of words: those of the other unit are left out.
    unit = _usual_unit(is_token[trained & (all_units.lengths > 0)])
    of_unit = trained & (is_token == (unit == "token"))
    ngrams, in_sample = _text_sample(all_units, of_unit, strings, unit)
    others = np.count_nonzero(trained & ~of_unit) if ngrams is not None else 0
    longer = np.count_nonzero(all_units.lengths > 2 * EDGE)
    tokens = None
    if ngrams is not None and unit == "token":
        tokens = _token_sample(
            ngrams, part_figures, slice(None) if of_unit.all() else in_sample
        )
    # Not every response has a reference.
    reference_is_trained = training[references.rows]
    is_whole_run = len(rows) == len(training)
    return replace(
        scan,
        ngrams=ngrams,
        words=_text_sample(words, trained, strings, "word")[0],
        ref_words=_text_sample(references, reference_is_trained, strings, "word")[0],
        tokens=tokens,
        sampled=len(rows),
        # Of a large run, only training responses are sampled.
        sampled_of=len(training) if is_whole_run else int(training.sum()),
        notes=[*scan.notes, *_notes_on_sample(int(longer), int(others))],
    )


def _token_sample(
    ngrams: TextSample, parts: Sequence[NDArray[np.float32]], chosen: Ints | slice
) -> TokenSample:
    """Return the figures of parts at the tokens of ``ngrams``, the ``chosen`` ones of all."""
    figures = {}
    for i, name in enumerate(FIGURES):  # one after the other, to save memory
        values = np.concatenate([part[i] for part in parts])
        figures[name] = compact(values[chosen])
    return TokenSample(ngrams, **figures)


def _set_columns(
    responses: pd.DataFrame, rows: Ints, parts: list[Part], words: Units
) -> None:
    """Set ``distinct_2`` and ``loop_share`` of ``rows`` in the response table; others are NaN."""
    distinct_2 = np.concatenate([part.distinct_2 for part in parts])
    responses["distinct_2"] = pd.Series(significant(distinct_2), rows)
    words_in_loops = find_loops(words.ids, offsets_of(words.lengths))[:, 2]
    # A response without words has no loop: 0, not NaN.
    loop_share = words_in_loops / np.maximum(words.lengths, 1)
    responses["loop_share"] = pd.Series(significant(loop_share), rows)


def _notes_on_sample(longer: int, others: int) -> list[Note]:
    """Return notes on the responses over the limit of length, and on those of another unit."""
    notes = []
    if longer:
        text = message(
            "responses of over {most:count} tokens or words; figures of texts and tokens use only "
            "the first and the last {edge:count}",
            most=2 * EDGE,
            edge=EDGE,
        )
        notes.append(Note(NoteKind.SHORTENED, text, longer))
    if others:
        text = message(
            "responses with token strings while most have none, or the reverse; left out of "
            "figures of texts and tokens"
        )
        notes.append(Note(NoteKind.MIXED_UNITS, text, others))
    return notes


def _joined(texts: Sequence[Units]) -> Units:
    return Units(
        rows=np.concatenate([text.rows for text in texts]),
        lengths=np.concatenate([text.lengths for text in texts]),
        ids=np.concatenate([text.ids for text in texts]),
    )


def _usual_unit(is_token: NDArray[np.bool_]) -> str:
    """Return the unit of figures of texts, given whether each response has tokens."""
    mostly_tokens = 2 * np.count_nonzero(is_token) >= len(is_token)
    return "token" if len(is_token) and mostly_tokens else "word"


def _text_sample(
    units: Units,
    keep: NDArray[np.bool_],
    vocabulary: list[str],
    unit: str,
) -> tuple[TextSample | None, Ints]:
    """Return a sample of the texts in ``keep``, and the indices of its ids in ``units.ids``.

    The sample is None if these texts have no ids. It has only the strings of ``vocabulary`` that
    occur in it.
    """
    indices = np.flatnonzero(np.repeat(keep, units.lengths))
    if not len(indices):
        return None, indices
    ids, used = pd.factorize(units.ids[indices])
    sample = TextSample(
        units.rows[keep],
        offsets_of(units.lengths[keep]),
        ids.astype(np.int32),
        [vocabulary[number] for number in used.tolist()],
        unit,
    )
    return sample, indices
