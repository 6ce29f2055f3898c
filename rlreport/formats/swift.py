"""ms-swift's GRPO ``completions.jsonl``: a line of columns for each log event."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rlreport.formats import logged
from rlreport.formats.base import (
    BaseFormat,
    Match,
    Row,
    RowError,
    Where,
    each,
    has_keys,
    match_columns,
    named,
)
from rlreport.formats.logged import columns, present
from rlreport.formats.messages import asked_and_answered, is_messages
from rlreport.text.messages import message

_STEPS = ("step", "gen_step")
_KNOWN = frozenset({*_STEPS, "prompt", "completion", "advantages", "reward", "solution"})
_FIGURES = frozenset({"entropy", "rewards_std", "kl", "length", "response_clip_ratio"})


class Swift(BaseFormat):
    """Columns of one log event; each reward function is a float column, there is no total.

    Megatron says ``gen_step`` for the step; its Ray trainer writes a line a response, with the
    total alone.
    """

    id = "swift"
    description = "ms-swift GRPO completions.jsonl (also Megatron's and Ray's)"
    files = ("completions.jsonl",)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose steps, prompts and completions are lists, or Ray's rows."""
        for step in _STEPS:
            if match := match_columns(objects, step, "prompt", "completion"):
                return match
        keys = ("gen_step", "prompt", "completion")
        return Match(95, named(keys)) if has_keys(objects, *keys) else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each entry of the columns, or the one of a line that has none."""
        columnar = isinstance(obj.get("completion"), list) and not is_messages(obj["completion"])
        if not columnar:
            return iter((_row(obj, (), where),))
        functions = _reward_functions(obj)
        return each(logged.explode(obj, "completion"), lambda entry: _row(entry, functions, where))


def _row(entry: Row, functions: Sequence[str], where: Where) -> Row:
    if entry.get("completion") is None:
        raise RowError(message("no `completion`"))
    parts = {name: logged.number(entry[name]) for name in functions}
    summed = "reward" not in entry
    return {
        **columns(entry, _KNOWN | parts.keys()),
        **asked_and_answered(entry.get("prompt"), entry["completion"]).fields(),
        "step": logged.step_of(entry.get("step", entry.get("gen_step")), where),
        "reward": logged.total(parts.values()) if summed else logged.grade(entry["reward"]),
        **present(
            reward_parts=parts or None,
            advantages=logged.real(entry.get("advantages")),
            ground_truth=logged.text_if_any(entry.get("solution")),
        ),
    }


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
