"""Thresholds: their declaration by checks, their values for a run, and comparisons with them."""

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
    """A threshold, declared as a class attribute: ``class KlExplosion(Limits): warn = Limit(...)``.

    ``KlExplosion.warn`` is this declaration; an instance's ``warn`` is the value for a run:
    ``default``, unless a thresholds file sets another. ``owner`` and ``key`` are the class and
    the name of the attribute; ``source`` is where the default comes from.
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
    """Base class for the thresholds of a check, which a subclass declares as ``Limit`` attributes.

    Attributes:
        given: values that replace defaults: name of the threshold -> value.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    @classmethod
    def declared(cls) -> dict[str, Limit[float]]:
        """Return the thresholds declared by this class: name -> declaration, in order."""
        return {name: limit for name, limit in vars(cls).items() if isinstance(limit, Limit)}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All threshold values for a run; ``thresholds[KlExplosion].warn`` is one of them."""

    # values that replace defaults: class name -> name of the threshold -> value
    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, kind: type[L]) -> L:
        return kind(self.given.get(kind.__name__, {}))


def above(value: float, limit: float) -> bool:
    """Return whether value > limit by more than a rounding error; False for NaN."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def at_least(value: float, limit: float) -> bool:
    """Return whether value >= limit, except for rounding errors; False for NaN."""
    return value >= limit or math.isclose(value, limit, rel_tol=1e-9)


def meets(op: Op, value: float, limit: float) -> bool:
    """Return whether ``value op limit`` is true, except for rounding errors; False for NaN."""
    if op in ("<", "<="):
        value, limit = -value, -limit
    return above(value, limit) if op in (">", "<") else at_least(value, limit)
