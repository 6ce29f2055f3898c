"""Thresholds: how a check declares its own, what a run is judged by, and how values meet them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from rlreport.text.messages import marked

N = TypeVar("N", int, float)
L = TypeVar("L", bound="Limits")

CONTRACT = marked("this project's convention")
AGENTS = marked("verl issues 1569, 4998 (calls vanish); AReaL (share at the limit)")
ENTROPY = marked("entropy-collapse threads of TRL, verl and DAPO")
EOS = marked("TRL val/num_eos_tokens and --missing_eos_penalty")
MISMATCH = marked("NeMo-RL guides; verl FAQ")
PUBLIC_RUNS = marked("public GRPO runs")
RL_BOARD = marked("RLLoggingBoard post")


class Limit(Generic[N]):
    """One threshold, declared in a class of ``Limits``: on an instance it is its value.

    Its ``default`` holds unless a file of thresholds gives another; ``key`` is its name there and
    in its ``owner``; ``source`` is where the number comes from.
    """

    __slots__ = ("default", "key", "meaning", "owner", "source", "unit")
    owner: type[Limits]
    key: str

    def __init__(self, default: N, unit: str, meaning: str, source: str = CONTRACT) -> None:
        self.default: N = default
        self.unit = unit
        self.meaning = meaning
        self.source = source

    def __set_name__(self, owner: type[Limits], name: str) -> None:
        self.owner, self.key = owner, name

    @overload
    def __get__(self, limits: None, owner: type[Limits]) -> Limit[N]: ...
    @overload
    def __get__(self, limits: Limits, owner: type[Limits]) -> N: ...
    def __get__(self, limits: Limits | None, owner: type[Limits]) -> Limit[N] | N:
        if limits is None:
            return self
        value: N = limits.given.get(self.key, self.default)
        return value


class Limits:
    """The thresholds of a check: a class whose attributes are ``Limit``.

    Attributes:
        given: those that differ from their defaults, by name.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    @classmethod
    def declared(cls) -> dict[str, Limit[float]]:
        """Return the thresholds by name, in their order."""
        return {name: limit for name, limit in vars(cls).items() if isinstance(limit, Limit)}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a run is judged by: ``thresholds[KlExplosion].warn``.

    Attributes:
        given: what differs from the defaults, by the name of the class and of the threshold.
    """

    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, kind: type[L]) -> L:
        return kind(self.given.get(kind.__name__, {}))


def above(value: float, limit: float) -> bool:
    """Say whether the value is over the limit by more than rounding; NaN is not."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def below(value: float, limit: float) -> bool:
    """Say whether the value is under the limit by more than rounding; NaN is not."""
    return value < limit and not math.isclose(value, limit, rel_tol=1e-9)


def at_least(value: float, limit: float) -> bool:
    """Say whether the value reaches the limit, give or take rounding; NaN does not."""
    return value >= limit or math.isclose(value, limit, rel_tol=1e-9)
