"""The markup in which models write calls of tools, by the model or framework that has it."""

from __future__ import annotations

import re

# Who writes calls so -> pattern of the markup. Its beginning is enough: a call may be cut off.
_MARKUP = {
    "Hermes, Qwen": r"</?tool_(?:call|response)s?>",
    "Llama 3": r"<\|python_tag",
    "Llama 3, Qwen Coder": r"<function=",
    "Mistral": r"\[TOOL_CALLS\]",
    "DeepSeek": r"<｜tool▁call",
    "Claude": r"<invoke name=|<function_calls>",
    "Gemma": r"```tool_(?:code|call|use|output)",
    "Granite, Phi, Kimi": r"<\|tool_call",
    "InternLM": r"<\|action_start\|>",
    "Command R": r"<\|START_ACTION\|>",
    "MiniMax": r"<minimax:tool_call>",
    "gpt-oss": r"<\|channel\|>commentary to=",
}
# Plain text, which frameworks parse that log it as the policy's words and nothing else
_PLAIN_MARKUP = {
    "ReAct (LangChain)": r"^[ \t]*Action[ \t]*:[^\n]+\n+[ \t]*Action Input[ \t]*:",
    "ReAct (ModelScope)": r"^[ \t]*行动[ \t]*[:：][^\n]+\n+[ \t]*行动输入[ \t]*[:：]",
    "Llama 3 (JSON)": r"\A\s*\{\s*\"name\"\s*:\s*\"[^\"\n]+\"\s*,"
    r"\s*\"(?:arguments|parameters)\"\s*:",
    "JSON in a fence": r"```(?:json)?\s*\{\s*\"(?:name|tool|action)\"\s*:\s*\"[^\"\n]+\"\s*,"
    r"\s*\"(?:arguments|parameters|args|action_input|input)\"\s*:",
}
_ANY = re.compile("|".join(_MARKUP.values()))
_ANY_PLAIN = re.compile("|".join(_PLAIN_MARKUP.values()), re.MULTILINE)
# Where an environment shows what a call in plain text returned
_OBSERVATION = re.compile(
    r"\s*(?:Observation|观察|观察结果)[ \t]*[:：]|\s*<tool_response>"
)


def has_markup(text: str) -> bool:
    """Return whether a text contains the markup of a tool call or a tool's answer."""
    return _ANY.search(text) is not None


def has_plain_markup(text: str) -> bool:
    """Return whether a text contains a call in plain text: ReAct, or an object of JSON."""
    return _ANY_PLAIN.search(text) is not None


def is_observation(text: str) -> bool:
    """Return whether a text of the environment shows what a call returned."""
    return _OBSERVATION.match(text) is not None
