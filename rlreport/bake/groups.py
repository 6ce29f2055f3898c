"""What a response's panel says of its group and of its prompt at other steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.context import is_numeric
from rlreport.tables import length_column

MOST_SIBLINGS = 64
"""Members of a group that are listed; the first in the log, and the shown ones in any case."""

DIGITS = 4
_CORRECT = re.compile(r"(is_)?(correct|acc|accuracy)(/mean)?", re.IGNORECASE)


def group_data(
    responses: pd.DataFrame, extras: pd.DataFrame, shown: Sequence[int], *, ground_truth: bool
) -> dict[str, Any]:
    """Return ``groups``, ``siblings`` and ``right`` of the page's data; see docs/page-data.md.

    Args:
        responses: RESPONSE_COLUMNS of one step.
        extras: their further columns.
        shown: n of the shown responses, in the order of the list.
        ground_truth: whether the log holds ground truths.
    """
    n, group = responses["n"].to_numpy(), responses["group"].to_numpy()
    places = pd.Index(n).get_indexer(pd.Index(shown))
    right = _right(responses, extras, ground_truth=ground_truth)
    lengths = responses[length_column(responses)].to_numpy(np.float64)
    here = np.zeros(len(n), bool)
    here[places] = True
    groups: list[list[int]] = []
    siblings: dict[str, list[float | None]] = {}
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, cuts):
        if len(members) < 2 or not here[members].any():
            continue
        listed = members[here[members] | (np.arange(len(members)) < MOST_SIBLINGS)]
        groups.append(n[listed].tolist())
        for row in listed[~here[listed]].tolist():
            reward = float(f"{responses['reward'].iat[row]:.{DIGITS}g}")
            values = [reward, lengths[row], *([] if right is None else [right[row]])]
            siblings[str(n[row])] = [None if v != v else float(v) for v in values]
    if not groups:
        return {}
    result: dict[str, Any] = {"groups": groups, "siblings": siblings}
    if right is not None:
        result["right"] = [None if v != v else int(v) for v in right[places].tolist()]
    return result


def _right(
    responses: pd.DataFrame, extras: pd.DataFrame, *, ground_truth: bool
) -> NDArray[np.float64] | None:
    """1 right, 0 wrong, NaN unknown: a logged 0/1 column, else two rewards beside ground truths."""
    for name in extras.columns:
        if _CORRECT.fullmatch(str(name)) and is_numeric(extras[name]):
            values = extras[name].to_numpy(np.float64)
            if np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
                return values
    reward = responses["reward"].to_numpy(np.float64)
    known = np.unique(reward[~np.isnan(reward)])
    if not ground_truth or len(known) != 2:
        return None
    return np.where(np.isnan(reward), np.nan, (reward == known[1]).astype(np.float64))
