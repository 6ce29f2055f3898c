"""Files that lie beside rollouts and are none: said why, so that nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.formats.base import Row, has_keys
from rlreport.formats.mapping import suggest
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


def refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file that no format claims is not read, with a mapping if one is likely."""
    certain = certain_refusal(name, objects)
    if certain:
        return certain
    likely = suggest(objects)
    if likely:
        options = " ".join(f"--map {field}={path}" for field, path in likely.items())
        return message("no known log format; try {options}", options=options)
    if _are_metrics(objects):
        return message(_METRICS)
    missing = [field for field in _REQUIRED if field not in objects[0]]
    if 0 < len(missing) < len(_REQUIRED) - 1:
        named = tuple(f"`{field}`" for field in missing)
        if len(named) == 1:
            return message("its first object lacks {field}", field=named[0])
        return message(
            "its first object lacks {fields} and {last}", fields=named[:-1], last=named[-1]
        )
    return message("no known log format (its first object has {keys})", keys=_keys(objects[0]))


def certain_refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file is certainly no rollout log, or "" when it may be one."""
    last = name.rpartition("/")[2].lower()
    for suffix in (".gz", ".zst"):
        last = last.removesuffix(suffix)
    if last in _BY_NAME:
        return message(_BY_NAME[last])
    if not objects:
        return message("holds no JSON object")
    if has_keys(objects, "step", "data") and all(isinstance(o["data"], dict) for o in objects):
        return message("trainer metrics (`step`, `data`), to plot beside the rollouts")
    if has_keys(objects, "log_history"):
        return message("trainer metrics (`log_history`), to plot beside the rollouts")
    if has_keys(objects, "sample_index", "total_length", "tokens", "rollout_log_probs"):
        return message("Miles' token columns, read with the trajectories beside them")
    if has_keys(objects, "trial_name", "verifier_result"):
        return message("a trial's result, read with the trajectory beside it")
    if has_keys(objects, "title", "started_at", "root"):
        return message("a logtree, read with the rollout summaries beside it")
    if has_keys(objects, "cells", "nbformat"):
        return message("a notebook")
    if _only_numbers(objects):
        return message(_METRICS)
    return ""


def _only_numbers(objects: Sequence[Row]) -> bool:
    return _are_metrics(objects) and not any(
        isinstance(value, str | list | dict) for obj in objects for value in obj.values()
    )


def _are_metrics(objects: Sequence[Row]) -> bool:
    from rlreport.metrics.records import is_event  # metrics reads logs' names, which needs formats

    return all(map(is_event, objects))


def _keys(obj: Row) -> str:
    shown = tuple(f"`{key[:40]}`" for key in list(obj)[:5])
    if len(obj) > 5:
        return message("{keys} and {count} more", keys=shown, count=len(obj) - 5)
    return listed(shown) or message("no key")
