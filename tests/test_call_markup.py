"""Calls of tools that stay in the text, in the markup of several models and frameworks."""

from pathlib import Path
from typing import Any

import pytest

from tests.reading import read, row, write

CALL: dict[str, Any] = {"name": "search", "arguments": {"query": "a"}}
READ = [
    {"role": "assistant", "text": "I look.", "sampled": True, "calls": [CALL]},
    {"role": "tool", "tool": "search", "text": "b", "sampled": False},
]
LAST = {"role": "assistant", "text": "It is b.", "sampled": True}
SPECIAL = [
    '[TOOL_CALLS][{"name": "search", "arguments": {"query": "a"}}]',
    '<|python_tag|>{"name": "search", "parameters": {"query": "a"}}',
    '<function=search>{"query": "a"}</function>',
    "```tool_code\nsearch(query='a')\n```",
    '```tool_call\n{"name": "search"}\n```',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search",
    '<function_calls>\n<invoke name="search">',
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0",
    '<|channel|>commentary to=functions.search <|message|>{"query": "a"}',
]
PLAIN = [
    'I need more.\nAction: search\nAction Input: {"query": "a"}',
    "行动：搜索\n行动输入：上海",
    '{"name": "search", "parameters": {"query": "a"}}',
    '```json\n{"name": "search", "arguments": {"query": "a"}}\n```',
]
NEITHER = [
    "The next action: search for it.\nThe action input is the query.",
    '```json\n{"name": "Ada", "born": 1815}\n```',
    '{"answer": 4}',
    "Write ```python\nsearch()\n``` to call it.",
]


def says(text: str, reply: str = "Continue.", role: str = "user") -> list[dict]:
    return [
        {"role": "assistant", "text": text, "sampled": True},
        {"role": role, "text": reply, "sampled": False},
    ]


def left(tmp_path: Path, turns: list[dict], *, with_read: bool = True) -> float:
    """Return the turns with markup of a conversation, beside one whose calls were read."""
    rows = [row(turns=[*turns, LAST])]
    if with_read:
        rows.append(row(turns=[*READ, LAST]))
    scan = read(write(tmp_path / "log.jsonl", rows))
    return scan.responses["markup_turns"].tolist()[0]


@pytest.mark.parametrize("text", SPECIAL + PLAIN)
def test_a_call_that_is_not_run_stays_in_the_text(text, tmp_path):
    assert left(tmp_path, says(text)) == 1.0


@pytest.mark.parametrize("text", NEITHER)
def test_text_about_calls_is_no_markup(text, tmp_path):
    assert left(tmp_path, says(text)) == 0.0


REPLIES = [("tool", "b"), ("user", "Observation: b")]


@pytest.mark.parametrize("text", SPECIAL + PLAIN)
@pytest.mark.parametrize(("role", "reply"), REPLIES)
def test_a_call_that_is_answered_was_read_from_the_text(text, role, reply, tmp_path):
    assert left(tmp_path, says(text, reply, role)) == 0.0


@pytest.mark.parametrize("text", PLAIN)
def test_an_agent_all_of_whose_calls_are_plain_text_has_a_parser_for_them(
    text, tmp_path
):
    assert left(tmp_path, says(text, "b"), with_read=False) == 0.0
