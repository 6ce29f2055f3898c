"""verifiers: v1 traces (also prime-rl's rollouts), and the older ``results.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.messages import exchange, said
from rlreport.formats.values import (
    columns,
    dicts,
    integer,
    ints,
    number,
    numbers,
    pick,
    required,
    step_in_path,
    text,
    total,
)

_STEP = re.compile(r"step[_-]?(\d+)")


_OLD_KEYS = ("example_id", "prompt", "completion", "reward")


class Verifiers:
    """v1: one episode a line, each trace in it a response, the total Σ score · weight.

    Before v1: one rollout a line. It logs no step: the path's is taken, else all is step 0.
    """

    id = "verifiers"
    description = "verifiers and prime-rl rollouts: traces.jsonl (v1) and results.jsonl (older)"
    files = ("traces.jsonl", "results.jsonl")
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim episodes made of traces, and an example's prompt, completion and reward."""
        if has_keys(objects, "traces") and all(map(_is_episode, objects)):
            return Match(95, "has `traces` made of `nodes`")
        if has_keys(objects, *_OLD_KEYS):
            return Match(90, named(_OLD_KEYS))
        return None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trace of an episode, or the row of an older result."""
        if "traces" not in obj:
            yield _result(obj, where)
            return
        shared = _episode(obj, where)
        if not _is_episode(obj) or not obj["traces"]:
            raise RowError("an episode without traces")
        for trace in obj["traces"]:
            yield {**shared, **_trace(trace, obj)}

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    )


def _result(obj: Row, where: Where) -> Row:
    """Return the row of a result before v1; its metrics become columns."""
    if obj.get("completion") is None:
        raise RowError("no `completion`")
    prompt, turns = said(obj.get("prompt"))
    known = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")
    row = columns(obj, known)
    row.update(columns(_mapping(obj.get("metrics")), known))
    row.update(
        step=_step(obj.get("step"), where),
        prompt=prompt,
        response=said(obj["completion"])[0],
        reward=required(obj, "reward"),
        group_id=text(obj.get("example_id")),
    )
    if turns:
        row["prompt_turns"] = turns
    if obj.get("answer") not in (None, ""):
        row["ground_truth"] = text(obj["answer"])
    row.update(_finish(obj))
    if obj.get("error") is not None:
        row["failed"] = True
    return row


def _step(logged: Any, where: Where) -> int:
    step = integer(logged)
    if step is None:
        step = step_in_path(where.name, _STEP)
    return 0 if step is None else step


def _episode(obj: Row, where: Where) -> Row:
    """Return what the traces of an episode share: step, group, environment, ground truth."""
    run = _mapping(obj.get("run"))
    work = _mapping(run.get("work"))
    data = _mapping(_mapping(obj.get("task")).get("data"))
    shared: Row = {"step": _step(work.get("step"), where)}
    group = _mapping(obj.get("group")).get("id")
    if group is not None:
        shared["group_id"] = text(group)
    environment = _mapping(obj.get("env"))
    name = environment.get("name") or environment.get("id")
    if isinstance(name, str):
        shared["env"] = name
    kind = work.get("type") or run.get("type")
    if isinstance(kind, str):
        shared["run_type"] = kind
    answer = data.get("answer", data.get("ground_truth"))
    if answer is not None:
        shared["ground_truth"] = text(answer)
    if isinstance(obj.get("ok"), bool):
        shared["ok"] = obj["ok"]
    return shared


def _trace(trace: Row, episode: Row) -> Row:
    nodes = dicts(trace["nodes"])
    sampled = [bool(node.get("sampled")) for node in nodes]
    prompt, response, turns = exchange([node.get("message") for node in nodes], sampled)
    if not prompt:
        data = _mapping(_mapping(episode.get("task")).get("data"))
        prompt = text(data.get("question", data.get("prompt")))
    parts = {name: _weighted(reward) for name, reward in _mapping(trace.get("rewards")).items()}
    row: Row = columns(_mapping(trace.get("metrics")), ())
    row.update(
        prompt=prompt,
        response=response,
        reward=total(parts.values()) if parts else number(trace.get("reward")),
    )
    if parts:
        row["reward_parts"] = parts
    if turns:
        row["prompt_turns"] = turns
    row.update(_finish(trace))
    row.update(_tokens(nodes))
    advantage = _mapping(trace.get("info")).get("advantage")
    if "advantages" not in row and isinstance(advantage, int | float):
        row["advantages"] = float(advantage)
    return row


def _tokens(nodes: Sequence[Row]) -> Row:
    """Return ids and log-probabilities of the tokens whose mask is true, over all nodes."""
    ids: list[int] = []
    logprobs: list[float] = []
    advantages: list[float] = []
    for node in nodes:
        mask = node.get("mask")
        if not isinstance(mask, list):
            continue
        written = pick(ints(node.get("token_ids")) or [], mask) or []
        if not written:
            continue
        ids += written
        logprobs += _aligned(node.get("logprobs"), mask, len(written))
        advantages += _aligned(node.get("advantages"), mask, len(written))
    if not ids:
        return {}
    fields: Row = {"token_ids": ids}
    if not all(map(math.isnan, logprobs)):
        fields["logprobs"] = logprobs
    if not all(map(math.isnan, advantages)):
        fields["advantages"] = advantages
    return fields


def _aligned(value: Any, mask: Sequence[Any], written: int) -> list[float]:
    """Return one number for each written token: logged for those only, or for every token."""
    values = numbers(value) or []
    if len(values) == len(mask) != written:
        values = pick(values, mask) or []
    return values[:written] + [math.nan] * (written - len(values))


def _weighted(reward: Any) -> float:
    if not isinstance(reward, dict):
        return number(reward)
    weight = reward.get("weight")
    return number(reward.get("score")) * (1.0 if weight is None else number(weight))


def _finish(obj: Row) -> Row:
    """Return why it ended; a truncated rollout ended for its length, whatever else is said."""
    if obj.get("is_truncated") is True:
        return {"finish_reason": "length"}
    reason = obj.get("stop_condition")
    return {"finish_reason": reason} if isinstance(reason, str) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
