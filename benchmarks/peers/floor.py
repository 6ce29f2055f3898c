"""The least that any reader of a log does: parse each line, make arrays of its numbers.

``python -m benchmarks.peers.floor LOG RESULT``: nothing is kept, so memory is one line's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson


def main(log: Path, result: Path) -> None:
    """Read a log; write how many rows and numbers it has."""
    rows = 0
    numbers = 0
    for path in sorted(log.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                rows += 1
                numbers += numbers_in(orjson.loads(line))
    text = f"{numbers / 1e6:,.1f} million numbers, none kept"
    result.write_text(json.dumps({"rows": rows, "text": text}))


def numbers_in(row: dict[str, Any]) -> int:
    """Make an array of each list of numbers; return how many numbers there are."""
    count = 0
    for value in row.values():
        if isinstance(value, list) and value and not isinstance(value[0], str):
            count += len(np.array(value, np.float32))
    return count


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
