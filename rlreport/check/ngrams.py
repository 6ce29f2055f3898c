"""N-grams that spread through the responses, and what holding them does to the reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from rlreport.check import ngram_counts as counting
from rlreport.check.finding import Onset
from rlreport.check.ngram_counts import Bools, Sample, log_odds_z, sample_of
from rlreport.check.ngram_merge import merge, readable
from rlreport.check.onset import BASE
from rlreport.check.reward_hacking_token import RewardHackingToken
from rlreport.check.reward_lift import InsideReward
from rlreport.check.run import Run
from rlreport.check.spellings import united
from rlreport.check.spreading_text import SpreadingText, named_once
from rlreport.check.text_views import Common, View, views
from rlreport.check.windows import Trend, window
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import TextSample
from rlreport.text.special import is_special
from rlreport.text.tokens import Style, readable_tokens

MOST_NGRAMS = 300
"""Spreading n-grams looked at more closely, those with the largest z."""

EXAMPLES = 5

LONGER = 1.2
"""Growth of length from which what longer text holds, and earns, is taken out first."""

COLUMNS = (
    *("kind", "ngram", "n", "share_first", "share_last", "z"),
    *("reward_lift", "lift_z", "own_lift", "own_z", "of_gain", "examples"),
)


@dataclass(frozen=True, slots=True)
class SpreadingNgrams:
    """What spreads.

    Attributes:
        table: one row a text, the largest z first: ``kind`` (text, stem, opening, closing,
            structure), ``ngram`` (readable text), ``n`` (units), ``share_first`` and
            ``share_last`` (shares of responses, in the first window or the reference, and in
            the last window), ``z`` (log-odds), ``reward_lift`` (reward of responses that hold
            it less that of the others, inside a step, since it spread), ``lift_z``,
            ``own_lift`` (the same in std of the reward, less what the texts above already
            explain), ``own_z``, ``of_gain`` (what having spread earns, as a part of the
            gain of the reward or of its gap to the reference) and ``examples`` (list of
            (step, n) of the last window, rewards high to low).
        by_step: ``step``, ``ngram``, ``share``; long form.
        held: text -> float64 (rows of the run,): the unit where it first stands, −1 where the
            response does not hold it, NaN outside the sample.
        counts: text -> float64 (rows of the run,): how often the response holds it, NaN
            outside the sample.
    """

    table: pd.DataFrame
    by_step: pd.DataFrame
    held: dict[str, Floats] = field(default_factory=dict)
    counts: dict[str, Floats] = field(default_factory=dict)

    def told(self) -> SpreadingNgrams:
        """Return what pages show: without the figures of every response."""
        return replace(self, held={}, counts={})


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An n-gram that passes the thresholds on shares: its units, in what it is compared with."""

    units: tuple[int, ...]
    base: Sample
    before: float
    after: float
    z: float
    key: int


# Rewards may be as large as a float holds.
@np.errstate(over="ignore", invalid="ignore")
def spreading_ngrams(run: Run, limit: int = 20) -> SpreadingNgrams:
    """Find the texts that the last window holds far more often than the start.

    Shares are of responses, not of units: a response that repeats a symbol counts once.
    Beside n-grams these are stems, openings, closings and structure. Works on
    ``Tables.ngrams``; empty without it, or without something to compare with.
    """
    ngrams = run.tables.ngrams
    if ngrams is None or not len(sample_of(run.tables, ngrams, run.last).rows):
        return _empty()
    style, texts = run.units
    reference = run.tables.ref_ngrams
    of_reference = {}
    if reference is not None and reference.unit == ngrams.unit:
        words = readable_tokens(reference.vocabulary, style) if style else reference.vocabulary
        of_reference = {view.kind: view.sample for view in views(reference, words, None)}
    told: dict[str, list[SpreadingText]] = {"text": _ngram_texts(run, ngrams, style)}
    ending = sample_of(run.tables, ngrams, run.last)
    common = Common(ending, counting.least_holders(ending, run.limits[RewardHackingToken].share))
    for view in views(ngrams, texts, run.responses, common):
        told[view.kind] = _view_texts(run, view, of_reference.get(view.kind))
    return _told(run, ngrams, named_once(told), limit)


def _empty() -> SpreadingNgrams:
    return SpreadingNgrams(
        pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=["step", "ngram", "share"])
    )


def _usable(text: str) -> bool:
    """Special tokens and blanks are formatting; symbols are not."""
    return bool(text.strip(" \t\r\nĠĊ▁")) and not is_special(text)


def _baselines(run: Run, ngrams: TextSample, reference: TextSample | None) -> list[Sample]:
    """Return what the end is compared with: the first window, and the reference's responses.

    The reference's are comparable only where they are counted in the same units.
    """
    bases = [] if run.first is None else [sample_of(run.tables, ngrams, run.first)]
    if reference is not None and reference.unit == ngrams.unit:
        number = {text: i for i, text in enumerate(ngrams.vocabulary)}
        # Units the policy never used get a number past its vocabulary's, which matches nothing.
        known = np.array([number.get(text, -1) for text in reference.vocabulary], dtype=np.int32)
        sample = sample_of(run.tables, reference)
        bases.append(replace(sample, units=known[sample.units]))
    return [base for base in bases if len(base.rows)]


def _candidates(
    n: int, ending: Sample, base: Sample, units: Ints, places: Ints, limits: RewardHackingToken
) -> list[_Candidate]:
    # The last place stands for units outside the vocabulary (-1 indexes it).
    padded, size = np.append(places, -1), len(units)
    keys, counts = counting.holders(ending, lambda part: counting.ngram_keys(part, padded, size, n))
    after = counts.astype(np.float64)
    common = after >= counting.least_holders(ending, limits.share)
    keys, after = keys[common], after[common]
    before = counting.counts_of(base, padded, size, n, keys).astype(np.float64)
    z = log_odds_z(after, len(ending.rows), before, len(base.rows))
    after, before = after / len(ending.rows), before / len(base.rows)
    # A hair's breadth of tolerance: 0.3 is three times 0.1, whatever the rounding.
    chosen = (after >= limits.ratio * before * (1 - 1e-9)) & (z >= limits.z)
    told = (values[chosen].tolist() for values in (before, after, z, keys))
    return [
        _Candidate(_units_of(found[-1], n, units), base, *found)
        for found in zip(*told, strict=True)
    ]


def _units_of(key: int, n: int, units: Ints) -> tuple[int, ...]:
    """Return the vocabulary units of a key."""
    numbers = []
    for _ in range(n):
        key, number = divmod(key, len(units))
        numbers.append(int(units[number]))
    return tuple(reversed(numbers))


def _find(
    run: Run, ngrams: TextSample, reference: TextSample | None, usable: Bools, longest: int
) -> tuple[list[_Candidate], Ints, Ints]:
    """Count the n-grams of a sample up to a length, and keep those that spread.

    Returns:
        The candidates, the largest z first; how often each response holds each, and where
        first, int64 (candidates, S).
    """
    limits = run.limits[RewardHackingToken]
    bases = _baselines(run, ngrams, reference)
    ending = sample_of(run.tables, ngrams, run.last)
    units = counting.common_units(ending, limits.share, usable)
    places = np.full(len(ngrams.vocabulary), -1, np.int64)
    places[units] = np.arange(len(units))
    found = [
        candidate
        for n in range(1, longest + 1)
        for base in bases
        for candidate in _candidates(n, ending, base, units, places, limits)
    ]
    found = sorted(found, key=lambda c: (-c.z, len(c.units), c.key))[:MOST_NGRAMS]
    sample = sample_of(run.tables, ngrams)
    counts = np.zeros((len(found), len(sample.rows)), np.int64)
    position = np.full(counts.shape, -1, np.int64)
    for n in range(1, longest + 1):
        of_n = [j for j, candidate in enumerate(found) if len(candidate.units) == n]
        if of_n:
            wanted, inverse = np.unique([found[j].key for j in of_n], return_inverse=True)
            many, where = counting.occurrences(sample, places, len(units), n, wanted)
            counts[of_n], position[of_n] = many[inverse], where[inverse]
    return found, counts, position


def _ngram_texts(run: Run, ngrams: TextSample, style: Style | None) -> list[SpreadingText]:
    """Merge the n-grams that spread into the texts a person would name."""
    usable = np.array([_usable(text) for text in ngrams.vocabulary], dtype=np.bool_)
    found, counts, position = _find(run, ngrams, run.tables.ref_ngrams, usable, counting.LONGEST)
    texts: list[tuple[SpreadingText, Sample]] = []
    for units in merge([candidate.units for candidate in found], counts > 0):
        words = readable([ngrams.vocabulary[u] for u in units], ngrams.unit, style)
        # Whoever holds the text holds each of its n-grams: the longest and rarest tells most
        # nearly how many do. A part alone may stand in many other words.
        inside = [i for i, one in enumerate(found) if _contains(units, one.units)]
        i = min(inside, key=lambda i: (-len(found[i].units), (counts[i] > 0).sum()))
        if words:
            near = found[i]
            shares = near.before, near.after, near.z
            text = SpreadingText("text", words, len(units), *shares, counts[i], position[i])
            texts.append((text, near.base))
    if style is None:
        return [text for text, _ in texts]
    return united(run, ngrams, style, texts)


def _contains(whole: Sequence[int], part: Sequence[int]) -> bool:
    """Say whether a sequence of units holds another, without gaps."""
    size = len(part)
    return any(whole[i : i + size] == part for i in range(len(whole) - size + 1))


def _view_texts(run: Run, view: View, reference: TextSample | None) -> list[SpreadingText]:
    """Return what spreads in a view."""
    words = view.sample.vocabulary
    found, counts, nowhere = _find(run, view.sample, reference, np.ones(len(words), np.bool_), 1)
    nowhere = np.full_like(nowhere, -1)
    return [
        SpreadingText(view.kind, words[c.units[0]], 1, c.before, c.after, c.z, held, place)
        for c, held, place in zip(found, counts, nowhere, strict=True)
    ]


def _told(run: Run, ngrams: TextSample, texts: list[SpreadingText], limit: int) -> SpreadingNgrams:
    """Describe each text: since when it spreads, and what the reward pays for it."""
    sample = sample_of(run.tables, ngrams)
    reward = InsideReward(run.tables, sample)
    base = reward.values
    growth = _growth(run)
    if growth > 1:
        # Text that runs on holds more of everything: what length and its end earn is no text's.
        for name in (run.length, "finished"):
            base = reward.without(run.column(name)[sample.rows], base)
    unexplained = base
    rows: list[dict[str, object]] = []
    series: list[pd.DataFrame] = []
    held_of: dict[str, Floats] = {}
    counts_of: dict[str, Floats] = {}
    for text in texts:
        held = text.counts > 0
        if len(rows) >= limit or text.words in held_of or _copied(run, sample, text, held):
            continue
        shares = np.full(len(run.responses), np.nan)
        shares[sample.rows] = held
        counts = np.full(len(run.responses), np.nan)
        counts[sample.rows] = text.counts
        moved, often = run.change(shares), run.change(counts)
        if run.first is not None and not moved.rose:
            continue
        if text.kind in ("text", "stem") and growth > 1:
            # What longer text would hold anyway, and how often.
            held_anyway = 1 - (1 - moved.first) ** growth
            ratio = run.limits[RewardHackingToken].ratio
            if moved.last < ratio * held_anyway and often.last < ratio * growth * often.first:
                continue
        by_step = run.by_step(shares)
        begun = run.onset(by_step)
        since = begun.low if begun else None
        lift = reward.lift(held.astype(np.float64), base, since)
        own = reward.lift(held.astype(np.float64), unexplained, since)
        if own.z >= run.limits[RewardHackingToken].lift_z:
            unexplained = reward.without(text.counts.astype(np.float64), unexplained)
        by_count = reward.lift(text.counts.astype(np.float64), base, since)
        earned = max(lift.difference * moved.difference, by_count.difference * often.difference)
        rows.append(
            {
                "kind": text.kind,
                "ngram": text.words,
                "n": text.n,
                "share_first": text.before,
                "share_last": text.after,
                "z": text.z,
                "reward_lift": lift.difference,
                "lift_z": lift.z,
                "own_lift": own.in_std,
                "own_z": own.z,
                "of_gain": earned / _gain_since(run, begun),
                "examples": _examples(run, shares),
            }
        )
        known = np.isfinite(by_step)
        series.append(
            pd.DataFrame({"step": run.steps[known], "ngram": text.words, "share": by_step[known]})
        )
        held_of[text.words] = np.full(len(run.responses), np.nan)
        held_of[text.words][sample.rows] = np.where(held, np.maximum(text.position, 0), -1)
        counts_of[text.words] = counts
    if not rows:
        return _empty()
    return SpreadingNgrams(
        pd.DataFrame(rows, columns=COLUMNS), pd.concat(series), held_of, counts_of
    )


def _growth(run: Run) -> float:
    """Return how many times longer responses became, 1 where they did not."""
    moved = run.change(run.column(run.length))
    grew = moved.last >= LONGER * moved.first and moved.rose
    return moved.last / moved.first if grew else 1.0


def _gain_since(run: Run, begun: Onset | None) -> float:
    """Return the gain of the reward, or of its gap, over the start; NaN if none came since."""
    if run.first is None:
        return np.nan
    before = run.first
    if begun is not None:
        stop = max(int(np.searchsorted(run.steps, begun.low)), BASE)
        before = window(run.tables, max(0, stop - len(run.first.steps)), stop)
    moved = [run.change(run.column(name), first=before) for name in ("reward", "reward_gap")]
    if not any(one.z >= run.limits[Trend].z for one in moved):
        return np.nan
    moved += [run.change(run.column(name)) for name in ("reward", "reward_gap")]
    return float(np.nanmax([one.difference for one in moved]))


def _examples(run: Run, shares: Floats) -> list[tuple[int, int]]:
    """Return the holders of the last window with the highest rewards."""
    chosen = run.responses[(shares == 1) & (run.place >= len(run.steps) - len(run.last.steps))]
    chosen = chosen.sort_values("reward", ascending=False, kind="stable").head(EXAMPLES)
    return list(zip(chosen["step"].tolist(), chosen["n"].tolist(), strict=True))


def _copied(run: Run, sample: Sample, text: SpreadingText, held: Bools) -> bool:
    """Say whether most responses that hold the text have it from their prompt."""
    if text.kind not in ("text", "stem"):
        return False
    inside = (sample.rows >= run.last.rows.start) & held
    prompts = run.responses["prompt_id"].to_numpy()[sample.rows[inside]]
    texts = run.tables.prompts.set_index("prompt_id")["prompt"]
    words = text.words.rstrip("*").lower() if text.kind == "stem" else text.words.lower()
    copied = [words in str(texts.get(prompt, "")).lower() for prompt in prompts.tolist()]
    return bool(copied) and float(np.mean(copied)) > 0.5
