"""Text is cut into units of n-grams, prompts into chat turns; forms are told from lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.text.chat import conversation_text, message_turns, turns
from rlreport.text.tokens import STRUCTURES, structure_of, units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop, now!", ["Don't", "stop", ",", "now", "!"]),
        ("你好,world。", ["你", "好", ",", "world", "。"]),
        ("こんにちは", list("こんにちは")),
        ("한국어 글", ["한국어", "글"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("🎉🎉 ❤️👩‍🚀👍🏽🇩🇪", ["🎉", "🎉", "❤️", "👩‍🚀", "👍🏽", "🇩🇪"]),
        ("café naïve", ["café", "naïve"]),
        (":) #1", [":", ")", "#", "1"]),
        ("  \n\t", []),
    ],
)
def test_units_are_words_characters_and_emoji(text: str, expected: list[str]) -> None:
    assert units(text) == expected


@given(st.text(max_size=80))
def test_units_lose_nothing_but_blanks_and_stray_marks(text: str) -> None:
    joined = "".join(units(text))
    rest = iter(text)
    assert all(character in rest for character in joined)
    assert not any(unit.isspace() for unit in units(text))
    assert sum(map(str.isalnum, joined)) == sum(map(str.isalnum, text))


ASKED = [("system", "Be brief."), ("user", "2+2?")]


@pytest.mark.parametrize(
    "prompt",
    [
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
        "<|im_start|>assistant\n",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n2+2? [/INST]",
        "<bos><start_of_turn>system\nBe brief.<end_of_turn>\n<start_of_turn>user\n2+2?<end_of_turn>"
        "\n<start_of_turn>model\n",
        "<|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>2+2?<|end|>"
        "<|start|>assistant",
        "<|system|>\nBe brief.<|end|>\n<|user|>\n2+2?<|end|>\n<|assistant|>\n",
        "system\nBe brief.\nuser\n2+2?\nassistant\n",
        "System: Be brief.\nHuman: 2+2?\nAssistant:",
        "System: Be brief.\nUser: 2+2?\nAssistant:",
    ],
)
def test_turns_of_every_known_template(prompt: str) -> None:
    assert turns(prompt) == ASKED


def test_turns_of_several_rounds() -> None:
    prompt = "<s>[INST] 2+2? [/INST] 4 </s><s>[INST] And 3+3? [/INST]"
    assert turns(prompt) == [("user", "2+2?"), ("assistant", "4"), ("user", "And 3+3?")]
    gemma = "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
    assert turns(gemma) == [("user", "a"), ("assistant", "b")]
    deepseek = "<｜User｜>a<｜Assistant｜>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜>"
    assert turns(deepseek) == [("user", "a"), ("assistant", "b"), ("user", "c")]


@pytest.mark.parametrize(
    "prose",
    ["", "What is 2+2?", "User: nobody answers", "He said\nUser: a\nAssistant: b", "user\n"],
)
def test_prose_has_no_turns(prose: str) -> None:
    assert turns(prose) == []


def test_messages_become_turns_with_their_tool_calls() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "search", "arguments": '{"q": "4"}'}}],
        },
        {"role": "tool", "content": {"hits": 1}},
        {"role": "assistant", "content": "Four.", "reasoning_content": "easy"},
    ]
    assert message_turns(messages) == [
        ("user", "Look[image]"),
        ("assistant", 'search({"q": "4"})'),
        ("tool", '{"hits": 1}'),
        ("assistant", "<think>easy</think>\nFour."),
    ]
    assert conversation_text(messages[:1]) == "Look[image]"
    assert conversation_text(messages[2:]).startswith('tool: {"hits": 1}\nassistant: ')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["role", "content", "tool_calls", "function", "text", "name", "arguments"])


@given(st.lists(st.dictionaries(KEYS, JSON, max_size=4), max_size=4), st.text(max_size=60))
def test_no_message_or_prompt_is_too_odd(messages: list[object], prompt: str) -> None:
    assert all(isinstance(text, str) for _, text in message_turns(messages))
    assert all(text.strip() for _, text in turns(prompt))


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("One line - with 1. everything # in it", set()),
        ("Two\nlines, no form", set()),
        ("So:\n- this\n- that", {"list"}),
        ("So:\n* this", set()),
        ("1. this\n2) that\n10. last", {"numbers"}),
        ("In 1990 it was\n1990 and not 1991", set()),
        ("## Overview\ntext\n## Details\ntext", {"headings"}),
        ("#one\n#two", set()),
        ("One.\n\nTwo.\n\nThree.", {"parts"}),
        ("One.\n\n\n\nTwo.\n\n", set()),
        ("# A\n\n- x\n- y\n\n# B", {"headings", "list", "parts"}),
    ],
)
def test_the_forms_of_a_text(text: str, forms: set[str]) -> None:
    bits = structure_of(text)
    assert {name for i, name in enumerate(STRUCTURES) if bits >> i & 1} == forms


@pytest.mark.timed
def test_long_runs_of_blanks_and_marks_take_no_time() -> None:
    start = time.process_time()
    for hostile in (
        "a" + "\n" * 200_000,
        " \n\t" * 100_000,
        "- " * 100_000 + "\n",
        "a\n" + " " * 300_000,
    ):
        structure_of(hostile)
    assert time.process_time() - start < 1
