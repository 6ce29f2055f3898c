"""Settings of RL frameworks: which key changes what, read from their source.

``settings.csv`` is the table, ``docs/advice.md`` shows it. ``check.advice`` turns it into advice
with a run's own values.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from rlreport.text.messages import translatable
from rlreport.text.secrets import Scalar


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
    # whether it is told only if the run's configuration has the setting
    if_logged: bool = False

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


def if_logged(*remedies: Remedy) -> Remedies:
    """Return the remedies, told only if the run's configuration has their settings."""
    return tuple(remedy._replace(if_logged=True) for remedy in remedies)


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


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework whose settings are known.

    Attributes:
        name: of the framework.
        version: the version and the commit whose source was read.
        source: the files in which the names are declared.
        formats: ids of the log formats that only this framework writes.
        marks: names (also of groups of settings) that together tell the framework.
        metrics: how names of trainer metrics begin that only this framework logs.
    """

    name: str
    version: str
    source: tuple[str, ...]
    formats: tuple[str, ...]
    marks: tuple[str, ...]
    metrics: tuple[str, ...]

    @property
    def keys(self) -> Mapping[SettingKind, Keys]:
        """The settings of each kind, preferred ones first; a kind without any is missing."""
        return _settings().get(self.name, {})


@cache
def _settings() -> Mapping[str, Mapping[SettingKind, Keys]]:
    """Return framework -> kind -> settings, from ``settings.csv``."""
    text = (files("rlreport.check") / "settings.csv").read_text("utf-8")
    settings: dict[str, dict[SettingKind, Keys]] = {}
    for row in csv.DictReader(text.splitlines()):
        of_framework = settings.setdefault(row["framework"], {})
        kind = SettingKind[row["kind"].upper()]
        of_framework[kind] = (*of_framework.get(kind, ()), _setting_key(row))
    return settings


def _setting_key(row: Mapping[str, str]) -> SettingKey:
    """Return a row of ``settings.csv``; ``default`` and ``off`` are JSON, "" is null."""
    return SettingKey(
        name=row["name"],
        default=json.loads(row["default"] or "null"),
        least=float(row["least"] or 0),
        off=json.loads(row["off"] or "null"),
        on=None if row["on"] == "?" else row["on"],
        no_limit=row["no_limit"] == "yes",
        switches=tuple(row["switches"].split()),
        if_logged=row["if_logged"] == "yes",
    )


TRL = Framework(
    "TRL",
    "1.10.0.dev0 (f2cd57710, 2026-07-24)",
    (
        "trl/trainer/grpo_config.py",
        "trl/experimental/async_grpo/async_grpo_config.py",
        "src/transformers/training_args.py",  # of transformers, 00349ae87
    ),
    formats=("trl",),
    marks=("num_generations", "beta"),
    metrics=("completions/clipped_ratio", "clip_ratio/region_mean"),
)
VERL = Framework(
    "verl",
    "0.10.0.dev (1dda039b9, 2026-08-22)",
    (
        "verl/trainer/config/_generated_ppo_trainer.yaml",
        "verl/experimental/fully_async_policy/config/fully_async_ppo_trainer.yaml",
        "verl/experimental/reward_loop/reward_manager/dapo.py",
    ),
    formats=("verl",),
    marks=("actor_rollout_ref",),
    metrics=("val-core/",),
)
OPENRLHF = Framework(
    "OpenRLHF",
    "0.11.0 (3c3be623, 2026-08-13)",
    ("openrlhf/cli/train_ppo_ray.py",),
    formats=(),
    marks=("rollout.n_samples_per_prompt", "algo.kl.init_coef"),
    metrics=("train/ppo_clip_ratio",),
)
PRIME_RL = Framework(
    "prime-rl",
    "0.8.1.dev (559b44772, 2026-08-21)",
    (
        "packages/prime-rl-configs/src/prime_rl/configs/trainer.py",
        "packages/prime-rl-configs/src/prime_rl/configs/orchestrator.py",
        "packages/prime-rl-configs/src/prime_rl/configs/algorithm.py",
    ),
    formats=("prime_rl_tokens",),
    marks=("orchestrator", "trainer"),
    metrics=("train/agg/",),
)
SLIME = Framework(
    "slime",
    "0.3.1 (624b824a8, 2026-08-21)",
    ("slime/utils/arguments.py", "slime/backends/megatron_utils/model.py"),
    formats=("slime",),
    marks=("n_samples_per_prompt", "rollout_max_response_len"),
    metrics=(),  # Miles, a fork of it, logs the same
)
SKYRL = Framework(
    "SkyRL",
    "0.3.0 (a9564572e, 2026-08-21)",
    ("skyrl/train/config/config.py",),
    formats=("skyrl",),
    marks=("generator.n_samples_per_prompt", "trainer.algorithm"),
    metrics=("reward/avg_raw_reward",),
)
NEMO_RL = Framework(
    "NeMo-RL",
    "0.6.0 (7ea279abf, 2026-08-22)",
    ("examples/configs/grpo_math_1B.yaml", "examples/configs/ppo_math_1B.yaml"),
    formats=("nemo_rl",),
    marks=("grpo.num_generations_per_prompt", "loss_fn"),
    metrics=("train/token_mult_prob_error",),
)
AREAL = Framework(
    "AReaL",
    "2.0.0 (cbff54d64, 2026-08-22)",
    ("areal/api/cli_args.py",),
    formats=("areal",),
    marks=("gconfig", "actor"),
    metrics=("ppo_actor/task_reward/",),
)
ROLL = Framework(
    "ROLL",
    "0.3.0 (8eb27cc2, 2026-08-18)",
    (
        "roll/configs/base_config.py",
        "roll/configs/worker_config.py",
        "roll/configs/generating_args.py",
        "roll/configs/training_args.py",
        "roll/pipeline/rlvr/rlvr_config.py",
        "roll/pipeline/agentic/agentic_config.py",
    ),
    formats=("roll", "roll_agentic"),
    marks=("actor_train", "actor_infer"),
    metrics=("val_correct/all/mean", "actor_train/grad_norm"),
)
_IN_ORDER = (TRL, VERL, OPENRLHF, PRIME_RL, SLIME, SKYRL, NEMO_RL, AREAL, ROLL)
FRAMEWORKS: Mapping[str, Framework] = {one.name: one for one in _IN_ORDER}

# Of any other framework, settings are named only if the run's configuration has them, by names
# that mean the same wherever they are used.
OTHER = Framework("other", "", (), (), (), ())

# Log formats of frameworks whose settings are not in the table
OTHER_FORMATS = ("agilerl", "art", "open_instruct", "swift", "tinker")

# Kind -> what is missing where a setting of this kind is 0 or off
OFF: Mapping[SettingKind, str] = MappingProxyType(
    {
        SettingKind.STEP_SIZE: translatable("nothing is learned"),
        SettingKind.KL: translatable("there is no KL penalty"),
        SettingKind.ENTROPY: translatable("there is no entropy bonus"),
        SettingKind.GRADIENT_CLIP: translatable("gradients are not clipped"),
        SettingKind.CRITIC_WARMUP: translatable("there is no warm-up"),
    }
)
