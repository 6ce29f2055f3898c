"""Lines of ``rlreport inspect`` on files; many that differ only in numbers have one together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlreport.text.numbers import byte_size, counted

if TYPE_CHECKING:
    from rlreport.tables import LogFile, MetricsFile

_MOST_ALIKE = 5  # Maximum number of files alike that have a line each
_NUMBER = re.compile(r"\d+")


def log_lines(files: Iterable[LogFile]) -> Iterator[str]:
    """Yield the lines on logs: name, format, size and responses, and why that format."""
    return _lines(files, lambda file: (file.format, file.why), _logged)


def metrics_lines(files: Iterable[MetricsFile]) -> Iterator[str]:
    """Yield the lines on files of trainer metrics: name, metrics and steps."""
    return _lines(files, lambda file: len(file.metrics), _steps)


def _lines(
    files: Iterable[Any],
    kind_of: Callable[[Any], object],
    content_of: Callable[[Sequence[Any]], str],
) -> Iterator[str]:
    """Yield a line per file or, of more than _MOST_ALIKE of a kind, one line on all of them.

    ``content_of`` says what is in files of one kind.
    """
    alike: dict[tuple[str, object], list[Any]] = {}
    for file in files:
        key = _NUMBER.sub("#", file.name), kind_of(file)
        alike.setdefault(key, []).append(file)
    for group in alike.values():
        if len(group) <= _MOST_ALIKE:
            for file in group:
                yield f"{file.name}  {content_of([file])}"
        else:
            names = sorted((file.name for file in group), key=_by_numbers)
            count = counted(len(group), "file")
            yield f"{names[0]} … {names[-1]}  {count}: {content_of(group)}"


def _by_numbers(name: str) -> list[int]:
    """Return what names that differ only in numbers are sorted by."""
    return list(map(int, _NUMBER.findall(name)))


def _logged(files: Sequence[LogFile]) -> str:
    """Return the format of logs, which is the same, with their size, responses and bad lines."""
    size = sum(file.size for file in files)
    rows = sum(file.rows for file in files)
    bad = sum(file.bad for file in files)
    left_out = f", {bad:,} left out" if bad else ""
    why = f" ({files[0].why})" if files[0].why else ""
    return (
        f"{files[0].format}, {byte_size(size)}, {counted(rows, 'response')}"
        f"{left_out}{why}"
    )


def _steps(files: Sequence[MetricsFile]) -> str:
    """Return the number of metrics of files, which is the same, and of their steps."""
    metrics = counted(len(files[0].metrics), "metric")
    steps = sum(file.steps for file in files)
    return f"{metrics} of {counted(steps, 'step')}"
