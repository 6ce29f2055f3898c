"""SkyRL's evaluation dumps: ``global_step_{N}_evals/{data_source}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named
from rlreport.formats.messages import said
from rlreport.formats.values import columns, numbers, required, step_of, text, total

_STEP = re.compile(r"global_step_(\d+)")
_KNOWN = frozenset({"input_prompt", "output_response", "score", "stop_reason", "env_extras"})


class SkyRL:
    """Rows with ``input_prompt`` and ``output_response``; the step is in the folder's name."""

    id = "skyrl"
    description = "SkyRL dumped evaluations, a folder a step, a file a data source"
    files = ("global_step_*_evals/*.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of SkyRL's two texts and a score."""
        if not has_keys(objects, "input_prompt", "output_response", "score"):
            return None
        return Match(95, named(("input_prompt", "output_response", "score")))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a list of scores is a reward per token, and its sum the reward."""
        if obj.get("output_response") is None:
            raise RowError("no `output_response`")
        prompt, turns = said(obj.get("input_prompt"))
        scores = numbers(obj.get("score"))
        row = columns(obj, _KNOWN)
        row.update(
            step=_step(obj, where),
            prompt=prompt,
            response=said(obj["output_response"])[0],
            reward=required(obj, "score") if scores is None else total(scores),
        )
        if turns:
            row["prompt_turns"] = turns
        if isinstance(obj.get("stop_reason"), str):
            row["finish_reason"] = obj["stop_reason"]
        truth = _ground_truth(obj.get("env_extras"))
        if truth is not None:
            row["ground_truth"] = text(truth)
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return ``eval``: SkyRL dumps nothing else."""
        return "eval"


def _step(obj: Row, where: Where) -> int:
    # An evaluation outside training (`eval_only`) has no step: it is the only one.
    if "step" not in obj and not _STEP.search(where.name):
        return 0
    return step_of(obj.get("step"), where, _STEP)


def _ground_truth(extras: object) -> object:
    if not isinstance(extras, dict):
        return None
    spec = extras.get("reward_spec") or extras.get("reward_model")
    return spec.get("ground_truth") if isinstance(spec, dict) else extras.get("ground_truth")
