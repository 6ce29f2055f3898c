"""Guardrails, prompts won and lost, and texts and tokens that only one run has often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from rlreport.check.noise import log_odds_z
from rlreport.check.run import has
from rlreport.comparison.side import ALL_RIGHT, ALL_WRONG, shared
from rlreport.comparison.statistics import (
    LEVEL,
    Effect,
    holm,
    paired_effect,
    shrunk,
    unpaired_effect,
)
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked
from rlreport.text.units import units

GuardLevel = Literal["better", "worse", "changed", "none", "missing"]

GUARDRAILS: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("watched_reward", marked("Watched reward"), ("valid_reward",), 1),
    ("kl", marked("KL"), ("kl_k1",), -1),
    ("length", marked("Length"), ("response_tokens", "response_chars"), -1),
    ("cut_off", marked("Cut off at the limit"), ("cut_off",), -1),
    ("surprisal", marked("Surprisal"), ("surprisal_mean",), 1),
    ("distinct_2", marked("Distinct-2"), ("distinct_2",), 1),
    ("duplicates", marked("Repeated responses"), ("duplicate",), -1),
    ("all_wrong_groups", marked("Groups without signal, all wrong"), (ALL_WRONG,), -1),
    ("all_right_groups", marked("Groups without signal, all right"), (ALL_RIGHT,), 0),
    ("mismatch", marked("Engine mismatch, k3"), ("mismatch_k3",), -1),
    ("tool_errors", marked("Tool errors"), ("tool_errors",), -1),
)
"""Id, name, columns (the first that both runs have), and which way is better: 1 up, -1 down, 0
neither."""

NEVER_BETTER = ("length", "surprisal")
"""Shorter or less certain responses may be a collapse: one way is worse, the other is a change."""


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A figure that should not get worse.

    ``base`` and ``new`` are means of the prompts' means, ``effect`` is that of the shared prompts,
    and ``level`` follows from Holm's correction over all guardrails.
    """

    id: str
    column: str
    base: float
    new: float
    effect: Effect
    level: GuardLevel


def effect_on(
    means: Sequence[pd.DataFrame],
    column: str,
    *,
    paired: bool,
    rounding: pd.Series,
    seed: int,
) -> Effect:
    """Compare one figure: each prompt's means of every run of BASE, then of NEW, by ``pair``.

    ``paired`` compares the prompts that all sides have; ``rounding`` has, by column, the largest
    difference that is none.
    """
    if not all(has(table, column) for table in means):
        return Effect(paired=paired)
    columns = [table[column] for table in means]
    tolerance = float(rounding[column])
    if paired:
        both = shared([table.index for table in means])
        *bases, new = (values.reindex(both).to_numpy(np.float64) for values in columns)
        return paired_effect(np.stack(bases), new, rounding=tolerance, seed=seed)
    pooled = pd.concat(columns[:-1]).groupby(level=0).mean().to_numpy(np.float64)
    *bases, new = (values.to_numpy(np.float64) for values in columns)
    return unpaired_effect(pooled, new, runs=bases, rounding=tolerance, seed=seed)


def guardrails(
    means: Sequence[pd.DataFrame],
    parts: Sequence[str],
    *,
    paired: bool,
    rounding: pd.Series,
    seed: int,
) -> list[Guardrail]:
    """Compare all guardrails and the parts of the reward, together at the level of one test."""
    wanted = [
        *(
            (name, _logged_by_all(means, columns), better)
            for name, _, columns, better in GUARDRAILS
        ),
        *((part, part, 1) for part in parts),
    ]
    effects = [
        effect_on(means, column, paired=paired, rounding=rounding, seed=seed)
        for _, column, _ in wanted
    ]
    found = [bool(np.isfinite(effect.low)) for effect in effects]
    corrected = iter(holm([e.p for e, here in zip(effects, found, strict=True) if here]))
    rows = []
    for (name, column, better), effect, here in zip(wanted, effects, found, strict=True):
        level: GuardLevel = "missing"
        if here:
            shown = next(corrected) <= 1 - LEVEL and effect.value != 0
            level = _level(name, effect.value * better) if shown else "none"
        base, new = (
            float(table[column].mean()) if has(table, column) else np.nan
            for table in (means[0], means[-1])
        )
        rows.append(Guardrail(name, column, base, new, effect, level))
    return rows


def _level(name: str, improvement: float) -> GuardLevel:
    if improvement < 0:
        return "worse"
    return "better" if improvement > 0 and name not in NEVER_BETTER else "changed"


def without_collapse(guardrails: Sequence[Guardrail], *, base: bool, new: bool) -> list[Guardrail]:
    """Return the guardrails, ``changed`` where the collapse of BASE or NEW makes the difference.

    Nothing in a collapsed run is better, and a run is not worse for being longer than one.
    """
    spoilt = {
        one.id
        for one in guardrails
        if (one.level == "better" and new)
        or (one.level == "worse" and base and not new and one.id in NEVER_BETTER)
    }
    return [replace(one, level="changed") if one.id in spoilt else one for one in guardrails]


def _logged_by_all(means: Sequence[pd.DataFrame], columns: Sequence[str]) -> str:
    return next((c for c in columns if all(has(table, c) for table in means)), columns[0])


MOST_FLIPS = 200


@dataclass(frozen=True, slots=True)
class Flip:
    """A prompt won or lost: its mean rewards in the window and their difference.

    ``base_response`` and ``new_response`` are (step, n) of the responses nearest to these means,
    ``number`` is that of the prompt in NEW; texts that are not kept are None.
    """

    pair: int
    base: float
    new: float
    delta: float
    base_response: tuple[int, int]
    new_response: tuple[int, int]
    number: int = 0
    prompt: str | None = None
    base_text: str | None = None
    new_text: str | None = None


def flips(
    base: pd.DataFrame, new: pd.DataFrame, most: int = MOST_FLIPS, *, rounding: float = 0.0
) -> list[Flip]:
    """Return the prompts whose mean rewards differ by more than rounding, the clearest first."""
    if not (has(base, "reward") and has(new, "reward")):
        return []
    means = [frame.groupby("pair", sort=True)["reward"].mean().dropna() for frame in (base, new)]
    both = means[0].index.intersection(means[1].index)
    left, right = (mean.reindex(both).to_numpy(np.float64) for mean in means)
    inside = [frame[frame["pair"].isin(both)] for frame in (base, new)]
    error = np.hypot(*(_standard_error(frame, both) for frame in inside))
    delta = right - left
    drawn = np.nan_to_num(shrunk(delta, error))
    order = np.argsort(-np.abs(drawn), kind="stable")
    order = order[np.abs(delta[order]) > rounding][:most]
    nearest = [_nearest(frame[frame["pair"].isin(both[order])]) for frame in inside]
    columns = [values[order].tolist() for values in (both.to_numpy(), left, right, delta)]
    return [
        Flip(pair, old, current, gap, nearest[0][pair], nearest[1][pair])
        for pair, old, current, gap in zip(*columns, strict=True)
    ]


def _standard_error(frame: pd.DataFrame, prompts: pd.Index) -> Floats:
    """Return the error of each prompt's mean reward, with one variance for all prompts."""
    of_prompt = frame.groupby("pair", sort=True)["reward"]
    count = of_prompt.count().reindex(prompts).to_numpy(np.float64)
    squares = float(np.nansum(np.square(frame["reward"] - of_prompt.transform("mean"))))
    freedom = max(1.0, float(np.nansum(np.maximum(count - 1, 0))))
    return np.asarray(np.sqrt(squares / freedom / np.maximum(count, 1)))


def _nearest(frame: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """Return (step, n) of the response nearest to its prompt's mean reward, by ``pair``."""
    known = frame[frame["reward"].notna()].reset_index(drop=True)
    away = (known["reward"] - known.groupby("pair", sort=False)["reward"].transform("mean")).abs()
    chosen = known.loc[away.groupby(known["pair"], sort=False).idxmin()]
    pairs, steps, ns = (chosen[name].tolist() for name in ("pair", "step", "n"))
    return dict(zip(pairs, zip(steps, ns, strict=True), strict=True))


LONGEST_NGRAM = 3
MAX_WORDS = 2048
"""Words that are counted of one response."""

LEAST_Z = 3.0
MOST_LISTED = 20
ALIKE = 0.9
"""Of two n-grams, one within the other, the rarer is left out when it is held this often."""


def distinctive_texts(base: Sequence[str], new: Sequence[str]) -> pd.DataFrame:
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
