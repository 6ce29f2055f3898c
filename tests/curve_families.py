"""Families of random curves with known truth, and how often a reading of them is right.

``python -m tests.curve_families 300`` prints the tables of docs/checks.md, with more curves of each
family than the tests read. Seeds are fixed: the same curves everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.curve import Curve, read_curve
from rlreport.check.prepared import Kind

Floats = NDArray[np.float64]
Random = np.random.Generator

LENGTHS = (12, 30, 100)
PLANTED_LENGTHS = (30, 60, 100, 300)


def autocorrelated(random: Random, count: int, rho: float) -> Floats:
    """Return an AR(1) process of variance 1."""
    noise = random.normal(size=count)
    values = np.empty(count)
    values[0] = noise[0]
    for index in range(1, count):
        innovation = np.sqrt(1 - rho**2) * noise[index]
        values[index] = rho * values[index - 1] + innovation
    return values


def _normal(random: Random, count: int) -> Floats:
    return random.normal(size=count)


def _binary(random: Random, count: int) -> Floats:
    return random.binomial(64, 0.3, size=count) / 64


def _rho_5(random: Random, count: int) -> Floats:
    return autocorrelated(random, count, 0.5)


def _rho_8(random: Random, count: int) -> Floats:
    return autocorrelated(random, count, 0.8)


def _with_sampling_noise(random: Random, count: int) -> Floats:
    return autocorrelated(random, count, 0.8) + random.normal(size=count)


def _sparse(share: float) -> Callable[[Random, int], Floats]:
    def family(random: Random, count: int) -> Floats:
        return (random.random(count) < share).astype(np.float64)

    return family


def _sparse_sizes(random: Random, count: int) -> Floats:
    is_some = random.random(count) < 0.1
    return np.where(is_some, random.random(count), 0.0)


def _sparse_counts(random: Random, count: int) -> Floats:
    return random.binomial(8, 0.02, size=count) / 8


def _carried_forward(random: Random, count: int) -> Floats:
    return np.repeat(random.normal(size=count // 5 + 1), 5)[:count]


@dataclass(frozen=True)
class Flat:
    """A kind of curve without a trend."""

    name: str
    make: Callable[[Random, int], Floats]
    kind: Kind = Kind.SERIES


FLAT = (
    Flat("normal noise", _normal),
    Flat("shares of 64 responses", _binary),
    Flat("evaluations", _normal, Kind.EVALUATIONS),
    Flat("AR(1), ρ = 0.5", _rho_5),
    Flat("AR(1), ρ = 0.8", _rho_8),
    Flat("AR(1), ρ = 0.8, and as much sampling noise", _with_sampling_noise),
    Flat("1 in 5% of steps, else 0", _sparse(0.05)),
    Flat("1 in 20% of steps, else 0", _sparse(0.2)),
    Flat("any size in 10% of steps, else 0", _sparse_sizes),
    Flat("shares of 8 responses, 2%", _sparse_counts),
    Flat("1 in one of 30 steps, else 0", _sparse(1 / 30)),
    Flat("carried forward by 5", _carried_forward),
)


class Alarms(NamedTuple):
    """How many of ``curves`` without a trend are said to have changed, or to have an event."""

    curves: int
    changed: int
    events: int

    def cell(self) -> str:
        changed = 100 * self.changed / self.curves
        events = 100 * self.events / self.curves
        return f"{changed:.1f} · {events:.1f}"


def alarms(family: Flat, count: int, curves: int, seed: int = 0) -> Alarms:
    """Return how often flat curves of ``count`` values are said to rise, fall or climb."""
    changed = 0
    events = 0
    for curve in _read(family.make, count, curves, seed, family.kind):
        changed += curve.rose or curve.fell
        events += curve.fall is not None or curve.climb is not None
    return Alarms(curves, changed, events)


class Planted(NamedTuple):
    """A curve, and the index of the first value that is part of its change."""

    values: Floats
    start: int


def gradual_fall(random: Random, count: int) -> Planted:
    """Return a fall from 0.60 to 0.08 over a tenth to 30% of the values."""
    start = int(random.uniform(0.3, 0.6) * count)
    width = max(int(random.uniform(0.1, 0.3) * count), 1)
    stop = start + width
    ramp = np.interp(np.arange(count), [start, stop], [0.0, 1.0])
    return Planted(0.6 - 0.52 * ramp + random.normal(0, 0.05, count), start)


def valley(random: Random, count: int) -> Planted:
    """Return a stretch of a sixth of the values that lies 5 standard deviations lower."""
    start = int(random.uniform(0.3, 0.6) * count)
    values = random.normal(size=count)
    values[start : start + max(3, count // 6)] -= 5
    return Planted(values, start)


def rise(random: Random, count: int) -> Planted:
    """Return a rise by 4 standard deviations over 60% of the values."""
    stop = 0.6 * count
    ramp = np.interp(np.arange(count), [0, stop], [0.0, 4.0])
    return Planted(ramp + random.normal(size=count), 0)


class Power(NamedTuple):
    """How many of ``curves`` with a planted change are found, and dated right."""

    curves: int
    found: int
    dated: int | None  # None of changes that have no onset

    def cell(self) -> str:
        found = f"{100 * self.found / self.curves:.0f}"
        if self.dated is None:
            return found
        return f"{found} · {100 * self.dated / self.curves:.0f}"


def power(family: str, count: int, curves: int, seed: int = 0) -> Power:
    """Return how often a planted change is found, and its start lies in the onset's interval."""
    make = CHANGES[family]
    found = 0
    dated = 0
    for index in range(curves):
        random = np.random.default_rng([seed, index, count])
        planted = make(random, count)
        curve = read_curve(np.arange(count), planted.values)
        assert curve is not None
        if family == "rise":
            found += curve.rose
            continue
        event = curve.fall if family == "gradual fall" else curve.valley
        if event is not None:
            found += 1
            dated += event.low <= planted.start + 1 and planted.start <= event.high
    return Power(curves, found, None if family == "rise" else dated)


CHANGES: dict[str, Callable[[Random, int], Planted]] = {
    "gradual fall": gradual_fall,
    "valley": valley,
    "rise": rise,
}


def _read(
    make: Callable[[Random, int], Floats],
    count: int,
    curves: int,
    seed: int,
    kind: Kind,
) -> Iterable[Curve]:
    for index in range(curves):
        random = np.random.default_rng([seed, index, count])
        curve = read_curve(np.arange(count), make(random, count), kind=kind)
        assert curve is not None
        yield curve


def _table(head: str, rows: Iterable[tuple[str, list[str]]], columns: list[str]) -> str:
    lines = [f"| {head} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, cells in rows:
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(curves: int) -> str:
    """Return both tables as Markdown, from so many curves of each family and length."""
    flat = []
    for family in FLAT:
        cells = [alarms(family, count, curves).cell() for count in LENGTHS]
        flat.append((family.name, cells))
    planted = []
    for name in CHANGES:
        cells = [power(name, count, curves).cell() for count in PLANTED_LENGTHS]
        planted.append((name, cells))
    return "\n\n".join(
        [
            _table("no trend", flat, [f"n = {count}" for count in LENGTHS]),
            _table("change", planted, [f"n = {count}" for count in PLANTED_LENGTHS]),
        ]
    )


if __name__ == "__main__":
    print(tables(int(sys.argv[1])))
