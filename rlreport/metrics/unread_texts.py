"""Texts beside metrics, which are not read: what to say if they may be those of rollouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from rlreport.formats.base import Row
from rlreport.formats.mapping import likely_fields
from rlreport.formats.metric_rows import (
    KIND_KEYS,
    OTHER_STEP_KEYS,
    TEXT_KEYS,
    numbers_of,
)
from rlreport.metrics.lines import UnusedRows
from rlreport.tables import NoteKind
from rlreport.text.clean import safe_text, shortened
from rlreport.text.messages import listed, message

_LEAST_FIELDS = 2  # a prompt and a response
_MOST_NAMED = 5
_MOST_NAME = 40  # characters
_TEXT_FIELDS = ("prompt", "response")
# Two words in a row: times, shares and identifiers have none
_WORDS = re.compile(r"[^\W\d_]{2,}[,;:.]?\s+[^\W\d_]{2,}")
# Characters of a text in which words are searched, as one run of letters takes quadratic time
_SEARCHED = 1_000
_TIME = re.compile(r"time|date|elapsed|remaining|eta", re.IGNORECASE)


def remark_on_fields(rows: Sequence[Row], unused: UnusedRows) -> None:
    """Add a remark if most of the first rows of JSON lines have texts as of rollouts."""
    texts = _texts_of_rollouts(rows)
    if len(texts) < _LEAST_FIELDS:
        return
    guess = likely_fields((*_TEXT_FIELDS, "reward"), rows)
    wanted = [field for field in _TEXT_FIELDS if guess.get(field) != field]
    guess.setdefault("reward", _only_number(rows))
    if guess["reward"] != "reward":
        wanted.append("reward")
    options = [f"--map {field}={guess.get(field, 'FIELD')}" for field in wanted]
    unused.remark(
        message(
            "text fields {fields} are not read; if these are rollouts, pass {options}",
            fields=_named(texts),
            options=" ".join(options),
        ),
        NoteKind.FORMAT,
    )


def remark_on_columns(rows: Sequence[Row], unused: UnusedRows) -> None:
    """Add a remark if a table has columns of texts as of rollouts."""
    texts = _texts_of_rollouts(rows)
    if len(texts) < _LEAST_FIELDS and TEXT_KEYS.isdisjoint(texts):
        return
    unused.remark(
        message(
            "columns {columns} of this CSV are texts and are not read (CSV is read as trainer "
            "metrics only; write JSON lines to show the responses)",
            columns=_named(texts),
        ),
        NoteKind.FORMAT,
    )


def _only_number(rows: Sequence[Row]) -> str:
    """Return the dotted path of the only number besides steps, "FIELD" if there are several."""
    logged = set().union(*map(numbers_of, rows))
    names = {name for name in logged if name.lower() not in OTHER_STEP_KEYS}
    if len(names) != 1:
        return "FIELD"
    name = names.pop()
    return name if any(name in row for row in rows) else name.replace("/", ".")


def _named(names: Sequence[str]) -> str:
    shown = [f"`{shortened(safe_text(name), _MOST_NAME)}`" for name in names]
    return listed(shown[:_MOST_NAMED])


def _texts_of_rollouts(rows: Sequence[Row]) -> list[str]:
    """Return the fields that may be texts of rollouts: by their names, or by their texts.

    These are words that differ from row to row, unlike a status or a name.
    """
    guess = likely_fields(_TEXT_FIELDS, rows)
    by_name = TEXT_KEYS | (set(guess.values()) if len(guess) > 1 else set())
    names = dict.fromkeys(chain.from_iterable(rows))
    found: list[str] = []
    for name in names:
        values = [row.get(name) for row in rows]
        strings = [value for value in values if isinstance(value, str)]
        texts = [text for text in strings if text.strip()]
        if 2 * len(texts) < len(rows):
            continue
        if name in by_name or (_is_free(name) and _differ(texts)):
            found.append(name)
    return found


def _is_free(name: str) -> bool:
    return name not in KIND_KEYS and not _TIME.search(name)


def _differ(texts: Sequence[str]) -> bool:
    """Return whether most texts have words, and are not those of another row."""
    starts = [text[:_SEARCHED] for text in texts]
    with_words = sum(bool(_WORDS.search(start)) for start in starts)
    if len(texts) < 2 or 2 * with_words <= len(texts):
        return False
    return 2 * len(set(texts)) > len(texts)
