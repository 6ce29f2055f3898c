"""Changes of a mean between two windows that are due to another mix of environments."""

from __future__ import annotations

from typing import NamedTuple

from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import Change
from rlreport.figures.ragged import Floats


class MixChanged(Limits):
    share = Limit(
        0.5, "of the fall", "part of a fall of the reward that the mix explains"
    )
    rest = Limit(
        0.1, "of the fall", "largest fall at a constant mix, unless it may be chance"
    )


class MixChange(NamedTuple):
    """The change Δ of the mean reward between two windows, split by environment.

    With s the share of an environment in the responses and m its mean reward,
    Δ = Σ m̄ Δs + Σ s̄ Δm, where a bar is the mean of both windows.
    """

    shares: Floats  # s, float64 (2, environments)
    means: Floats  # m, float64 (2, environments)
    mix: float  # Σ m̄ Δs, due to the mix of environments
    within: Floats  # s̄ Δm, due to the rewards within each, float64 (environments,)
    same_mix: (
        Change  # change of the mean reward with both windows weighted to the same mix
    )
    explains_fall: bool  # whether Δ < 0 is due to the mix: see ``MixChanged``

    @property
    def rest(self) -> float:
        return float(self.within.sum())
