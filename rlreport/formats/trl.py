"""TRL's GRPO and RLOO trainers with ``log_completions``: one parquet file a logged step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, named, split_of
from rlreport.formats.messages import said
from rlreport.formats.values import columns, number, step_of, total

_STEP = re.compile(r"completions_(\d+)\.parquet$")
_KNOWN = frozenset({"step", "prompt", "completion", "advantage", "reward", "images", "image"})


class TRL:
    """Rows of ``completions/completions_00005.parquet``.

    TRL logs a column for each reward function and no total. The total is ``reward`` where a
    version logs it, else the sum of the functions that judged the row (those that returned
    None are NaN); weights other than 1 are not in the log.
    """

    id = "trl"
    description = "TRL GRPO/RLOO log_completions: parquet, a column a reward function"
    files = ("completions/completions_*.parquet",)
    container = "parquet"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows with ``prompt`` and ``completion`` and an ``advantage`` or TRL's file name."""
        if not objects or not all("prompt" in obj and "completion" in obj for obj in objects):
            return None
        if not _STEP.search(name) and not all("advantage" in obj for obj in objects):
            return None
        first = objects[0]
        if isinstance(first.get("step"), list) or "token_ids" in first or "version_rle" in first:
            return None
        if not any(key == "reward" or key in _parts(obj) for obj in objects for key in obj):
            return None
        keys = [key for key in ("step", "prompt", "completion", "advantage") if key in first]
        if _STEP.search(name):
            return Match(95, f"{named(keys)}, and the name `completions_<step>.parquet`")
        return Match(70, named(keys))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row: text, total reward, its parts, the advantage."""
        if obj.get("completion") is None:
            raise RowError("no `completion`")
        parts = _parts(obj)
        prompt, turns = said(obj.get("prompt"))
        row = columns(obj, _KNOWN | parts.keys())
        row.update(
            step=step_of(obj.get("step"), where, _STEP),
            prompt=prompt,
            response=said(obj["completion"])[0],
            reward=number(obj["reward"]) if "reward" in obj else total(parts.values()),
        )
        if parts:
            row["reward_parts"] = parts
        if turns:
            row["prompt_turns"] = turns
        advantage = obj.get("advantage")
        if isinstance(advantage, list):
            row["advantages"] = [number(item) for item in advantage]
        elif advantage is not None:
            row["advantages"] = number(advantage)
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _parts(obj: Row) -> dict[str, float]:
    """Return the reward functions' values: the float columns (None is a function that passed)."""
    return {
        key: math.nan if value is None else value
        for key, value in obj.items()
        if key not in _KNOWN and (isinstance(value, float) or (value is None and _is_reward(key)))
    }


def _is_reward(name: str) -> bool:
    return "reward" in name.lower() or name.endswith(("_func", "_fn"))
