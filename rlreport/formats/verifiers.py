"""verifiers: v1 traces (also prime-rl's rollouts), and the older ``results.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
    each,
    has_keys,
    named,
)
from rlreport.formats.logged import columns, dicts, mapping, present
from rlreport.formats.messages import prompt_and_response_fields, response_and_turns, text_and_turns
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


@dataclass(frozen=True)
class Verifiers(BaseFormat):
    """v1: one episode a line, each trace in it a response, the total Σ score · weight.

    A trace of an agent that is not trained is no response of the policy (``trainable`` false),
    and an episode without traces is a failed rollout. Before v1: one rollout a line. It logs no
    step: the path's is taken, else all is step 0.

    Attributes:
        effective: prime-rl's file of the traces that were trained on, where there is one.
    """

    effective: FileStamp | None = None
    id = "verifiers"
    alone = False
    description = "verifiers and prime-rl rollouts: traces.jsonl (v1), results.jsonl (older)"
    files = ("traces.jsonl", "results.jsonl")

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
        return Verifiers(FileStamp.of(effective)) if subset == "all" else self

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
        trained = None if self.effective is None else _trained(self.effective)

        def row_of(entry: tuple[int, Row]) -> Row:
            i, trace = entry
            row = {**shared, **_trace(trace, obj)}
            if not i and errors:
                row["errors"] = [*errors, *row.get("errors", [])]
            if trained is not None:
                identity = logged.text(trace.get("id"))
                row["trained"] = identity in trained
                if "advantages" not in row and identity in trained:
                    row["advantages"] = trained[identity]
            return row

        yield from each(enumerate(obj["traces"]), row_of)


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    )


@lru_cache(maxsize=2)
def _trained(file: FileStamp) -> dict[str, float | None]:
    """Return the trained traces' ids, with the advantage that prime-rl stamps on them."""
    found: dict[str, float | None] = {}
    with Path(file.path).open("rb") as lines:
        for line in lines:
            for trace in dicts(logged.json_object(line).get("traces")):
                advantage = mapping(trace.get("info")).get("advantage")
                found[logged.text(trace.get("id"))] = logged.real(advantage)
    return found


def _result(obj: Row, where: Where) -> Row:
    """Return the row of a result before v1; its metrics become columns."""
    if obj.get("completion") is None:
        raise RowError(message("no `completion`"))
    known = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")
    timing, error, truth = mapping(obj.get("timing")), obj.get("error"), obj.get("answer")
    seconds = logged.real(timing.get("total"))
    if seconds is None and (millis := logged.real(timing.get("total_ms"))) is not None:
        seconds = millis / 1000
    cut = obj.get("is_truncated") is True
    return {
        **columns(obj, known),
        **columns(mapping(obj.get("metrics")), known),
        **prompt_and_response_fields(obj.get("prompt"), obj["completion"]),
        "step": _step(obj.get("step"), where),
        "reward": logged.required(obj, "reward"),
        "group_id": logged.text(obj.get("example_id")),
        **present(
            ground_truth=None if truth in (None, "") else logged.text(truth),
            finish_reason="length" if cut else logged.string(obj.get("stop_condition")),
            seconds=seconds,
            failed=None if error is None else True,
            errors=None if error is None else [_error(error)],
        ),
    }


def _step(said_step: Any, where: Where) -> int:
    step = logged.integer(said_step)
    if step is None:
        step = logged.step_in_path(where.name, _STEP)
    return 0 if step is None else step


def _episode(obj: Row, where: Where) -> Row:
    """Return what the traces of an episode share: step, group, environment, ground truth."""
    run = mapping(obj.get("run"))
    work = mapping(run.get("work"))
    data = mapping(mapping(obj.get("task")).get("data"))
    environment = mapping(obj.get("env"))
    kind = work.get("type") or run.get("type")
    policy = mapping(work.get("policy"))
    return {
        "step": _step(work.get("step"), where),
        **present(
            group_id=logged.text_if_any(mapping(obj.get("group")).get("id")),
            env=logged.string(environment.get("name") or environment.get("id")),
            split=kind if kind in ("train", "eval") else None,
            policy_version=logged.version_range(
                logged.integer(policy.get("start")), logged.integer(policy.get("end"))
            ),
            ground_truth=logged.text_if_any(data.get("answer", data.get("ground_truth"))),
            ok=obj["ok"] if isinstance(obj.get("ok"), bool) else None,
        ),
    }


def _trace(trace: Row, episode: Row) -> Row:
    nodes = dicts(trace["nodes"])
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = sampled.index(True) if any(sampled) else len(nodes)
    messages = [node.get("message") for node in nodes]
    asked, turns = text_and_turns(messages[:start])
    response, replies = response_and_turns(messages[start:], sampled[start:])
    rewards = mapping(trace.get("rewards"))
    parts = {name: _weighted(rewards[name]) for name in rewards}
    info, agent = mapping(trace.get("info")), mapping(trace.get("agent"))
    advantage, trained = logged.real(info.get("advantage")), agent.get("trainable")
    row: Row = {
        **columns(info, ("advantage",)),
        **columns(mapping(trace.get("metrics")), ()),
        "prompt": asked or _asked(episode),
        "response": response,
        "reward": logged.total(parts.values()) if parts else logged.grade(trace.get("reward")),
        **present(
            reward_parts=parts or None,
            prompt_turns=turns or None,
            agent=logged.string(agent.get("name")),
            trainable=trained if isinstance(trained, bool) else None,
        ),
        **{k: v for k in _FLAGS if isinstance(v := trace.get(k), str | bool)},
        **_finish(trace),
        **_seconds(mapping(trace.get("timing"))),
    }
    spans = _tokens(nodes[start:], row, _ids_of(nodes[:start]))
    if len(replies) == len(nodes) - start:
        _time_turns(replies, dicts(trace.get("calls")), start)
    if len(spans) == len(replies):
        for turn, span in zip(replies, spans, strict=True):
            turn["tokens"] = list(span)
    if replies:
        row["turns"] = replies
    if "advantages" not in row:
        row |= present(advantages=advantage)
    errors = _errors(trace.get("errors"))
    if errors:
        row["errors"] = errors
        if start == len(nodes):
            row.update(_failed(row["prompt"], errors))
    return row


def _failed(prompt: str, errors: list[str]) -> Row:
    """Return what is known of a rollout that failed before the policy said anything."""
    return {
        "prompt": prompt, "response": "", "reward": None, "finish_reason": "error",
        "errors": errors or ["no trace"], "trainable": False,
    }  # fmt: skip


def _asked(episode: Row) -> str:
    data = mapping(mapping(episode.get("task")).get("data"))
    return logged.text(data.get("question", data.get("prompt")))


def _ids_of(nodes: Sequence[Row]) -> list[int]:
    return [token for node in nodes for token in logged.ints(node.get("token_ids")) or []]


def _tokens(nodes: Sequence[Row], row: Row, before: list[int]) -> list[tuple[int, int]]:
    """Add the tokens after the prompt to ``row``, and return the span of each node in them.

    The first node opens with the tokens of its chat template, which belong to the prompt.
    """
    ids: list[int] = []
    mask: list[int] = []
    streams: dict[str, list[float]] = {name: [] for name in _STREAMS}
    spans = []
    for node in nodes:
        own, wrote = logged.ints(node.get("token_ids")) or [], node.get("mask")
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
    sampled = {n: v for n, v in streams.items() if not all(map(math.isnan, v))}
    entropies = [value for value in sampled.pop("entropies", []) if not math.isnan(value)]
    if entropies:
        row["entropy_mean"] = math.fsum(entropies) / len(entropies)
    for name, values in sampled.items():
        row[_STREAMS[name]] = values
    if "logprobs" not in row and "sampler_logprobs" in row:
        # One kind alone has nothing to be compared with.
        row["logprobs"] = row.pop("sampler_logprobs")
    return spans


def _aligned(value: Any, wrote: Sequence[bool]) -> list[float]:
    """Return a number for each token, NaN where it was not sampled.

    Logged is one number for each sampled token, or for every token.
    """
    values = logged.numbers(value) or []
    if len(values) == len(wrote):
        values = logged.pick(values, wrote) or []
    left = iter(values)
    return [next(left, math.nan) if sampled else math.nan for sampled in wrote]


def _time_turns(turns: Sequence[Row], calls: Sequence[Row], start: int) -> None:
    """Give the turns the seconds that their model calls took."""
    for call in calls:
        node, time = logged.integer(call.get("node")), mapping(call.get("time"))
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
        return logged.parse_number(reward)
    weight = reward.get("weight")
    return logged.parse_number(reward.get("score")) * (
        1.0 if weight is None else logged.parse_number(weight)
    )


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
        said = [
            logged.text(value.get(key)) for key in ("type", "error", "message") if value.get(key)
        ]
        return ": ".join(said) or logged.text(value)
    return logged.text(value)
