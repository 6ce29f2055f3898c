"""The formulas per token, against their textbook form."""

from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import binom

from rlreport.figures import ragged
from rlreport.figures import tokens as token
from rlreport.figures.significance import binomial_tail, log_factorials

LENGTHS = st.lists(st.integers(0, 100), min_size=1, max_size=8)


def rows_of(lengths: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    offsets = ragged.offsets_of(np.array(lengths, dtype=np.int64))
    return np.random.default_rng(seed).normal(size=int(offsets[-1])), offsets


@given(LENGTHS, st.integers(0, 9))
def test_a_rows_result_does_not_depend_on_its_neighbours(
    lengths: list[int], seed: int
) -> None:
    flat, offsets = rows_of(lengths, seed)
    together = token.discounted_sums(flat, offsets, 0.9)
    sums = ragged.row_sums(flat, offsets)
    for i, (start, stop) in enumerate(pairwise(offsets)):
        alone = np.array([0, stop - start])
        one = token.discounted_sums(flat[start:stop], alone, 0.9)
        np.testing.assert_array_equal(together[start:stop], one)
        assert sums[i] == ragged.row_sums(flat[start:stop], alone)[0]


def test_k3_keeps_small_digits_is_never_negative_and_points_to_the_reference() -> None:
    ratio = np.array([1e-6, -1e-6, 0.0, 3.0])
    np.testing.assert_allclose(token.k3(ratio)[:2], 0.5e-12, rtol=1e-5)
    assert token.k3(ratio)[2] == 0.0
    assert token.k3(ratio)[3] == np.exp(-3.0) - 1 + 3.0
    assert (token.k3(np.linspace(-5, 5, 101)) >= 0).all()
    # A token that the reference finds likelier costs more than one it finds less likely.
    likelier, less_likely = token.k3(np.array([-2.0, 2.0]))
    assert likelier > less_likely


@given(
    st.lists(
        st.tuples(
            st.integers(1, 45),
            st.integers(0, 130),
            st.integers(0, 90),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_loops_are_those_of_a_plain_count(texts: list[tuple[int, int, int]]) -> None:
    parts = []
    for period, repeated, other in texts:
        loop = [unit % period for unit in range(repeated)]
        parts.append([*range(1000, 1000 + other), *loop])
    lengths = [len(part) for part in parts]
    units = np.array([*chain.from_iterable(parts)], np.int32)
    loops = token.find_loops(units, ragged.offsets_of(np.array(lengths))).tolist()
    for (period, repeated, other), result in zip(texts, loops, strict=True):
        is_loop = period <= 40 and repeated - period >= max(24, 2 * period)
        is_loop &= repeated >= 100 or (
            repeated >= 32 and 4 * repeated >= repeated + other
        )
        assert result == ([other, period, repeated] if is_loop else [0, 0, 0])


def test_no_loop_extends_over_the_gap_of_a_shortened_text() -> None:
    before = [0, 1] * 50
    after = [0, 1] * 60
    units = np.array([*before, 2, *after], np.int32)
    loops = token.find_loops(units, np.array([0, len(units)]))
    assert loops.tolist() == [[101, 2, 120]]


def test_factorials_and_the_binomial_tail_are_those_of_scipy() -> None:
    np.testing.assert_allclose(log_factorials(5_000), gammaln(np.arange(5_001) + 1))
    for trials in (1, 7, 400, 20_000):
        for least in {0, 1, trials // 3, trials}:
            for share in (1 / 20_002, 0.3, 0.97):
                tail = binomial_tail(least, trials, share)
                expected = binom.sf(least - 1, trials, share)
                np.testing.assert_allclose(tail, expected, rtol=1e-9, atol=1e-300)
