"""The checks, in the order in which the documentation lists them."""

from __future__ import annotations

from rlreport.check import (
    broken_log,
    diversity_collapse,
    engine_mismatch,
    entropy_collapse,
    kl_explosion,
    length_collapse,
    length_hacking,
    missing_eos,
    nan_metrics,
    negative_kl,
    not_sharpening,
    persistent_losers,
    ratio_drift,
    reward_collapse,
    reward_hacking_token,
    reward_stalled,
    value_divergence,
    zero_variance_groups,
)
from rlreport.check.check import Check

CHECKS: tuple[Check, ...] = (
    kl_explosion.CHECK,
    negative_kl.CHECK,
    reward_collapse.CHECK,
    reward_stalled.CHECK,
    reward_hacking_token.CHECK,
    diversity_collapse.CHECK,
    entropy_collapse.CHECK,
    length_hacking.CHECK,
    length_collapse.CHECK,
    missing_eos.CHECK,
    value_divergence.CHECK,
    ratio_drift.CHECK,
    engine_mismatch.CHECK,
    zero_variance_groups.CHECK,
    persistent_losers.CHECK,
    not_sharpening.CHECK,
    nan_metrics.CHECK,
    broken_log.CHECK,
)
