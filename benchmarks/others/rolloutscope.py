"""rolloutscope, from its repository: its command, on the responses of one run at a time.

It reads rollouts of verifiers and prime-rl, so each row is written as prime-rl's
``step_N/train_rollouts.jsonl``: ``prompt`` and ``response`` as messages, ``reward``, ``answer``
from ``ground_truth``, and ``example_id`` from ``group_id``, or from the prompt without groups.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.others.runs import (
    GROUPS,
    HACKING,
    LENGTH,
    OTHER,
    VARIETY,
    LabelledRun,
    Said,
)

PROGRAM = "from rolloutscope.cli import app; app()"

KINDS: dict[str, tuple[str, ...]] = {
    "verifier_tamper": (HACKING,),
    "reward_saturation_group_collapse": (GROUPS,),
    "length_inflation": (LENGTH, HACKING),
    "format_only_wins": (HACKING,),
    "degenerate_repetition": (VARIETY, HACKING),
    "answer_leakage_echo": (HACKING,),
}
"""Detector -> kinds of fault that it finds. It names responses, not steps."""

WARNINGS = ("warning", "critical")


def judge_rollouts(
    python: str, runs: Sequence[LabelledRun], folder: Path
) -> list[list[Said]]:
    """Return what is found in the responses of each run; files are written into ``folder``."""
    found = []
    for run in runs:
        if run.rollouts is None:
            continue
        written = folder / run.name
        write_rollouts(run.rollouts, written)
        report = folder / f"{run.name}.json"
        command = [python, "-c", PROGRAM, "analyze", str(written), "--quiet"]
        paths = ["--json", str(report), "--out", str(folder / f"{run.name}.html")]
        subprocess.run([*command, *paths], check=True, capture_output=True)
        found.append(findings(json.loads(report.read_bytes())))
    return found


def write_rollouts(logs: Path, folder: Path) -> None:
    """Write the responses of a run's logs, in rlreport's own format, as prime-rl would."""
    steps: dict[int, list[str]] = {}
    for row in rows_of(logs):
        line = json.dumps(as_rollout(row), ensure_ascii=False)
        steps.setdefault(int(row["step"]), []).append(line + "\n")
    for step, lines in steps.items():
        path = folder / f"step_{step}" / "train_rollouts.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(lines), encoding="utf-8")


def rows_of(logs: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of all log files of a folder, plain or compressed."""
    for path in sorted(logs.glob("*.jsonl*")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def as_rollout(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of rlreport's format in that of prime-rl's rollouts."""
    rollout = {
        "example_id": str(row.get("group_id", row["prompt"])),
        "prompt": [{"role": "user", "content": row["prompt"]}],
        "completion": [{"role": "assistant", "content": row["response"]}],
        "reward": row["reward"],
        "metrics": {},
    }
    if "ground_truth" in row:
        rollout["answer"] = str(row["ground_truth"])
    return rollout


def findings(report: dict[str, Any]) -> list[Said]:
    """Return what a report says."""
    return [
        Said(
            one["detector"],
            one["severity"] in WARNINGS,
            frozenset(KINDS.get(one["detector"], (OTHER,))),
        )
        for one in report["findings"]
    ]
