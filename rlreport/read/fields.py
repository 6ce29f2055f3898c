"""The fields of a log row that have a meaning of their own."""

from __future__ import annotations

REQUIRED = ("step", "prompt", "response", "reward")
SCALARS = ("ref_reward", "valid_reward", "ref_valid_reward")
TOKEN_ARRAYS = (
    "logprobs",
    "ref_logprobs",
    "values",
    "token_rewards",
    "sampler_logprobs",
    "old_logprobs",
    "advantages",
)
"""Fields that hold one float per token."""

FINISH_FIELDS = ("finish_reason", "stop_reason")
COUNTED_ONLY = ("ground_truth", "token_ids")
"""Fields that the first pass only counts."""

CANONICAL = frozenset(
    {
        *REQUIRED,
        *SCALARS,
        *TOKEN_ARRAYS,
        *COUNTED_ONLY,
        "prompt_token_ids",
        "response_tokens",
        "ref_response",
        "group_id",
        "reward_parts",
        "turns",
    }
)
"""Every other scalar becomes a column."""

LONGEST_EXTRA = 200
"""Characters; a longer text is no column."""

FINISH_REASONS = {
    "stop": 1.0,
    "eos": 1.0,
    "eos_token": 1.0,
    "end_turn": 1.0,
    "stop_sequence": 1.0,
    "tool_calls": 1.0,
    "done": 1.0,
    "complete": 1.0,
    "completed": 1.0,
    "length": 0.0,
    "max_tokens": 0.0,
    "max_length": 0.0,
    "max_new_tokens": 0.0,
    "truncated": 0.0,
    "overlong": 0.0,
}
"""What frameworks log as the reason a response ended: 1 by itself, 0 at the limit."""
