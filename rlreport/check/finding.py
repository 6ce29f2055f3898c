"""What the checks say: facts, from which ``check.wording`` makes the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlreport.text.messages import message

Severity = Literal["critical", "warning", "info"]
Rank = Literal["invalid", "cause", "consequence", "note"]
Op = Literal[">", ">=", "<", "<="]
Level = Literal["critical", "warning", "unclear", "healthy", "unjudged"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
GLYPHS = {
    "critical": "✕",
    "warning": "▲",
    "info": "i",
    "unclear": "?",
    "healthy": "✓",
    "unjudged": "–",
}
"""The mark beside a finding of a severity, or a verdict of a level."""
LEVELS = {
    "critical": message("critical"),
    "warning": message("warning"),
    "info": message("note"),
}
"""A severity in a word."""
FIRST_WORDS = {
    "critical": message("Broken"),
    "warning": message("Warning"),
    "unclear": message("Unclear"),
    "healthy": message("Healthy"),
    "unjudged": message("Not judged"),
}
"""The level of a verdict in the word that its sentence begins with."""
RANKS: tuple[Rank, ...] = ("invalid", "cause", "consequence", "note")


class LogText(str):
    """A text taken from the logs: what redaction replaces, wherever it stands in the facts."""

    __slots__ = ()


Fact = str | float | int | bool | None | tuple["Fact", ...]
Facts = Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Onset:
    """The step since which it is so, and the interval in which that step lies."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Met:
    """A threshold that was met: ``value op limit``; ``name`` is its key in the thresholds file."""

    name: str
    op: Op
    limit: float
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Example:
    """A response that shows a finding.

    Attributes:
        step, n: name of the response.
        token: position of the token to look at, from 0, or None.
        value: its figure, None where there is none.
        unit: unit of the figure.
        excerpt: 60 characters around the place, None until they are read back.
        before: a response to the same prompt from before the onset, or None.
        look_for: the text that the excerpt is cut around where no token is known.
        at_end: cut the end of the response where nothing says more.
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
    """One thing that is wrong (or worth knowing), with its evidence.

    Attributes:
        id: id of the check.
        severity: ``critical``, ``warning`` or ``info``.
        rank: what it is to the run: it invalidates it, causes trouble, follows, or is a note.
        facts: numbers and texts that the words are made of.
        onset: since when, or None.
        until: the step at which it ended, or None.
        thresholds: all that were met.
        evidence: up to three responses, the clearest first.
        steps: steps that show it, ascending.
        charts: names of the charts it speaks of.
        texts: texts to highlight in responses.
        series: the check's own figure by step, float64 (steps of the run,).
        explained_by: id of the finding it is folded under, or None.
        title, why, sample, suggestion, source, name, clause: its words, empty until they are made;
            ``sample`` says from which responses texts were counted, "" if from all.
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
        """All responses that the evidence names, those from before the onset too."""
        before = (example.before for example in self.evidence)
        return (*self.evidence, *(example for example in before if example))

    def at(self, step: int) -> Finding:
        """Return what of it is of this step alone: what the run brings later changes none of it."""
        return replace(
            self,
            facts={},
            onset=Onset(self.onset.step, self.onset.step, self.onset.step) if self.onset else None,
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
    """A check that could not be run and what it needs."""

    id: str
    needs: str


@dataclass(frozen=True, slots=True)
class Muted:
    """A finding that was set aside, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A key figure of the run in its first and its last window; ``first`` is None without one.

    ``rose`` says whether it did by more than chance, None where the windows share steps.
    """

    figure: Literal["reward", "kl", "tokens", "characters"]
    first: float | None
    last: float
    rose: bool | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of all checks.

    Attributes:
        level: of the worst finding, folded ones included; ``healthy`` without a warning,
            ``unjudged`` where the run is too short to say so.
        lead: id of the finding that leads, None without a warning.
        keep_step: step whose checkpoint is the one to keep, or None.
        findings: in the order of the report.
        passed: ids of the checks that ran and found nothing.
        not_run: checks that could not run.
        muted: findings set aside.
        moved: key figures of both windows.
        windows: first and last step of the first window and of the last.
        step_count: steps of the run.
        sentence: the verdict in words, empty until they are made.
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
        """Whether there is a finding of ``severity`` or a worse one, folded or not."""
        worst = SEVERITIES.index(severity)
        return any(SEVERITIES.index(finding.severity) <= worst for finding in self.findings)

    def folded(self, finding: Finding) -> list[Finding]:
        """The findings that are folded under another, in order."""
        return [other for other in self.findings if other.explained_by == finding.id]
