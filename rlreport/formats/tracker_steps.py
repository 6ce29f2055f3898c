"""Steps of what a tracker logged: those of the trainer, not the tracker's own count.

W&B and Trackio count the rows that they are given. A trainer that logs several rows per step, such
as its metrics and a table, gets a count that rises by several per step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from rlreport.formats.metric_rows import STEP_KEYS, step_in

# What a trainer counts comes before what a tracker counts in STEP_KEYS.
_OF_TRAINERS = STEP_KEYS[: STEP_KEYS.index("_step")]
# Maximum number of rows that wait for the first one with a step of the trainer
_MAX_WAITING = 1_000

Logged = TypeVar("Logged")


def trainer_step(row: Mapping[str, Any]) -> int | None:
    """Return the step that the trainer logged with a row, None without one."""
    counted = {key: row[key] for key in _OF_TRAINERS if key in row}
    return step_in(counted)


def with_trainer_steps(
    rows: Iterable[tuple[int | None, int | None, Logged]],
) -> Iterator[tuple[int | None, Logged]]:
    """Yield (step, row) for each (the tracker's own count, the trainer's step, row) of a log.

    If the trainer logs its step with some rows, each other row is of the last step before it, as
    W&B has it. Rows before the first of these steps have the tracker's count, but at most that
    step. If the trainer logs no step, the tracker's count is the step.
    """
    waiting: list[tuple[int | None, Logged]] = []
    is_waiting = True  # for the first step of the trainer
    last_step: int | None = None
    for own, step, row in rows:
        if step is None and is_waiting:
            waiting.append((own, row))
            if len(waiting) == _MAX_WAITING:
                # So many rows show that the trainer logs no step.
                yield from waiting
                waiting.clear()
                is_waiting = False
            continue
        if step is not None:
            for count, earlier_row in waiting:
                yield (step if count is None else min(count, step)), earlier_row
            waiting.clear()
            is_waiting = False
            last_step = step
        yield (own if last_step is None else last_step), row
    yield from waiting


def with_steps_of_history(
    lines: Iterable[tuple[int, Any]],
) -> Iterator[tuple[int, Any]]:
    """Yield (line number, event) for each line of a log, with the trainer's step as ``_step``.

    Lines without W&B's own count ``_step`` are not changed.
    """
    for step, (number, event) in with_trainer_steps(map(_line_with_steps, lines)):
        is_history = isinstance(event, dict) and "_step" in event
        if is_history and trainer_step(event) is None:
            yield number, {**event, "_step": step}
        else:
            yield number, event


def _line_with_steps(
    line: tuple[int, Any],
) -> tuple[int | None, int | None, tuple[int, Any]]:
    event = line[1]
    if not isinstance(event, dict):
        return None, None, line
    return step_in({"_step": event.get("_step")}), trainer_step(event), line
