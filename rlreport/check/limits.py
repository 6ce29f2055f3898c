"""Thresholds: how checks declare them, their values for a run, and comparisons with values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from rlreport.check.finding import Op
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
    """A threshold, declared as an attribute of a class of ``Limits``; an instance has its value.

    ``default`` applies unless a thresholds file sets another value under ``key``, the name of
    the attribute in its ``owner``; ``source`` is where the number comes from.
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
        given: values other than the defaults, by name.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    @classmethod
    def declared(cls) -> dict[str, Limit[float]]:
        """Return the thresholds of this class by name, in their order."""
        return {name: limit for name, limit in vars(cls).items() if isinstance(limit, Limit)}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All threshold values for a run, by class: ``thresholds[KlExplosion].warn``.

    Attributes:
        given: values other than the defaults, by the names of the class and of the threshold.
    """

    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, kind: type[L]) -> L:
        return kind(self.given.get(kind.__name__, {}))


def above(value: float, limit: float) -> bool:
    """Return whether the value exceeds the limit by more than rounding; False for NaN."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def at_least(value: float, limit: float) -> bool:
    """Return whether the value reaches the limit, up to rounding; False for NaN."""
    return value >= limit or math.isclose(value, limit, rel_tol=1e-9)


def meets(op: Op, value: float, limit: float) -> bool:
    """Return whether ``value op limit`` holds, up to rounding; False for NaN."""
    if op in ("<", "<="):
        value, limit = -value, -limit
    return above(value, limit) if op in (">", "<") else at_least(value, limit)
