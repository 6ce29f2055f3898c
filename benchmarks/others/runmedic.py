"""runmedic, from PyPI: its command, all runs' metrics in one call.

It judges losses, norms of the gradient, learning rates and seconds. As the loss of a policy means
nothing by itself, the reward, negated, is given as ``loss``: what it finds then are rewards that
fall or stay. ``grad_norm`` keeps its name, and what it has no role for is left out.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.others.runs import (
    GRADIENT,
    OTHER,
    PLATEAU,
    REWARD,
    LabelledRun,
    Said,
    write_metrics,
)

KINDS: dict[str, tuple[str, ...]] = {
    "non_finite": (GRADIENT, REWARD),
    "divergence": (REWARD,),
    "no_learning": (PLATEAU, REWARD),
    "loss_spikes": (REWARD,),
    "grad_spikes": (GRADIENT,),
}
"""Check -> kinds of fault that it finds."""

WARNINGS = ("warning", "critical")


def as_losses(run: LabelledRun) -> LabelledRun:
    """Return a run with the metrics that runmedic has roles for."""
    table = run.metrics
    judged = table.filter(["step", "grad_norm"]).assign(loss=-table["reward"])
    return replace(run, metrics=judged)


def judge_metrics(
    python: str, runs: Sequence[LabelledRun], folder: Path
) -> list[list[Said]]:
    """Return what is found in the metrics of each run; files are written into ``folder``."""
    for run in runs:
        write_metrics(as_losses(run), folder / f"{run.name}.jsonl")
    command = [python, "-m", "runmedic", "diagnose", str(folder), "--json"]
    reports = json.loads(subprocess.check_output(command, text=True))
    by_run = {report["run"]: findings(report) for report in runs_of(reports)}
    return [by_run[run.name] for run in runs]


def runs_of(reports: Any) -> list[dict[str, Any]]:
    """Return the reports of runs: a list of them, or the only one."""
    return reports if isinstance(reports, list) else [reports]


def findings(report: dict[str, Any]) -> list[Said]:
    """Return what the report of one run says, with the step that each finding names."""
    return [
        Said(
            one["check"],
            one["severity"] in WARNINGS,
            frozenset(KINDS.get(one["check"], (OTHER,))),
            () if one["step"] is None else (float(one["step"]),),
        )
        for one in report["findings"]
    ]
