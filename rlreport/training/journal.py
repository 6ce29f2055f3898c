"""The metrics of a training, written as they come: a JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

JOURNAL = "rlreport_metrics.jsonl"
SETTINGS = "rlreport_args.json"  # the arguments of the trainer


def start_journal(path: Path, rows: Iterable[Mapping[str, Any]] = ()) -> None:
    """Write a file with these rows, in place of that of an earlier training."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(_line, rows)), "utf-8")


def append_to_journal(path: Path, row: Mapping[str, Any]) -> None:
    # Opened for each row: forked processes share no buffer, and the row is there after a crash.
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(row))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(dict(row), default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Return a tensor or an array of one number as a number, another object as text."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return str(value)[:200]
