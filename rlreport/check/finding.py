"""Findings and the verdict: facts, for which ``check.wording`` writes the texts, and their JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlreport.text.messages import message, sentences

Severity = Literal["critical", "warning", "info"]
Rank = Literal["invalid", "cause", "consequence", "note"]
Op = Literal[">", ">=", "<", "<="]
Figure = Literal["reward", "kl", "tokens", "characters"]
Level = Literal["critical", "warning", "unclear", "healthy", "unjudged"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
GLYPHS = dict(zip((*SEVERITIES, "unclear", "healthy", "unjudged"), "✕▲i?✓–", strict=True))
"""Symbol of a finding's severity, or of a verdict's level."""
LEVELS = dict(
    zip(SEVERITIES, (message("critical"), message("warning"), message("note")), strict=True)
)
"""Name of each severity."""
FIRST_WORDS = {
    "critical": message("Broken"),
    "warning": message("Warning"),
    "unclear": message("Unclear"),
    "healthy": message("Healthy"),
    "unjudged": message("Not judged"),
}
"""First word of the verdict's sentence, by level."""
SCHEMA = 3
"""Schema of ``findings.json`` and ``report.json``; see ``rlreport/schemas``."""
REFERENCE_REWARD = "reward of the reference"
"""Unit of an example's value, as is "reward"; other units follow the number."""
RANKS: tuple[Rank, ...] = ("invalid", "cause", "consequence", "note")


class LogText(str):
    """A text taken from the logs, which redaction replaces."""

    __slots__ = ()


Fact = str | float | int | bool | None | tuple["Fact", ...]
Facts = Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Onset:
    """The step at which a finding began, and the interval in which that step lies."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Met:
    """A threshold that a value met (``value op limit``); ``name`` is its key in a TOML file."""

    name: str
    op: Op
    limit: float
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Example:
    """A response that shows a finding.

    Attributes:
        token: index of the token to look at.
        excerpt: 60 characters around that token, around the text ``look_for``, or from the end
            of the response (``at_end``); None until texts are read.
        before: the last response to the same prompt before the onset.
    """

    step: int
    n: int
    token: int | None = None
    value: float | None = None
    unit: str = ""
    excerpt: str | None = None
    before: Example | None = None
    look_for: str = ""
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a note about a run, with its evidence.

    Attributes:
        id: id of the check.
        facts: numbers and texts that fill the messages.
        until: last step of a problem that ended, or None.
        texts: texts to highlight in responses.
        series: the check's figure by step, float64 (steps of the run,).
        explained_by: id of the finding that explains it, or None.
        name, ...: messages, empty until ``check.wording`` fills them; ``sample`` names the
            sample in which texts were counted.
    """

    id: str
    severity: Severity
    rank: Rank
    facts: Facts = field(default_factory=dict)
    onset: Onset | None = None
    until: int | None = None
    thresholds: tuple[Met, ...] = ()
    evidence: tuple[Example, ...] = ()
    steps: tuple[int, ...] = ()
    charts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    series: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    explained_by: str | None = None
    name: str = ""
    title: str = ""
    clause: str = ""
    why: str = ""
    sample: str = ""
    suggestion: str = ""
    source: str = ""

    @property
    def shown(self) -> tuple[Example, ...]:
        """All responses of the evidence, including those from before the onset."""
        return (*self.evidence, *(one.before for one in self.evidence if one.before))

    def at(self, step: int) -> Finding:
        """Return the part of the finding that concerns one step, without results of later steps."""
        return replace(
            self,
            facts={},
            onset=self.onset and Onset(*[self.onset.step] * 3),
            until=None,
            thresholds=(),
            evidence=tuple(replace(e, before=None) for e in self.evidence if e.step == step),
            steps=(step,),
            charts=(),
            series=None,
            title=self.name,
            clause="",
            sample="",
        )


@dataclass(frozen=True, slots=True)
class NotRun:
    """A check that could not run, and what it needs."""

    id: str
    needs: str


@dataclass(frozen=True, slots=True)
class Muted:
    """A finding that the user muted, and the reason."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A key figure in the first window, if the run has one, and in the last window.

    ``rose``: whether it rose by more than chance; None if unknown because the windows overlap.
    """

    figure: Figure
    first: float | None
    last: float
    rose: bool | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of all checks.

    Attributes:
        lead: id of the leading finding, None without a warning.
        keep_step: step of the last good checkpoint, or None.
        findings: in the order of the report.
        passed: ids of the checks that ran and found nothing.
        windows: first and last step of the first window and of the last.
        sentence: the verdict as text, empty until ``check.wording`` writes it.
    """

    level: Level
    lead: str | None = None
    keep_step: int | None = None
    findings: list[Finding] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    muted: list[Muted] = field(default_factory=list)
    moved: tuple[Moved, ...] = ()
    windows: tuple[tuple[int, int], tuple[int, int]] | None = None
    step_count: int = 0
    sentence: str = ""

    def reaches(self, severity: Severity) -> bool:
        """Return whether any finding, explained or not, has this severity or a worse one."""
        enough = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in enough for finding in self.findings)

    def map(self, change: Callable[[Finding], Finding]) -> Verdict:
        """Return the verdict with ``change`` applied to every finding, muted ones too."""
        findings = [change(finding) for finding in self.findings]
        muted = [Muted(change(one.finding), one.reason) for one in self.muted]
        return replace(self, findings=findings, muted=muted)

    def effects_of(self, finding: Finding) -> list[Finding]:
        """Return the findings that this one explains."""
        return [other for other in self.findings if other.explained_by == finding.id]


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as JSON values, with keys in a fixed order; see checks.md."""
    return {
        "schema": SCHEMA,
        "verdict": {
            "level": verdict.level,
            "sentence": verdict.sentence,
            "lead": verdict.lead,
            "keep_step": verdict.keep_step,
        },
        "findings": [_finding_json(finding) for finding in verdict.findings],
        "passed": list(verdict.passed),
        "not_run": [{"id": check.id, "needs": check.needs} for check in verdict.not_run],
        "muted": [{"id": muted.finding.id, "reason": muted.reason} for muted in verdict.muted],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        **{
            name: getattr(finding, name)
            for name in ("id", "severity", "rank", "explained_by", "title")
        },
        "facts": _plain(finding.facts),
        "onset": asdict(finding.onset) if finding.onset else None,
        "until": finding.until,
        "thresholds": [_plain(asdict(met)) for met in finding.thresholds],
        "evidence": [
            _example_json(one) | {"before": one.before and _example_json(one.before)}
            for one in finding.evidence
        ],
        "steps": list(finding.steps),
        "why": sentences([finding.why, finding.sample]),
        "try": finding.suggestion,
        "source": finding.source,
        "series_from": finding.facts.get("series_from"),
    }


def _example_json(example: Example) -> dict[str, Any]:
    names = ("step", "n", "token", "value", "unit", "excerpt")
    return {name: _plain(getattr(example, name)) for name in names}


def _plain(value: Any) -> Any:
    """Return facts as JSON values; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
