"""Twelve runs of different kinds, as logs, whose reports print numbers of every quantity."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conftest import ROOT
from tests.reading import write

Floats = NDArray[np.float64]
STEPS = 60
EACH = 16
WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(150)]


def levels(values: str) -> Floats:
    """Return a series over STEPS; "0: 0.2, 59: 0.8" has its values, straight in between."""
    known = {}
    for pair in values.split(", "):
        step, value = pair.split(": ")
        known[int(step)] = float(value)
    steps = np.arange(STEPS)
    return np.interp(steps, [*known], [*known.values()])


def jump(at: int, before: float, after: float) -> Floats:
    return np.where(np.arange(STEPS) < at, before, after)


def noisy(seed: int, values: Floats, size: float) -> Floats:
    return values + size * np.random.default_rng(seed).normal(size=len(values))


def metrics(folder: Path, **series: Floats | Mapping[int, float]) -> Path:
    """Write metrics of a trainer; a mapping has the values at some steps only."""
    rows = []
    for step in range(STEPS):
        row: dict[str, Any] = {"step": step}
        for name, values in series.items():
            if not isinstance(values, Mapping) or step in values:
                row[name] = float(values[step])
        rows.append(row)
    return write(folder / "metrics.jsonl", rows)


def rollouts(
    folder: Path,
    *,
    reward: Floats,
    length: Floats | None = None,
    kl: Floats | None = None,
    entropy: Floats | None = None,
    validation: Mapping[int, float] | None = None,
    parts: Mapping[str, Floats] | None = None,
    seed: int = 0,
    **more: Floats,
) -> Path:
    """Write rollouts whose means by step are about these series.

    ``validation``: step -> mean reward of the validation rows of that step.
    """
    rng = np.random.default_rng(seed)
    size = np.full(STEPS, 12.0) if length is None else length
    rows = []
    for step in range(STEPS):
        for n in range(EACH):
            count = max(int(rng.poisson(size[step])), 2)
            row: dict[str, Any] = {
                "step": step,
                "prompt": f"Question {(step * 4 + n // 4) % 90}?",
                "response": " ".join(rng.choice(WORDS, count)),
                "reward": round(float(reward[step] + 0.2 * rng.normal()), 4),
            }
            if parts:
                drawn = {
                    name: float(rng.random() < values[step])
                    for name, values in parts.items()
                }
                row["reward_parts"] = drawn
                row["reward"] = sum(drawn.values())
            if kl is not None or entropy is not None:
                row |= _tokens(
                    rng,
                    row["response"].split(),
                    0.0 if kl is None else float(kl[step]),
                    0.8 if entropy is None else float(entropy[step]),
                )
            row |= {name: float(values[step]) for name, values in more.items()}
            rows.append(row)
        for n in range(8 if validation and step in validation else 0):
            assert validation is not None
            rows.append(
                {
                    "step": step,
                    "split": "validation",
                    "prompt": f"Held out {n}?",
                    "response": " ".join(rng.choice(WORDS, 12)),
                    "reward": round(float(validation[step] + 0.05 * rng.normal()), 4),
                }
            )
    return write(folder / "rank_0.jsonl", rows)


def _tokens(
    rng: np.random.Generator, tokens: Sequence[str], kl: float, entropy: float
) -> dict[str, Any]:
    """Return arrays of tokens with about this KL of the response and this surprisal."""
    count = len(tokens)
    logp = -np.abs(entropy + 0.05 * rng.normal(size=count))
    ratio = kl / count + 0.02 * rng.normal(size=count)
    return {
        "response_tokens": [*tokens],
        "logprobs": logp.round(5).tolist(),
        "ref_logprobs": (logp - ratio).round(5).tolist(),
    }


EVERY_TENTH = range(0, STEPS, 5)


def _evaluations(values: Floats, scale: float = 1.0) -> dict[int, float]:
    return {step: scale * float(values[step]) for step in EVERY_TENTH}


def _validation_falls(folder: Path) -> None:
    rise = levels("0: 0.2, 25: 0.8, 59: 0.9")
    falls = levels("0: 0.2, 20: 0.7, 30: 0.7, 45: 0.25, 59: 0.25")
    rollouts(folder, reward=rise, validation=_evaluations(falls), seed=1)


def _metrics_alone(folder: Path) -> None:
    metrics(
        folder,
        reward=noisy(2, levels("0: 0.3, 20: 0.9, 34: 0.9, 40: 0.2, 59: 0.15"), 0.03),
        kl=noisy(3, levels("0: 0.5, 30: 1.5, 38: 80.0, 59: 90.0"), 0.3),
        entropy=noisy(4, levels("0: 1.2, 15: 0.25, 30: 0.3, 38: 9.0, 59: 11.9"), 0.02),
        completion_length=noisy(5, levels("0: 150, 34: 190, 40: 500, 59: 520"), 4),
    )


def _percentages(folder: Path) -> None:
    accuracy = noisy(6, levels("0: 21.0, 30: 56.0, 40: 52.0, 59: 24.0"), 1.0)
    series: dict[str, Floats | Mapping[int, float]] = {
        "critic/rewards/mean": noisy(7, levels("0: 0.1, 59: 0.8"), 0.02),
        "val-core/math/accuracy_percent": _evaluations(accuracy),
        "actor/entropy": noisy(8, levels("0: 0.4, 30: 0.5, 59: 5.0"), 0.02),
        "response_length/mean": noisy(9, levels("0: 400, 59: 300"), 5),
    }
    metrics(folder, **series)


def _dead(folder: Path) -> None:
    reward = levels("0: 0.2, 25: 0.9, 33: 0.85, 36: 0.0, 59: 0.0")
    alive = np.arange(STEPS) < 37
    rollouts(
        folder,
        reward=np.where(alive, reward, 0.0),
        length=jump(35, 30, 5),
        entropy=jump(34, 0.9, 0.1),
        kl=levels("0: 0.1, 30: 2.0, 36: 30.0, 59: 32.0"),
        seed=3,
    )
    # Once it is dead, no response earns anything.
    log = folder / "rank_0.jsonl"
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for row in rows:
        if row["step"] >= 37:
            row["reward"] = 0.0
    write(log, rows)


def _parts(folder: Path) -> None:
    rollouts(
        folder,
        reward=np.zeros(STEPS),
        parts={
            "accuracy": levels("0: 0.4, 20: 0.42, 59: 0.2"),
            "politeness": levels("0: 0.1, 15: 0.2, 40: 0.95, 59: 0.97"),
        },
        seed=4,
    )


def _kl(folder: Path) -> None:
    rollouts(
        folder,
        reward=levels("0: 0.2, 59: 0.6"),
        kl=levels("0: 0.2, 20: 1.0, 40: 70.0, 59: 75.0"),
        entropy=levels("0: 0.8, 59: 0.7"),
        seed=5,
    )


def _recovered(folder: Path) -> None:
    reward = levels("0: 0.5, 20: 0.7, 24: 0.1, 33: 0.1, 37: 0.75, 59: 0.85")
    length = levels("0: 15, 20: 16, 24: 60, 33: 60, 37: 16, 59: 17")
    kl = levels("0: 0.2, 20: 1.0, 24: 40.0, 33: 40.0, 37: 1.5, 59: 2.0")
    rollouts(
        folder,
        reward=reward,
        length=length,
        kl=kl,
        entropy=levels("0: 0.8, 59: 0.7"),
        seed=6,
    )


def _long(folder: Path) -> None:
    rollouts(
        folder,
        reward=levels("0: 0.2, 10: 0.2, 50: 0.9, 59: 0.9"),
        length=levels("0: 40, 15: 40, 59: 12"),
        entropy=levels("0: 2.0, 25: 0.1, 59: 0.05"),
        seed=7,
    )


def _flat(folder: Path) -> None:
    rollouts(folder, reward=levels("0: 0.4, 59: 0.4"), seed=8)


def _unpacked(source: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for log in sorted((ROOT / source).glob("*.jsonl*")):
            if log.suffix == ".gz":
                (folder / log.stem).write_bytes(gzip.decompress(log.read_bytes()))
            else:
                shutil.copyfile(log, folder / log.name)

    return make


RUNS: dict[str, Callable[[Path], None]] = {
    "healthy": _unpacked("sample_logs/healthy"),
    "hacking": _unpacked("sample_logs/reward_hacking"),
    "groups": _unpacked("tests/data/grpo_math"),
    "validation_falls": _validation_falls,
    "metrics_alone": _metrics_alone,
    "percentages": _percentages,
    "dead": _dead,
    "parts": _parts,
    "kl": _kl,
    "recovered": _recovered,
    "shorter": _long,
    "flat": _flat,
}
