"""What a property of responses is worth: rewards with it and without it, to the same prompt.

Responses that have a property may be those to easy prompts. So they are compared with responses of
the same run to the same prompt that do not have it, never with those to other prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.comparison.statistics import LEVEL
from rlreport.figures.ragged import Floats

# Minimum number of prompts with both kinds of responses, for a standard error
LEAST_MIXED = 3


class Contrast(NamedTuple):
    """Mean reward with a property minus that without it; NaN if unknown."""

    value: float = np.nan
    error: float = np.nan  # standard error
    prompts: int = 0  # number of prompts that tell it, see the functions

    @property
    def is_shown(self) -> bool:
        """Whether it differs from 0 by a t-test of LEVEL over prompts."""
        if self.prompts < LEAST_MIXED or not np.isfinite(self.error):
            return False
        # Lazily, as SciPy takes long to import.
        from scipy.special import stdtrit

        limit = float(stdtrit(self.prompts - 1, (1 + LEVEL) / 2))
        return self.value != 0 and abs(self.value) > limit * self.error


def contrast_within_prompts(
    frames: Sequence[pd.DataFrame], members: Sequence[NDArray[np.bool_]]
) -> Contrast:
    """Return the contrast of a property, pooled over all runs.

    Let prompt i of a run have a responses with the property and b without it, and let d be the
    difference of their mean rewards. The estimate is Σ w d / Σ w with w = ab / (a + b), which is
    that of least squares with an effect of each prompt. Its error is the larger one of that for
    equal variances of all responses, and of the one robust to unequal ones (White 1980), as either
    may be too small with few prompts. ``prompts`` of the result are those with both kinds.

    Args:
        frames: ``pair`` and ``reward`` of the responses of each run; all rewards are finite.
        members: which of them have the property, (responses,) for each run.
    """
    cells = pd.concat(
        [
            _mixed_cells(frame, is_in)
            for frame, is_in in zip(frames, members, strict=True)
        ],
        ignore_index=True,
    )
    if cells.empty:
        return Contrast()
    having = cells["having"].to_numpy(np.float64)
    lacking = cells["lacking"].to_numpy(np.float64)
    gaps = cells["gap"].to_numpy(np.float64)
    weights = having * lacking / (having + lacking)
    total = weights.sum()
    value = float((weights * gaps).sum() / total)
    deviations = weights * np.square(gaps - value)
    # Each prompt has a mean of its own, and all have one contrast.
    freedom = (having + lacking - 1).sum() - 1
    squares = cells["squares"].sum() + deviations.sum()
    plain = sqrt(squares / freedom / total) if freedom > 0 else np.nan
    robust = sqrt(float((weights * deviations).sum())) / total
    return Contrast(value, float(np.fmax(plain, robust)), len(cells))


def contrast_between_prompts(
    frames: Sequence[pd.DataFrame], members: Sequence[NDArray[np.bool_]]
) -> Contrast:
    """Return the contrast of a property that all responses to a prompt share.

    The difference of the mean rewards of prompts with and without it is taken in each run, and
    averaged over the runs that have both, weighted by their precision. Parameters are as in
    ``contrast_within_prompts``; ``prompts`` of the result is the smaller number of both kinds.
    """
    gaps: list[float] = []
    variances: list[float] = []
    counts: list[int] = []
    for frame, is_in in zip(frames, members, strict=True):
        having = _means_by_prompt(frame[is_in])
        lacking = _means_by_prompt(frame[~is_in])
        if min(len(having), len(lacking)) < LEAST_MIXED:
            continue
        gaps.append(float(having.mean() - lacking.mean()))
        variances.append(_variance_of_mean(having) + _variance_of_mean(lacking))
        counts.append(min(len(having), len(lacking)))
    if not gaps:
        return Contrast()
    least = min(counts)
    if not all(variances):  # rewards that are all equal
        return Contrast(float(np.mean(gaps)), 0.0, least)
    weights = 1 / np.array(variances)
    value = float(np.average(gaps, weights=weights))
    return Contrast(value, float(weights.sum() ** -0.5), least)


def contrast_with_constant(
    frames: Sequence[pd.DataFrame],
    members: Sequence[NDArray[np.bool_]],
    constant: float,
) -> Contrast:
    """Return the contrast of a property without which every response earns the same.

    Then what it is worth is the mean reward with it minus this constant, over all prompts, also
    those without both kinds of responses. Parameters are as in ``contrast_within_prompts``.
    """
    means = [
        _means_by_prompt(frame[is_in])
        for frame, is_in in zip(frames, members, strict=True)
    ]
    gaps = np.concatenate(means) - constant
    if len(gaps) < LEAST_MIXED:
        return Contrast()
    error = float(gaps.std(ddof=1)) / sqrt(len(gaps))
    return Contrast(float(gaps.mean()), error, len(gaps))


def _means_by_prompt(frame: pd.DataFrame) -> Floats:
    return frame.groupby("pair")["reward"].mean().to_numpy(np.float64)


def _variance_of_mean(values: Floats) -> float:
    return float(values.var(ddof=1)) / len(values)


def _mixed_cells(frame: pd.DataFrame, is_in: NDArray[np.bool_]) -> pd.DataFrame:
    """Return a row for each prompt that has responses with the property and without it.

    ``having`` and ``lacking`` are their numbers, ``gap`` is the difference of their mean rewards,
    ``squares`` the sum of squared deviations from these two means.
    """
    rewards: Floats = frame["reward"].to_numpy(np.float64)
    prompts = frame["pair"].to_numpy()
    table = pd.DataFrame({"pair": prompts, "has": is_in, "r": rewards})
    kinds = table.groupby(["pair", "has"])["r"]
    counts = kinds.size().unstack().reindex(columns=[False, True])
    means = kinds.mean().unstack().reindex(columns=[False, True])
    deviations = np.square(rewards - kinds.transform("mean").to_numpy())
    squares = pd.Series(deviations).groupby(table["pair"]).sum()
    cells = pd.DataFrame(
        {
            "having": counts[True],
            "lacking": counts[False],
            "gap": means[True] - means[False],
            "squares": squares,
        }
    )
    return cells.dropna()
