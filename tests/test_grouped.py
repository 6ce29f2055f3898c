"""Figures over groups equal pandas' own, NaN skipped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlreport.summarise.steps import Grouped

values = hnp.arrays(
    np.float64,
    st.integers(1, 40),
    elements=st.one_of(st.just(np.nan), st.floats(-1e6, 1e6, allow_nan=False)),
)


@given(values=values, seed=st.integers(0, 9))
def test_reductions_equal_pandas(values, seed):
    keys = np.sort(np.random.default_rng(seed).integers(0, 5, len(values)))
    groups = Grouped.by(keys)
    frame = pd.Series(values).groupby(keys)
    scale = np.nanmax(np.abs(values), initial=1.0)

    def same(mine, theirs):
        np.testing.assert_allclose(mine, theirs.to_numpy(float), rtol=1e-9, atol=1e-9 * scale)

    same(groups.mean(values), frame.mean())
    same(groups.std(values), frame.std(ddof=0))
    same(groups.min(values), frame.min())
    same(groups.max(values), frame.max())
    same(groups.sum(values), frame.sum())
    assert groups.counts.tolist() == frame.size().tolist()


def test_weighted_mean_skips_rows_without_weight_or_value():
    groups = Grouped.by(np.array([0, 0, 0, 1]))
    mean = groups.mean(np.array([1.0, np.nan, 4.0, np.nan]), np.array([1.0, 5.0, 2.0, np.nan]))
    assert mean[0] == pytest.approx(3.0)
    assert np.isnan(mean[1])


def test_pooled_variance_is_the_variance_of_the_union():
    random = np.random.default_rng(1)
    samples = [random.normal(i, 1 + i, size) for i, size in enumerate((3, 1, 7, 20))]
    groups = Grouped.by(np.array([0, 0, 0, 1]))
    counts = np.array([len(s) for s in samples], float)
    means = np.array([s.mean() for s in samples])
    m2 = np.array([((s - s.mean()) ** 2).sum() for s in samples])
    expected = [np.concatenate(samples[:3]).std(), samples[3].std()]
    found = np.sqrt(groups.pooled_variance(counts, means, m2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_correlation_equals_numpy_and_is_missing_without_spread():
    random = np.random.default_rng(2)
    x, y = random.normal(size=12), random.normal(size=12)
    groups = Grouped.by(np.repeat([0, 1], [10, 2]))
    y[10:] = 3.0
    found = groups.correlation(x, y)
    assert found[0] == pytest.approx(np.corrcoef(x[:10], y[:10])[0, 1])
    assert np.isnan(found[1])


def test_no_rows_give_no_groups():
    groups = Grouped.by(np.zeros(0, np.int64))
    assert len(groups) == 0
    assert groups.mean(np.zeros(0)).shape == (0,)
