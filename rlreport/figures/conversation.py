"""What a conversation comes to: turns, tool calls, thinking, as figures of one response."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlreport.text.chat import ANSWER, CALL

Turn = Mapping[str, Any]
"""One object of the canonical field ``turns``, its role, text and sampled of the right types."""

MAX_TOOLS = 64
"""Tools that are counted by name in one response."""

TURN_LIMITS = frozenset(
    {"max_turns", "max_turns_exceeded", "max_turns_reached", "max_steps", "turn_limit"}
)
"""What frameworks log where a conversation was stopped for its number of turns."""

_OPEN, _CLOSE = "<think>", "</think>"
_THOUGHT = re.compile(f"{_OPEN}(.*?)(?:{_CLOSE}|\\Z)", re.DOTALL)
_LONGEST_NAME = 80


class Thinking(NamedTuple):
    """Characters of thinking in a text, whether it has no end, and the text without it."""

    chars: int
    unclosed: bool
    answer: str


def thinking_of(text: str, *, begun: bool = False) -> Thinking | None:
    """Return what a text holds of thinking, None where it does not think.

    Args:
        text: what the policy wrote.
        begun: the prompt ends with ``<think>``.
    """
    opened, closed = text.find(_OPEN), text.find(_CLOSE)
    if not begun and opened < 0 and closed < 0:
        return None
    # A chat template often opens the thinking itself: then the text has only its end.
    if (begun and opened < 0) or (closed >= 0 and (opened < 0 or closed < opened)):
        text = _OPEN + text
    chars = sum(len(thought) for thought in _THOUGHT.findall(text))
    return Thinking(chars, text.rfind(_OPEN) > text.rfind(_CLOSE), _THOUGHT.sub("", text))


def says_more(prompt: str, response: str) -> bool:
    """Tell quickly whether a text may think or call tools; most do not."""
    return any(mark in response for mark in (_CLOSE, _OPEN, CALL, ANSWER)) or _begun(prompt)


def thinking_figures(prompt: str, response: str) -> dict[str, float]:
    """Return the columns of thinking of a response of one turn; none where it does not think."""
    thinking = thinking_of(response, begun=_begun(prompt))
    if thinking is None:
        return {}
    return {
        "thinking_chars": float(thinking.chars),
        "unclosed_thinking": float(thinking.unclosed),
    }


def conversation_figures(turns: Sequence[Turn], prompt: str = "") -> dict[str, float]:
    """Return the columns of the response table that turns after this prompt feed.

    A void turn has neither a call nor, besides its thinking, any text (SimpleTIR 2025).
    """
    sampled = [turn for turn in turns if turn["sampled"]]
    # The prompt opens the thinking of what the policy says next, if that is not logged apart.
    begun = [not i and not _said(turn) and _begun(prompt) for i, turn in enumerate(sampled)]
    thoughts = [
        (turn, thinking_of(turn["text"], begun=opened))
        for turn, opened in zip(sampled, begun, strict=True)
    ]
    chars = sum(len(_said(turn)) + (own.chars if own else 0) for turn, own in thoughts)
    answers = [turn for turn in turns if turn["role"] == "tool"]
    figures = {
        "turns": float(len(sampled)),
        "tool_calls": float(max(sum(map(_calls, sampled)), len(answers))),
        "tool_errors": float(sum(1 for turn in answers if turn.get("error"))),
        "void_turns": float(
            sum(
                not _calls(turn) and not (own.answer if own else turn["text"]).strip()
                for turn, own in thoughts
            )
        ),
    }
    if chars or any(own for _, own in thoughts):
        figures["thinking_chars"] = float(chars)
        figures["unclosed_thinking"] = float(any(own and own.unclosed for _, own in thoughts))
    return figures


def tool_counts(turns: Sequence[Turn]) -> dict[str, tuple[int, int]]:
    """Return the answers of each tool, and how many were errors; at most 64 tools."""
    counts: dict[str, tuple[int, int]] = {}
    for turn in turns:
        if turn["role"] != "tool":
            continue
        name = turn.get("tool")
        name = name[:_LONGEST_NAME] if isinstance(name, str) else ""
        if name in counts or len(counts) < MAX_TOOLS:
            answers, errors = counts.get(name, (0, 0))
            counts[name] = answers + 1, errors + bool(turn.get("error"))
    return counts


def _begun(prompt: str) -> bool:
    return prompt[-24:].rstrip().endswith(_OPEN)


def _said(turn: Turn) -> str:
    thinking = turn.get("thinking")
    return thinking if isinstance(thinking, str) else ""


def _calls(turn: Turn) -> int:
    calls = turn.get("calls")
    return len(calls) if isinstance(calls, list) else turn["text"].count(CALL)
