"""Write logs of long runs: metrics alone, short responses, and folders of many files.

Seeded, so that the same arguments write the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Metric -> value at the start, at the end, and standard deviation; named as verl names them
METRICS = {
    "actor/entropy": (1.1, 0.35, 0.02),
    "actor/kl_loss": (0.0, 0.4, 0.01),
    "actor/pg_loss": (0.02, 0.01, 0.01),
    "actor/pg_clipfrac": (0.002, 0.01, 0.001),
    "actor/ppo_kl": (0.0002, 0.0004, 0.0001),
    "actor/grad_norm": (0.6, 0.3, 0.05),
    "actor/lr": (1e-6, 1e-6, 0.0),
    "critic/score/mean": (0.2, 0.7, 0.03),
    "critic/score/max": (1.0, 1.0, 0.0),
    "critic/score/min": (0.0, 0.0, 0.0),
    "critic/rewards/mean": (0.2, 0.65, 0.03),
    "critic/rewards/max": (1.0, 1.0, 0.0),
    "critic/rewards/min": (-0.1, -0.1, 0.01),
    "critic/advantages/mean": (0.0, 0.0, 0.01),
    "critic/returns/mean": (0.0, 0.1, 0.02),
    "response_length/mean": (300.0, 700.0, 15.0),
    "response_length/max": (1024.0, 1024.0, 0.0),
    "response_length/min": (20.0, 40.0, 5.0),
    "response_length/clip_ratio": (0.02, 0.05, 0.005),
    "prompt_length/mean": (120.0, 120.0, 3.0),
    "prompt_length/clip_ratio": (0.0, 0.0, 0.0),
    "timing_s/gen": (20.0, 40.0, 1.0),
    "timing_s/ref": (3.0, 6.0, 0.2),
    "timing_s/update_actor": (12.0, 25.0, 0.5),
    "timing_s/step": (38.0, 76.0, 1.5),
    "timing_per_token_ms/gen": (0.5, 0.5, 0.02),
    "perf/throughput": (4000.0, 3800.0, 80.0),
    "perf/mfu/actor": (0.41, 0.4, 0.01),
    "global_seqlen/mean": (42000.0, 82000.0, 900.0),
}
_PROMPTS = 512
_WORDS = "the sum of two odd numbers is even so we add both and carry one".split()


def metrics(steps: int, seed: int = 0) -> dict[str, Values]:
    """Return metric -> its value at each step: a saturating curve with noise."""
    rng = np.random.default_rng(seed)
    progress = 1 - np.exp(-4 * np.arange(steps) / steps)
    return {
        name: start + (end - start) * progress + deviation * rng.normal(size=steps)
        for name, (start, end, deviation) in METRICS.items()
    }


def write_metrics(path: Path, steps: int, seed: int = 0) -> None:
    """Write metrics as verl's file logger does (.jsonl), or as a table (.csv)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = metrics(steps, seed)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", *columns])
            writer.writerows([number, *row] for number, row in enumerate(rows, 1))
        return
    with path.open("wb") as file:
        for number, row in enumerate(rows, 1):
            data = dict(zip(columns, row, strict=True))
            file.write(orjson.dumps({"step": number, "data": data}) + b"\n")


def responses(
    steps: int, each: int, seed: int = 0, *, collapse: bool = False
) -> Iterator[list[bytes]]:
    """Yield the lines of each step: ``each`` short responses to one prompt.

    In the second half of a run that collapses, all responses are one word without a reward.
    """
    rng = np.random.default_rng(seed)
    for step in range(steps):
        prompt = f"Is {step % _PROMPTS} + 1 even or odd?"
        rewards = rng.normal(0.2 + 0.5 * step / steps, 0.3, each)
        lengths = rng.integers(6, 14, each)
        is_broken = collapse and step >= steps // 2
        lines: list[bytes] = []
        for reward, length in zip(rewards.tolist(), lengths.tolist(), strict=True):
            words = ["so"] if is_broken else rng.choice(_WORDS, length).tolist()
            row = {
                "step": step,
                "prompt": prompt,
                "response": " ".join(words),
                "reward": 0.0 if is_broken else round(reward, 4),
            }
            lines.append(orjson.dumps(row) + b"\n")
        yield lines


def write_responses(
    path: Path, steps: int, each: int, seed: int = 0, *, collapse: bool = False
) -> None:
    """Write all steps into one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for lines in responses(steps, each, seed, collapse=collapse):
            file.writelines(lines)


def write_step_files(folder: Path, steps: int, each: int, seed: int = 0) -> None:
    """Write a file per step, named by its number, as trainers dump their rollouts."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(responses(steps, each, seed), 1):
        (folder / f"{number}.jsonl").write_bytes(b"".join(lines))


def write_other_files(folder: Path, count: int) -> None:
    """Write files that are no logs, such as a training leaves beside them."""
    for number in range(count // 4):
        checkpoint = folder / f"checkpoints/global_step_{number}"
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "config.json").write_text('{"hidden_size": 64, "layers": 2}')
        (checkpoint / "model.safetensors").write_bytes(b"\x00" * 64)
        (checkpoint / "notes.txt").write_text("saved\n")
        (folder / f"sample_{number}.txt").write_text("A sample of the policy.\n")
