"""Chat turns: found in a prompt that carries a chat template, or taken from messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Turns = list[tuple[str, str]]

_ROLE_NAMES = {"human": "user", "model": "assistant", "ai": "assistant", "gpt": "assistant"}


@dataclass(frozen=True, slots=True)
class _Template:
    """A chat template: what opens a turn (one group, the role) and what closes it."""

    opening: re.Pattern[str]
    closing: re.Pattern[str]


def _template(opening: str, closing: str) -> _Template:
    return _Template(re.compile(opening), re.compile(f"(?:{closing})\\s*$"))


_TEMPLATES = (
    _template(r"<\|im_start\|>([\w.-]+)(?:\n|<\|im_sep\|>)", r"<\|im_end\|>"),
    _template(
        r"<\|start_header_id\|>([\w.-]+)<\|end_header_id\|>\s*", r"<\|eot_id\|>|<\|eom_id\|>"
    ),
    _template(r"<start_of_turn>([\w.-]+)\n", r"<end_of_turn>"),
    _template(
        r"<\|start\|>([\w.-]+)[^<]*(?:<\|channel\|>[^<]*)?(?:<\|message\|>|\Z)",
        r"<\|end\|>|<\|return\|>|<\|call\|>",
    ),
    _template(r"<[|｜](User|Assistant)[|｜]>", r"<[|｜]end▁of▁sentence[|｜]>"),
    _template(
        r"<\|(system|user|assistant|observation|tool)\|>\s*", r"<\|end\|>|</s>|<\|endoftext\|>"
    ),
)
_WRITTEN_ROLES = (
    re.compile(r"^(System|Human|Assistant|AI|GPT):[ \t]*", re.MULTILINE),
    re.compile(r"^(System|User|Assistant|AI):[ \t]*", re.MULTILINE),
    # ChatML decoded without its special tokens, as verl and TRL log it.
    re.compile(r"^(system|user|assistant|tool|model)\n", re.MULTILINE),
)
_MARKS_ONLY = re.compile(r"\s*(?:(?:<[^<>\s]{1,40}>|\[[A-Za-z_]{1,20}\])\s*)*")
"""What may stand before the first turn without saying anything: marks of a beginning."""

_LLAMA2_TURN = re.compile(r"\[INST\](.*?)(?:\[/INST\](.*?)(?=\[INST\]|\Z)|\Z)", re.DOTALL)
_LLAMA2_SYSTEM = re.compile(r"\s*<<SYS>>\n?(.*?)\n?<</SYS>>\s*", re.DOTALL)


def turns(prompt: str) -> Turns:
    """Return the (role, text) turns of a prompt, or [] when it carries no chat template.

    Knows ChatML, Llama 2 and 3, Gemma, Harmony, DeepSeek and Phi markers, ``Human:`` and
    ``User:`` scripts, and ChatML decoded without its special tokens. The opening of the
    turn that the response completes holds no text, and is left out; a text before the first
    turn is a turn of the role ``prompt``.
    """
    # Every marker starts so, and most prompts have none.
    for template in _TEMPLATES if "<" in prompt else ():
        found = _split(prompt, template.opening)
        if found:
            said = [(role, template.closing.sub("", text)) for role, text in found]
            before = prompt[: _start(prompt, template.opening)]
            return _tidy(
                said
                if _MARKS_ONLY.fullmatch(before)
                else [("prompt", template.closing.sub("", before)), *said]
            )
    if "[INST]" in prompt:
        return _tidy(_llama2(prompt))
    for opening in _WRITTEN_ROLES:
        found = _split(prompt, opening)
        roles = [role_name(role) for role, _ in found]
        # One role alone may be prose: "User: ..." counts when someone answers.
        if "user" in roles and "assistant" in roles and not prompt[: _start(prompt, opening)]:
            return _tidy(found)
    return []


CALL, ANSWER = "<tool_call>", "<tool_response>"
"""What opens a call and a tool's answer in a text (Hermes 2 Pro, Qwen)."""

# Blanks are stripped apart: beside a lazy group they would take time by the square of their number.
_CALLS = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_ANSWERS = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)

_ROLE_LINES = re.compile(r"\A\s*assistant\n|\n(?:user|tool)\s*\Z")
"""What is left beside an answer of a template decoded without its special tokens."""


def turns_in_text(response: str) -> list[dict[str, Any]]:
    """Return the turns, as objects of the field ``turns``, of a text that marks its tool calls.

    What stands in ``<tool_response>`` is a tool's answer; what else the template marks as
    another role's is not the policy's either. A call that is no JSON object stays as it is.
    Without calls and answers there are none: one turn says what the text says.
    """
    if CALL not in response and ANSWER not in response:
        return []
    made: list[dict[str, Any]] = []
    for role, text in turns(response) or [("prompt", response)]:
        for place, part in enumerate(_ANSWERS.split(text)):
            if place % 2:
                made.append({"role": "tool", "text": part.strip(), "sampled": False})
            elif part.strip():
                own = role in ("prompt", "assistant")  # the text goes on a turn of the policy
                other = {"role": role, "text": part.strip(), "sampled": False}
                made.append(_policy_turn(_ROLE_LINES.sub("", part)) if own else other)
    return made


def _policy_turn(text: str) -> dict[str, Any]:
    calls = [_parsed(call.strip()) for call in _CALLS.findall(text)]
    said = {"role": "assistant", "text": _CALLS.sub("", text).strip(), "sampled": True}
    return {**said, "calls": calls} if calls else said


def _parsed(call: str) -> object:
    try:
        found = json.loads(call)
    except (ValueError, RecursionError):
        return call
    return found if isinstance(found, dict) else call


def message_turns(messages: Sequence[object]) -> Turns:
    """Return the (role, text) turns of a list of chat messages, tool calls as text."""
    return [
        (role_name(str(message.get("role", "?"))), message_text(message))
        for message in messages
        if isinstance(message, Mapping)
    ]


def message_text(message: Mapping[str, object]) -> str:
    """Return what a chat message says: reasoning, content parts and tool calls, as text."""
    parts = []
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append(f"<think>{reasoning}</think>")
    content = content_text(message.get("content"))
    if content:
        parts.append(content)
    calls = message.get("tool_calls")
    if isinstance(calls, str) and calls:
        parts.append(calls)
    elif isinstance(calls, Sequence):
        parts.extend(_call_text(call) for call in calls)
    return "\n".join(parts)


def conversation_text(messages: Sequence[object]) -> str:
    """Return messages as one text, a message of a single turn as its bare content."""
    said = message_turns(messages)
    if len(said) == 1:
        return said[0][1]
    return spoken(said)


def spoken(said: Turns) -> str:
    """Return turns as one text without the marks of a chat template."""
    return "\n".join(f"{role}: {text}" for role, text in said)


def _split(prompt: str, opening: re.Pattern[str]) -> Turns:
    marks = list(opening.finditer(prompt))
    ends = [*(mark.start() for mark in marks[1:]), len(prompt)]
    return [(mark[1], prompt[mark.end() : end]) for mark, end in zip(marks, ends, strict=False)]


def _start(prompt: str, opening: re.Pattern[str]) -> int:
    found = opening.search(prompt)
    return found.start() if found else 0


def _llama2(prompt: str) -> Turns:
    said: Turns = []
    for question, answer in _LLAMA2_TURN.findall(prompt):
        system = _LLAMA2_SYSTEM.match(question)
        if system:
            said.append(("system", system[1]))
        said.append(("user", question[system.end() if system else 0 :]))
        said.append(("assistant", re.sub(r"</?s>", "", answer)))
    return said


def _tidy(said: Turns) -> Turns:
    return [(role_name(role), text.strip()) for role, text in said if text.strip()]


def role_name(role: str) -> str:
    """Return the usual name of a role: ``human`` is ``user``, ``model`` is ``assistant``."""
    lowered = role.lower()
    return _ROLE_NAMES.get(lowered, lowered)


def content_text(content: object) -> str:
    """Return a message's content as text; parts that are no text are named, as ``[image]``."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(_part_text(part) for part in content)
    return json.dumps(content, ensure_ascii=False, default=str)


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"


def _call_text(call: object) -> str:
    if isinstance(call, str):
        return call
    if not isinstance(call, Mapping):
        return ""
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = named.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{named.get('name', 'tool')}({arguments})"
