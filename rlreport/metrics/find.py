"""Metrics files beside rollouts."""

from __future__ import annotations

import os
from pathlib import Path

from rlreport.metrics.records import STEP_KEYS, is_event, parsed

_DEPTH = 4
_PEEK = 1 << 20
_EVENTS = "events.out.tfevents."


def find_metrics(folder: str | Path) -> list[Path]:
    """Return the metrics files in ``folder`` and below, sorted.

    Found by name (``trainer_state.json``, TensorBoard events) or by content: ``.jsonl`` whose
    first line is a step with numbers, ``.csv`` with a step column among numbers. Of several
    ``trainer_state.json``, as checkpoints keep them, the longest history alone is taken. Links
    to folders are not followed.
    """
    root = Path(folder)
    found: list[Path] = []
    states: list[Path] = []
    for place, folders, names in os.walk(root):
        deep = len(Path(place).relative_to(root).parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for name in names:
            path = Path(place) / name
            if not path.is_file():
                continue  # a pipe would be waited for
            if name == "trainer_state.json":
                states.append(path)
            elif name.startswith(_EVENTS) or _holds_metrics(path):
                found.append(path)
    if states:
        found.append(max(states, key=lambda path: (_size(path), str(path))))
    return sorted(found)


def _holds_metrics(path: Path) -> bool:
    if path.suffix not in (".jsonl", ".csv"):
        return False
    try:
        with path.open("rb") as opened:
            first, second = opened.readline(_PEEK), opened.readline(_PEEK)
    except OSError:
        return False
    if path.suffix == ".csv":
        return _is_table(first, second)
    try:
        return is_event(parsed(first))
    except ValueError:
        return False


def _is_table(header: bytes, row: bytes) -> bool:
    names = header.decode("utf-8-sig", errors="replace").strip().split(",")
    cells = row.decode(errors="replace").strip().split(",")
    if len(names) < 2 or len(cells) != len(names) or not set(STEP_KEYS) & set(names):
        return False
    return all(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
