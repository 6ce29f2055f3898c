"""Which chart of the overview shows a figure: findings and figures refer to charts by these names.

A chart of a trainer's metric has a name of its own, and one of these as its subject.
"""

from __future__ import annotations

import re

from rlreport.check.course import Quantity

# Quantity -> the chart that has its course
CHART_OF_QUANTITY: dict[Quantity, str] = {
    "reward": "reward",
    "validation": "reward",
    "second_reward": "reward",
    "accuracy": "reward_parts",
    "kl": "kl",
    "length": "length",
    "entropy": "surprisal",
}

# Metric's role -> overview chart on the same subject
CHART_OF_ROLE = {
    "kl": "kl",
    "kl_token": "kl",
    "entropy": "surprisal",
    "length": "length",
    "truncated": "eos",
    "ratio": "mismatch",
    "clip_fraction": "mismatch",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "explained_variance": "explained_variance",
    "mismatch_k3": "mismatch",
    "mismatch_lagged": "mismatch",
    "mismatch_prob": "mismatch",
    "mismatch_ratio": "mismatch",
    "ess": "mismatch",
    "zero_variance": "groups",
    "failed": "failed_rollouts",
    "turn_limit": "turns",
    "tool_calls": "tool_calls",
    "tool_errors": "tool_errors",
    "lag": "lag",
    "advantage_max": "advantages",
    "dropped": "dropped",
}

# Column of the table of steps -> the chart that shows it, of those that no quantity has
CHART_OF_COLUMN = {
    "eos_rate": "eos",
    "distinct_2": "distinct_2",
    "loop_rate": "loops",
    "duplicate_rate": "duplicates",
    "win_rate": "win_rate",
    "zero_variance_groups": "groups",
    "explained_variance": "explained_variance",
    "value_mean": "value",
    "advantage_fit": "advantages",
    "mismatch_ratio": "mismatch",
    "dropped_share": "dropped",
    "turns_mean": "turns",
    "turn_tokens_mean": "turn_tokens",
    "tool_calls_mean": "tool_calls",
    "tool_error_share": "tool_errors",
    "unparsed_call_share": "unparsed_calls",
    "markup_turns_share": "markup_turns",
    "late_call_share": "late_calls",
    "empty_result_share": "empty_results",
    "lag_mean": "lag",
    "failed_rollouts": "failed_rollouts",
}

# Names of ids, indices, hashes and seeds: a mean of them means nothing
IDENTIFIER = re.compile(
    r"(^|[/_. -])(ids?|idx|index|indices|uu?id|guid|hash|seed|line_?(no|number)?)$|[a-z]I[dD]$"
)
