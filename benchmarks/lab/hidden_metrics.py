"""Trainer metrics alone, under the keys that each framework writes in 2026.

The keys were read in the frameworks' sources (TRL, verl, prime-rl, slime, Miles, NeMo-RL, SkyRL,
open-instruct, Tinker's cookbook, AReaL, OpenRLHF, ROLL, rLLM, ART) as of August 2026.
"""

from __future__ import annotations

from .figures import Row
from .hidden_base import ALARM, Hidden, a_third_in, between, healthy, planted
from .reasoning import Rng
from .simulate import Schedule, flat, ramp, settle

KINDS: dict[str, tuple[str, float, float]] = {
    "mismatch KL": ("engine_mismatch", 6e-4, 0.3),
    "log-probability gap": ("engine_mismatch", 0.015, 0.6),
    "probability gap": ("engine_mismatch", 0.004, 0.25),
    "importance ratio": ("engine_mismatch", 1.0, 0.5),
    "error factor": ("engine_mismatch", 1.02, 2.5),
    "effective samples": ("engine_mismatch", 0.97, 0.1),
    "without variance": ("zero_variance_groups", 0.2, 0.92),
    "percent unsolved": ("zero_variance_groups", 15, 92),
    "with variance": ("zero_variance_groups", 0.75, 0.07),
    "truncated": ("missing_eos", 0.03, 0.8),
    "finished": ("missing_eos", 0.97, 0.2),
    "looping": ("loops", 0.01, 0.55),
    "aborted": ("failed_rollouts", 0.006, 0.6),
    "failed calls": ("tool_errors", 0.04, 0.75),
    "age": ("stale_rollouts", 0.6, 12),
}
"""Finding that a kind of metric feeds, its value at rest and when something is wrong."""

_AGENT = "train/agg/all/agent"  # prime-rl's prefix

FRAMEWORKS: dict[str, dict[str, str | float]] = {
    "trl": {
        "reward": "reward",
        "sampling/sampling_logp_difference/mean": "log-probability gap",
        "sampling/importance_sampling_ratio/mean": "importance ratio",
        "frac_reward_zero_std": "without variance",
        "completions/clipped_ratio": "truncated",
        "tools/failure_frequency": "failed calls",
        "tools/call_frequency": 1.5,
    },
    "verl": {
        "critic/score/mean": "reward",
        "rollout_corr/kl": "mismatch KL",
        "rollout_corr/k3_kl": "mismatch KL",
        "rollout_corr/rollout_is_eff_sample_size": "effective samples",
        "training/rollout_probs_diff_mean": "probability gap",
        "response_length/clip_ratio": "truncated",
        "response/aborted_ratio": "aborted",
        "num_turns/mean": 3,
        "tool_call_counts/mean": 1.2,
        "fully_async/count/stale_trajectory_processed": 60,
    },
    "prime-rl": {
        f"{_AGENT}/reward/mean": "reward",
        "mismatch_kl/all/mean": "mismatch KL",
        f"{_AGENT}/solved_none": "without variance",
        f"{_AGENT}/solved_some": "with variance",
        f"{_AGENT}/is_truncated/mean": "truncated",
        f"{_AGENT}/has_error/mean": "aborted",
        "off_policy/mean": "age",
        f"{_AGENT}/num_turns/mean": 4,
    },
    "slime": {
        "rollout/raw_reward": "reward",
        "train/train_rollout_logprob_abs_diff": "log-probability gap",
        "rollout/repetition_frac": "looping",
        "rollout/truncated_ratio": "truncated",
        "rollout/zero_std/count_0": 5,
        "rollout/zero_std/count_1": 4,
    },
    "miles": {
        "rollout/raw_reward": "reward",
        "train/train_rollout_kl": "mismatch KL",
        "rollout/repetition_frac": "looping",
        "rollout/zero_std/all_zero_percentage": "without variance",
        "rollout/truncated_ratio": "truncated",
        "rollout/fully_async/avg_staleness": "age",
    },
    "nemo-rl": {
        "train/reward": "reward",
        "train/gen_kl_error": "mismatch KL",
        "train/token_mult_prob_error": "error factor",
        "train/sampling_importance_ratio": "importance ratio",
        "train/baseline_reward/pct_0": "percent unsolved",
        "train/truncation_rate": "truncated",
        "train/avg_trajectory_age": "age",
    },
    "skyrl": {
        "reward/avg_raw_reward": "reward",
        "policy/rollout_train_logprobs_abs_diff_mean": "log-probability gap",
        "async/staleness_mean": "age",
        "reward/num_zero_variance_filtered": 12,
        "generate/num_error_trajectories": 1,
        "generate/avg_num_turns": 3,
    },
    "open-instruct": {
        "scores": "reward",
        "debug/vllm_vs_local_logprob_diff_mean": "log-probability gap",
        "debug/vllm_local_reverse_kl": "mismatch KL",
        "val/stop_rate": "finished",
        "tools/aggregate/failure_rate": "failed calls",
        "real_batch_size_ratio": "with variance",
    },
    "tinker": {
        "env/all/reward/total": "reward",
        "optim/kl_sample_train_v2": "mismatch KL",
        "env/all/by_group/frac_mixed": "with variance",
        "env/all/turns_per_episode": 3,
    },
    "areal": {
        "ppo_actor/task_reward/avg": "reward",
        "ppo_actor/no_eos_ratios/avg": "truncated",
        "ppo_actor/update/behave_approx_kl/avg": 6e-4,
    },
    "openrlhf": {
        "train/reward": "reward",
        "train/vllm_kl": "mismatch KL",
        "train/truncated": "truncated",
        "train/dynamic_filtering_pass_rate": 60,
    },
    "roll": {
        "critic/score/mean": "reward",
        "scheduler/off_policy_ratio": 0.4,
        "scheduler/query_filter_count": 5,
    },
    "rllm": {
        "reward/mean": "reward",
        "batch/solve_none": "without variance",
        "batch/solve_partial": "with variance",
        "batch/solve_all": 0.15,
        "training/rollout_probs_diff_mean": "probability gap",
    },
    "art": {"train/reward": "reward", "train/exception_rate": "aborted"},
}
"""Each framework's keys with their kind, or the value at rest of one that is never wrong here."""

_MOVED = [
    (name, key, KINDS[kind])
    for name, keys in FRAMEWORKS.items()
    for key, kind in keys.items()
    if isinstance(kind, str) and kind in KINDS
]
FAULTS = len(_MOVED)


def _records(
    rng: Rng, name: str, moved: dict[str, Schedule], steps: int, to: float
) -> list[Row]:
    """Return a record for each step: a reward that learns up to ``to``, keys at rest or moved."""
    reward = settle(rng.uniform(10, 20), to - 0.25)
    records: list[Row] = []
    for step in range(1, steps + 1):
        record: Row = {"step": step}
        for key, kind in FRAMEWORKS[name].items():
            if kind == "reward":
                record[key] = 0.25 + reward(step) + 0.02 * float(rng.normal())
                continue
            rest = KINDS[kind][1] if isinstance(kind, str) else kind
            value = moved.get(key, flat(rest))(step)
            # What is near 1 scatters less: a ratio, or the share of almost all.
            noise = 0.005 if 0.9 < value < 1.1 else 0.1
            noisy = value * float(rng.lognormal(0, noise))
            record[key] = round(min(noisy, 1.0) if value < 1 else noisy, 6)
        records.append(record)
    return records


def moved(rng: Rng, i: int) -> Hidden:
    """All keys that measure one fault go wrong, the framework's others stay at rest."""
    name, _, (check, *_) = _MOVED[i]
    steps = int(rng.integers(30, 81))
    start, stop = a_third_in(rng, steps)
    wrong = {key: kind for of, key, kind in _MOVED if of == name and kind[0] == check}
    schedules = {
        key: ramp(start, stop, end, rest) for key, (_, rest, end) in wrong.items()
    }
    records = _records(rng, name, schedules, steps, to=0.4)
    level = None if check == "stale_rollouts" else ALARM
    truth = planted(check, between(start, stop), level=level)
    return Hidden({"metrics.jsonl": records}, truth)


def at_rest(rng: Rng, i: int) -> Hidden:
    """All keys of a framework at rest, with noise, while the reward rises."""
    name = list(FRAMEWORKS)[i]
    records = _records(
        rng, name, {}, int(rng.integers(30, 81)), to=float(rng.uniform(0.5, 0.85))
    )
    return Hidden({"metrics.jsonl": records}, healthy())
