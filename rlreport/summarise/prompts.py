"""Build the table of prompts: one row per prompt, computed from its responses of all steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import PROMPT_COLUMNS
from rlreport.figures.ragged import Floats
from rlreport.summarise.grouped import Grouped

_USED = ("prompt_id", "step", "n", "validation", "reward", "ref_reward", "kl_k1")


def prompt_table(responses: pd.DataFrame, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table that summarises the responses to each prompt in one row.

    Args:
        responses: RESPONSE_COLUMNS, sorted by (step, n).
        texts: texts of the first prompts, indexed by ``prompt_id``; further prompts get "".

    Returns:
        PROMPT_COLUMNS, one row per ``prompt_id``, ascending.
    """
    order = np.argsort(responses["prompt_id"].to_numpy(), kind="stable")
    column = {name: responses[name].to_numpy()[order] for name in _USED}
    step, reward, reference = column["step"], column["reward"], column["ref_reward"]
    prompts = Grouped.by(column["prompt_id"])
    prompt_steps = Grouped.by(column["prompt_id"], step)
    steps_by_prompt = Grouped.by(prompt_steps.first(column["prompt_id"]))
    means = prompt_steps.mean(reward)
    comparable = ~(np.isnan(reward) | np.isnan(reference))
    won = comparable & (reward > reference)
    first, last = steps_by_prompt.first(means), steps_by_prompt.last(means)
    best, worst = (_first_smallest(rewards, prompts) for rewards in (-reward, reward))
    lost_all = (prompts.sum(comparable.astype(float)) > 0) & (prompts.sum(won.astype(float)) == 0)
    spread = np.where(prompt_steps.finite(reward) >= 2, prompt_steps.std(reward), np.nan)
    table = pd.DataFrame(
        {
            "prompt_id": prompts.first(column["prompt_id"]),
            "prompt": [*texts, *[""] * (len(prompts) - len(texts))],
            "validation": prompts.first(column["validation"]),
            "responses": prompts.counts,
            "steps": steps_by_prompt.counts,
            "first_step": prompts.first(step),
            "last_step": prompts.last(step),
            "reward_first": first,
            "reward_last": last,
            "reward_gain": last - first,
            "reward_mean": prompts.mean(reward),
            "reward_min": prompts.min(reward),
            "reward_max": prompts.max(reward),
            "ref_reward_mean": prompts.mean(reference),
            "win_rate": prompts.share(won, comparable),
            "never_won": lost_all,
            "losing_streak": _losing_streak(comparable, won, prompts),
            "kl_k1_mean": prompts.mean(column["kl_k1"]),
            "group_std_mean": steps_by_prompt.mean(spread),
            "best_step": step[best],
            "best_n": column["n"][best],
            "worst_step": step[worst],
            "worst_n": column["n"][worst],
        }
    )
    return table[[c.name for c in PROMPT_COLUMNS]].astype({c.name: c.dtype for c in PROMPT_COLUMNS})


def _first_smallest(values: Floats, groups: Grouped) -> NDArray[np.int64]:
    """Return the index of each group's smallest value, the first on a tie, int64 (G,)."""
    order = np.lexsort((np.nan_to_num(values, nan=np.inf), groups.codes))
    return order[groups.starts]


def _losing_streak(
    comparable: NDArray[np.bool_], won: NDArray[np.bool_], prompts: Grouped
) -> NDArray[np.int64]:
    """Count, per prompt, the responses after the last one that beat the reference policy, (G,)."""
    position = np.arange(len(won))
    last_win = np.maximum.reduceat(np.where(won, position, -1), prompts.starts)
    after = comparable & (position > last_win[prompts.codes])
    return prompts.sum(after.astype(np.float64)).astype(np.int64)
