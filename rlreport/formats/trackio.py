"""The log format of Trackio: tables and traces, in its database or its parquet exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.simple import Plain
from rlreport.formats.trl import TRL
from rlreport.system import coerce
from rlreport.text.chat import conversation_fields, is_messages
from rlreport.text.messages import message

_REWARDS = ("reward", "score")
_USED_KEYS = frozenset(
    {*_REWARDS, "group_id", "duration_ms", "latency_ms", "status", "error"}
    | {"advantage", "model_version"}
)
_PREFIX = "rewards/"  # Prefix of the keys of reward parts in the metadata of TRL's traces
SAMPLED = "traces of TRL's AsyncGRPO, a sample of at most 16 rollouts at a time"
# Trackio's strings for NaN and infinities -> strings that ``float`` parses
_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class Trackio(BaseFormat):
    """Trackio's format: an entry is a trace with a reward, or has tables of completions (TRL)."""

    id = "trackio"
    description = "Trackio: tables of completions, and traces whose metadata hold a reward"
    files = ("<project>.db", "<project>_traces.parquet", "<project>.parquet")
    container = "sqlite"
    claims = (("run_name", "step", "timestamp"),)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim if one of the entries is a trace or contains a table."""
        recognized = any("messages" in obj or _table_keys(obj) for obj in objects)
        match = super().match(name, objects) if recognized else None
        # The metadata of a trace are JSON in a string.
        sampled = any("model_version" in coerce.text(obj.get("metadata")) for obj in objects)
        return Match(match.confidence, SAMPLED) if match and sampled else match

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a trace, or the rows of all tables of an entry."""
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
    metadata = mapping(logged.from_json(obj.get("metadata")))
    if not is_messages(messages):
        raise RowError(message("`messages` does not contain messages"))
    reward = next((metadata[key] for key in _REWARDS if key in metadata), None)
    if reward is None:
        raise RowError(message("a trace without `reward` in its metadata"))
    millis = coerce.real(metadata.get("duration_ms", metadata.get("latency_ms")))
    is_error = metadata.get("error") or metadata.get("status") == "error"
    return {
        **columns(
            {key: v for key, v in metadata.items() if not key.startswith(_PREFIX)}, _USED_KEYS
        ),
        **conversation_fields(messages),
        "step": logged.step_of(obj.get("step"), where),
        "reward": coerce.number(reward),
        "run": coerce.text(obj.get("run_name")),
        **fields(
            group_id=metadata.get("group_id"),
            advantages=coerce.real(metadata.get("advantage")),
            policy_version=(metadata.get("model_version"),),
            reward_parts={
                key.removeprefix(_PREFIX): coerce.number(metadata[key])
                for key in metadata
                if key.startswith(_PREFIX)
            },
            seconds=None if millis is None else millis / 1000,
            errors=[metadata.get("error") or "error"] if is_error else None,
        ),
    }
