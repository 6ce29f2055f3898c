"""The same prompt at other steps: where a reader finds it next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Name = tuple[int, int]
"""Step and n of a response."""


@dataclass(frozen=True, slots=True)
class Twins:
    """One shown response for each prompt and step, ordered by prompt, then step.

    Attributes:
        prompt: int64, index of the prompt.
        step: int64, the step.
        n: int64, the response most worth a look.
    """

    prompt: NDArray[np.int64]
    step: NDArray[np.int64]
    n: NDArray[np.int64]

    def of(self, step: int) -> dict[int, tuple[Name | None, Name | None]]:
        """Return the nearest earlier and later response to each prompt that recurs at ``step``."""
        found = {}
        for place in np.flatnonzero(self.step == step).tolist():
            sides = self._name(place - 1, place), self._name(place + 1, place)
            if any(sides):
                found[int(self.prompt[place])] = sides
        return found

    def _name(self, place: int, beside: int) -> Name | None:
        if not 0 <= place < len(self.n) or self.prompt[place] != self.prompt[beside]:
            return None
        return int(self.step[place]), int(self.n[place])


def twins(responses: pd.DataFrame, shown: Sequence[NDArray[np.int64]]) -> Twins:
    """Find the same prompts among the rows that each step shows, most worth a look first."""
    rows = np.concatenate(shown)
    worth = np.concatenate([np.arange(len(own)) for own in shown])
    prompt, step, n = (responses[name].to_numpy()[rows] for name in ("prompt_id", "step", "n"))
    order = np.lexsort((worth, step, prompt))
    prompt, step, n = prompt[order], step[order], n[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(prompt) != 0) | (np.diff(step) != 0)
    return Twins(prompt[first], step[first], n[first])


def recurring(responses: pd.DataFrame, seed: int) -> NDArray[np.float64]:
    """Return for each response a number that its prompt has at every step, to sample by.

    Prompts of the same number come together, so that the ones sampled at one step are sampled
    at the others too. NaN where the prompt is seen at one step only.
    """
    prompt, step = responses["prompt_id"].to_numpy(), responses["step"].to_numpy()
    if not len(prompt):
        return np.empty(0)
    pairs = np.unique(np.stack([prompt, step]), axis=1)
    steps_of = np.bincount(pairs[0])
    number = np.random.default_rng([seed, 1]).random(len(steps_of))
    keys: NDArray[np.float64] = np.where(steps_of > 1, number, np.nan)[prompt]
    return keys
