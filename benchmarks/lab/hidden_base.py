"""Shared code of the hidden runs: sizes, simulated rows, truths and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .figures import Row
from .reasoning import FORMS, Reasoning, Rng, run_reasoning
from .simulate import Schedule, flat, settle
from .truths import CHECKS, Planted, onset_interval

TWO_ATTEMPTS = "repeated_steps"
ALARM = ("Warning", "Broken")
CALM = ("Healthy", "Unclear")
QUIET = (
    *CHECKS, "environment_fall", "mix_changed", "loops", "advantage_mismatch", "dropped_groups",
    "advantage_outlier",
    TWO_ATTEMPTS, "mixed_runs", "tool_errors", "failed_rollouts", "stale_rollouts",
)  # fmt: skip
"""Findings that are false in a healthy run."""

SIZES = (
    (8, 4),
    (4, 8),
    (8, 8),
    (4, 4),
    (16, 4),
    (6, 8),
)  # prompts a step, responses a prompt
TOKENS = ("response_tokens", "logprobs", "ref_logprobs", "finish_reason")


@dataclass
class Hidden:
    """A run: the rows of each file, by its path in the run's folder, and the truth."""

    files: dict[str, Sequence[Row]]
    truth: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write the logs as JSON lines, and ``truth.json``."""
        for name, rows in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            path.write_text("".join(lines), encoding="utf8")
        (folder / "truth.json").write_text(
            json.dumps(self.truth, indent=1) + "\n", encoding="utf8"
        )


Maker = Callable[[Rng, int], Hidden]


def sizes(rng: Rng, i: int) -> dict[str, Any]:
    """Return random settings of a run that learns; every fourth is in Chinese."""
    prompts, group = SIZES[i % len(SIZES)]
    chinese = i % 4 == 3
    return {
        "steps": int(rng.integers(30, 81)), "prompts": prompts, "group": group,
        "skill": plus(flat(rng.uniform(-0.8, 0.2)), settle(rng.uniform(10, 25), 2.0)),
        "thoughts": flat(rng.uniform(3, 6)), "endless": flat(0.0), "chinese": chinese,
        "form": "zh" if chinese else str(rng.choice(list(FORMS)[:4])),
    }  # fmt: skip


def simulate(rng: Rng, keep: Sequence[str] = (), **settings: Any) -> list[Row]:
    """Simulate a run; of the fields of tokens only those in ``keep`` remain."""
    rows = run_reasoning(Reasoning("hidden", int(rng.integers(1 << 30)), **settings))
    dropped = [name for name in TOKENS if name not in keep]
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def plus(*schedules: Schedule) -> Schedule:
    """Return the sum of schedules."""
    return lambda step: sum(schedule(step) for schedule in schedules)


def a_third_in(rng: Rng, steps: int) -> tuple[int, int]:
    """Return the first and last step of a change between a quarter and two thirds of the run."""
    start = int(rng.integers(steps // 4, steps // 2))
    return start, start + int(rng.integers(3, max(4, steps // 6)))


def between(start: int, stop: int) -> list[int]:
    """Return the interval of acceptable onsets of a change from ``start`` to ``stop``."""
    return [max(0, start - 1), (start + stop) // 2 + 3]


def shown_by(rows: Sequence[Row], start: int, by: Callable[[Row], float]) -> list[int]:
    """Return the interval of acceptable onsets of a change that a figure of the rows shows."""
    low, high = onset_interval(rows, Planted(("planted",), start, by)) or (0, 0)
    return [max(0, low - 1), high + 3]


def planted(
    check: str, onset: Sequence[int] | None = None, **other: Any
) -> dict[str, Any]:
    """Return a truth with a required finding that leads; ``other`` overrides keys."""
    keys = {"level": ALARM, "expected": [check], "lead": [check], "onset": onset}
    return {key: value for key, value in (keys | other).items() if value is not None}


def healthy(*absent: str) -> dict[str, Any]:
    """Return a truth without warnings, and without even a note of the ids in ``absent``."""
    return {"level": CALM, "expected": [], "not_expected": QUIET, "absent": absent}


def in_groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each group, in order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return list(found.values())


def rewards(rows: Sequence[Row]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the rewards of the rows."""
    return np.array([row["reward"] for row in rows], dtype=float)
