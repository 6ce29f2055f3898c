"""Changes of a run's rows after the simulation, as by engines, critics and loggers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .figures import Row

Change = Callable[[list[Row], np.random.Generator], None]


def not_a_number(since: int) -> Change:
    """Set log-probabilities and rewards to NaN, of some responses at first, then of all."""

    def change(rows: list[Row], rng: np.random.Generator) -> None:
        for row in rows:
            if row["step"] >= since and (row["step"] > since + 1 or rng.random() < 0.4):
                row["logprobs"] = [float("nan")] * len(row["logprobs"])
                if row["step"] > since + 1:
                    row["reward"] = float("nan")

    return change


def diverging_critic(since: int, until: int) -> Change:
    """Let the critic's values oscillate around the returns with growing amplitude."""

    def change(rows: list[Row], rng: np.random.Generator) -> None:
        for row in rows:
            grown = min(1.0, max(0.0, (row["step"] - since) / (until - since)))
            swing = grown * 4.0 * rng.normal()
            noise = grown * 1.5 * rng.normal(size=len(row["values"]))
            row["values"] = list(np.array(row["values"]) + swing + noise)

    return change


def drifting_ratio(since: int | None) -> Change:
    """Log the log-probabilities from before the update; from a step on updates are too large."""

    def change(rows: list[Row], rng: np.random.Generator) -> None:
        for row in rows:
            new = np.array(row["logprobs"])
            large = since is not None and row["step"] >= since
            centre, spread = (0.75, 0.7) if large else (0.0, 0.03)
            old = new - centre - spread * rng.normal(size=new.size)
            row["old_logprobs"] = list(
                np.minimum(old, -1e-4) if not large else old.clip(max=-1e-4)
            )
            if (
                large
            ):  # the new policy finds its samples more likely than the old one did
                row["logprobs"] = list(np.minimum(new, -1e-4))

    return change


def mismatched_engine(since: int | None, spread: float, calm: float = 0.004) -> Change:
    """Log the sampler's log-probabilities; from a step on it disagrees with the trainer."""

    def change(rows: list[Row], rng: np.random.Generator) -> None:
        for row in rows:
            trainer = np.array(row["logprobs"])
            wide = spread if since is not None and row["step"] >= since else calm
            # Engines disagree where tokens are uncertain; sure tokens hardly move.
            unsure = 0.25 + np.minimum(1.0, -trainer)
            sampler = trainer + wide * unsure * rng.standard_t(4, trainer.size)
            row["sampler_logprobs"] = list(np.minimum(sampler, -1e-5))

    return change


def cold_start(at: int) -> Change:
    """Remove three quarters of some steps' rows from one rank's file, as after a crash."""

    def change(rows: list[Row], rng: np.random.Generator) -> None:
        rows[:] = [
            row for row in rows if not at <= row["step"] < at + 4 or rng.random() < 0.25
        ]  # fmt: skip

    return change


def in_progress(share: float) -> Change:
    """Keep only a share of the last step's responses, as while it is being written."""

    def change(rows: list[Row], _: np.random.Generator) -> None:
        last = rows[-1]["step"]
        size = sum(row["step"] == last for row in rows)
        del rows[len(rows) - size + int(size * share) :]

    return change
