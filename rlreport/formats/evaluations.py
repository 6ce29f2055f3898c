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
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.token_names import StepTokens, span_turns, tokens_of_steps
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
    {"doc_id", "arguments", "resps", "target", "doc", "filtered_resps", "filter"}
    | {"metrics", "doc_hash", "prompt_hash", "target_hash"}
)
_MAX_ANSWER = 200  # characters of the filtered answer that are shown
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
        """Yield the row of a sample."""
        header = mapping(obj.get(HEADER))
        attachments = mapping(obj.get("attachments"))
        messages = [_message(one, attachments) for one in dicts(obj.get("messages"))]
        # Replies in the input are examples, which the policy did not write.
        sampled = [_is_reply(one) and one["source"] != "input" for one in messages]
        if any(map(_is_reply, messages)):
            texts = conversation_fields(messages, sampled)
        else:
            inputs = [_message(one, attachments) for one in dicts(obj.get("input"))]
            texts = {
                "prompt": prompt_fields(inputs or obj.get("input"))["prompt"],
                "response": "",
            }
        parts = _scores(mapping(obj.get("scores")))  # by scorer
        target = obj.get("target")
        targets = target if isinstance(target, list) else [target]
        yield {
            **columns(mapping(obj.get("metadata"))),
            **texts,
            "step": 0,
            "epoch": obj.get("epoch"),
            "reward": next(iter(parts.values()), None),  # the first scorer's
            "group_id": coerce.text(obj.get("id")),  # epochs repeat a sample
            **fields(
                task=header.get("task"),
                model=header.get("model"),
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=", ".join(map(coerce.text, targets)),
                seconds=obj.get("total_time"),
            ),
            **_ending(obj, messages, sum(sampled)),
        }


def _is_reply(one: Row) -> bool:
    return bool(one["role"] == "assistant")


def _ending(obj: Row, messages: Sequence[Row], replies: int) -> Row:
    """Return how a sample ended: reason, errors, and the tokens if there is only one reply.

    ``replies`` is the number of ``messages`` that the policy wrote.
    """
    output = mapping(obj.get("output"))
    choice = next(iter(dicts(output.get("choices"))), {})
    row: Row = {}
    reason = mapping(obj.get("limit")).get("type") or choice.get("stop_reason")
    if isinstance(reason, str) and reason != "unknown":
        row["finish_reason"] = _LIMITS.get(reason, reason)
    error = mapping(obj.get("error")).get("message") or output.get("error")
    if error:
        row["errors"] = [coerce.text(error)]
        # Before any reply, the rollout failed and is only counted.
        if not any(map(_is_reply, messages)):
            row.update(trainable=False, finish_reason="error")
    # The output is that of the last model call.
    tokens = dicts(mapping(choice.get("logprobs")).get("content"))
    if tokens and replies == 1:
        row["response_tokens"] = [coerce.text(token.get("token")) for token in tokens]
        row["logprobs"] = [coerce.number(token.get("logprob")) for token in tokens]
    return row


def _scores(scores: Row) -> dict[str, float]:
    """Return scorer (``scorer/key`` for a dict) -> number, also of grades like "C"; omit rest.

    ``scores`` is scorer -> object with the score under ``value``.
    """
    values: Row = {}
    for name in scores:
        value = mapping(scores[name]).get("value")
        if isinstance(value, dict):
            values |= {f"{name}/{key}": value[key] for key in value}
        else:
            values[name] = value
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = _GRADES.get(value, value)
    return coerce.reals(values)


def _message(logged_message: Row, attachments: Row) -> Row:
    """Return Inspect's message as a chat message, with the texts of its attachments.

    ``attachments`` is id -> text, which a message may name instead of a long text.
    """
    role = coerce.text(logged_message.get("role"))
    content = logged_message.get("content")
    result: Row = {"role": role, "source": logged_message.get("source")}
    if isinstance(content, list):
        result |= _parts_of_content(content, attachments)
    else:
        result["content"] = _resolve_attachment(content, attachments)
    result["tool_calls"] = [
        {
            "id": call.get("id"),
            "name": call.get("function"),
            "arguments": call.get("arguments"),
        }
        for call in dicts(logged_message.get("tool_calls"))
    ]
    if role == "tool":
        result |= {
            "name": logged_message.get("function"),
            "tool_call_id": logged_message.get("tool_call_id"),
            "error": logged.error_text(logged_message.get("error"), "type", "message"),
        }
    return result


def _parts_of_content(parts: Sequence[Any], attachments: Row) -> Row:
    """Return ``content`` of a message without parts of reasoning, and these as one text."""
    thoughts: list[str] = []
    content: list[Any] = []
    for part in parts:
        typed_part = mapping(part)
        if typed_part.get("type") == "reasoning":
            thoughts.append(coerce.text(typed_part.get("reasoning")))
        elif typed_part.get("text"):
            text = _resolve_attachment(typed_part["text"], attachments)
            content.append({**part, "text": text})
        else:
            content.append(part)
    return {
        "reasoning_content": "\n".join(filter(None, thoughts)),
        "content": content,
    }


def _resolve_attachment(content: Any, attachments: Row) -> Any:
    if isinstance(content, str) and content.startswith(_ATTACHMENT_PREFIX):
        return attachments.get(content.removeprefix(_ATTACHMENT_PREFIX), content)
    return content


class LMEval(BaseFormat):
    """The format of lm-evaluation-harness samples: one document (question) per line and filter."""

    id = "lm_eval"
    evaluates = True
    description = (
        "lm-evaluation-harness --log_samples: one evaluation, one file per task"
    )
    files = ("samples_<task>_<time>.jsonl",)
    claims = (("doc_id", "arguments", "resps", "target"),)
    # the file's first filter: only its lines are read; None for all
    filter: str | None = None

    def with_siblings(self, path: Path, listed: Collection[Path]) -> LMEval:
        """Return the format with the filter of the file's first line."""
        first = None
        with suppress(OSError), path.open("rb") as lines:
            first = logged.json_object(lines.readline()).get("filter")
        if not isinstance(first, str):
            return self
        remark_text = message(
            "only lines of filter {filter} are read", filter=f"`{first}`"
        )
        form = LMEval(remark="" if first == "none" else remark_text)
        form.filter = first
        return form

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a document, unless its line is of another filter."""
        # The harness logs each response once per filter.
        if self.filter is not None and obj.get("filter") != self.filter:
            logged.read_all(obj)  # its fields are not unrecognized
            return
        requests = mapping(obj.get("arguments"))
        arguments = [mapping(requests[name]) for name in requests]
        resps = obj.get("resps")
        if not arguments or not isinstance(resps, list) or not resps:
            raise RowError(message("`arguments` or `resps` is missing or empty"))
        parts = coerce.reals({name: obj.get(name) for name in _metric_names(obj)})
        response = _response(arguments, resps)
        match = _LM_EVAL_NAME.search(where.name)
        task = match[1] if match else ""
        yield {
            **columns(obj, _LM_EVAL_KEYS | parts.keys()),
            "step": 0,
            "prompt": coerce.text(arguments[0].get("arg_0")),
            "response": response,
            "reward": next(iter(parts.values()), None),
            "task": task,
            "group_id": f"{task}:{coerce.text(obj.get('doc_id'))}",
            **fields(
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=obj.get("target"),
                answer=_filtered_answer(obj.get("filtered_resps"), response),
            ),
        }


def _metric_names(obj: Row) -> list[str]:
    logged_names = obj.get("metrics")
    names = logged_names if isinstance(logged_names, list) else []
    return [name for name in names if isinstance(name, str)] or ["exact_match"]


def _filtered_answer(filtered: Any, response: str) -> str | None:
    """Return what the filter took from the response, None if that is all of it."""
    answer = filtered[0] if isinstance(filtered, list) and filtered else None
    if not isinstance(answer, str) or answer == response:
        return None
    return answer[:_MAX_ANSWER]


def _response(arguments: Sequence[Row], resps: Sequence[Any]) -> str:
    """Return the first generated text; for multiple choice, the choice with the best likelihood."""
    outputs = [_first_of(resp, resp) for resp in resps]
    if isinstance(outputs[0], str):
        return outputs[0]
    # The output of a choice is its log-likelihood, and whether greedy decoding yields it.
    likelihoods = [coerce.number(_first_of(output, -math.inf)) for output in outputs]
    best = likelihoods.index(max(likelihoods))
    # Each choice is a request: the prompt, and the choice as what would follow it.
    choice = arguments[min(best, len(arguments) - 1)]
    return coerce.text(choice.get("arg_1"))


def _first_of(value: Any, default: Any) -> Any:
    return value[0] if isinstance(value, list) and value else default


class ATIF(BaseFormat):
    """Harbor's format: a trajectory per file, and its outcome in ``result.json`` (``sibling``)."""

    id = "atif"
    alone = False
    evaluates = True
    description = (
        "Harbor trajectories (ATIF), with the reward in result.json of their trial"
    )
    files = ("<trial>/agent/trajectory.json",)
    claims = (("schema_version", "steps"),)
    confidence = 97
    container = "json"

    def recognizes(self, obj: Row) -> bool:
        return str(obj["schema_version"]).startswith("ATIF")

    def writer(self, obj: Row) -> str:
        return str(obj["schema_version"])[:40]

    def with_siblings(self, path: Path, listed: Collection[Path]) -> ATIF:
        outer = FileStamp.of(path.parent.parent / "result.json")
        return ATIF(outer or FileStamp.of(path.parent / "result.json"))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a trajectory with the outcome of its trial."""
        steps = dicts(obj.get("steps"))
        if not steps:
            raise RowError(message("the trajectory has no `steps`"))
        agent = mapping(obj.get("agent"))
        by_agent = [step for step in steps if step.get("source") == "agent"]
        calls = [mapping(step.get("metrics")) for step in by_agent]
        row = {
            **columns(mapping(obj.get("final_metrics"))),
            **_atif_conversation(steps),
            "step": 0,
            **_trial_outcome(logged.document_of(self.sibling) if self.sibling else {}),
            **fields(agent=agent.get("name"), model=agent.get("model_name")),
            **tokens_of_steps(map(_tokens_of_call, calls)),
        }
        span_turns(row)
        yield row


def _tokens_of_call(call: Row) -> StepTokens:
    return StepTokens(
        prompt_ids=call.get("prompt_token_ids"),
        reply_ids=call.get("completion_token_ids"),
        logprobs=call.get("logprobs"),
    )


def _atif_conversation(steps: Sequence[Row]) -> Row:
    """Return the texts of a trajectory: a message per step, and one per answer of a tool."""
    messages: list[Row] = []
    sampled: list[bool] = []  # of each message
    for step in steps:
        role = _ATIF_ROLES.get(coerce.text(step.get("source")), "?")
        step_message: Row = {
            "role": role,
            "content": step.get("message"),
            "tool_calls": list(map(_atif_call, dicts(step.get("tool_calls")))),
            "reasoning_content": step.get("reasoning_content"),
        }
        messages.append(step_message)
        # Steps of an agent without a model call, or copied from another trajectory, do not count.
        has_no_call = step.get("llm_call_count") == 0
        is_copied = step.get("is_copied_context") is True
        sampled.append(role == "assistant" and not (has_no_call or is_copied))
        for result in dicts(mapping(step.get("observation")).get("results")):
            call = result.get("source_call_id")
            content = result.get("content")
            messages.append({"role": "tool", "content": content, "tool_call_id": call})
            sampled.append(False)
    return conversation_fields(messages, sampled)


def _atif_call(call: Row) -> Row:
    return {
        "name": call.get("function_name"),
        "arguments": call.get("arguments"),
        "id": call.get("tool_call_id"),
    }


def _trial_outcome(result: Row) -> Row:
    """Return the fields of a trial's ``result.json``: reward, task, duration, and its error."""
    parts = coerce.reals(mapping(mapping(result.get("verifier_result")).get("rewards")))
    # The only reward is the total, whatever its name; of several, it is the one called "reward".
    row: Row = {"reward": parts.get("reward")}
    if len(parts) == 1:
        row["reward"] = logged.total(parts.values())
    elif parts:
        row["reward_parts"] = parts
    task = coerce.string(result.get("task_name"))
    # Only the time of the agent, if it is logged, not of its setup and the verifier
    seconds = _seconds_between(mapping(result.get("agent_execution")) or result)
    row |= fields(group_id=task, task=task, seconds=seconds)
    exception = mapping(result.get("exception_info"))
    if exception:
        row["errors"] = [
            logged.error_text(exception, "exception_type", "exception_message")
        ]
        timeout = "Timeout" in coerce.text(exception.get("exception_type"))
        row["finish_reason"] = "timeout" if timeout else "error"
    return row


def _seconds_between(times: Row) -> float | None:
    """Return the seconds from ``started_at`` to ``finished_at``, None if either is no time."""
    try:
        begin = datetime.fromisoformat(times["started_at"])
        end = datetime.fromisoformat(times["finished_at"])
        return max(0.0, (end - begin).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None
