"""The extreme responses of a whole run, for the overview."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.tables import length_column
from rlreport.text.messages import marked, message


@dataclass(frozen=True, slots=True)
class Extreme:
    """One end of a metric: the row that holds it, and the token to look at."""

    label: str
    metric: str
    row: int
    value: float
    token: int | None = None

    @property
    def at_error(self) -> bool:
        """Whether the first error of a tool is the place to look."""
        return self.metric == TOOL_ERRORS


TOOL_ERRORS = "tool_errors"

# label, metric, which end, whether the token of the largest KL is the place to look
_ENDS = (
    (marked("Lowest reward"), "reward", "min", False),
    (marked("Highest reward"), "reward", "max", False),
    (marked("Furthest below the reference"), "reward_gap", "min", False),
    (marked("Furthest above the reference"), "reward_gap", "max", False),
    (marked("Largest KL"), "kl_k1", "max", True),
    (marked("Most negative KL"), "kl_k1", "min", False),
    (marked("Largest token KL, k3"), "kl_max", "max", True),
    (marked("Longest"), "response_tokens", "max", False),
    (marked("Shortest"), "response_tokens", "min", False),
    (marked("Highest surprisal"), "surprisal_mean", "max", False),
    (marked("Lowest surprisal"), "surprisal_mean", "min", False),
)


def extremes(responses: pd.DataFrame) -> list[Extreme]:
    """Return both ends of each metric over all responses; the latest step wins a tie.

    Lengths fall back to characters where the log holds no tokens. Metrics that the log
    cannot feed, or that are the same everywhere, are left out. The first response with an
    error of a tool comes last.
    """
    found = []
    for label, metric, end, at_token in _ENDS:
        column = length_column(responses) if metric == "response_tokens" else metric
        values = responses[column].to_numpy(np.float64)
        known = values[np.isfinite(values)]
        if not len(known) or known.min() == known.max():
            continue
        value = float(known.min() if end == "min" else known.max())
        if end == "min" and metric == "kl_k1" and value >= 0:
            continue
        row = int(np.flatnonzero(values == value)[-1])
        position = responses["kl_max_position"].to_numpy()[row] if at_token else np.nan
        token = None if np.isnan(position) else int(position)
        found.append(Extreme(message(label), column, row, value, token))
    errors = responses[TOOL_ERRORS].to_numpy(np.float64)
    rows = np.flatnonzero(errors > 0).tolist()
    if rows:
        label = message("First tool error")
        found.append(Extreme(label, TOOL_ERRORS, rows[0], float(errors[rows[0]])))
    return found
