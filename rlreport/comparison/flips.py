"""Prompts that NEW wins or loses against BASE, the clearest first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check.run import has
from rlreport.comparison.statistics import shrunk
from rlreport.figures.ragged import Floats

MOST_FLIPS = 200


@dataclass(frozen=True, slots=True)
class Flip:
    """A prompt won or lost.

    Attributes:
        pair: what the prompt is paired by.
        base, new, delta: its mean rewards in the window, and their difference.
        base_response, new_response: (step, n) of the responses nearest to these means.
        number: of the prompt in NEW.
        prompt, base_text, new_text: their texts, None where they are not kept.
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
    shared = means[0].index.intersection(means[1].index)
    left, right = (mean.reindex(shared).to_numpy(np.float64) for mean in means)
    inside = [frame[frame["pair"].isin(shared)] for frame in (base, new)]
    error = np.hypot(*(_standard_error(frame, shared) for frame in inside))
    delta = right - left
    drawn = np.nan_to_num(shrunk(delta, error))
    order = np.argsort(-np.abs(drawn), kind="stable")
    order = order[np.abs(delta[order]) > rounding][:most]
    nearest = [_nearest(frame[frame["pair"].isin(shared[order])]) for frame in inside]
    return [
        Flip(
            int(shared[i]),
            float(left[i]),
            float(right[i]),
            float(delta[i]),
            nearest[0][int(shared[i])],
            nearest[1][int(shared[i])],
        )
        for i in order.tolist()
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
    return {
        int(pair): (int(step), int(n))
        for pair, step, n in zip(chosen["pair"], chosen["step"], chosen["n"], strict=True)
    }
