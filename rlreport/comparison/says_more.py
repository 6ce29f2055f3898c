"""What NEW says more than BASE: n-grams by log-odds, tokens by their share of the KL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.check.ngrams import log_odds_z
from rlreport.text.units import units

LONGEST_NGRAM = 3
MAX_WORDS = 2048
"""Words that are counted of one response."""

LEAST_Z = 3.0
MOST_LISTED = 20
ALIKE = 0.9
"""Of two n-grams, one within the other, the rarer is left out when it is held this often."""


def says_more(base: Sequence[str], new: Sequence[str]) -> pd.DataFrame:
    """Compare the responses of two windows.

    Returns:
        ``ngram``, ``base_share``, ``new_share`` (of responses that hold it) and ``z``
        (``log_odds_z``), the largest z first, at most MOST_LISTED.
    """
    columns = ("ngram", "base_share", "new_share", "z")
    if not base or not new:
        return pd.DataFrame(columns=columns)
    before, after = _holders(base), _holders(new)
    grams = sorted(gram for gram, count in after.items() if count >= 2)
    held = np.array([after[gram] for gram in grams], dtype=np.float64)
    was = np.array([before[gram] for gram in grams], dtype=np.float64)
    z = log_odds_z(held, len(new), was, len(base))
    rows: list[tuple[str, float, float, float]] = []
    chosen: list[tuple[tuple[str, ...], float]] = []
    for i in np.argsort(-z, kind="stable").tolist():
        if z[i] < LEAST_Z or len(rows) == MOST_LISTED:
            break
        if any(_same(grams[i], held[i], other, count) for other, count in chosen):
            continue
        chosen.append((grams[i], held[i]))
        rows.append((" ".join(grams[i]), was[i] / len(base), held[i] / len(new), float(z[i])))
    return pd.DataFrame(rows, columns=columns)


def _holders(texts: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Return how many texts hold each n-gram."""
    counts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        found = units(text)[:MAX_WORDS]
        counts.update(
            {
                tuple(found[start : start + n])
                for n in range(1, LONGEST_NGRAM + 1)
                for start in range(len(found) - n + 1)
            }
        )
    return counts


def _same(gram: tuple[str, ...], count: float, other: tuple[str, ...], known: float) -> bool:
    """Return whether one of two n-grams says nothing beyond the other."""
    short, long = sorted((gram, other), key=len)
    inside = any(long[i : i + len(short)] == short for i in range(len(long) - len(short) + 1))
    return inside and min(count, known) >= ALIKE * max(count, known)


def tokens_of_kl(base: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame:
    """Compare tokens by their share of the run's KL: ``token`` and ``kl_share`` of each side.

    Returns:
        ``token``, ``base_share``, ``new_share`` and ``change``, the largest change first.
    """
    columns = ["token", "base_share", "new_share", "change"]
    if base is None or new is None:
        return pd.DataFrame(columns=columns)
    shares = [table.groupby("token", sort=True)["kl_share"].sum() for table in (base, new)]
    both = pd.DataFrame({"base_share": shares[0], "new_share": shares[1]}).fillna(0.0)
    both["change"] = both["new_share"] - both["base_share"]
    order = np.argsort(-both["change"].abs().to_numpy(), kind="stable")[:MOST_LISTED]
    found = both.iloc[order].rename_axis("token").reset_index()[columns]
    return found[found["change"] != 0]
