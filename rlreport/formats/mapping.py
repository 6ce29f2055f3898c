"""Files without a known format: read them with ``--map``, or explain why they are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlreport.errors import RowError, UnreadRow, UsageError
from rlreport.fields import CANONICAL, FIELDS, REQUIRED, REWARDS, AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where, has_keys
from rlreport.formats.logged import is_event
from rlreport.system import coerce
from rlreport.text.chat import prompt_fields
from rlreport.text.messages import listed, message, translatable

_METRICS = translatable("trainer metrics (steps, numbers), not rollouts; give them with --metrics")
_BY_NAME = {
    "metadata.json": translatable("metadata of an evaluation, not its rollouts"),
    "aggregated_results.jsonl": translatable(
        "aggregated scores of an evaluation, not its rollouts"
    ),
    "meta.json": translatable("metadata of an evaluation, not its rollouts"),
    "batch_summary.json": translatable("a summary of rLLM's episodes, not one of them"),
    "trainer_state.json": translatable("trainer metrics, not rollouts; give them with --metrics"),
    "tokenizer.json": translatable("a tokenizer; give it with --tokenizer"),
    "rollouts_materialized_inputs.jsonl": translatable("requests of NeMo Gym, not rollouts"),
}
_BY_KEYS = {
    ("log_history",): translatable("trainer metrics (`log_history`), not rollouts"),
    ("trial_name", "verifier_result"): translatable(
        "a trial's result, read with the trajectory next to it"
    ),
    ("title", "started_at", "root"): translatable(
        "a logtree, read with the rollout summaries next to it"
    ),
}
# Canonical field -> other names for it in logs, the likeliest first
_FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step", "global_steps", "training_step", "train_step", "iteration", "iter", "steps",
        "update",
    ),
    "prompt": ("query", "question", "input", "instruction", "inputs", "problem", "messages"),
    "response": (
        "completion", "output", "answer", "generation", "generated_text", "text", "outputs",
        "prediction", "model_output", "rollout", "completion_text",
    ),
    "reward": (
        "score", "rewards", "scores", "return", "total_reward", "reward_score", "final_reward",
    ),
    "response_tokens": ("tokens", "output_tokens", "completion_tokens"),
    "logprobs": ("logps", "log_probs", "policy_logprobs", "token_logprobs"),
    "ref_logprobs": ("ref_logps", "ref_log_probs", "reference_logprobs"),
    "ground_truth": ("label", "target", "gold", "reference", "gts", "solution"),
    "group_id": ("uid", "prompt_id", "group", "task_id", "example_id"),
    "finish_reason": ("stop_reason", "stop_condition", "termination_reason"),
}  # fmt: skip


class Mapped(BaseFormat):
    """A format defined by ``--map`` and ``--step-from-path``, alone or on top of another format.

    ``mapping`` is canonical field -> dotted path in the object; integers in it index lists. The
    step is the group ``step`` of ``step_from_path`` if it has one, else its first group.
    """

    id = "mapped"
    description = "fields named with --map"
    files = ("*",)

    def __init__(
        self,
        mapping: Mapping[str, str],
        step_from_path: str | None = None,
        base: BaseFormat | None = None,
    ) -> None:
        super().__init__()
        unknown = sorted(mapping.keys() - CANONICAL)
        if unknown:
            fields = ", ".join(field.name for field in FIELDS)
            raise UsageError(f"--map: unknown field {unknown[0]!r}; known fields: {fields}")
        self.mapping = mapping
        self.base = base
        self.alone = base is None or base.alone
        self._step = None if step_from_path is None else _step_pattern(step_from_path)

    @property
    def cacheable(self) -> bool:
        """Whether rows may be cached: always without ``base``, else if its rows may be."""
        return self.base is None or self.base.cacheable

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        if not all(any(look_up(o, path)[0] for o in objects) for path in self.mapping.values()):
            return None
        options = ", ".join(f"{key}={path}" for key, path in self.mapping.items())
        return Match(100, f"has the mapped fields ({options or 'step from the path'})")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of ``base`` (or one row of the object's fields) with the mapped fields."""
        step = logged.step_in_path(where.path, self._step) if self._step else None
        step_field = {} if step is None else {"step": step}
        # The base format would reject an object without a step.
        obj = logged.entry_of(obj, {**obj, **step_field}) if step_field else obj
        mapped = {key: look_up(obj, path)[1] for key, path in self.mapping.items()}
        if self.base is None:
            used = {path.partition(".")[0] for path in self.mapping.values()}
            canonical = {key: obj[key] for key in obj if key in CANONICAL and key not in used}
            extra = logged.columns(obj, used | canonical.keys())
            typed = {**extra, **_convert_types({**canonical, **mapped}), **step_field}
            yield _check(typed, where)
            return
        for row in self.base.rows(obj, where):
            unread = isinstance(row, UnreadRow)
            yield row if unread else _check({**row, **_convert_types(mapped), **step_field}, where)

    def split(self, name: str) -> str | None:
        return super().split(name) if self.base is None else self.base.split(name)


def _step_pattern(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--step-from-path {pattern!r} is not a regular expression: {error}"
        ) from None
    if not compiled.groups:
        raise UsageError(f"--step-from-path {pattern!r} has no group, such as step_(\\d+)")
    return compiled


def look_up(obj: object, path: str) -> tuple[bool, Any]:
    """Return whether a dotted path exists in ``obj``, and its value (None if it does not)."""
    if isinstance(obj, dict) and path in obj:  # keys may contain dots
        return True, obj[path]
    head, _, rest = path.partition(".")
    if isinstance(obj, dict) and rest and head in obj:
        return look_up(obj[head], rest)
    if isinstance(obj, list) and re.fullmatch(r"-?\d+", head) and -len(obj) <= int(head) < len(obj):
        return look_up(obj[int(head)], rest) if rest else (True, obj[int(head)])
    return False, None


def _convert_types(mapped: Row) -> Row:
    typed = dict(mapped)
    for key in ("prompt", "response", "ref_response"):
        if typed.get(key) is not None:
            fields = prompt_fields(typed[key])
            typed[key] = fields.pop("prompt")
            if key == "prompt":
                typed |= fields
    for key in REWARDS:
        if key in typed:
            typed[key] = coerce.grade(typed[key])
    if "ground_truth" in typed:
        typed["ground_truth"] = coerce.text(typed["ground_truth"])
    return typed


def _check(row: Row, where: Where) -> Row:
    if all(row.get(key) is None for key in ("response", "token_ids", "response_tokens")):
        raise RowError(message("no response; check the paths given with --map"))
    return {"step": where.step or AssumedStep(), **row}


def refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file of unknown format is not read, with ``--map`` options if some may help."""
    if reason := certain_refusal(name, objects):
        return reason
    if suggestions := suggest(objects):
        options = " ".join(f"--map {field}={path}" for field, path in suggestions.items())
        return message("no known log format; try {options}", options=options)
    if all(map(is_event, objects)):
        return message(_METRICS)
    missing = [f"`{field}`" for field in REQUIRED if field not in objects[0]]
    if 1 <= len(missing) <= 2:
        return message("its first object lacks {fields}", fields=tuple(missing))
    return message("no known log format (its first object has {keys})", keys=_keys(objects[0]))


def certain_refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file is certainly no rollout log, by its name and objects; "" if it may be."""
    last = name.rpartition("/")[2].lower().removesuffix(".gz").removesuffix(".zst")
    if last in _BY_NAME:
        return message(_BY_NAME[last])
    if last.endswith(".csv"):
        return message("not a table of metrics: it needs a column of steps and columns of numbers")
    if not objects:
        return message("contains no JSON object")
    if has_keys(objects, "step", "data") and all(isinstance(o["data"], dict) for o in objects):
        return message("trainer metrics (`step`, `data`), not rollouts; give them with --metrics")
    for keys, reason in _BY_KEYS.items():
        if has_keys(objects, *keys):
            return message(reason)
    nested = any(isinstance(v, str | list | dict) for obj in objects for v in obj.values())
    return message(_METRICS) if not nested and all(map(is_event, objects)) else ""


def _keys(obj: Row) -> str:
    keys = tuple(f"`{key[:40]}`" for key in list(obj)[:5])
    if len(obj) > 5:
        return message("{keys} and {count} more", keys=keys, count=len(obj) - 5)
    return listed(keys) or message("no key")


def suggest(objects: Sequence[Row]) -> dict[str, str]:
    """Return field -> dotted path to suggest for ``--map``; {} without response and reward."""
    paths: dict[str, Any] = {}
    for obj in objects[:20]:
        for path, value in _paths(obj):
            paths.setdefault(path, value)
    paths_by_field: dict[str, str] = {}
    for field, aliases in _FIELD_ALIASES.items():
        for alias in (field, *aliases):
            free = [path for path in paths if path not in paths_by_field.values()]
            if candidates := [path for path in free if _fits(field, alias, path, paths[path])]:
                best = min(candidates, key=lambda path: path.count("."))
                if best != field:
                    paths_by_field[field] = best
                break
    has_all = all(key in paths_by_field or key in paths for key in ("response", "reward"))
    return paths_by_field if has_all else {}


def _fits(field: str, alias: str, path: str, value: Any) -> bool:
    if path.rpartition(".")[2].lower() != alias:
        return False
    if field == "step":
        return coerce.integer(value) is not None
    if field in ("prompt", "response"):
        text = prompt_fields(value)["prompt"] if isinstance(value, list) else ""
        return isinstance(value, str) or bool(text)
    if field == "reward":
        return isinstance(value, int | float) or value is None
    if field.endswith(("tokens", "logprobs")):
        return isinstance(value, list)
    return logged.is_scalar(value)


def _paths(obj: Mapping[str, Any], prefix: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    for key, value in obj.items():
        yield prefix + key, value
        if depth > 1 and isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.", depth - 1)
