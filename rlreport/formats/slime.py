"""slime's and Miles' rollout dumps: ``rollout_data/<n>.pt``, ``trajectory/<n>.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from rlreport.formats.base import Match, Row, Stamp, Where, has_keys, named, split_of, stamp
from rlreport.formats.containers import fetch
from rlreport.formats.messages import asked_and_answered, exchange, is_messages
from rlreport.formats.steps import span_turns
from rlreport.formats.torch_file import ROLLOUT_ID
from rlreport.formats.values import (
    columns,
    integer,
    ints,
    mapping,
    number,
    numbers,
    step_of,
    text,
)
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


@dataclass(frozen=True, slots=True)
class Slime:
    """Samples of a rollout; their conversations, where Miles recorded them, lie beside.

    Attributes:
        beside_file: ``trajectory/<n>.jsonl`` beside a dump, or ``dashboard_columns/*.parquet``
            (ids, mask and logprobs) beside trajectories that are read alone.
        written: that file's stamp.
    """

    beside_file: str | None = None
    written: Stamp | None = None
    id: str = "slime"
    description: str = "slime and Miles rollout dumps (torch) and Miles' trajectories"
    files: tuple[str, ...] = ("rollout_data/<n>.pt", "trajectory/<n>.jsonl")
    container: str = "torch"

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
        return replace(self, beside_file=str(file), written=stamp(file)) if file.is_file() else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a sample without a reward, as an aborted one is, has NaN."""
        if "sample_index" not in obj:
            if self.beside_file:
                talks = _trajectories(self.beside_file, self.written)
                _join(obj, talks.get(integer(obj.get("index"))))
        elif self.beside_file:
            tokens = _token_columns(self.beside_file, self.written)
            _join(obj, tokens.get(integer(obj.get("sample_index"))))
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
    row["step"] = step_of(obj.get(ROLLOUT_ID), where, _STEP)
    row.update(_reward(obj.get("reward")))
    if obj.get("group_index") is not None:
        row["group_id"] = text(obj["group_index"])
    if obj.get("label") not in (None, ""):
        row["ground_truth"] = text(obj["label"])
    row.update(_conversation(obj, obj.get("messages") or about.get("messages")))
    row.update(_token_arrays(obj))
    span_turns(row)
    versions = [v for item in obj.get("weight_versions") or [] if (v := integer(item)) is not None]
    if versions:
        first, last = min(versions), max(versions)
        row["policy_version"] = first if first == last else [first, last]
    status = text(obj.get("status"))
    row["finish_reason"] = _DONE.get(status, status)
    if status in ("failed", "aborted"):
        row["errors"] = [text(about.get("error")) or status]
        if not row["response"] and not row.get("turns"):
            row.update(reward=math.nan, trainable=False)
    return row


def _reward(reward: Any) -> Row:
    """Return the reward; of an object the member that is the total, its numbers as columns."""
    if not isinstance(reward, dict):
        return {"reward": number(reward)}
    parts = {k: float(v) for k in reward if isinstance(v := reward[k], int | float)}
    named_total = next((parts[key] for key in _TOTALS if key in parts), math.nan)
    alone = next(iter(parts.values())) if len(parts) == 1 else named_total
    return {"reward": alone, "reward_parts": parts} if parts else {"reward": math.nan}


def _conversation(obj: Row, messages: Any) -> Row:
    prompt = obj.get("prompt")
    if not is_messages(messages):
        return asked_and_answered(prompt, text(obj.get("response"))).fields()
    given = len(prompt) if isinstance(prompt, list) else 0
    wrote = [i >= given and m.get("role") == "assistant" for i, m in enumerate(messages)]
    if not any(wrote):
        return asked_and_answered(prompt, text(obj.get("response"))).fields()
    talk = exchange(messages, wrote)
    if not talk.prompt:
        talk.prompt = text(prompt)
    return talk.fields()


def _token_arrays(obj: Row) -> Row:
    """Return ids, mask and the sampler's logprobs of what came after the prompt."""
    tokens, size = ints(obj.get("tokens")), integer(obj.get("response_length"))
    if not tokens or size is None or not 0 < size <= len(tokens):
        return {}
    row: Row = {"prompt_token_ids": tokens[:-size], "token_ids": tokens[-size:]}
    mask, logprobs = obj.get("loss_mask"), numbers(obj.get("rollout_log_probs"))
    if isinstance(mask, list):
        row["response_mask"] = [int(m) for m in mask]
    if logprobs is not None:
        # One kind alone has nothing to be compared with.
        row["logprobs"] = logprobs
    return row


class _Index:
    """Which row of a file is which sample's; a sample of several rows has none.

    Samples of several data sets may share an index: which is whose is not told.
    """

    def __init__(self, path: str, samples: Iterable[tuple[int, int | None]]) -> None:
        self._path = path
        self._places: dict[int, int] = {}
        repeated: set[int] = set()
        for place, index in samples:
            if index in self._places:
                repeated.add(index)
            elif index is not None:
                self._places[index] = place
        for index in repeated:
            del self._places[index]

    def get(self, index: int | None) -> Row:
        """Return what a sample's row holds, {} where there is none."""
        place = None if index is None else self._places.get(index)
        return {} if place is None else self._at(place)

    def _at(self, place: int) -> Row:
        with Path(self._path).open("rb") as lines:
            lines.seek(place)
            return {"messages": _object(lines.readline()).get("messages")}


class _Columns(_Index):
    """As the base, of a parquet file."""

    def _at(self, place: int) -> Row:
        found = dict(fetch(self._path, "parquet", [place])).get(place, {})
        return {name: found[name] for name in _TOKENS if name in found}


def _object(line: bytes) -> Row:
    try:
        return mapping(orjson.loads(line))
    except ValueError:
        return {}  # the torn last line of a growing log


@lru_cache(maxsize=4)
def _trajectories(path: str, written: Stamp | None) -> _Index:
    return _Index(path, _indices(path))


def _indices(path: str) -> Iterator[tuple[int, int | None]]:
    with Path(path).open("rb") as lines:
        place = 0
        for line in lines:
            yield place, integer(_object(line).get("sample_index"))
            place += len(line)


@lru_cache(maxsize=4)
def _token_columns(path: str, written: Stamp | None) -> _Index:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["sample_index"])
    except (pa.ArrowException, OSError):
        return _Index(path, ())
    return _Columns(path, enumerate(map(integer, table.column(0).to_pylist())))
