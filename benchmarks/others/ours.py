"""rlreport: the metrics of a run, or its logs of responses, judged by this checkout."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.judge_runs import read
from benchmarks.others.runs import (
    ENTROPY,
    FUNCTION,
    GRADIENT,
    GROUPS,
    HACKING,
    KL,
    LENGTH,
    OTHER,
    PLATEAU,
    REWARD,
    VARIETY,
    LabelledRun,
    Said,
    write_metrics,
)
from rlreport.check import judge
from rlreport.check.finding import Finding, Severity
from rlreport.check.run import Run

KINDS: dict[str, tuple[str, ...]] = {
    "reward_collapse": (REWARD,),
    "watched_reward_fall": (REWARD, HACKING),
    "kl_explosion": (KL,),
    "entropy_collapse": (ENTROPY,),
    "entropy_explosion": (ENTROPY,),
    "length_collapse": (LENGTH,),
    "length_hacking": (LENGTH, HACKING),
    "missing_eos": (LENGTH,),
    "tiny_responses": (LENGTH,),
    "gradient_explosion": (GRADIENT,),
    "nan_metrics": (GRADIENT,),
    "reward_hacking_token": (HACKING,),
    "unearned_gain": (HACKING,),
    "zero_variance_groups": (GROUPS,),
    "reward_shift": (FUNCTION,),
    "diversity_collapse": (VARIETY,),
    "loops": (VARIETY,),
    "reward_stalled": (PLATEAU,),
}
"""Check -> kinds of fault that it finds; others are of the kind ``OTHER``."""


def judge_metrics(runs: Iterable[LabelledRun]) -> list[list[Said]]:
    """Return what is found in the metrics of each run."""
    found = []
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            write_metrics(run, Path(folder) / "metrics.jsonl")
            found.append(_findings(Path(folder)))
    return found


def judge_rollouts(runs: Iterable[LabelledRun]) -> list[list[Said]]:
    """Return what is found in the logs of responses of each run, which must have some."""
    return [_findings(run.rollouts) for run in runs if run.rollouts]


def _findings(folder: Path) -> list[Said]:
    return [_said(one) for one in judge(Run(read(folder))).findings]


def _said(finding: Finding) -> Said:
    kinds = frozenset(KINDS.get(finding.id, (OTHER,)))
    steps = (float(finding.onset.step),) if finding.onset else ()
    return Said(finding.id, finding.severity != Severity.INFO, kinds, steps)
