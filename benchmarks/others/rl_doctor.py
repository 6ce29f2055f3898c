"""rl-doctor, a package on PyPI named rldoctor: its command, one run's metrics at a time.

It reads TRL's names, so no column is renamed: ``reward``, ``reward_std``, ``kl``, ``entropy``,
``completions/mean_length``, ``completions/clipped_ratio``, ``grad_norm``, ``frac_reward_zero_std``.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.others.runs import (
    ENTROPY,
    GRADIENT,
    GROUPS,
    HACKING,
    KL,
    LENGTH,
    OTHER,
    PLATEAU,
    REWARD,
    LabelledRun,
    Said,
    write_metrics,
)

PROGRAM = "import sys; from rl_doctor.cli import main; sys.exit(main())"

KINDS: dict[str, tuple[str, ...]] = {
    "advantage_collapse": (GROUPS,),
    "entropy_collapse": (ENTROPY,),
    "reward_hacking": (HACKING, REWARD),
    "length_pathology": (LENGTH, HACKING),
    "kl_drift": (KL,),
    "gradient_pathology": (GRADIENT, GROUPS),
    # "declining", or "stopped improving" since its best step
    "plateau": (REWARD, PLATEAU),
}
"""Detector -> kinds of fault that it finds."""

WARNINGS = ("WARNING", "CRITICAL")
STEP = re.compile(r"\bsteps?[ -](\d+)")


def judge_metrics(
    python: str, runs: Sequence[LabelledRun], folder: Path
) -> list[list[Said]]:
    """Return what is found in the metrics of each run; files are written into ``folder``."""

    def diagnose(run: LabelledRun) -> list[Said]:
        path = folder / f"{run.name}.jsonl"
        write_metrics(run, path)
        command = [python, "-c", PROGRAM, "diagnose", str(path), "--format", "json"]
        return findings(json.loads(subprocess.check_output(command, text=True)))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(diagnose, runs))


def findings(report: dict[str, Any]) -> list[Said]:
    """Return what a report says; the steps of a finding are all that its words name."""
    found = []
    for one in report["findings"]:
        if one["severity"] in (*WARNINGS, "INFO"):
            words = " ".join([one["summary"], *one["evidence"]])
            steps = {float(step) for step in STEP.findall(words)}
            kinds = frozenset(KINDS.get(one["detector"], (OTHER,)))
            is_warning = one["severity"] in WARNINGS
            said = Said(one["detector"], is_warning, kinds, tuple(sorted(steps)))
            found.append(said)
    return found
