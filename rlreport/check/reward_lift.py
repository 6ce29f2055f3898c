"""How much more reward the holders of a text have than the rest of their step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.ngram_counts import Bools, Sample
from rlreport.check.noise import centred
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import Tables

RETURNING = 5
"""Responses a prompt has on average, if prompts can be told from what is said to them."""

SWEEPS = 3
"""Rounds of centring by prompt and by step; both are near enough to zero after them."""


@dataclass(frozen=True, slots=True)
class Lift:
    """Reward of holders less that of the others: in reward, in its std, and its z."""

    difference: float
    in_std: float
    z: float


NO_LIFT = Lift(np.nan, np.nan, np.nan)


class InsideReward:
    """The sampled rewards less what their step, and their prompt, explain.

    Kinds of prompts differ in words and in reward. Where prompts return often enough they
    are centred too: else any word of the better paid kind would seem to be paid for.

    Attributes:
        values: float64 (S,), NaN where no reward is logged.
    """

    def __init__(self, tables: Tables, sample: Sample) -> None:
        reward = tables.responses["reward"].to_numpy(dtype=np.float64)[sample.rows]
        prompts = tables.responses["prompt_id"].to_numpy(dtype=np.int64)[sample.rows]
        self._finite: Bools = np.isfinite(reward)
        self._all_steps = sample.steps
        self._steps: Ints = sample.steps[self._finite]
        self._prompts: Ints = prompts[self._finite]
        kinds = len(np.unique(self._prompts))
        self._prompts_return = len(self._prompts) >= RETURNING * max(kinds, 1)
        self.values: Floats = np.full(len(reward), np.nan)
        self.values[self._finite] = self._centred(reward[self._finite])

    def lift(self, held: Floats, reward: Floats, since: int | None = None) -> Lift:
        """Compare holders with the others of their step, from the step ``since`` on.

        ``held`` and ``reward`` are float64 (S,): 1 for responses that hold the text (or how often
        they do), and ``values``, or what is left of them.
        """
        late = np.ones(len(self._steps), np.bool_) if since is None else self._steps >= since
        x = self._centred(held[self._finite])[late]
        y = reward[self._finite][late]
        varied, spread = float((x * x).sum()), float((y * y).sum())
        explained = len(np.unique(self._steps[late]))
        if self._prompts_return:
            explained += len(np.unique(self._prompts[late]))
        freedom = len(x) - explained - 2
        if varied < 1e-9 or spread < 1e-9 or freedom < 1:
            return NO_LIFT
        shared = float((x * y).sum())
        r = np.clip(shared / np.sqrt(varied * spread), -0.999999, 0.999999)
        z = float(np.arctanh(r) * np.sqrt(freedom))
        difference = shared / varied
        return Lift(difference, difference / float(np.sqrt(spread / len(y))), z)

    def without(self, values: Floats, reward: Floats) -> Floats:
        """Return the reward less what a figure of the responses, float64 (S,), explains."""
        known = np.where(np.isfinite(values), values, 0.0)
        x = self._centred(known[self._finite])
        left = reward.copy()
        slope = float((x * reward[self._finite]).sum() / max(float((x * x).sum()), 1e-12))
        left[self._finite] -= x * slope
        return left

    def _centred(self, values: Floats) -> Floats:
        values = centred(values, self._steps)
        if self._prompts_return:
            for _ in range(SWEEPS):
                values = centred(centred(values, self._prompts), self._steps)
        return values
