"""The merged token sums, bigram sketches and samples as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Ints
from rlreport.read.bigrams import BigramSketch
from rlreport.read.exact import to_floats
from rlreport.read.partial import Partial
from rlreport.read.sample import UnitSample, sample_size, take
from rlreport.read.token_table import COUNTS, SUMS
from rlreport.tables import NgramSample


def token_frame(partial: Partial) -> pd.DataFrame:
    """Return ``Scan.tokens``."""
    table = partial.tokens
    codes = np.searchsorted(partial.hashes, table.tokens)
    strings = np.array(partial.strings, dtype=object)
    # Strings that differ only beyond what is kept of them are one.
    if len(set(partial.strings)) < len(strings):
        number, strings = pd.factorize(strings)
        codes = number[codes]
    frame = {
        "bin_start": table.bins << table.shift,
        "bin_stop": ((table.bins + 1) << table.shift) - 1,
        "token": pd.Categorical.from_codes(codes, pd.Index(strings, dtype=object)),
    }
    count = table.count("count")
    frame |= {"count": count} | {name: count - table.count(name) for name in COUNTS[1:]}
    frame |= {name: table.sum(name) for name in SUMS}
    return pd.DataFrame(frame, copy=False)


def position_frame(partial: Partial) -> pd.DataFrame:
    """Return ``Scan.positions``."""
    counts = partial.positions.counts
    names = ("abs_error_mean", "value_mean", "return_mean")
    deciles = np.flatnonzero(counts)
    means = to_floats(partial.positions.sums)[:, deciles] / counts[deciles]
    return pd.DataFrame(
        {"decile": deciles, "count": counts[deciles], **dict(zip(names, means, strict=True))}
    )


def bigram_frame(partial: Partial) -> pd.DataFrame:
    """Return ``Scan.bigrams``."""
    size = BigramSketch.size_for(len(partial.bigrams))
    steps = sorted(partial.bigrams)
    step, bigrams = partial.columns["step"], partial.columns["bigrams"]
    places = np.searchsorted(np.array(steps, dtype=np.int64), step)
    return pd.DataFrame(
        {
            "step": np.array(steps, dtype=np.int64),
            "bigrams": np.bincount(places, bigrams.astype(np.float64), len(steps)).astype(np.int64),
            "distinct": [BigramSketch.estimate(partial.bigrams[s], size) for s in steps],
        }
    )


def ngram_sample(sample: UnitSample, partial: Partial, order: Ints) -> NgramSample | None:
    """Return a sample with rows of the response table, None if it holds no unit.

    Where a run has tokens, only responses with tokens are kept: the others' words could not
    be compared with them.
    """
    if not len(sample.units):
        return None
    tokens = bool(sample.tokens.any())
    row_of = np.full(partial.rows, -1, dtype=np.int64)
    row_of[order] = np.arange(len(order))
    kept = np.flatnonzero((sample.tokens == tokens) & (row_of[sample.rows] >= 0))
    kept = kept[np.argsort(row_of[sample.rows[kept]])]
    size = sample_size(len(np.unique(sample.steps)))
    sample = take(sample, kept)
    # Numbering what occurs is far cheaper than sorting millions of units.
    seen = np.zeros(len(partial.strings), dtype=bool)
    seen[sample.units] = True
    numbers = (np.cumsum(seen) - 1).astype(np.int32)
    return NgramSample(
        rows=row_of[sample.rows],
        offsets=sample.offsets,
        units=numbers[sample.units],
        vocabulary=[partial.strings[i] for i in np.flatnonzero(seen).tolist()],
        per_step=size,
        unit="token" if tokens else "word",
    )
