"""Time RolloutWriter against a bare ``orjson.dumps`` and write of the same rows.

Bar: at most 1.5 times the bare loop, for 64 responses of 512 tokens with four arrays each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rlreport.writer import RolloutWriter

RESPONSES = 64
TOKENS = 512
ROUNDS = 15
ARRAYS = ("logprobs", "ref_logprobs", "values", "token_rewards")


def rows(as_arrays: bool) -> list[dict[str, Any]]:
    """Return one step's rows, seeded; the four arrays as lists or as float32 arrays."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(RESPONSES):
        arrays = {name: rng.normal(size=TOKENS).astype(np.float32) for name in ARRAYS}
        row: dict[str, Any] = {
            "step": 1,
            "prompt": f"Prompt {i}",
            "response": "word " * TOKENS,
            "reward": float(rng.normal()),
            "response_tokens": ["Ġword"] * TOKENS,
        }
        row.update({k: v if as_arrays else v.tolist() for k, v in arrays.items()})
        made.append(row)
    return made


def bare(folder: Path, batch: list[dict[str, Any]]) -> None:
    """Serialize and write each row, without a RolloutWriter."""
    with (folder / "bare.jsonl").open("wb", buffering=0) as log:
        for row in batch:
            log.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def written(folder: Path, batch: list[dict[str, Any]]) -> None:
    """Write each row through a RolloutWriter."""
    with RolloutWriter(folder) as writer:
        for row in batch:
            writer.write(**row)


def best(run: Callable[[Path], None]) -> float:
    """Return the best of ROUNDS times in milliseconds, each run in its own folder."""
    times = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            run(Path(folder))
            times.append(1000 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    """Print the times and their ratios."""
    for as_arrays in (False, True):
        batch = rows(as_arrays)
        yardstick = best(partial(bare, batch=batch))
        print(f"{'float32 arrays' if as_arrays else 'lists'}: bare {yardstick:.1f} ms")
        own = best(partial(written, batch=batch))
        print(f"  writer: {own:.1f} ms, {own / yardstick:.2f} x")


if __name__ == "__main__":
    main()
