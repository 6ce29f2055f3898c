"""Read trainer metrics from the console logs of trainers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rlreport.errors import UnusableInputError
from rlreport.formats.metric_rows import (
    Record,
    flat_numbers,
)
from rlreport.metrics.consoles import Cells, console_steps
from rlreport.metrics.lines import (
    ROUNDED,
    UnusedRows,
    lines_of,
    number,
)

# Matches a zero with a fixed number of decimals; Python prints 0 itself as 0 or 0.0
_ROUNDED_ZERO = re.compile(r"-?0\.00+")


def console_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a console log, such as verl's or DeepSpeed-Chat's.

    A metric that is 0.000 in all its lines is left out: it may be any number that is rounded to 0,
    such as a learning rate.
    """
    names: set[str] = set()
    known: set[str] = set()  # names of metrics with a value that is not rounded to 0
    # The file is read twice; unused rows are counted in the second pass only.
    for _, cells in _console_lines(path, UnusedRows()):
        names |= cells.keys()
        known.update(n for n in cells if not _ROUNDED_ZERO.fullmatch(cells[n]))
    for _ in names - known:
        unused.add(ROUNDED, line=None)
    found_any = False
    for step, cells in _console_lines(path, unused):
        event = {name: number(cells[name]) for name in cells if name in known}
        metrics = dict(flat_numbers(event))
        if metrics:
            found_any = True
            yield step, metrics
    if not found_any:
        raise UnusableInputError(
            f"{path.name}: not a metrics file; supported are trainer_state.json, .jsonl, .csv, "
            ".json, TensorBoard events, run files of W&B, MLflow's folder `metrics`, Trackio's "
            "database and console logs of verl and DeepSpeed-Chat"
        )


def _console_lines(path: Path, unused: UnusedRows) -> Iterator[tuple[int, Cells]]:
    """Yield the step and (metric -> printed number) of each step in a console log."""
    yield from console_steps(lines_of(path, unused=unused))
