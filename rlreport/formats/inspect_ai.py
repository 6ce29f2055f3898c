"""Inspect's evaluations: the samples of an ``.eval`` log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named
from rlreport.formats.eval_archive import HEADER
from rlreport.formats.messages import exchange, is_messages, said
from rlreport.formats.values import columns, dicts, mapping, number, text

_KEYS = ("id", "epoch", "input", "target")
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""

_LENGTHS = frozenset({"max_tokens", "model_length", "message", "token", "context", "turn"})
"""Stop reasons and limits that cut a sample off."""

_ATTACHED = "attachment://"


class InspectAI:
    """One sample and epoch a row; the first scorer's value is the reward."""

    id = "inspect"
    alone = True
    description = "Inspect evaluation logs (.eval)"
    files = ("*.eval",)
    container = "inspect"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim samples of a log."""
        whole = [obj for obj in objects if "error_reading" not in obj]
        if not has_keys(whole, *_KEYS, HEADER):
            return None
        return Match(97, named(_KEYS))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a sample without a score has NaN."""
        if "error_reading" in obj:
            raise RowError(text(obj["error_reading"]))
        about = mapping(obj.get(HEADER))
        row = columns(mapping(obj.get("metadata")), ())
        row.update({k: about[k] for k in ("task", "model") if isinstance(about.get(k), str)})
        attachments = mapping(obj.get("attachments"))
        messages = [_message(m, attachments) for m in dicts(obj.get("messages"))]
        if is_messages(messages) and any(m["role"] == "assistant" for m in messages):
            wrote = [m["role"] == "assistant" and m.get("source") != "input" for m in messages]
            row.update(exchange(messages, wrote).fields())
        else:
            asked = obj.get("input")
            asked = [_message(m, attachments) for m in dicts(asked)] or asked
            row.update(prompt=said(asked)[0], response="")
        parts = _scores(obj.get("scores"))
        row.update(step=0, split="eval", epoch=obj.get("epoch"))
        row["reward"] = next(iter(parts.values()), math.nan)
        if len(parts) > 1:
            row["reward_parts"] = parts
        row["group_id"] = text(obj.get("id"))
        target = obj.get("target")
        if target not in (None, "", []):
            row["ground_truth"] = ", ".join(
                map(text, target if isinstance(target, list) else [target])
            )
        if isinstance(obj.get("total_time"), int | float):
            row["seconds"] = float(obj["total_time"])
        row.update(_ending(obj, messages))
        yield row

    def split(self, name: str) -> str | None:
        """Return ``eval``: nothing else is logged."""
        return "eval"


def _ending(obj: Row, messages: Sequence[Row]) -> Row:
    """Return why it ended, what went wrong, and the tokens of an only answer."""
    row: Row = {}
    choice = next(iter(dicts(mapping(obj.get("output")).get("choices"))), {})
    reason = mapping(obj.get("limit")).get("type") or choice.get("stop_reason")
    if isinstance(reason, str) and reason != "unknown":
        row["finish_reason"] = "length" if reason in _LENGTHS else reason
    error = mapping(obj.get("error")).get("message") or mapping(obj.get("output")).get("error")
    if error:
        row["errors"] = [text(error)]
        if not any(m["role"] == "assistant" for m in messages):
            row.update(trainable=False, finish_reason="error")
    replies = [m for m in messages if m["role"] == "assistant" and m.get("source") != "input"]
    tokens = dicts(mapping(choice.get("logprobs")).get("content"))
    if tokens and len(replies) == 1:
        row["response_tokens"] = [text(token.get("token")) for token in tokens]
        row["logprobs"] = [number(token.get("logprob")) for token in tokens]
    return row


def _scores(scores: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    scores = mapping(scores)
    for name in scores:
        value = mapping(scores[name]).get("value")
        values = {name: value}
        if isinstance(value, dict):
            values = {f"{name}/{key}": value[key] for key in value}
        for key, graded in values.items():
            if isinstance(graded, str) and graded in _GRADES:
                found[key] = _GRADES[graded]
            elif isinstance(graded, int | float):
                found[key] = float(graded)
    return found


def _message(message: Row, attachments: Row) -> Row:
    """Return a message in the usual form: reasoning, calls and a tool's error under their names."""
    made: Row = {"role": text(message.get("role")), "source": message.get("source")}
    parts = message.get("content")
    if isinstance(parts, list):
        thoughts = [p.get("reasoning") for p in dicts(parts) if p.get("type") == "reasoning"]
        made["reasoning_content"] = "\n".join(filter(None, map(text, thoughts)))
        kept = [p for p in parts if not isinstance(p, dict) or p.get("type") != "reasoning"]
        made["content"] = [
            {**p, "text": _attached(p["text"], attachments)}
            if isinstance(p, dict) and isinstance(p.get("text"), str)
            else p
            for p in kept
        ]
    else:
        made["content"] = _attached(parts, attachments)
    calls = dicts(message.get("tool_calls"))
    if calls:
        made["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
            for call in calls
        ]
    if made["role"] == "tool":
        made["name"], made["tool_call_id"] = message.get("function"), message.get("tool_call_id")
        error = mapping(message.get("error"))
        if error:
            made["error"] = ": ".join(text(error[k]) for k in ("type", "message") if error.get(k))
    return made


def _attached(content: Any, attachments: Row) -> Any:
    if isinstance(content, str) and content.startswith(_ATTACHED):
        return attachments.get(content.removeprefix(_ATTACHED), content)
    return content
