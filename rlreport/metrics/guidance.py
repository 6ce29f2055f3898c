"""What healthy values of well-known trainer metrics are, for bands on their charts."""

from __future__ import annotations

from typing import NamedTuple

from rlreport.text.messages import marked


class Guide(NamedTuple):
    """The range in which a metric is unremarkable, and who says so."""

    metric: str
    low: float
    high: float
    meaning: str
    source: str


_TRL = marked("TRL's guide to the metrics of PPO")

GUIDANCE: tuple[Guide, ...] = (
    Guide("objective/kl", 0.0, 10.0, "KL to the reference; keep it between 0 and 10", _TRL),
    Guide(
        "val/ratio", 0.8, 1.2, "floats around 1.0; 2.0 or 0.1 means updates too drastic", _TRL
    ),
    Guide(
        "clip_ratio/region_mean", 0.0, 0.3, "share of clipped tokens; more means updates too large",
        "TRL's GRPO metrics; the threshold of ratio_drift",
    ),
    Guide(
        "frac_reward_zero_std", 0.0, 0.5, "groups without variance teach nothing",
        "DAPO; the threshold of zero_variance_groups",
    ),
    Guide(
        "sampling/importance_sampling_ratio/mean", 0.95, 1.05,
        "sampler and trainer agree at 1", "NeMo-RL's guides; the threshold of engine_mismatch",
    ),
    Guide(
        "critic/vf_explained_var", 0.0, 1.0, "below 0 the critic is worse than a constant",
        "verl's metrics; PPO practice",
    ),
)  # fmt: skip
"""Guides by metric name, as the trainers write it."""


def guide_for(metric: str) -> Guide | None:
    """Return the guide of a metric, whatever prefix (``train/``, ``eval_``) stands before it."""
    plain = metric.removeprefix("train/").removeprefix("eval/").removeprefix("eval_")
    return next((guide for guide in GUIDANCE if guide.metric == plain), None)
