"""Steps of what a tracker logged: those of the trainer, not the tracker's own count.

W&B and Trackio count the rows that they are given. A trainer that logs several rows per step, such
as its metrics and a table, gets a count that rises by several per step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlreport.formats.metric_rows import STEP_KEYS, step_in

# What a trainer counts comes before what a tracker counts in STEP_KEYS.
_OF_TRAINERS = STEP_KEYS[: STEP_KEYS.index("_step")]
# Maximum number of rows that wait for the first one with a step of the trainer
_MAX_WAITING = 1_000

Row = dict[str, Any]


def trainer_step(row: Mapping[str, Any]) -> int | None:
    """Return the step that the trainer logged with a row, None without one."""
    counted = {key: row[key] for key in _OF_TRAINERS if key in row}
    return step_in(counted)


def with_trainer_steps(
    rows: Iterable[tuple[int | None, Row]],
) -> Iterator[tuple[int | None, Row]]:
    """Yield (step, row) for each (the tracker's own count, row), in the order of the log.

    If the trainer logs its step with some rows, each other row is of the last step before it, as
    W&B has it; rows before the first step are of that one at the latest. Else the tracker's count
    is the step.
    """
    waiting: list[tuple[int | None, Row]] = []
    is_waiting = True
    last: int | None = None
    for own, row in rows:
        step = trainer_step(row)
        if step is None and is_waiting:
            waiting.append((own, row))
            if len(waiting) == _MAX_WAITING:
                # So many rows show that the trainer logs no step.
                yield from waiting
                waiting.clear()
                is_waiting = False
            continue
        if step is not None:
            for own_before, earlier in waiting:
                is_earlier = own_before is not None and own_before < step
                yield (own_before if is_earlier else step), earlier
            waiting.clear()
            is_waiting = False
            last = step
        yield (own if last is None else last), row
    yield from waiting
