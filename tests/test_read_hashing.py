"""Shortcuts in sorting, counting and sketching give what the plain way gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.read.collect import shortened
from rlreport.read.ngrams import BigramSketch
from rlreport.read.parse import _UsualLines
from rlreport.text.clean import safe_text
from rlreport.text.vocabulary import Hashes, order_of
from tests.reading import tokens

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(2**63, 2**63 + 40), max_size=60)


def array(hashes: list[int]) -> Hashes:
    """Return hashes as an array."""
    return np.array(hashes, dtype=np.uint64)


@given(HASHES)
def test_an_order_makes_hashes_ascend_even_where_only_low_bits_differ(hashes: list[int]) -> None:
    order = order_of(array(hashes))
    assert sorted(order.tolist()) == list(range(len(hashes)))
    assert array(hashes)[order].tolist() == sorted(hashes)


@given(st.lists(st.text(st.characters(), max_size=3) | st.just("x" * 201), max_size=5))
def test_unit_strings_are_kept_safe_one_by_one_or_all_at_once(strings: list[str]) -> None:
    assert shortened(strings) == [safe_text(string[:200]) for string in strings]


@pytest.mark.untraced
@given(
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 40]),
    st.booleans(),
)
def test_a_sketch_holds_the_smallest_hashes(seed: int, shift: int, repeated: bool) -> None:
    """Also where hashes are not spread evenly, or are mostly the same few."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, 4000, dtype=np.uint64) >> np.uint64(shift)
    if repeated:
        hashes[300:] = hashes[:10].repeat(370)
    steps = np.zeros(len(hashes), dtype=np.int64)
    sketch = BigramSketch()
    # So many steps that each keeps few hashes.
    sketch.add(steps[:0], hashes[:0], np.arange(4096))
    for part in np.split(np.arange(len(hashes)), 5):
        sketch.add(steps[part], hashes[part], steps[part])
    size = sketch.size
    assert size < 300
    assert sketch.settled()[0].tolist() == np.unique(hashes)[:size].tolist()


@given(st.lists(st.text('\\",a\n]', max_size=5), min_size=1, max_size=8))
def test_tokens_of_quotes_and_backslashes_take_the_fast_path(strings: list[str]) -> None:
    pytest.importorskip("simdjson")
    row = _UsualLines().parse(json.dumps(tokens(*strings)).encode())
    assert row is not None
    assert row.tokens.size == len(strings)
