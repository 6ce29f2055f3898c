"""TRL's GRPO trainer with ``log_completions``: one parquet file a logged step."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from rlreport.errors import MissingExtraError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Match, Row, RowError, Where, named
from rlreport.formats.containers import File, iterate
from rlreport.formats.logged import columns, dicts, present
from rlreport.formats.messages import prompt_and_response_fields, without_nulls
from rlreport.formats.parquet import open_parquet
from rlreport.sidefiles import MAX_JSON, LimitError, read_bounded
from rlreport.text.messages import message

_FLOATS = ("halffloat", "float", "double")
_STEP = re.compile(r"completions_(\d+)\.parquet$")
_KNOWN = frozenset({"step", "prompt", "completion", "advantage", "reward", "images", "image"})
_REWARD = re.compile(r"(?:eval_)?rewards/(.+)/mean")
_History = tuple[dict[int, list[Row]], tuple[str, ...]]
_CLOSE = 1e-3
"""TRL logs the means of float32 rewards."""


@dataclass(frozen=True)
class TRL(BaseFormat):
    """Rows of ``completions/completions_00005.parquet``.

    TRL logs a column for each reward function, then those of ``log_extra``, and no total. Which
    are rewards is in ``trainer_state.json``, where the run left one; else every float column
    between ``completion`` and ``advantage`` is taken for one. The total is ``reward`` where a
    version logs it, else the sum of the functions that judged the row (those that returned
    None are NaN); weights other than 1 are not in the log. An evaluation overwrites the file
    that training wrote at its step: the rows are the evaluation's then.

    Attributes:
        functions: names of the reward functions, None where nothing tells.
        evaluated: the file holds an evaluation's rows.
        remark: what a reader of the report should know about the file, "" for nothing.
    """

    functions: tuple[str, ...] | None = None
    evaluated: bool = False
    remark: str = ""
    id = "trl"
    alone = False
    description = "TRL GRPO log_completions: parquet, a column a reward function"
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
        if not any(key == "reward" or key in _floats(obj) for obj in objects for key in obj):
            return None
        keys = [key for key in ("step", "prompt", "completion", "advantage") if key in first]
        if _STEP.search(name):
            return Match(95, f"{named(keys)}, and the name `completions_<step>.parquet`")
        return Match(70, named(keys))

    def beside(self, path: Path, listed: Collection[Path]) -> TRL | str:
        """Learn the reward functions and evaluations from the trainer's state."""
        found = _STEP.search(path.name)
        if found is None or path.parent.name != "completions":
            return self
        run = path.parent.parent
        if (run / "rollouts").is_dir() and any(
            file.parent == run / "rollouts" and file.name.startswith("rank_") for file in listed
        ):
            return message(
                "the same rollouts as in `rollouts` beside it, which RolloutWriter wrote"
            )
        history, names = _history(run)
        entries = history.get(int(found[1]), [])
        evaluated = any(key.startswith("eval_") for entry in entries for key in entry)
        form = replace(self, functions=names or None, evaluated=evaluated)
        return replace(form, remark=_remark(form, path, entries))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row: text, total reward, its parts, the advantage."""
        if obj.get("completion") is None:
            raise RowError(message("no `completion`"))
        parts = self._parts(obj)
        asked, answered = without_nulls(obj.get("prompt")), without_nulls(obj["completion"])
        advantage = obj.get("advantage")
        if isinstance(advantage, list):
            advantage = list(map(logged.parse_number, advantage))
        elif advantage is not None:
            advantage = logged.parse_number(advantage)
        yield {
            **columns(obj, _KNOWN | parts.keys()),
            **prompt_and_response_fields(asked, answered),
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": logged.grade(obj["reward"])
            if "reward" in obj
            else logged.total(parts.values()),
            **present(
                reward_parts=parts or None,
                split="val" if self.evaluated else None,
                advantages=advantage,
            ),
        }

    def split(self, name: str) -> str | None:
        """Return ``val`` for an evaluation's rows, else the split that the path names."""
        return "val" if self.evaluated else super().split(name)

    def _parts(self, obj: Row) -> dict[str, float]:
        if self.functions is None:
            return {key: logged.parse_number(obj[key]) for key in _floats(obj)}
        return {key: logged.parse_number(obj[key]) for key in self.functions if key in obj}


def _floats(obj: Mapping[str, Any]) -> list[str]:
    """Return the float columns that stand between ``completion`` and ``advantage``.

    None is a function that did not judge the row, where the name is a reward's.
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


def _history(run: Path) -> _History:
    """Return the log by step and the reward functions, from the run's longest history."""
    states = (run / "trainer_state.json", *sorted(run.glob("checkpoint-*/trainer_state.json")))
    return _history_in(tuple(stamp for path in states if (stamp := FileStamp.of(path))))


@lru_cache(maxsize=8)
def _history_in(states: tuple[FileStamp, ...]) -> _History:
    entries: list[Row] = []
    for file in states:
        try:
            state = logged.json_object(read_bounded(Path(file.path), MAX_JSON))
        except (OSError, LimitError):
            continue
        found = dicts(state.get("log_history"))
        if len(found) > len(entries):
            entries = found
    by_step: dict[int, list[Row]] = {}
    for entry in entries:
        step = logged.integer(entry.get("step"))
        if step is not None:
            by_step.setdefault(step, []).append(entry)
    keys = {key for entry in entries for key in entry}
    return by_step, tuple(sorted({m[1] for key in keys if (m := _REWARD.fullmatch(key))}))


def _remark(form: TRL, path: Path, entries: Sequence[Row]) -> str:
    """Say what was taken for the reward where nothing tells, and whether its mean is TRL's."""
    try:
        with open_parquet(path) as parquet:
            schema = parquet.schema_arrow
            names = schema.names
            if "reward" in names:
                return ""
            if form.functions is None:
                between = names[names.index("completion") + 1 : names.index("advantage")]
                taken = [n for n in between if str(schema.field(n).type) in _FLOATS]
                return message(
                    "no trainer_state.json names the reward functions; taken for them: {names}",
                    names=tuple(f"`{name}`" for name in taken),
                )
            present = [name for name in form.functions if name in names]
            table = parquet.read(columns=present).to_pylist()
    except (MissingExtraError, ValueError, OSError):
        return ""
    means = [e.get("eval_reward" if form.evaluated else "reward") for e in entries]
    known = [float(value) for value in means if isinstance(value, int | float)]
    sums = [logged.total(map(logged.parse_number, row.values())) for row in table]
    judged = [value for value in sums if value is not None]
    if not known or not judged:
        return ""
    mean = math.fsum(judged) / len(judged)
    if abs(mean - known[-1]) <= _CLOSE * max(1.0, abs(known[-1])):
        return ""
    return message(
        "the mean of the summed rewards, {mean}, is not the trainer's, {logged}: the functions may "
        "have weights, which are not logged, or its mean is of more generations",
        mean=f"{mean:.4g}",
        logged=f"{known[-1]:.4g}",
    )


def repeated_files(files: Iterable[tuple[str, File]], container: str = "parquet") -> dict[str, str]:
    """Return the files that repeat another one of a smaller step: name to the first one's name.

    TRL keeps the rows of its last generation and writes all of them at every log event. Logging
    more often than generating therefore repeats a whole file, only ``step`` being new.

    Args:
        files: (name, file) of one folder, in order of step.
        container: how the files hold their rows.

    Raises:
        RowError, MissingExtraError: as ``containers.iterate``.
    """
    repeats: dict[str, str] = {}
    before: tuple[str, int, str] | None = None
    for name, file in files:
        step, digest = _content_of(file, container)
        if before and before[1] != step and before[2] == digest:
            repeats[name] = before[0]
        else:
            before = (name, step, digest)
    return repeats


def _content_of(file: File, container: str) -> tuple[int, str]:
    """Return the step of a file's first row, and a hash of all its rows without their step."""
    step = -1
    digest = xxhash.xxh3_128()
    for index, obj in iterate(file, container):
        if index == 0:
            step = logged.integer(obj.get("step")) or 0
        rest = {key: value for key, value in obj.items() if key != "step"}
        digest.update(logged.encoded(rest))
    return step, digest.hexdigest()
