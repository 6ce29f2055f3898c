"""Count how often each tool was right, and write the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.others.runs import PLATEAU, LabelledRun, Said, distance

NEAR = 5
"""Steps that an onset may lie off the interval in which the fault begins."""


@dataclass(frozen=True)
class Counts:
    """What a tool said of the runs of one row.

    Attributes:
        runs: how many there are.
        warned: with a warning of any kind.
        right: with a warning of the fault's kind.
        noted: with a warning or a note of the fault's kind.
        near: of those, with a step at most ``NEAR`` from the fault's onset.
        beyond: with a warning of another kind than a plateau.
    """

    runs: int
    warned: int
    right: int
    noted: int
    near: int
    beyond: int


def count(runs: Sequence[LabelledRun], found: Sequence[Sequence[Said]]) -> Counts:
    """Count what was found in runs of one row, all faulty or all healthy."""
    warnings = [[one for one in said if one.is_warning] for said in found]
    of_kind = [
        [one for one in said if one.kinds & run.kinds]
        for run, said in zip(runs, found, strict=True)
    ]
    away = [distance(run, said) for run, said in zip(runs, of_kind, strict=True)]
    return Counts(
        runs=len(runs),
        warned=sum(map(bool, warnings)),
        right=sum(any(one.is_warning for one in said) for said in of_kind),
        noted=sum(map(bool, of_kind)),
        near=sum(steps is not None and steps <= NEAR for steps in away),
        beyond=sum(any(PLATEAU not in one.kinds for one in said) for said in warnings),
    )


def faulty_cell(counts: Counts) -> str:
    """Return a cell of a faulty row: any warning / right kind (or a note) / near the onset."""
    return f"{counts.warned} / {counts.right} ({counts.noted}) / {counts.near}"


def healthy_cell(counts: Counts) -> str:
    """Return a cell of a healthy row: any warning / of more than a plateau."""
    return f"{counts.warned} / {counts.beyond}"


def table(
    rows: dict[str, dict[str, Counts]], tools: Sequence[str], cell_of: str
) -> list[str]:
    """Return the lines of a Markdown table; ``cell_of`` is ``faulty`` or ``healthy``.

    ``rows`` are row -> tool -> its counts; a tool that cannot judge a row gets a dash.
    """
    cell = {"faulty": faulty_cell, "healthy": healthy_cell}[cell_of]
    lines = [
        f"| | runs | {' | '.join(tools)} |",
        f"|---|---:|{'---:|' * len(tools)}",
    ]
    for name, by_tool in rows.items():
        runs = max(counts.runs for counts in by_tool.values())
        cells = [cell(by_tool[tool]) if tool in by_tool else "–" for tool in tools]
        lines.append(f"| {name} | {runs} | {' | '.join(cells)} |")
    return lines
