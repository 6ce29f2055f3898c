"""What trainers' metrics measure is told from their names, as the frameworks write them."""

from __future__ import annotations

import pytest

from rlreport.metrics.roles import ROLES, roles_of

NAMES = {
    "reward": """
        reward train/reward reward_mean mean_reward reward_avg avg_reward rollout_reward_mean
        rollout/reward rollout/mean_reward train_reward reward/mean reward/all/mean
        reward/avg_raw_reward rollout/raw_reward critic/score/mean critic/rewards/mean
        env/all/reward/total reward/overall scores objective/scores objective/rlhf_reward
        objective/verifiable_reward ppo/mean_scores env/reward_mean episode_reward
        train/agg/all/policy/reward/mean reward/solver/mean return accuracy answer_accuracy
        train/answer_accuracy env/all/correct episode/correct
    """,
    "reward_std": "reward_std rollout_reward_std std_reward critic/rewards/std reward/std",
    "validation": """
        eval_reward eval/reward val_accuracy val_mean_reward validation/accuracy val/reward_score
        val/avg_reward val/overall_reward eval/all/avg_score eval/all/pass_at_1 eval/scores
        eval_acc test/env/all/reward/total test/env/all/correct val-core/math/acc/mean@1
        val-core/openai/gsm8k/reward/mean@8 val/test_score/gsm8k eval/math500/avg@4
        eval_gsm8k_pass1 eval/aime val/gsm8k/pass@1 test/accuracy eval/answer_accuracy
        validation/reward eval_rewards/correctness/mean
    """,
    "kl": "objective/kl",
    "kl_token": """
        kl train/kl mean_kl kl_mean actor/kl_loss train/kl_loss actor/reward_kl_penalty
        actor/kl_penalty train/kl_penalty policy/policy_kl loss/avg_kl kl_policy_base
        objective/kl2_avg
    """,
    "entropy": """
        entropy token_entropy entropy_avg mean_entropy actor/entropy actor/entropy_loss
        policy/entropy_avg policy/policy_entropy rollout/entropy entropy/all/mean optim/entropy
        train/approx_entropy train/entropy_loss
    """,
    "loss": """
        loss train/loss train_loss_mean actor/pg_loss policy_loss policy/policy_loss loss/mean
        loss/policy_avg policy/final_loss loss/total_avg
    """,
    "grad_norm": """
        grad_norm gradient_norm train/grad_norm actor/grad_norm optim/grad_norm actor_grad_norm
        policy/raw_grad_norm
    """,
    "clip_fraction": """
        clip_ratio/region_mean clip_frac clip_fraction clip_ratio train_clip_fraction
        actor/pg_clipfrac train/pg_clipfrac policy/clipfrac_avg ppo_clip_ratio policy/ppo_clip_ratio
        loss_metrics/clip_ratio
    """,
    "length": """
        completions/mean_length completion_length response_length response_length/mean
        mean_response_length avg_response_token_length avg_response_len seq_len_mean
        rollout/response_len/mean rollout/response_lengths train/mean_gen_tokens_per_sample
        generate/avg_num_tokens env/all/ac_tokens_per_turn seq_len/all/mean val/sequence_lengths
        episode/response_tokens gen_len completion_len/mean
    """,
    "truncated": """
        completions/clipped_ratio response_length/clip_ratio is_truncated/all/mean
        rollout/truncated_ratio train/truncation_rate rollout/truncated truncated_rate
        train/agg/effective/policy/is_truncated/mean
    """,
    "learning_rate": "lr learning_rate actor/lr optim/lr train/lr-pg_0 actor_lr policy/policy_lr",
    "ratio": "val/ratio ratio policy_ratio train/probs_ratio",
    "explained_variance": "critic/vf_explained_var explained_variance",
    "": """
        rewards/chosen rewards/rejected rewards/margins rewards/accuracies eval_rewards/chosen
        eval/rewards/margins rewards/format_reward/mean rewards/correctness/mean format_accuracy
        train/format_accuracy eval/format_accuracy val_format_ok_rate format_rate format_reward
        reward/format length_reward critic/rewards/max reward_max rollout_reward_min
        frac_reward_zero_std mean_token_accuracy baseline_reward/pct_0 filtered_reward_frac
        actor/ppo_kl train/ppo_kl approx_kl policy/approxkl_avg mismatch_kl/all/mean
        optim/kl_sample_train_v1 rollout_corr/kl kl_coef gen_kl_error vllm_kl loss/kl_avg
        objective/entropy entropy_coef critic/vf_loss loss/value_avg eval_loss val/loss
        critic/grad_norm critic/lr prompt_length/mean prompt_length/clip_ratio val/clipfrac_avg
        completions/max_length eval/completions/mean_length eval_response_length_mean
        eval/aime-truncated_ratio eval/all/generate/avg_num_tokens eval/num_examples
        eval_runtime eval/stop_rate val-aux/num_turns/mean val/total_reward_groups
        val/contain_eos_token sampling/importance_sampling_ratio/mean actor/pg_clipfrac_lower
        clip_ratio/high_max policy/response_length num_tokens advantage_mean critic/returns/max
        policy_version tokens_per_second rollout/step t_rollout
    """,
}


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for role, names in NAMES.items() for name in names.split()]
)
def test_each_name_has_its_role(name: str, role: str) -> None:
    assert roles_of([name]) == ({role: name} if role else {})


def test_every_role_is_named_here() -> None:
    assert set(ROLES) == {role for role in NAMES if role}


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("reward", "reward accuracy rewards/format/mean"),
        ("reward", "rollout/mean_reward train_reward answer_accuracy"),
        ("reward", "rollout/raw_reward rollout/rewards"),
        ("reward", "critic/score/mean critic/rewards/mean critic/returns/mean"),
        ("reward", "reward/overall reward/accuracy reward/format"),
        ("reward", "env/all/reward/total env/all/correct env/all/format"),
        ("validation", "val_mean_reward val_accuracy val_format_ok_rate"),
        ("validation", "eval_reward eval_rewards/correctness/mean eval_rewards/format/mean"),
        ("validation", "val-core/math/acc/mean@4 val-core/math/acc/best@4/mean"),
        ("kl_token", "kl actor/kl_loss"),
        ("length", "completions/mean_length completions/mean_terminated_length"),
        ("loss", "loss policy_loss loss/value_avg"),
    ],
)
def test_of_several_metrics_the_plain_one_is_taken_in_any_order(role: str, names: str) -> None:
    listed = names.split()
    assert roles_of(listed)[role] == roles_of(listed[::-1])[role] == listed[0]


def test_a_name_may_begin_with_its_run_as_in_an_export_of_a_chart() -> None:
    assert roles_of(["grpo-7b - train/reward", "grpo-7b - train/reward__MAX"]) == {
        "reward": "grpo-7b - train/reward"
    }
