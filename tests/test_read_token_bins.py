"""Sums by token while a process scans: joined, coarsened and carried."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.read import token_sums
from rlreport.read.measure import PerToken
from rlreport.read.token_bins import NumpyBin
from rlreport.read.token_entries import TokenEntries
from rlreport.read.token_sums import TokenSums
from rlreport.read.token_table import ROWS, TokenTable, merge_tables

HASHES = np.random.default_rng(7).permutation(1 << 12).astype(np.uint64) << np.uint64(50)
VALUES = st.sampled_from([0.0, 0.25, -1.5, 7.5, 8.0, -9.0, 1e6, 2.0**40, 1e300, np.nan, np.inf])
BATCHES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 90), st.lists(st.tuples(st.integers(0, 40), VALUES), max_size=5)),
        min_size=1,
        max_size=4,
    ),
    max_size=6,
)
Batches = list[list[tuple[int, list[tuple[int, float]]]]]


def collected(batches: Batches, sums: TokenSums) -> TokenTable:
    """What comes of batches of (step, [(token, value)])."""
    for batch in batches:
        steps = np.array([step for step, _ in batch], dtype=np.int64)
        lengths = np.array([len(tokens) for _, tokens in batch], dtype=np.int64)
        flat = [token for _, tokens in batch for token in tokens]
        if not flat:
            continue
        ids = np.array([number for number, _ in flat], dtype=np.int32)
        values = np.array([value for _, value in flat])
        sums.add(steps, lengths, ids, PerToken(log_ratio=values, kl=values, prob=values), 41)
    table, ids = sums.table(HASHES)
    np.testing.assert_array_equal(table.tokens, HASHES[ids])
    steps = np.array(sorted({s for batch in batches for s, ts in batch if ts}), dtype=np.int64)
    return merge_tables([table], steps, 41, spend=True)


def expected(batches: Batches, shift: int) -> dict[tuple[int, int], tuple[int, float]]:
    """Occurrences and summed values by (bin, hash)."""
    found: dict[tuple[int, int], tuple[int, float]] = {}
    for step, tokens in (row for batch in batches for row in batch):
        for number, value in tokens:
            key = (step >> shift, int(HASHES[number]))
            count, total = found.get(key, (0, 0.0))
            known = 0.0 if np.isnan(value) else float(np.clip(value, -(2.0**40), 2.0**40))
            found[key] = (count + 1, total + known)
    return found


@pytest.mark.parametrize("held", [1 << 20, 8])
@pytest.mark.parametrize("cells", [1 << 18, 1])
def test_sums_are_those_of_all_tokens(
    held: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few cells flush bins early, and few entries held are joined again and again.
    monkeypatch.setattr(token_sums, "_MOST_HELD", held)
    monkeypatch.setattr(token_sums, "_DENSE_CELLS", cells)

    @given(BATCHES)
    def holds(batches: Batches) -> None:
        table = collected(batches, TokenSums())
        wanted = expected(batches, table.shift)
        keys = list(zip(table.bins.tolist(), table.tokens.tolist(), strict=True))
        assert keys == sorted(wanted)
        assert table.count("count").tolist() == [wanted[key][0] for key in keys]
        # The values are multiples of 2^-32, and their sums are exact.
        for name in ("kl", "log_ratio", "prob"):
            assert table.sum(name).tolist() == [wanted[key][1] for key in keys]

    holds()


def test_as_many_batches_as_there_are_do_not_overflow() -> None:
    sums, value = TokenSums(), 7.5
    count = 40_000
    ids = np.zeros(count, dtype=np.int32)
    values = np.full(count, value)
    for _ in range(600):
        sums.add(np.array([0]), np.array([count]), ids, PerToken(kl=values), 1)
    table, _ = sums.table(HASHES)
    assert table.sum("kl").tolist() == [600 * count * value]
    assert table.count("count").tolist() == [600 * count]


def test_entries_of_bins_that_become_one_are_joined() -> None:
    entries = TokenEntries()
    for number, count in ((4, 3), (5, 7), (8, 1)):
        entries.append(number, np.array([0, 9]), [np.array([count, 1]), *[None] * (ROWS - 1)])
    entries.coarsen(1)
    entries.join()
    assert len(entries) == 4
    # Bins 2 and 4, as steps 4, 5 and 8 are seen in twos.
    counts = dict.fromkeys(((2, 0), (2, 9), (4, 0), (4, 9)))
    table = entries.table(1, HASHES)
    for bin_, token, count in zip(table.bins, table.tokens, table.count("count"), strict=True):
        counts[int(bin_), int(np.flatnonzero(token == HASHES)[0])] = int(count)
    assert counts == {(2, 0): 10, (2, 9): 2, (4, 0): 1, (4, 9): 1}


def test_a_numpy_bin_adds_another_of_more_tokens() -> None:
    one, other = NumpyBin(1), NumpyBin(1 << 16)
    rows = np.zeros((ROWS, 1), dtype=np.int64)
    rows[0] = 2
    one.add(np.array([3]), rows)
    other.add(np.array([100_000]), rows)
    one.add_all(other)
    entries = TokenEntries()
    one.flush(0, entries)
    assert entries.ids.tolist() == [3, 100_000]
