"""Families of random logs for relations of policy, reference and tokens; see ``law_families``."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import Severity
from rlreport.figures.tokens import RARE_LOGP
from rlreport.tables import Tables
from tests.law_families import Case, Floats, Random, Shape, rewards

NOTE = (Severity.INFO,)


def _lengths(random: Random, shape: Shape) -> Floats:
    """Return numbers of tokens, (rows,): short answers in some logs, long ones in others."""
    usual = random.uniform(2.5, 6.5)
    return np.ceil(np.exp(random.normal(usual, 0.4, shape.rows)))


def _progress(shape: Shape) -> Floats:
    """Return how much of the run is over at each response, from 0 to 1, (rows,)."""
    return (shape.step - 1) / (shape.steps - 1)


def _kl(random: Random, shape: Shape, per_token: Floats) -> Tables:
    """Return a log with this KL per token and the scatter of log-ratios that belongs to it."""
    tokens = _lengths(random, shape)
    # The log-ratio of a token has a variance of twice the KL, of small ones.
    scatter = random.normal(size=shape.rows)
    scatter *= np.sqrt(2 * np.abs(per_token) / tokens)
    k1 = tokens * (per_token + scatter)
    return shape.log(
        reward=rewards(random, shape),
        kl_k1=k1,
        kl_k3=np.abs(k1),
        response_tokens=tokens,
    )


def _other_reference(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose KL per token starts so high, and grows."""
    grown = random.choice([0.0, 0.02, 0.1]) * _progress(shape)
    return _kl(random, shape, strength + grown)


def _negative(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose KL per token is so far below zero in a third of the steps."""
    grown = random.choice([0.0, 0.01, 0.05]) * _progress(shape)
    start = random.uniform(0, 0.6)
    is_wrong = (_progress(shape) >= start) & (_progress(shape) < start + 0.34)
    if strength:
        grown = np.where(is_wrong, -strength, grown)
    return _kl(random, shape, grown)


def _token_rewards(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log without the reward in the token rewards of so many of the steps."""
    reward = rewards(random, shape)
    if random.random() < 0.5:
        reward = reward + random.normal(0, 0.3, shape.rows)
    kl = random.gamma(2.0, 1.0, shape.rows) * _progress(shape)
    by_step = pd.Series(reward).groupby(shape.step)
    by_group = pd.Series(reward).groupby(shape.prompt)
    whitened = (reward - by_step.transform("mean")) / (by_step.transform("std") + 1e-6)
    in_group = (reward - by_group.transform("mean")) / (
        by_group.transform("std") + 1e-4
    )
    kinds = (reward, 0.1 * reward, np.clip(reward, -0.5, 0.8), whitened, in_group)
    trained = np.asarray(kinds[random.integers(len(kinds))], np.float64)
    trained = np.where(_progress(shape) < strength, 0.0, trained)
    penalty = random.choice([0.0, 0.05, 0.2]) * kl
    return shape.log(
        reward=reward, kl_k1=kl, rlhf_reward=trained - penalty, response_tokens=50.0
    )


def _masks(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which so many of the trained tokens are the environment's."""
    tokens = _lengths(random, shape) + 20
    trained = np.round(tokens * strength * random.uniform(0.5, 1.5, shape.rows))
    return shape.log(
        reward=rewards(random, shape),
        response_tokens=tokens,
        env_tokens=50.0,
        env_trained_tokens=trained,
        turns=3.0,
    )


def _ends(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which so many end tokens were put at a limit."""
    logp = -random.exponential(random.uniform(0.05, 1.2), shape.rows)
    is_put = random.random(shape.rows) < strength
    logp = np.where(is_put, random.uniform(-18, -9, shape.rows), logp)
    logp[random.random(shape.rows) < 0.1] = np.nan  # cut off
    return shape.log(reward=rewards(random, shape), end_logp=logp, response_tokens=50.0)


def _texts(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which tokens of so many responses are those of another one."""
    fits = (random.random(shape.rows) >= strength).astype(np.float64)
    fits[random.random(shape.rows) < 0.05] = np.nan  # too short
    return shape.log(reward=rewards(random, shape), tokens_fit=fits)


def _duplicates(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log with so many copied responses, and equal ones that are probable."""
    tokens = np.full(shape.rows, 60.0)
    surprisal = random.uniform(0.5, 1.5, shape.rows)
    numbers = np.arange(shape.rows)
    # In a group of equal answers, as easy prompts have
    is_short = random.random(shape.rows) < 0.3
    surprisal[is_short] = 0.05
    numbers[is_short] = 10**6
    is_copy = (random.random(shape.rows) < strength) & (shape.prompt % 2 == 0)
    # The first response of its prompt
    first = np.searchsorted(shape.prompt, shape.prompt)
    surprisal[first] = np.where(is_copy, 1.0, surprisal[first])
    numbers[first] = np.where(is_copy, first, numbers[first])
    numbers[is_copy] = numbers[first[is_copy]]
    surprisal[is_copy] = surprisal[first[is_copy]]
    return shape.log(
        reward=rewards(random, shape),
        surprisal_mean=surprisal,
        response_tokens=tokens,
        response_hash=numbers,
    )


def _temperatures(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose trainer has a temperature of 1 + ``strength``, and rounding errors.

    Tokens are drawn from logits of a vocabulary of 16: twelve a response.
    """
    logits = random.normal(0, 2.5, (shape.rows, 12, 16))
    # The largest of logits and Gumbel noise is a draw.
    noise = random.gumbel(size=logits.shape)
    drawn = np.argmax(logits + noise, axis=2)
    sampled = _logp(logits, drawn)
    trained = _logp(logits / (1 + strength), drawn)
    trained = trained + random.normal(0, 0.05, trained.shape)
    return shape.log(
        reward=rewards(random, shape), **_rare_sums(sampled, trained, RARE_LOGP)
    )


def _logp(logits: Floats, drawn: Any) -> Floats:
    """Return the log-probability of each drawn token, (rows, tokens)."""
    total = np.log(np.exp(logits).sum(axis=2))
    of_drawn = np.take_along_axis(logits, drawn[:, :, None], axis=2)
    return np.asarray(of_drawn[:, :, 0] - total, np.float64)


def _rare_sums(sampled: Floats, trained: Floats, below: float) -> dict[str, Any]:
    """Return the columns of sums over rare tokens; arguments are (rows, tokens)."""
    is_rare = sampled < below
    rare = np.where(is_rare, sampled, 0.0)
    trainer = np.where(is_rare, trained, 0.0)
    return {
        "rare_tokens": is_rare.sum(axis=1).astype(np.float64),
        "rare_sampler": rare.sum(axis=1),
        "rare_trainer": trainer.sum(axis=1),
        "rare_square": (rare**2).sum(axis=1),
        "rare_product": (rare * trainer).sum(axis=1),
    }


def _mismatch(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose engines disagree in so many of the steps, as rollouts or metrics show."""
    steps = np.arange(1, shape.steps + 1)
    usual = 10 ** random.uniform(-5, -3.5)
    k3 = usual * random.lognormal(0, 0.3, shape.steps)
    # A few steps of all, at least two
    is_wrong = np.zeros(shape.steps, bool)
    count = max(2, round(strength * shape.steps)) if strength else 0
    is_wrong[random.choice(shape.steps, count, replace=False)] = True
    k3 = np.where(is_wrong, random.uniform(0.01, 0.5, shape.steps), k3)
    reward = rewards(random, shape)
    if random.random() < 0.5:
        metrics = pd.DataFrame({"step": steps, "train/gen_kl_error": k3})
        return replace(shape.log(reward=reward), metrics=metrics)
    of_rows = k3[shape.step - 1] * random.lognormal(0, 0.2, shape.rows)
    return shape.log(reward=reward, mismatch_k3=of_rows, mismatch_tokens=50.0)


def _critic(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose critic is worse than a constant in so many of the steps."""
    learned = 1 - np.exp(-20 * _progress(shape))
    # An untrained critic is worse than a constant, too.
    explained = -2 + (2 + random.uniform(0.2, 0.9)) * learned
    if strength:
        is_wrong = np.abs(_progress(shape) - 0.5) <= strength / 2
        explained = np.where(is_wrong, -3.0, explained)
    squares = 50.0 * random.uniform(0.5, 1.5, shape.rows)
    return shape.log(
        reward=rewards(random, shape),
        response_tokens=50.0,
        value_tokens=50.0,
        value_mean=0.0,
        value_m2=squares,
        return_mean=0.0,
        return_m2=squares,
        value_error_mean=0.0,
        value_error_m2=squares * (1 - explained),
    )


CASES = (
    Case("reference_is_other", "nats per token", (0.12, 0.3, 0.6), _other_reference),
    Case("negative_kl", "nats per token", (0.015, 0.03, 0.1), _negative),
    Case("reward_not_trained", "share of steps", (0.2, 0.5, 1.01), _token_rewards),
    Case("mask_covers_environment", "share of tokens", (0.02, 0.2), _masks),
    Case("eos_not_sampled", "share of end tokens", (0.06, 0.2, 1.0), _ends),
    Case("tokens_are_not_text", "share of responses", (0.12, 0.5), _texts, NOTE),
    Case("improbable_duplicates", "share copied", (0.01, 0.1), _duplicates, NOTE),
    Case("temperature", "temperature − 1", (0.15, 0.3, 0.7), _temperatures, NOTE),
    Case("engine_mismatch", "share of steps", (0.1, 0.2, 0.5), _mismatch),
    Case("value_divergence", "share of steps", (0.3, 0.5, 0.8), _critic),
)
