"""Chat messages split into what was asked and what the policy answered, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlreport.text.chat import (
    content_text,
    conversation_text,
    message_text,
    message_turns,
    role_name,
)

Turn = dict[str, Any]


@dataclass(slots=True)
class Exchange:
    """A conversation as the fields of a canonical row.

    Attributes:
        prompt: text of what was asked.
        response: text of what the policy sampled: thinking, content and calls of its turns.
        prompt_turns: [role, text] of the prompt's messages.
        turns: what came after the prompt, in order (see ``rlreport.fields``).
    """

    prompt: str
    response: str
    prompt_turns: list[list[str]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        """Return the fields that a row takes from it; empty lists are left out."""
        row: dict[str, Any] = {"prompt": self.prompt, "response": self.response}
        if self.prompt_turns:
            row["prompt_turns"] = self.prompt_turns
        if self.turns:
            row["turns"] = self.turns
        return row


def exchange(messages: Sequence[Any], sampled: Sequence[bool] | None = None) -> Exchange:
    """Take a conversation apart.

    The response begins with the first message the policy wrote: the first ``sampled`` one,
    else the last assistant message after which no user speaks again.

    Args:
        messages: chat messages, dicts with ``role`` and ``content``.
        sampled: which of them the policy wrote, where the log tells.
    """
    if sampled is None or not any(sampled):
        start = _answer_start(messages)
        sampled = [_role(message) == "assistant" for message in messages]
    else:
        start = next(i for i, wrote in enumerate(sampled) if wrote)
    prompt, turns = said(messages[:start])
    reply = answer(messages[start:], sampled[start:])
    return Exchange(prompt, reply.response, turns, reply.turns)


def answer(messages: Sequence[Any], sampled: Sequence[bool] | None = None) -> Exchange:
    """Take messages that all come after the prompt as turns; without ``sampled`` by role."""
    turns, texts = [], []
    names: dict[str, str] = {}
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        wrote = _role(message) == "assistant" if sampled is None else bool(sampled[i])
        turns.append(turn_of(message, wrote, names))
        if wrote:
            texts.append(message_text(message))
    return Exchange("", "\n".join(texts), [], turns)


def turn_of(message: Mapping[str, Any], sampled: bool, names: dict[str, str]) -> Turn:
    """Return a message as a turn.

    Args:
        message: a chat message.
        sampled: the policy wrote it.
        names: id of a tool call to the tool's name; this message's calls are added.
    """
    turn: Turn = {
        "role": _role(message), "text": content_text(message.get("content")), "sampled": sampled,
    }  # fmt: skip
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thinking, str) and thinking:
        turn["thinking"] = thinking
    calls = calls_of(message.get("tool_calls"))
    if calls:
        turn["calls"] = calls
        names.update((call["id"], call["name"]) for call in calls if "id" in call)
    tool = message.get("name") or names.get(str(message.get("tool_call_id")))
    if turn["role"] == "tool" and isinstance(tool, str):
        turn["tool"] = tool
    error = _error(message)
    if error:
        turn["error"] = error
    return turn


def calls_of(value: object) -> list[dict[str, Any]]:
    """Return tool calls as ``{name, arguments, id?}``; a JSON string of calls is parsed.

    Arguments that are no JSON object stay the text that they are.
    """
    calls: list[dict[str, Any]] = []
    for item in map(_loaded, called(value)):
        if isinstance(item, str) and item:
            calls.append({"name": "", "arguments": item})
        if not isinstance(item, Mapping):
            continue
        function = item.get("function")
        own = function if isinstance(function, Mapping) else item
        call: dict[str, Any] = {"name": str(own.get("name") or "")}
        arguments = _loaded(own.get("arguments", own.get("input", "")))
        if not isinstance(arguments, dict | str):
            told = json.dumps(arguments, ensure_ascii=False, default=str)
            arguments = "" if arguments is None else told
        call["arguments"] = arguments
        if isinstance(item.get("id"), str):
            call["id"] = item["id"]
        calls.append(call)
    return calls


def called(value: object) -> list[Any]:
    """Return the items of a message's ``tool_calls``: a list, one object, or JSON of either."""
    value = _loaded(value)
    if isinstance(value, Mapping) or (isinstance(value, str) and value):
        return [value]
    return value if isinstance(value, list) else []


def said(value: object) -> tuple[str, list[list[str]]]:
    """Return text and turns of a prompt: a string, one message, or messages."""
    if isinstance(value, str):
        return value, []
    messages = [value] if isinstance(value, dict) else value
    if not isinstance(messages, list | tuple):
        return "", []
    return conversation_text(messages), [[role, text] for role, text in message_turns(messages)]


def asked_and_answered(prompt: object, response: object) -> Exchange:
    """Return a prompt and a response, each a string, one message, or messages."""
    text, turns = said(prompt)
    if isinstance(response, str):
        return Exchange(text, response, turns)
    messages = [response] if isinstance(response, dict) else response
    if not isinstance(messages, list | tuple):
        return Exchange(text, "", turns)
    replied = answer(messages)
    return Exchange(text, replied.response, turns, replied.turns)


def is_messages(value: object) -> bool:
    """Tell whether ``value`` is a list of chat messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and "role" in item for item in value)
    )


def without_nulls(value: Any, depth: int = 12) -> Any:
    """Drop null members of objects, which parquet adds where it merges their types."""
    if isinstance(value, dict) and depth:
        return {k: without_nulls(v, depth - 1) for k in value if (v := value[k]) is not None}
    if isinstance(value, list) and depth:
        return [without_nulls(item, depth - 1) for item in value]
    return value


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    return role_name(role) if isinstance(role, str) else "?"


def _answer_start(messages: Sequence[Any]) -> int:
    """Return the index at which the last answer begins, tool calls and their results included."""
    start = len(messages)
    for i in range(len(messages) - 1, -1, -1):
        role = _role(messages[i])
        if role == "assistant":
            start = i
        elif role in ("user", "system", "developer"):
            break
    return start


def _error(message: Mapping[str, Any]) -> str:
    error = message.get("error")
    if isinstance(error, str) and error:
        return error
    failed = message.get("is_error") is True or message.get("status") == "error"
    return content_text(message.get("content"))[:200] or "error" if failed else ""


def _loaded(value: object) -> object:
    """Return the JSON object or list in a string, other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
