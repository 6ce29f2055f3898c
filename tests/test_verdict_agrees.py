"""The verdict's sentence, the reward's tile and the reward's chart say the same numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.summarise.steps import window_size
from rlreport.text.numbers import written
from tests.running import build

STEPS, PROMPTS, EACH = 50, 4, 2

RUNS: dict[str, Callable[[int], float]] = {
    "rises": lambda step: 0.1 + 0.7 * step / STEPS,
    "rises_and_stays": lambda step: min(0.2 + step / 20, 0.9),
    "never_rises": lambda step: 0.4,
    "is_solved": lambda step: 1.0 if step % 7 else 0.99,
    "falls_by_half": lambda step: 0.1 + 0.8 * min(step / 20, 1) - 0.5 * (step > 30),
    "falls_below_its_start": lambda step: 0.6 - 0.5 * (step > 25),
    "dies": lambda step: 0.1 + step / STEPS if step < 30 else 0.0,
    "dies_at_the_end": lambda step: 0.1 + step / STEPS if step < 46 else 0.0,
    "dips": lambda step: 0.2 if 15 < step < 30 else min(0.1 + step / 12, 0.8),
    "falls_slowly": lambda step: 0.9 - 0.7 * step / STEPS,
}


def write_log(path: Path, mean: Callable[[int], float], *, metrics: bool) -> None:
    """Write a run whose rewards are 0 or 1; the trainer's metrics say the mean of more of them."""
    rng = np.random.default_rng(7)
    rows = [
        {
            "step": step,
            "group_id": f"{step}-{prompt}",
            "prompt": f"Question {prompt} of step {step}",
            "response": f"answer {rng.integers(1_000_000)} {rng.integers(1_000_000)}",
            "reward": float(rng.random() < mean(step)),
        }
        for step in range(STEPS)
        for prompt in range(PROMPTS)
        for _ in range(EACH)
    ]
    path.mkdir()
    (path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if metrics:
        lines = [
            {"step": step, "reward": rng.binomial(256, mean(step)) / 256} for step in range(STEPS)
        ]
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def tile_of(page: str, name: str) -> list[float]:
    tile = page.split(f'data-figure="{name}"')[1].split("</dd>")[0].split("<svg")[0]
    numbers = re.findall(r'class="num"(?: title="([^"]+)")?>([^<]+)<', tile)
    return [float(exact or shown) for exact, shown in numbers]


def charted(report: Path) -> dict[str, list[float]]:
    """Return the unsmoothed values that the overview's chart of the reward draws, by series."""
    chart: dict[str, Any] = json.loads((report / "data/charts/reward.vl.json").read_text())
    series: dict[str, list[float]] = {}
    for row in chart["data"]["values"]:
        series.setdefault(row["series"], []).append(row["value"])
    return series


@pytest.mark.parametrize("metrics", [False, True], ids=["rollouts", "metrics"])
@pytest.mark.parametrize("name", RUNS)
def test_sentence_tile_and_chart_agree(name: str, metrics: bool, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", RUNS[name], metrics=metrics)
    report = tmp_path / "report"
    build(tmp_path / "logs", report, "--workers", 1)
    found = json.loads((report / "data/findings.json").read_text())
    first, last = tile_of((report / "index.html").read_text(), "reward_mean")

    said = found["verdict"]["sentence"]
    lead = next((f for f in found["findings"] if f["id"] == found["verdict"]["lead"]), None)
    if lead is None or "reward" not in lead["id"]:
        assert written(first, "number") in said and written(last, "number") in said
    elif lead["facts"]["kind"] == "fell":
        assert written(last, "number") in said
    for finding in found["findings"]:
        if finding["id"] == "reward_stalled" or finding["facts"].get("kind") == "fell":
            assert finding["facts"]["start"] == pytest.approx(first, abs=1e-12)
            assert finding["facts"]["end"] == pytest.approx(last, abs=1e-12)

    size = window_size(STEPS)
    windows = [
        (np.mean(values[:size]), np.mean(values[-size:])) for values in charted(report).values()
    ]
    assert any(drawn == pytest.approx((first, last), abs=1e-5) for drawn in windows)
