"""Tokens that are pieces of one character are one row of the token table."""

import codecs
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from rlreport.columns import TOKEN
from rlreport.read.rollouts import EDGE
from rlreport.summarise.characters import whole_characters
from rlreport.summarise.tokens import token_table
from rlreport.tables import GAP
from rlreport.text.tokens import BYTE_OF
from tests.test_summarise import example, responses, token_sample

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}
# What makes a vocabulary that of byte-level tokens
ORDINARY = ["Ġthe", "Ġof", "ä½ł"]


def byte_level(text: bytes) -> str:
    return "".join(CHARACTER_OF[byte] for byte in text)


def pieces(text: str, *ends: int) -> list[str]:
    """Return byte-level tokens of a text, cut at these places of its bytes."""
    encoded = byte_level(text.encode())
    bounds = [0, *ends, len(encoded)]
    return [encoded[low:high] for low, high in pairwise(bounds)]


def test_the_bytes_of_an_emoji_are_counted_as_the_emoji_and_its_kl_is_their_sum():
    spaced = pieces(" 🎉", 3, 4)
    units = [
        [*ORDINARY, *spaced, *spaced],
        [*ORDINARY, *pieces("🎉", 2, 3)],
    ]
    kl = [
        [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0],
        [0.0, 0.0, 4.0, 1.0, 1.0, 2.0],
    ]
    prob = [[0.5] * 9, [0.5] * 6]
    sample = token_sample(units, kl=kl, log_ratio=kl, prob=prob)
    tokens = token_table(sample, responses(step=[0, 0])).set_index("token")
    assert set(tokens.index) == {" the", " of", "你", " 🎉", "🎉"}
    party = tokens.loc[" 🎉"]
    lone = tokens.loc["🎉"]
    assert (party["count"], party["kl_mean"], party["log_ratio_mean"]) == (2, 12, 12)
    assert (lone["count"], lone["kl_mean"], lone["raw"]) == (1, 4, "ðŁİī")
    assert tokens["kl_share"].to_dict() == pytest.approx(
        {" 🎉": 0.75, "🎉": 0.125, "你": 0.125, " the": 0, " of": 0}
    )


def test_the_probability_of_a_character_is_the_product_over_its_pieces():
    units = [[*ORDINARY, *pieces("🎉", 2, 3)]] * 10
    prob = [[0.5, 0.5, 0.5, 0.5, 0.25, 1.0]] * 10
    errors = [[0.0, 0.0, 0.0, -1.0, 1.0, 4.0]] * 10
    table = responses(step=np.arange(10))
    found = token_table(token_sample(units, prob=prob, value_error=errors), table)
    party = found.set_index("token").loc["🎉"]
    assert party["prob_first"] == party["prob_last"] == 0.125
    assert party["abs_value_error_mean"] == 2


def test_bytes_that_never_become_a_character_stay_visible_as_bytes():
    first, second, third = pieces("🎉", 2, 3)
    units = [
        [*ORDINARY, first, second],
        [third, *ORDINARY],  # of another response
        [*ORDINARY, first, "Ġthe", second, third],
        [*ORDINARY, first, second, "<|endoftext|>", third],
    ]
    table = responses(step=[0] * 4, n=range(4))
    found = token_table(token_sample(units), table)
    counts = found.set_index("token")["count"].to_dict()
    assert [counts["⟨f0 9f⟩"], counts["⟨8e⟩"], counts["⟨89⟩"]] == [3, 3, 3]
    assert "🎉" not in counts


def test_a_character_has_its_place_among_all_tokens_of_its_response():
    units = [*ORDINARY, *pieces("🎉", 2, 3)]
    units += ["Ġthe"] * (2 * EDGE - 6)
    units += ["Ġof", *pieces("好", 1, 2)]
    units = [*units[:EDGE], GAP, *units[-EDGE:]]
    sample = token_sample([units])
    table = token_table(sample, responses(response_tokens=[5000.0]))
    tokens = table.set_index("raw")
    assert example(tokens, "ðŁİī") == (0, 0, 3)
    assert example(tokens, "å¥½") == (0, 0, 4997)


def test_pieces_of_sentencepiece_are_merged_and_those_of_decoded_tokens_cannot_be():
    units = [["▁the", "<0xF0>", "<0x9F>", "<0x8E>", "<0x89>", "▁of"]]
    found = token_table(token_sample(units), responses(step=[0]))
    assert set(found["token"]) == {" the", "🎉", " of"}
    units = [[" the", "\ufffd", "\ufffd", " of"]]
    found = token_table(token_sample(units), responses(step=[0]))
    assert set(found["token"]) == {" the", "\ufffd", " of"}


def test_a_missing_figure_of_a_piece_makes_that_of_the_character_unknown():
    units = [[*ORDINARY, *pieces("🎉", 2, 3)]]
    kl = [[1.0, 0.0, 0.0, np.nan, 2.0, 1.0]]
    found = token_table(token_sample(units, kl=kl), responses(step=[0]))
    found = found.set_index("token")
    assert found["kl_mean"].isna().to_dict()["🎉"]
    # Of the run's KL nothing is lost.
    assert found["kl_share"].to_dict() == pytest.approx(
        {"🎉": 0.75, " the": 0.25, " of": 0, "你": 0}
    )


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_a_decoder_that_reads_byte_by_byte(seed):
    chance = random.Random(seed)
    units = []
    for _ in range(30):
        text = "".join(chance.choices("aé好🎉🙂 the", k=12)).encode()
        broken = bytes(byte for byte in text if chance.random() < 0.97)
        ends = sorted(chance.sample(range(1, len(broken)), k=6))
        bounds = [0, *ends, len(broken)]
        tokens = [broken[a:b] for a, b in pairwise(bounds)]
        units.append([byte_level(token) for token in tokens])
    units.append(ORDINARY)
    characters = whole_characters(token_sample(units))
    texts = characters.sample.texts
    # Nothing is lost, and in order.
    assert "".join(texts.vocabulary[unit] for unit in texts.units) == "".join(
        "".join(row) for row in units
    )
    assert characters.sizes.sum() == sum(map(len, units))
    expected: Counter[str | None] = Counter()
    for row in units:
        expected.update(decoded_one_by_one(row))
    found = Counter(characters.names[unit] for unit in texts.units)
    whole = {name: n for name, n in found.items() if "⟨" not in name}
    assert whole == {name: n for name, n in expected.items() if name is not None}


def decoded_one_by_one(tokens: list[str]) -> list[str | None]:
    """Return the text of each shortest run of tokens that decodes, None for any other token."""
    encoded = [bytes(map(BYTE_OF.__getitem__, token)) for token in tokens]
    texts: list[str | None] = []
    at = 0
    while at < len(encoded):
        for size in range(1, 9):
            decoder = codecs.getincrementaldecoder("utf-8")("strict")
            try:
                text = "".join(map(decoder.decode, encoded[at : at + size]))
            except UnicodeDecodeError:
                texts.append(None)
                at += 1
                break
            if at + size <= len(encoded) and not decoder.getstate()[0]:
                texts.append(text)
                at += size
                break
        else:
            texts.append(None)
            at += 1
    return texts


def test_the_columns_of_the_table_say_that_pieces_are_merged():
    assert "pieces" in TOKEN["token"].help
