"""The second pass: chosen responses read back."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlreport.errors import RowError, UnreadRow, UnusableInputError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batch, Batcher, ParsedRow
from rlreport.read.diagnostics import LogPosition
from rlreport.read.lines import BOM, DAMAGED, reason_of
from rlreport.read.parse import LineParser
from rlreport.read.row_locations import RowLocations
from rlreport.read.token_rows import token_rows
from rlreport.read.tolerant import load_object, number_of, parse_record
from rlreport.rollout import Rollout, TokenFigures, Turn
from rlreport.text.chat import turns, turns_in_text
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.tokens import readable_tokens
from rlreport.text.vocabulary import Vocabulary

PROMPT_CHARACTERS = 400


class Located(Protocol):
    """What knows where its rows lie, such as the scan."""

    def locations(self) -> RowLocations:
        """Return where they lie."""
        ...


def fetch(
    located: Located | RowLocations,
    rows: Sequence[int],
    options: ReadOptions,
    figures: FigureOptions,
) -> Iterator[Rollout]:
    """Read responses back, in the order given; all are in memory before the first is yielded.

    Args:
        located: where they lie: the scan, or its ``locations()`` in another process.
        rows: indices into the response table.
        options: as in the first pass.
        figures: as in the first pass.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    made: dict[int, Rollout] = {}
    with _opened(located) as locations:
        for file, own in _by_file(locations, rows):
            batcher = Batcher(options)
            found: dict[int, ParsedRow] = {}
            with _unchanged(locations.sources[file].name):
                for row, parsed in _parsed(locations, file, own):
                    batcher.add(parsed, LogPosition(file, 0, 0), 0)
                    found[row] = parsed
            made.update(_rollouts(locations, found, batcher.take(), options, figures))
    yield from (made[row] for row in rows)


def fetch_texts(
    located: Located | RowLocations, rows: Sequence[int], options: ReadOptions | None = None
) -> list[str]:
    """Return the first 400 characters of the cleaned prompts of these responses, in order.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    options = options or ReadOptions()
    prompts: dict[int, str] = {}
    with _opened(located) as locations:
        for file, own in _by_file(locations, rows):
            with _unchanged(locations.sources[file].name):
                for row, record in _records(locations, file, own):
                    prompts[row] = _prompt(record["prompt"], options)[:PROMPT_CHARACTERS]
    return [prompts[row] for row in rows]


@contextlib.contextmanager
def _opened(located: Located | RowLocations) -> Iterator[RowLocations]:
    """Give the locations; what they open is closed where they are made here."""
    if isinstance(located, RowLocations):
        yield located
        return
    locations = located.locations()
    try:
        yield locations
    finally:
        locations.close()


def _prompt(prompt: str, options: ReadOptions) -> str:
    return clean_prompt(prompt, options.pad_tokens, options.system_end_token)


def _by_file(locations: RowLocations, rows: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each file with its rows, in the order in which they are read fastest."""
    wanted = np.unique(np.array(rows, dtype=np.int64))
    keys = (locations.sub[wanted], locations.offset[wanted], locations.file[wanted])
    wanted = wanted[np.lexsort(keys)]
    locations.expect(wanted.tolist())
    files = locations.file[wanted]
    cuts = np.flatnonzero(np.diff(files)) + 1
    for own in np.split(wanted, cuts) if len(wanted) else []:
        yield int(locations.file[own[0]]), own.tolist()


@contextlib.contextmanager
def _unchanged(name: str) -> Iterator[None]:
    """Say that a log changed where rows are no longer what they were."""
    try:
        yield
    except (RowError, IndexError, KeyError, *DAMAGED) as error:
        raise UnusableInputError(
            f"{name} changed while it was read ({reason_of(error)}); build again"
        ) from None


def _parsed(locations: RowLocations, file: int, rows: list[int]) -> Iterator[tuple[int, ParsedRow]]:
    """Yield rows of a file as the first pass parsed them."""
    log_format = locations.formats[file]
    if log_format.container == "lines" and log_format.reader is None:
        parser = LineParser()
        for row in rows:
            yield row, parser.parse(locations.read(row))
        return
    for row, record in _records(locations, file, rows):
        yield row, parse_record(record)


def _records(
    locations: RowLocations, file: int, rows: list[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows of a file with their canonical records."""
    log_format = locations.formats[file]
    name = locations.sources[file].name
    if log_format.container == "lines":
        for row in rows:
            obj, _ = load_object(locations.read(row).removeprefix(BOM))
            made = log_format.rows(obj, name, int(locations.line[row]), 0)
            yield row, _readable(made[int(locations.sub[row])])
        return
    from rlreport.formats.containers import fetch as fetch_objects

    by_index: dict[int, list[int]] = {}
    for row in rows:
        by_index.setdefault(int(locations.offset[row]), []).append(row)
    with locations.sources[file].open() as stream:
        for index, obj in fetch_objects(stream, log_format.container, sorted(by_index)):  # type: ignore[arg-type]
            made = log_format.rows(obj, name, index + 1, index)
            for row in by_index[index]:
                yield row, _readable(made[int(locations.sub[row])])


def _readable(made: dict[str, Any]) -> dict[str, Any]:
    if isinstance(made, UnreadRow):
        raise made.error
    return made


def _rollouts(
    locations: RowLocations,
    rows: Mapping[int, ParsedRow],
    batch: Batch,
    options: ReadOptions,
    figures: FigureOptions,
) -> Iterator[tuple[int, Rollout]]:
    """Make the rollouts of rows of one file, which are those of the batch, in order."""
    tokens = _tokens(batch, locations.vocabulary(options.pad_tokens), figures)
    for i, (row, parsed) in enumerate(rows.items()):
        raw, values, sampled = tokens.get(i, ([], TokenFigures(), None))
        # Spans count the tokens as logged.
        whole = len(raw) == parsed.tokens.size
        prompt = _prompt(parsed.prompt, options)
        yield (
            row,
            Rollout(
                step=int(locations.step[row]),
                n=int(locations.n[row]),
                file=locations.sources[int(locations.file[row])].name,
                line=int(locations.line[row]),
                prompt=prompt,
                response=clean_text(parsed.response, options.pad_tokens),
                ref_response=_clean_or_none(parsed.reference, options),
                ground_truth=_clean_or_none(parsed.kept.get("ground_truth"), options),
                turns=_logged_turns(parsed.kept.get("prompt_turns"), options) or turns(prompt),
                raw_tokens=raw,
                tokens=readable_tokens(raw, locations.style),
                figures=values,
                sampled=sampled,
                conversation=_conversation(
                    parsed.kept.get("turns") or turns_in_text(parsed.response), options, spans=whole
                ),
                errors=_texts(parsed.kept.get("errors"), options),
            ),
        )


def _tokens(
    batch: Batch, vocabulary: Vocabulary, figures: FigureOptions
) -> dict[int, tuple[list[str], TokenFigures, NDArray[np.bool_] | None]]:
    """Return raw tokens, figures and what was sampled, of a batch's rows that have tokens."""
    if not batch.token_rows:
        return {}
    tokens = token_rows(batch, vocabulary)
    flat = tokens.sampled_only().figures(figures)
    if tokens.sampled is not None:
        flat = flat.spread(tokens.sampled)
    ids, string_of = tokens.ids.tolist(), vocabulary.strings.__getitem__
    found = {}
    for place, row in enumerate(tokens.rows.tolist()):
        start, stop = tokens.offsets[place : place + 2].tolist()
        raw = list(map(string_of, ids[start:stop])) if tokens.named[place] else []
        own = tokens.sampled if tokens.masked is not None and tokens.masked[place] else None
        found[row] = raw, flat.between(start, stop), None if own is None else own[start:stop]
    return found


def _logged_turns(logged: object, options: ReadOptions) -> list[tuple[str, str]]:
    """Return turns that a format logged as [role, text] pairs; none where they are not such."""
    if not isinstance(logged, list):
        return []
    pairs = [tuple(turn) for turn in logged if isinstance(turn, (list, tuple)) and len(turn) == 2]
    return [
        (clean_text(str(role), ()), clean_text(str(text), options.pad_tokens))
        for role, text in pairs
    ]


def _conversation(logged: object, options: ReadOptions, *, spans: bool) -> list[Turn]:
    """Return turns that were checked on reading; their optional parts may be of any type."""
    if not isinstance(logged, list):
        return []

    def text(value: object) -> str | None:
        return clean_text(value, options.pad_tokens) if isinstance(value, str) else None

    def number(value: object) -> float | None:
        logged = number_of(value)[0] if type(value) in (int, float) else math.nan
        return logged if math.isfinite(logged) else None

    return [
        Turn(
            clean_text(turn["role"], ()),
            clean_text(turn["text"], options.pad_tokens),
            turn["sampled"],
            tuple(turn["tokens"]) if spans and "tokens" in turn else None,
            text(turn.get("thinking")),
            tuple(map(_call, calls if isinstance(calls := turn.get("calls"), list) else ())),
            text(turn.get("tool")),
            _one_text(turn.get("error"), options),
            number(turn.get("seconds")),
            number(turn.get("reward")),
        )
        for turn in logged
    ]


def _call(call: object) -> tuple[str, str]:
    """Return a tool's name, and what it was called with as text; what is odd as it is."""
    if not isinstance(call, dict):
        return "", clean_text(_as_text(call), ())
    return (
        clean_text(_as_text(call.get("name", "")), ()),
        clean_text(_as_text(call.get("arguments", "")), ()),
    )


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "…"


def _one_text(value: object, options: ReadOptions) -> str | None:
    return clean_text(_as_text(value), options.pad_tokens) if value else None


def _texts(value: object, options: ReadOptions) -> list[str]:
    values = value if isinstance(value, list) else [value] if value else []
    return [clean_text(_as_text(item), options.pad_tokens) for item in values]


def _clean_or_none(value: object, options: ReadOptions) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    return clean_text(str(value), options.pad_tokens)
