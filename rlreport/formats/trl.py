"""TRL's GRPO trainer with ``log_completions``: one parquet file per logged step."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from rlreport.errors import MissingExtraError, RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Match, Row, Where, has_keys
from rlreport.formats.containers import File, iterate
from rlreport.formats.logged import columns, dicts, fields
from rlreport.formats.parquet import parquet_rows
from rlreport.text.chat import prompt_and_response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"completions_(\d+)\.parquet$")
_TEXTS = ("prompt", "completion")
_KNOWN = frozenset({"step", "prompt", "completion", "advantage", "reward", "images", "image"})
_REWARD = re.compile(r"(?:eval_)?rewards/(.+)/mean")
_CLOSE = 1e-3
"""Relative tolerance for TRL's logged means, which are of float32 rewards."""

_LEVELS = 12
"""Nesting levels of messages in which nulls are dropped."""


class TRL(BaseFormat):
    """Rows of ``completions/completions_00005.parquet``.

    TRL logs a column for each reward function, then those of ``log_extra``, and no total. The
    names of the reward functions are in ``trainer_state.json`` if there is one; else every float
    column between ``completion`` and ``advantage`` is assumed to be a reward. The total is
    ``reward`` if this version logs it, else the sum of the functions that judged the row (those
    that returned None are NaN); weights other than 1 are not in the log. An evaluation overwrites
    the file that training wrote at the same step, so its rows are those of the evaluation.

    Attributes:
        functions: names of the reward functions, None if unknown.
        evaluated: whether the rows of the file are those of an evaluation.
    """

    id = "trl"
    alone = False
    description = "TRL GRPO log_completions: parquet, a column a reward function"
    files = ("completions/completions_*.parquet",)
    container = "parquet"
    claims = (("step", *_TEXTS, "advantage"), ("step", *_TEXTS), (*_TEXTS, "advantage"), _TEXTS)
    functions: tuple[str, ...] | None = None
    evaluated = False

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows with rewards and an ``advantage`` or TRL's file name."""
        match, numbered = super().match(name, objects), _STEP.search(name)
        rewarded = any("reward" in obj or _floats(obj) for obj in objects)
        if match is None or not rewarded or not (numbered or has_keys(objects, "advantage")):
            return None
        return Match(95 if numbered else 70, match.reason)

    def recognizes(self, obj: Row) -> bool:
        """Return whether an object is one response, and not of AReaL's or a columnar log."""
        other = "token_ids" in obj or "version_rle" in obj
        return not other and not isinstance(obj.get("step"), list)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> TRL | str:
        """Return the format with reward functions and evaluations from the trainer's state."""
        number = _STEP.search(path.name)
        if number is None or path.parent.name != "completions":
            return self
        run = path.parent.parent
        if any(f.parent == run / "rollouts" and f.name.startswith("rank_") for f in listed):
            return message(
                "the same rollouts as in the sibling folder `rollouts`, which RolloutWriter wrote"
            )
        states = (run / "trainer_state.json", *sorted(run.glob("checkpoint-*/trainer_state.json")))
        history, functions = _history(tuple(stamp for f in states if (stamp := FileStamp.of(f))))
        entries = history.get(int(number[1]), [])
        form = TRL()
        form.functions = functions or None
        form.evaluated = any(key.startswith("eval_") for entry in entries for key in entry)
        form.remark = form._remark_on(path, entries)
        return form

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row: text, total reward, its parts, the advantage."""
        if obj.get("completion") is None:
            raise RowError(message("no `completion`"))
        parts = self._parts(obj)
        prompt, answer = _without_nulls(obj.get("prompt")), _without_nulls(obj["completion"])
        yield {
            **columns(obj, _KNOWN | parts.keys()),
            **prompt_and_response_fields(prompt, answer),
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": logged.grade(obj["reward"]) if "reward" in obj else _sum(parts),
            **fields(
                reward_parts=parts,
                split="val" if self.evaluated else None,
                advantages=obj.get("advantage"),
            ),
        }

    def split(self, name: str) -> str | None:
        """Return ``val`` for rows of an evaluation, else the split named by the path."""
        return "val" if self.evaluated else super().split(name)

    def _parts(self, obj: Row) -> dict[str, float]:
        names = _floats(obj) if self.functions is None else self.functions
        return {name: logged.parse_number(obj[name]) for name in names if name in obj}

    def _remark_on(self, path: Path, entries: Sequence[Row]) -> str:
        """Return a remark if reward columns are guessed or their mean is not TRL's, else ""."""
        read = None if self.functions is None else ["step", "reward", *self.functions]
        try:
            with path.open("rb") as stream:
                objects = [obj for _, obj in parquet_rows(stream, columns=read)]
        except (MissingExtraError, RowError, OSError):
            return ""
        if any("reward" in obj for obj in objects):
            return ""
        if self.functions is None:
            names = dict.fromkeys(f"`{name}`" for obj in objects for name in _floats(obj))
            return message(
                "no trainer_state.json names the reward functions; assumed: {names}",
                names=tuple(names),
            )
        key = "eval_reward" if self.evaluated else "reward"
        means = [mean for entry in entries if (mean := logged.real(entry.get(key))) is not None]
        sums = [value for obj in objects if (value := _sum(self._parts(obj))) is not None]
        mean = math.fsum(sums) / len(sums) if sums else math.nan
        if not means or not sums or abs(mean - means[-1]) <= _CLOSE * max(1.0, abs(means[-1])):
            return ""
        return message(
            "the mean of the summed rewards is {mean}, but the trainer's is {logged}: the "
            "functions may have weights, which are not logged, or the trainer's mean covers "
            "more generations",
            mean=f"{mean:.4g}",
            logged=f"{means[-1]:.4g}",
        )


def _sum(parts: Mapping[str, float]) -> float | None:
    return logged.total(parts.values())


def _floats(obj: Mapping[str, Any]) -> list[str]:
    """Return the float columns between ``completion`` and ``advantage``.

    None counts as a float in a column named like a reward: the function did not judge the row.
    """
    names = list(obj)
    first = names.index("completion") + 1 if "completion" in obj else 0
    last = names.index("advantage") if "advantage" in obj else len(names)
    if last <= first:
        first, last = 0, len(names)  # not in TRL's order
    return [
        name
        for name, value in list(obj.items())[first:last]
        if name not in _KNOWN and (isinstance(value, float) or (value is None and _is_reward(name)))
    ]


def _is_reward(name: str) -> bool:
    return "reward" in name.lower() or name.endswith(("_func", "_fn"))


def _without_nulls(value: Any, levels: int = _LEVELS) -> Any:
    """Drop null members of objects, which parquet adds when it merges the objects' types."""
    if isinstance(value, dict) and levels:
        return {k: _without_nulls(v, levels - 1) for k in value if (v := value[k]) is not None}
    if isinstance(value, list) and levels:
        return [_without_nulls(item, levels - 1) for item in value]
    return value


@lru_cache(maxsize=8)
def _history(states: tuple[FileStamp, ...]) -> tuple[dict[int, list[Row]], tuple[str, ...]]:
    """Return the log by step and the reward functions, from the longest history."""
    logs = [dicts(logged.document_of(file).get("log_history")) for file in states]
    entries = max(logs, key=len, default=[])
    by_step: dict[int, list[Row]] = {}
    for entry in entries:
        step = logged.integer(entry.get("step"))
        if step is not None:
            by_step.setdefault(step, []).append(entry)
    keys = {key for entry in entries for key in entry}
    return by_step, tuple(sorted({m[1] for key in keys if (m := _REWARD.fullmatch(key))}))


def repeated_files(files: Iterable[tuple[str, File]], container: str = "parquet") -> dict[str, str]:
    """Return files that repeat the rows of an earlier step: name -> name of the earlier file.

    TRL keeps the rows of its last generation and writes all of them at every log event. If it
    logs more often than it generates, it repeats a whole file with only ``step`` changed.

    Args:
        files: (name, file) of one folder, in order of step.
        container: container type of the files.

    Raises:
        RowError, MissingExtraError: as ``containers.iterate``.
    """
    repeats: dict[str, str] = {}
    first, first_step, first_digest = "", 0, ""
    for name, file in files:
        steps, digest = [], xxhash.xxh3_128()
        for _, obj in iterate(file, container):
            steps.append(logged.integer(obj.pop("step", None)) or 0)
            digest.update(repr(obj).encode("utf-8", "surrogatepass"))
        step = next(iter(steps), -1)
        if first and first_step != step and first_digest == digest.hexdigest():
            repeats[name] = first
        else:
            first, first_step, first_digest = name, step, digest.hexdigest()
    return repeats
