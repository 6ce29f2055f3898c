"""The texts that the run's pages show: extremes, prompts, and each prompt's telling responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rlreport.bake.context import RunContext
from rlreport.bake.redact import redacted, response_numbers
from rlreport.choose import Extreme, extremes
from rlreport.display import fetch
from rlreport.read.readback import RowLocations
from rlreport.rollout import Rollout

PROMPTS_LISTED = 300
PROMPTS_OPENED = 40


@dataclass(frozen=True, slots=True)
class RunTexts:
    """Responses read back for the overview and the prompts page.

    Attributes:
        extremes: the run's extreme responses.
        listed: rows of the prompt table that its page lists, in order.
        opened: prompt_id -> (which, response, reward) of its telling responses.
    """

    extremes: list[tuple[Extreme, Rollout]] = field(default_factory=list)
    listed: pd.DataFrame = field(default_factory=pd.DataFrame)
    opened: dict[int, list[tuple[str, Rollout, float]]] = field(default_factory=dict)


def run_texts(locations: RowLocations, context: RunContext) -> RunTexts:
    """Read back what the run's pages show."""
    tables = context.tables
    listed = prompts_by_worth(tables.prompts).head(PROMPTS_LISTED)
    found = extremes(tables.responses)
    telling = {
        int(prompt_id): _telling(tables.responses, int(prompt_id))
        for prompt_id in listed["prompt_id"].head(PROMPTS_OPENED)
    }
    rows = sorted(
        {extreme.row for extreme in found}
        | {row for opened in telling.values() for _, row in opened}
    )
    rollouts = dict(zip(rows, _rollouts(locations, rows, context), strict=True))
    reward = tables.responses["reward"].to_numpy()
    return RunTexts(
        [(extreme, rollouts[extreme.row]) for extreme in found],
        listed,
        {
            prompt_id: [(which, rollouts[row], float(reward[row])) for which, row in opened]
            for prompt_id, opened in telling.items()
        },
    )


def prompts_by_worth(prompts: pd.DataFrame) -> pd.DataFrame:
    """Prompts that never beat the reference first, then the longest losing streaks."""
    return prompts.sort_values(
        ["never_won", "losing_streak", "reward_gain", "prompt_id"],
        ascending=[False, False, True, True],
        kind="stable",
    )


def _telling(responses: pd.DataFrame, prompt_id: int) -> list[tuple[str, int]]:
    """The best, the worst and the latest response of a prompt, each row once."""
    rows = np.flatnonzero(responses["prompt_id"].to_numpy() == prompt_id)
    reward = responses["reward"].to_numpy()[rows]
    known = rows[~np.isnan(reward)]
    named: dict[int, str] = {}
    if len(known):
        of_known = responses["reward"].to_numpy()[known]
        named[int(known[np.argmax(of_known)])] = "best"
        named.setdefault(int(known[np.argmin(of_known)]), "worst")
    named.setdefault(int(rows[-1]), "latest")
    return [(which, row) for row, which in named.items()]


def _rollouts(locations: RowLocations, rows: Sequence[int], context: RunContext) -> list[Rollout]:
    found = list(fetch(locations, rows, context.read, context.figures))
    locations.close()
    if not context.report.redact:
        return found
    responses = context.tables.responses
    prompts = responses["prompt_id"].to_numpy()[rows].tolist()
    numbers = response_numbers(responses)[rows].tolist()
    return [redacted(*of) for of in zip(found, prompts, numbers, strict=True)]
