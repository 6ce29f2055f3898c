"""Judge the runs of the families, on all processors, and count."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from benchmarks.accuracy.families import BY_KEY, FAMILIES, HEALTHY
from benchmarks.accuracy.family import AnyFamily, Drawn, Family, random_of
from rlreport.check import judge
from rlreport.check.finding import Finding, Severity
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.check.verdict import Judged

TWINS = 4
"""Of so many runs with a fault, one has a healthy twin, which takes longer: all checks judge it."""

BATCH = 20
"""Runs that a process judges before it says what it found."""


class Job(NamedTuple):
    """Runs of one family and strength, of the seeds ``first`` to ``stop`` without it."""

    key: str
    strength: float
    first: int
    stop: int


class Seen(NamedTuple):
    """What a verdict says of one run.

    Attributes:
        key, strength, seed: of the run.
        found: whether the check of the family, or the verdict, found what is planted.
        away: steps between the onset told and the nearest step at which the fault may be said to
            begin; None where one of the two is not known.
        alarms: ids of the checks that warn.
    """

    key: str
    strength: float
    seed: int
    found: bool
    away: int | None
    alarms: tuple[str, ...]


POWER = (
    "reward_collapse",
    "learning",
    "kl_explosion",
    "length_collapse",
    "entropy_collapse",
    "entropy_explosion",
)
"""Checks whose families are measured at each of their strengths; others at the clear one alone."""


def jobs(runs: int, keys: Sequence[str]) -> Iterator[Job]:
    """Yield what is to be judged: each family at its strengths, and its healthy twins."""
    for family in FAMILIES:
        if family.key in keys:
            has_curve = family.check in POWER
            strengths = family.strengths if has_curve else family.strengths[-1:]
            for strength in strengths:
                yield from _batches(family.key, strength, runs)
            if family.twins:
                yield from _batches(family.key, 0.0, math.ceil(runs / TWINS))
    for healthy in HEALTHY:
        if healthy.key in keys:
            yield from _batches(healthy.key, 0.0, runs)


def _batches(key: str, strength: float, runs: int) -> Iterator[Job]:
    for first in range(1, runs + 1, BATCH):
        yield Job(key, strength, first, min(first + BATCH, runs + 1))


def measure(
    todo: Sequence[Job], workers: int | None = None
) -> Iterator[tuple[Job, list[Seen]]]:
    """Yield what was seen in each job's runs, in order, whatever the number of processes."""
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        yield from zip(todo, pool.map(_judge_batch, todo), strict=True)


def _judge_batch(job: Job) -> list[Seen]:
    family = BY_KEY[job.key]
    seeds = range(job.first, job.stop)
    return [judge_one(family, job.strength, seed) for seed in seeds]


def judge_one(family: AnyFamily, strength: float, seed: int) -> Seen:
    """Draw a run of a family and judge it: a healthy one by all checks, a faulty one by its own."""
    random = random_of(family.key, seed)
    if not isinstance(family, Family):
        alarms = _alarms(judge(Run(family.draw(random))))
        return Seen(family.key, strength, seed, found=False, away=None, alarms=alarms)
    drawn = family.draw(random, strength)
    run = Run(drawn.tables)
    if strength and family.verdict is None:
        finding = BY_ID[family.check].run(run).finding
        return _seen(family, strength, seed, drawn, finding)
    judged = judge(run)
    of_check = [one for one in judged.findings if one.id == family.check]
    finding = of_check[0] if of_check else None
    seen = _seen(family, strength, seed, drawn, finding)
    if family.verdict is not None:
        seen = seen._replace(found=family.verdict(judged))
    return seen._replace(alarms=_alarms(judged))


def _seen(
    family: Family, strength: float, seed: int, drawn: Drawn, finding: Finding | None
) -> Seen:
    """Return what the finding of the family's check tells of a run, without alarms of others."""
    is_found = finding is not None and finding.severity in family.severities
    away = _distance(finding, drawn.onset) if is_found else None
    return Seen(family.key, strength, seed, is_found, away, alarms=())


def _alarms(judged: Judged[Finding]) -> tuple[str, ...]:
    """Return the ids of the checks that warn."""
    loud = [one.id for one in judged.findings if one.severity != Severity.INFO]
    return tuple(sorted(loud))


def _distance(finding: Finding | None, onset: tuple[int, int] | None) -> int | None:
    if finding is None or finding.onset is None or onset is None:
        return None
    low, high = onset
    step = finding.onset.step
    return max(low - step, 0, step - high)
