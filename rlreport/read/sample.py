"""Collect the texts and tokens of the sampled responses, as ids of words and tokens."""

from __future__ import annotations

import re
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
    Numbers,
    Rollouts,
    Selection,
)
from rlreport.read.tables import Scan
from rlreport.system.workers import Workers
from rlreport.tables import GAP, Note, NoteKind, RowRole, TextSample, TokenSample
from rlreport.text.clean import clean_text, safe_text, without_special
from rlreport.text.messages import message
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units, units

FIGURES = ("kl", "log_ratio", "prob", "value_error")
_MAX_STRING = 200
# Values per token are clipped to ± this, as the KL estimate k3 may be infinite
_LARGEST = 2.0**40
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_ROWS_PER_SECOND = 4_000  # that one process collects, to decide whether to use several

Ids = NDArray[np.int32]


class Units(NamedTuple):
    """Texts as token or word ids: row and length of each text, and all ids concatenated."""

    rows: Ints  # ascending
    lengths: Ints
    ids: Ids

    def renumbered(self, numbers: Ids) -> Units:
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
    labels: NDArray[np.int8]  # (R,), see ``holds_label``
    # float32 (len(FIGURES), ids of ``units``): KL etc. of each, NaN where not logged
    figures: NDArray[np.float32]
    strings: list[str]


def with_sample(
    scan: Scan, rows: Ints, options: ReadOptions, workers: Workers, limits: ReadLimits
) -> Scan:
    """Return the scan with text samples of ``rows``; set ``distinct_2`` and ``loop_share``."""
    jobs = []
    for start in range(0, len(rows), limits.sample_job_rows):
        of_job = rows[start : start + limits.sample_job_rows]
        jobs.append(Selection(scan.rollouts, of_job))
    seconds = len(rows) / _ROWS_PER_SECOND
    strings = Numbers()
    parts = []
    for part in workers.map(_collect, jobs, options, seconds=seconds):
        # Each part numbers the strings it found; number them across all parts.
        numbers = strings.of(part.strings)
        renumbered = part._replace(
            units=part.units.renumbered(numbers),
            words=part.words.renumbered(numbers),
            references=part.references.renumbered(numbers),
            strings=[],
        )
        parts.append(renumbered)
    return _with_texts(scan, rows, parts, list(strings))


def _collect(selection: Selection, options: ReadOptions) -> Part:
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
    def __init__(self, rollouts: Rollouts, pads: tuple[str, ...]) -> None:
        self._rollouts = rollouts
        self._pads = pads
        self._numbers = Numbers()
        # (row, ids) of each text: units, words, references
        self._texts: tuple[list[tuple[int, Ids]], ...] = ([], [], [])
        self._is_token: list[bool] = []
        self._distinct_2: list[float] = []
        self._labels: list[int] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, row: int, index: int, figures: TokenFigures) -> None:
        rollouts = self._rollouts
        flags = int(rollouts.flags[index])
        has_tokens = bool(flags & HAS_TOKENS)
        start = int(rollouts.starts[index])
        stop = start + int(rollouts.lengths[index])
        sampled = rollouts.sampled[start:stop]
        tokens = rollouts.ids[start:stop][sampled]
        text = rollouts.text("response", index) or ""
        if has_tokens and flags & HAS_MASK:  # omit tool outputs
            text = self._text_of(tokens)
        text = text[:MAX_TEXT]
        reference = rollouts.text("ref_response", index)
        self._labels.append(holds_label(text, rollouts.text("ground_truth", index)))
        self._is_token.append(has_tokens)
        all_units, words, references = self._texts
        spaced = self._numbers.of(spaced_units(without_special(text)))
        words.append((row, self._edges(spaced)))
        if reference is not None:
            spaced = self._numbers.of(spaced_units(reference[:MAX_TEXT]))
            references.append((row, self._edges(spaced)))
        # Until all tokens are numbered at once, they are −1 minus their index in the vocabulary.
        ids = -1 - tokens if has_tokens else self._numbers.of(units(text))
        self._distinct_2.append(_distinct_bigrams(ids))
        all_units.append((row, self._edges(ids)))
        values = np.full((len(FIGURES), len(ids)), np.nan, np.float32)
        if has_tokens:
            for i, name in enumerate(FIGURES):
                logged = figures.get(name)
                if logged is not None:
                    values[i] = np.clip(logged[sampled], -_LARGEST, _LARGEST)
        self._values.append(_edges_of(values))

    def _text_of(self, tokens: Ids) -> str:
        vocabulary = self._rollouts.vocabulary
        strings = [vocabulary[number] for number in tokens.tolist()]
        readable = readable_tokens(strings, detect_style(strings))
        return clean_text("".join(readable), self._pads)

    def _edges(self, ids: Ids) -> Ids:
        if len(ids) <= 2 * EDGE:
            return ids
        gap = self._numbers.of([GAP])
        return np.concatenate([ids[:EDGE], gap, ids[-EDGE:]])

    def part(self) -> Part:
        units, words, references = map(_as_units, self._texts)
        is_token = units.ids < 0
        vocabulary = self._rollouts.vocabulary
        used, tokens = np.unique(-1 - units.ids[is_token], return_inverse=True)
        # Token strings are model output of any length.
        strings = [
            safe_text(vocabulary[number][:_MAX_STRING]) for number in used.tolist()
        ]
        units.ids[is_token] = self._numbers.of(strings)[tokens]
        return Part(
            units,
            words,
            references,
            np.array(self._is_token, bool),
            np.array(self._distinct_2, np.float64),
            np.array(self._labels, np.int8),
            np.concatenate(self._values, axis=1),
            [string[:_MAX_STRING] for string in self._numbers],
        )


def _edges_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values of the tokens that ``_Collector._edges`` keeps, NaN at the gap."""
    if values.shape[1] <= 2 * EDGE:
        return values
    gap = np.full((len(values), 1), np.nan, np.float32)
    return np.concatenate([values[:, :EDGE], gap, values[:, -EDGE:]], axis=1)


def _distinct_bigrams(ids: Ids) -> float:
    """Return distinct bigrams / all bigrams, NaN without bigrams."""
    bigrams = (ids[:-1].astype(np.int64) << 32) + ids[1:]
    if not len(bigrams):
        return np.nan
    distinct = 1 + np.count_nonzero(np.diff(np.sort(bigrams)))
    return float(distinct / len(bigrams))


def _as_units(texts: list[tuple[int, Ids]]) -> Units:
    rows = np.array([row for row, _ in texts], np.int64)
    lengths = np.array([len(ids) for _, ids in texts], np.int64)
    return Units(
        rows,
        lengths,
        np.concatenate([np.zeros(0, np.int32), *(ids for _, ids in texts)]),
    )


def holds_label(response: str, label: str | None) -> int:
    """Return 1 if a response contains its label, ignoring case, 0 if not, −1 without a label.

    If the label contains ####, only the part after it counts.
    """
    if label is None:
        return -1
    wanted = _normalize(label.rpartition("####")[2])
    if not wanted:
        return -1
    text = _normalize(response)
    if not wanted[-1].isdigit():
        return int(wanted in text)
    return int(
        re.search(rf"(?<![\d.]){re.escape(wanted)}(?:\.0+)?(?!\.?\d)", text) is not None
    )


def _normalize(text: str) -> str:
    return _THOUSANDS.sub("", " ".join(text.lower().split()))


def _with_texts(scan: Scan, rows: Ints, parts: list[Part], strings: list[str]) -> Scan:
    training = scan.responses["validation"].to_numpy() == RowRole.TRAINING
    trained = training[rows]
    all_units = _joined([part.units for part in parts])
    words = _joined([part.words for part in parts])
    references = _joined([part.references for part in parts])
    is_token = np.concatenate([part.is_token for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    _set_columns(scan.responses, rows, parts, words)
    unit = _usual_unit(is_token[trained & (all_units.lengths > 0)])
    of_unit = trained & (is_token == (unit == "token"))
    ngrams, places = _text_sample(all_units, of_unit, strings, unit)
    others = np.count_nonzero(trained & ~of_unit) if ngrams is not None else 0
    longer = np.count_nonzero(all_units.lengths > 2 * EDGE)
    tokens = None
    if ngrams is not None and unit == "token":
        figures = np.concatenate([part.figures for part in parts], axis=1)[:, places]
        tokens = TokenSample(ngrams, **dict(zip(FIGURES, figures, strict=True)))
    of_training = training[references.rows]
    is_whole_run = len(rows) == len(training)
    return replace(
        scan,
        ngrams=ngrams,
        words=_text_sample(words, trained, strings, "word", labels)[0],
        ref_words=_text_sample(references, of_training, strings, "word")[0],
        tokens=tokens,
        sampled=len(rows),
        sampled_of=len(training) if is_whole_run else int(training.sum()),
        notes=[*scan.notes, *_notes_on_sample(int(longer), int(others))],
    )


def _set_columns(
    responses: pd.DataFrame, rows: Ints, parts: list[Part], words: Units
) -> None:
    distinct_2 = np.concatenate([part.distinct_2 for part in parts])
    responses["distinct_2"] = pd.Series(significant(distinct_2), rows)
    in_loops = find_loops(words.ids, offsets_of(words.lengths))[:, 2]
    loop_share = in_loops / np.maximum(words.lengths, 1)
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
    labels: NDArray[np.int8] | None = None,
) -> tuple[TextSample | None, Ints]:
    places = np.flatnonzero(np.repeat(keep, units.lengths))
    if not len(places):
        return None, places
    offsets = offsets_of(units.lengths[keep])
    if labels is not None:
        labels = labels[keep]
    ids, used = pd.factorize(units.ids[places])
    strings = [vocabulary[number] for number in used.tolist()]
    sample = TextSample(
        units.rows[keep], offsets, ids.astype(np.int32), strings, unit, labels
    )
    return sample, places
