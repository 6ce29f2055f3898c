"""ms-swift's GRPO ``completions.jsonl``: a line of columns for each log event."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, each, has_keys, named, split_of
from rlreport.formats.columnar import explode, match_columns
from rlreport.formats.messages import asked_and_answered, is_messages
from rlreport.formats.values import columns, number, step_of, text, total
from rlreport.text.messages import message

_STEPS = ("step", "gen_step")
_KNOWN = frozenset({*_STEPS, "prompt", "completion", "advantages", "reward", "solution"})
_FIGURES = frozenset({"entropy", "rewards_std", "kl", "length", "response_clip_ratio"})


class Swift:
    """Columns of one log event; each reward function is a float column, there is no total.

    Megatron says ``gen_step`` for the step; its Ray trainer writes a line a response, with the
    total alone.
    """

    id = "swift"
    alone = True
    description = "ms-swift GRPO completions.jsonl (also Megatron's and Ray's)"
    files = ("completions.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose steps, prompts and completions are lists, or Ray's rows."""
        for step in _STEPS:
            match = match_columns(objects, (step, "prompt", "completion"))
            if match:
                return match
        keys = ("gen_step", "prompt", "completion")
        return Match(95, named(keys)) if has_keys(objects, *keys) else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each entry of the columns, or the one of a line that has none."""
        columnar = isinstance(obj.get("completion"), list) and not is_messages(obj["completion"])
        if not columnar:
            return iter((_row(obj, (), where),))
        functions = _reward_functions(obj)
        return each(explode(obj, "completion"), lambda entry: _row(entry, functions, where))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _row(entry: Row, functions: Sequence[str], where: Where) -> Row:
    if entry.get("completion") is None:
        raise RowError(message("no `completion`"))
    parts = {name: number(entry[name]) for name in functions}
    row = columns(entry, _KNOWN | parts.keys())
    row.update(asked_and_answered(entry.get("prompt"), entry["completion"]).fields())
    row.update(
        step=step_of(entry.get("step", entry.get("gen_step")), where),
        reward=number(entry["reward"]) if "reward" in entry else total(parts.values()),
    )
    if parts:
        row["reward_parts"] = parts
    if isinstance(entry.get("advantages"), int | float):
        row["advantages"] = float(entry["advantages"])
    if entry.get("solution") is not None:
        row["ground_truth"] = text(entry["solution"])
    return row


def _reward_functions(obj: Row) -> list[str]:
    """Return the reward functions' columns: floats, before ``advantages`` where that is logged."""
    names = list(obj)
    if "advantages" in names:
        names = names[: names.index("advantages")]
    return [name for name in names if name not in _KNOWN | _FIGURES and _is_float_column(obj[name])]


def _is_float_column(values: object) -> bool:
    if not isinstance(values, list) or not all(v is None or isinstance(v, float) for v in values):
        return False
    return any(v is not None and not math.isnan(v) for v in values)
