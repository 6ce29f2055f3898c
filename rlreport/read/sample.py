"""Collect the texts and tokens of the sampled responses, as ids of words and tokens."""

from __future__ import annotations

import re
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
from rlreport.tables import GAP, Note, TextSample, TokenSample
from rlreport.text.clean import clean_text, safe_text, without_special
from rlreport.text.messages import message
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units, units

FIGURES = ("kl", "log_ratio", "prob", "value_error")
_MAX_STRING = 200
_LARGEST = (
    2.0**40
)  # Values per token are clipped to ± this, as the KL estimate k3 may be infinite
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
    is_token: NDArray[
        np.bool_
    ]  # bool (R,), whether the response's ``units`` are tokens
    distinct_2: (
        Floats  # float64 (R,), distinct bigrams / all bigrams, NaN without bigrams
    )
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
        self._texts: tuple[list[tuple[int, Ids]], ...] = (
            [],
            [],
            [],
        )  # units, words, references
        self._is_token: list[bool] = []
        self._distinct_2: list[float] = []
        self._labels: list[int] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, row: int, index: int, figures: TokenFigures) -> None:
        rollouts = self._rollouts
        text = rollouts.text("response", index) or ""
        flags = int(rollouts.flags[index])
        start = int(rollouts.starts[index])
        sampled = rollouts.sampled[start : start + rollouts.lengths[index]]
        tokens = rollouts.ids[start : start + rollouts.lengths[index]][sampled]
        if flags & HAS_TOKENS and flags & HAS_MASK:  # omit tool outputs
            strings = [rollouts.vocabulary[number] for number in tokens.tolist()]
            text = clean_text(
                "".join(readable_tokens(strings, detect_style(strings))), self._pads
            )
        text = text[:MAX_TEXT]
        reference = rollouts.text("ref_response", index)
        self._labels.append(holds_label(text, rollouts.text("ground_truth", index)))
        self._is_token.append(bool(flags & HAS_TOKENS))
        all_units, words, references = self._texts
        words.append(
            (row, self._edges(self._numbers.of(spaced_units(without_special(text)))))
        )
        if reference is not None:
            ids = self._numbers.of(spaced_units(reference[:MAX_TEXT]))
            references.append((row, self._edges(ids)))
        # Until all tokens are numbered at once, they are −1 minus their index in the vocabulary.
        ids = -1 - tokens if flags & HAS_TOKENS else self._numbers.of(units(text))
        pairs = (ids[:-1].astype(np.int64) << 32) + ids[1:]
        distinct = 1 + np.count_nonzero(np.diff(np.sort(pairs)))
        self._distinct_2.append(distinct / len(pairs) if len(pairs) else np.nan)
        all_units.append((row, self._edges(ids)))
        values = np.full((len(FIGURES), len(ids)), np.nan, np.float32)
        if flags & HAS_TOKENS:
            for i, name in enumerate(FIGURES):
                if (logged := figures.get(name)) is not None:
                    values[i] = np.clip(logged[sampled], -_LARGEST, _LARGEST)
        if len(ids) > 2 * EDGE:
            gap = np.full((len(FIGURES), 1), np.nan, np.float32)
            values = np.concatenate([values[:, :EDGE], gap, values[:, -EDGE:]], axis=1)
        self._values.append(values)

    def _edges(self, ids: Ids) -> Ids:
        if len(ids) <= 2 * EDGE:
            return ids
        return np.concatenate([ids[:EDGE], self._numbers.of([GAP]), ids[-EDGE:]])

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


def _with_texts(scan: Scan, rows: Ints, parts: list[Part], strings: list[str]) -> Scan:  # noqa: PLR0914
    training = scan.responses["validation"].to_numpy() == 0
    everything, words, references = (
        Units(*(np.concatenate(arrays) for arrays in zip(*texts, strict=True)))
        for texts in zip(*(part[:3] for part in parts), strict=True)
    )
    is_token, labels, distinct_2 = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("is_token", "labels", "distinct_2")
    )
    lengths = everything.lengths
    scan.responses["distinct_2"] = pd.Series(significant(distinct_2), rows)
    in_loops = find_loops(words.ids, offsets_of(words.lengths))[:, 2] / np.maximum(
        words.lengths, 1
    )
    scan.responses["loop_share"] = pd.Series(significant(in_loops), rows)
    trained = training[rows]
    filled = trained & (lengths > 0)
    mostly_tokens = 2 * np.count_nonzero(filled & is_token) >= np.count_nonzero(filled)
    unit = "token" if mostly_tokens and filled.any() else "word"
    of_unit = trained & (is_token == (unit == "token"))
    texts, places = _text_sample(everything, of_unit, strings, unit)
    notes = []
    if longer := np.count_nonzero(lengths > 2 * EDGE):
        text = message(
            "responses of over {most:count} tokens or words; figures of texts and tokens use only "
            "the first and the last {edge:count}",
            most=2 * EDGE,
            edge=EDGE,
        )
        notes.append(Note("shortened", text, int(longer)))
    if texts is not None and (others := np.count_nonzero(trained & ~of_unit)):
        text = message(
            "responses with token strings while most have none, or the reverse; left out of "
            "figures of texts and tokens"
        )
        notes.append(Note("mixed_units", text, int(others)))
    tokens = None
    if unit == "token" and texts is not None:
        chosen = np.concatenate([part.figures for part in parts], axis=1)[:, places]
        tokens = TokenSample(texts, **dict(zip(FIGURES, chosen, strict=True)))
    return replace(
        scan,
        ngrams=texts,
        words=_text_sample(words, trained, strings, "word", labels)[0],
        ref_words=_text_sample(references, training[references.rows], strings, "word")[
            0
        ],
        tokens=tokens,
        sampled=len(rows),
        sampled_of=len(training) if len(rows) == len(training) else int(training.sum()),
        notes=[*scan.notes, *notes],
    )


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
    offsets, labels = (
        offsets_of(units.lengths[keep]),
        None if labels is None else labels[keep],
    )
    ids, used = pd.factorize(units.ids[places])
    strings = [vocabulary[number] for number in used.tolist()]
    sample = TextSample(
        units.rows[keep], offsets, ids.astype(np.int32), strings, unit, labels
    )
    return sample, places
