"""slime's and Miles' rollout dumps: ``rollout_data/<n>.pt``, ``trajectory/<n>.jsonl``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import (
    BaseFormat,
    FileStamp,
    Match,
    Row,
    RowError,
    Where,
    has_keys,
    named,
    split_of,
)
from rlreport.formats.containers import iterate
from rlreport.formats.logged import columns, mapping, present
from rlreport.formats.messages import conversation_fields, is_messages, prompt_and_response_fields
from rlreport.formats.parquet import read_column
from rlreport.formats.token_arrays import span_turns
from rlreport.formats.torch_file import ROLLOUT_ID
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(?:eval_)?(\d+)\.[^/]*$")
_SAMPLE = ("prompt", "tokens", "response", "response_length", "status")
_TRAJECTORY = ("sample_index", "prompt", "messages", "status")
_COLUMNS = ("sample_index", "response_length", "tokens", "loss_mask", "rollout_log_probs")
_KNOWN = frozenset(
    {*_SAMPLE, *_COLUMNS, "reward", "label", "group_index", "messages", ROLLOUT_ID}
    | {"generate_function_path", "custom_rm_path", "session_id", "routing_key"}
)
_DONE = {"completed": "stop", "truncated": "length", "aborted": "abort", "failed": "error"}
"""``Sample.Status`` as finish reasons."""

_TOTALS = ("score", "reward", "total")
"""Keys of a reward that is an object, of which one is the total."""

_TOKENS = ("response_length", "tokens", "loss_mask", "rollout_log_probs")


@dataclass(frozen=True)
class Slime(BaseFormat):
    """Samples of a rollout; their conversations, where Miles recorded them, lie beside.

    Attributes:
        beside_file: ``trajectory/<n>.jsonl`` beside a dump, or ``dashboard_columns/*.parquet``
            (ids, mask and logprobs) beside trajectories that are read alone.
    """

    beside_file: FileStamp | None = None
    id = "slime"
    alone = False
    description = "slime and Miles rollout dumps (torch) and Miles' trajectories"
    files = ("rollout_data/<n>.pt", "trajectory/<n>.jsonl")
    container = "torch"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim samples, and trajectories of samples."""
        for keys in (_SAMPLE, _TRAJECTORY):
            if has_keys(objects, *keys) and all(type(obj["status"]) is str for obj in objects):
                return Match(97, named(keys))
        return None

    def beside(self, path: Path, listed: Collection[Path]) -> Slime | str:
        """Join a dump with its trajectories, and these with their token columns."""
        root = path.parent.parent
        if path.parent.name != "trajectory":
            return self._with(root / "trajectory" / f"{path.stem}.jsonl")
        if root / "rollout_data" / f"{path.stem}.pt" in listed and find_spec("torch"):
            return message("conversations of the rollouts in `rollout_data`, where they are read")
        name = f"rollout_{path.stem}.parquet"
        return self._with(root / "dashboard_columns" / name) if find_spec("pyarrow") else self

    def _with(self, file: Path) -> Slime:
        return replace(self, beside_file=FileStamp.of(file))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a sample without a reward, as an aborted one is, has no grade."""
        if "sample_index" not in obj:
            if self.beside_file:
                _join(obj, _trajectory(self.beside_file, logged.integer(obj.get("index"))))
        elif self.beside_file:
            _join(obj, _token_columns(self.beside_file, logged.integer(obj.get("sample_index"))))
        yield _row(obj, where)

    def split(self, name: str) -> str | None:
        """Return ``eval`` for ``eval_<n>``, else what the path names."""
        return "eval" if name.rpartition("/")[2].startswith("eval_") else split_of(name)


def _join(obj: Row, more: Row) -> None:
    """Give an object the members that it lacks; what it has it keeps."""
    obj.update({key: value for key, value in more.items() if key not in obj})


def _row(obj: Row, where: Where) -> Row:
    about = mapping(obj.get("metadata"))
    row = columns(obj, _KNOWN)
    row.update(columns(about, ("messages", "error")))
    for name in ("spec_info", "prefix_cache_info"):
        row.update({k: v for k, v in columns(mapping(obj.get(name)), ()).items() if v})
    label = obj.get("label")
    versions = [
        v for item in obj.get("weight_versions") or [] if (v := logged.integer(item)) is not None
    ]
    row |= {
        "step": logged.step_of(obj.get(ROLLOUT_ID), where, _STEP),
        **_reward(obj.get("reward")),
        **_conversation(obj, obj.get("messages") or about.get("messages")),
        **_token_arrays(obj),
        **present(
            group_id=logged.text_if_any(obj.get("group_index")),
            ground_truth=None if label in (None, "") else logged.text(label),
            policy_version=logged.version_range(
                min(versions, default=None), max(versions, default=None)
            ),
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
    """Return the reward; of an object the member that is the total, its numbers as columns."""
    if not isinstance(reward, dict):
        return {"reward": logged.grade(reward)}
    parts = {k: float(v) for k in reward if isinstance(v := reward[k], int | float)}
    named_total = next((parts[key] for key in _TOTALS if key in parts), None)
    alone = next(iter(parts.values())) if len(parts) == 1 else named_total
    return {"reward": alone, "reward_parts": parts} if parts else {"reward": None}


def _conversation(obj: Row, messages: Any) -> Row:
    prompt = obj.get("prompt")
    wrote = []
    if is_messages(messages):
        given = len(prompt) if isinstance(prompt, list) else 0
        wrote = [i >= given and m.get("role") == "assistant" for i, m in enumerate(messages)]
    if not any(wrote):
        return prompt_and_response_fields(prompt, logged.text(obj.get("response")))
    fields = conversation_fields(messages, wrote)
    return fields if fields["prompt"] else {**fields, "prompt": logged.text(prompt)}


def _token_arrays(obj: Row) -> Row:
    """Return ids, mask and the sampler's logprobs of what came after the prompt."""
    tokens, size = logged.ints(obj.get("tokens")), logged.integer(obj.get("response_length"))
    if not tokens or size is None or not 0 < size <= len(tokens):
        return {}
    row: Row = {"prompt_token_ids": tokens[:-size], "token_ids": tokens[-size:]}
    mask, logprobs = obj.get("loss_mask"), logged.numbers(obj.get("rollout_log_probs"))
    if isinstance(mask, list):
        row["response_mask"] = [int(m) for m in mask]
    if logprobs is not None:
        # One kind alone has nothing to be compared with.
        row["logprobs"] = logprobs
    return row


def _trajectory(file: FileStamp, sample: int | None) -> Row:
    """Return the messages of a sample."""
    place = None if sample is None else _lines_of(file).get(sample)
    if place is None:
        return {}
    with Path(file.path).open("rb") as lines:
        lines.seek(place)
        return {"messages": logged.json_object(lines.readline()).get("messages")}


def _token_columns(file: FileStamp, sample: int | None) -> Row:
    """Return the tokens of a sample."""
    place = None if sample is None else _rows_of(file).get(sample)
    found = {} if place is None else dict(iterate(file.path, "parquet", {place})).get(place, {})
    return {name: found[name] for name in _TOKENS if name in found}


@lru_cache(maxsize=4)
def _lines_of(file: FileStamp) -> dict[int, int]:
    """Return sample -> where its line begins."""
    samples, place = [], 0
    with Path(file.path).open("rb") as lines:
        for line in lines:
            samples.append((place, logged.integer(logged.json_object(line).get("sample_index"))))
            place += len(line)
    return _told_apart(samples)


@lru_cache(maxsize=4)
def _rows_of(file: FileStamp) -> dict[int, int]:
    """Return sample -> its row."""
    try:
        column = read_column(file.path, "sample_index")
    except (OSError, RowError):
        return {}
    return _told_apart(enumerate(map(logged.integer, column)))


def _told_apart(samples: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """Return sample -> place; those of several data sets may share an index, and have none then."""
    samples = list(samples)
    times = Counter(sample for _, sample in samples)
    return {s: place for place, s in samples if s is not None and times[s] == 1}
