"""The second pass: read chosen responses back, with their texts and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlreport.errors import UnusableInputError
from rlreport.figures.token import token_figures
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batch
from rlreport.read.fields import TOKEN_ARRAYS
from rlreport.read.lines import DAMAGED, reason_of
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

_TOKEN_FIELDS = frozenset(("response_tokens", *TOKEN_ARRAYS))
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
    records = _records(places, rows)
    if places is not scan:
        places.close()
    made: dict[int, Rollout] = {}
    for file in np.unique(places.file[list(records)]).tolist():
        own = [row for row in records if places.file[row] == file]
        made.update(_rollouts(places, file, own, records, options, figures))
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
    records = _records(places, rows, keep=("prompt",))
    if places is not scan:
        places.close()
    return [_prompt(records[row], options)[:PROMPT_CHARACTERS] for row in rows]


def prompt_texts(scan: Scan, options: ReadOptions) -> list[str]:
    """Return the beginnings of the first prompts' texts, by ``prompt_id``, at most PROMPTS_READ.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    return fetch_texts(scan, scan.prompt_rows[:PROMPTS_READ].tolist(), options)


def _prompt(record: dict[str, Any], options: ReadOptions) -> str:
    return clean_prompt(record["prompt"], options.pad_tokens, options.system_end_token)


def _records(
    places: Places, rows: Sequence[int], keep: tuple[str, ...] | None = None
) -> dict[int, dict[str, Any]]:
    """Read the canonical records of rows, by row; only the fields in ``keep`` if given."""
    wanted = np.unique(np.array(rows, dtype=np.int64))
    wanted = wanted[reading_order(places, wanted)]
    records: dict[int, dict[str, Any]] = {}
    name = ""
    try:
        for file in np.unique(places.file[wanted]).tolist():
            name = places.sources[file].name
            own = wanted[places.file[wanted] == file]
            for row, record in _file_records(places, file, own.tolist()):
                records[row] = record if keep is None else {key: record[key] for key in keep}
    except (RowError, IndexError, KeyError, *DAMAGED) as error:
        raise UnusableInputError(
            f"{name} changed while it was read ({reason_of(error)}); build again"
        ) from None
    return records


def _file_records(
    places: Places, file: int, rows: list[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    log_format = places.formats[file]
    name = places.sources[file].name
    if log_format.container == "lines":
        for row in rows:
            obj, _ = load_object(places.read(row))
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
    rows: Sequence[int],
    records: Mapping[int, dict[str, Any]],
    options: ReadOptions,
    figures: FigureOptions,
) -> Iterator[tuple[int, Rollout]]:
    """Make the rollouts of rows of one file, their token arrays side by side in one pass."""
    reader = RowReader(file, options)
    with_tokens = [row for row in rows if not _TOKEN_FIELDS.isdisjoint(records[row])]
    for row in with_tokens:
        reader.read_record(records[row], Place(file, 0, 0), 0)
    vocabulary = places.vocabulary(options.pad_tokens)
    tokens = _tokens(reader.take(), file, vocabulary, figures)
    found = {with_tokens[i]: own for i, own in tokens.items()}
    for row in rows:
        raw, values = found.get(row, ([], TokenFigures()))
        yield row, _rollout(places, row, records[row], options, raw, values)


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
        turns=_logged_turns(record.get("turns"), options) or turns(prompt),
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
