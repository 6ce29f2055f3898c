"""All relations with their families of random logs, and the table of how often each is found.

``python -m tests.law_cases 40 200`` prints the table of docs/checks.md: of how many of 40 logs a
fault is found at each strength, and of how many of 200 correct logs it is. That takes a quarter
of an hour; ids of checks after the numbers choose some.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator

from tests.law_families import REFERENCE, Case
from tests.law_families_advantages import CASES as OF_ADVANTAGES
from tests.law_families_labels import CASES as OF_LABELS
from tests.law_families_metrics import CASES as OF_METRICS
from tests.law_families_parts import CASES as OF_PARTS
from tests.law_families_texts import CASES as OF_TEXTS
from tests.law_families_tokens import CASES as OF_TOKENS

CASES = (
    REFERENCE,
    *OF_ADVANTAGES,
    *(Case(*row) for row in OF_LABELS),
    *OF_METRICS,
    *OF_PARTS,
    *OF_TEXTS,
    *OF_TOKENS,
)


def table(logs: int, correct: int, checks: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines of the table of docs/checks.md, of all checks or of these."""
    yield f"| relation | fault | found at each strength | of {correct} correct logs |"
    yield "|---|---|---|---|"
    for case in CASES:
        if checks and case.check not in checks:
            continue
        powers = [
            f"{strength:g}: {case.found(strength, logs):.0%}"
            for strength in case.strengths
        ]
        false = round(correct * case.found(0.0, correct))
        yield f"| `{case.check}` | {case.unit} | {', '.join(powers)} | {false} |"


if __name__ == "__main__":
    logs_each, correct_logs = map(int, sys.argv[1:3])
    for line in table(logs_each, correct_logs, checks=sys.argv[3:]):
        print(line, flush=True)
