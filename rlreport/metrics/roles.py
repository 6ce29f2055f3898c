"""What a trainer's metric measures, told from its name: its role.

A role has one meaning and one unit, whatever the framework calls it. A metric whose name is not
listed has no role: it is drawn, but nothing is judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Role(NamedTuple):
    """What a metric measures, and its unit, "" for a plain number.

    ``names`` are regular expressions of metric names, in order of preference; each has to match
    the whole name in lower case, without the parts that say only when it was logged.
    """

    id: str
    unit: str
    names: tuple[str, ...]


_MEAN = r"(?:[_/.](?:all[_/.])?(?:mean|avg|average))?"
_AVG = r"(?:(?:mean|avg|average)_)?"
_POLICY = r"(?:(?:actor|policy|optim|optimizer)/)?"
_VALIDATION = (
    # Not parts of the reward, figures of groups, counts and extremes.
    r"(?!.*(?:format|length|_len\b|trunc|std|baseline|ref_|groups|chosen|rejected|margin|accuracies"
    r"|num_|penalty|overlong|[_/](?:min|max)\b|(?:worst|best|maj)@))"
    r"(?:val|valid|validation|eval|evaluation|test|dev|heldout)(?:s|_?set|_?step)?[_/.-]"
)
_RIGHT = r"(?:accuracy|acc|(?:correct|success)(?:_rate)?|(?:pass|solve)_rate|pass(?:@|_at_)?1)"
_TEST_SETS = (
    r"(?:aime|amc|math|gsm8k|gpqa|hmmt|olympiad|minerva|humaneval|mbpp|livecode|lcb|mmlu|ifeval)"
)

ROLES: tuple[Role, ...] = (
    Role(
        "reward",
        "",
        (
            rf"{_AVG}reward{_MEAN}",  # TRL, OpenRLHF, NeMo-RL, prime-rl, plain
            rf"(?:reward/)?{_AVG}raw_reward{_MEAN}",  # SkyRL, slime, whose `rewards` is normalized
            rf"critic/scores?{_MEAN}",  # verl and EasyR1, whose `rewards` has the KL penalty in it
            r"(?:env/all/)?rewards?/(?:total|overall|all)(?:/mean)?",  # Tinker, EasyR1
            rf"(?:critic/)?{_AVG}(?:rewards|scores?){_MEAN}",  # open-instruct's is `scores`
            r"env/reward_mean|ppo/mean_scores",
            r"objective/(?:scores|verifiable_reward|rlhf_reward)",  # TRL's PPO, open-instruct
            r"(?:[\w.-]+/)?all/[\w.-]+/reward/mean",  # prime-rl, by agent
            r"(?:[\w.-]+/)?effective/[\w.-]+/reward/mean",
            rf"{_AVG}(?:episode|episodic)[_/](?:reward|return)s?{_MEAN}",
            rf"{_AVG}returns?{_MEAN}",
            r"reward/(?!format|length|std|min|max)[\w.-]+/mean",  # rLLM, by agent
            rf"(?:env/all/|episode/)?{_AVG}(?:answer_)?{_RIGHT}{_MEAN}",
        ),
    ),
    Role(
        "reward_std",
        "",
        (
            r"(?:critic/)?(?:rewards?|scores?)[_/.](?:all[_/.])?std(?:_mean)?",
            r"std_(?:rewards?|scores?)",
            r"\w*reward_std(?:_mean)?",
        ),
    ),
    Role(
        "validation",
        "",
        (
            rf"{_VALIDATION}(?:all/|env/all/)?(?:\w+_)?(?:reward|score)s?(?:/total|_score)?{_MEAN}",
            rf"{_VALIDATION}(?:all/|env/all/)?(?:\w+_)?{_RIGHT}{_MEAN}",
            r"val-core/.+/(?:acc|reward|score)/mean@\d+",  # verl
            r"val-core/.+/mean@\d+",
            r"val-core/.+",
            rf"{_VALIDATION}(?:.+/)?avg@\d+",  # prime-rl
            rf"{_VALIDATION}.*(?:rewards?|scores?|{_RIGHT}|pass_at_\d+)(?:/.*)?",
            rf"{_VALIDATION}{_TEST_SETS}[\w.+]*",  # slime: the mean reward on a test set
        ),
    ),
    # TRL's PPO and online DPO sum over the response.
    Role("kl", "nats a response", (r"objective/kl",)),
    # Means over tokens. `ppo_kl` and `approx_kl` are to the policy before the update, `mismatch_kl`
    # and Tinker's `kl_sample_train` between sampler and trainer: no drift from the reference.
    Role(
        "kl_token",
        "nats a token",
        (
            rf"{_AVG}kl{_MEAN}",  # TRL's GRPO and RLOO, OpenRLHF
            rf"{_POLICY}{_AVG}(?:policy_kl|ref_kl|kl_ref|kl_to_ref|kl_div|kl_divergence){_MEAN}",
            rf"{_POLICY}kl_loss{_MEAN}",  # verl, slime, EasyR1
            rf"{_POLICY}(?:reward_)?kl_penalty",  # verl, EasyR1, NeMo-RL
            r"loss/avg_kl|kl_policy_base|objective/kl_avg",  # SkyRL, Tinker, open-instruct
            r"objective/kl2_avg",
            r"objective/kl[01]_avg",
        ),
    ),
    # TRL's `objective/entropy` is summed over the response.
    Role(
        "entropy",
        "nats a token",
        (rf"{_POLICY}{_AVG}(?:token_|policy_|approx_)?entropy(?:_loss)?{_MEAN}",),
    ),
    Role(
        "loss",
        "",
        (
            rf"{_POLICY}loss{_MEAN}",
            rf"{_POLICY}{_AVG}(?:pg|policy|actor|act|total|final|grpo|ppo)_loss{_MEAN}",
            r"loss/(?:total|policy)_avg",  # TRL's PPO, open-instruct
        ),
    ),
    Role(
        "grad_norm",
        "",
        (
            rf"{_POLICY}{_AVG}(?:actor_|policy_|raw_|global_|total_)?grad(?:ient)?s?[_/]?norm{_MEAN}",
        ),
    ),
    Role(
        "clip_fraction",
        "of tokens",
        (
            r"clip_ratio/region_mean",
            rf"{_POLICY}{_AVG}(?:pg_|ppo_|policy_)?clip(?:ped)?_?(?:frac|fraction|ratio){_MEAN}",
            r"loss_metrics/clip_ratio",
        ),
    ),
    Role(
        "length",
        "tokens",
        (
            r"completions?/mean_length",
            rf"{_AVG}(?:response|completion|generation|gen|output|answer)s?[_/]?(?:token_?)?"
            rf"(?:len|length|token)s?{_MEAN}",
            r"mean_gen_tokens_per_sample|generate/avg_num_tokens|episode/response_tokens",
            r"(?:env/all/)?ac_tokens_per_(?:trajectory|turn)",
            r"(?:[\w.-]+/)?(?:all|effective)/[\w.-]+/num_output_tokens/mean",
            rf"(?:val/)?{_AVG}(?:decode|seq|sequence)_?(?:len|length)s?{_MEAN}",  # open-instruct
            rf"{_AVG}(?:length|num_output_tokens){_MEAN}",
        ),
    ),
    Role(
        "truncated",
        "of responses",
        (
            r"completions?/(?:clipped_ratio|truncated_fraction)",
            r"response_length/clip_ratio",
            rf"(?:is_|response_)?(?:truncated|truncation)(?:_(?:ratio|rate|frac|fraction))?{_MEAN}",
            r"(?:[\w.-]+/)?(?:all|effective)/[\w.-]+/is_truncated/mean",
        ),
    ),
    Role(
        "learning_rate",
        "",
        (rf"{_POLICY}(?:actor_|policy_)?(?:lr|learning_rate)(?:[-/_]pg_\d+)?",),
    ),
    Role("ratio", "", (rf"(?:val/|{_POLICY})(?:importance_|policy_|probs?_)?ratio{_MEAN}",)),
    Role(
        "explained_variance",
        "",
        (r"(?:critic/|val/)?(?:vf_|value_)?explained_var(?:iance)?(?:_avg)?",),
    ),
)

_PREFIXES = re.compile(r"^(?:.* - )?(?:(?:train|training|trainer|rollouts?|metrics|agg)[/_.])*")
"""Parts of a name that say of which run or when a metric was logged, not what it measures."""


def roles_of(metrics: Iterable[str]) -> dict[str, str]:
    """Return role -> metric: of each role the metric whose name is preferred, if there is one.

    Among equals that of the rollout phase is taken, which has all responses, then the shortest.
    """
    names = sorted(
        metrics, key=lambda name: (not name.lower().startswith("rollout"), len(name), name)
    )
    plain = {name: _PREFIXES.sub("", name.lower()) for name in names}
    roles: dict[str, str] = {}
    for role in ROLES:
        matching = (n for p in role.names for n in names if re.fullmatch(p, plain[n]))
        if metric := next(matching, None):
            roles[role.id] = metric
    return roles
