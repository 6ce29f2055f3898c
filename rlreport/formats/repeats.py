"""Files that repeat the rows of the file before under a new step, as TRL writes them.

TRL keeps the rows of its last generation and writes all of them at every log event. Logging
more often than generating therefore repeats a whole file, only ``step`` being new.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import xxhash

from rlreport.formats.containers import Source, iterate
from rlreport.formats.values import integer

REPEATING_FORMATS = frozenset({"trl"})
"""Formats whose writer does so; other writers' equal files are honest."""


def repeated_files(
    files: Sequence[tuple[str, Source]], container: str = "parquet"
) -> dict[str, str]:
    """Return the files that repeat another one of a smaller step: name to the first one's name.

    Args:
        files: (name, file) of one format and one folder, in order of step.
        container: how the files hold their rows.

    Raises:
        RowError, MissingExtraError: as ``containers.iterate``.
    """
    repeats: dict[str, str] = {}
    before: tuple[str, int, str] | None = None
    for name, file in files:
        step, digest = _content(file, container)
        if before and before[1] != step and before[2] == digest:
            repeats[name] = before[0]
        else:
            before = (name, step, digest)
    return repeats


def _content(file: Source, container: str) -> tuple[int, str]:
    """Return the step of a file's first row, and a hash of all its rows without their step."""
    step = -1
    digest = xxhash.xxh3_128()
    for index, obj in iterate(file, container):
        if index == 0:
            step = integer(obj.get("step")) or 0
        rest = {key: value for key, value in obj.items() if key != "step"}
        digest.update(orjson.dumps(rest, default=str))
    return step, digest.hexdigest()
