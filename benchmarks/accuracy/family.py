"""What a family of random runs is: a fault, and how to draw a run with a fault of a given strength.

A fault of strength 0 is a healthy run: the twin of the faulty ones, with the same random shape.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.judge_runs import read
from rlreport.about.several_runs import several_runs
from rlreport.check.finding import Finding, Severity
from rlreport.check.verdict import Judged
from rlreport.tables import Tables
from tests.law_families import Case, random_shape

Random = np.random.Generator
Row = dict[str, Any]

LOUD = (Severity.WARNING, Severity.CRITICAL)
ANY = (Severity.INFO, *LOUD)


class Drawn(NamedTuple):
    """A random run, and the first and last step at which its fault may be said to begin."""

    tables: Tables
    onset: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Family:
    """Random runs with one fault.

    Attributes:
        check: id of the check that must find the fault.
        name: the fault in a few words; a check may have several families.
        unit: what a strength is ("share of responses").
        strengths: of the faults, the last one is that of the table of all checks.
        draw: makes a run of a random generator and a strength; 0 is a healthy run.
        severities: of a finding that counts as found.
        twins: whether runs of strength 0 are drawn, too.
        healthy_twins: whether these are healthy in every respect, not in that of the check alone.
        verdict: whether a verdict tells what there is to find, where no check of id ``check`` does.
    """

    check: str
    name: str
    unit: str
    strengths: tuple[float, ...]
    draw: Callable[[Random, float], Drawn]
    severities: tuple[Severity, ...] = LOUD
    twins: bool = True
    healthy_twins: bool = True
    verdict: Callable[[Judged[Finding]], bool] | None = None

    @property
    def key(self) -> str:
        """What tells the family from all others, also the seed of its runs."""
        return f"{self.check}: {self.name}"


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """Random healthy runs.

    Attributes:
        name: what is special about these runs.
        draw: makes a run of a random generator.
    """

    name: str
    draw: Callable[[Random], Tables]

    @property
    def key(self) -> str:
        """What tells the family from all others, also the seed of its runs."""
        return f"healthy: {self.name}"


AnyFamily = Family | Healthy


def random_of(key: str, seed: int) -> Random:
    """Return the random generator of one run of a family."""
    return np.random.default_rng([seed, *key.encode()])


def of_relation(case: Case) -> Family:
    """Return the family of a relation between fields, whose logs the tests declare."""

    def draw(random: Random, strength: float) -> Drawn:
        return Drawn(case.make(random, random_shape(random), strength))

    return Family(
        check=case.check,
        name=case.fault,
        unit=case.unit,
        strengths=case.strengths,
        draw=draw,
        severities=case.severities,
        healthy_twins=False,
    )


def line_of(row: Row) -> str:
    """Return a row as a line of JSON, without its end."""
    return json.dumps(row, ensure_ascii=False)


def read_rows(files: Mapping[str, Iterable[Row | str]]) -> Tables:
    """Return the tables of a run whose rows are written as lines into files of these names.

    A text among the rows is a line as it is, such as a torn one.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, rows in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = (row if isinstance(row, str) else line_of(row) for row in rows)
            path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        tables = read(folder)
        note = several_runs([folder], tables)
        return tables if note is None else replace(tables, notes=[*tables.notes, note])
