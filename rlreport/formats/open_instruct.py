"""open-instruct's ``save_traces``: ``{run}_rollouts_{shard}.jsonl``, ids and no text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.values import columns, ints, mapping, numbers, required, step_of, text
from rlreport.text.messages import message

_KNOWN = frozenset(
    {"step", "prompt_tokens", "response_tokens", "reward", "advantage", "ground_truth", "logprobs"}
    | {"finish_reason", "prompt_idx", "dataset"}
)


class OpenInstruct:
    """Rows of ids; ``response_tokens`` holds ids here, not strings."""

    id = "open_instruct"
    alone = True
    description = "open-instruct save_traces: ids and logprobs, no text"
    files = ("*_rollouts_*.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows whose prompt and response are lists of ids."""
        keys = ("prompt_tokens", "response_tokens", "reward")
        if not has_keys(objects, *keys):
            return None
        if any(ints(obj[key]) is None for obj in objects for key in keys[:2]):
            return None
        return Match(90, f"{named(keys)}, tokens as ids")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; texts come from the ids."""
        ids = ints(obj.get("response_tokens"))
        if ids is None:
            raise RowError(message("`response_tokens` is no list of ids"))
        row = columns(obj, _KNOWN)
        asked = mapping(obj.get("request_info"))
        row.update(columns(asked, ("tool_errors", "tool_outputs")))
        if isinstance(asked.get("tool_errors"), str) and asked["tool_errors"]:
            row["errors"] = [asked["tool_errors"]]
        row.update(
            step=step_of(obj.get("step"), where),
            reward=required(obj, "reward"),
            prompt_token_ids=ints(obj.get("prompt_tokens")) or [],
            token_ids=ids,
        )
        logprobs = numbers(obj.get("logprobs"))
        if logprobs is not None:
            row["logprobs"] = logprobs
        if isinstance(obj.get("advantage"), int | float):
            row["advantages"] = float(obj["advantage"])
        if isinstance(obj.get("finish_reason"), str):
            row["finish_reason"] = obj["finish_reason"]
        if obj.get("prompt_idx") is not None:
            row["group_id"] = text(obj["prompt_idx"])
        if obj.get("dataset") is not None:
            row["dataset"] = text(obj["dataset"])
        truth = ints(obj.get("ground_truth"))
        if truth is not None:
            row["ground_truth_ids"] = truth
        elif obj.get("ground_truth") is not None:
            row["ground_truth"] = text(obj["ground_truth"])
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)
