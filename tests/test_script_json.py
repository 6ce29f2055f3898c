"""Data in script nodes is JSON, and can never be markup."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlreport.pages.templates import canonical_json, script_json
from tests.pages_reading import Elements

HOSTILE = ["</script>", "</SCRIPT >", "<!--", "<script", "]]>", "&lt;", "\u2028", "\u2029", "\x00"]


@given(st.lists(st.sampled_from(HOSTILE) | st.text(), max_size=6))
def test_any_text_stays_inside_its_node(texts):
    node = script_json({"texts": texts})
    found = Elements(f'<script type="application/json">{node}</script><p>').found
    assert [tag for tag, _ in found] == ["script", "p"]
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(node)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_text_comes_back_as_it_was(texts):
    assert json.loads(script_json(texts)) == texts


def test_lone_surrogates_become_replacement_characters():
    assert json.loads(script_json({"a": ["x\ud800y"]})) == {"a": ["x?y"]}


def test_nan_and_infinity_become_null_in_lists_and_arrays():
    value = {"b": [float("nan"), 1.5], "a": np.array([np.inf, 2.0])}
    assert canonical_json(value) == b'{"a":[null,2.0],"b":[null,1.5]}'
