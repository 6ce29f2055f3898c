"""Runs whose reward falls, is replaced, stalls or loses its differences within groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.family import ANY, Drawn, Family, Random
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    learning_curve,
    lengths,
    onset_between,
    random_sizes,
    rise_between,
    wander,
)
from rlreport.tables import MetricsFile, Tables
from tests.law_families_metrics import metrics_log
from tests.tables_builder import make_tables

METRIC: dict[str, dict[str, str]] = {
    "trl": {
        "reward": "reward",
        "length": "completions/mean_length",
        "kl": "kl",
        "entropy": "entropy",
        "clip_fraction": "clip_ratio/region_mean",
        "ratio": "val/ratio",
    },
    "verl": {
        "reward": "critic/score/mean",
        "length": "response_length/mean",
        "kl": "actor/kl_loss",
        "entropy": "actor/entropy",
        "grad_norm": "actor/grad_norm",
        "clip_fraction": "actor/pg_clipfrac",
    },
    "slime": {
        "reward": "rollout/raw_reward",
        "length": "rollout/response_len/mean",
        "kl": "train/kl_loss",
        "entropy": "train/entropy_loss",
        "grad_norm": "train/grad_norm",
        "clip_fraction": "train/pg_clipfrac",
    },
    "openrlhf": {
        "reward": "train/reward",
        "length": "train/response_length",
        "kl": "train/kl",
        "entropy": "train/entropy_loss",
        "grad_norm": "train/actor_grad_norm",
        "clip_fraction": "train/ppo_clip_ratio",
    },
    "nemo-rl": {
        "reward": "train/reward",
        "length": "train/mean_gen_tokens_per_sample",
        "kl": "train/kl_penalty",
        "entropy": "train/approx_entropy",
        "grad_norm": "train/grad_norm",
        "ratio": "train/probs_ratio",
    },
}
"""What a metric is -> the name under which a framework logs it; others have that of the key."""


def levels(random: Random, sizes: Sizes) -> tuple[Floats, float]:
    """Return the chance of a right answer of a run that learns, (steps,), and its gain."""
    start = random.uniform(0.05, 0.4)
    gain = random.uniform(0.2, 0.5)
    curve = start + gain * learning_curve(random, sizes)
    return curve + wander(random, sizes.steps, random.uniform(0.0, 0.02)), gain


def responses_of(
    random: Random, sizes: Sizes, chance: Floats, **columns: Any
) -> dict[str, Any]:
    """Return columns of responses whose rewards have this mean at each step.

    Prompts differ in difficulty. Rewards are 0 and 1, or dense with another scale.
    """
    each = sizes.responses
    logit = np.log(np.clip(chance, 0.005, 0.995) / np.clip(1 - chance, 0.005, 0.995))
    hard = random.normal(0, random.uniform(0.3, 1.0), (sizes.steps, sizes.prompts))
    by_prompt = 1 / (1 + np.exp(hard - logit[:, None]))
    probability = np.repeat(by_prompt.ravel(), sizes.group)
    reward = (random.random(probability.size) < probability).astype(np.float64)
    if random.random() < 0.4:
        noise = random.normal(0, random.uniform(0.1, 0.4), reward.size)
        scale = random.choice([1.0, 2.0, 10.0])
        reward = scale * (probability + noise) + random.choice([0.0, -1.0, 3.0]) * scale
    step = np.repeat(np.arange(1, sizes.steps + 1), each)
    prompt = np.repeat(np.arange(sizes.steps * sizes.prompts), sizes.group)
    return {"step": step, "prompt_id": prompt, "reward": reward, **columns}


def trainer_log(random: Random, sizes: Sizes, **series: Floats) -> Tables:
    """Return a run of trainer metrics alone, under the names of a random framework."""
    names = METRIC[str(random.choice(list(METRIC)))]
    named = {names.get(name, name): values for name, values in series.items()}
    return metrics_log(sizes.steps, **named)


def mean_reward(random: Random, sizes: Sizes, chance: Floats) -> Floats:
    """Return the mean reward of each step's responses, which the trainer logs, (steps,)."""
    level = np.clip(chance, 0.005, 0.995)
    error = np.sqrt(level * (1 - level) / sizes.responses)
    return np.clip(random.normal(level, error), 0, 1)


def any_log(random: Random, sizes: Sizes, chance: Floats) -> Tables:
    """Return a run with these chances of a right answer: rollouts, or trainer metrics alone."""
    if random.random() < 0.3:
        return trainer_log(random, sizes, reward=mean_reward(random, sizes, chance))
    columns = responses_of(random, sizes, chance)
    if random.random() < 0.5:
        usual = np.full(sizes.steps, random.uniform(60, 500))
        columns["response_tokens"] = lengths(random, usual, sizes.responses)
    return make_tables(columns)


def _collapse(random: Random, strength: float) -> Drawn:
    """A reward that loses a share of its gain, gradually or at once, and stays there."""
    sizes = random_sizes(random)
    chance, gain = levels(random, sizes)
    start, stop = begins(random, sizes, 0.4, 0.7)
    lost = strength * (chance[start] - chance[0] + 0.5 * gain)
    fallen = chance[start] - lost * rise_between(sizes, start, stop)
    if strength:
        chance = np.where(np.arange(sizes.steps) >= start, fallen, chance)
    return Drawn(any_log(random, sizes, chance), onset_between(start, stop))


def _death(random: Random, strength: float) -> Drawn:
    """A reward that falls to nearly nothing; ``strength`` is what is gone of it."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    chance = chance * (1 - strength * rise_between(sizes, start, stop))
    return Drawn(any_log(random, sizes, chance), onset_between(start, stop))


def _validation(random: Random, strength: float) -> Drawn:
    """A validation that loses points while the reward of training rises."""
    sizes = random_sizes(random, 60, 200)
    chance, _ = levels(random, sizes)
    every = max(2, sizes.steps // 15)
    start = int(random.uniform(0.3, 0.5) * sizes.steps)
    stop = start + int(random.uniform(0.1, 0.3) * sizes.steps)
    best = 0.3 + 0.3 * np.minimum(sizes.time / 0.3, 1)
    values = best - strength * rise_between(sizes, start, stop)
    values += random.normal(0, 0.015, sizes.steps)
    values[np.arange(sizes.steps) % every > 0] = np.nan
    metrics = pd.DataFrame(
        {"step": np.arange(1, sizes.steps + 1), "val/accuracy": np.clip(values, 0, 1)}
    )
    files = [MetricsFile("metrics.jsonl", sizes.steps, ["val/accuracy"])]
    tables = make_tables(
        responses_of(random, sizes, chance), metrics=metrics, metrics_files=files
    )
    low, high = onset_between(start, stop)
    return Drawn(tables, (low - every, high + every))


def _new_reward_function(random: Random, strength: float) -> Drawn:
    """A reward function that is replaced: ``strength`` times the spread is added at a step."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start = int(random.uniform(0.3, 0.7) * sizes.steps)
    columns = responses_of(random, sizes, chance)
    reward = columns["reward"]
    is_later = columns["step"] > start
    columns["reward"] = reward + strength * reward.std() * is_later
    return Drawn(make_tables(columns), (start, start + 2))


def _stalled(random: Random, strength: float) -> Drawn:
    """A reward that gains nothing; healthy: 0.3 to 0.5. ``strength`` is what is missing of it."""
    sizes = random_sizes(random, 40, 200)
    start = random.uniform(0.1, 0.3)
    gain = random.uniform(0.3, 0.5) * (1 - strength)
    chance = start + gain * learning_curve(random, sizes)
    return Drawn(make_tables(responses_of(random, sizes, chance)))


def _equal_groups(random: Random, strength: float) -> Drawn:
    """Groups whose responses all get the same reward, which is not the best one."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    share = strength * rise_between(sizes, start, stop)
    columns = responses_of(random, sizes, np.clip(chance, 0.3, 0.6))
    groups = sizes.steps * sizes.prompts
    is_equal = random.random(groups) < np.repeat(share, sizes.prompts)
    rewards = columns["reward"].reshape(groups, sizes.group)
    columns["reward"] = np.where(
        is_equal[:, None], rewards.min(1, keepdims=True), rewards
    ).ravel()
    return Drawn(make_tables(columns), onset_between(start, stop))


def _narrow_groups(random: Random, strength: float) -> Drawn:
    """A dense reward whose spread within groups shrinks by a share."""
    sizes = random_sizes(random)
    start, stop = begins(random, sizes)
    spread = 1 - strength * rise_between(sizes, start, stop)
    groups = random.normal(0, 1, sizes.steps * sizes.prompts)
    noise = random.normal(0, 0.5, sizes.steps * sizes.responses)
    reward = np.repeat(groups, sizes.group) + noise * np.repeat(spread, sizes.responses)
    columns = responses_of(random, sizes, np.full(sizes.steps, 0.5))
    columns["reward"] = reward + np.repeat(
        0.8 * learning_curve(random, sizes), sizes.responses
    )
    return Drawn(make_tables(columns), onset_between(start, stop))


def _environment(random: Random, strength: float) -> Drawn:
    """One of several environments loses points while the others learn."""
    sizes = replace(random_sizes(random), prompts=8, group=8)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    names = np.array(["math", "code", "web", "games"])[: random.integers(2, 5)]
    of_prompt = random.integers(len(names), size=sizes.steps * sizes.prompts)
    columns = responses_of(random, sizes, np.clip(chance, 0.3, 0.9))
    is_hit = np.repeat(of_prompt == 0, sizes.group)
    fall = np.repeat(strength * rise_between(sizes, start, stop), sizes.responses)
    right = random.random(is_hit.size) < np.repeat(chance, sizes.responses)
    is_lost = is_hit & (random.random(is_hit.size) < fall)
    columns["reward"] = np.where(is_lost, 0.0, right.astype(np.float64))
    extras = pd.DataFrame({"data_source": names[np.repeat(of_prompt, sizes.group)]})
    return Drawn(make_tables(columns, extras=extras), onset_between(start, stop))


FAMILIES = (
    Family(
        check="reward_collapse",
        name="loses its gain",
        unit="of the gain",
        strengths=(0.25, 0.5, 0.75, 1.0),
        draw=_collapse,
        severities=ANY,
    ),
    Family(
        check="reward_collapse",
        name="falls to nearly nothing",
        unit="of the reward",
        strengths=(0.5, 0.75, 0.98),
        draw=_death,
    ),
    Family(
        check="watched_reward_fall",
        name="validation falls while the reward rises",
        unit="points",
        strengths=(0.05, 0.1, 0.2, 0.3),
        draw=_validation,
    ),
    Family(
        check="reward_shift",
        name="another reward function from a step on",
        unit="standard deviations",
        strengths=(0.5, 1.0, 2.0, 4.0),
        draw=_new_reward_function,
    ),
    Family(
        check="reward_stalled",
        name="the run gains nothing",
        unit="of the gain",
        strengths=(0.8, 0.9, 1.0),
        draw=_stalled,
        severities=ANY,
    ),
    Family(
        check="zero_variance_groups",
        name="groups of equal rewards",
        unit="of groups",
        strengths=(0.3, 0.6, 0.9),
        draw=_equal_groups,
        severities=ANY,
    ),
    Family(
        check="group_std_fall",
        name="rewards of a group become alike",
        unit="of the spread",
        strengths=(0.6, 0.9, 0.98),
        draw=_narrow_groups,
        severities=ANY,
    ),
    Family(
        check="environment_fall",
        name="one environment falls while the others learn",
        unit="of its reward",
        strengths=(0.3, 0.5, 0.9),
        draw=_environment,
    ),
)
