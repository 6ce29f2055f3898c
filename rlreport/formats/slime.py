"""The log format of slime and Miles: ``rollout_data/<n>.pt``, ``trajectory/<n>.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.containers import ROLLOUT_ID
from rlreport.formats.logged import columns, fields, mapping
from rlreport.formats.token_names import span_turns
from rlreport.system import coerce
from rlreport.text.chat import (
    conversation_fields,
    is_messages,
    prompt_and_response_fields,
)
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(?:eval_)?(\d+)\.[^/]*$")
_SAMPLE = ("prompt", "tokens", "response", "response_length", "status")
_TRAJECTORY = ("sample_index", "prompt", "messages", "status")
_USED_KEYS = frozenset(
    {*_SAMPLE, "messages", "reward", "label", "group_index", ROLLOUT_ID}
    | {"loss_mask", "rollout_log_probs"}
    | {"generate_function_path", "custom_rm_path", "session_id", "routing_key"}
)
# Value of slime's ``Sample.Status`` -> finish reason in a row
_REASONS = {
    "completed": "stop",
    "truncated": "length",
    "aborted": "abort",
    "failed": "error",
}

# Keys of the total reward if the reward is a dict, in order of preference
_TOTALS = ("score", "reward", "total")


class Slime(BaseFormat):
    """The format of slime and Miles: torch dumps of samples, or Miles' trajectories.

    A dump's ``sibling`` is ``trajectory/<n>.jsonl``, which has the conversations. Without a dump,
    the trajectories are read alone, without tokens.
    """

    id = "slime"
    alone = False
    description = "slime and Miles rollout dumps (torch) and Miles' trajectories"
    files = ("rollout_data/<n>.pt", "trajectory/<n>.jsonl")
    claims = (_SAMPLE, _TRAJECTORY)
    confidence = 97
    container = "torch"

    def recognizes(self, obj: Row) -> bool:
        return isinstance(obj["status"], str)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Slime | str:
        """Return the format with the trajectories of a dump; refuse trajectories of a dump."""
        # A dump and its trajectories have the same number in sibling folders.
        root = path.parent.parent
        if path.parent.name != "trajectory":
            return Slime(FileStamp.of(root / "trajectory" / f"{path.stem}.jsonl"))
        # Without torch, dumps cannot be read: then the trajectories are, alone.
        if root / "rollout_data" / f"{path.stem}.pt" in listed and find_spec("torch"):
            return message(
                "conversations of the rollouts in `rollout_data`; read together with them"
            )
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        if self.sibling:
            sample = coerce.integer(obj.get("index"))
            obj.setdefault("messages", _messages(self.sibling, sample))
        yield _row(obj, where)


def _row(obj: Row, where: Where) -> Row:
    """Return the row of a sample; raise RowError without a step."""
    metadata = mapping(obj.get("metadata"))
    row = {**columns(obj, _USED_KEYS), **columns(metadata, ("messages", "error"))}
    for name in ("spec_info", "prefix_cache_info"):
        for key, value in columns(mapping(obj.get(name))).items():
            if value:  # slime logs 0 if it does not use the feature
                row[key] = value
    row |= {
        "step": logged.step_of(obj.get(ROLLOUT_ID), where, _STEP),
        **_reward(obj.get("reward")),
        **_conversation(obj, obj.get("messages") or metadata.get("messages")),
        **_token_arrays(obj),
        **fields(
            group_id=obj.get("group_index"),
            ground_truth=obj.get("label"),
            policy_version=obj.get("weight_versions"),
        ),
    }
    span_turns(row)
    status = coerce.text(obj.get("status"))
    row["finish_reason"] = _REASONS.get(status, status)
    if status in ("failed", "aborted"):
        row["errors"] = [coerce.text(metadata.get("error")) or status]
        # Before it wrote anything: the rollout is only counted, without a reward.
        if not row["response"] and not row.get("turns"):
            row.update(reward=None, trainable=False)
    return row


def _reward(reward: Any) -> Row:
    """Return the fields of a reward: a number, or a dict of numbers with the total among them."""
    if not isinstance(reward, dict):
        return {"reward": coerce.grade(reward)}
    parts = coerce.reals(reward)
    # The only number is the total; of several, one with a name such as "score".
    names = list(parts) if len(parts) == 1 else [key for key in _TOTALS if key in parts]
    total = parts[names[0]] if names else None
    return {"reward": total, **fields(reward_parts=parts)}


def _conversation(obj: Row, messages: Any) -> Row:
    """Return a sample's texts: its conversation, else its prompt and response."""
    prompt = obj.get("prompt")
    prompt_length = len(prompt) if isinstance(prompt, list) else 0
    messages = messages if is_messages(messages) else []
    # Earlier replies of the assistant in the prompt were not sampled.
    replies = messages[prompt_length:]
    sampled = [False] * (len(messages) - len(replies))
    sampled += [one.get("role") == "assistant" for one in replies]
    if not any(sampled):
        return prompt_and_response_fields(prompt, coerce.text(obj.get("response")))
    texts = conversation_fields(messages, sampled)
    # Messages that begin with a reply have no prompt.
    if not texts["prompt"]:
        texts["prompt"] = coerce.text(prompt)
    return texts


def _token_arrays(obj: Row) -> Row:
    """Return a sample's token fields, {} if its tokens or their number in the response is wrong."""
    tokens = coerce.ints(obj.get("tokens"))  # of the prompt, then of the response
    size = coerce.integer(obj.get("response_length"))
    if not tokens or size is None or not 0 < size <= len(tokens):
        return {}
    mask = obj.get("loss_mask")
    return {
        "prompt_token_ids": tokens[:-size],
        "token_ids": tokens[-size:],
        **fields(
            response_mask=[int(m) for m in mask] if isinstance(mask, list) else None,
            # These are the sampler's logprobs, but the only ones in the log.
            logprobs=obj.get("rollout_log_probs"),
        ),
    }


def _messages(trajectories: FileStamp, sample: int | None) -> Any:
    """Return the messages of a sample, given its index, from a file of trajectories; else None."""
    position = _positions(trajectories).get(sample)
    if position is None:
        return None
    with Path(trajectories.path).open("rb") as lines:
        lines.seek(position)
        return logged.json_object(lines.readline()).get("messages")


@lru_cache(maxsize=4)
def _positions(trajectories: FileStamp) -> dict[int | None, int]:
    """Return sample index -> byte offset of its line; omit indices that several samples share."""
    offsets: dict[int | None, list[int]] = {}
    offset = 0
    with suppress(OSError), Path(trajectories.path).open("rb") as stream:
        for line in stream:
            sample = coerce.integer(logged.json_object(line).get("sample_index"))
            offsets.setdefault(sample, []).append(offset)
            offset += len(line)
    offsets.pop(None, None)
    unique = [sample for sample in offsets if len(offsets[sample]) == 1]
    return {sample: offsets[sample][0] for sample in unique}
