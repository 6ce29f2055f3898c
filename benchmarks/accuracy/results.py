"""A file of what was measured, so that an interrupted measurement goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.measure import Job, Seen


class Results:
    """What was seen in each job's runs; appended to a file of JSON lines, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: dict[Job, list[Seen]] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                job, seen = json.loads(line)
                self._seen[Job(*job)] = [_seen(one) for one in seen]

    def __contains__(self, job: Job) -> bool:
        return job in self._seen

    def __getitem__(self, job: Job) -> list[Seen]:
        return self._seen[job]

    def seen(self) -> Iterator[Seen]:
        """Yield what was seen in all runs, by family and strength, each run once."""
        by_run = {one[:3]: one for seen in self._seen.values() for one in seen}
        yield from (by_run[run] for run in sorted(by_run))

    def add(self, job: Job, seen: list[Seen]) -> None:
        """Keep what was seen in a job's runs."""
        self._seen[job] = seen
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([job, seen]) + "\n")


def _seen(values: list[object]) -> Seen:
    """Return an entry as it was before JSON made a list of its tuple."""
    seen = Seen(*values)  # type: ignore[arg-type]
    return seen._replace(alarms=tuple(seen.alarms))
