"""Measure the accuracy of all checks and write docs/accuracy.md.

    python -m benchmarks.accuracy [--runs 200] [--workers N]
        [--results FILE] [--as-is | --only TEXT]

200 runs of each family take about an hour on two processors. What is in FILE already is not
measured again, so that an interrupted measurement goes on; with ``--as-is`` the page is made of
that alone. With ``--only`` the families whose name contains TEXT are measured and printed, and
nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.document import PAGE, PICTURE, page, table_of_families
from benchmarks.accuracy.families import BY_KEY
from benchmarks.accuracy.measure import Seen, jobs, measure
from benchmarks.accuracy.picture import power_picture
from benchmarks.accuracy.results import Results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write the page or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of each family")
    parser.add_argument("--workers", type=int, help="processes; all processors")
    parser.add_argument("--results", type=Path, default=Path("accuracy.jsonl"))
    parser.add_argument("--as-is", action="store_true", help="measure nothing more")
    parser.add_argument("--only", help="families whose name contains this")
    given = parser.parse_args(arguments)
    keys = list(BY_KEY)
    if given.only:
        keys = [key for key in keys if given.only in key]
        seen = _measured(Results(None), keys, given)
        print("\n".join(table_of_families(seen)))
        return 0
    results = Results(given.results)
    if given.as_is:
        seen = list(results.seen())
    else:
        seen = _measured(results, keys, given)
    PAGE.write_text(page(seen), encoding="utf-8")
    PICTURE.write_text(power_picture(seen), encoding="utf-8")
    print(f"wrote {PAGE.name} and {PICTURE.name}")
    return 0


def _measured(
    results: Results, keys: Sequence[str], given: argparse.Namespace
) -> list[Seen]:
    """Return what was seen in the runs of all these families, measuring what is missing."""
    todo = list(jobs(given.runs, keys))
    missing = [job for job in todo if job not in results]
    for done, (job, seen) in enumerate(measure(missing, given.workers), 1):
        results.add(job, seen)
        print(f"\r{done} of {len(missing)} batches", end="", file=sys.stderr)
    print(file=sys.stderr)
    return [one for job in todo for one in results[job]]


if __name__ == "__main__":
    sys.exit(main())
