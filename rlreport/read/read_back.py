"""The second pass: chosen responses read back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

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

Read = TypeVar("Read")
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
    for locations, file, found in _by_file(located, rows, _parsed):
        batcher = Batcher(options)
        for parsed in found.values():
            batcher.add(parsed, LogPosition(file, 0, 0), 0)
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

    def beginnings(
        locations: RowLocations, file: int, rows: list[int]
    ) -> Iterator[tuple[int, str]]:
        for row, record in _records(locations, file, rows):
            yield row, _prompt(record["prompt"], options)[:PROMPT_CHARACTERS]

    prompts: dict[int, str] = {}
    for _, _, found in _by_file(located, rows, beginnings):
        prompts |= found
    return [prompts[row] for row in rows]


def _prompt(prompt: str, options: ReadOptions) -> str:
    return clean_prompt(prompt, options.pad_tokens, options.system_end_token)


def _by_file(
    located: Located | RowLocations,
    rows: Sequence[int],
    read: Callable[[RowLocations, int, list[int]], Iterator[tuple[int, Read]]],
) -> Iterator[tuple[RowLocations, int, dict[int, Read]]]:
    """Yield each file with what was read of its rows, in the order in which that is fastest.

    Raises:
        UnusableInputError: rows are no longer what they were.
    """
    locations = located if isinstance(located, RowLocations) else located.locations()
    wanted = np.unique(np.array(rows, dtype=np.int64))
    keys = (locations.sub[wanted], locations.offset[wanted], locations.file[wanted])
    wanted = wanted[np.lexsort(keys)]
    locations.expect(wanted.tolist())
    cuts = np.flatnonzero(np.diff(locations.file[wanted])) + 1
    try:
        for own in np.split(wanted, cuts) if len(wanted) else []:
            file = int(locations.file[own[0]])
            try:
                found = dict(read(locations, file, own.tolist()))
            except (RowError, IndexError, KeyError, *DAMAGED) as error:
                name, why = locations.sources[file].name, reason_of(error)
                raise UnusableInputError(
                    f"{name} changed while it was read ({why}); build again"
                ) from None
            yield locations, file, found
    finally:
        if locations is not located:
            locations.close()


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
    from rlreport.formats.containers import iterate

    by_index: dict[int, list[int]] = {}
    for row in rows:
        by_index.setdefault(int(locations.offset[row]), []).append(row)
    with locations.sources[file].open() as stream:
        for index, obj in iterate(stream, log_format.container, set(by_index)):
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
        errors: Any = parsed.kept.get("errors") or []
        errors = errors if isinstance(errors, list) else [errors]
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
                errors=[clean_text(_as_text(one), options.pad_tokens) for one in errors],
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
    turns = logged if isinstance(logged, list) else []
    return [
        (clean_text(str(turn[0]), ()), clean_text(str(turn[1]), options.pad_tokens))
        for turn in turns
        if isinstance(turn, (list, tuple)) and len(turn) == 2
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
            clean_text(_as_text(error), options.pad_tokens)
            if (error := turn.get("error"))
            else None,
            number(turn.get("seconds")),
            number(turn.get("reward")),
        )
        for turn in logged
    ]


def _call(call: object) -> tuple[str, str]:
    """Return a tool's name, and what it was called with as text; what is odd as it is."""
    call = call if isinstance(call, dict) else {"arguments": call}
    name, arguments = (clean_text(_as_text(call.get(k, "")), ()) for k in ("name", "arguments"))
    return name, arguments


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "…"


def _clean_or_none(value: object, options: ReadOptions) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    return clean_text(str(value), options.pad_tokens)
