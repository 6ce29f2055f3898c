"""The page on how the verdict is made: the same words and limits as docs/checks.md."""

from __future__ import annotations

from typing import Any

from rlreport.check.limits import Thresholds
from rlreport.check.registry import CHECKS, METHOD, describe
from rlreport.text.messages import figure, message, with_unit


def method_view(limits: Thresholds) -> dict[str, Any]:
    """Return how the verdict is made, each check with the limits that this report used."""
    rows = describe(limits)
    checks = [
        {
            "id": check.id,
            "name": message("{name:capital}", name=message(check.name)),
            "facts": [
                (message("Looks for"), message(check.looks_for)),
                (message("Needs"), check.requirements),
                (message("Why it matters"), message(check.why)),
                (message("What to try"), message(check.suggestion)),
                (message("Source"), message(check.source)),
            ],
            "limits": [
                (
                    message(row.limit.meaning),
                    with_unit(figure(row.value), message(row.limit.unit)),
                    message(row.limit.source),
                )
                for row in rows
                if row.group == check.id
            ],
        }
        for check in CHECKS
    ]
    parts = [(message(title), [message(text) for text in texts]) for title, texts in METHOD]
    return {"parts": parts, "checks": checks}
