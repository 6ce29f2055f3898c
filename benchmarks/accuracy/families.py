"""All families of random runs, faulty and healthy."""

from __future__ import annotations

from benchmarks.accuracy import healthy, lengths, logs, policy, reward
from benchmarks.accuracy.family import Family, Healthy, of_relation
from tests.law_cases import CASES

FAMILIES: tuple[Family, ...] = (
    *reward.FAMILIES,
    *policy.FAMILIES,
    *lengths.FAMILIES,
    *logs.FAMILIES,
    *(of_relation(case, number) for number, case in enumerate(CASES, 1)),
)
HEALTHY: tuple[Healthy, ...] = healthy.HEALTHY
