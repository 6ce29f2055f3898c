"""N-grams that spread through the responses, and what holding them does to the reward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rlreport.check import ngram_counts as counting
from rlreport.check.ngram_counts import Bools, Ints, Sample, sample_of
from rlreport.check.ngram_merge import merge, readable
from rlreport.check.noise import change
from rlreport.check.reward_lift import InsideReward
from rlreport.check.thresholds import Thresholds
from rlreport.check.windows import Floats, Window, first_and_last, last
from rlreport.tables import NgramSample, Tables
from rlreport.text.special import is_special
from rlreport.text.tokens import Style, detect_style

PRIOR = 20.0
"""Weight of the Dirichlet prior, in responses."""

MOST_NGRAMS = 300
"""Spreading n-grams looked at more closely, those with the largest z."""

EXAMPLES = 5
COLUMNS = (
    *("ngram", "n", "share_first", "share_last", "z"),
    *("reward_lift", "own_lift", "own_z", "examples", "positions"),
)


@dataclass(frozen=True, slots=True)
class SpreadingNgrams:
    """What spreads.

    Attributes:
        table: one row a text, the largest z first: ``ngram`` (readable text), ``n`` (units),
            ``share_first`` and ``share_last`` (shares of responses, in the first window or
            the reference, and in the last window), ``z`` (log-odds), ``reward_lift`` (reward
            of responses that hold it less that of the others, inside a step), ``own_lift``
            (the same in std of the reward, less what the texts above already explain),
            ``own_z``, ``examples`` (list of (step, n), rewards high to low) and
            ``positions`` (unit where it first stands in each example).
        by_step: ``step``, ``ngram``, ``share``; long form.
    """

    table: pd.DataFrame
    by_step: pd.DataFrame


@dataclass(frozen=True, slots=True)
class _Candidates:
    """N-grams of one length that pass the thresholds on shares."""

    n: int
    keys: Ints
    before: Floats
    after: Floats
    z: Floats


def spreading_ngrams(tables: Tables, thresholds: Thresholds, limit: int = 20) -> SpreadingNgrams:
    """Find the n-grams that the last window holds far more often than the start.

    Shares are of responses, not of units: a response that repeats a symbol counts once.
    Works on ``Tables.ngrams``; empty without it, or without something to compare with.
    """
    ngrams = tables.ngrams
    windows = first_and_last(tables, thresholds.trend)
    bases = [] if ngrams is None else _baselines(tables, ngrams, windows)
    if ngrams is None or not bases:
        return _empty()
    end = last(tables, thresholds.trend)
    ending = sample_of(tables, ngrams, end)
    if not len(ending.rows):
        return _empty()
    style = detect_style(ngrams.vocabulary) if ngrams.unit == "token" else None
    usable = np.array([_usable(text) for text in ngrams.vocabulary], dtype=np.bool_)
    units = counting.common_units(ending, thresholds.reward_hacking_token.share, usable)
    places = np.full(len(ngrams.vocabulary), -1, np.int64)
    places[units] = np.arange(len(units))
    found = [
        candidates
        for n in range(1, counting.LONGEST + 1)
        for base in bases
        if len((candidates := _candidates(n, ending, base, places, len(units), thresholds)).keys)
    ]
    everything = sample_of(tables, ngrams)
    spread = _Spread(tables, ngrams, everything, places, units, style)
    return spread.told(found, windows, end, thresholds, limit)


def log_odds_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the log-odds ratio with an informative Dirichlet prior.

    Monroe, Colaresi and Quinn 2008, "Fightin' Words", equations 15, 19 and 22, on counts of
    responses: the prior of an n-gram is its share of both samples, worth ``PRIOR`` responses.
    """
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    odds = np.log((after + prior) / (of_after + PRIOR - after - prior))
    odds -= np.log((before + prior) / (of_before + PRIOR - before - prior))
    z: Floats = odds / np.sqrt(1 / (after + prior) + 1 / (before + prior))
    return z


def _empty() -> SpreadingNgrams:
    return SpreadingNgrams(
        pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=["step", "ngram", "share"])
    )


def _usable(text: str) -> bool:
    """Special tokens and blanks are formatting; symbols are not."""
    return bool(text.strip(" \t\r\nĠĊ▁")) and not is_special(text)


def _baselines(
    tables: Tables, ngrams: NgramSample, windows: tuple[Window, Window] | None
) -> list[Sample]:
    """Return what the end is compared with: the first window, and the reference's responses.

    The reference's are comparable only where they are counted in the same units.
    """
    bases = [] if windows is None else [sample_of(tables, ngrams, windows[0])]
    reference = tables.ref_ngrams
    if reference is not None and reference.unit == ngrams.unit:
        number = {text: i for i, text in enumerate(ngrams.vocabulary)}
        # Units the policy never used get a number past its vocabulary's, which matches nothing.
        known = np.array([number.get(text, -1) for text in reference.vocabulary], dtype=np.int32)
        sample = sample_of(tables, reference)
        bases.append(replace(sample, units=known[sample.units]))
    return [base for base in bases if len(base.rows)]


def _candidates(
    n: int, ending: Sample, base: Sample, places: Ints, size: int, thresholds: Thresholds
) -> _Candidates:
    limits = thresholds.reward_hacking_token
    # The last place stands for units outside the vocabulary (-1 indexes it).
    padded = np.append(places, -1)
    keys, counts = counting.holders(ending, lambda part: counting.ngram_keys(part, padded, size, n))
    after = counts.astype(np.float64)
    common = after >= limits.share * len(ending.rows) * (1 - 1e-9)
    keys, after = keys[common], after[common]
    before = counting.counts_of(base, padded, size, n, keys).astype(np.float64)
    z = log_odds_z(after, len(ending.rows), before, len(base.rows))
    after, before = after / len(ending.rows), before / len(base.rows)
    # A hair's breadth of tolerance: 0.3 is three times 0.1, whatever the rounding.
    chosen = (after >= limits.ratio * before * (1 - 1e-9)) & (z >= limits.z)
    return _Candidates(n, keys[chosen], before[chosen], after[chosen], z[chosen])


@dataclass(frozen=True, slots=True)
class _Spread:
    """The run's sample, and how to tell what spreads in it."""

    tables: Tables
    ngrams: NgramSample
    sample: Sample
    places: Ints
    units: Ints
    style: Style | None

    def told(
        self,
        found: list[_Candidates],
        windows: tuple[Window, Window] | None,
        end: Window,
        thresholds: Thresholds,
        limit: int,
    ) -> SpreadingNgrams:
        """Merge the candidates into texts and describe each."""
        if not found:
            return _empty()
        flat = [(c, i) for c in found for i in range(len(c.keys))]
        flat.sort(key=lambda item: (-item[0].z[item[1]], item[0].n, item[0].keys[item[1]]))
        flat = flat[:MOST_NGRAMS]
        counts, position = self._occurrences(flat)
        held = counts > 0
        units = [self._units(c, i) for c, i in flat]
        reward = InsideReward(self.tables, self.sample)
        unexplained = reward.values
        rows: list[dict[str, object]] = []
        series: list[pd.DataFrame] = []
        for text in merge(units, held):
            words = readable(
                [self.ngrams.vocabulary[u] for u in text.units], self.ngrams.unit, self.style
            )
            candidates, i = flat[text.seed]
            if not words or any(words == row["ngram"] for row in rows):
                continue
            if self._copied(words, held[text.seed], end):
                continue
            if windows is not None and not self._lasting(held[text.seed], windows, thresholds):
                continue
            lift = reward.lift(held[text.seed], reward.values)
            own = reward.lift(held[text.seed], unexplained)
            if own.z >= thresholds.reward_hacking_token.lift_z:
                unexplained = reward.without(counts[text.seed], unexplained)
            rows.append(
                {
                    "ngram": words,
                    "n": len(text.units),
                    "share_first": float(candidates.before[i]),
                    "share_last": float(candidates.after[i]),
                    "z": float(candidates.z[i]),
                    "reward_lift": lift.difference,
                    "own_lift": own.in_std,
                    "own_z": own.z,
                    **self._examples(held[text.seed], position[text.seed], end),
                }
            )
            series.append(self._by_step(words, held[text.seed]))
            if len(rows) >= limit:
                break
        if not rows:
            return _empty()
        return SpreadingNgrams(pd.DataFrame(rows, columns=COLUMNS), pd.concat(series))

    def _occurrences(self, flat: list[tuple[_Candidates, int]]) -> tuple[Ints, Ints]:
        counts = np.zeros((len(flat), len(self.sample.rows)), np.int64)
        position = np.full(counts.shape, -1, np.int64)
        for n in range(1, counting.LONGEST + 1):
            of_n = [j for j, (c, _) in enumerate(flat) if c.n == n]
            if not of_n:
                continue
            keys = np.array([flat[j][0].keys[flat[j][1]] for j in of_n])
            wanted, inverse = np.unique(keys, return_inverse=True)
            many, where = counting.occurrences(self.sample, self.places, len(self.units), n, wanted)
            counts[of_n], position[of_n] = many[inverse], where[inverse]
        return counts, position

    def _units(self, candidates: _Candidates, i: int) -> tuple[int, ...]:
        key, numbers = int(candidates.keys[i]), []
        for _ in range(candidates.n):
            key, number = divmod(key, len(self.units))
            numbers.append(int(self.units[number]))
        return tuple(reversed(numbers))

    def _copied(self, text: str, held: Bools, end: Window) -> bool:
        """Say whether most responses that hold the text have it from their prompt."""
        inside = (self.sample.rows >= end.rows.start) & held
        prompts = self.tables.responses["prompt_id"].to_numpy()[self.sample.rows[inside]]
        texts = self.tables.prompts.set_index("prompt_id")["prompt"]
        copied = [text.lower() in str(texts.get(prompt, "")).lower() for prompt in prompts.tolist()]
        return bool(copied) and float(np.mean(copied)) > 0.5

    def _lasting(self, held: Bools, windows: tuple[Window, Window], thresholds: Thresholds) -> bool:
        """Ask that the rise be more than what steps and prompts do by chance."""
        shares = np.full(len(self.tables.responses), np.nan)
        shares[self.sample.rows] = held
        moved = change(self.tables, shares, *windows)
        return bool(moved.z >= thresholds.trend.z)

    def _examples(self, held: Bools, position: Ints, end: Window) -> dict[str, object]:
        at = np.flatnonzero(held & (self.sample.rows >= end.rows.start))
        rows = self.tables.responses.iloc[self.sample.rows[at]].assign(position=position[at])
        rows = rows.sort_values("reward", ascending=False, kind="stable").head(EXAMPLES)
        return {
            "examples": list(zip(rows["step"].tolist(), rows["n"].tolist(), strict=True)),
            "positions": rows["position"].tolist(),
        }

    def _by_step(self, text: str, held: Bools) -> pd.DataFrame:
        shares = pd.Series(held.astype(np.float64)).groupby(self.sample.steps).mean()
        return pd.DataFrame({"step": shares.index, "ngram": text, "share": shares.to_numpy()})
