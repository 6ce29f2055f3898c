"""slime's and Miles' rollout dumps: ``rollout_data/<n>.pt``, ``trajectory/<n>.jsonl``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where, split_of
from rlreport.formats.ids import span_turns
from rlreport.formats.logged import columns, fields, mapping
from rlreport.formats.parquet import parquet_rows
from rlreport.formats.torch_file import ROLLOUT_ID
from rlreport.text.chat import conversation_fields, is_messages, prompt_and_response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(?:eval_)?(\d+)\.[^/]*$")
_SAMPLE = ("prompt", "tokens", "response", "response_length", "status")
_TRAJECTORY = ("sample_index", "prompt", "messages", "status")
_TOKENS = ["response_length", "tokens", "loss_mask", "rollout_log_probs"]
_KNOWN = frozenset(
    {*_SAMPLE, *_TRAJECTORY, *_TOKENS, "reward", "label", "group_index", ROLLOUT_ID}
    | {"generate_function_path", "custom_rm_path", "session_id", "routing_key"}
)
_DONE = {"completed": "stop", "truncated": "length", "aborted": "abort", "failed": "error"}
"""``Sample.Status`` as finish reasons."""

_TOTALS = ("score", "reward", "total")
"""Keys of the total in a reward that is an object."""


class Slime(BaseFormat):
    """Samples of a rollout; conversations recorded by Miles are in sibling files.

    The ``sibling`` is ``trajectory/<n>.jsonl`` of a dump, or ``dashboard_columns/*.parquet``
    (ids, mask and logprobs) of trajectories that are read alone.
    """

    id = "slime"
    alone = False
    description = "slime and Miles rollout dumps (torch) and Miles' trajectories"
    files = ("rollout_data/<n>.pt", "trajectory/<n>.jsonl")
    claims = (_SAMPLE, _TRAJECTORY)
    confidence = 97
    container = "torch"

    def recognizes(self, obj: Row) -> bool:
        """Return whether the status is that of a sample."""
        return isinstance(obj["status"], str)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Slime | str:
        """Return the format with the sibling: trajectories of a dump, or their token columns."""
        root = path.parent.parent
        if path.parent.name != "trajectory":
            return Slime(FileStamp.of(root / "trajectory" / f"{path.stem}.jsonl"))
        if root / "rollout_data" / f"{path.stem}.pt" in listed and find_spec("torch"):
            return message("conversations of the rollouts in `rollout_data`, where they are read")
        tokens = root / "dashboard_columns" / f"rollout_{path.stem}.parquet"
        return Slime(FileStamp.of(tokens)) if find_spec("pyarrow") else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a sample without a reward, as an aborted one is, has no grade."""
        if self.sibling and "sample_index" not in obj:
            more = _messages(self.sibling, logged.integer(obj.get("index")))
        elif self.sibling:
            more = _token_columns(self.sibling, logged.integer(obj.get("sample_index")))
        else:
            more = {}
        obj.update({key: value for key, value in more.items() if key not in obj})
        yield _row(obj, where)

    def split(self, name: str) -> str | None:
        """Return ``eval`` for ``eval_<n>``, else what the path names."""
        return "eval" if name.rpartition("/")[2].startswith("eval_") else split_of(name)


def _row(obj: Row, where: Where) -> Row:
    about = mapping(obj.get("metadata"))
    row = {**columns(obj, _KNOWN), **columns(about, ("messages", "error"))}
    for name in ("spec_info", "prefix_cache_info"):
        row |= {key: v for key, v in columns(mapping(obj.get(name))).items() if v}
    row |= {
        "step": logged.step_of(obj.get(ROLLOUT_ID), where, _STEP),
        **_reward(obj.get("reward")),
        **_conversation(obj, obj.get("messages") or about.get("messages")),
        **_token_arrays(obj),
        **fields(
            group_id=obj.get("group_index"),
            ground_truth=obj.get("label"),
            policy_version=obj.get("weight_versions"),
        ),
    }
    span_turns(row)
    status = logged.text(obj.get("status"))
    row["finish_reason"] = _DONE.get(status, status)
    if status in ("failed", "aborted"):
        row["errors"] = [logged.text(about.get("error")) or status]
        if not row["response"] and not row.get("turns"):
            row.update(reward=None, trainable=False)
    return row


def _reward(reward: Any) -> Row:
    """Return the reward; if it is an object, its total, with its other numbers as columns."""
    if not isinstance(reward, dict):
        return {"reward": logged.grade(reward)}
    parts = logged.reals(reward)
    totals = list(parts.values()) if len(parts) == 1 else [parts[k] for k in _TOTALS if k in parts]
    return {"reward": totals[0] if totals else None, **fields(reward_parts=parts)}


def _conversation(obj: Row, messages: Any) -> Row:
    prompt = obj.get("prompt")
    prompt_length = len(prompt) if isinstance(prompt, list) else 0
    messages = messages if is_messages(messages) else []
    sampled = [i >= prompt_length and m.get("role") == "assistant" for i, m in enumerate(messages)]
    if not any(sampled):
        return prompt_and_response_fields(prompt, logged.text(obj.get("response")))
    texts = conversation_fields(messages, sampled)
    return texts if texts["prompt"] else {**texts, "prompt": logged.text(prompt)}


def _token_arrays(obj: Row) -> Row:
    """Return ids, mask and the sampler's logprobs of the tokens after the prompt."""
    tokens, size = logged.ints(obj.get("tokens")), logged.integer(obj.get("response_length"))
    if not tokens or size is None or not 0 < size <= len(tokens):
        return {}
    mask = obj.get("loss_mask")
    return {
        "prompt_token_ids": tokens[:-size],
        "token_ids": tokens[-size:],
        **fields(
            response_mask=[int(m) for m in mask] if isinstance(mask, list) else None,
            # One kind alone has nothing to be compared with.
            logprobs=obj.get("rollout_log_probs"),
        ),
    }


def _messages(file: FileStamp, sample: int | None) -> Row:
    offset = _offsets(file).get(sample)
    if offset is None:
        return {}
    with Path(file.path).open("rb") as lines:
        lines.seek(offset)
        return {"messages": logged.json_object(lines.readline()).get("messages")}


def _token_columns(file: FileStamp, sample: int | None) -> Row:
    index = _indices(file).get(sample)
    if index is None:
        return {}
    with Path(file.path).open("rb") as stream:
        return dict(parquet_rows(stream, {index}, _TOKENS)).get(index, {})


@lru_cache(maxsize=4)
def _offsets(file: FileStamp) -> dict[int | None, int]:
    """Return sample -> byte offset of its line."""
    offset, samples = 0, []
    with Path(file.path).open("rb") as lines:
        for line in lines:
            samples.append((offset, logged.json_object(line).get("sample_index")))
            offset += len(line)
    return _without_repeated(samples)


@lru_cache(maxsize=4)
def _indices(file: FileStamp) -> dict[int | None, int]:
    """Return sample -> index of its row in a parquet file."""
    try:
        with Path(file.path).open("rb") as stream:
            rows = parquet_rows(stream, columns=["sample_index"])
            return _without_repeated((index, row.get("sample_index")) for index, row in rows)
    except (OSError, RowError):
        return {}


def _without_repeated(places: Iterable[tuple[int, Any]]) -> dict[int | None, int]:
    """Return sample -> place, without indices that occur in several data sets."""
    samples = [(logged.integer(sample), place) for place, sample in places]
    times = Counter(sample for sample, _ in samples)
    return {sample: place for sample, place in samples if sample is not None and times[sample] == 1}
