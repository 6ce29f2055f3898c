"""Trackio's tables and traces, from its database or the parquet files that it exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.simple import Plain
from rlreport.formats.trl import TRL
from rlreport.text.chat import conversation_fields, is_messages
from rlreport.text.messages import message

_REWARDS = ("reward", "score")
_KNOWN = frozenset(
    {*_REWARDS, "group_id", "duration_ms", "latency_ms", "status", "error"}
    | {"advantage", "model_version"}
)
_PART = "rewards/"
"""Prefix of the parts of the reward in TRL's traces."""

SAMPLED = "traces of TRL's AsyncGRPO, a sample of at most 16 rollouts at a time"
_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""How Trackio writes NaN and infinities in JSON."""


class Trackio(BaseFormat):
    """Entries of a run: tables of completions, as TRL logs them, and traces with a reward."""

    id = "trackio"
    description = "Trackio: tables of completions, and traces whose metadata hold a reward"
    files = ("<project>.db", "<project>_traces.parquet", "<project>.parquet")
    container = "sqlite"
    claims = (("run_name", "step", "timestamp"),)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim a file if one of the entries is a trace or contains a table."""
        recognized = any("messages" in obj or _table_keys(obj) for obj in objects)
        match = super().match(name, objects) if recognized else None
        # Its metadata are JSON in a text.
        sampled = any("model_version" in logged.text(obj.get("metadata")) for obj in objects)
        return Match(match.confidence, SAMPLED) if match and sampled else match

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of an entry's tables, or the row of a trace."""
        if "messages" in obj:
            yield _trace(obj, where)
            return
        step = logged.step_of(obj.get("step"), where)
        rows = (row for key in _table_keys(obj) for row in dicts(obj[key].get("_value")))
        yield from logged.each(rows, lambda row: _table_row(row, where, step))


def _table_keys(obj: Row) -> list[str]:
    return [key for key, v in obj.items() if mapping(v).get("_type") == "trackio.table"]


def _table_row(values: Row, where: Where, step: int) -> Row:
    row = {"step": step, **{key: _number(values[key]) for key in values}}
    if "prompt" in row and "completion" in row:
        return next(TRL().rows(row, where))
    if Plain().match(where.name, [row]):
        return next(Plain().rows(row, where))
    raise RowError(message("a table without prompt, completion and reward"))


def _number(value: Any) -> Any:
    return float(_NUMBERS[value]) if isinstance(value, str) and value in _NUMBERS else value


def _trace(obj: Row, where: Where) -> Row:
    messages = logged.from_json(obj.get("messages"))
    about = mapping(logged.from_json(obj.get("metadata")))
    if not is_messages(messages):
        raise RowError(message("`messages` does not contain messages"))
    reward = next((about[key] for key in _REWARDS if key in about), None)
    if reward is None:
        raise RowError(message("a trace without `reward` in its metadata"))
    millis = logged.real(about.get("duration_ms", about.get("latency_ms")))
    failed = about.get("error") or about.get("status") == "error"
    return {
        **columns({key: v for key, v in about.items() if not key.startswith(_PART)}, _KNOWN),
        **conversation_fields(messages),
        "step": logged.step_of(obj.get("step"), where),
        "reward": logged.parse_number(reward),
        "run": logged.text(obj.get("run_name")),
        **fields(
            group_id=about.get("group_id"),
            advantages=logged.real(about.get("advantage")),
            policy_version=(about.get("model_version"),),
            reward_parts={
                key.removeprefix(_PART): logged.parse_number(about[key])
                for key in about
                if key.startswith(_PART)
            },
            seconds=None if millis is None else millis / 1000,
            errors=[about.get("error") or "error"] if failed else None,
        ),
    }
