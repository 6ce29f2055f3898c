"""All families of random runs, faulty and healthy."""

from __future__ import annotations

from benchmarks.accuracy import agents, healthy, lengths, logs, policy, reward, texts
from benchmarks.accuracy.family import AnyFamily, Family, Healthy, of_relation
from tests.law_cases import CASES

FAMILIES: tuple[Family, ...] = (
    *reward.FAMILIES,
    *policy.FAMILIES,
    *lengths.FAMILIES,
    *logs.FAMILIES,
    *texts.FAMILIES,
    *agents.FAMILIES,
    *map(of_relation, CASES),
)
HEALTHY: tuple[Healthy, ...] = (
    *healthy.HEALTHY,
    *texts.HEALTHY,
    *agents.HEALTHY,
)
BY_KEY: dict[str, AnyFamily] = {
    **{family.key: family for family in FAMILIES},
    **{family.key: family for family in HEALTHY},
}
