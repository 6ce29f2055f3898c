"""Two runs side by side: what differs, from their response data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.run import has
from rlreport.comparison.flips import Flip, flips
from rlreport.comparison.guardrails import Guardrail, effect_on, guardrails
from rlreport.comparison.side import (
    ROUNDING,
    Side,
    Windows,
    apart,
    one_split,
    pairable,
    shared,
    windows,
    with_group_kinds,
    within,
)
from rlreport.comparison.statistics import (
    Band,
    Cells,
    Effect,
    EqualKL,
    at_equal_kl,
    difference_band,
)
from rlreport.figures.ragged import Floats, Ints

Level = Literal["better", "worse", "no_evidence", "incomparable"]
Reason = Literal[
    "no_common_steps",
    "early_common_steps",
    "no_overlap",
    "few_common_prompts",
    "redacted",
    "no_reward",
    "few_prompts",
]


@dataclass(frozen=True, slots=True)
class Ends:
    """What the ends of the runs show: all that the verdict and the gate stand on.

    Attributes:
        split: split that was compared: ``val``, ``train`` or ``all``.
        sides: runs of BASE, then NEW, cut to that split.
        inside: their responses in the window.
        effect: on the reward.
        rounding: largest difference of rewards that is none.
    """

    level: Level
    split: str
    sides: list[Side]
    windows: Windows
    inside: list[pd.DataFrame]
    effect: Effect
    rounding: float
    guardrails: list[Guardrail]


@dataclass(frozen=True, slots=True)
class Comparison(Ends):
    """What differs between BASE and NEW, over all steps and prompt by prompt too.

    Attributes:
        shared: prompts in the window that all sides have there.
        only_base, only_new: prompts in the window that NEW has not, or that some BASE has not.
        base_curve, new_curve: mean reward at the common steps.
        band: their difference.
        equal_kl: reward at the same distance from the reference, None without an overlap.
        equal_kl_watched: the same of the watched reward.
        paths: (√KL, reward) by step of BASE and of NEW; empty where they log no KL.
        flips: prompts, the clearest difference first.
        reasons: what could not be compared as usual.
        prompts: ``pair`` and, by side, the responses and the mean reward in the window.
    """

    shared: int
    only_base: int
    only_new: int
    base_curve: Floats
    new_curve: Floats
    band: Band
    equal_kl: EqualKL | None
    equal_kl_watched: EqualKL | None
    paths: tuple[pd.DataFrame, ...]
    flips: list[Flip]
    reasons: tuple[Reason, ...]
    prompts: pd.DataFrame

    @property
    def steps(self) -> Ints:
        """Steps that both sides have."""
        return self.windows.common


def compare_runs(bases: Sequence[Side], new: Side, *, seed: int = 0) -> Comparison:
    """Compare NEW with runs of BASE; curves, guardrails and flips are of the first of them."""
    ends = compare_ends(bases, new, seed=seed)
    base, other = ends.sides[0].responses, ends.sides[-1].responses
    seen, paired = ends.windows, ends.effect.paired
    *firsts, last = (pd.Index(frame["pair"].unique()) for frame in ends.inside)
    any_base, all_bases = reduce(pd.Index.union, firsts), shared(firsts)
    prompts = np.union1d(base["pair"].to_numpy(), other["pair"].to_numpy())
    curves = [_cells(f, "reward", prompts, seen.common) for f in (base, other) if len(seen.common)]
    return Comparison(
        **{part.name: getattr(ends, part.name) for part in fields(ends)},
        shared=len(all_bases.intersection(last)),
        only_base=len(any_base.difference(last)),
        only_new=len(last.difference(all_bases)),
        base_curve=_curve(base, seen.common),
        new_curve=_curve(other, seen.common),
        band=difference_band(*curves, paired=paired, rounding=ends.rounding, seed=seed)
        if curves
        else Band(*np.zeros((3, 0))),
        equal_kl=_equal_kl(base, other, "reward", seed),
        equal_kl_watched=_equal_kl(base, other, "valid_reward", seed),
        paths=_paths(base, other),
        flips=flips(ends.inside[0], ends.inside[-1], rounding=ends.rounding) if paired else [],
        reasons=_reasons(ends),
        prompts=_prompts(ends.inside[0], ends.inside[-1]),
    )


def compare_ends(bases: Sequence[Side], new: Side, *, seed: int = 0) -> Ends:
    """Compare the last common window of NEW and of one or several runs of BASE."""
    split, sides = one_split(with_group_kinds(apart([*bases, new])))
    frames = [side.responses for side in sides]
    seen = windows(frames)
    inside = [within(frame, window) for frame, window in zip(frames, seen.sides, strict=True)]
    means = [frame.groupby("pair", sort=True).mean(numeric_only=True) for frame in inside]
    paired = pairable([table.index for table in means])
    rounding = ROUNDING * pd.concat([_magnitudes(frame) for frame in inside], axis=1).max(axis=1)
    effect = effect_on(means, "reward", paired=paired, rounding=rounding, seed=seed)
    parts = [part for part in sides[-1].parts if part in sides[0].parts]
    found = guardrails(means, parts, paired=paired, rounding=rounding, seed=seed)
    reward = float(rounding["reward"])
    return Ends(_level(effect), split, sides, seen, inside, effect, reward, found)


def _magnitudes(frame: pd.DataFrame) -> pd.Series:
    """Return the mean of the finite absolute values, by column."""
    values = frame.select_dtypes("number").abs()
    return values.where(np.isfinite(values)).mean()


def _level(effect: Effect) -> Level:
    if not np.isfinite(effect.low):
        return "incomparable"
    if effect.high < 0:
        return "worse"
    return "better" if effect.low > 0 else "no_evidence"


def _reasons(ends: Ends) -> tuple[Reason, ...]:
    found: list[Reason] = []
    common = ends.windows.common
    if not len(common):
        found.append("no_common_steps" if ends.windows.overlap else "no_overlap")
    elif common[-1] < ends.windows.new[1]:
        found.append("early_common_steps")
    if not ends.effect.paired:
        found.append("few_common_prompts" if all(s.named for s in ends.sides) else "redacted")
    if ends.level == "incomparable":
        scored = all(has(frame, "reward") for frame in ends.inside)
        found.append("few_prompts" if scored else "no_reward")
    return tuple(found)


def _prompts(base: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return each prompt's responses and mean reward in the window, by side."""
    tables = [
        frame.groupby("pair", sort=True)["reward"]
        .agg(["size", "mean"])
        .set_axis([f"{name}_responses", f"{name}_reward"], axis=1)
        for name, frame in (("base", base), ("new", new))
    ]
    both = tables[0].join(tables[1], how="outer").sort_index()
    both["difference"] = both["new_reward"] - both["base_reward"]
    return both.reset_index(names="pair")


def _cells(frame: pd.DataFrame, column: str, prompts: NDArray[np.uint64], steps: Ints) -> Cells:
    """Return a side's figures by number of the prompt and of the step."""
    step = frame["step"].to_numpy(np.int64)
    place = np.minimum(np.searchsorted(steps, step), len(steps) - 1)
    return Cells.of(
        np.searchsorted(prompts, frame["pair"].to_numpy()).astype(np.int64),
        np.where(steps[place] == step, place, -1),
        frame[column].to_numpy(np.float64),
        (len(prompts), len(steps)),
    )


def _curve(frame: pd.DataFrame, steps: Ints) -> Floats:
    means = frame.groupby("step", sort=True)["reward"].mean()
    return means.reindex(steps).to_numpy(np.float64)


def _equal_kl(base: pd.DataFrame, new: pd.DataFrame, reward: str, seed: int) -> EqualKL | None:
    sides = []
    for frame in (base, new):
        if not (has(frame, reward) and has(frame, "kl_k1")):
            return None
        keys = np.unique(frame["pair"].to_numpy()), np.unique(frame["step"].to_numpy(np.int64))
        sides.append((_cells(frame, reward, *keys), _cells(frame, "kl_k1", *keys)))
    return at_equal_kl(sides[0], sides[1], seed=seed)


def _paths(base: pd.DataFrame, new: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    """Return ``step``, ``distance`` (√KL, √nats) and ``reward`` of each side."""
    if not all(has(frame, "kl_k1") for frame in (base, new)):
        return ()
    paths = []
    for frame in (base, new):
        means = frame.groupby("step", sort=True)[["kl_k1", "reward"]].mean().dropna()
        distance = np.sqrt(np.maximum(means["kl_k1"].to_numpy(np.float64), 0.0))
        paths.append(means.assign(distance=distance).reset_index()[["step", "distance", "reward"]])
    return tuple(paths)
