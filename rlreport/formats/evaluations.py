"""Log formats of evaluation harnesses: Inspect, lm-evaluation-harness and Harbor (ATIF)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.containers import HEADER
from rlreport.formats.logged import columns, dicts, fields, mapping, span_turns, tokens_of_steps
from rlreport.system import coerce
from rlreport.text.chat import conversation_fields, prompt_fields
from rlreport.text.messages import message

# Inspect's letter grades as rewards: correct, partial, incorrect, no answer
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}

# Inspect's stop reason or type of limit -> finish reason in a row
_LIMITS = {
    **dict.fromkeys(("max_tokens", "model_length", "token", "context"), "length"),
    **dict.fromkeys(("message", "turn"), "max_turns"),
    **dict.fromkeys(("time", "working"), "timeout"),
    **dict.fromkeys(("cost", "operator", "custom"), "abort"),
}

_ATTACHMENT_PREFIX = "attachment://"
_LM_EVAL_NAME = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[^/]*)?\.(?:jsonl|json)")
_LM_EVAL_KEYS = frozenset(
    {"doc_id", "arguments", "resps", "target", "doc", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)
_ATIF_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


class InspectAI(BaseFormat):
    """Inspect's format: one row per sample and epoch, rewarded with the first scorer's value."""

    id = "inspect"
    evaluates = True
    description = "Inspect evaluation logs (.eval)"
    claims = (("id", "epoch", "input", "target"),)
    confidence = 97
    files = ("*.eval",)
    container = "inspect"

    def recognizes(self, obj: Row) -> bool:
        return HEADER in obj

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        header = mapping(obj.get(HEADER))
        attachments = mapping(obj.get("attachments"))
        messages = [_message(one, attachments) for one in dicts(obj.get("messages"))]
        sampled = [m["role"] == "assistant" and m["source"] != "input" for m in messages]
        if any(m["role"] == "assistant" for m in messages):
            texts = conversation_fields(messages, sampled)
        else:
            inputs = [_message(one, attachments) for one in dicts(obj.get("input"))]
            texts = {"prompt": prompt_fields(inputs or obj.get("input"))["prompt"], "response": ""}
        parts = _scores(mapping(obj.get("scores")))
        target = obj.get("target")
        targets = target if isinstance(target, list) else [target]
        yield {
            **columns(mapping(obj.get("metadata"))),
            **texts,
            "step": 0,
            "epoch": obj.get("epoch"),
            "reward": next(iter(parts.values()), None),
            "group_id": coerce.text(obj.get("id")),
            **fields(
                task=header.get("task"),
                model=header.get("model"),
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=", ".join(map(coerce.text, targets)),
                seconds=obj.get("total_time"),
            ),
            **_ending(obj, messages, sum(sampled)),
        }


def _ending(obj: Row, messages: Sequence[Row], replies: int) -> Row:
    output = mapping(obj.get("output"))
    choice = next(iter(dicts(output.get("choices"))), {})
    row: Row = {}
    reason = mapping(obj.get("limit")).get("type") or choice.get("stop_reason")
    if isinstance(reason, str) and reason != "unknown":
        row["finish_reason"] = _LIMITS.get(reason, reason)
    error = mapping(obj.get("error")).get("message") or output.get("error")
    if error:
        row["errors"] = [coerce.text(error)]
        if not any(m["role"] == "assistant" for m in messages):
            row.update(trainable=False, finish_reason="error")
    tokens = dicts(mapping(choice.get("logprobs")).get("content"))
    if tokens and replies == 1:
        row["response_tokens"] = [coerce.text(token.get("token")) for token in tokens]
        row["logprobs"] = [coerce.number(token.get("logprob")) for token in tokens]
    return row


def _scores(scores: Row) -> dict[str, float]:
    """Return scorer (``scorer/key`` for a dict) -> number, also of grades like "C"; omit rest."""
    values: Row = {}
    for name in scores:
        value: Any = mapping(scores[name]).get("value")
        parts = {f"{name}/{key}": value[key] for key in mapping(value)}
        values |= parts if isinstance(value, dict) else {name: value}
    graded = {key: _GRADES.get(v, v) if isinstance(v, str) else v for key, v in values.items()}
    return coerce.reals(graded)


def _message(logged_message: Row, attachments: Row) -> Row:
    role = coerce.text(logged_message.get("role"))
    parts = logged_message.get("content")
    result: Row = {"role": role, "source": logged_message.get("source")}
    if isinstance(parts, list):
        thoughts = [p.get("reasoning") for p in dicts(parts) if p.get("type") == "reasoning"]
        result["reasoning_content"] = "\n".join(filter(None, map(coerce.text, thoughts)))
        result["content"] = [
            {**part, "text": _resolve_attachment(text, attachments)}
            if (text := mapping(part).get("text"))
            else part
            for part in parts
            if mapping(part).get("type") != "reasoning"
        ]
    else:
        result["content"] = _resolve_attachment(parts, attachments)
    result["tool_calls"] = [
        {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
        for call in dicts(logged_message.get("tool_calls"))
    ]
    if role == "tool":
        result |= {
            "name": logged_message.get("function"),
            "tool_call_id": logged_message.get("tool_call_id"),
            "error": logged.error_text(logged_message.get("error"), "type", "message"),
        }
    return result


def _resolve_attachment(content: Any, attachments: Row) -> Any:
    if isinstance(content, str) and content.startswith(_ATTACHMENT_PREFIX):
        return attachments.get(content.removeprefix(_ATTACHMENT_PREFIX), content)
    return content


class LMEval(BaseFormat):
    """The format of lm-evaluation-harness samples: one document (question) per line and filter."""

    id = "lm_eval"
    evaluates = True
    description = "lm-evaluation-harness --log_samples: one evaluation, one file per task"
    files = ("samples_<task>_<time>.jsonl",)
    claims = (("doc_id", "arguments", "resps", "target"),)
    filter: str | None = None  # the file's first filter: only its lines are read; None for all

    def with_siblings(self, path: Path, listed: Collection[Path]) -> LMEval:
        first = None
        with suppress(OSError), path.open("rb") as lines:
            first = logged.json_object(lines.readline()).get("filter")
        if not isinstance(first, str):
            return self
        remark_text = message("only lines of filter {filter} are read", filter=f"`{first}`")
        form = LMEval(remark="" if first == "none" else remark_text)
        form.filter = first
        return form

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        if self.filter is not None and obj.get("filter") != self.filter:
            logged.read_all(obj)
            return
        requests = mapping(obj.get("arguments"))
        arguments = [mapping(requests[name]) for name in requests]
        resps = obj.get("resps")
        if not arguments or not isinstance(resps, list) or not resps:
            raise RowError(message("`arguments` or `resps` is missing or empty"))
        metrics = obj.get("metrics")
        names = metrics if isinstance(metrics, list) else []
        names = [name for name in names if isinstance(name, str)] or ["exact_match"]
        parts = coerce.reals({name: obj.get(name) for name in names})
        response = _response(arguments, resps)
        task = _LM_EVAL_NAME.search(where.name)
        filtered = obj.get("filtered_resps")
        answer = filtered[0] if isinstance(filtered, list) and filtered else None
        answer = answer[:200] if isinstance(answer, str) and answer != response else None
        yield {
            **columns(obj, _LM_EVAL_KEYS | parts.keys()),
            "step": 0,
            "prompt": coerce.text(arguments[0].get("arg_0")),
            "response": response,
            "reward": next(iter(parts.values()), None),
            "task": task[1] if task else "",
            "group_id": f"{task[1] if task else ''}:{coerce.text(obj.get('doc_id'))}",
            **fields(
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=obj.get("target"),
                answer=answer,
            ),
        }


def _response(arguments: Sequence[Row], resps: Sequence[Any]) -> str:
    """Return the first generated text; for multiple choice, the choice with the best likelihood."""
    outputs = [resp[0] if isinstance(resp, list) and resp else resp for resp in resps]
    if isinstance(outputs[0], str):
        return outputs[0]
    firsts = [output[0] if isinstance(output, list) and output else -math.inf for output in outputs]
    likelihoods = [*map(coerce.number, firsts)]
    best = likelihoods.index(max(likelihoods))
    return coerce.text(arguments[min(best, len(arguments) - 1)].get("arg_1"))


class ATIF(BaseFormat):
    """Harbor's format: a trajectory per file, and its outcome in ``result.json`` (``sibling``)."""

    id = "atif"
    alone = False
    evaluates = True
    description = "Harbor trajectories (ATIF), with the reward in result.json of their trial"
    files = ("<trial>/agent/trajectory.json",)
    claims = (("schema_version", "steps"),)
    confidence = 97
    container = "json"

    def recognizes(self, obj: Row) -> bool:
        return str(obj["schema_version"]).startswith("ATIF")

    def writer(self, obj: Row) -> str:
        return str(obj["schema_version"])[:40]

    def with_siblings(self, path: Path, listed: Collection[Path]) -> ATIF:
        outer, inner = (folder / "result.json" for folder in (path.parent.parent, path.parent))
        return ATIF(FileStamp.of(outer) or FileStamp.of(inner))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        steps = dicts(obj.get("steps"))
        if not steps:
            raise RowError(message("the trajectory has no `steps`"))
        agent = mapping(obj.get("agent"))
        calls = [mapping(step.get("metrics")) for step in steps if step.get("source") == "agent"]
        row = {
            **columns(mapping(obj.get("final_metrics"))),
            **_atif_conversation(steps),
            "step": 0,
            **_trial_outcome(logged.document_of(self.sibling) if self.sibling else {}),
            **fields(agent=agent.get("name"), model=agent.get("model_name")),
            **tokens_of_steps(
                (c.get("prompt_token_ids"), c.get("completion_token_ids"), c.get("logprobs"))
                for c in calls
            ),
        }
        span_turns(row)
        yield row


def _atif_conversation(steps: Sequence[Row]) -> Row:
    messages: list[Row] = []
    sampled: list[bool] = []
    for step in steps:
        role = _ATIF_ROLES.get(coerce.text(step.get("source")), "?")
        calls = [
            {"name": c.get("function_name"), "arguments": c.get("arguments"),
             "id": c.get("tool_call_id")}
            for c in dicts(step.get("tool_calls"))
        ]  # fmt: skip
        messages.append(
            {"role": role, "content": step.get("message"), "tool_calls": calls,
             "reasoning_content": step.get("reasoning_content")}
        )  # fmt: skip
        # Steps of an agent without a model call, or copied from another trajectory, do not count.
        copied = step.get("llm_call_count") == 0 or step.get("is_copied_context") is True
        sampled.append(role == "assistant" and not copied)
        for result in dicts(mapping(step.get("observation")).get("results")):
            call = result.get("source_call_id")
            content = result.get("content")
            messages.append({"role": "tool", "content": content, "tool_call_id": call})
            sampled.append(False)
    return conversation_fields(messages, sampled)


def _trial_outcome(result: Row) -> Row:
    parts = coerce.reals(mapping(mapping(result.get("verifier_result")).get("rewards")))
    row: Row = {"reward": parts.get("reward")}
    if len(parts) == 1:
        row["reward"] = logged.total(parts.values())
    elif parts:
        row["reward_parts"] = parts
    task = coerce.string(result.get("task_name"))
    seconds = _seconds_between(mapping(result.get("agent_execution")) or result)
    row |= fields(group_id=task, task=task, seconds=seconds)
    exception = mapping(result.get("exception_info"))
    if exception:
        row["errors"] = [logged.error_text(exception, "exception_type", "exception_message")]
        timeout = "Timeout" in coerce.text(exception.get("exception_type"))
        row["finish_reason"] = "timeout" if timeout else "error"
    return row


def _seconds_between(times: Row) -> float | None:
    try:
        begin, end = (datetime.fromisoformat(times[key]) for key in ("started_at", "finished_at"))
        return max(0.0, (end - begin).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None
