"""The page on how the verdict is made: the same words and limits as docs/checks.md."""

from __future__ import annotations

from rlreport.bake.views import CheckView, MethodView
from rlreport.check.docs import METHOD, needs_of
from rlreport.check.registry import CHECKS
from rlreport.check.thresholds import Thresholds, describe
from rlreport.check.words import figure, message


def method_view(limits: Thresholds) -> MethodView:
    """How the verdict is made, each check with the limits that this report used."""
    rows = describe(limits)
    checks = [
        CheckView(
            check.id,
            message(check.name),
            [
                ("Looks for", check.looks_for),
                ("Needs", needs_of(check)),
                ("Why it matters", message(check.why)),
                ("What to try", message(check.suggestion)),
                ("Source", check.source),
            ],
            [
                (row.meaning, f"{figure(row.value)} {row.unit}".strip(), row.source)
                for row in rows
                if row.group == check.id
            ],
        )
        for check in CHECKS
    ]
    return MethodView([(title, paragraphs) for title, paragraphs in METHOD], checks)
