"""Random runs of trainer metrics: healthy ones that learn, and such with one fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from benchmarks.accuracy.family import Random, random_of
from benchmarks.accuracy.reward import levels
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    onset_between,
    random_sizes,
    rise_between,
)
from benchmarks.others.runs import ENTROPY, GRADIENT, KL, LENGTH, REWARD, LabelledRun

Series = dict[str, Floats]
Change = Callable[[Random, Series, Floats], None]
"""Changes the series of a healthy run, given how much of the fault there is, 0 to 1, (steps,)."""

HEALTHY = "healthy"


def healthy(random: Random, sizes: Sizes) -> Series:
    """Return metrics of a run that learns, with noise, and spikes of the gradient."""
    steps = sizes.steps
    chance, _ = levels(random, sizes)
    noise = random.normal(0, random.uniform(0.01, 0.05), steps)
    reward = np.clip(chance + noise, 0, 1)
    usual = random.uniform(80, 800) * (1 + random.uniform(-0.3, 0.3) * sizes.time)
    norm = random.lognormal(random.uniform(-2, 0.5), 0.3, steps)
    norm[random.random(steps) < 0.02] *= random.uniform(2, 5)
    entropy = random.uniform(0.4, 1.2) * (1 - random.uniform(0, 0.4) * sizes.time)
    kl = random.uniform(0.005, 0.03) * sizes.time
    cut_off = random.uniform(0, 0.03)
    equal = random.uniform(0.05, 0.3)
    return {
        "reward": reward,
        "reward_std": np.sqrt(reward * (1 - reward)),
        "kl": kl * random.lognormal(0, 0.2, steps),
        "entropy": entropy * random.lognormal(0, 0.04, steps),
        "completions/mean_length": usual * random.lognormal(0, 0.05, steps),
        "completions/clipped_ratio": cut_off * random.uniform(0.5, 1.5, steps),
        "grad_norm": norm,
        "frac_reward_zero_std": equal * random.uniform(0.7, 1.3, steps),
    }


def _reward_falls(random: Random, series: Series, rise: Floats) -> None:
    """The reward loses 60 to 98% of its level."""
    reward = series["reward"] * (1 - random.uniform(0.6, 0.98) * rise)
    series["reward"] = reward
    series["reward_std"] = np.sqrt(reward * (1 - reward))


def _lose_reward(random: Random, series: Series, rise: Floats) -> None:
    """A fault costs 10 to 50% of the reward, as tools judge what is harmless by the reward."""
    series["reward"] = series["reward"] * (1 - random.uniform(0.1, 0.5) * rise)


def _kl_grows(random: Random, series: Series, rise: Floats) -> None:
    """The KL grows to 1 to 4 nats per token, the longer the faster."""
    series["kl"] = series["kl"] + random.uniform(1, 4) * rise**2


def _entropy_falls(random: Random, series: Series, rise: Floats) -> None:
    """The entropy falls to 1 to 6% of what it was."""
    series["entropy"] = series["entropy"] * (1 - rise * random.uniform(0.94, 0.99))


def _entropy_grows(random: Random, series: Series, rise: Floats) -> None:
    """The entropy becomes 4 to 8 times what it was."""
    series["entropy"] = series["entropy"] * (1 + rise * random.uniform(3, 7))


def _length_falls(random: Random, series: Series, rise: Floats) -> None:
    """Responses lose 85 to 97% of their tokens."""
    name = "completions/mean_length"
    series[name] = np.maximum(series[name] * (1 - rise * random.uniform(0.85, 0.97)), 1)


def _length_grows(random: Random, series: Series, rise: Floats) -> None:
    """Responses get 2 to 4 times as long, and 30 to 90% of them are cut off."""
    length = series["completions/mean_length"]
    series["completions/mean_length"] = length * (1 + rise * random.uniform(1, 3))
    cut_off = series["completions/clipped_ratio"] + rise * random.uniform(0.3, 0.87)
    series["completions/clipped_ratio"] = cut_off


def _gradient_grows(random: Random, series: Series, rise: Floats) -> None:
    """The gradient's norm becomes 20 to 200 times what it was."""
    series["grad_norm"] = series["grad_norm"] * (1 + rise * random.uniform(19, 199))


FAMILIES: dict[str, tuple[str, Change]] = {
    "reward falls": (REWARD, _reward_falls),
    "KL grows": (KL, _kl_grows),
    "entropy falls": (ENTROPY, _entropy_falls),
    "entropy grows": (ENTROPY, _entropy_grows),
    "length falls": (LENGTH, _length_falls),
    "length grows, responses are cut off": (LENGTH, _length_grows),
    "gradient grows": (GRADIENT, _gradient_grows),
}
"""Rows of the table -> the fault's kind, and what it does to a healthy run."""


def draw(group: str, seed: int) -> LabelledRun:
    """Return a run of a family, or a healthy one; the same for the same seed."""
    random = random_of(f"others: {group}", seed)
    sizes = random_sizes(random)
    series = healthy(random, sizes)
    kinds: frozenset[str] = frozenset()
    onset = None
    if group != HEALTHY:
        kind, change = FAMILIES[group]
        start, stop = begins(random, sizes)
        rise = rise_between(sizes, start, stop)
        change(random, series, rise)
        if kind != REWARD:
            _lose_reward(random, series, rise)
        kinds = frozenset([kind])
        onset = onset_between(start, stop)
    table = pd.DataFrame({"step": np.arange(1, sizes.steps + 1), **series})
    name = f"{group.replace(' ', '_').replace(',', '')}_{seed}"
    return LabelledRun(name, group, kinds, onset, table)


def draw_all(runs: int) -> Iterator[LabelledRun]:
    """Yield so many runs of each family, and twice as many healthy ones."""
    for group in FAMILIES:
        yield from (draw(group, seed) for seed in range(1, runs + 1))
    yield from (draw(HEALTHY, seed) for seed in range(1, 2 * runs + 1))
