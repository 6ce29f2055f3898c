"""verifiers: v1 traces (also prime-rl's rollouts), and the older ``results.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from rlreport.formats.base import (
    Match,
    Row,
    RowError,
    Stamp,
    Where,
    each,
    has_keys,
    named,
    split_of,
    stamp,
)
from rlreport.formats.messages import answer, asked_and_answered, said
from rlreport.formats.values import (
    columns,
    dicts,
    integer,
    ints,
    mapping,
    number,
    numbers,
    pick,
    required,
    step_in_path,
    text,
    total,
)
from rlreport.text.messages import message

_STEP = re.compile(r"step[_-]?(\d+)")
_OLD_KEYS = ("example_id", "prompt", "completion", "reward")
_LIMITS = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "max_turn_tokens"}
    | {"context_length", "compaction_failed"}
)
"""Stop conditions that verifiers counts as truncation (``Trace.is_truncated``)."""

_STREAMS = {
    "logprobs": "sampler_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "advantages": "advantages",
    "entropies": "entropies",
}
"""A node's floats, one for each sampled token."""

_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_FLAGS = ("stop_condition", "is_completed", "is_timeout", "dropped")


@dataclass(frozen=True, slots=True)
class Verifiers:
    """v1: one episode a line, each trace in it a response, the total Σ score · weight.

    A trace of an agent that is not trained is no response of the policy (``trainable`` false),
    and an episode without traces is a failed rollout. Before v1: one rollout a line. It logs no
    step: the path's is taken, else all is step 0.

    Attributes:
        effective, written: prime-rl's file of the traces that were trained on, where there is one.
    """

    effective: str | None = None
    written: Stamp | None = None
    id: str = "verifiers"
    description: str = "verifiers and prime-rl rollouts: traces.jsonl (v1), results.jsonl (older)"
    files: tuple[str, ...] = ("traces.jsonl", "results.jsonl")
    container: str = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim episodes made of traces, and an example's prompt, completion and reward."""
        if has_keys(objects, "traces") and all(map(_is_episode, objects)):
            return Match(95, "has `traces` made of `nodes`")
        if has_keys(objects, *_OLD_KEYS):
            return Match(90, named(_OLD_KEYS))
        return None

    def beside(self, path: Path, listed: Collection[Path]) -> Verifiers | str:
        """Read prime-rl's ``all``, of which ``effective`` is the part that was trained on."""
        subset, folder = path.parent.name, path.parent.parent
        if subset == "effective" and folder / "all" / path.name in listed:
            return message("a subset of `all` beside it, where its rows are read and marked")
        effective = folder / "effective" / path.name
        if subset == "all" and effective.is_file():
            return Verifiers(str(effective), stamp(effective))
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trace of an episode, or the row of an older result."""
        if "traces" not in obj:
            yield _result(obj, where)
            return
        if not _is_episode(obj):
            raise RowError(message("`traces` are no traces"))
        shared = _episode(obj, where)
        errors = _errors(obj.get("errors"))
        if not obj["traces"]:
            yield {**shared, **_failed(_asked(obj), errors)}
            return
        trained = None if self.effective is None else _trained(self.effective, self.written)

        def row_of(entry: tuple[int, Row]) -> Row:
            i, trace = entry
            row = {**shared, **_trace(trace, obj)}
            if not i and errors:
                row["errors"] = [*errors, *row.get("errors", [])]
            if trained is not None:
                identity = text(trace.get("id"))
                row["trained"] = identity in trained
                if "advantages" not in row and identity in trained:
                    row["advantages"] = trained[identity]
            return row

        yield from each(enumerate(obj["traces"]), row_of)

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    )


@lru_cache(maxsize=2)
def _trained(path: str, written: Stamp | None) -> dict[str, float | None]:
    """Return the trained traces' ids, with the advantage that prime-rl stamps on them."""
    found: dict[str, float | None] = {}
    with Path(path).open("rb") as lines:
        for line in lines:
            try:
                episode = orjson.loads(line)
            except ValueError:
                continue  # the torn last line of a growing log
            for trace in dicts(mapping(episode).get("traces")):
                advantage = mapping(trace.get("info")).get("advantage")
                known = float(advantage) if isinstance(advantage, int | float) else None
                found[text(trace.get("id"))] = known
    return found


def _result(obj: Row, where: Where) -> Row:
    """Return the row of a result before v1; its metrics become columns."""
    if obj.get("completion") is None:
        raise RowError(message("no `completion`"))
    known = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")
    row = columns(obj, known)
    row.update(columns(mapping(obj.get("metrics")), known))
    row.update(asked_and_answered(obj.get("prompt"), obj["completion"]).fields())
    row.update(
        step=_step(obj.get("step"), where),
        reward=required(obj, "reward"),
        group_id=text(obj.get("example_id")),
    )
    if obj.get("answer") not in (None, ""):
        row["ground_truth"] = text(obj["answer"])
    if obj.get("is_truncated") is True:
        row["finish_reason"] = "length"
    elif isinstance(obj.get("stop_condition"), str):
        row["finish_reason"] = obj["stop_condition"]
    timing = mapping(obj.get("timing"))
    if isinstance(timing.get("total"), int | float):
        row["seconds"] = float(timing["total"])
    elif isinstance(timing.get("total_ms"), int | float):
        row["seconds"] = timing["total_ms"] / 1000
    if obj.get("error") is not None:
        row["failed"] = True
        row["errors"] = [_error(obj["error"])]
    return row


def _step(logged: Any, where: Where) -> int:
    step = integer(logged)
    if step is None:
        step = step_in_path(where.name, _STEP)
    return 0 if step is None else step


def _episode(obj: Row, where: Where) -> Row:
    """Return what the traces of an episode share: step, group, environment, ground truth."""
    run = mapping(obj.get("run"))
    work = mapping(run.get("work"))
    data = mapping(mapping(obj.get("task")).get("data"))
    shared: Row = {"step": _step(work.get("step"), where)}
    group = mapping(obj.get("group")).get("id")
    if group is not None:
        shared["group_id"] = text(group)
    environment = mapping(obj.get("env"))
    name = environment.get("name") or environment.get("id")
    if isinstance(name, str):
        shared["env"] = name
    kind = work.get("type") or run.get("type")
    if kind in ("train", "eval"):
        shared["split"] = kind
    policy = mapping(work.get("policy"))
    first, last = integer(policy.get("start")), integer(policy.get("end"))
    if first is not None and last is not None:
        shared["policy_version"] = first if first == last else [first, last]
    truth = data.get("answer", data.get("ground_truth"))
    if truth is not None:
        shared["ground_truth"] = text(truth)
    if isinstance(obj.get("ok"), bool):
        shared["ok"] = obj["ok"]
    return shared


def _trace(trace: Row, episode: Row) -> Row:
    nodes = dicts(trace["nodes"])
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = sampled.index(True) if any(sampled) else len(nodes)
    messages = [node.get("message") for node in nodes]
    asked, turns = said(messages[:start])
    reply = answer(messages[start:], sampled[start:])
    rewards = mapping(trace.get("rewards"))
    parts = {name: _weighted(rewards[name]) for name in rewards}
    info = mapping(trace.get("info"))
    advantage = info.get("advantage")
    row: Row = {**columns(info, ("advantage",)), **columns(mapping(trace.get("metrics")), ())}
    row.update(
        prompt=asked or _asked(episode),
        response=reply.response,
        reward=total(parts.values()) if parts else number(trace.get("reward")),
    )
    if parts:
        row["reward_parts"] = parts
    if turns:
        row["prompt_turns"] = turns
    agent = mapping(trace.get("agent"))
    if isinstance(agent.get("name"), str):
        row["agent"] = agent["name"]
    if isinstance(agent.get("trainable"), bool):
        row["trainable"] = agent["trainable"]
    row.update({k: v for k in _FLAGS if isinstance(v := trace.get(k), str | bool)})
    row.update(_finish(trace))
    row.update(_seconds(mapping(trace.get("timing"))))
    spans = _tokens(nodes[start:], row, _ids_of(nodes[:start]))
    if len(reply.turns) == len(nodes) - start:
        _time_turns(reply.turns, dicts(trace.get("calls")), start)
    if len(spans) == len(reply.turns):
        for turn, span in zip(reply.turns, spans, strict=True):
            turn["tokens"] = list(span)
    if reply.turns:
        row["turns"] = reply.turns
    if "advantages" not in row and isinstance(advantage, int | float):
        row["advantages"] = float(advantage)
    errors = _errors(trace.get("errors"))
    if errors:
        row["errors"] = errors
        if start == len(nodes):
            row.update(_failed(row["prompt"], errors))
    return row


def _failed(prompt: str, errors: list[str]) -> Row:
    """Return what is known of a rollout that failed before the policy said anything."""
    return {
        "prompt": prompt, "response": "", "reward": math.nan, "finish_reason": "error",
        "errors": errors or ["no trace"], "trainable": False,
    }  # fmt: skip


def _asked(episode: Row) -> str:
    data = mapping(mapping(episode.get("task")).get("data"))
    return text(data.get("question", data.get("prompt")))


def _ids_of(nodes: Sequence[Row]) -> list[int]:
    return [token for node in nodes for token in ints(node.get("token_ids")) or []]


def _tokens(nodes: Sequence[Row], row: Row, before: list[int]) -> list[tuple[int, int]]:
    """Add the tokens after the prompt to ``row``, and return the span of each node in them.

    The first node opens with the tokens of its chat template, which belong to the prompt.
    """
    ids: list[int] = []
    mask: list[int] = []
    streams: dict[str, list[float]] = {name: [] for name in _STREAMS}
    spans = []
    for node in nodes:
        own, wrote = ints(node.get("token_ids")) or [], node.get("mask")
        wrote = [bool(m) for m in wrote] if isinstance(wrote, list) else []
        wrote = wrote if len(wrote) == len(own) else [False] * len(own)
        skip = 0
        if not any(mask):
            skip = wrote.index(True) if any(wrote) else len(own)
            before += own[:skip]
        begin = len(ids)
        ids += own[skip:]
        mask += [int(m) for m in wrote[skip:]]
        spans.append((begin, len(ids)))
        for name, values in streams.items():
            values.extend(_aligned(node.get(name), wrote)[skip:])
    if not ids:
        return []
    row["token_ids"], row["response_mask"] = ids, mask
    if before:
        row["prompt_token_ids"] = before
    logged = {n: v for n, v in streams.items() if not all(map(math.isnan, v))}
    entropies = [value for value in logged.pop("entropies", []) if not math.isnan(value)]
    if entropies:
        row["entropy_mean"] = math.fsum(entropies) / len(entropies)
    for name, values in logged.items():
        row[_STREAMS[name]] = values
    if "logprobs" not in row and "sampler_logprobs" in row:
        # One kind alone has nothing to be compared with.
        row["logprobs"] = row.pop("sampler_logprobs")
    return spans


def _aligned(value: Any, wrote: Sequence[bool]) -> list[float]:
    """Return a number for each token, NaN where it was not sampled.

    Logged is one number for each sampled token, or for every token.
    """
    values = numbers(value) or []
    if len(values) == len(wrote):
        values = pick(values, wrote) or []
    left = iter(values)
    return [next(left, math.nan) if sampled else math.nan for sampled in wrote]


def _time_turns(turns: Sequence[Row], calls: Sequence[Row], start: int) -> None:
    """Give the turns the seconds that their model calls took."""
    for call in calls:
        node, time = integer(call.get("node")), mapping(call.get("time"))
        begin, end = time.get("start"), time.get("end")
        if node is None or not 0 <= node - start < len(turns):
            continue
        if isinstance(begin, int | float) and isinstance(end, int | float) and end >= begin > 0:
            turns[node - start]["seconds"] = float(end - begin)


def _seconds(timing: Mapping[str, Any]) -> Row:
    """Return the seconds from the rollout's start to the end of its last stage."""
    ends = [mapping(timing.get(stage)).get("end") for stage in _STAGES]
    known = [float(end) for end in ends if isinstance(end, int | float)]
    begin = timing.get("start")
    if not isinstance(begin, int | float) or not known or max(known) < begin:
        return {}
    return {"seconds": max(known) - float(begin)}


def _weighted(reward: Any) -> float:
    if not isinstance(reward, dict):
        return number(reward)
    weight = reward.get("weight")
    return number(reward.get("score")) * (1.0 if weight is None else number(weight))


def _finish(trace: Row) -> Row:
    """Return why it ended: at a limit is ``length``, whatever else is said."""
    reason = trace.get("stop_condition")
    answered = [c for c in dicts(trace.get("calls")) if c.get("error") is None]
    cut = bool(answered) and answered[-1].get("finish_reason") == "length"
    if cut or reason in _LIMITS or trace.get("is_truncated") is True:
        return {"finish_reason": "length"}
    return {"finish_reason": reason} if isinstance(reason, str) else {}


def _errors(value: Any) -> list[str]:
    return [_error(item) for item in value] if isinstance(value, list) else []


def _error(value: Any) -> str:
    if isinstance(value, dict):
        said = [text(value.get(key)) for key in ("type", "error", "message") if value.get(key)]
        return ": ".join(said) or text(value)
    return text(value)
