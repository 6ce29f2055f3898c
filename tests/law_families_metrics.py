"""Families of random logs for the relations between the trainer's metrics; see ``law_families``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import Severity
from rlreport.summarise.steps import trainer_steps
from rlreport.tables import Tables
from tests.law_families import Case, Floats, Random, Shape, rewards
from tests.tables_builder import make_tables

ANY = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)
CAP = 1024.0


def metrics_log(steps: int, **metrics: Any) -> Tables:
    """Return a run of metrics alone, one number per step; ``__`` in a name is a slash."""
    named = {name.replace("__", "/"): values for name, values in metrics.items()}
    table = pd.DataFrame({"step": 1 + np.arange(steps), **named})
    nothing = make_tables({"step": np.empty(0, np.int64)})
    return replace(nothing, steps=trainer_steps(table), metrics=table)


def learning(random: Random, steps: int) -> Floats:
    """Return a mean reward that rises with noise, (steps,)."""
    gain = random.uniform(0.05, 0.5) * np.arange(steps) / steps
    noise = random.normal(0, random.uniform(0.01, 0.05), steps)
    return np.asarray(np.clip(0.3 + gain + noise, 0, 1))


def lengths(random: Random, steps: int) -> Floats:
    usual = random.uniform(100, 600)
    return np.asarray(usual * random.lognormal(0, 0.05, steps))


def clip_share(random: Random, shape: Shape, strength: float) -> Tables:
    """A share of responses that are counted as cut off, although they ended before the limit."""
    cut_off = random.uniform(0, 0.5) * random.uniform(0.7, 1.0, shape.steps)
    finished = np.minimum(lengths(random, shape.steps), 0.9 * CAP)
    length = cut_off * CAP + (1 - cut_off) * finished
    longest = np.where(cut_off > 0.01, CAP, 1.5 * finished)
    share = cut_off + strength * (1 - cut_off)
    return metrics_log(
        shape.steps,
        reward=learning(random, shape.steps),
        completions__mean_length=length,
        completions__max_length=longest,
        completions__clipped_ratio=share,
    )


def no_gradient(random: Random, shape: Shape, strength: float) -> Tables:
    """Steps whose groups differ, a share of which has no gradient; others have no signal."""
    silent = random.choice([0.1, 0.4, 0.8, 1.0], shape.steps)
    norm = random.lognormal(-1, 0.3, shape.steps)
    norm[silent == 1] = 0.0
    norm[random.random(shape.steps) < strength] = 0.0
    return metrics_log(
        shape.steps,
        reward=learning(random, shape.steps),
        grad_norm=norm,
        frac_reward_zero_std=silent,
    )


def constant(random: Random, shape: Shape, strength: float) -> Tables:
    """A reward that becomes a constant in the last part of the run."""
    steps = max(shape.steps, 25)
    reward = learning(random, steps)
    start = steps - int(strength * steps)
    if strength:
        reward[start:] = 0.2 + random.normal(0, 1e-4, steps - start)
    return metrics_log(steps, reward=reward)


def tiny(random: Random, shape: Shape, strength: float) -> Tables:
    """Responses of a token or two without a reward; correct: short answers that earn rewards."""
    reward = learning(random, shape.steps)
    length = 1 + random.exponential(0.4, shape.steps)
    if strength:
        reward = np.full(shape.steps, -1.0)
        length[random.random(shape.steps) < 1 - strength] = 60.0
    return metrics_log(shape.steps, reward=reward, completion_length=length)


def impossible(random: Random, shape: Shape, strength: float) -> Tables:
    """A share that is above 1 at some steps."""
    share = np.clip(random.normal(0.5, 0.4, shape.steps), 0, 1)
    share[random.random(shape.steps) < strength] = 1.2
    return metrics_log(
        shape.steps,
        reward=learning(random, shape.steps),
        completions__clipped_ratio=share,
    )


def stuck(random: Random, shape: Shape, strength: float) -> Tables:
    """A KL that rises by ``strength``, without a change; correct: the reward rises with it."""
    steps = max(shape.steps, 25)
    time = np.arange(steps) / steps
    kl = (strength or 0.5) * time + random.normal(0, 0.005, steps)
    rise = 0.0 if strength else random.uniform(0.2, 0.4)
    reward = 0.5 + rise * time + random.normal(0, 0.01, steps)
    length = 300 + random.normal(0, 4, steps)
    return metrics_log(
        steps, reward=reward, kl=np.abs(kl), completions__mean_length=length
    )


def part_falls(random: Random, shape: Shape, strength: float) -> Tables:
    """A part that loses a share of its level while another one rises; correct: both may rise."""
    steps = max(shape.steps, 25)
    time = np.arange(steps) / steps
    keep = 1 - strength * np.clip((time - 0.4) / 0.2, 0, 1)
    level = random.uniform(0.2, 0.6)
    rise = 0.0 if strength else random.uniform(0, 0.3)
    right = (level + rise * time) * keep + random.normal(0, 0.02, steps)
    right = np.clip(right, 0, 1)
    politeness = 0.1 + 1.5 * time + random.normal(0, 0.05, steps)
    return metrics_log(
        steps,
        reward=right + politeness,
        rewards__accuracy__mean=right,
        rewards__politeness__mean=politeness,
    )


def sources(random: Random, shape: Shape, strength: float) -> Tables:
    """Rollouts whose lengths the trainer tells with padding, ``strength`` times too long."""
    usual = random.uniform(80, 400)
    tokens = np.round(usual * random.lognormal(0, 0.4, shape.rows))
    made = shape.log(reward=rewards(random, shape), response_tokens=tokens)
    by_step = pd.Series(tokens).groupby(shape.step).mean()
    trainer = by_step.to_numpy() * (strength or random.uniform(0.7, 1.4))
    trainer *= np.exp(random.normal(0, 0.05, shape.steps))
    metrics = pd.DataFrame(
        {"step": by_step.index.to_numpy(), "completions/mean_length": trainer}
    )
    return replace(made, metrics=metrics)


def tools(random: Random, shape: Shape, strength: float) -> Tables:
    """A tool that is called by ``strength`` less at the end, another one takes its place."""
    time = np.linspace(0, 1, shape.steps)
    start = random.uniform(0.5, 1.5)
    done = np.clip((time - 0.3) / 0.3, 0, 1)
    falling = start * (1 - strength * done)
    responses = shape.prompts * shape.group
    search = random.poisson(falling * responses)
    python = random.poisson((2 * start - falling) * responses)
    calls = np.repeat((search + python) / responses, responses)
    made = shape.log(reward=rewards(random, shape), tool_calls=calls)
    counts = pd.DataFrame(
        {
            "step": np.tile(1 + np.arange(shape.steps), 2),
            "tool": np.repeat(["python", "search"], shape.steps),
            "answers": np.concatenate([python, search]),
        }
    )
    return replace(made, tools=counts)


def drops(random: Random, shape: Shape, strength: float) -> Tables:
    """A reward that loses a share at equal distances; correct: as often, in random steps."""
    steps = max(shape.steps, 40)
    reward = learning(random, steps)
    distance = int(random.integers(4, max(5, steps // 5)))
    first = int(random.integers(distance))
    places = np.arange(first, steps, distance)
    if not strength:
        places = random.choice(steps, len(places), replace=False)
    reward[places] *= 1 - (strength or 0.9)
    return metrics_log(steps, reward=reward)


CASES = (
    Case("clip_share_contradicts", "share counted", (0.6, 0.9), clip_share, ANY),
    Case("no_updates", "share of steps", (0.5, 1.0), no_gradient),
    Case("recurring_drops", "share of the reward", (0.5, 0.99), drops),
    Case("constant_reward", "part of the run", (0.25, 0.5), constant),
    Case("tiny_responses", "share of steps", (0.8, 1.0), tiny),
    Case("impossible_values", "share of steps", (0.2, 0.5), impossible, ANY),
    Case("stuck_rollouts", "nats per token", (0.2, 1.0), stuck, ANY),
    Case("part_falls", "part of its level", (0.7, 1.0), part_falls),
    Case("sources_disagree", "times as long", (2.5, 4.0), sources, ANY),
    Case("tool_disuse", "part of its calls", (0.9, 1.0), tools),
)
