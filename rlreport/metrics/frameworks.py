"""Recognize a trainer by the names of its metrics, and say how to make it log rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rlreport.text.messages import message

ROLLOUT_WRITER = (
    'RolloutWriter("rollouts").write(step=step, prompt=prompt, response=response, reward=reward)'
)


class Framework(NamedTuple):
    """A trainer: its name, a regular expression of its metrics, and the setting to log rollouts."""

    name: str
    metrics: str
    setting: str


# Known trainers; the most specific names come first, as the first match counts
FRAMEWORKS = (
    Framework(
        "TRL",
        r"(train/)?(completions/(mean|max|clipped)_\w+|frac_reward_zero_std|objective/kl)",
        "GRPOConfig(log_completions=True, logging_steps=1)",
    ),
    Framework(
        "NeMo-RL",
        r"(train/)?(mean_gen_tokens_per_sample|gen_kl_error|sampling_importance_ratio"
        r"|token_mult_prob_error|total_turns_per_sample/\w+)",
        "logger.log_dir=LOGS",
    ),
    Framework(
        "SkyRL",
        r"(reward|loss)/avg_(pass_at_\d+|raw_reward|final_rewards)|policy/policy_\w+"
        r"|generate/avg_num_tokens\w*",
        "trainer.dump_eval_results=true",
    ),
    Framework(
        "slime",
        r"rollout/(raw_reward|response_len/\w+|truncated(_ratio)?|zero_std/\w+)|train/(pg_loss"
        r"|train_rollout_logprob_abs_diff|pg_clipfrac)",
        "--save-debug-rollout-data rollouts/{rollout_id}.pt",
    ),
    Framework("Tinker", r"env/all/\w+(/\w+)*|optim/kl_sample_train_v\d", "log_path=LOGS"),
    Framework(
        "prime-rl",
        r"(\w+/)?(all|effective)/[\w.-]+/\w+/mean|(\w+/)?mismatch_kl/(all/)?mean|progress/\w+",
        "output_dir=OUTPUT",
    ),
    Framework(
        "verl",
        r"(critic|actor)/(score|rewards|pg_loss|pg_clipfrac|ppo_kl|kl_loss|entropy)(/\w+)?"
        r"|training/global_step",
        "trainer.rollout_data_dir=ROLLOUTS",
    ),
)  # fmt: skip


def logging_advice(metrics: Iterable[str]) -> dict[str, str]:
    """Return how to log rollouts with the trainer: ``how`` (a sentence) and ``code`` (a line)."""
    framework = framework_of(metrics)
    if framework is None:
        how = message("Log them with {name}:", name="rlreport.RolloutWriter")
        return {"how": how, "code": ROLLOUT_WRITER}
    how = message("These look like metrics of {name}, which logs them with:", name=framework.name)
    return {"how": how, "code": framework.setting}


def framework_of(metrics: Iterable[str]) -> Framework | None:
    """Return the first known trainer whose pattern matches two or more metric names, else None."""
    names = list(metrics)
    return next(
        (
            framework
            for framework in FRAMEWORKS
            if sum(bool(re.fullmatch(framework.metrics, name)) for name in names) >= 2
        ),
        None,
    )
