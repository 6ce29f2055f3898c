"""Runs of which only rewards, lengths and metrics are logged: cases on which simple rules fail.

Each case has random parameters and the first words that its verdict may have. They are tables in
memory, so that hundreds of them are judged in a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.tables import MetricsFile, Tables
from tests.tables_builder import make_tables

Floats = NDArray[np.float64]
Rng = np.random.Generator
PROMPTS = 8


@dataclass
class Case:
    """A kind of run.

    Attributes:
        make: draws a run of this kind.
        levels: first words of the verdict that are right.
        lead: ids that may lead ("": none), if not any.
    """

    make: Callable[[Rng], Tables]
    levels: tuple[str, ...]
    lead: tuple[str, ...] = ()

    def accepts(self, sentence: str, lead: str | None) -> bool:
        """Return whether a verdict is right."""
        return sentence.startswith(self.levels) and (not self.lead or (lead or "") in self.lead)


def _sizes(rng: Rng, low: int = 40, high: int = 200) -> tuple[Floats, int]:
    """Return the progress of the run at each step (0 to 1), and the responses per prompt.

    Two responses per prompt are avoided, as most pairs would be groups without signal.
    """
    return np.linspace(0, 1, int(rng.integers(low, high + 1))), int(rng.choice([1, 4, 8]))


def _run(
    rng: Rng,
    rewards: Callable[[Floats, Any, Any], Floats],
    at: tuple[Floats, int],
    prompts: Any = None,
    metrics: dict[str, Floats] | None = None,
    **columns: Callable[[Any], Floats],
) -> Tables:
    """Make a run of the sizes ``at``.

    ``rewards`` gives the reward of each response by (difficulty of its prompt, step, prompt),
    ``columns`` further columns by step. ``prompts`` (steps, PROMPTS) are drawn unless given.
    """
    part, group = at
    steps = len(part)
    if prompts is None:
        prompts = rng.integers(0, 4 * steps, (steps, PROMPTS))
    prompt = np.repeat(prompts.ravel(), group)
    step = np.repeat(np.arange(steps), PROMPTS * group)
    hard = rng.normal(size=int(prompts.max()) + 1)
    filled = {"step": step, "prompt_id": prompt, "reward": rewards(hard[prompt], step, prompt)}
    filled |= {name: column(step) for name, column in columns.items()}
    table = pd.DataFrame({"step": np.arange(steps), **(metrics or {})})
    files = [MetricsFile("metrics.jsonl", steps, list(metrics or {}))] if metrics else []
    return make_tables(filled, metrics=table, metrics_files=files)


def _binary(rng: Rng, logit: Floats) -> Callable[[Floats, Any, Any], Floats]:
    """Return binary rewards with these log-odds by step, for prompts of medium difficulty."""
    return lambda hard, step, _: (
        rng.random(len(step)) < 1 / (1 + np.exp(hard - logit[step]))
    ).astype(float)


def _constant(rng: Rng, share: float) -> Callable[[Floats, Any, Any], Floats]:
    return lambda _, step, __: (rng.random(len(step)) < share).astype(float)


def _dense(rng: Rng, mean: Floats, std: float) -> Callable[[Floats, Any, Any], Floats]:
    """Return dense rewards with this mean by step that vary by prompt and response."""
    return lambda hard, step, _: mean[step] + std * (0.5 * hard + rng.normal(size=len(step)))


def _learning(rng: Rng, part: Floats, gain: float = 2.5) -> Floats:
    """Return log-odds that rise as in good runs, fast at first."""
    start = rng.uniform(-2, 0)
    pace = rng.uniform(0.15, 0.6)
    return start + gain * (1 - np.exp(-part / pace)) / (1 - np.exp(-1 / pace))


def _autocorrelated(rng: Rng, steps: int, std: float) -> Floats:
    noise = rng.normal(size=steps + 50) * std * 0.6
    for i in range(1, len(noise)):
        noise[i] += 0.8 * noise[i - 1]
    return noise[50:]


def _validation(rng: Rng, values: Floats, every: int, noise: float) -> Floats:
    """Return validation scores at every ``every``-th step, NaN at the others."""
    found = values + noise * rng.normal(size=len(values))
    found[np.arange(len(values)) % every != 0] = np.nan
    return found


def _rare_success(rng: Rng) -> Tables:
    part, _ = _sizes(rng)
    prompts = rng.integers(0, 100, (len(part), PROMPTS))
    if rng.random() < 0.5:  # one group of eight
        prompts = np.repeat(prompts[:, :1], PROMPTS, axis=1)
    return _run(rng, _constant(rng, 0.03), (part, 1), prompts)


def _flat_autocorrelated(rng: Rng) -> Tables:
    at = _sizes(rng, 40, 300)
    noise = _autocorrelated(rng, len(at[0]), rng.uniform(0.1, 0.5))
    rewards = _binary(rng, 2 * noise) if rng.random() < 0.5 else _dense(rng, noise, 0.5)
    return _run(rng, rewards, at)


def _by_difficulty(rng: Rng, epochs: int) -> Tables:
    """Return a run with prompts in order of difficulty, in each epoch or over the whole run.

    Either the prompts recur, or validation shows that the policy learns.
    """
    part, group = _sizes(rng, 60)
    rank = part if epochs == 1 else (part * epochs) % 1
    pool = PROMPTS * len(part) // max(epochs, 3)
    watched = epochs == 1 and rng.random() < 0.5
    spread = 0.02 if watched else 0.25  # of the pool, from which a step draws
    near = rank[:, None] * (1 - spread) + spread * rng.random((len(part), PROMPTS))
    prompts = np.minimum((near * pool).astype(int), pool - 1)
    skill = _learning(rng, part, 1.5)
    hardness = rng.uniform(1.5, 2.5)

    def rewards(hard: Floats, step: Any, prompt: Any) -> Floats:
        logit = 1 + skill[step] - 0.3 * hard - hardness * prompt / pool
        return (rng.random(len(step)) < 1 / (1 + np.exp(-logit))).astype(float)

    scores = _validation(rng, 1 / (1 + np.exp(1 - skill)), 5, 0.015)
    return _run(rng, rewards, (part, group), prompts, {"val/accuracy": scores} if watched else None)


def _learns_to_stop(rng: Rng) -> Tables:
    part, group = _sizes(rng)
    room = int(rng.choice([512, 1024, 2048]))
    short = rng.uniform(0.12, 0.25)
    ends = np.clip(0.05 + 0.92 * part / rng.uniform(0.3, 0.9), 0, 0.97)
    step = np.repeat(np.arange(len(part)), PROMPTS * group)
    done = rng.random(len(step)) < ends[step]
    tokens = np.where(done, np.clip(rng.normal(short, 0.25 * short, len(step)), 0.02, 1), 1) * room
    solved = (rng.random(len(step)) < 0.6) & done
    return _run(
        rng, lambda *_: solved.astype(float), (part, group),
        response_tokens=lambda _: np.round(tokens), finished=lambda _: done.astype(float),
    )  # fmt: skip


def _two_scales(rng: Rng) -> Tables:
    at = _sizes(rng)
    part = at[0]
    mean = rng.uniform(1, 4) + rng.uniform(3, 5) * np.sqrt(part)
    values = _validation(rng, 0.90 + 0.03 * part, int(rng.choice([1, 5, 10])), 0.006)
    return _run(rng, _dense(rng, mean, 1.5), at, metrics={"val/accuracy": values})


def _one_nan(rng: Rng) -> Tables:
    at = _sizes(rng)
    loss = 0.05 * rng.normal(size=len(at[0]))
    loss[rng.integers(3, len(loss) - 3)] = np.nan
    metrics = {"loss": loss, "grad_norm": rng.lognormal(0, 0.3, len(loss))}
    return _run(rng, _binary(rng, _learning(rng, at[0])), at, metrics=metrics)


def _kl_excursion(rng: Rng) -> Tables:
    at = _sizes(rng)
    start = int(rng.integers(5, len(at[0]) - 10))
    logged = rng.random() < 0.5
    kl = (0.02 + 0.05 * at[0]) * rng.lognormal(0, 0.2, len(at[0]))
    kl[start : start + 5] *= rng.uniform(20, 60)
    return _run(
        rng, _binary(rng, _learning(rng, at[0])), at, metrics={"kl": kl} if logged else None,
        response_tokens=lambda step: rng.normal(100, 20, len(step)).round(),
        kl_k1=lambda step: 100 * kl[step] * rng.lognormal(0, 0.3, len(step)),
    )  # fmt: skip


def _dead_at_the_end(rng: Rng) -> Tables:
    at = _sizes(rng, 150, 250)
    logit = _learning(rng, at[0])
    logit[-4:] = -50
    return _run(rng, _binary(rng, logit), at)


def _dead_reward_model(rng: Rng) -> Tables:
    at = _sizes(rng)
    part = at[0]
    mean = rng.uniform(-0.5, 0.5) + rng.uniform(0, 1.5) * part
    died = part > rng.uniform(0.2, 0.9)
    mean[died] = -4

    def rewards(hard: Floats, step: Any, _: Any) -> Floats:
        std = np.where(died[step], 0.3, 0.6)
        return mean[step] + std * (rng.normal(size=len(step)) + 0.3 * hard)

    return _run(rng, rewards, at)


def _solved(rng: Rng) -> Tables:
    return _run(rng, _constant(rng, 0.98), (_sizes(rng)[0], 1))


def _learns(
    rng: Rng, low: float = 0.0, high: float = 1.0, steps: tuple[int, int] = (40, 200)
) -> Tables:
    """Return a run whose dense reward rises from ``low`` to ``high``."""
    at = _sizes(rng, *steps)
    at = at[0], max(at[1], 4 if steps[1] <= 20 else 1)
    mean = low + (high - low) * (1 - np.exp(-3 * at[0]))
    return _run(rng, _dense(rng, mean, 0.4 * abs(high - low)), at)


def _flat(rng: Rng, steps: tuple[int, int] = (40, 200)) -> Tables:
    at = _sizes(rng, *steps)
    level = np.full(len(at[0]), rng.uniform(-0.7, 0.7))
    return _run(rng, _binary(rng, level) if rng.random() < 0.5 else _dense(rng, level, 0.5), at)


def _parts(rng: Rng) -> Tables:
    tables = _run(rng, _binary(rng, _learning(rng, (at := _sizes(rng))[0])), at)
    right = tables.responses["reward"].to_numpy()
    step = tables.responses["step"].to_numpy()
    form = (rng.random(len(step)) < np.clip(0.3 + step / 30, 0, 0.95)).astype(float)
    parts = {"correct": right, "format": 0.2 * form, "brevity": -0.1 * rng.random(len(step))}
    return make_tables({
        "step": step, "prompt_id": tables.responses["prompt_id"],
        "reward": sum(parts.values()),
    }, extras=pd.DataFrame(parts), reward_parts=list(parts))  # fmt: skip


def _restarts(rng: Rng) -> Tables:
    """Return a run with two crashes, whose steps since the last checkpoint are logged twice."""
    tables = _run(rng, _binary(rng, _learning(rng, (at := _sizes(rng, 60))[0])), at)
    table = tables.responses[["step", "prompt_id", "reward"]]
    again = [table]
    for _ in range(2):
        start = int(rng.integers(5, len(at[0]) - 12))
        again.append(table[table["step"].between(start, start + int(rng.integers(2, 10)))])
    rows = pd.concat(again)
    return make_tables({str(name): values.to_numpy() for name, values in rows.items()})


def _rare_validation(rng: Rng, change: float) -> Tables:
    """Return a run whose reward rises, while validation at every 50th step moves by ``change``."""
    at = _sizes(rng, 350, 500)
    at = at[0], min(at[1], 4)
    values = _validation(rng, 0.4 + change * at[0], 50, 0.012)
    learns = _binary(rng, _learning(rng, at[0]))
    return _run(rng, learns, at, metrics={"val/accuracy": values})


CALM = ("Healthy", "Unclear")
CASES: dict[str, Case] = {
    "constant 3% success": Case(
        _rare_success, ("Unclear", "Warning"), ("zero_variance_groups", "")
    ),
    "flat, autocorrelated": Case(_flat_autocorrelated, ("Unclear",)),
    "curriculum": Case(lambda rng: _by_difficulty(rng, 1), CALM),
    "sorted by difficulty": Case(lambda rng: _by_difficulty(rng, int(rng.integers(2, 5))), CALM),
    "learns to stop": Case(_learns_to_stop, ("Healthy",)),
    "validation on another scale": Case(_two_scales, ("Healthy",)),
    "one NaN loss": Case(_one_nan, ("Healthy",)),
    "KL leaves and returns": Case(_kl_excursion, ("Healthy",)),
    "last 4 steps dead": Case(_dead_at_the_end, ("Broken",), ("reward_collapse",)),
    "dead reward model": Case(_dead_reward_model, ("Broken",)),
    "solved from the start": Case(_solved, ("Healthy",)),
    "dense": Case(_learns, ("Healthy",)),
    "negative": Case(lambda rng: _learns(rng, -10.0, -4.0), ("Healthy",)),
    "several parts": Case(_parts, ("Healthy",)),
    "restarts": Case(_restarts, ("Healthy",)),
    "5 to 9 steps, learns": Case(lambda rng: _learns(rng, steps=(5, 9)), CALM),
    "10 to 20 steps, learns": Case(lambda rng: _learns(rng, steps=(10, 20)), ("Healthy",)),
    "5 to 20 steps, flat": Case(lambda rng: _flat(rng, (5, 20)), ("Unclear",)),
    "flat": Case(_flat, ("Unclear",)),
    "rare validation rises": Case(lambda rng: _rare_validation(rng, 0.25), ("Healthy",)),
    "rare validation falls": Case(lambda rng: _rare_validation(rng, -0.2), ("Warning", "Broken")),
}
"""The table "where simple rules fail", and its plain counterparts."""
