"""Choose which responses a report shows, the most interesting ones first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Verdict
from rlreport.choose.detail import StepPlan, fewer_steps, left_out
from rlreport.choose.ranking import Extreme, extremes, rank_by_interest
from rlreport.errors import UnusableInputError
from rlreport.options import ReportOptions
from rlreport.tables import Tables

__all__ = ["Extreme", "StepPlan", "choose", "extremes", "fewer_steps", "left_out"]

# Logged fields with a value for each token that the pages of steps contain
TOKEN_ARRAYS = ("logprobs", "ref_logprobs", "values", "token_rewards", "sampler_logprobs")

MOST_STEPS = 20_000  # Maximum number of steps in a report


def choose(tables: Tables, verdict: Verdict, options: ReportOptions) -> list[StepPlan]:
    """Choose up to ``options.max_responses`` responses to show at each step, in order of interest.

    First come responses that a finding cites and extremes of the run (e.g. its lowest reward),
    then responses extreme within their step, then a random sample.

    Raises:
        UnusableInputError: there are too many steps for any report.
    """
    if len(tables.steps) > MOST_STEPS:
        raise UnusableInputError(
            f"the logs hold {len(tables.steps):,} steps, and a report can list {MOST_STEPS:,} at "
            "most. If 'step' counts samples or tokens, name the field of the training step with "
            "--map step=FIELD; otherwise build several reports, each from fewer files"
        )
    responses = tables.responses
    if responses.empty:
        return []
    steps, numbers = responses["step"].to_numpy(), responses["n"].to_numpy()
    evidence: dict[int, set[int]] = {}
    for finding in verdict.findings:
        for ref in finding.shown:
            evidence.setdefault(ref.step, set()).add(ref.n)
    for extreme in extremes(responses):
        evidence.setdefault(int(steps[extreme.row]), set()).add(int(numbers[extreme.row]))
    token_counts = np.nan_to_num(responses["response_tokens"].to_numpy(np.float64))
    array_count = sum(1 for name in TOKEN_ARRAYS if tables.fields.get(name))
    has_tokens = bool(tables.fields.get("response_tokens") or tables.fields.get("token_ids"))
    # Pages also contain three computed arrays: log-ratios, advantages and returns.
    arrays = array_count + 3 if has_tokens and array_count else int(has_tokens)
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    sampling_keys = prompt_sampling_keys(responses, options.seed)
    plans = []
    for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
        step = int(steps[start])
        pinned = evidence.get(step, set())
        rows = start + rank_by_interest(
            responses.iloc[start:stop],
            step,
            options.max_responses,
            evidence=pinned,
            seed=options.seed,
            recurring=sampling_keys[start:stop],
        )
        plans.append(StepPlan(step, rows, len(pinned), token_counts[rows], arrays))
    return plans


def prompt_sampling_keys(responses: pd.DataFrame, seed: int) -> NDArray[np.float64]:
    """Return a random number for each response, the same for all responses to a prompt.

    Each step samples the prompts with the smallest numbers, so different steps tend to sample the
    same prompts. The number is NaN for prompts that occur at one step only.
    """
    steps = responses.groupby("prompt_id")["step"].nunique()
    number = np.random.default_rng([seed, 1]).random(int(steps.index.max()) + 1)
    prompt = responses["prompt_id"].to_numpy()
    keys: NDArray[np.float64] = np.where(steps[prompt].to_numpy() > 1, number[prompt], np.nan)
    return keys


def shown_prompts(
    responses: pd.DataFrame, shown: Sequence[NDArray[np.int64]]
) -> dict[str, list[int]]:
    """Return for each prompt shown at several steps one of its responses at each of these steps.

    Args:
        responses: table of all responses (RESPONSE_COLUMNS).
        shown: for each step, the rows of ``responses`` it shows, the most interesting first.

    Returns:
        ``prompt_id`` -> [step, n, step, n, …], ascending by step.
    """
    if not shown:
        return {}
    rows = responses[["prompt_id", "step", "n"]].iloc[np.concatenate(shown)]
    one_per_step = rows.drop_duplicates(["prompt_id", "step"]).sort_values(["prompt_id", "step"])
    recurring = one_per_step[one_per_step["prompt_id"].duplicated(keep=False)]
    return {
        str(prompt): group[["step", "n"]].to_numpy().ravel().tolist()
        for prompt, group in recurring.groupby("prompt_id")
    }
