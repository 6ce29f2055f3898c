"""Why a file is no rollout log, and which mapping could make it one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlreport.formats.base import Row, has_keys
from rlreport.formats.logged import integer, is_scalar
from rlreport.text.chat import prompt_fields
from rlreport.text.messages import listed, marked, message

_REQUIRED = ("step", "prompt", "response", "reward")
_METRICS = marked("trainer metrics (a step and numbers), to plot beside the rollouts")
_BY_NAME = {
    "metadata.json": marked("metadata of an evaluation, not its rollouts"),
    "aggregated_results.jsonl": marked("aggregated scores of an evaluation, not its rollouts"),
    "batch_summary.json": marked("a summary of rLLM's episodes, not one of them"),
    "meta.json": marked("metadata of an evaluation, not its rollouts"),
    "trainer_state.json": marked("trainer metrics, to plot beside the rollouts"),
    "config.json": marked("a model's or run's configuration"),
    "tokenizer.json": marked("a tokenizer; give it with --tokenizer"),
    "tokenizer_config.json": marked("a tokenizer's configuration"),
    "package.json": marked("package metadata"),
    "dataset_info.json": marked("metadata of a data set"),
}
_BY_KEYS = {
    ("log_history",): marked("trainer metrics (`log_history`), to plot beside the rollouts"),
    ("sample_index", "total_length", "tokens", "rollout_log_probs"): marked(
        "Miles' token columns, read with the trajectories beside them"
    ),
    ("trial_name", "verifier_result"): marked(
        "a trial's result, read with the trajectory beside it"
    ),
    ("title", "started_at", "root"): marked("a logtree, read with the rollout summaries beside it"),
    ("cells", "nbformat"): marked("a notebook"),
}
_LIKELY: dict[str, tuple[str, ...]] = {
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
    "finish_reason": ("stop_reason", "stop_condition"),
}  # fmt: skip
"""Canonical field to the names that other logs have for it, likeliest first."""


def refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file that no format claims is not read, with a mapping if one is likely."""
    if certain := certain_refusal(name, objects):
        return certain
    if likely := suggest(objects):
        options = " ".join(f"--map {field}={path}" for field, path in likely.items())
        return message("no known log format; try {options}", options=options)
    if _are_metrics(objects):
        return message(_METRICS)
    missing = [f"`{field}`" for field in _REQUIRED if field not in objects[0]]
    if len(missing) == 1:
        return message("its first object lacks {field}", field=missing[0])
    if len(missing) == 2:
        return message(
            "its first object lacks {fields} and {last}", fields=(missing[0],), last=missing[1]
        )
    return message("no known log format (its first object has {keys})", keys=_keys(objects[0]))


def certain_refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file is certainly no rollout log, or "" when it may be one."""
    last = name.rpartition("/")[2].lower().removesuffix(".gz").removesuffix(".zst")
    if last in _BY_NAME:
        return message(_BY_NAME[last])
    if not objects:
        return message("holds no JSON object")
    if has_keys(objects, "step", "data") and all(isinstance(o["data"], dict) for o in objects):
        return message("trainer metrics (`step`, `data`), to plot beside the rollouts")
    for keys, reason in _BY_KEYS.items():
        if has_keys(objects, *keys):
            return message(reason)
    nested = any(isinstance(v, str | list | dict) for obj in objects for v in obj.values())
    return message(_METRICS) if not nested and _are_metrics(objects) else ""


def _are_metrics(objects: Sequence[Row]) -> bool:
    from rlreport.metrics.records import is_event  # metrics reads logs' names, which needs formats

    return all(map(is_event, objects))


def _keys(obj: Row) -> str:
    shown = tuple(f"`{key[:40]}`" for key in list(obj)[:5])
    if len(obj) > 5:
        return message("{keys} and {count} more", keys=shown, count=len(obj) - 5)
    return listed(shown) or message("no key")


def suggest(objects: Sequence[Row]) -> dict[str, str]:
    """Return likely mappings, canonical field to dotted path, for fields that are absent.

    Empty when text and reward cannot both be found: such a file is no rollout log.
    """
    paths: dict[str, Any] = {}
    for obj in objects[:20]:
        for path, value in _paths(obj):
            paths.setdefault(path, value)
    found: dict[str, str] = {}
    for field, others in _LIKELY.items():
        for wanted in (field, *others):
            fits = [path for path in paths if _fits(field, wanted, path, paths[path])]
            fits = [path for path in fits if path not in found.values()]
            if fits:
                best = min(fits, key=lambda path: path.count("."))
                if best != field:
                    found[field] = best
                break
    has_all = all(key in found or key in paths for key in ("response", "reward"))
    return found if has_all else {}


def _fits(field: str, wanted: str, path: str, value: Any) -> bool:
    if path.rpartition(".")[2].lower() != wanted:
        return False
    if field == "step":
        return integer(value) is not None
    if field in ("prompt", "response"):
        text = prompt_fields(value)["prompt"] if isinstance(value, list) else ""
        return isinstance(value, str) or bool(text)
    if field == "reward":
        return isinstance(value, int | float) or value is None
    if field.endswith(("tokens", "logprobs")):
        return isinstance(value, list)
    return is_scalar(value)


def _paths(obj: Mapping[str, Any], prefix: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    for key, value in obj.items():
        yield prefix + key, value
        if depth > 1 and isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.", depth - 1)
