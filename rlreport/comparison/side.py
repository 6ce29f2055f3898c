"""One run as it is compared: a row per response, and which rows of two runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.comparison.data import EXTRA, PART
from rlreport.errors import UsageError
from rlreport.figures.ragged import Ints
from rlreport.text.clean import number_as_text

LEAST_SHARED = 0.3
"""Share of the smaller side's prompts that must be on both sides to compare in pairs."""

ROUNDING = 5e-6
"""Largest relative error of six significant digits, to which reports may round figures."""

PROMPT, GROUP = "prompt", "group"

ALL_RIGHT, ALL_WRONG = "all_right", "all_wrong"
"""Columns: the response's group has equal rewards, the best of all runs or lower ones."""

_SPLITS = {"val": ("val", "eval", "valid", "validation", "test"), "train": ("train",)}

Keys = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Side:
    """One run, as it is compared.

    Attributes:
        responses: a row per response: ``step``, ``n``, ``split``, ``pair`` (what prompts are
            paired by, uint64), and figures, float64.
        parts: columns of ``responses`` that are parts of the reward.
        named: whether an equal ``pair`` means an equal prompt in another run too.
        unpaired: responses left out, as they lack what prompts are paired by.
    """

    name: str
    responses: pd.DataFrame
    parts: tuple[str, ...] = ()
    named: bool = True
    unpaired: int = 0


def side_of(name: str, responses: pd.DataFrame, *, pair_by: str = PROMPT) -> Side:
    """Return a run's response data with prompts paired by text, group_id or another field.

    Raises:
        UsageError: the run has no such field.
    """
    parts = tuple(column for column in map(str, responses) if column.startswith(PART))
    if pair_by == PROMPT:
        named = PROMPT in responses
        keys = responses[PROMPT if named else "prompt_id"].to_numpy().astype(np.uint64)
        return Side(name, responses.assign(pair=keys), parts, named)
    columns = ["group_hash"] if pair_by == GROUP else [f"{EXTRA}{pair_by}", f"{PART}{pair_by}"]
    found = next((column for column in columns if column in responses), None)
    if found is not None and pair_by == GROUP:
        kept = responses[responses[found].to_numpy(np.uint64) > 0]
        keys = kept[found].to_numpy(np.uint64)
    elif found is not None:
        kept = responses[responses[found].notna()]
        keys = _hashes(kept[found])
    if found is None or not len(kept):
        raise UsageError(f"--pair-by {pair_by}: no such field in {name!r}")
    left_out = len(responses) - len(kept)
    return Side(name, kept.assign(pair=keys), parts, unpaired=left_out)


def _hashes(values: pd.Series) -> Keys:
    # 17 and "17" are one id, as they are one group.
    texts = (number_as_text(v) if isinstance(v, float) else str(v) for v in values.tolist())
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64)


def disambiguate_hidden_prompts(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with different ``pair`` for prompts of sides that hide them."""
    pairs = [
        side.responses["pair"] + np.uint64(0 if side.named else place << 40)
        for place, side in enumerate(sides, 1)
    ]
    return [
        replace(side, responses=side.responses.assign(pair=pair))
        for side, pair in zip(sides, pairs, strict=True)
    ]


def with_group_kinds(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with ALL_RIGHT and ALL_WRONG, going by the best reward of all runs."""
    best = float(np.fmax.reduce([side.responses["reward"].max() for side in sides]))
    kinds = []
    for side in sides:
        frame = side.responses
        if "zero_variance" in frame:
            alike, right = frame["zero_variance"], frame["reward"] >= best - ROUNDING * abs(best)
            frame = frame.assign(**{ALL_RIGHT: alike * right, ALL_WRONG: alike * ~right})
        kinds.append(replace(side, responses=frame))
    return kinds


def one_split(sides: Sequence[Side]) -> tuple[str, list[Side]]:
    """Return the validation split of all sides where they share its prompts, else the training.

    Where neither split is on every side, all responses are compared.
    """
    for name, names in _SPLITS.items():
        cut = [replace(s, responses=s.responses[s.responses["split"].isin(names)]) for s in sides]
        if all(len(side.responses) for side in cut):
            prompts = [pd.Index(side.responses["pair"].unique()) for side in cut]
            if name == "train" or pairable(prompts):
                return name, cut
    return "all", list(sides)


def pairable(prompts: Sequence[pd.Index]) -> bool:
    """Return whether the prompts that all sides have are enough to be compared in pairs."""
    return len(shared(prompts)) >= max(1.0, LEAST_SHARED * min(map(len, prompts)))


def shared(prompts: Sequence[pd.Index]) -> pd.Index:
    """Return the prompts that all sides have."""
    return reduce(pd.Index.intersection, prompts)


@dataclass(frozen=True, slots=True)
class Windows:
    """First and last step that are compared, by side (NEW last), and the steps that all have.

    ``overlap``: the sides have steps at the end of what all cover, common ones or not.
    """

    sides: list[tuple[int, int]]
    common: Ints
    overlap: bool

    @property
    def base(self) -> tuple[int, int]:
        """Of the first BASE."""
        return self.sides[0]

    @property
    def new(self) -> tuple[int, int]:
        """Of NEW."""
        return self.sides[-1]


WINDOW_SHARE = 0.2
"""Share of the common steps, the last ones, over which runs are compared."""


def windows(frames: Sequence[pd.DataFrame]) -> Windows:
    """Decide what is compared, from the steps of all sides alone.

    The last fifth of the common steps, where they reach the last fifth of what all sides cover;
    else the steps that each has there; else each side's own last fifth.
    """
    steps = [np.unique(frame["step"].to_numpy(np.int64)) for frame in frames]
    common = reduce(np.intersect1d, steps)
    low, high = max(own[0] for own in steps), min(own[-1] for own in steps)
    start = high - WINDOW_SHARE * (high - low)
    if len(common) and common[-1] >= start:
        window = int(common[-_fifth(len(common))]), int(common[-1])
        return Windows([window] * len(steps), common, overlap=True)
    inside = [own[(own >= start) & (own <= high)] for own in steps]
    overlap = bool(low <= high) and all(map(len, inside))
    if not overlap:
        inside = [own[-_fifth(len(own)) :] for own in steps]
    return Windows([(int(own[0]), int(own[-1])) for own in inside], common, overlap)


def _fifth(count: int) -> int:
    return max(1, round(count * WINDOW_SHARE))
