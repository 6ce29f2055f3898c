"""Token strings become readable text, one entry a token, whatever tokenizer wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.text.clean import (
    EOS_TOKENS,
    REPLACEMENT,
    clean_prompt,
    clean_text,
    is_special,
    printable,
    safe_text,
)
from rlreport.text.tokens import BYTE_OF, Style, detect_style, readable_tokens, token_text

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=80)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        if start < len(data):
            pieces.append(data[start : start + size])
            start += size
    return pieces + ([data[start:]] if start < len(data) else [])


def byte_level(data: bytes) -> str:
    return "".join(CHARACTER_OF[byte] for byte in data)


@given(TEXTS, CUTS)
def test_byte_level_tokens_cut_anywhere_join_to_the_text(text: str, sizes: list[int]) -> None:
    raw = [byte_level(piece) for piece in cut(text.encode(), sizes)]
    readable = readable_tokens(raw, Style.BYTE_LEVEL)
    if not any(is_special(token) for token in raw):
        assert "".join(readable) == text
    assert len(readable) == len(raw)


@given(TEXTS, CUTS)
def test_sentencepiece_byte_tokens_join_to_the_text(text: str, sizes: list[int]) -> None:
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
def test_broken_bytes_become_replacement_characters(data: bytes, sizes: list[int]) -> None:
    raw = [byte_level(piece) for piece in cut(data, sizes)]
    if not any(is_special(token) for token in raw):
        joined = "".join(readable_tokens(raw, Style.BYTE_LEVEL))
        assert joined == data.decode(errors="replace").replace("\0", REPLACEMENT)


@given(st.lists(st.text(max_size=6), max_size=30), st.sampled_from([None, *Style]))
def test_any_strings_keep_their_count_and_can_be_encoded(
    raw: list[str], style: Style | None
) -> None:
    readable = readable_tokens(raw, style)
    assert len(readable) == len(raw)
    "".join(readable).encode()
    for token in raw:
        token_text(token, style).encode()


def test_the_last_piece_of_a_character_carries_it_whole() -> None:
    emoji = [byte_level(piece) for piece in (b"\xf0\x9f", b"\x8e", b"\x89")]
    assert readable_tokens([*emoji, "Ġyes"]) == ["", "", "🎉", " yes"]


def test_a_character_that_is_never_completed_shows_where_it_began() -> None:
    assert readable_tokens(["ä½", "Ġok", "ä"], Style.BYTE_LEVEL) == [
        REPLACEMENT,
        " ok",
        REPLACEMENT,
    ]
    assert readable_tokens(["ä½", "<|im_end|>"], Style.BYTE_LEVEL) == [REPLACEMENT, "<|im_end|>"]


def test_special_tokens_stay_as_they_are() -> None:
    assert readable_tokens(["▁Hi", "<｜end▁of▁sentence｜>"]) == [" Hi", "<｜end▁of▁sentence｜>"]
    assert readable_tokens(["ĠHi", "<|im_end|>"]) == [" Hi", "<|im_end|>"]


@pytest.mark.parametrize(
    "decoded",
    [
        ["é"], ["caf", "é"], ["Ł", "ódź"], ["naïve"], ["你", "好"], [" Größe", " über", "."],
        ["今日", "は", "é"], ["Č", "esko", " ", "ď"], ["�", "�", "ok"], ["Ä", "Ö", "Ü"],
    ],
)  # fmt: skip
def test_decoded_text_is_not_taken_for_bytes(decoded: list[str]) -> None:
    assert readable_tokens(decoded) == decoded


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


def test_tokens_of_a_real_run_read_as_its_responses(shared_data: Path) -> None:
    log = shared_data / "ppo_reward_hacking" / "rank_0.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()[:400]]
    style = detect_style({token for row in rows for token in row["response_tokens"]})
    assert style is Style.BYTE_LEVEL
    for row in rows:
        readable = readable_tokens(row["response_tokens"], style)
        text = "".join(token for token in readable if token not in EOS_TOKENS)
        assert text == row["response"]


@pytest.mark.parametrize("token", ["<|im_start|>", "</s>", "[PAD]", "<start_of_turn>", "<unused7>"])
def test_control_tokens_are_special(token: str) -> None:
    assert is_special(token)


@pytest.mark.parametrize("token", ["", "<", "<b>", "</div>", "[1]", "the", "<0x0A>", "<|", "a|>"])
def test_text_is_not_special(token: str) -> None:
    assert not is_special(token)


def test_every_end_token_is_special() -> None:
    assert all(map(is_special, EOS_TOKENS))


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
    for broken in ("\x00", "\x1b", "\r", "\x85", "\ud800", "\uffff", "\u202e", "\u2066"):
        assert printable(f"a{broken}b") == f"a{REPLACEMENT}b"
