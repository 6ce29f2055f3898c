"""Runs whose policy drifts, whose updates are too large, or whose rollouts are of an old policy."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np

from benchmarks.accuracy.family import ANY, Drawn, Family, Random
from benchmarks.accuracy.reward import levels, mean_reward, responses_of, trainer_log
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    lengths,
    onset_between,
    random_sizes,
    rise_between,
)
from benchmarks.lab import hidden_metrics
from rlreport.tables import Tables
from tests.law_families_metrics import metrics_log
from tests.tables_builder import make_tables

STEP_NOISE = {"length": 0.05, "entropy": 0.04, "kl": 0.2}
"""How much the mean of a step differs from the policy's, as a standard deviation of its log."""


def usual_policy(random: Random, sizes: Sizes) -> dict[str, Floats]:
    """Return length, entropy and KL per token of a run that goes well, each (steps,).

    Lengths grow or shrink by up to a third, the entropy settles, the KL to the reference grows.
    """
    time = sizes.time
    length = random.uniform(80, 800) * (1 + random.uniform(-0.33, 0.33) * time)
    entropy = random.uniform(0.4, 1.2) * (1 - random.uniform(0, 0.4) * time)
    kl = random.uniform(0.002, 0.02) * time
    by_step = {"length": length, "entropy": entropy, "kl": kl}
    return {
        name: values * random.lognormal(0, STEP_NOISE[name] / 2, sizes.steps)
        for name, values in by_step.items()
    }


def columns_of(
    random: Random, sizes: Sizes, *, length: Floats, entropy: Floats, kl: Floats
) -> dict[str, Floats]:
    """Return the columns of responses of a policy with these figures by step, each (steps,)."""
    tokens = lengths(random, length, sizes.responses)
    kl_of = np.repeat(kl, sizes.responses) * tokens
    # The log-ratio of a token has a variance of twice the KL, of small ones.
    scatter = random.normal(0, 1, tokens.size) * np.sqrt(2 * kl_of)
    surprisal = np.repeat(entropy, sizes.responses)
    return {
        "response_tokens": tokens,
        "kl_k1": kl_of + scatter,
        "kl_k3": np.abs(kl_of + scatter),
        "surprisal_mean": surprisal * random.lognormal(0, 0.2, tokens.size),
    }


def policy_log(
    random: Random, sizes: Sizes, chance: Floats, shown: str, policy: dict[str, Floats]
) -> Tables:
    """Return a run of a policy with these figures by step: rollouts, or trainer metrics alone.

    ``shown`` is the figure that is logged in any case; trainers may log no other one.
    """
    if random.random() < 0.5:
        columns = columns_of(random, sizes, **policy)
        return make_tables(responses_of(random, sizes, chance, **columns))
    logged = {
        name: values * random.lognormal(0, STEP_NOISE[name], sizes.steps)
        for name, values in policy.items()
        if name == shown or random.random() < 0.7
    }
    return trainer_log(
        random, sizes, reward=mean_reward(random, sizes, chance), **logged
    )


def beside_metrics(
    random: Random, sizes: Sizes, chance: Floats, **series: Floats
) -> Tables:
    """Return a run with these trainer metrics: the reward is another one, or that of rollouts."""
    if random.random() < 0.5:
        reward = mean_reward(random, sizes, chance)
        return trainer_log(random, sizes, reward=reward, **series)
    metrics = trainer_log(random, sizes, **series).metrics
    rollouts = make_tables(responses_of(random, sizes, chance))
    return replace(rollouts, metrics=metrics)


def slowly_begins(random: Random, sizes: Sizes) -> tuple[int, int]:
    """Return the indices of the steps at which a slow change begins and is complete."""
    start = int(random.uniform(0.2, 0.5) * sizes.steps)
    return start, start + max(int(random.uniform(0.1, 0.4) * sizes.steps), 2)


def stopped(chance: Floats, at: int) -> Floats:
    """Return a course that stays at its level of one step from there on, (steps,)."""
    return chance[np.minimum(np.arange(len(chance)), at)]


def _kl(random: Random, strength: float) -> Drawn:
    """A KL to the reference that grows: the reward keeps its course, or is lost with it."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    grown = strength * rise_between(sizes, start, stop)
    policy = usual_policy(random, sizes)
    policy["kl"] = policy["kl"] + grown * random.lognormal(0, 0.1, sizes.steps)
    is_lost = random.random() < 0.5
    chance = chance * (1 - is_lost * np.minimum(grown, 0.8))
    log = policy_log(random, sizes, chance, "kl", policy)
    return Drawn(log, onset_between(start, stop))


def _entropy_falls(random: Random, strength: float) -> Drawn:
    """An entropy that is lost: nothing is learned from then on, as all responses are alike."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    policy = usual_policy(random, sizes)
    policy["entropy"] = policy["entropy"] * (
        1 - strength * rise_between(sizes, start, stop)
    )
    if strength:
        chance = stopped(chance, stop)
    log = policy_log(random, sizes, chance, "entropy", policy)
    return Drawn(log, onset_between(start, stop))


def _entropy_rises(random: Random, strength: float) -> Drawn:
    """An entropy bonus that is too large: texts mean less and less, at 4 nats more nothing."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    risen = strength * rise_between(sizes, start, stop)
    policy = usual_policy(random, sizes)
    policy["entropy"] = policy["entropy"] + risen
    chance = chance * (1 - np.minimum(risen / 4, 1))
    log = policy_log(random, sizes, chance, "entropy", policy)
    return Drawn(log, onset_between(start, stop))


def _usual_norm(random: Random, sizes: Sizes) -> Floats:
    """Return gradient norms of a run that goes well, with a spike at few steps, (steps,)."""
    norm = random.lognormal(random.uniform(-2, 0.5), 0.3, sizes.steps)
    spikes = random.random(sizes.steps) < 0.02
    norm[spikes] *= random.uniform(2, 5)
    return norm


def _one_update(random: Random, strength: float) -> Drawn:
    """One update with a huge gradient; the reward falls in the steps after it."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start = int(random.uniform(0.3, 0.7) * sizes.steps)
    norm = _usual_norm(random, sizes)
    if strength:
        norm[start] = np.median(norm) * strength
        stop = start + int(random.integers(1, 5))
        lost = random.uniform(0.6, 1.0)
        chance = chance * (1 - lost * rise_between(sizes, start, stop))
    log = beside_metrics(random, sizes, chance, grad_norm=norm)
    return Drawn(log, (start, start + 2))


def _large_norms(random: Random, strength: float) -> Drawn:
    """Gradients that grow for good; half of the runs lose their reward by it."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    risen = rise_between(sizes, start, stop)
    norm = _usual_norm(random, sizes) * (strength or 1.0) ** risen
    if strength and random.random() < 0.5:
        chance = chance * (1 - 0.6 * risen)
    log = beside_metrics(random, sizes, chance, grad_norm=norm)
    return Drawn(log, onset_between(start, stop))


def _ratio_columns(
    random: Random, sizes: Sizes, ratio: Floats, clip_fraction: Floats
) -> dict[str, Floats]:
    """Return the columns of importance ratios with this mean and share beyond 1 ± 0.2 by step."""
    tokens = lengths(
        random, np.full(sizes.steps, random.uniform(60, 500)), sizes.responses
    )
    share = np.repeat(clip_fraction, sizes.responses)
    noise = random.normal(0, 0.3, tokens.size) * np.sqrt(share / tokens)
    return {
        "response_tokens": tokens,
        "ratio_tokens": tokens,
        "ratio_mean": np.repeat(ratio, sizes.responses) * (1 + noise),
        "ratio_outside": random.binomial(tokens.astype(int), share) / tokens,
    }


def _ratio_log(
    random: Random, sizes: Sizes, chance: Floats, told: str, ratios: dict[str, Floats]
) -> Tables:
    """Return a run with these importance ratios by step; trainers tell only one of the figures."""
    if random.random() < 0.5:
        columns = _ratio_columns(random, sizes, **ratios)
        return make_tables(responses_of(random, sizes, chance, **columns))
    noise = {"ratio": 0.01, "clip_fraction": 0.15}
    noisy = ratios[told] * random.lognormal(0, noise[told], sizes.steps)
    if told == "clip_fraction":
        noisy = np.minimum(noisy, 1)
    return beside_metrics(random, sizes, chance, **{told: noisy})


def _large_updates(random: Random, strength: float) -> Drawn:
    """Updates so large that many tokens leave the clip range."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    usual = random.uniform(0.002, 0.05)
    more = max(strength - usual, 0.0) * rise_between(sizes, start, stop)
    if strength:
        chance = stopped(chance, stop)
    ratios = {"ratio": np.ones(sizes.steps), "clip_fraction": usual + more}
    log = _ratio_log(random, sizes, chance, "clip_fraction", ratios)
    return Drawn(log, onset_between(start, stop))


def _other_probabilities(random: Random, strength: float) -> Drawn:
    """Old log-probabilities that are not the sampler's: ratios are all too high, or too low."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    sign = random.choice([-1.0, 1.0])
    shift = sign * np.log(strength or 1.0) * rise_between(sizes, start, stop)
    outside = np.array([_outside(value) for value in shift.tolist()])
    ratios = {"ratio": np.exp(shift), "clip_fraction": outside}
    log = _ratio_log(random, sizes, chance, "ratio", ratios)
    return Drawn(log, onset_between(start, stop))


def _outside(shift: float) -> float:
    """Return the share of tokens whose ratio is beyond 1 ± 0.2, for log-ratios around a mean."""
    of_log = NormalDist(shift, 0.08)
    return 1 - of_log.cdf(float(np.log(1.2))) + of_log.cdf(float(np.log(0.8)))


WEIGHTS = (
    ("critic/score/mean", "rollout_corr/rollout_is_eff_sample_size"),
    ("rollout/raw_reward", "train/ess_ratio"),
)
"""Names of reward and effective sample size, of verl and Miles."""


def _weights(random: Random, strength: float) -> Drawn:
    """Importance weights of whole responses that scatter, as the sampler's policy is another."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    usual = random.uniform(0.02, 0.15)
    spread = usual + strength * rise_between(sizes, start, stop)
    # Of a mean weight of 1
    of_rows = np.repeat(spread, sizes.responses)
    log_weight = random.normal(-(of_rows**2) / 2, of_rows)
    if random.random() < 0.5:
        tables = make_tables(responses_of(random, sizes, chance, log_weight=log_weight))
        return Drawn(tables, onset_between(start, stop))
    weight = np.exp(log_weight).reshape(sizes.steps, -1)
    size = weight.mean(1) ** 2 / (weight**2).mean(1)
    reward, effective = WEIGHTS[random.integers(len(WEIGHTS))]
    series = {reward: mean_reward(random, sizes, chance), effective: size}
    return Drawn(metrics_log(sizes.steps, **series), onset_between(start, stop))


def keys_of(kind: str) -> list[tuple[str, str]]:
    """Return the names of reward and of a kind of metric, of each framework that logs both."""
    found = []
    for keys in hidden_metrics.FRAMEWORKS.values():
        by_kind = {str(of): key for key, of in keys.items()}
        if kind in by_kind:
            found.append((by_kind["reward"], by_kind[kind]))
    return found


def _age(random: Random, strength: float) -> Drawn:
    """Rollouts wait in a queue that grows: they are so many steps old when they are trained on."""
    sizes = random_sizes(random, 60, 200)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    usual = random.uniform(0, 1.5)
    age = usual + max(strength - usual, 0.0) * rise_between(sizes, start, stop)
    # None is older than the run.
    age = np.minimum(age, np.arange(sizes.steps))
    onset = onset_between(start, stop)
    if random.random() < 0.5:
        drawn = random.poisson(np.repeat(age, sizes.responses)).astype(np.float64)
        lag = np.minimum(drawn, np.repeat(np.arange(sizes.steps), sizes.responses))
        return Drawn(make_tables(responses_of(random, sizes, chance, lag=lag)), onset)
    names = keys_of("age")
    reward, lag_key = names[random.integers(len(names))]
    noisy = age * random.lognormal(0, 0.1, sizes.steps)
    series = {reward: mean_reward(random, sizes, chance), lag_key: noisy}
    return Drawn(metrics_log(sizes.steps, **series), onset)


FAMILIES = (
    Family(
        check="kl_explosion",
        name="the KL to the reference grows",
        unit="nats per token",
        strengths=(0.03, 0.06, 0.12, 0.25, 0.5, 1.0),
        draw=_kl,
    ),
    Family(
        check="entropy_collapse",
        name="the entropy is lost",
        unit="of the entropy",
        strengths=(0.5, 0.7, 0.8, 0.9, 0.95, 0.98),
        draw=_entropy_falls,
        severities=ANY,
    ),
    Family(
        check="entropy_explosion",
        name="the entropy grows until texts mean nothing",
        unit="nats per token",
        strengths=(0.3, 0.6, 1.2, 2.5, 5.0),
        draw=_entropy_rises,
    ),
    Family(
        check="gradient_explosion",
        name="one update ends a run",
        unit="times the usual norm",
        strengths=(10, 100, 1000, 10_000),
        draw=_one_update,
    ),
    Family(
        check="gradient_explosion",
        name="norms grow for good",
        unit="times the usual norm",
        strengths=(3, 10, 30, 100),
        draw=_large_norms,
        severities=ANY,
    ),
    Family(
        check="ratio_drift",
        name="tokens leave the clip range",
        unit="of tokens",
        strengths=(0.1, 0.2, 0.4, 0.7),
        draw=_large_updates,
    ),
    Family(
        check="ratio_drift",
        name="old log-probabilities are not the sampler's",
        unit="times",
        strengths=(1.3, 2.0, 4.0),
        draw=_other_probabilities,
    ),
    Family(
        check="off_policy_weights",
        name="weights of responses scatter",
        unit="nats",
        strengths=(0.3, 0.7, 1.5, 3.0),
        draw=_weights,
    ),
    Family(
        check="stale_rollouts",
        name="rollouts wait ever longer",
        unit="steps",
        strengths=(4, 8, 16, 32),
        draw=_age,
    ),
)
