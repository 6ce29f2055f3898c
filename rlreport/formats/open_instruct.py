"""open-instruct's ``save_traces``: ``{run}_rollouts_{shard}.jsonl``, ids and no text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, has_keys, named
from rlreport.formats.logged import columns, mapping, present
from rlreport.text.messages import message

_KNOWN = frozenset(
    {"step", "prompt_tokens", "response_tokens", "reward", "advantage", "ground_truth", "logprobs"}
    | {"finish_reason", "prompt_idx", "dataset"}
)


class OpenInstruct(BaseFormat):
    """Rows of ids; ``response_tokens`` holds ids here, not strings."""

    id = "open_instruct"
    description = "open-instruct save_traces: ids and logprobs, no text"
    files = ("*_rollouts_*.jsonl",)
    keys = ("prompt_tokens", "response_tokens", "reward")

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows whose prompt and response are lists of ids."""
        if not has_keys(objects, *self.keys):
            return None
        if any(logged.ints(obj[key]) is None for obj in objects for key in self.keys[:2]):
            return None
        return Match(90, f"{named(self.keys)}, tokens as ids")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; texts come from the ids."""
        ids = logged.ints(obj.get("response_tokens"))
        if ids is None:
            raise RowError(message("`response_tokens` is no list of ids"))
        asked = mapping(obj.get("request_info"))
        failed = logged.string(asked.get("tool_errors"))
        truth = logged.ints(obj.get("ground_truth"))
        yield {
            **columns(obj, _KNOWN),
            **columns(asked, ("tool_errors", "tool_outputs")),
            "step": logged.step_of(obj.get("step"), where),
            "reward": logged.required(obj, "reward"),
            "prompt_token_ids": logged.ints(obj.get("prompt_tokens")) or [],
            "token_ids": ids,
            **present(
                errors=[failed] if failed else None,
                logprobs=logged.numbers(obj.get("logprobs")),
                advantages=logged.real(obj.get("advantage")),
                finish_reason=logged.string(obj.get("finish_reason")),
                group_id=logged.text_if_any(obj.get("prompt_idx")),
                dataset=logged.text_if_any(obj.get("dataset")),
                ground_truth_ids=truth,
                ground_truth=logged.text_if_any(obj.get("ground_truth")) if truth is None else None,
            ),
        }
