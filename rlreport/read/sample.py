"""Collect the texts and tokens of the sampled responses, as ids of words and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of
from rlreport.figures.rounding import significant
from rlreport.figures.tokens import TokenFigures, find_loops
from rlreport.options import ReadOptions
from rlreport.read.chunk import MAX_TEXT
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
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units, units

FIGURES = ("kl", "log_ratio", "prob", "value_error")
_MAX_STRING = 200
# Values per token are clipped to ± this, as the KL estimate k3 may be infinite
_LARGEST = 2.0**40
_ROWS_PER_SECOND = 4_000  # that one process collects, to decide whether to use several

Ids = NDArray[np.int32]


class Units(NamedTuple):
    """Texts as token or word ids: row and length of each text, and all ids concatenated."""

    rows: Ints  # of the response table, ascending
    lengths: Ints
    ids: Ids

    def renumbered(self, numbers: Ids) -> Units:
        """Return the same texts with ``numbers[id]`` instead of each id."""
        return self._replace(ids=numbers[self.ids])


class Part(NamedTuple):
    """Texts and values per token of R sampled responses; ids are indices of ``strings``."""

    units: Units  # tokens of the responses; words for a response without logged tokens
    words: Units
    references: Units  # words of the reference policy's responses
    # bool (R,), whether the response's ``units`` are tokens
    is_token: NDArray[np.bool_]
    # float64 (R,), distinct bigrams / all bigrams, NaN without bigrams
    distinct_2: Floats
    # float32 (len(FIGURES), ids of ``units``): KL etc. of each, NaN where not logged
    figures: NDArray[np.float32]
    strings: list[str]


def with_sample(
    scan: Scan, rows: Ints, options: ReadOptions, workers: Workers, limits: ReadLimits
) -> Scan:
    """Return the scan with text samples of ``rows``; set ``distinct_2`` and ``loop_share``.

    ``rows`` are those of the response table to sample, ascending.
    """
    jobs = []
    for start in range(0, len(rows), limits.sample_job_rows):
        of_job = rows[start : start + limits.sample_job_rows]
        jobs.append(Selection(scan.rollouts, of_job))
    seconds = len(rows) / _ROWS_PER_SECOND
    strings = Numbers()
    parts = []
    for part in workers.map(_collect, jobs, options, seconds=seconds):
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


def _collect(selection: Selection, options: ReadOptions) -> Part:
    """Return the sample of some responses; a job of a worker."""
    rollouts, rows = selection
    collector = _Collector(rollouts, options.pad_tokens)
    indices = rollouts.indices(rows)
    figures = rollouts.figures_of(indices)
    offsets = offsets_of(rollouts.lengths[indices]).tolist()
    for row, index, bounds in zip(
        rows.tolist(), indices.tolist(), pairwise(offsets), strict=True
    ):
        collector.add(row, index, figures.between(*bounds))
    return collector.part()


class _Collector:
    """Converts responses to ids one by one, and numbers the strings of all."""

    def __init__(self, rollouts: Rollouts, pads: tuple[str, ...]) -> None:
        self._rollouts = rollouts
        self._pads = pads
        self._number_of_string = Numbers()
        # (row, ids) of each text: units, words, references
        self._texts: tuple[list[tuple[int, Ids]], ...] = ([], [], [])
        self._is_token: list[bool] = []
        self._distinct_2: list[float] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, row: int, index: int, figures: TokenFigures) -> None:
        """Add a response: its row in the response table, index in ``Rollouts``, and figures."""
        rollouts = self._rollouts
        flags = int(rollouts.flags[index])
        has_tokens = bool(flags & HAS_TOKENS)
        start = int(rollouts.starts[index])
        stop = start + int(rollouts.lengths[index])
        sampled = rollouts.sampled[start:stop]
        tokens = rollouts.ids[start:stop][sampled]
        text = rollouts.text("response", index) or ""
        if has_tokens and flags & HAS_MASK:
            # Of a conversation, the response has the outputs of tools: omit them.
            text = self._text_of(tokens)
        text = text[:MAX_TEXT]
        self._is_token.append(has_tokens)
        all_units, words, references = self._texts
        words.append((row, self._words_of(without_special(text))))
        reference = rollouts.text("ref_response", index)
        if reference is not None:
            references.append((row, self._words_of(reference[:MAX_TEXT])))
        if has_tokens:
            # Negative until ``part`` numbers the strings of all tokens at once
            ids = -1 - tokens
            values = _values_of(figures, sampled)
        else:
            ids = self._number_of_string.of(units(text))
            values = np.full((len(FIGURES), len(ids)), np.nan, np.float32)
        # Of the whole response, not of its ends only
        self._distinct_2.append(_distinct_bigrams(ids))
        all_units.append((row, self._edges(ids)))
        self._values.append(_edges_of(values))

    def _words_of(self, text: str) -> Ids:
        """Return the ids of the words of a text, each with the white space before it."""
        return self._edges(self._number_of_string.of(spaced_units(text)))

    def _text_of(self, tokens: Ids) -> str:
        """Return the text of tokens, given as indices of the run's vocabulary, cleaned."""
        vocabulary = self._rollouts.vocabulary
        strings = [vocabulary[number] for number in tokens.tolist()]
        readable = readable_tokens(strings, detect_style(strings))
        return clean_text("".join(readable), self._pads)

    def _edges(self, ids: Ids) -> Ids:
        """Return the ids of a text; of a long one, its first and last EDGE with GAP between."""
        if len(ids) <= 2 * EDGE:
            return ids
        gap = self._number_of_string.of([GAP])
        return np.concatenate([ids[:EDGE], gap, ids[-EDGE:]])

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
            figures=np.concatenate(self._values, axis=1),
            strings=[string[:_MAX_STRING] for string in self._number_of_string],
        )

    def _number_tokens(self, ids: Ids) -> None:
        """Replace −1 − index in the vocabulary by the number of the token's string, in place.

        Tokens with the same string, and words equal to it, get the same number.
        """
        is_token = ids < 0
        vocabulary = self._rollouts.vocabulary
        used, tokens = np.unique(-1 - ids[is_token], return_inverse=True)
        # Token strings are model output of any length.
        strings = [
            safe_text(vocabulary[number][:_MAX_STRING]) for number in used.tolist()
        ]
        ids[is_token] = self._number_of_string.of(strings)[tokens]


def _values_of(
    figures: TokenFigures, sampled: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return FIGURES of a response's sampled tokens, (figures, tokens), NaN where not logged."""
    values = np.full((len(FIGURES), int(sampled.sum())), np.nan, np.float32)
    for i, name in enumerate(FIGURES):
        logged = figures.get(name)
        if logged is not None:
            values[i] = np.clip(logged[sampled], -_LARGEST, _LARGEST)
    return values


def _edges_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values of the tokens that ``_Collector._edges`` keeps, NaN at the gap."""
    if values.shape[1] <= 2 * EDGE:
        return values
    gap = np.full((len(values), 1), np.nan, np.float32)
    return np.concatenate([values[:, :EDGE], gap, values[:, -EDGE:]], axis=1)


def _distinct_bigrams(ids: Ids) -> float:
    """Return distinct bigrams / all bigrams, NaN without bigrams."""
    # Each pair of ids as one number: the first in the upper 32 bits
    bigrams = (ids[:-1].astype(np.int64) << 32) + ids[1:]
    if not len(bigrams):
        return np.nan
    distinct = 1 + np.count_nonzero(np.diff(np.sort(bigrams)))
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
    # Figures are either of tokens or of words: those of the other unit are left out.
    unit = _usual_unit(is_token[trained & (all_units.lengths > 0)])
    of_unit = trained & (is_token == (unit == "token"))
    ngrams, in_sample = _text_sample(all_units, of_unit, strings, unit)
    others = np.count_nonzero(trained & ~of_unit) if ngrams is not None else 0
    longer = np.count_nonzero(all_units.lengths > 2 * EDGE)
    tokens = None
    if ngrams is not None and unit == "token":
        figures = np.concatenate([part.figures for part in parts], axis=1)[:, in_sample]
        tokens = TokenSample(ngrams, **dict(zip(FIGURES, figures, strict=True)))
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
