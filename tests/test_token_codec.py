"""Packed token data comes back exactly as docs/page-data.md says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlreport.figures.tokens import TokenFigures
from rlreport.pages.step import decimal, pack_tokens
from rlreport.read.rollouts import Rollout
from rlreport.text.tokens import Style, readable_tokens
from tests.pages_reading import as_logged, unpack


def rollout(n, raw, **figures):
    tokens = [token.replace("Ġ", " ") for token in raw]
    return Rollout(
        0, n, "f", 1, "p", "r", raw_tokens=raw, tokens=tokens, figures=TokenFigures(**figures)
    )


def test_tokens_and_values_come_back():
    logp = np.array([-0.11, -2.5, np.nan])
    packed = pack_tokens([rollout(3, ["Ġa", "b", "Ġa"], logp=logp), rollout(9, ["b"])], 6)
    header, ids, columns = unpack(packed)
    assert header["n"] == [3, 9]
    assert header["lengths"] == [3, 1]
    assert [header["text"][i] for i in ids] == [" a", "b", " a", "b"]
    assert header["raw"] == [None, None]
    assert [as_logged(header, i) for i in ids] == ["Ġa", "b", "Ġa", "b"]
    assert list(columns) == ["logp"]
    np.testing.assert_array_equal(columns["logp"], [-0.11, -2.5, np.nan, np.nan])


BYTE_LEVEL = ["Ġthe", "Ċ", "ä½łå¥½", "ä½", "ł", "é", "ĠðŁĺ", "Ģ", "<|im_end|>", "Ġ<|im", " ", "é"]
SENTENCEPIECE = ["▁the", "▁", "<0xE4>", "<0xBD>", "<0xA0>", "▁▁春", "</s>", " a", "\n"]


@pytest.mark.parametrize(
    ("raw", "style", "kept"),
    [
        (BYTE_LEVEL, "byte-level", {"ä½", "ł", "ĠðŁĺ", "Ģ", " ", "é"}),
        (SENTENCEPIECE, "sentencepiece", {"<0xE4>", "<0xBD>", "<0xA0>", " a"}),
        (["the", " cat", "春", "<|im_end|>", "\n"], "plain", set()),
    ],
)
def test_strings_that_follow_from_their_text_are_left_out_and_come_back(raw, style, kept):
    tokens = readable_tokens(raw, Style(style))
    packed = Rollout(0, 1, "f", 1, "p", "r", raw_tokens=raw, tokens=tokens)
    header, ids, _ = unpack(pack_tokens([packed], 4))
    assert header["style"] == style
    assert {string for string in header["raw"] if string is not None} == kept
    assert [as_logged(header, i) for i in ids] == raw


@given(st.lists(st.text(st.sampled_from("aé ▁Ġ春\n🎉<>0xE4\x00"), max_size=6), min_size=1))
def test_any_strings_come_back(raw):
    for style in Style:
        tokens = readable_tokens(raw, style)
        packed = Rollout(0, 1, "f", 1, "p", "r", raw_tokens=raw, tokens=tokens)
        header, ids, _ = unpack(pack_tokens([packed], 4))
        assert [as_logged(header, i) for i in ids] == raw
        assert [header["text"][i] for i in ids] == tokens


def test_nothing_is_packed_without_tokens_and_the_same_to_the_same_bytes():
    assert pack_tokens([rollout(0, [])], 4) == ""
    assert pack_tokens([rollout(0, ["a"])], 4) == pack_tokens([rollout(0, ["a"])], 4)


@pytest.mark.parametrize("digits", [3, 4, 6, 9])
@given(hnp.arrays(np.float64, 20, elements=st.floats(-1e30, 1e30)))
def test_values_keep_their_significant_digits(digits, values):
    mantissa, exponent = decimal(values, digits)
    back = mantissa * 10.0 ** exponent.astype(float)
    np.testing.assert_allclose(back, values, rtol=0.51 * 10.0 ** (1 - digits), atol=1e-100)
    assert (np.abs(mantissa) <= 10**digits).all()


@given(st.integers(-99999, 99999), st.integers(0, 5))
def test_short_decimals_are_kept_exactly(mantissa, places):
    value = np.array([mantissa / 10**places])
    m, e = decimal(value, 6)
    back = m[0] / 10.0 ** -float(e[0]) if e[0] < 0 else m[0] * 10.0 ** float(e[0])
    assert back == value[0]


def test_few_digits_leave_to_the_page_what_follows_from_other_columns():
    x = np.array([-1.0, -2.0])
    figures = dict.fromkeys(
        ("logp", "ref_logp", "log_ratio", "token_reward", "value", "advantage", "return_"), x
    )
    made = [rollout(0, ["a", "b"], **figures)]
    kept = ["logp", "log_ratio", "token_reward", "value"]
    assert list(unpack(pack_tokens(made, 4))[2]) == kept
    logged = unpack(pack_tokens(made, 4, advantages_logged=True))[2]
    assert list(logged) == [*kept, "advantage", "return"]
    assert len(unpack(pack_tokens(made, 6))[2]) == 7


def test_infinities_and_nan_have_their_own_exponents():
    mantissa, exponent = decimal(np.array([np.inf, -np.inf, np.nan, 0.0]), 4)
    assert mantissa[:2].tolist() == [1, -1]
    assert exponent.tolist() == [127, 127, -128, 0]
