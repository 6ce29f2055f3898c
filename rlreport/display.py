"""Read responses and prompts back from the logs, to show them on pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rlreport.figures.metadata import is_number
from rlreport.figures.token import TokenFigures
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.readback import RowLocations, batches, read_rows
from rlreport.read.rows import Row
from rlreport.read.tables import Scan
from rlreport.read.tokens import TokenRows, token_rows
from rlreport.rollout import Rollout, Turn
from rlreport.text.chat import turns, turns_in_text
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.tokens import readable_tokens

# Maximum number of prompts whose text is read back; further ones are listed without text
MAX_PROMPT_TEXTS = 2_000

PROMPT_CHARS = 400  # maximum characters of a prompt in the prompt table

Clean = Callable[[object], str]

_NO_TOKENS: tuple[list[str], TokenFigures, None] = ([], TokenFigures(), None)


def fetch(
    locations: RowLocations,
    rows: Sequence[int],
    options: ReadOptions,
    figures: FigureOptions,
    with_tokens: int | None = None,
) -> Iterator[Rollout]:
    """Read responses back from the logs; yield them in the order of ``rows``, once all are read.

    Args:
        locations: locations of all responses in the logs.
        rows: indices into the response table.
        options: the options with which the logs were read.
        figures: the parameters with which numbers per token, such as advantages, were computed.
        with_tokens: how many rows, counted from the first, get their tokens; None for all.

    Raises:
        UnusableInputError: a log changed or disappeared since it was read.
    """
    rollouts: dict[int, Rollout] = {}
    rows_with_tokens = frozenset(rows[:with_tokens])
    for batch in batches(read_rows(locations, rows)):
        rollouts.update(_rollouts(locations, dict(batch), options, figures, rows_with_tokens))
    yield from (rollouts[row] for row in rows)


def prompt_texts(scan: Scan, options: ReadOptions) -> list[str]:
    """Return the first MAX_PROMPT_TEXTS prompts in order of ``prompt_id``, cut to PROMPT_CHARS.

    Raises:
        UnusableInputError: a log changed or disappeared since it was read.
    """
    rows = scan.prompt_rows[:MAX_PROMPT_TEXTS]
    prompts = {
        row: _prompt(logged, options)[:PROMPT_CHARS]
        for row, logged in read_rows(scan.locations(), rows)
    }
    return [prompts[row] for row in rows.tolist()]


def _prompt(row: Row, options: ReadOptions) -> str:
    return clean_prompt(row.prompt, options.pad_tokens, options.system_end_token)


def _rollouts(
    locations: RowLocations,
    rows: Mapping[int, Row],
    options: ReadOptions,
    figures: FigureOptions,
    with_tokens: frozenset[int],
) -> Iterator[tuple[int, Rollout]]:
    """Convert logged rows; yield (index in the response table, rollout) for each."""
    # Rows with turns need tokens to detect dropped padding, which shifts the spans of turns.
    numbers = [n for n, row in rows.items() if n in with_tokens or row.carried.get("turns")]
    tokens = token_rows([rows[n].tokens for n in numbers], frozenset(options.pad_tokens))
    per_row: dict[int, Any] = {}
    if tokens is not None:
        per_row = {numbers[i]: values for i, values in _tokens_by_row(tokens, figures)}
    clean = partial(_text, pads=options.pad_tokens)
    for number, row in rows.items():
        raw, values, sampled = per_row.get(number, _NO_TOKENS)
        prompt = _prompt(row, options)
        label, pairs = row.carried.get("ground_truth"), row.carried.get("prompt_turns")
        errors = row.carried.get("errors") or []
        conversation: Any = row.carried.get("turns") or turns_in_text(row.response)
        spans = len(raw) == row.tokens.size  # no padding was dropped
        if number not in with_tokens:
            raw, values, sampled = _NO_TOKENS
        yield (
            number,
            Rollout(
                step=int(locations.step[number]),
                n=int(locations.n[number]),
                file=locations.source(number).name,
                line=int(locations.line[number]),
                prompt=prompt,
                response=clean(row.response),
                ref_response=None if row.reference is None else clean(row.reference),
                ground_truth=None if isinstance(label, dict | list | None) else clean(str(label)),
                turns=_prompt_turns(pairs, clean) or turns(prompt),
                raw_tokens=raw,
                tokens=readable_tokens(raw, locations.style),
                figures=values,
                sampled=sampled,
                conversation=[_turn(turn, clean, spans=spans) for turn in conversation],
                errors=list(map(clean, errors if isinstance(errors, list) else [errors])),
            ),
        )


def _tokens_by_row(tokens: TokenRows, figures: FigureOptions) -> Iterator[tuple[int, Any]]:
    """Yield (row, (token strings, figures per token, bool array of sampled or None if all))."""
    flat = tokens.sampled_only().figures(figures)
    if tokens.sampled is not None:
        flat = flat.spread(tokens.sampled)
    rows = zip(tokens.rows.tolist(), tokens.strings, strict=True)
    for index, (row, raw) in enumerate(rows):
        start, stop = tokens.offsets[index : index + 2].tolist()
        masked = tokens.masked is not None and tokens.masked[index]
        sampled = tokens.sampled[start:stop] if masked and tokens.sampled is not None else None
        yield row, (raw or [], flat.between(start, stop), sampled)


def _prompt_turns(pairs: object, clean: Clean) -> list[tuple[str, str]]:
    """Return logged [role, text] pairs of a prompt, cleaned; skip entries that are no pairs."""
    return [
        (_text(turn[0]), clean(turn[1]))
        for turn in (pairs if isinstance(pairs, list) else [])
        if isinstance(turn, list | tuple) and len(turn) == 2
    ]


def _turn(turn: Mapping[str, Any], clean: Clean, *, spans: bool) -> Turn:
    """Convert a logged turn; drop values of wrong type, and token positions unless ``spans``."""

    def text(name: str) -> str | None:
        return clean(value) if isinstance(value := turn.get(name), str) else None

    def number(name: str) -> float | None:
        return float(value) if is_number(value := turn.get(name)) else None

    calls, error = turn.get("calls"), turn.get("error")
    return Turn(
        role=_text(turn["role"]),
        text=clean(turn["text"]),
        sampled=turn["sampled"],
        tokens=tuple(turn["tokens"]) if spans and "tokens" in turn else None,
        thinking=text("thinking"),
        calls=tuple(map(_call, calls)) if isinstance(calls, list) else (),
        tool=text("tool"),
        error=clean(error) if error else None,
        seconds=number("seconds"),
        reward=number("reward"),
    )


def _call(call: object) -> tuple[str, str]:
    """Return the tool name and the arguments of a logged tool call, both as text."""
    call = call if isinstance(call, dict) else {"arguments": call}
    return _text(call.get("name", "")), _text(call.get("arguments", ""))


def _text(value: object, pads: tuple[str, ...] = ()) -> str:
    """Return a logged value as cleaned text without padding; non-text values become JSON."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except RecursionError:
            value = "…"
    return clean_text(value, pads)
