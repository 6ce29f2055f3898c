"""Limits of checks: their values, units and sources, and thresholds from a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar, overload

from rlreport.figures.rounding import rounded
from rlreport.text.messages import translatable

Op = Literal[">", ">=", "<", "<="]


class LimitKind(StrEnum):
    """What kind of number a limit is; it decides how the number is written."""

    SHARE = "share"  # a part of a whole, from 0 to 1; written as a percentage
    COUNT = "count"
    VALUE = "value"  # in the unit of the limit, such as nats
    RATIO = "ratio"  # a multiple of another number, such as a mean of the first window
    ERRORS = "standard errors"


N = TypeVar("N", int, float)
L = TypeVar("L", bound="Limits")

CONTRACT = translatable("this project's convention")
EOS = translatable("TRL val/num_eos_tokens and --missing_eos_penalty")
LMFLOW = translatable("LMFlow post on PPO training")
RL_BOARD = translatable("RLLoggingBoard post")


class Limit(Generic[N]):
    """A threshold, declared as a class attribute: ``class KlExplosion(Limits): warn = Limit(...)``.

    ``KlExplosion.warn`` is this declaration; an instance's ``warn`` is the value for a run:
    ``default``, unless a thresholds file sets another.

    Attributes:
        default: the value unless a thresholds file sets another.
        kind: decides how numbers are written.
        unit: of the value and the numbers compared with it, "" for none.
        meaning: what is compared with it, for readers.
        source: where the default comes from.
        owner: the class that declares it.
        key: its name in that class, and in a thresholds file.
    """

    __slots__ = ("default", "key", "kind", "meaning", "owner", "source", "unit")
    owner: type[Limits]
    key: str

    def __init__(
        self,
        default: N,
        kind: LimitKind,
        unit: str,
        meaning: str,
        source: str = CONTRACT,
    ) -> None:
        self.default: N = default
        self.kind = kind
        self.unit = unit
        self.meaning = meaning
        self.source = source

    def __set_name__(self, owner: type[Limits], name: str) -> None:
        self.owner = owner
        self.key = name

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
    """Base class for the thresholds of a check; subclasses declare ``Limit`` attributes."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        # values that replace defaults: name of the threshold -> value
        self.given = given

    @classmethod
    def declared(cls) -> dict[str, Limit[float]]:
        """Return name -> declaration of the thresholds of this class itself, not of its bases."""
        return {
            name: limit for name, limit in vars(cls).items() if isinstance(limit, Limit)
        }


@dataclass(frozen=True, slots=True)
class Tested:
    """A value that was compared with a limit."""

    limit: Limit[Any]
    op: Op
    bound: float  # the limit's value for this run
    value: float  # as a multiple of another number if the limit is one
    met: bool  # whether ``value op bound``
    # of which the value is the mean, None if of others
    steps: tuple[int, int] | None = None

    @property
    def nearness(self) -> float:
        """The value as a part of its limit."""
        return self.value / self.bound


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All threshold values for a run; ``thresholds[KlExplosion].warn`` is one of them."""

    # values that replace defaults: class name -> name of the threshold -> value
    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, kind: type[L]) -> L:
        return kind(self.given.get(kind.__name__, {}))

    def value(self, limit: Limit[N]) -> N:
        """Return the value of a limit for this run."""
        value: N = getattr(self[limit.owner], limit.key)
        return value

    def test(self, limit: Limit[Any], op: Op, value: float, of: float = 1.0) -> Tested:
        """Compare a value with a limit.

        Args:
            limit: as declared, such as ``KlExplosion.warn``.
            op: how a value that is a problem compares with the limit.
            value: the value; NaN meets no limit.
            of: if the limit is a multiple of another number, such as the mean of the first
                window, this number.
        """
        bound: float = self.value(limit)
        return Tested(
            limit=limit,
            op=op,
            bound=bound,
            # Any value is infinitely many times 0.
            value=rounded(value / of) if of else math.inf,
            met=bool(meets(op, value, bound * of)),
        )


def meets(op: Op, value: float, limit: float) -> bool:
    """Return whether ``value op limit``; False for NaN.

    Numbers with 9 equal digits count as equal: a computed share of 0.3 may be 0.30000000000000004.
    """
    if math.isclose(value, limit, rel_tol=1e-9):
        return op.endswith("=")
    return value > limit if op.startswith(">") else value < limit


def problem_of(declared: Mapping[str, Limit[float]], key: str, value: object) -> str:
    """Return what is wrong with a value of a thresholds file, "" if nothing is.

    Args:
        declared: name -> declaration of the thresholds that its section may set.
        key: the name that the file sets.
        value: what the file sets it to; an integer if the threshold's default is one.
    """
    if key not in declared:
        return f"has no threshold {key!r}; known: {', '.join(declared)}"
    is_bool = isinstance(value, bool)  # which is an int, too
    if isinstance(declared[key].default, int):
        if is_bool or not isinstance(value, int):
            return f"{key} must be an integer"
    elif is_bool or not isinstance(value, int | float):
        return f"{key} must be a number"
    # NaN fails this comparison. ``isfinite`` refuses an int that is larger than any float.
    if not abs(value) <= sys.float_info.max:
        return f"{key} must be finite"
    return ""
