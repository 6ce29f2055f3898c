"""The second pass: read chosen responses back, with their texts and tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlreport.errors import UnusableInputError
from rlreport.fields import TOKEN_ARRAYS
from rlreport.figures.token import token_figures
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batch
from rlreport.read.lines import BOM, DAMAGED, reason_of
from rlreport.read.marks import Place
from rlreport.read.places import Places, reading_order
from rlreport.read.result import Scan
from rlreport.read.rows import RowReader
from rlreport.read.token_rows import token_rows
from rlreport.read.tolerant import RowError, load_object
from rlreport.read.vocabulary import Vocabulary
from rlreport.rollout import Rollout, TokenFigures
from rlreport.text.chat import turns
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.tokens import readable_tokens

PROMPT_CHARACTERS = 400
PROMPTS_READ = 2_000
"""Prompts whose text is read back for the prompt table; the others keep their figures."""


def fetch(
    scan: Scan | Places, rows: Sequence[int], options: ReadOptions, figures: FigureOptions
) -> Iterator[Rollout]:
    """Read responses back, in the order given; all are in memory before the first is yielded.

    Args:
        scan: where they lie: the scan, or its ``places()`` in another process.
        rows: indices into the response table.
        options: as in the first pass.
        figures: as in the first pass.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    places = scan if isinstance(scan, Places) else scan.places()
    made: dict[int, Rollout] = {}
    for file, own in _by_file(places, rows):
        with _unchanged(places.sources[file].name):
            reader = RowReader(file, options)
            records = dict(_read_back(places, file, own, reader))
        made.update(_rollouts(places, file, records, reader.take(), options, figures))
    if places is not scan:
        places.close()
    yield from (made[row] for row in rows)


def fetch_texts(
    scan: Scan | Places, rows: Sequence[int], options: ReadOptions | None = None
) -> list[str]:
    """Return the first 400 characters of the cleaned prompts of these responses, in order.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    places = scan if isinstance(scan, Places) else scan.places()
    options = options or ReadOptions()
    prompts: dict[int, str] = {}
    for file, own in _by_file(places, rows):
        with _unchanged(places.sources[file].name):
            for row, record in _records(places, file, own):
                prompts[row] = _prompt(record, options)[:PROMPT_CHARACTERS]
    if places is not scan:
        places.close()
    return [prompts[row] for row in rows]


def prompt_texts(scan: Scan, options: ReadOptions) -> list[str]:
    """Return the beginnings of the first prompts' texts, by ``prompt_id``, at most PROMPTS_READ.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    return fetch_texts(scan, scan.prompt_rows[:PROMPTS_READ].tolist(), options)


def _prompt(record: dict[str, Any], options: ReadOptions) -> str:
    return clean_prompt(record["prompt"], options.pad_tokens, options.system_end_token)


def _by_file(places: Places, rows: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each file with its rows, in the order in which they are read fastest."""
    wanted = np.unique(np.array(rows, dtype=np.int64))
    wanted = wanted[reading_order(places, wanted)]
    files = places.file[wanted]
    for file in np.unique(files).tolist():
        yield file, wanted[files == file].tolist()


@contextlib.contextmanager
def _unchanged(name: str) -> Iterator[None]:
    """Say that a log changed where rows are no longer what they were."""
    try:
        yield
    except (RowError, IndexError, KeyError, *DAMAGED) as error:
        raise UnusableInputError(
            f"{name} changed while it was read ({reason_of(error)}); build again"
        ) from None


def _read_back(
    places: Places, file: int, rows: list[int], reader: RowReader
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read rows of a file into a reader's batch, and yield each with its record."""
    log_format = places.formats[file]
    if log_format.container == "lines" and log_format.reader is None:
        for row in rows:
            yield row, reader.read_back(0, 0, places.read(row))
        return
    for row, record in _records(places, file, rows):
        reader.read_record(record, Place(file, 0, 0), 0)
        yield row, record


def _records(places: Places, file: int, rows: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows of a file with their canonical records."""
    log_format = places.formats[file]
    name = places.sources[file].name
    if log_format.container == "lines":
        for row in rows:
            obj, _ = load_object(places.read(row).removeprefix(BOM))
            made = log_format.rows(obj, name, int(places.line[row]), 0)
            yield row, made[int(places.sub[row])]
        return
    from rlreport.formats.containers import fetch as fetch_objects

    by_index: dict[int, list[int]] = {}
    for row in rows:
        by_index.setdefault(int(places.offset[row]), []).append(row)
    with places.sources[file].open() as stream:
        for index, obj in fetch_objects(stream, log_format.container, sorted(by_index)):  # type: ignore[arg-type]
            made = log_format.rows(obj, name, index + 1, index)
            for row in by_index[index]:
                yield row, made[int(places.sub[row])]


def _rollouts(
    places: Places,
    file: int,
    records: Mapping[int, dict[str, Any]],
    batch: Batch,
    options: ReadOptions,
    figures: FigureOptions,
) -> Iterator[tuple[int, Rollout]]:
    """Make the rollouts of records of one file, which are the rows of the batch, in order."""
    tokens = _tokens(batch, file, places.vocabulary(options.pad_tokens), figures)
    for i, (row, record) in enumerate(records.items()):
        raw, values = tokens.get(i, ([], TokenFigures()))
        yield row, _rollout(places, row, record, options, raw, values)


def _tokens(
    batch: Batch, file: int, vocabulary: Vocabulary, figures: FigureOptions
) -> dict[int, tuple[list[str], TokenFigures]]:
    """Return the raw tokens and the figures of a batch's rows that have any, by row."""
    if not batch.token_rows:
        return {}
    tokens = token_rows(batch, file, vocabulary)
    arrays = {name: tokens.arrays.get(name) for name in TOKEN_ARRAYS}
    flat = token_figures(
        logp=arrays["logprobs"],
        ref_logp=arrays["ref_logprobs"],
        token_reward=arrays["token_rewards"],
        value=arrays["values"],
        advantage=arrays["advantages"],
        sampler_logp=arrays["sampler_logprobs"],
        offsets=tokens.offsets,
        gamma=figures.gamma,
        lam=figures.lam,
    )
    ids, string_of = tokens.ids.tolist(), vocabulary.strings.__getitem__
    found = {}
    for place, row in enumerate(tokens.rows.tolist()):
        start, stop = tokens.offsets[place : place + 2].tolist()
        raw = list(map(string_of, ids[start:stop])) if tokens.named[place] else []
        found[row] = raw, flat.between(start, stop)
    return found


def _rollout(
    places: Places,
    row: int,
    record: dict[str, Any],
    options: ReadOptions,
    raw: list[str],
    values: TokenFigures,
) -> Rollout:
    file = int(places.file[row])
    prompt = _prompt(record, options)
    reference, truth = record.get("ref_response"), record.get("ground_truth")
    return Rollout(
        step=int(places.step[row]),
        n=int(places.n[row]),
        file=places.sources[file].name,
        line=int(places.line[row]),
        prompt=prompt,
        response=clean_text(record["response"], options.pad_tokens),
        ref_response=_clean_or_none(reference, options),
        ground_truth=_clean_or_none(truth, options),
        turns=_logged_turns(record.get("prompt_turns"), options) or turns(prompt),
        raw_tokens=raw,
        tokens=readable_tokens(raw, places.style),
        figures=values,
    )


def _logged_turns(logged: object, options: ReadOptions) -> list[tuple[str, str]]:
    """Return turns that a format logged as [role, text] pairs; none where they are not such."""
    if not isinstance(logged, list):
        return []
    pairs = [tuple(turn) for turn in logged if isinstance(turn, (list, tuple)) and len(turn) == 2]
    return [
        (clean_text(str(role), ()), clean_text(str(text), options.pad_tokens))
        for role, text in pairs
    ]


def _clean_or_none(value: object, options: ReadOptions) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    return clean_text(str(value), options.pad_tokens)
