"""Chat messages split into what was asked and what the policy answered, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlreport.text.chat import (
    content_text,
    conversation_text,
    message_text,
    message_turns,
    role_name,
)

Row = dict[str, Any]
Turn = dict[str, Any]


def conversation_fields(messages: Sequence[Any], sampled: Sequence[bool] | None = None) -> Row:
    """Take a conversation apart into the fields of a row.

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
    return text_fields(
        *text_and_turns(messages[:start]), *response_and_turns(messages[start:], sampled[start:])
    )


def prompt_and_response_fields(prompt: object, response: object) -> Row:
    """Return the fields of a prompt and a response, each a string, one message, or messages."""
    if isinstance(response, dict):
        response = [response]
    if isinstance(response, list | tuple):
        return text_fields(*text_and_turns(prompt), *response_and_turns(response))
    return text_fields(*text_and_turns(prompt), response if isinstance(response, str) else "")


def text_fields(
    prompt: str, prompt_turns: list[list[str]], response: str, turns: Sequence[Turn] = ()
) -> Row:
    """Return the fields of a row that hold a conversation; empty lists are left out."""
    row: Row = {"prompt": prompt, "response": response}
    if prompt_turns:
        row["prompt_turns"] = prompt_turns
    if turns:
        row["turns"] = turns
    return row


def response_and_turns(
    messages: Sequence[Any], sampled: Sequence[bool] | None = None
) -> tuple[str, list[Turn]]:
    """Return what the policy wrote after the prompt, and all that was said there as turns.

    Args:
        messages: all that come after the prompt.
        sampled: which of them the policy wrote; by default those of the assistant.
    """
    turns, texts = [], []
    names: dict[str, str] = {}
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        wrote = _role(message) == "assistant" if sampled is None else bool(sampled[i])
        turns.append(turn_of(message, wrote, names))
        if wrote:
            texts.append(message_text(message))
    return "\n".join(texts), turns


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
    for item in map(_loaded, call_items(value)):
        if isinstance(item, str) and item:
            calls.append({"name": "", "arguments": item})
        if not isinstance(item, Mapping):
            continue
        function = item.get("function")
        named = function if isinstance(function, Mapping) else item
        call: dict[str, Any] = {"name": str(named.get("name") or "")}
        arguments = _loaded(named.get("arguments", named.get("input", "")))
        if not isinstance(arguments, dict | str):
            encoded = json.dumps(arguments, ensure_ascii=False, default=str)
            arguments = "" if arguments is None else encoded
        call["arguments"] = arguments
        if isinstance(item.get("id"), str):
            call["id"] = item["id"]
        calls.append(call)
    return calls


def call_items(value: object) -> list[Any]:
    """Return the items of a message's ``tool_calls``: a list, one object, or JSON of either."""
    value = _loaded(value)
    if isinstance(value, Mapping) or (isinstance(value, str) and value):
        return [value]
    return value if isinstance(value, list) else []


def text_and_turns(value: object) -> tuple[str, list[list[str]]]:
    """Return text and turns of a prompt: a string, one message, or messages."""
    if isinstance(value, str):
        return value, []
    messages = [value] if isinstance(value, dict) else value
    if not isinstance(messages, list | tuple):
        return "", []
    return conversation_text(messages), [[role, text] for role, text in message_turns(messages)]


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
