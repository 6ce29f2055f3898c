"""Token strings and texts become readable text, units, chat turns and forms."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.text.chat import conversation_text, message_turns, turns
from rlreport.text.clean import (
    EOS_TOKENS,
    REPLACEMENT,
    clean_prompt,
    clean_text,
    is_special,
    printable,
    safe_text,
)
from rlreport.text.tokens import (
    BYTE_OF,
    STRUCTURES,
    Style,
    detect_style,
    readable_tokens,
    structure_of,
    token_text,
    units,
)

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=80)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    start = 0
    for size in sizes:
        if start < len(data):
            pieces.append(data[start : start + size])
            start += size
    return pieces + ([data[start:]] if start < len(data) else [])


def byte_level(data: bytes) -> str:
    return "".join(CHARACTER_OF[byte] for byte in data)


@given(TEXTS, CUTS)
def test_byte_level_tokens_cut_anywhere_join_to_the_text(
    text: str, sizes: list[int]
) -> None:
    raw = [byte_level(piece) for piece in cut(text.encode(), sizes)]
    readable = readable_tokens(raw, Style.BYTE_LEVEL)
    if not any(is_special(token) for token in raw):
        assert "".join(readable) == text
    assert len(readable) == len(raw)


@given(TEXTS, CUTS)
def test_sentencepiece_byte_tokens_join_to_the_text(
    text: str, sizes: list[int]
) -> None:
    raw = []
    for i, piece in enumerate(cut(text.encode(), sizes)):
        try:
            whole = piece.decode().replace(" ", "▁") if i % 2 else ""
        except UnicodeDecodeError:
            whole = ""
        raw += [whole] if whole else [f"<0x{byte:02X}>" for byte in piece]
    readable = readable_tokens(raw, Style.SENTENCEPIECE)
    if "▁" not in text and not any(is_special(token) for token in raw):
        assert "".join(readable) == text
    assert len(readable) == len(raw)


@given(st.binary(max_size=60), CUTS)
def test_broken_bytes_become_replacement_characters(
    data: bytes, sizes: list[int]
) -> None:
    raw = [byte_level(piece) for piece in cut(data, sizes)]
    if not any(is_special(token) for token in raw):
        joined = "".join(readable_tokens(raw, Style.BYTE_LEVEL))
        assert joined == data.decode(errors="replace").replace("\0", REPLACEMENT)


TOKENS = st.lists(st.text(max_size=6), max_size=30)


@given(TOKENS, st.sampled_from(Style))
def test_any_strings_keep_their_count_and_can_be_encoded(raw, style):
    readable = readable_tokens(raw, style)
    assert len(readable) == len(raw)
    "".join(readable).encode()
    for token in raw:
        token_text(token, style).encode()


def test_the_last_piece_of_a_character_carries_it_whole() -> None:
    emoji = [byte_level(piece) for piece in (b"\xf0\x9f", b"\x8e", b"\x89")]
    assert readable_tokens([*emoji, "Ġyes"], Style.BYTE_LEVEL) == ["", "", "🎉", " yes"]


def test_a_character_that_is_never_completed_shows_where_it_began() -> None:
    readable = readable_tokens(["ä½", "Ġok", "ä"], Style.BYTE_LEVEL)
    assert readable == [REPLACEMENT, " ok", REPLACEMENT]
    assert readable_tokens(["ä½", "<|im_end|>"], Style.BYTE_LEVEL) == [
        REPLACEMENT,
        "<|im_end|>",
    ]


def test_special_tokens_stay_as_they_are() -> None:
    raw = ["▁Hi", "<｜end▁of▁sentence｜>"]
    assert readable_tokens(raw, Style.SENTENCEPIECE) == [" Hi", "<｜end▁of▁sentence｜>"]
    assert readable_tokens(["ĠHi", "<|im_end|>"], Style.BYTE_LEVEL) == [
        " Hi",
        "<|im_end|>",
    ]


@pytest.mark.parametrize(
    "decoded",
    [
        ["é"],
        ["caf", "é"],
        ["Ł", "ódź"],
        ["naïve"],
        ["你", "好"],
        [" Größe", " über", "."],
        ["今日", "は", "é"],
        ["Č", "esko", " ", "ď"],
        ["�", "�", "ok"],
        ["Ä", "Ö", "Ü"],
    ],
)
def test_decoded_text_is_not_taken_for_bytes(decoded: list[str]) -> None:
    assert detect_style(decoded) is Style.PLAIN


def test_the_style_of_a_vocabulary_survives_a_few_added_tokens() -> None:
    vocabulary = [f"Ġword{i}" for i in range(200)] + ["    ", "<|im_end|>", "你好"]
    assert detect_style(vocabulary) is Style.BYTE_LEVEL
    assert detect_style([f" word{i}" for i in range(50)] + ["é", "ä½ł"]) is Style.PLAIN
    assert detect_style(["▁the", "<0xE4>", "s"]) is Style.SENTENCEPIECE
    assert detect_style(["4", ".", "<EOD>"]) is Style.PLAIN


def test_one_token_alone_shows_its_bytes() -> None:
    assert token_text("ä½", Style.BYTE_LEVEL) == "⟨e4 bd⟩"
    assert token_text("aäb", Style.BYTE_LEVEL) == "a⟨e4⟩b"
    assert token_text("<0xE4>", Style.SENTENCEPIECE) == "⟨e4⟩"
    assert token_text("Ġä½ł", Style.BYTE_LEVEL) == " 你"
    assert token_text("</s>", Style.SENTENCEPIECE) == "</s>"
    assert token_text("caf", Style.PLAIN) == "caf"


def test_control_tokens_are_special_and_text_is_not() -> None:
    control = [
        *EOS_TOKENS,
        "<|im_start|>",
        "</s>",
        "[PAD]",
        "<start_of_turn>",
        "<unused7>",
    ]
    text = ["", "<", "<b>", "</div>", "[1]", "the", "<0x0A>", "<|", "a|>"]
    assert [token for token in (*control, *text) if is_special(token)] == control


def test_pad_tokens_go_wherever_they_stand() -> None:
    pads = ("<PAD>", "<pad>", "<PAD>x")
    assert clean_text("<PAD>a<pad>b<PAD><PAD>xc<PAD>", pads) == "abc"
    assert clean_text("<PADDED>", pads) == "<PADDED>"
    assert clean_text("as it was", ()) == clean_text("as it was", ("",)) == "as it was"


def test_a_prompt_loses_its_system_part() -> None:
    assert clean_prompt("sys<end>more<end>ask<PAD>", ("<PAD>",), "<end>") == "ask"
    assert clean_prompt("no marker", (), "<end>") == clean_prompt("no marker", (), None)


@given(st.text(st.characters(), max_size=40))
def test_cleaned_text_can_be_encoded_and_keeps_its_length(text: str) -> None:
    cleaned = safe_text(text)
    assert len(cleaned) == len(text)
    assert "\0" not in cleaned
    cleaned.encode()


def test_what_cannot_be_shown_is_replaced() -> None:
    assert printable("a\tb\nc 春🎉") == "a\tb\nc 春🎉"
    for broken in (
        "\x00",
        "\x1b",
        "\r",
        "\x85",
        "\ud800",
        "\uffff",
        "\u202e",
        "\u2066",
    ):
        assert printable(f"a{broken}b") == f"a{REPLACEMENT}b"


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
        ("cafe\u0301 it’s a'", ["cafe\u0301", "it’s", "a", "'"]),
        (
            "#\ufe0f\u20e3 abc我 a_b=-1",
            ["#\ufe0f\u20e3", "abc", "我", "a_b", "=", "-", "1"],
        ),
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
    gemma = (
        "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
    )
    assert turns(gemma) == [("user", "a"), ("assistant", "b")]
    deepseek = (
        "<｜User｜>a<｜Assistant｜>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜>"
    )
    assert turns(deepseek) == [("user", "a"), ("assistant", "b"), ("user", "c")]


@pytest.mark.parametrize(
    "prose",
    [
        "",
        "What is 2+2?",
        "User: nobody answers",
        "He said\nUser: a\nAssistant: b",
        "user\n",
    ],
)
def test_prose_has_no_turns(prose: str) -> None:
    assert turns(prose) == []


def test_messages_become_turns_with_their_tool_calls() -> None:
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look"}, {"type": "image"}],
        },
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


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["role", "content", "tool_calls", "function", "text", "name", "arguments"]
)


MESSAGES = st.lists(st.dictionaries(KEYS, JSON, max_size=4), max_size=4)


@given(MESSAGES, st.text(max_size=60))
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
