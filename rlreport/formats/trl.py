"""Log formats of TRL's GRPO trainer: a parquet file per logged step, and tables in Trackio."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged, metric_rows, trainer_state
from rlreport.formats.base import BaseFormat, FileStamp, Match, Row, Where, has_keys
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.renamed import Plain
from rlreport.system import coerce
from rlreport.text.chat import (
    conversation_fields,
    is_messages,
    prompt_and_response_fields,
)
from rlreport.text.messages import message

_STEP = re.compile(r"completions_(\d+)\.parquet$")
_TEXTS = ("prompt", "completion")
_KEYS = frozenset(
    {"step", "prompt", "completion", "advantage", "reward", "images", "image"}
)
_REWARD_NAME = re.compile(r"(?i:reward)|_(?:func|fn)$")


class TRL(BaseFormat):
    """TRL's format: files such as ``completions/completions_00005.parquet``.

    TRL logs a column per reward function, followed by the columns of ``log_extra``. The names of
    the functions come from the trainer's log; without it, every float column between
    ``completion`` and ``advantage`` is assumed to be a reward. The total reward is ``reward`` if it
    is logged, else the weighted sum of the functions' rewards that are not null. Functions, weights
    and ``evaluated`` are set by ``configured``, see ``formats.trl_folder``.
    """

    id = "trl"
    alone = False
    description = "TRL GRPO log_completions: Parquet, one column per reward function"
    files = ("completions/completions_*.parquet",)
    container = "parquet"
    claims = (
        ("step", *_TEXTS, "advantage"),
        ("step", *_TEXTS),
        (*_TEXTS, "advantage"),
        _TEXTS,
    )
    # Names of the reward functions; None if no trainer's log names them
    functions: tuple[str, ...] | None = None
    states: tuple[FileStamp, ...] = ()  # trainer states of the run, one per checkpoint
    # Reward function -> its weight in the reward, 1 if it is missing
    weights: Mapping[str, float] = MappingProxyType({})
    evaluated = False  # whether the file has the rows of an evaluation

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim if there are rewards, and the name or the advantages are TRL's."""
        match = super().match(name, objects)
        has_rewards = any("reward" in obj or _float_columns(obj) for obj in objects)
        if match is None or not has_rewards:
            return None
        if _STEP.search(name):
            return Match(95, match.reason)
        # Under any other name, prompt and completion alone are also those of other formats.
        if has_keys(objects, "advantage"):
            return Match(70, match.reason)
        return None

    def recognizes(self, obj: Row) -> bool:
        # Other formats have these keys, or a whole step per object.
        other = "token_ids" in obj or "version_rle" in obj
        return not other and not isinstance(obj.get("step"), list)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> TRL | str:
        """Return the format with the trainer states of the run."""
        if _STEP.search(path.name) is None or path.parent.name != "completions":
            return self
        run = path.parent.parent
        # RolloutWriter logs the same rollouts with their tokens.
        rollouts = [file.name for file in listed if file.parent == run / "rollouts"]
        if any(name.startswith("rank_") for name in rollouts):
            return message(
                "the same rollouts as in the sibling folder `rollouts`, which RolloutWriter wrote"
            )
        states = [run / trainer_state.NAME]
        states += sorted(run.glob(f"checkpoint-*/{trainer_state.NAME}"))
        form = TRL()
        form.states = tuple(filter(None, map(FileStamp.of, states)))
        # Each state has the whole history until then: the largest file is the latest.
        latest = max(form.states, key=lambda stamp: stamp.size, default=None)
        form.siblings = () if latest is None else (latest,)
        return form

    def configured(
        self,
        functions: tuple[str, ...] | None,
        weights: Mapping[str, float],
        *,
        evaluated: bool,
    ) -> TRL:
        """Return the format of a file of which its folder and the trainer's log say more."""
        form = TRL(*self.siblings)
        form.functions = functions
        form.weights = dict(weights)
        form.evaluated = evaluated
        return form

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a completion."""
        if obj.get("completion") is None:
            raise RowError(message("{field} is missing", field="`completion`"))
        parts = self._parts(obj)
        total = logged.total(
            self.weights.get(name, 1.0) * part for name, part in parts.items()
        )
        prompt = _without_nulls(obj.get("prompt"))
        answer = _without_nulls(obj["completion"])
        yield {
            **columns(obj, _KEYS | parts.keys()),
            **prompt_and_response_fields(prompt, answer),
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": coerce.grade(obj["reward"]) if "reward" in obj else total,
            **fields(
                reward_parts=parts,
                split="val" if self.evaluated else None,
                advantages=obj.get("advantage"),
            ),
        }

    def split(self, name: str) -> str | None:
        return "val" if self.evaluated else super().split(name)

    def _parts(self, obj: Row) -> dict[str, float]:
        """Return reward function -> its reward in a row, NaN if it does not apply."""
        names = _float_columns(obj) if self.functions is None else self.functions
        return {name: coerce.number(obj[name]) for name in names if name in obj}


def _float_columns(obj: Mapping[str, Any]) -> list[str]:
    """Return the columns that may be rewards: of floats, between completion and advantage.

    If the columns are not in TRL's order, all of them may be.
    """
    names = list(obj)
    first = names.index("completion") + 1 if "completion" in obj else 0
    stop = names.index("advantage") if "advantage" in obj else len(names)
    if stop <= first:
        first = 0
        stop = len(names)
    rewards: list[str] = []
    # By ``items``, as reading each key would mark it as recognized
    for name, value in list(obj.items())[first:stop]:
        # A value is null where the function does not apply to the row.
        may_be_null_reward = value is None and _REWARD_NAME.search(name)
        if name not in _KEYS and (isinstance(value, float) or may_be_null_reward):
            rewards.append(name)
    return rewards


def _without_nulls(value: Any, levels: int = 12) -> Any:
    """Return a value without null fields, which Parquet adds for keys that other rows have.

    Only ``levels`` levels of dicts and lists are changed, however deep a log nests them.
    """
    if isinstance(value, dict) and levels:
        keys = [key for key in value if value[key] is not None]
        return {key: _without_nulls(value[key], levels - 1) for key in keys}
    if isinstance(value, list) and levels:
        return [_without_nulls(item, levels - 1) for item in value]
    return value


_REWARDS = ("reward", "score")
_USED_KEYS = frozenset(
    {*_REWARDS, "group_id", "duration_ms", "latency_ms", "status", "error"}
    | {"advantage", "model_version"}
)
# Prefix of the keys of reward parts in the metadata of TRL's traces
_PREFIX = "rewards/"
SAMPLED = "traces of TRL's AsyncGRPO, a sample of at most 16 rollouts at a time"


class Trackio(BaseFormat):
    """Trackio's format: an entry is a trace with a reward, or has tables of completions (TRL)."""

    id = "trackio"
    description = (
        "Trackio: tables of completions, and traces whose metadata hold a reward"
    )
    files = ("<project>.db", "<project>_traces.parquet", "<project>.parquet")
    container = "sqlite"
    claims = (("run_name", "step", "timestamp"),)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim if any entry is a trace or has tables."""
        # Entries with metrics alone have the same keys.
        recognized = any("messages" in obj or _table_keys(obj) for obj in objects)
        match = super().match(name, objects) if recognized else None
        if match is None:
            return None
        # The metadata of a trace are JSON in a string. AsyncGRPO's have the version of the model.
        metadata = [coerce.text(obj.get("metadata")) for obj in objects]
        if any("model_version" in text for text in metadata):
            return Match(match.confidence, SAMPLED)
        return match

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a trace, or those of the tables in an entry."""
        if "messages" in obj:
            yield _trace(obj, where)
            return
        step = logged.step_of(obj.get("step"), where)
        for key in _table_keys(obj):
            rows = dicts(obj[key].get("_value"))
            yield from logged.each(rows, lambda row: _table_row(row, where, step))


def _table_keys(obj: Row) -> list[str]:
    return [key for key, v in obj.items() if mapping(v).get("_type") == "trackio.table"]


def _table_row(values: Row, where: Where, step: int) -> Row:
    """Return a row of a table, which has the columns of TRL or of the format ``plain``."""
    row: Row = {"step": step}
    for key in values:
        # Trackio writes NaN and infinities as text.
        row[key] = metric_rows.non_finite(values[key])
    if "prompt" in row and "completion" in row:
        return next(TRL().rows(row, where))
    if Plain().match(where.name, [row]):
        return next(Plain().rows(row, where))
    raise RowError(message("the table lacks prompt, completion or reward"))


def _trace(obj: Row, where: Where) -> Row:
    """Return the row of a trace, a conversation whose metadata hold its reward."""
    messages = logged.from_json(obj.get("messages"))
    metadata = mapping(logged.from_json(obj.get("metadata")))
    if not is_messages(messages):
        raise RowError(message("`messages` is not a list of messages"))
    reward = next((metadata[key] for key in _REWARDS if key in metadata), None)
    if reward is None:
        raise RowError(message("the trace's metadata has no `reward` or `score`"))
    errors = None
    if metadata.get("error") or metadata.get("status") == "error":
        errors = [metadata.get("error") or "error"]
    part_keys = [key for key in metadata if key.startswith(_PREFIX)]
    parts = {k.removeprefix(_PREFIX): coerce.number(metadata[k]) for k in part_keys}
    return {
        **columns(metadata, {*_USED_KEYS, *part_keys}),
        **conversation_fields(messages),
        "step": logged.step_of(obj.get("step"), where),
        "reward": coerce.number(reward),
        "run": coerce.text(obj.get("run_name")),
        **fields(
            group_id=metadata.get("group_id"),
            advantages=coerce.real(metadata.get("advantage")),
            policy_version=(metadata.get("model_version"),),
            reward_parts=parts,
            seconds=logged.seconds_of(metadata, "duration_ms", "latency_ms"),
            errors=errors,
        ),
    }
