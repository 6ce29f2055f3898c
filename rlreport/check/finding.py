"""What a check says: plain values that serialise to ``findings.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class ResponseRef:
    """Names a response, and the token to look at where one is to blame."""

    step: int
    n: int
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (or worth knowing), with its evidence.

    Attributes:
        id: id of the check.
        severity: ``critical``, ``warning`` or ``info``.
        title: one line with its numbers.
        steps: steps that show it, ascending.
        responses: up to five responses that show it.
        why: why it matters.
        suggestion: what to try (``try`` in findings.json).
        source: where the threshold comes from.
        charts: names of the charts it speaks of, whose steps are marked.
        ngrams: texts to highlight in responses.
    """

    id: str
    severity: Severity
    title: str
    steps: tuple[int, ...] = ()
    responses: tuple[ResponseRef, ...] = ()
    why: str = ""
    suggestion: str = ""
    source: str = ""
    charts: tuple[str, ...] = ()
    ngrams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotRun:
    """A check that could not be run and what it needs."""

    id: str
    needs: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of all checks.

    Attributes:
        sentence: "Healthy: …", "Look at this: …" or "Broken: …".
        level: ``healthy``, ``info``, ``warning`` or ``critical``: the worst finding.
        findings: worst first.
        passed: ids of the checks that ran and found nothing.
        not_run: checks that could not run.
    """

    sentence: str
    level: str
    findings: list[Finding] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)

    def reaches(self, severity: Severity) -> bool:
        """Whether there is a finding of ``severity`` or a worse one."""
        worst = SEVERITIES.index(severity)
        return any(SEVERITIES.index(finding.severity) <= worst for finding in self.findings)
