"""The same prompt at other steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def shown_prompts(
    responses: pd.DataFrame, shown: Sequence[NDArray[np.int64]]
) -> dict[str, list[int]]:
    """Return where prompts that occur at several steps are shown.

    Args:
        responses: RESPONSE_COLUMNS.
        shown: rows that each step shows, the most interesting first.

    Returns:
        ``prompt_id`` -> step, n, step, n, …: one response per step, by step.
    """
    if not shown:
        return {}
    rows = np.concatenate(shown)
    prompt, step, n = (responses[name].to_numpy()[rows] for name in ("prompt_id", "step", "n"))
    order = np.lexsort((np.arange(len(rows)), step, prompt))
    prompt, step, n = prompt[order], step[order], n[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(prompt) != 0) | (np.diff(step) != 0)
    prompt, names = prompt[first], np.stack([step[first], n[first]], axis=1)
    starts = np.flatnonzero(np.diff(prompt, prepend=-1))
    stops = [*starts[1:].tolist(), len(prompt)]
    return {
        str(prompt[start]): names[start:stop].ravel().tolist()
        for start, stop in zip(starts.tolist(), stops, strict=True)
        if stop - start > 1
    }


def prompt_sampling_keys(responses: pd.DataFrame, seed: int) -> NDArray[np.float64]:
    """Return one random key per prompt, shared across steps, to sample responses by.

    Prompts that are sampled at one step are so sampled at the others too. NaN for prompts that
    occur at one step only.
    """
    prompt, step = responses["prompt_id"].to_numpy(), responses["step"].to_numpy()
    if not len(prompt):
        return np.empty(0)
    pairs = np.unique(np.stack([prompt, step]), axis=1)
    steps_of = np.bincount(pairs[0])
    number = np.random.default_rng([seed, 1]).random(len(steps_of))
    keys: NDArray[np.float64] = np.where(steps_of > 1, number, np.nan)[prompt]
    return keys
