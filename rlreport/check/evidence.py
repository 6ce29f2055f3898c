"""Choose the responses that show a finding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats

# Examples lie beyond this quantile of the responses before the onset, if these are so many
NORMAL, LEAST_NORMAL = 0.9, 10

MAX_EXAMPLES = 3  # Maximum number of example responses in the evidence of a finding


class Ranking(NamedTuple):
    """How to choose a finding's example responses: those with the highest (or lowest) ``by``.

    ``by``, float64 (rows,), is a figure of each response and ``unit`` its unit. ``token``, float64
    (rows,), is the index of the token to look at, NaN for none. ``among``, bool (rows,), selects
    those that fulfil what the finding claims: only they are examples, and only others are shown as
    earlier responses to the same prompt. Excerpts show the text ``look_for``, or the end if
    ``at_end``. If ``in_last_window``, the claim is one on the last steps, whenever it began.
    """

    by: Floats
    highest: bool = True
    unit: str = ""
    token: Floats | None = None
    among: NDArray[np.bool_] | None = None
    look_for: str = ""
    at_end: bool = False
    in_last_window: bool = False


def is_unusual(
    by: Floats, normal: NDArray[np.bool_], *, highest: bool
) -> NDArray[np.bool_]:
    """Return whether each value is extreme among the ``normal`` ones; True if these are few."""
    if normal.sum() < LEAST_NORMAL:
        return np.ones(len(by), bool)
    bound = np.quantile(by[normal], NORMAL if highest else 1 - NORMAL)
    return by >= bound if highest else by <= bound
