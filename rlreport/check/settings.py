"""Table of the settings of RL frameworks: which key changes what, read from their source.

``docs/advice.md`` shows the table. ``check.advice`` turns it into advice with a run's own values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from rlreport.about.secrets import Scalar
from rlreport.text.messages import translatable


class SettingKind(StrEnum):
    """What a setting controls."""

    STEP_SIZE = "step size"  # learning rate of the policy
    KL = "KL penalty"  # coefficient of the KL to the reference
    CLIP = "clip range"
    EPOCHS = "updates per batch"
    GROUP_SIZE = "group size"  # responses per prompt
    TEMPERATURE = "temperature"  # of the sampler
    TOP_P = "top-p"
    TOP_K = "top-k"
    LENGTH_LIMIT = "length limit"  # of a response, in tokens
    LENGTH_PENALTY = "length penalty"
    TRUNCATED = "cut-off responses"  # whether the loss leaves them out
    GROUP_FILTER = "group filter"  # of groups without signal
    REWARD_PARTS = "reward parts"  # their weights
    GRADER = "grader"
    REFERENCE = "reference"
    STOP_TOKENS = "stop tokens"
    CORRECTION = "sampler correction"  # importance weights of the sampler's tokens
    CORRECTION_CAP = "correction limit"  # upper limit of these weights
    STALENESS = "staleness"  # how much older the sampler's weights may be
    ENTROPY = "entropy bonus"
    TURN_LIMIT = "turn limit"
    GRADIENT_CLIP = "gradient clipping"  # limit of the gradient norm
    CRITIC = "critic step size"
    CRITIC_WARMUP = "critic warm-up"  # steps that train the critic alone


class Move(StrEnum):
    """What to do with a setting."""

    LOWER = "lower"
    RAISE = "raise"
    ABOVE_ZERO = "above zero"  # raise it if it is 0
    ENABLE = "enable"
    NEUTRAL = "neutral"  # set it to the value at which it has no effect
    SEE = "see"  # look at it; comes after the plain words


class Remedy(NamedTuple):
    """A change of a kind of setting, whatever its name in a framework."""

    move: Move
    kind: SettingKind
    # whether it comes after the plain words of a check, instead of replacing them
    after: bool = False

    @property
    def opposite(self) -> Remedy | None:
        """The remedy that undoes this one, None if there is none."""
        opposites = {Move.LOWER: Move.RAISE, Move.RAISE: Move.LOWER}
        move = opposites.get(self.move)
        return None if move is None else Remedy(move, self.kind)


Remedies = tuple[Remedy, ...]


def lower(*kinds: SettingKind) -> Remedies:
    """Return remedies that lower settings of these kinds, the first preferred."""
    return tuple(Remedy(Move.LOWER, kind) for kind in kinds)


def higher(*kinds: SettingKind) -> Remedies:
    """Return remedies that raise settings of these kinds, the first preferred."""
    return tuple(Remedy(Move.RAISE, kind) for kind in kinds)


def enabled(*kinds: SettingKind) -> Remedies:
    """Return remedies that switch on settings of these kinds, the first preferred."""
    return tuple(Remedy(Move.ENABLE, kind) for kind in kinds)


def neutral(*kinds: SettingKind) -> Remedies:
    """Return remedies that switch off what settings of these kinds do to sampling."""
    return tuple(Remedy(Move.NEUTRAL, kind) for kind in kinds)


def see(*kinds: SettingKind) -> Remedies:
    """Return pointers to settings of these kinds, after the plain words."""
    return tuple(Remedy(Move.SEE, kind, after=True) for kind in kinds)


def also(*remedies: Remedy) -> Remedies:
    """Return the remedies, told after the plain words of a check instead of replacing them."""
    return tuple(remedy._replace(after=True) for remedy in remedies)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKey:
    """A setting of a framework.

    Attributes:
        name: as a person writes it: a dotted name, or an option of the command line.
        default: its value without any configuration, read from the source.
        least: the lowest value that it can sensibly have.
        off: the value at which it does nothing, for ``Move.NEUTRAL``; a pointer to a setting with
            this value is not given. None if there is none.
        on: the value that switches it on, "" for a switch that is true or false, None if a person
            has to choose it.
        no_limit: whether null means that there is no limit.
        switches: the setting counts only if any of these switches is on.
        if_logged: whether it is named only if the run's configuration has it, as of a variant of
            the framework that most runs do not use.
    """

    name: str
    default: Scalar = None
    least: float = 0.0
    off: Scalar = None
    on: str | None = ""
    no_limit: bool = False
    switches: tuple[str, ...] = ()
    if_logged: bool = False


Keys = tuple[SettingKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """The settings of a framework.

    Attributes:
        name: of the framework.
        version: the version and the commit whose source was read.
        formats: ids of the log formats that only this framework writes.
        marks: names (also of groups of settings) that together tell the framework.
        metrics: how names of trainer metrics begin that only this framework logs.
        keys: kind -> settings of this kind, preferred ones first.
    """

    name: str
    version: str
    source: str  # the files in which the names are declared
    formats: tuple[str, ...]
    marks: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    keys: Mapping[SettingKind, Keys]


K = SettingKind


def _key(name: str, default: Scalar = None) -> Keys:
    return (SettingKey(name=name, default=default),)


def _epochs(name: str, default: Scalar = 1) -> Keys:
    return (SettingKey(name=name, default=default, least=1),)


def _switch(name: str, on: str | None = "", default: Scalar = False) -> Keys:
    return (SettingKey(name=name, default=default, on=on),)


def _limit(name: str, default: Scalar = None) -> Keys:
    return (SettingKey(name=name, default=default, least=1, no_limit=True),)


def _sampling(
    temperature: str, top_p: str, top_k: str = "", all_tokens: Scalar = -1
) -> dict[SettingKind, Keys]:
    """Return settings of sampling; ``all_tokens``: value of top-k that leaves out no token."""
    settings: dict[SettingKind, Keys] = {
        K.TEMPERATURE: (SettingKey(name=temperature, default=1.0, off=1.0),),
    }
    if top_p:
        settings[K.TOP_P] = (SettingKey(name=top_p, default=1.0, off=1.0),)
    if top_k:
        settings[K.TOP_K] = (
            SettingKey(name=top_k, default=all_tokens, off=all_tokens),
        )
    return settings


TRL = Framework(
    name="TRL",
    version="1.10.0.dev0 (f2cd57710, 2026-07-24)",
    source="trl/trainer/grpo_config.py, trl/experimental/async_grpo/async_grpo_config.py",
    formats=("trl",),
    marks=("num_generations", "beta"),
    metrics=("completions/clipped_ratio", "clip_ratio/region_mean"),
    keys={
        K.STEP_SIZE: _key("learning_rate", 1e-6),
        K.KL: _key("beta", 0.0),
        K.CLIP: _key("epsilon", 0.2),
        K.EPOCHS: _epochs("num_iterations"),
        K.GROUP_SIZE: _key("num_generations", 8),
        **_sampling("temperature", "top_p", "top_k", all_tokens=0),
        K.LENGTH_LIMIT: _limit("max_completion_length", 512),
        K.TRUNCATED: _switch("mask_truncated_completions"),
        K.REWARD_PARTS: _switch("reward_weights", on=None, default=None),
        K.REFERENCE: (SettingKey(name="sync_ref_model", default=False, off=False),),
        K.CORRECTION: _switch("vllm_importance_sampling_correction", default=True),
        K.CORRECTION_CAP: _key("vllm_importance_sampling_clip_max", 3.0),
        K.STALENESS: (
            SettingKey(name="max_staleness", default=4, if_logged=True),
            SettingKey(name="steps_per_generation", least=1, if_logged=True),
        ),
        K.ENTROPY: _key("entropy_coef", 0.0),
        K.TURN_LIMIT: _limit("max_tool_calling_iterations"),
        K.GRADIENT_CLIP: _key("max_grad_norm", 1.0),
    },
)

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"

VERL = Framework(
    name="verl",
    version="0.10.0.dev (1dda039b9, 2026-08-22)",
    source="verl/trainer/config/_generated_ppo_trainer.yaml, "
    "verl/experimental/fully_async_policy/config/fully_async_ppo_trainer.yaml, "
    "verl/experimental/reward_loop/reward_manager/dapo.py",
    formats=("verl",),
    marks=("actor_rollout_ref",),
    metrics=("val-core/",),
    keys={
        K.STEP_SIZE: _key(f"{_ACTOR}.optim.lr", 1e-6),
        K.KL: (
            SettingKey(
                name=f"{_ACTOR}.kl_loss_coef",
                default=0.001,
                switches=(f"{_ACTOR}.use_kl_loss",),
            ),
            SettingKey(
                name="algorithm.kl_ctrl.kl_coef",
                default=0.001,
                switches=("algorithm.use_kl_in_reward",),
            ),
        ),
        K.CLIP: _key(f"{_ACTOR}.clip_ratio_high", 0.2),
        K.EPOCHS: _epochs(f"{_ACTOR}.ppo_epochs"),
        K.GROUP_SIZE: _key(f"{_ROLLOUT}.n", 1),
        **_sampling(
            f"{_ROLLOUT}.temperature", f"{_ROLLOUT}.top_p", f"{_ROLLOUT}.top_k"
        ),
        K.LENGTH_LIMIT: _limit("data.max_response_length", 512),
        K.LENGTH_PENALTY: _switch("reward.reward_kwargs.overlong_buffer_cfg.enable"),
        K.GROUP_FILTER: _switch("algorithm.filter_groups.enable"),
        K.GRADER: (
            SettingKey(name="reward.custom_reward_function.path"),
            # read from older configurations, too
            SettingKey(name="custom_reward_function.path"),
        ),
        K.CORRECTION: _switch(
            "algorithm.rollout_correction.rollout_is", on="token", default=None
        ),
        K.CORRECTION_CAP: _key("algorithm.rollout_correction.rollout_is_threshold", 2),
        K.STALENESS: (
            SettingKey(
                name="async_training.staleness_threshold", default=0.1, if_logged=True
            ),
        ),
        K.ENTROPY: _key(f"{_ACTOR}.entropy_coeff", 0),
        K.TURN_LIMIT: _limit(f"{_ROLLOUT}.multi_turn.max_assistant_turns"),
        K.GRADIENT_CLIP: (
            SettingKey(name=f"{_ACTOR}.optim.clip_grad", default=1.0),
            SettingKey(name=f"{_ACTOR}.grad_clip", default=1.0),
        ),
        K.CRITIC: _key("critic.optim.lr", 1e-5),
        K.CRITIC_WARMUP: _key("trainer.critic_warmup", 0),
    },
)

OPENRLHF = Framework(
    name="OpenRLHF",
    version="0.11.0 (3c3be623, 2026-08-13)",
    source="openrlhf/cli/train_ppo_ray.py",
    formats=(),
    marks=("rollout.n_samples_per_prompt", "algo.kl.init_coef"),
    metrics=("train/ppo_clip_ratio",),
    keys={
        K.STEP_SIZE: _key("--actor.adam.lr", 1e-6),
        K.KL: _key("--algo.kl.init_coef", 0.01),
        K.CLIP: _key("--actor.eps_clip", 0.2),
        K.EPOCHS: _epochs("--train.max_epochs"),
        K.GROUP_SIZE: _key("--rollout.n_samples_per_prompt", 1),
        **_sampling("--rollout.temperature", "--rollout.top_p"),
        K.LENGTH_LIMIT: _limit("--rollout.max_new_tokens"),
        K.LENGTH_PENALTY: _switch(
            "--reward.overlong_buffer_len", on=None, default=None
        ),
        K.GROUP_FILTER: _switch("--algo.dynamic_filtering_enable"),
        K.GRADER: _key("--reward.remote_url"),
        K.CORRECTION: _switch("--algo.advantage.is_correction_enable"),
        K.STALENESS: (
            SettingKey(
                name="--train.async_queue_size",
                default=1,
                least=1,
                switches=("--train.async_enable",),
            ),
        ),
        K.ENTROPY: _key("--actor.entropy_coef"),
        K.GRADIENT_CLIP: _key("--actor.max_norm", 1.0),
        K.CRITIC: _key("--critic.adam.lr", 9e-6),
        K.CRITIC_WARMUP: _key("--critic.freezing_steps", -1),
    },
)

PRIME_RL = Framework(
    name="prime-rl",
    version="0.8.1.dev (559b44772, 2026-08-21)",
    source="packages/prime-rl-configs/src/prime_rl/configs/{trainer,orchestrator,algorithm}.py",
    formats=("prime_rl_tokens",),
    marks=("orchestrator", "trainer"),
    metrics=("train/agg/",),
    keys={
        K.STEP_SIZE: _key("trainer.optim.lr", 1e-6),
        K.CLIP: _key("trainer.loss.dppo_mask_high", 0.2),
        K.GROUP_SIZE: _key("orchestrator.group_size", 1),
        **_sampling("orchestrator.train.sampling.temperature", ""),
        K.LENGTH_LIMIT: _limit("orchestrator.train.sampling.max_completion_tokens"),
        K.LENGTH_PENALTY: _switch(
            "orchestrator.algo.length_penalty.num_output_tokens_weight",
            on=None,
            default=None,
        ),
        K.GROUP_FILTER: _switch(
            "orchestrator.train.filter_zero_advantages", default=True
        ),
        K.STALENESS: _key("orchestrator.max_off_policy_steps", 8),
        K.GRADIENT_CLIP: _key("trainer.optim.max_norm", 1.0),
    },
)

SLIME = Framework(
    name="slime",
    version="0.3.1 (624b824a8, 2026-08-21)",
    source="slime/utils/arguments.py, slime/backends/megatron_utils/model.py",
    formats=("slime",),
    marks=("n_samples_per_prompt", "rollout_max_response_len"),
    keys={
        K.STEP_SIZE: _key("--lr"),
        K.KL: (
            SettingKey(name="--kl-loss-coef", default=0.0, switches=("--use-kl-loss",)),
            SettingKey(name="--kl-coef", default=0.0),
        ),
        K.CLIP: _key("--eps-clip", 0.2),
        K.EPOCHS: (
            SettingKey(name="--num-steps-per-rollout", least=1, if_logged=True),
        ),
        K.GROUP_SIZE: _key("--n-samples-per-prompt", 1),
        **_sampling("--rollout-temperature", "--rollout-top-p", "--rollout-top-k"),
        K.LENGTH_LIMIT: _limit("--rollout-max-response-len"),
        K.GROUP_FILTER: _switch(
            "--dynamic-sampling-filter-path",
            on="slime.rollout.filter_hub.dynamic_sampling_filters."
            "check_reward_nonzero_std",
            default=None,
        ),
        K.GRADER: (
            SettingKey(name="--custom-rm-path"),
            SettingKey(name="--rm-type"),
        ),
        K.REFERENCE: _key("--ref-load"),
        K.STOP_TOKENS: (
            SettingKey(name="--rollout-stop-token-ids"),
            SettingKey(name="--rollout-stop"),
        ),
        K.CORRECTION: _switch("--use-tis"),
        K.CORRECTION_CAP: _key("--tis-clip", 2.0),
        K.STALENESS: (
            SettingKey(name="--update-weights-interval", default=1, least=1),
        ),
        K.ENTROPY: _key("--entropy-coef", 0.0),
        K.GRADIENT_CLIP: _key("--clip-grad", 1.0),
        K.CRITIC_WARMUP: _key("--num-critic-only-steps", 0),
    },
)

_ALGORITHM = "trainer.algorithm"
_CORRECTION = f"{_ALGORITHM}.off_policy_correction"

SKYRL = Framework(
    name="SkyRL",
    version="0.3.0 (a9564572e, 2026-08-21)",
    source="skyrl/train/config/config.py",
    formats=("skyrl",),
    marks=("generator.n_samples_per_prompt", _ALGORITHM),
    metrics=("reward/avg_raw_reward",),
    keys={
        K.STEP_SIZE: _key("trainer.policy.optimizer_config.lr", 1e-6),
        K.KL: (
            SettingKey(
                name=f"{_ALGORITHM}.kl_loss_coef",
                default=0.001,
                switches=(
                    f"{_ALGORITHM}.use_kl_loss",
                    f"{_ALGORITHM}.use_kl_in_reward",
                ),
            ),
        ),
        K.CLIP: _key(f"{_ALGORITHM}.eps_clip_high", 0.2),
        K.EPOCHS: _epochs("trainer.update_epochs_per_batch"),
        K.GROUP_SIZE: _key("generator.n_samples_per_prompt", 5),
        **_sampling(
            "generator.sampling_params.temperature",
            "generator.sampling_params.top_p",
            "generator.sampling_params.top_k",
        ),
        K.LENGTH_LIMIT: _limit("generator.sampling_params.max_generate_length", 1024),
        K.TRUNCATED: _switch("generator.apply_overlong_filtering"),
        K.GROUP_FILTER: _switch(
            f"{_ALGORITHM}.dynamic_sampling.type", on="filter", default=None
        ),
        K.GRADER: _key("environment.env_class", "gsm8k"),
        K.REFERENCE: _key("trainer.ref.model.path"),
        K.STOP_TOKENS: _key("generator.sampling_params.stop"),
        K.CORRECTION: _switch(
            f"{_CORRECTION}.tis_ratio_type", on="token", default=None
        ),
        K.CORRECTION_CAP: _key(f"{_CORRECTION}.token_tis_ratio_clip_high", 2.0),
        K.STALENESS: (
            SettingKey(
                name="trainer.fully_async.max_staleness_steps",
                default=4,
                switches=("trainer.fully_async.enabled",),
            ),
        ),
        K.ENTROPY: (
            SettingKey(
                name=f"{_ALGORITHM}.entropy_loss_coef",
                default=0.01,
                switches=(f"{_ALGORITHM}.use_entropy_loss",),
            ),
        ),
        K.TURN_LIMIT: _limit("generator.max_turns", 1),
        K.GRADIENT_CLIP: _key("trainer.policy.optimizer_config.max_grad_norm", 1.0),
        K.CRITIC: _key("trainer.critic.optimizer_config.lr", 5e-6),
    },
)

NEMO_RL = Framework(
    name="NeMo-RL",
    version="0.6.0 (7ea279abf, 2026-08-22)",
    source="examples/configs/grpo_math_1B.yaml, examples/configs/ppo_math_1B.yaml",
    formats=("nemo_rl",),
    marks=("grpo.num_generations_per_prompt", "loss_fn"),
    metrics=("train/token_mult_prob_error",),
    keys={
        K.STEP_SIZE: (
            SettingKey(
                name="policy.megatron_cfg.optimizer.lr",
                default=5e-6,
                switches=("policy.megatron_cfg.enabled",),
            ),
            SettingKey(name="policy.optimizer.kwargs.lr", default=5e-6),
        ),
        K.KL: _key("loss_fn.reference_policy_kl_penalty", 0.01),
        K.CLIP: _key("loss_fn.ratio_clip_max", 0.2),
        K.GROUP_SIZE: _key("grpo.num_generations_per_prompt", 16),
        **_sampling(
            "policy.generation.temperature",
            "policy.generation.top_p",
            "policy.generation.top_k",
            all_tokens=None,
        ),
        K.LENGTH_LIMIT: _limit("policy.generation.max_new_tokens", 512),
        K.LENGTH_PENALTY: _switch("grpo.reward_shaping.enabled"),
        K.TRUNCATED: _switch("grpo.overlong_filtering"),
        K.GROUP_FILTER: _switch("grpo.use_dynamic_sampling"),
        K.STOP_TOKENS: (
            SettingKey(name="policy.generation.stop_token_ids"),
            SettingKey(name="policy.generation.stop_strings"),
        ),
        K.CORRECTION: _switch("loss_fn.use_importance_sampling_correction"),
        K.CORRECTION_CAP: _key("loss_fn.truncated_importance_sampling_ratio"),
        K.STALENESS: (
            SettingKey(
                name="grpo.async_grpo.max_trajectory_age_steps",
                default=1,
                least=1,
                switches=("grpo.async_grpo.enabled",),
            ),
        ),
        K.TURN_LIMIT: _limit("grpo.max_rollout_turns", 1),
        K.GRADIENT_CLIP: _key("policy.max_grad_norm", 1.0),
        K.CRITIC: _key("value.optimizer.kwargs.lr"),
    },
)

AREAL = Framework(
    name="AReaL",
    version="2.0.0 (cbff54d64, 2026-08-22)",
    source="areal/api/cli_args.py",
    formats=("areal",),
    marks=("gconfig", "actor"),
    metrics=("ppo_actor/task_reward/",),
    keys={
        K.STEP_SIZE: _key("actor.optimizer.lr", 1e-3),
        K.KL: _key("actor.kl_ctl", 0.1),
        K.CLIP: _key("actor.eps_clip", 0.2),
        K.EPOCHS: _epochs("actor.ppo_n_minibatches", 4),
        K.GROUP_SIZE: _key("gconfig.n_samples", 1),
        **_sampling("gconfig.temperature", "gconfig.top_p"),
        K.LENGTH_LIMIT: _limit("gconfig.max_new_tokens", 16384),
        K.LENGTH_PENALTY: _switch("actor.overlong_reward_penalty"),
        K.TRUNCATED: _switch("actor.mask_no_eos_with_zero"),
        K.REFERENCE: _key("ref.path"),
        K.STOP_TOKENS: (
            SettingKey(name="gconfig.stop_token_ids"),
            SettingKey(name="gconfig.stop"),
        ),
        K.CORRECTION: _switch("actor.use_decoupled_loss"),
        K.CORRECTION_CAP: (
            SettingKey(
                name="actor.rejection_sampling.upper", default=5.0, if_logged=True
            ),
        ),
        K.STALENESS: _key("rollout.max_head_offpolicyness", 0),
        K.GRADIENT_CLIP: _key("actor.optimizer.gradient_clipping", 1.0),
        K.CRITIC: _key("critic.optimizer.lr", 1e-3),
    },
)

_GENERATING = "actor_infer.generating_args"

ROLL = Framework(
    name="ROLL",
    version="0.3.0 (8eb27cc2, 2026-08-18)",
    source="roll/configs/{base_config,worker_config,generating_args,training_args}.py, "
    "roll/pipeline/rlvr/rlvr_config.py, roll/pipeline/agentic/agentic_config.py",
    formats=("roll", "roll_agentic"),
    marks=("actor_train", "actor_infer"),
    metrics=("val_correct/all/mean", "actor_train/grad_norm"),
    keys={
        K.STEP_SIZE: _key("actor_train.training_args.learning_rate"),
        K.KL: (
            SettingKey(name="kl_loss_coef", default=0, switches=("use_kl_loss",)),
            SettingKey(
                name="init_kl_coef", default=0.2, switches=("add_token_level_kl",)
            ),
        ),
        K.CLIP: _key("pg_clip", 0.2),
        K.EPOCHS: _epochs("ppo_epochs"),
        K.GROUP_SIZE: (
            SettingKey(name="num_return_sequences_in_group"),
            SettingKey(name="train_env_manager.group_size", default=1),
        ),
        **_sampling(f"{_GENERATING}.temperature", f"{_GENERATING}.top_p"),
        K.LENGTH_LIMIT: (
            SettingKey(name="response_length", least=1, no_limit=True),
            SettingKey(name=f"{_GENERATING}.max_new_tokens", least=1, no_limit=True),
        ),
        K.TRUNCATED: _switch("max_len_mask"),
        K.GROUP_FILTER: _switch("difficulty_mask"),
        K.REFERENCE: _key("reference.model_args.model_name_or_path"),
        K.STOP_TOKENS: _key(f"{_GENERATING}.stop_strings"),
        K.CORRECTION: _switch("train_infer_correction.is_weight.enabled"),
        K.CORRECTION_CAP: _key("train_infer_correction.is_weight.upper_bound", 1.2),
        K.STALENESS: _key("async_generation_ratio", 0),
        K.ENTROPY: _key("entropy_loss_coef", 0),
        K.GRADIENT_CLIP: _key("max_grad_norm", 1.0),
        K.CRITIC: _key("critic.training_args.learning_rate"),
        K.CRITIC_WARMUP: _key("critic_warmup"),
    },
)

FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        one.name: one
        for one in (
            TRL,
            VERL,
            OPENRLHF,
            PRIME_RL,
            SLIME,
            SKYRL,
            NEMO_RL,
            AREAL,
            ROLL,
        )
    }
)

# Log formats of frameworks whose settings are not in the table
OTHER_FORMATS = ("agilerl", "art", "open_instruct", "swift", "tinker")

# Kind -> what is missing where a setting of this kind is 0 or off
OFF: Mapping[SettingKind, str] = MappingProxyType(
    {
        K.STEP_SIZE: translatable("nothing is learned"),
        K.KL: translatable("there is no KL penalty"),
        K.ENTROPY: translatable("there is no entropy bonus"),
        K.GRADIENT_CLIP: translatable("gradients are not clipped"),
        K.CRITIC_WARMUP: translatable("there is no warm-up"),
    }
)
