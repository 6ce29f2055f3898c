"""Healthy runs of many kinds, by what is logged; nothing in them deserves a warning."""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy.family import Healthy, Random
from benchmarks.accuracy.policy import columns_of, usual_policy
from benchmarks.accuracy.reward import levels, responses_of, trainer_log
from benchmarks.accuracy.shapes import random_sizes, wander
from rlreport.tables import Tables
from tests.tables_builder import make_tables


def _rewards_alone(random: Random) -> Tables:
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    return make_tables(responses_of(random, sizes, chance))


def _short_run(random: Random) -> Tables:
    sizes = random_sizes(random, 5, 20)
    chance, _ = levels(random, sizes)
    return make_tables(responses_of(random, sizes, chance))


def _long_run(random: Random) -> Tables:
    sizes = random_sizes(random, 200, 500)
    chance, _ = levels(random, sizes)
    return make_tables(responses_of(random, sizes, chance))


def _no_trend(random: Random) -> Tables:
    sizes = random_sizes(random)
    level = random.uniform(0.15, 0.85)
    chance = level + wander(random, sizes.steps, random.uniform(0, 0.03))
    return make_tables(responses_of(random, sizes, chance))


def _with_tokens(random: Random) -> Tables:
    """Lengths that grow or shrink by up to a third, entropy that settles, a KL that grows."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    policy = usual_policy(random, sizes)
    columns = columns_of(random, sizes, **policy)
    return make_tables(responses_of(random, sizes, chance, **columns))


def _trainer_metrics(random: Random) -> Tables:
    """Reward, length, entropy, KL, gradient norm and clip share, with noise and spikes."""
    sizes = random_sizes(random, 20, 300)
    chance, _ = levels(random, sizes)
    steps = sizes.steps
    noise = random.normal(0, random.uniform(0.01, 0.05), steps)
    usual = random.uniform(80, 800) * (1 + random.uniform(-0.3, 0.3) * sizes.time)
    norm = random.lognormal(random.uniform(-2, 0.5), 0.3, steps)
    spikes = random.random(steps) < 0.02
    norm[spikes] *= random.uniform(2, 5)
    entropy = random.uniform(0.4, 1.2) * (1 - random.uniform(0, 0.4) * sizes.time)
    return trainer_log(
        random,
        sizes,
        reward=np.clip(chance + noise, 0, 1),
        length=usual * random.lognormal(0, 0.05, steps),
        entropy=entropy * random.lognormal(0, 0.04, steps),
        kl=random.uniform(0.005, 0.03) * sizes.time * random.lognormal(0, 0.2, steps),
        grad_norm=norm,
    )


def _rare_success(random: Random) -> Tables:
    """Rewards of few responses in a hundred, more of them later."""
    sizes = random_sizes(random, 60, 200)
    chance = random.uniform(0.01, 0.04) + random.uniform(0.05, 0.2) * sizes.time
    return make_tables(responses_of(random, sizes, chance))


HEALTHY = (
    Healthy(name="rewards alone", draw=_rewards_alone),
    Healthy(name="5 to 20 steps", draw=_short_run),
    Healthy(name="200 to 500 steps", draw=_long_run),
    Healthy(name="no trend", draw=_no_trend),
    Healthy(name="lengths, entropy and KL of tokens", draw=_with_tokens),
    Healthy(name="trainer metrics alone", draw=_trainer_metrics),
    Healthy(name="rare success", draw=_rare_success),
)
