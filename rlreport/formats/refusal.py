"""Files that lie beside rollouts and are none: said why, so that nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.formats.base import Row, has_keys
from rlreport.formats.mapping import suggest

_REQUIRED = ("step", "prompt", "response", "reward")
_METRICS = "trainer metrics (a step and numbers), to plot beside the rollouts"
_BY_NAME = {
    "metadata.json": "metadata of an evaluation, not its rollouts",
    "aggregated_results.jsonl": "aggregated scores of an evaluation, not its rollouts",
    "batch_summary.json": "a summary of rLLM's episodes, not one of them",
    "meta.json": "metadata of an evaluation, not its rollouts",
    "trainer_state.json": "trainer metrics, to plot beside the rollouts",
    "config.json": "a model's or run's configuration",
    "tokenizer.json": "a tokenizer; give it with --tokenizer",
    "tokenizer_config.json": "a tokenizer's configuration",
    "package.json": "package metadata",
    "dataset_info.json": "metadata of a data set",
}


def refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file that no format claims is not read, with a mapping if one is likely."""
    certain = certain_refusal(name, objects)
    if certain:
        return certain
    likely = suggest(objects)
    if likely:
        options = " ".join(f"--map {field}={path}" for field, path in likely.items())
        return f"no known log format; try {options}"
    if _are_metrics(objects):
        return _METRICS
    missing = [field for field in _REQUIRED if field not in objects[0]]
    if 0 < len(missing) < len(_REQUIRED) - 1:
        return f"its first object lacks {' and '.join(f'`{field}`' for field in missing)}"
    return f"no known log format (its first object has {_keys(objects[0])})"


def certain_refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file is certainly no rollout log, or "" when it may be one."""
    last = name.rpartition("/")[2].lower()
    for suffix in (".gz", ".zst"):
        last = last.removesuffix(suffix)
    if last in _BY_NAME:
        return _BY_NAME[last]
    if not objects:
        return "holds no JSON object"
    if has_keys(objects, "step", "data") and all(isinstance(o["data"], dict) for o in objects):
        return "trainer metrics (`step`, `data`), to plot beside the rollouts"
    if has_keys(objects, "log_history"):
        return "trainer metrics (`log_history`), to plot beside the rollouts"
    if has_keys(objects, "sample_index", "total_length", "tokens", "rollout_log_probs"):
        return "Miles' token columns, read with the trajectories beside them"
    if has_keys(objects, "trial_name", "verifier_result"):
        return "a trial's result, read with the trajectory beside it"
    if has_keys(objects, "title", "started_at", "root"):
        return "a logtree, read with the rollout summaries beside it"
    if has_keys(objects, "cells", "nbformat"):
        return "a notebook"
    if _only_numbers(objects):
        return _METRICS
    return ""


def _only_numbers(objects: Sequence[Row]) -> bool:
    return _are_metrics(objects) and not any(
        isinstance(value, str | list | dict) for obj in objects for value in obj.values()
    )


def _are_metrics(objects: Sequence[Row]) -> bool:
    from rlreport.metrics.records import is_event  # metrics reads logs' names, which needs formats

    return all(map(is_event, objects))


def _keys(obj: Row) -> str:
    shown = ", ".join(f"`{key[:40]}`" for key in list(obj)[:5])
    if len(obj) > 5:
        shown += f" and {len(obj) - 5} more"
    return shown or "no key"
