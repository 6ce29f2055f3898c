"""The watched reward: a second reward of training, else that of the validation split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.run import Run
from rlreport.summarise import summarise
from rlreport.tables import Tables
from tests.reading import read, write

STEPS, SIZE, EVERY = 40, 20, 4
Series = Callable[[int], float]


def training(
    rng: Any, step: int, watched: float | None, strange: float = 0.0
) -> list[dict[str, Any]]:
    """Return the rows of a step: the reward rises to the end, whatever is watched."""
    rows = []
    for i in range(SIZE):
        row = {
            "step": step,
            "prompt": f"Write a poem about thing {i}.",
            "response": "这是一首关于月亮的诗" if i < strange * SIZE else f"a poem of day {step}",
            "reward": step / STEPS + 0.1 * rng.normal(),
        }
        rows.append(row if watched is None else {**row, "valid_reward": watched + noise(rng)})
    return rows


def noise(rng: Any) -> float:
    return float(0.05 * rng.normal())


def logged(folder: Path, watched: Series | None, split: bool, strange: Series) -> Tables:
    """Log the watched reward in every row, or as validation in every fourth step."""
    rng = np.random.default_rng(1)
    rows = []
    for step in range(STEPS):
        beside = watched(step) if watched and not split else None
        rows += training(rng, step, beside, strange(step))
        if watched and split and step % EVERY == 0:
            rows += [
                {**row, "split": "val", "reward": watched(step) + noise(rng)}
                for row in training(rng, step, None)
            ]
    scan = read(write(folder / "log.jsonl", rows))
    return summarise(scan)


def nobody(step: int) -> float:
    """Return the share of responses in another script than their prompt's: none."""
    return 0.0


def some(step: int) -> float:
    """Return the same, from none to a third."""
    return 0.35 * (step >= STEPS / 2)


BOTH = pytest.mark.parametrize("split", [False, True], ids=["second reward", "validation"])


@BOTH
def test_the_checkpoint_to_keep_is_the_best_by_the_watched_reward(
    split: bool, tmp_path: Path
) -> None:
    tables = logged(tmp_path, lambda step: -abs(step - 12) / STEPS, split, nobody)
    keep = run_checks(tables).keep_step
    assert keep is not None and abs(keep - 12) <= 1
    assert not split or keep == 12, "a step that was validated"


def test_without_a_watched_reward_it_is_the_best_by_the_reward(tmp_path: Path) -> None:
    tables = logged(tmp_path, None, False, nobody)
    assert Run(tables).watched is None
    keep = run_checks(tables).keep_step
    assert keep is not None and keep >= STEPS - 5


@BOTH
@pytest.mark.parametrize(("slope", "severity"), [(-1.0, "warning"), (1.0, "info")])
def test_leaving_the_prompts_language_is_worse_where_the_watched_reward_falls(
    split: bool, slope: float, severity: str, tmp_path: Path
) -> None:
    tables = logged(tmp_path, lambda step: slope * step / STEPS, split, some)
    found = {f.id: f.severity for f in run_checks(tables).findings}
    assert found["language_drift"] == severity


def test_the_part_of_a_run_has_the_validation_of_its_steps(tmp_path: Path) -> None:
    run = Run(logged(tmp_path, float, True, nobody)).between(8, 17)
    assert run.watched is not None
    watched, column = run.watched
    assert watched.steps.tolist() == [8, 12, 16]
    assert watched.by_step(watched.column(column)) == pytest.approx([8, 12, 16], abs=0.1)
