"""Two runs side by side: what differs, from their response data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.run import has
from rlreport.comparison.figures import Flip, Guardrail, effect_on, flips, guardrails
from rlreport.comparison.side import (
    ROUNDING,
    Side,
    Windows,
    disambiguate_hidden_prompts,
    one_split,
    pairable,
    shared,
    windows,
    with_group_kinds,
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


@dataclass(frozen=True)
class Comparison:
    """What differs between BASE and NEW in the last common window.

    Curves, paths, flips and prompts are of the first BASE and NEW, computed when asked for.

    Attributes:
        split: split that was compared: ``val``, ``train`` or ``all``.
        sides: runs of BASE, then NEW, cut to that split.
        inside: their responses in the window.
        effect: on the reward.
        rounding: largest difference of rewards that is none.
        shared: prompts in the window that all sides have there.
        only_base, only_new: prompts in the window that NEW has not, or that some BASE has not.
    """

    level: Level
    split: str
    sides: list[Side]
    windows: Windows
    inside: list[pd.DataFrame]
    effect: Effect
    rounding: float
    guardrails: list[Guardrail]
    shared: int
    only_base: int
    only_new: int
    seed: int

    @property
    def steps(self) -> Ints:
        """Steps that all sides have."""
        return self.windows.common

    @cached_property
    def ends(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """All responses of the first BASE and of NEW."""
        return self.sides[0].responses, self.sides[-1].responses

    @cached_property
    def curves(self) -> list[Floats]:
        """Mean reward of BASE and of NEW at the common steps."""
        means = (frame.groupby("step", sort=True)["reward"].mean() for frame in self.ends)
        return [mean.reindex(self.steps).to_numpy(np.float64) for mean in means]

    @cached_property
    def band(self) -> Band:
        """Their difference."""
        if not len(self.steps):
            return Band(*np.zeros((3, 0)))
        prompts = np.union1d(*(frame["pair"].to_numpy() for frame in self.ends))
        base, new = (_cells(frame, "reward", prompts, self.steps) for frame in self.ends)
        paired, rounding = self.effect.paired, self.rounding
        return difference_band(base, new, paired=paired, rounding=rounding, seed=self.seed)

    @cached_property
    def equal_kl(self) -> EqualKL | None:
        """Reward at the same distance from the reference, None without an overlap."""
        return self._equal_kl("reward")

    @cached_property
    def equal_kl_watched(self) -> EqualKL | None:
        """The same of the watched reward."""
        return self._equal_kl("valid_reward")

    def _equal_kl(self, reward: str) -> EqualKL | None:
        sides = []
        for frame in self.ends:
            if not (has(frame, reward) and has(frame, "kl_k1")):
                return None
            keys = np.unique(frame["pair"].to_numpy()), np.unique(frame["step"].to_numpy(np.int64))
            sides.append((_cells(frame, reward, *keys), _cells(frame, "kl_k1", *keys)))
        return at_equal_kl(sides[0], sides[1], seed=self.seed)

    @cached_property
    def paths(self) -> tuple[pd.DataFrame, ...]:
        """``step``, ``distance`` (√KL, √nats) and ``reward`` of both; empty without KL."""
        if not all(has(frame, "kl_k1") for frame in self.ends):
            return ()
        means = (frame.groupby("step")[["kl_k1", "reward"]].mean().dropna() for frame in self.ends)
        return tuple(
            mean.assign(distance=np.sqrt(mean["kl_k1"].clip(lower=0.0))).reset_index()[
                ["step", "distance", "reward"]
            ]
            for mean in means
        )

    @cached_property
    def flips(self) -> list[Flip]:
        """Prompts won or lost, the clearest difference first."""
        if not self.effect.paired:
            return []
        return flips(self.inside[0], self.inside[-1], rounding=self.rounding)

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """``pair`` and, by side, the responses and the mean reward in the window."""
        tables = [
            frame.groupby("pair", sort=True)["reward"]
            .agg(["size", "mean"])
            .set_axis([f"{name}_responses", f"{name}_reward"], axis=1)
            for name, frame in (("base", self.inside[0]), ("new", self.inside[-1]))
        ]
        both = tables[0].join(tables[1], how="outer").sort_index()
        both["difference"] = both["new_reward"] - both["base_reward"]
        return both.reset_index(names="pair")

    @property
    def reasons(self) -> list[Reason]:
        """What could not be compared as usual."""
        reasons: list[Reason] = []
        if not len(self.steps):
            reasons.append("no_common_steps" if self.windows.overlap else "no_overlap")
        elif self.steps[-1] < self.windows.new[1]:
            reasons.append("early_common_steps")
        if not self.effect.paired:
            named = all(side.named for side in self.sides)
            reasons.append("few_common_prompts" if named else "redacted")
        if self.level == "incomparable":
            scored = all(has(frame, "reward") for frame in self.inside)
            reasons.append("few_prompts" if scored else "no_reward")
        return reasons


def compare_runs(bases: Sequence[Side], new: Side, *, seed: int = 0) -> Comparison:
    """Compare NEW with one or several runs of BASE in their last common window."""
    split, sides = one_split(with_group_kinds(disambiguate_hidden_prompts([*bases, new])))
    seen = windows([side.responses for side in sides])
    inside = [
        side.responses[side.responses["step"].between(*window)]
        for side, window in zip(sides, seen.sides, strict=True)
    ]
    means = [frame.groupby("pair", sort=True).mean(numeric_only=True) for frame in inside]
    *firsts, last = (table.index for table in means)
    any_base, all_bases = reduce(pd.Index.union, firsts), shared(firsts)
    paired = pairable([*firsts, last])
    rounding = ROUNDING * pd.concat([_magnitudes(frame) for frame in inside], axis=1).max(axis=1)
    effect = effect_on(means, "reward", paired=paired, rounding=rounding, seed=seed)
    parts = [part for part in sides[-1].parts if part in sides[0].parts]
    return Comparison(
        level=_level(effect),
        split=split,
        sides=sides,
        windows=seen,
        inside=inside,
        effect=effect,
        rounding=float(rounding["reward"]),
        guardrails=guardrails(means, parts, paired=paired, rounding=rounding, seed=seed),
        shared=len(all_bases.intersection(last)),
        only_base=len(any_base.difference(last)),
        only_new=len(last.difference(all_bases)),
        seed=seed,
    )


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
