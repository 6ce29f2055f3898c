"""What a trainer's metric measures, told from its name: its role.

A role has one meaning and one unit, whatever the framework calls it. A metric whose name is not
listed has no role: it is drawn, but nothing is judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """What a metric measures.

    Attributes:
        id: its name in the code and in findings.
        unit: nats, tokens, …; "" for a plain number.
        names: regular expressions of metric names, in order of preference; each has to match the
            whole name in lower case, without the parts that say only when it was logged.
    """

    id: str
    unit: str
    names: tuple[str, ...]


_MEAN = r"(?:[_/.](?:mean|avg|average))?"
_VALIDATION = r"(?:val|valid|validation|eval|evaluation|test)"

ROLES: tuple[Role, ...] = (
    Role(
        "reward",
        "",
        (
            rf"(?:critic/)?(?:rewards?|scores?){_MEAN}",  # TRL, verl, OpenRLHF, NeMo-RL, plain
            r"(?:mean|avg|average)_(?:reward|score)",
            r"rewards?/(?:overall|all|total|avg_raw_reward|raw_reward)(?:/mean)?",
            r"env/all/reward/total",  # Tinker
            rf"(?:rollout|train|episode|raw)_?/?(?:raw_)?(?:reward|rewards|return){_MEAN}",
            r"objective/(?:scores|rlhf_reward)",  # TRL's PPO
            rf"(?:train_)?(?:accuracy|correct){_MEAN}",
        ),
    ),
    Role("reward_std", "", (r"(?:critic/)?rewards?[_/.]std", r"std_reward", r"\w*reward_std")),
    Role(
        "validation",
        "",
        (
            rf"{_VALIDATION}[_/.-](?:mean_)?(?:reward|rewards|score|scores){_MEAN}",
            rf"{_VALIDATION}[_/.-](?:answer_)?(?:accuracy|acc|correct|pass@1|pass_at_1){_MEAN}",
            rf"{_VALIDATION}[_/.-](?:core|all)/.*/?(?:reward|acc|accuracy|score)/mean@1",  # verl
            rf"{_VALIDATION}/.*(?:reward|accuracy|score|pass@1).*",
            rf"{_VALIDATION}-core/.*",
        ),
    ),
    Role(
        "kl",
        "nats a response",
        (r"objective/kl", r"kl_to_ref", r"rollout/kl"),
    ),
    Role("kl_token", "nats a token", (r"kl", r"mean_kl", r"kl_mean", r"actor/kl_loss")),
    Role(
        "entropy",
        "nats a token",
        (r"(?:actor/|policy/|token_)?entropy(?:_loss)?" + _MEAN, r"mean_entropy", r"avg_entropy"),
    ),
    Role("loss", "", (r"(?:actor/|policy/)?(?:pg_|policy_)?loss" + _MEAN, r"train_loss" + _MEAN)),
    Role(
        "grad_norm",
        "",
        (r"(?:actor/|policy/|optim/)?(?:raw_)?(?:grad|gradient)_?norm" + _MEAN,),
    ),
    Role(
        "clip_fraction",
        "of tokens",
        (
            r"(?:actor/|policy/)?(?:pg_)?clip_?(?:frac|fraction|ratio)" + _MEAN,
            r"clip_ratio/region_mean",
            r"train_clip_fraction",
        ),
    ),
    Role(
        "length",
        "tokens",
        (
            r"completions?/mean_length",
            r"(?:response|completion|generation|sequence|seq)_?(?:token_)?len(?:gth)?s?" + _MEAN,
            r"(?:mean|avg|average)_(?:response|completion|generation)_(?:token_)?length",
            r"(?:completion_length|response_length)/mean",
        ),
    ),
    Role(
        "truncated",
        "of responses",
        (
            r"completions?/clipped_ratio",
            r"response_length/clip_ratio",
            r"truncated(?:_ratio|_rate)?",
            r"is_truncated" + _MEAN,
        ),
    ),
    Role("learning_rate", "", (r"(?:actor/|policy/|optim/)?(?:lr|learning_rate)",)),
    Role("ratio", "", (r"val/ratio", r"(?:importance_)?ratio" + _MEAN)),
    Role("explained_variance", "", (r"(?:critic/)?(?:vf_)?explained_var(?:iance)?",)),
)

_PREFIXES = re.compile(r"^(?:(?:train|training|rollout|rollouts|perf|metrics)/)+")
"""Parts of a name that say when a metric was logged, not what it measures."""


def roles_of(metrics: Iterable[str]) -> dict[str, str]:
    """Return role -> metric: of each role the metric whose name is preferred, if there is one."""
    names = list(metrics)
    found: dict[str, str] = {}
    for role in ROLES:
        for pattern in role.names:
            matching = re.compile(pattern)
            hit = next((n for n in names if matching.fullmatch(_PREFIXES.sub("", n.lower()))), None)
            if hit is not None:
                found[role.id] = hit
                break
    return found
