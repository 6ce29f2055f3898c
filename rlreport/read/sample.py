"""Choose a sample of responses, read it back from the logs, and collect its texts and tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of, places_in_runs
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.readback import RowLocations, reading_order
from rlreport.read.sample_parts import EDGE, FIGURES, Numbers, Part, Units, no_values, read_part
from rlreport.read.tables import Hashes, Scan, mix
from rlreport.system.cache import store_at
from rlreport.system.workers import Progress, Workers
from rlreport.tables import Note, TextSample, TokenSample
from rlreport.text.messages import message

MAX_RESPONSES = 8192
MAX_TOKENS = 4_000_000
_CHARS_PER_WORD = 3
_BYTES_PER_SECOND = 50e6  # of responses that one process samples
_PART_BYTES, _PART_ROWS, _MIN_PART_BYTES = 16 << 20, 512, 1 << 20


def sampled_rows(responses: pd.DataFrame, file_names: Sequence[str]) -> Ints:
    """Choose which rows of the response table to sample; return them in ascending order.

    Logs within MAX_RESPONSES and MAX_TOKENS are sampled whole. Otherwise take k training responses
    per step, in random but repeatable order (by a hash of their location), one group of responses
    to a prompt after another. k is the largest power of two that respects both limits, so a growing
    run rarely changes its sample. If even k = 1 is too many, take one response of every m-th step,
    with m a power of two.
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
    rank = places_in_runs(step[order])
    ordinal = np.unique(step[order], return_inverse=True)[1]
    per_step, every = MAX_RESPONSES, 1
    while True:
        chosen = rows[order[(rank < per_step) & (ordinal % every == 0)]]
        if len(chosen) <= MAX_RESPONSES and cost[chosen].sum() <= MAX_TOKENS:
            return np.sort(chosen)
        if per_step > 1:
            per_step //= 2
        else:
            every *= 2


def _cost(responses: pd.DataFrame) -> Floats:
    """Estimate how many tokens (or words) each response adds to the sample, float64 (R,)."""
    tokens = responses["response_tokens"].to_numpy(np.float64)
    words = responses["response_chars"].to_numpy(np.float64) / _CHARS_PER_WORD
    return np.minimum(np.where(np.isnan(tokens), words, tokens), 2 * EDGE)


def _priorities(responses: pd.DataFrame, file_names: Sequence[str]) -> Hashes:
    """Return a random but repeatable priority per response: a hash of its place in the logs."""
    names = np.array([xxhash.xxh3_64_intdigest(os.fsencode(n)) for n in file_names], np.uint64)
    file, offset, sub = (responses[name].to_numpy() for name in ("file", "offset", "sub"))
    place = mix(names[file]) + offset.astype(np.uint64)
    return mix(mix(place) + sub.astype(np.uint64))


def with_sample(
    scan: Scan,
    options: ReadOptions,
    figures: FigureOptions,
    workers: Workers,
    progress: Progress,
) -> Scan:
    """Read a sample of the responses back; return the scan with the sampled texts and tokens.

    Raises:
        UnusableInputError: a log changed or vanished since it was first read.
    """
    responses, locations = scan.responses, scan.locations()
    rows = sampled_rows(responses, [source.name for source in scan.sources])
    jobs = (responses.iloc[part] for part in _jobs(locations, reading_order(locations, rows)))
    store = store_at(options.cache, options.cache_size) if options.cache else None
    shared = locations.without_rows(), options, figures, store
    seconds = float(locations.length[rows].sum()) / _BYTES_PER_SECOND
    parts: list[Part] = []
    strings, words = Numbers(), Numbers()
    with progress.phase(message("sample"), len(rows), message("responses")) as phase:
        for part in workers.map(read_part, jobs, shared, seconds=seconds):
            parts.append(_renumber(part, strings, words))
            phase.advance(len(part.units.rows))
    return _with_texts(scan, parts, list(strings), list(words))


def _jobs(locations: RowLocations, rows: Ints) -> Iterator[Ints]:
    """Split row numbers into jobs for workers; rows of a compressed file are one job."""
    length, file = locations.length[rows], locations.file[rows]
    start = size = 0
    for i in range(len(rows)):
        source = locations.sources[file[i]]
        whole = source.compression or locations.formats[file[i]].container != "lines"
        full = size + length[i] > _PART_BYTES or i - start >= _PART_ROWS
        # Cut at file boundaries, so that jobs of a file do not change when other files grow.
        other = file[i] != file[i - 1] and (whole or size > _MIN_PART_BYTES)
        if i > start and (other or (full and not whole)):
            yield rows[start:i]
            start, size = i, 0
        size += int(length[i])
    if len(rows):
        yield rows[start:]


def _renumber(part: Part, strings: Numbers, words: Numbers) -> Part:
    """Replace the token and word ids of a part by ids in the vocabularies shared by all parts."""
    ids, word_ids = strings.of(part.strings), words.of(part.word_strings)
    units, word_units, references = (
        text._replace(ids=numbers[text.ids] if len(text.ids) else text.ids)
        for text, numbers in (
            (part.units, ids),
            (part.words, word_ids),
            (part.references, word_ids),
        )
    )
    return part._replace(
        units=units, words=word_units, references=references, strings=[], word_strings=[]
    )


def _with_texts(scan: Scan, parts: list[Part], strings: list[str], word_strings: list[str]) -> Scan:
    training = scan.responses["validation"].to_numpy() == 0
    everything, words, references = (
        Units(*(np.concatenate(arrays) for arrays in zip(*texts, strict=True)))
        for texts in zip(*(part[:3] for part in parts), strict=True)
    )
    is_token, labels, distinct_2 = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("is_token", "labels", "distinct_2")
    )
    rows, lengths = everything.rows, everything.lengths
    scan.responses["distinct_2"] = pd.Series(distinct_2, rows)
    trained = training[rows]
    filled = trained & (lengths > 0)
    mostly_tokens = 2 * np.count_nonzero(filled & is_token) >= np.count_nonzero(filled)
    unit = "token" if mostly_tokens and filled.any() else "word"
    of_unit = trained & (is_token == (unit == "token"))
    texts, places = _text_sample(everything, of_unit, strings, unit)
    every, notes = texts, []
    if longer := np.count_nonzero(lengths > 2 * EDGE):
        text = message(
            "responses of over {most:count} tokens; figures of texts and tokens use only the "
            "first and the last {edge:count}",
            most=2 * EDGE,
            edge=EDGE,
        )
        notes.append(Note("shortened", text, int(longer)))
    if is_token.any() and not is_token.all():
        every, _ = _text_sample(everything, trained, strings, unit)
        if texts is not None:
            text = (
                message(
                    "responses without tokens, although most have some; left out of figures "
                    "of texts and tokens"
                )
                if unit == "token"
                else message(
                    "responses with tokens, although most have none; left out of figures of texts"
                )
            )
            notes.append(Note("mixed_units", text, int((trained & ~of_unit).sum())))
    tokens = None
    if unit == "token" and texts is not None:
        figures = [
            part.figures if part.is_token.any() else no_values(len(part.units.ids))
            for part in parts
        ]
        chosen = np.concatenate(figures, axis=1)[:, places]
        tokens = TokenSample(texts, **dict(zip(FIGURES, chosen, strict=True)))
    return replace(
        scan,
        ngrams=texts,
        words=_text_sample(words, trained, word_strings, "word", labels)[0],
        ref_words=_text_sample(references, training[references.rows], word_strings, "word")[0],
        tokens=tokens,
        every=every,
        positions=_positions(np.sum([part.tenths for part in parts], axis=0)),
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
    """Return the texts selected by ``keep`` (None if none), and the indices of their ids."""
    chosen, places = units.chosen(keep)
    if not len(places):
        return None, places
    kept_labels = None if labels is None else labels[keep][np.argsort(units.rows[keep])]
    offsets = offsets_of(chosen.lengths)
    return TextSample(chosen.rows, offsets, chosen.ids, vocabulary, unit, kept_labels), places


def _positions(tenths: Floats) -> pd.DataFrame:
    deciles = np.flatnonzero(tenths[0])
    counts, *sums = tenths[:, deciles]
    names = ("abs_error_mean", "value_mean", "return_mean")
    means = dict(zip(names, (total / counts for total in sums), strict=True))
    return pd.DataFrame({"decile": deciles, "count": counts.astype(np.int64), **means})
