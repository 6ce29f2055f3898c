"""Write a run as a folder of rank files with its truth."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .figures import Row

_DIGITS = {"values": 4, "token_rewards": 4, "logprobs": 5, "ref_logprobs": 5}
_LONG = 60_000  # tokens of a run from which numbers are written shorter


def _rounded(row: Row, fewer: int) -> Row:
    short: Row = {}
    for name, value in row.items():
        if isinstance(value, list) and value and isinstance(value[0], float):
            digits = _DIGITS.get(name, 5) - fewer
            short[name] = [round(x, digits) for x in value]
        elif isinstance(value, float):
            short[name] = round(value, 6)
        else:
            short[name] = value
    return short


def write_run(
    folder: Path, rows: Sequence[Row], truth: Mapping[str, Any], ranks: int = 2
) -> int:
    """Write ``rank_<n>.jsonl.gz`` and ``truth.json``; return the size of the largest file.

    The same rows give the same bytes (no times, no names in the gzip header).
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("rank_*.jsonl.gz"):
        old.unlink()
    fewer = 1 if sum(len(r.get("logprobs", ())) for r in rows) > _LONG else 0
    largest = 0
    groups = any("group_id" in row for row in rows)
    for rank in range(ranks):
        # A group stays on one rank, as trainers keep it.
        mine = [
            row for i, row in enumerate(rows)
            if (row["group_id"] if groups else i) % ranks == rank
        ]  # fmt: skip
        path = folder / f"rank_{rank}.jsonl.gz"
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            for row in mine:
                line = json.dumps(_rounded(row, fewer), ensure_ascii=False) + "\n"
                file.write(line.encode())
        largest = max(largest, path.stat().st_size)
    (folder / "truth.json").write_text(
        json.dumps(truth, indent=1) + "\n", encoding="utf8"
    )
    return largest


def read_run(folder: Path) -> list[Row]:
    """Read the rows of a folder's rank files, with any suffix."""
    rows: list[Row] = []
    for path in sorted(folder.glob("*.jsonl*")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf8") as file:
            rows += [json.loads(line) for line in file if line.strip()]
    return rows
