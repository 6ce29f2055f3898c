"""The checks, in the order in which they lead: what invalidates a run, causes, consequences, notes.

Inside a rank and a severity this order decides which finding comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlreport.check import (
    broken_log,
    diversity_collapse,
    engine_mismatch,
    entropy_collapse,
    entropy_explosion,
    failed_rollouts,
    group_std_fall,
    kl_explosion,
    language_drift,
    length_collapse,
    length_hacking,
    mismatch_by_turn,
    missing_eos,
    nan_metrics,
    negative_kl,
    not_sharpening,
    off_policy_weights,
    persistent_losers,
    ratio_drift,
    reward_collapse,
    reward_hacking_token,
    reward_part_dominance,
    reward_shift,
    reward_stalled,
    stale_rollouts,
    template_collapse,
    tool_disuse,
    tool_errors,
    turn_limit,
    unclosed_thinking,
    value_divergence,
    void_turns,
    zero_variance_groups,
)
from rlreport.check.check import Check
from rlreport.errors import UsageError

CHECKS: tuple[Check, ...] = (
    nan_metrics.CHECK,
    broken_log.CHECK,
    reward_shift.CHECK,
    reward_hacking_token.CHECK,
    length_hacking.CHECK,
    stale_rollouts.CHECK,
    mismatch_by_turn.CHECK,
    engine_mismatch.CHECK,
    off_policy_weights.CHECK,
    failed_rollouts.CHECK,
    tool_errors.CHECK,
    tool_disuse.CHECK,
    ratio_drift.CHECK,
    negative_kl.CHECK,
    value_divergence.CHECK,
    zero_variance_groups.CHECK,
    entropy_explosion.CHECK,
    reward_collapse.CHECK,
    length_collapse.CHECK,
    diversity_collapse.CHECK,
    entropy_collapse.CHECK,
    template_collapse.CHECK,
    void_turns.CHECK,
    turn_limit.CHECK,
    unclosed_thinking.CHECK,
    missing_eos.CHECK,
    kl_explosion.CHECK,
    language_drift.CHECK,
    group_std_fall.CHECK,
    reward_stalled.CHECK,
    persistent_losers.CHECK,
    not_sharpening.CHECK,
    reward_part_dominance.CHECK,
)

BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}


def refuse_unknown(ids: Iterable[str]) -> None:
    """Raise UsageError where an id is that of no check."""
    for name in ids:
        if name not in BY_ID:
            raise UsageError(f"--mute {name}: unknown check; known: {', '.join(BY_ID)}")
