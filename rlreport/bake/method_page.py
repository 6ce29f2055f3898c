"""The page on how the verdict is made: the same words and limits as docs/checks.md."""

from __future__ import annotations

from rlreport.bake.views import CheckView, MethodView
from rlreport.check.docs import METHOD
from rlreport.check.limits import Thresholds
from rlreport.check.registry import CHECKS, describe
from rlreport.text.messages import figure, message, with_unit


def method_view(limits: Thresholds) -> MethodView:
    """How the verdict is made, each check with the limits that this report used."""
    rows = describe(limits)
    checks = [
        CheckView(
            check.id,
            message("{name:capital}", name=message(check.name)),
            [
                (message("Looks for"), message(check.looks_for)),
                (message("Needs"), check.requirements),
                (message("Why it matters"), message(check.why)),
                (message("What to try"), message(check.suggestion)),
                (message("Source"), message(check.source)),
            ],
            [
                (
                    message(row.limit.meaning),
                    with_unit(figure(row.value), message(row.limit.unit)),
                    message(row.limit.source),
                )
                for row in rows
                if row.group == check.id
            ],
        )
        for check in CHECKS
    ]
    return MethodView(
        [(message(title), [message(said) for said in paragraphs]) for title, paragraphs in METHOD],
        checks,
    )
