"""Chat messages split into what was asked and what the policy answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlreport.text.chat import conversation_text, message_turns

Exchange = tuple[str, str, list[list[str]]]


def exchange(messages: Sequence[Any], sampled: Sequence[bool] | None = None) -> Exchange:
    """Return prompt text, response text and the prompt's turns of a conversation.

    The response begins with the first message the policy wrote: the first ``sampled`` one,
    else the last assistant message after which no user speaks again.

    Args:
        messages: chat messages, dicts with ``role`` and ``content``.
        sampled: which of them the policy wrote, where the log tells.
    """
    if sampled is None or not any(sampled):
        start = _answer_start(messages)
    else:
        start = next(i for i, wrote in enumerate(sampled) if wrote)
    prompt, response = messages[:start], messages[start:]
    return conversation_text(prompt), conversation_text(response), prompt_turns(prompt)


def prompt_turns(messages: Sequence[Any]) -> list[list[str]]:
    """Return the turns of a prompt's messages as [role, text] lists."""
    return [[role, text] for role, text in message_turns(messages)]


def said(value: object) -> tuple[str, list[list[str]]]:
    """Return text and turns of a prompt or completion: a string, one message, or messages."""
    if isinstance(value, str):
        return value, []
    messages = [value] if isinstance(value, dict) else value
    if not isinstance(messages, list | tuple):
        return "", []
    return conversation_text(messages), prompt_turns(messages)


def is_messages(value: object) -> bool:
    """Tell whether ``value`` is a list of chat messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and "role" in item for item in value)
    )


def _answer_start(messages: Sequence[Any]) -> int:
    """Return the index at which the last answer begins, tool calls and their results included."""
    start = len(messages)
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("assistant", "model"):
            start = i
        elif role in ("user", "system", "developer", "human"):
            break
    return start
