"""The per-token metrics a page can offer, and what each needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlreport.rollout import Rollout


@dataclass(frozen=True, slots=True)
class TokenMetric:
    """A per-token metric; ``needs`` are the attributes of TokenFigures it is derived from."""

    key: str
    label: str
    unit: str
    signed: bool
    help: str
    needs: tuple[str, ...]


TOKEN_METRICS = (
    TokenMetric("log_ratio", "Log-ratio", "nats", True, "logp − ref_logp (k1)", ("log_ratio",)),
    TokenMetric("kl", "KL", "nats", False, "k3: exp(−r) − 1 + r", ("log_ratio",)),
    TokenMetric(
        "token_reward", "Token reward", "", True, "what the policy is trained on", ("token_reward",)
    ),
    TokenMetric("value", "Value", "", True, "the critic's value", ("value",)),
    TokenMetric("advantage", "Advantage", "", True, "as logged, else by GAE", ("advantage",)),
    TokenMetric("return", "Return", "", True, "value + advantage by GAE", ("return_",)),
    TokenMetric("value_error", "Value error", "", True, "value − return", ("value", "return_")),
    TokenMetric("logp", "Logp", "nats", False, "log-probability under the policy", ("logp",)),
    TokenMetric("ref_logp", "Reference logp", "nats", False, "under the reference", ("ref_logp",)),
    TokenMetric("prob", "Probability", "", False, "under the policy", ("logp",)),
    TokenMetric(
        "ref_prob", "Reference probability", "", False, "under the reference", ("ref_logp",)
    ),
    TokenMetric("surprisal", "Surprisal", "nats", False, "−logp", ("logp",)),
    TokenMetric(
        "sampler_logp", "Sampler logp", "nats", False, "under the sampler", ("sampler_logp",)
    ),
)


def token_metrics(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """Metrics that at least one of ``rollouts`` feeds, as the page's data has them."""

    def fed(name: str) -> bool:
        return any(
            (values := getattr(r.figures, name)) is not None and not np.isnan(values).all()
            for r in rollouts
            if r.raw_tokens
        )

    names = {name for metric in TOKEN_METRICS for name in metric.needs}
    there = {name for name in names if fed(name)}
    return [
        {"key": m.key, "label": m.label, "unit": m.unit, "signed": m.signed, "help": m.help}
        for m in TOKEN_METRICS
        if there.issuperset(m.needs)
    ]
