"""All relations with their families of random logs, and the table of how often each is found.

``python -m tests.law_cases 200`` prints the table of docs/checks.md: of how many logs a fault is
found at each strength, and how many of 1,000 correct logs are called faulty.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.law_families import REFERENCE, Case
from tests.law_families_advantages import CASES as OF_ADVANTAGES
from tests.law_families_labels import CASES as OF_LABELS
from tests.law_families_texts import CASES as OF_TEXTS
from tests.law_families_tokens import CASES as OF_TOKENS

CASES = (
    REFERENCE,
    *OF_ADVANTAGES,
    *(Case(*row) for row in OF_LABELS),
    *OF_TEXTS,
    *OF_TOKENS,
)


def table(logs: int) -> Iterator[str]:
    """Yield the lines of the table of docs/checks.md."""
    yield "| relation | strength: found | of 1,000 correct logs |"
    yield "|---|---|---|"
    for case in CASES:
        powers = [
            f"{strength:g}: {case.found(strength, logs):.0%}"
            for strength in case.strengths
        ]
        false = 1000 * case.found(0.0, logs)
        yield f"| `{case.check}` | {case.unit} {', '.join(powers)} | {false:.0f} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        print(line)
