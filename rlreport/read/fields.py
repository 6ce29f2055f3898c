"""What the first pass does with the fields of a row (``rlreport.fields`` lists them)."""

from __future__ import annotations

SCALARS = ("ref_reward", "valid_reward", "ref_valid_reward")
FINISH_FIELDS = ("finish_reason", "stop_reason")
COUNTED_ONLY = ("ground_truth", "token_ids")
"""Fields that the first pass only counts."""

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
