"""Texts of the run's pages: extremes, prompts, and representative responses of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        opened: prompt_id -> (which, response, reward) of its representative responses.
    """

    extremes: list[tuple[Extreme, Rollout]]
    listed: pd.DataFrame
    opened: dict[int, list[tuple[str, Rollout, float]]]


def run_texts(locations: RowLocations, context: RunContext) -> RunTexts:
    """Read back what the run's pages show."""
    responses = context.tables.responses
    prompts = prompts_by_interest(context.tables.prompts).head(PROMPTS_LISTED)
    ends = extremes(responses)
    named = {
        prompt_id: _representative_responses(responses, prompt_id)
        for prompt_id in prompts["prompt_id"].head(PROMPTS_OPENED).tolist()
    }
    rows = {extreme.row for extreme in ends} | {row for own in named.values() for row in own}
    rollouts = _rollouts(locations, sorted(rows), context)
    reward = responses["reward"].tolist()
    return RunTexts(
        [(extreme, rollouts[extreme.row]) for extreme in ends],
        prompts,
        {
            prompt_id: [(which, rollouts[row], reward[row]) for row, which in own.items()]
            for prompt_id, own in named.items()
        },
    )


def prompts_by_interest(prompts: pd.DataFrame) -> pd.DataFrame:
    """Sort prompts: those that never beat the reference, then the longest losing streaks."""
    return prompts.sort_values(
        ["never_won", "losing_streak", "reward_gain", "prompt_id"],
        ascending=[False, False, True, True],
        kind="stable",
    )


def _representative_responses(responses: pd.DataFrame, prompt_id: int) -> dict[int, str]:
    """Return the best, the worst and the latest response of a prompt: row -> which."""
    rows = np.flatnonzero(responses["prompt_id"].to_numpy() == prompt_id)
    reward = responses["reward"].to_numpy()[rows]
    names: dict[int, str] = {}
    if not np.isnan(reward).all():
        names[int(rows[np.nanargmax(reward)])] = "best"
        names.setdefault(int(rows[np.nanargmin(reward)]), "worst")
    names.setdefault(int(rows[-1]), "latest")
    return names


def _rollouts(
    locations: RowLocations, rows: Sequence[int], context: RunContext
) -> dict[int, Rollout]:
    rollouts = dict(zip(rows, fetch(locations, rows, context.read, context.figures), strict=True))
    locations.close()
    if context.report.redact:
        responses = context.tables.responses
        prompts, numbers = responses["prompt_id"].to_numpy(), response_numbers(responses)
        for row, rollout in rollouts.items():
            rollouts[row] = redacted(rollout, int(prompts[row]), int(numbers[row]))
    return rollouts
