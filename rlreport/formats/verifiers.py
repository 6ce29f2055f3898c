"""verifiers: v1 traces (also prime-rl's rollouts), and the older ``results.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.annotations import (
    FOLDER,
    Updates,
    annotation_files,
    is_effective,
    missing_chunks,
    updated,
    updates_in,
)
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.text.chat import prompt_and_response_fields, prompt_fields, response_fields
from rlreport.text.messages import message, phrases

_STEP = re.compile(r"step[_-]?(\d+)")
_OLD_KEYS = ("example_id", "prompt", "completion", "reward")
_UPDATE_KEYS = ("trace_id", "info", "branches")
_OLD_KNOWN = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")
_LIMITS = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "max_turn_tokens"}
    | {"context_length", "compaction_failed"}
)
"""Stop conditions that count as truncation in verifiers (``Trace.is_truncated``)."""

_STREAMS = {
    "logprobs": "sampler_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "advantages": "advantages",
    "entropies": "entropies",
}
"""Float arrays of a node, with one entry per sampled token."""

_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_FLAGS = ("stop_condition", "is_completed", "is_timeout", "dropped")


class Verifiers(BaseFormat):
    """v1: one episode per line; each trace in it is a response with reward Σ score · weight.

    Traces of agents that are not trained (``trainable`` false) are no responses of the policy,
    and an episode without traces is a failed rollout. Before v1: one rollout per line. Steps are
    not logged; they are read from the path, else all rows are step 0. The ``sibling`` is
    prime-rl's file of the traces that were trained on; since September 2026 it writes updates of
    traces instead (``annotations``): then the step is the one the trace was trained at, and
    traces that were not used are left out.
    """

    id = "verifiers"
    alone = False
    description = "verifiers and prime-rl rollouts: traces.jsonl (v1), results.jsonl (older)"
    files = ("traces.jsonl", "results.jsonl", "traces/stream/<n>.jsonl")
    claims = (("traces",), _OLD_KEYS, _UPDATE_KEYS)

    def __init__(
        self,
        sibling: FileStamp | None = None,
        annotations: tuple[FileStamp, ...] = (),
        remark: str = "",
    ) -> None:
        super().__init__(sibling, remark)
        self.annotations = annotations

    def recognizes(self, obj: Row) -> bool:
        """Return whether an object with traces is an episode."""
        return "traces" not in obj or _is_episode(obj)

    def writer(self, obj: Row) -> str:
        """Return the version of verifiers, which every trace names."""
        if "traces" not in obj:
            return "prime-rl's updates of traces" if "trace_id" in obj else "before version 1"
        traces = dicts(obj["traces"]) or [{}]
        version = logged.string(mapping(traces[0].get("verifiers")).get("version"))
        return f"verifiers {version[:40]}" if version else ""

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Verifiers | str:
        """Read prime-rl's ``all``, but not ``effective``, its subset that was trained on."""
        subset, folder = path.parent.name, path.parent.parent
        if FOLDER in path.parts[-3:-1]:
            return message("prime-rl's updates of traces, merged into the traces")
        if path.with_name(f"{path.name}.zst") in listed:
            return message("the same chunk is there packed")
        if files := annotation_files(path):
            chunks = [file for file in listed if file.parent == path.parent]
            problems = [*updates_in(files).problems, *missing_chunks(chunks)]
            text = message("prime-rl's updates of traces: {problems}", problems=phrases(problems))
            told = problems and path == min(chunks)
            return Verifiers(annotations=files, remark=text if told else "")
        if subset == "effective" and folder / "all" / path.name in listed:
            return message("a subset of the sibling `all`, where its rows are read and marked")
        effective = folder / "effective" / path.name
        return Verifiers(FileStamp.of(effective)) if subset == "all" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row per trace of an episode, or the row of a result older than v1."""
        if "trace_id" in obj and "traces" not in obj:
            raise RowError(
                message(
                    "an update of a trace, not a response: give the folder that has the traces, too"
                )
            )
        if "traces" not in obj:
            yield _result(obj, where)
            return
        if not _is_episode(obj):
            raise RowError(message("`traces` does not contain traces"))
        shared = _episode(obj, where)
        errors = _errors(obj.get("errors"))
        if not obj["traces"]:
            failed = logged.failed_fields(_question(obj), *(errors or ["no trace"]))
            yield {**shared, **failed, "finish_reason": "error"}
            return

        def row_of(entry: tuple[int, Row]) -> Row:
            place, trace = entry
            if self.annotations:
                updates = updates_in(self.annotations)
                trace = updated(trace, updates.of(logged.text(trace["id"])))
            row = {**shared, **_trace(trace, obj)}
            if self.annotations:
                row |= _use(mapping(trace.get("info")), row, updates)
                if updates.trained and not any("trainer_logprobs" in n for n in trace["nodes"]):
                    # Those of the sampler are not comparable with the trainer's of other rows.
                    row |= fields(sampler_logprobs=row.pop("logprobs", None))
            if not place and errors:
                row["errors"] = [*errors, *row.get("errors", [])]
            if self.sibling:
                trained, identity = _trained(self.sibling), logged.text(trace.get("id"))
                row["trained"] = identity in trained
                if identity in trained:
                    row.setdefault("advantages", trained[identity])
            return row

        yield from logged.each(enumerate(obj["traces"]), row_of)


def _use(info: Row, row: Row, updates: Updates) -> Row:
    """Return the step a trace was trained at, and whether it was filtered out before."""
    kind = "eval" if row.get("split") == "eval" else "train"
    step = logged.integer(mapping(info.get(kind)).get("trained_at_step"))
    return fields(
        step=step,
        filtered_out=True if kind in updates.judged and not is_effective(info, kind) else None,
    )


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    )


@lru_cache(maxsize=2)
def _trained(file: FileStamp) -> dict[str, float | None]:
    """Return id -> advantage of the traces that prime-rl trained on."""
    advantages: dict[str, float | None] = {}
    for obj in logged.lines_of(file):
        for trace in dicts(obj.get("traces")):
            advantage = mapping(trace.get("info")).get("advantage")
            advantages[logged.text(trace.get("id"))] = logged.real(advantage)
    return advantages


def _result(obj: Row, where: Where) -> Row:
    """Return the row of a result in the format before v1; its metrics become columns."""
    if obj.get("completion") is None:
        raise RowError(message("no `completion`"))
    timing, error = mapping(obj.get("timing")), obj.get("error")
    seconds, millis = logged.real(timing.get("total")), logged.real(timing.get("total_ms"))
    if seconds is None and millis is not None:
        seconds = millis / 1000
    cut = obj.get("is_truncated") is True
    return {
        **columns(obj, _OLD_KNOWN),
        **columns(mapping(obj.get("metrics")), _OLD_KNOWN),
        **prompt_and_response_fields(obj.get("prompt"), obj["completion"]),
        "step": _step(obj.get("step"), where),
        "reward": logged.required(obj, "reward"),
        "group_id": logged.text(obj.get("example_id")),
        **fields(
            ground_truth=obj.get("answer"),
            finish_reason="length" if cut else obj.get("stop_condition"),
            seconds=seconds,
            failed=None if error is None else True,
            errors=error and [_error(error)],
        ),
    }


def _step(value: Any, where: Where) -> int:
    step = logged.integer(value)
    return step if step is not None else logged.step_in_path(where.name, _STEP) or 0


def _episode(obj: Row, where: Where) -> Row:
    """Return what the traces of an episode share: step, group, environment, ground truth."""
    run = mapping(obj.get("run"))
    work = mapping(run.get("work"))
    data = mapping(mapping(obj.get("task")).get("data"))
    environment, policy = mapping(obj.get("env")), mapping(work.get("policy"))
    kind = work.get("type") or run.get("type")
    return {
        "step": _step(work.get("step"), where),
        **fields(
            group_id=mapping(obj.get("group")).get("id"),
            env=environment.get("name") or environment.get("id"),
            split=kind if kind in ("train", "eval") else None,
            policy_version=(policy.get("start"), policy.get("end")),
            ground_truth=data.get("answer", data.get("ground_truth")),
            ok=obj["ok"] if isinstance(obj.get("ok"), bool) else None,
        ),
    }


def _trace(trace: Row, episode: Row) -> Row:
    nodes = dicts(trace["nodes"])
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = sampled.index(True) if any(sampled) else len(nodes)
    messages = [node.get("message") for node in nodes]
    prompt = prompt_fields(messages[:start])
    texts = prompt | response_fields(messages[start:], sampled[start:])
    rewards = mapping(trace.get("rewards"))
    parts = {name: _weighted(rewards[name]) for name in rewards}
    info, agent = mapping(trace.get("info")), mapping(trace.get("agent"))
    trainable, advantage = agent.get("trainable"), logged.real(info.get("advantage"))
    tokens, spans = _tokens(nodes, start)
    turns = texts.get("turns", [])
    if len(turns) == len(nodes) - start:
        _time_turns(turns, dicts(trace.get("calls")), start)
    if len(turns) == len(spans):
        for turn, span in zip(turns, spans, strict=True):
            turn["tokens"] = list(span)
    row: Row = {
        **columns(info, ("advantage", "kind")),
        **columns(mapping(trace.get("metrics"))),
        **texts,
        "prompt": prompt["prompt"] or _question(episode),
        "reward": logged.total(parts.values()) if parts else logged.grade(trace.get("reward")),
        **fields(
            reward_parts=parts,
            agent=agent.get("name"),
            trainable=trainable if isinstance(trainable, bool) else None,
            finish_reason=_finish_reason(trace),
            seconds=_seconds(mapping(trace.get("timing"))),
            advantages=advantage,
        ),
        **{key: v for key in _FLAGS if isinstance(v := trace.get(key), str | bool)},
        **tokens,
    }
    errors = _errors(trace.get("errors"))
    if errors:
        row["errors"] = errors
        if start == len(nodes):
            row |= {**logged.failed_fields(row["prompt"], *errors), "finish_reason": "error"}
    return row


def _question(episode: Row) -> str:
    data = mapping(mapping(episode.get("task")).get("data"))
    return logged.text(data.get("question", data.get("prompt")))


def _tokens(nodes: Sequence[Row], start: int) -> tuple[Row, list[tuple[int, int]]]:
    """Return the fields of the tokens after the prompt, and the span of each node in them.

    Node ``start`` begins with tokens of the chat template, which belong to the prompt. A node
    that lacks an array of the others was not trained on, such as a summary of the context: its
    tokens count as given.
    """
    present = [name for name in _STREAMS if any(node.get(name) for node in nodes[start:])]
    before = [token for node in nodes[:start] for token in logged.ints(node.get("token_ids")) or []]
    ids: list[int] = []
    mask: list[int] = []
    streams: dict[str, list[float]] = {name: [] for name in _STREAMS}
    spans = []
    for node in nodes[start:]:
        node_ids, node_mask = logged.ints(node.get("token_ids")) or [], node.get("mask")
        sampled = list(map(bool, node_mask)) if isinstance(node_mask, list) else []
        absent = not all(node.get(name) for name in present if name != "entropies")
        if absent or len(sampled) != len(node_ids):
            sampled = [False] * len(node_ids)
        skip = 0
        if not any(mask):
            skip = sampled.index(True) if any(sampled) else len(node_ids)
            before += node_ids[:skip]
        spans.append((len(ids), len(ids) + len(node_ids) - skip))
        ids += node_ids[skip:]
        mask += map(int, sampled[skip:])
        for name, values in streams.items():
            values.extend(_aligned(node.get(name), sampled)[skip:])
    if not ids:
        return {}, []
    row: Row = {"token_ids": ids, "response_mask": mask}
    if before:
        row["prompt_token_ids"] = before
    entropies = [value for value in streams.pop("entropies") if not math.isnan(value)]
    if entropies:
        row["entropy_mean"] = math.fsum(entropies) / len(entropies)
    for name, values in streams.items():
        if not all(map(math.isnan, values)):
            row[_STREAMS[name]] = values
    if "logprobs" not in row and "sampler_logprobs" in row:
        # One kind alone has nothing to be compared with.
        row["logprobs"] = row.pop("sampler_logprobs")
    return row, spans


def _aligned(value: Any, sampled: Sequence[bool]) -> list[float]:
    """Return a number for each token, NaN for tokens that were not sampled.

    The log has one number per sampled token, or one per token.
    """
    values = logged.numbers(value) or []
    if len(values) == len(sampled):
        values = list(compress(values, sampled))
    left = iter(values)
    return [next(left, math.nan) if one else math.nan for one in sampled]


def _time_turns(turns: Sequence[Row], calls: Sequence[Row], start: int) -> None:
    """Set the seconds of the turns to the durations of their model calls."""
    for call in calls:
        node, time = logged.integer(call.get("node")), mapping(call.get("time"))
        begin, end = logged.real(time.get("start")), logged.real(time.get("end"))
        if node is None or begin is None or end is None:
            continue
        if 0 <= node - start < len(turns) and end >= begin > 0:
            turns[node - start]["seconds"] = end - begin


def _seconds(timing: Row) -> float | None:
    """Return the seconds from the rollout's start to the end of its last stage."""
    begin = logged.real(timing.get("start"))
    ends = [logged.real(mapping(timing.get(stage)).get("end")) for stage in _STAGES]
    last = max((end for end in ends if end is not None), default=None)
    return None if begin is None or last is None or last < begin else last - begin


def _weighted(reward: Any) -> float:
    if not isinstance(reward, dict):
        return logged.parse_number(reward)
    score, weight = logged.parse_number(reward.get("score")), reward.get("weight")
    return score if weight is None else score * logged.parse_number(weight)


def _finish_reason(trace: Row) -> str | None:
    """Return the finish reason; ``length`` at a limit, whatever other reason is logged."""
    reason = trace.get("stop_condition")
    answered = [call for call in dicts(trace.get("calls")) if call.get("error") is None]
    cut = bool(answered) and answered[-1].get("finish_reason") == "length"
    if cut or reason in _LIMITS or trace.get("is_truncated") is True:
        return "length"
    return logged.string(reason)


def _errors(value: Any) -> list[str]:
    return [_error(item) for item in value] if isinstance(value, list) else []


def _error(value: Any) -> str:
    parts = [mapping(value).get(key) for key in ("type", "error", "message")]
    return ": ".join(logged.text(part) for part in parts if part) or logged.text(value)
