"""Trackio's tables and traces, from its database or the parquet files that it exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from rlreport.formats.base import Match, Row, RowError, Where, each, has_keys, named, split_of
from rlreport.formats.messages import exchange, is_messages
from rlreport.formats.rlboard import Plain
from rlreport.formats.trl import TRL
from rlreport.formats.values import columns, dicts, mapping, number, step_of, text
from rlreport.text.messages import message

_ENTRY = ("run_name", "step", "timestamp")
_REWARDS = ("reward", "score")
_KNOWN = frozenset({*_REWARDS, "group_id", "duration_ms", "latency_ms", "status", "error"})
_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class Trackio:
    """Entries of a run: tables as TRL or anyone logs them, and traces with a reward."""

    id = "trackio"
    alone = True
    description = "Trackio: tables of completions, and traces whose metadata hold a reward"
    files = ("<project>.db", "<project>_traces.parquet", "<project>.parquet")
    container = "sqlite"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim entries of which one is a trace, or holds a table."""
        if not has_keys(objects, *_ENTRY):
            return None
        if any("messages" in obj and "metadata" in obj for obj in objects):
            return Match(95, named((*_ENTRY, "messages", "metadata")))
        if any(_tables(obj) for obj in objects):
            return Match(95, f"{named(_ENTRY)}, and tables")
        return None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of an entry's tables, or the one of a trace."""
        if "messages" in obj:
            yield _trace(obj, where)
            return
        step = step_of(obj.get("step"), where)
        rows = (row for table in _tables(obj) for row in table)
        yield from each(rows, lambda row: _table_row(row, where, step))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _tables(obj: Row) -> list[list[Row]]:
    """Return the rows of each table of an entry."""
    logged = [key for key in obj if mapping(dict.get(obj, key)).get("_type") == "trackio.table"]
    return [dicts(obj[key].get("_value")) for key in logged]


def _number(value: Any) -> Any:
    """Undo how Trackio writes what JSON has no number for."""
    return float(_NUMBERS[value]) if isinstance(value, str) and value in _NUMBERS else value


def _table_row(values: Row, where: Where, step: int) -> Row:
    row = {k: _number(values[k]) for k in values}
    row = {**row, "step": row.get("step", step)}
    if "prompt" in row and "completion" in row:
        return next(TRL().rows(row, where))
    if Plain().match(where.name, [row]):
        return next(Plain().rows(row, where))
    raise RowError(message("a table without prompt, completion and reward"))


def _trace(obj: Row, where: Where) -> Row:
    messages, about = _parsed(obj.get("messages")), mapping(_parsed(obj.get("metadata")))
    if not is_messages(messages):
        raise RowError(message("`messages` are no messages"))
    reward = next((about[key] for key in _REWARDS if key in about), None)
    if reward is None:
        raise RowError(message("a trace whose metadata hold no `reward`"))
    row = columns(about, _KNOWN)
    row.update(exchange(messages).fields())
    row.update(step=step_of(obj.get("step"), where), reward=number(reward))
    row["run"] = text(obj.get("run_name"))
    if about.get("group_id") is not None:
        row["group_id"] = text(about["group_id"])
    seconds = about.get("duration_ms", about.get("latency_ms"))
    if isinstance(seconds, int | float):
        row["seconds"] = seconds / 1000
    if about.get("error") or about.get("status") == "error":
        row["errors"] = [text(about.get("error")) or "error"]
    return row


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return None
