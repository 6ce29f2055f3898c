"""The gate: which of the named things happened, and the exit status they give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rlreport.comparison.compare import Comparison
from rlreport.comparison.run import Found

FAIL_ON = ("worse", "guardrail", "new-critical", "any")
PASSED, FAILED, INCONCLUSIVE = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Gate:
    """What the gate was asked, and what came of it.

    Attributes:
        fail_on: what fails.
        margin: loss of reward that is let pass.
        failed: ids of what happened: ``worse``, ``guardrail:ID``, ``new-critical:ID``.
        exit: status: 0 pass, 1 failed, 3 inconclusive where evidence is required.
    """

    fail_on: tuple[str, ...] = ()
    margin: float = 0.0
    failed: tuple[str, ...] = ()
    exit: int = PASSED


@dataclass(frozen=True, slots=True)
class Changed:
    """Findings of NEW against those of BASE.

    Attributes:
        new, fixed, still: by their ids; of those still there as NEW has them.
        critical: critical in NEW and not in BASE, new or still there.
    """

    new: tuple[Found, ...] = ()
    fixed: tuple[Found, ...] = ()
    still: tuple[Found, ...] = ()
    critical: tuple[Found, ...] = ()


def changed(base: Mapping[str, Found], new: Mapping[str, Found]) -> Changed:
    """Return which findings are new, fixed, still there, and critical only now."""
    already = {name for name, found in base.items() if found.severity == "critical"}
    return Changed(
        tuple(found for name, found in new.items() if name not in base),
        tuple(found for name, found in base.items() if name not in new),
        tuple(found for name, found in new.items() if name in base),
        tuple(f for name, f in new.items() if f.severity == "critical" and name not in already),
    )


def gate(
    comparison: Comparison,
    findings: Changed,
    *,
    fail_on: Collection[str] = (),
    margin: float = 0.0,
    require_evidence: bool = False,
) -> Gate:
    """Decide: ``worse`` needs an interval wholly below −margin.

    With ``require_evidence`` a comparison that shows nothing either way is inconclusive.
    """
    wanted = set(FAIL_ON) if "any" in fail_on else set(fail_on)
    failed = []
    # NaN, of runs that cannot be compared, is not below anything.
    if "worse" in wanted and comparison.effect.high < -margin:
        failed.append("worse")
    if "guardrail" in wanted:
        failed += [f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"]
    if "new-critical" in wanted:
        failed += [f"new-critical:{found.id}" for found in findings.critical]
    shown = comparison.level in ("better", "worse")
    status = PASSED if shown or not require_evidence else INCONCLUSIVE
    return Gate(tuple(sorted(wanted)), margin, tuple(failed), FAILED if failed else status)
