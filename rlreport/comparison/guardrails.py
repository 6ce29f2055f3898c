"""Figures that should not get worse while the reward gets better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from rlreport.check.run import has
from rlreport.comparison.side import ALL_RIGHT, ALL_WRONG, shared
from rlreport.comparison.statistics import LEVEL, Effect, holm, paired_effect, unpaired_effect
from rlreport.text.messages import marked

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
    """A figure that should not get worse: its means, the effect, and what it shows.

    Attributes:
        column: figure of the response data.
        base, new: mean of the prompts' means.
        effect: of the shared prompts.
        level: by Holm's correction over all guardrails; ``changed`` is neither better nor worse.
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
        *((name, _fed(means, columns), better) for name, _, columns, better in GUARDRAILS),
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
    """Return what a difference beyond chance is."""
    if improvement < 0:
        return "worse"
    return "better" if improvement > 0 and name not in NEVER_BETTER else "changed"


def beside_collapse(guardrails: Sequence[Guardrail], *, base: bool, new: bool) -> list[Guardrail]:
    """Return the guardrails where BASE or NEW collapsed, which is no measure of the other.

    Nothing in a collapsed run is better, and a run is not worse for being longer than one.
    """

    def judged(one: Guardrail) -> Guardrail:
        spoilt = new if one.level == "better" else base and not new and one.id in NEVER_BETTER
        return replace(one, level="changed") if spoilt and one.level in ("better", "worse") else one

    return [judged(one) for one in guardrails]


def _fed(means: Sequence[pd.DataFrame], columns: Sequence[str]) -> str:
    return next((c for c in columns if all(has(table, c) for table in means)), columns[0])
