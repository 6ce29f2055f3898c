"""The verdict as data, and its JSON (``findings.json``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from rlreport.check.checkpoint import Checkpoint
from rlreport.check.course import Course, Quantity
from rlreport.check.curve import Level as CurveLevel
from rlreport.check.finding import (
    Close,
    Example,
    Finding,
    NotRun,
    Severity,
    ToldFinding,
)
from rlreport.check.gain import Gain
from rlreport.check.limits import Tested
from rlreport.tables import Extent
from rlreport.text.clean import printable
from rlreport.text.messages import message, sentences

F = TypeVar("F", bound=Finding)
Level = Literal["critical", "warning", "unclear", "healthy", "unjudged"]
# First word of the verdict's sentence, by the verdict's level ("critical", "healthy", ...)
FIRST_WORDS = {
    "critical": message("Broken"),
    "warning": message("Warning"),
    "unclear": message("Unclear"),
    "healthy": message("Healthy"),
    "unjudged": message("Not judged"),
}
# Version of the schemas of ``findings.json`` and ``report.json``; see ``rlreport/schemas``
SCHEMA = 5
# Fields of an ``Event`` that ``findings.json`` has, in this order
EVENT_FIELDS = ("kind", "onset", "low", "high", "until", "before", "level", "z")


@dataclass(frozen=True, slots=True)
class Muted(Generic[F]):
    """A finding that the user muted, and the reason that the user gave."""

    finding: F
    reason: str


@dataclass(frozen=True, slots=True)
class Judged(Generic[F]):
    """The outcome of all checks, as facts: a ``Verdict`` has the words, too."""

    level: Level
    # id of the most important finding, None if there is no warning or critical finding
    lead: str | None = None
    # which one to keep
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    # in the order of the report
    findings: list[F] = field(default_factory=list)
    close: tuple[Close, ...] = ()  # checks that found nothing, but not by far
    # ids of the other checks that found nothing
    passed: list[str] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)  # the checks that could not run
    # what is not logged, and what it would have shown
    not_observed: tuple[str, ...] = ()
    muted: list[Muted[F]] = field(default_factory=list)
    # of reward, KL, length, ...
    courses: Mapping[Quantity, Course] = field(default_factory=dict)
    # (first step, last step) of each of these two windows, None for a short run
    windows: tuple[tuple[int, int], tuple[int, int]] | None = None
    step_count: int = 0
    # first and last step of the run, None without any
    first_step: int | None = None
    last_step: int | None = None
    extent: Extent | None = None  # how far the run is logged
    # what is logged ("rewards and texts") if it is no more than that, else ""
    basis: str = ""
    reward_count: int = 0  # number of steps with a reward
    # whether a fall of the reward surely is due to harder prompts
    harder_prompts: bool = False
    # whether most steps have a single prompt, not the same at all steps
    one_prompt: bool = False
    # the share of right answers, if most of the reward's rise is the format of answers that were
    # right before, see ``progress.gained_format``; else None
    right_answers: Course | None = None
    # the rise of the reward by its parts, None if these are not logged or do not explain it
    gain: Gain | None = None
    # number of responses that are logged
    response_count: int = 0
    # a response from the end of a run without a finding to show, and one from its start in it
    pair: Example | None = None

    @property
    def keep_step(self) -> int | None:
        """Step of the checkpoint to keep, None if none is named."""
        return self.checkpoint.step

    @property
    def leading(self) -> F | None:
        """The most important finding, None if there is no warning or critical finding."""
        for finding in self.findings:
            if finding.id == self.lead:
                return finding
        return None

    def reaches(self, severity: str) -> bool:
        """Return whether any finding that is not muted has this severity or a worse one."""
        least = Severity(severity).order
        return any(finding.severity.order <= least for finding in self.findings)

    def map(self, change: Callable[[F], F]) -> Judged[F]:
        """Return the outcome with ``change`` applied to every finding, including muted ones."""
        findings = [change(finding) for finding in self.findings]
        muted = [Muted(change(one.finding), one.reason) for one in self.muted]
        return replace(self, findings=findings, muted=muted)

    def effects_of(self, finding: Finding) -> list[F]:
        """Return the findings that this one explains."""
        return [other for other in self.findings if other.explained_by == finding.id]


class ShownExample(NamedTuple):
    """An example response of a finding: id of the finding, and index in its evidence."""

    finding: str
    item: int


@dataclass(frozen=True, slots=True)
class Verdict(Judged[ToldFinding]):
    """The outcome of all checks with its words, which ``check.sentence`` writes."""

    what: str = ""  # level, cause, since when, and the consequence
    course_sentence: str = ""  # the course of validation or the reward
    evidence: ShownExample | None = None  # what shows ``what``, None if nothing does
    next: str = ""  # what to do, and the checkpoint to keep
    sentence: str = ""  # ``what``, the course and the checkpoint

    def __repr__(self) -> str:
        """Return the sentence, then a line for each finding, as a notebook or a prompt shows it."""
        findings = [f"{one.severity}: {one.title}" for one in self.findings]
        return "\n".join(map(printable, (self.sentence, *findings)))

    @classmethod
    def of(
        cls, judged: Judged[Finding], tell: Callable[[Finding], ToldFinding]
    ) -> Verdict:
        """Return the verdict with told findings, without the texts of its own.

        ``what``, ``next`` and the others stay empty: ``check.sentence`` computes them from this
        verdict.
        """
        told = judged.map(tell)
        facts = {item.name: getattr(told, item.name) for item in fields(Judged)}
        return cls(**facts)


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the content of ``findings.json``; see docs/data.md."""
    return {
        "schema": SCHEMA,
        "verdict": _verdict_json(verdict),
        "findings": [_finding_json(finding) for finding in verdict.findings],
        "close": [
            _fields(one, "id", "title", "value", "limit", "unit")
            for one in verdict.close
        ],
        "passed": list(verdict.passed),
        "not_run": [_fields(check, "id", "needs") for check in verdict.not_run],
        "not_observed": [str(text) for text in verdict.not_observed],
        "muted": [
            {"id": muted.finding.id, "reason": muted.reason} for muted in verdict.muted
        ],
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict without its findings as in docs/data.md."""
    return {
        **_fields(verdict, "level", "sentence", "what", "course_sentence", "next"),
        "evidence": verdict.evidence and verdict.evidence._asdict(),
        **_fields(verdict, "lead", "keep_step"),
        "extent": verdict.extent and verdict.extent._asdict(),
        "course": [_course_json(course) for course in verdict.courses.values()],
    }


def _course_json(course: Course) -> dict[str, Any]:
    """Return a course as in docs/data.md."""
    curve = course.curve
    # The exported table that has the values, see ``Course.column``
    file = "steps.csv" if course.source == "rollouts" else "metrics.csv"
    column = course.column
    if course.name and course.source == "rollouts":
        file = "responses.csv.gz"
        column = f"part:{course.name}"
    return {
        "quantity": course.quantity,
        "series": {"file": file, "column": column},
        "unit": course.unit,
        "lower_is_better": course.lower_is_better,
        "first": _level_json(course.first),
        # null where no direction is better, as of a length
        "best": course.best and _level_json(course.best),
        "lowest": _level_json(curve.lowest),
        "highest": _level_json(curve.highest),
        "last": _level_json(course.last),
        "changed": curve.changed,
        "pieces": [
            {
                "kind": piece.kind,
                "steps": list(piece.steps),
                "from": piece.start,
                "to": piece.end,
            }
            for piece in curve.pieces
        ],
        "events": [_fields(event, *EVENT_FIELDS) for event in course.events],
    }


def _level_json(level: CurveLevel) -> dict[str, Any]:
    """Return a level; steps that its value leaves out are listed if there are any."""
    content = _fields(level, "value", "steps", "se")
    if level.without:
        content["without"] = list(level.without)
    return content


def _finding_json(finding: ToldFinding) -> dict[str, Any]:
    """Return a finding as in docs/data.md."""
    return {
        **_fields(
            finding, "id", "severity", "rank", "explained_by", "title", "facts", "until"
        ),
        **_fields(finding, "steps", "source"),
        "onset": finding.onset and asdict(finding.onset),
        "thresholds": [_tested_json(tested) for tested in finding.met],
        "evidence": [
            _example_json(example)
            | {"before": example.before and _example_json(example.before)}
            for example in finding.evidence
        ],
        "why": sentences([finding.why, finding.sample]),
        "try": finding.suggestion,
        "settings": [_fields(setting, "key", "value") for setting in finding.settings],
        # "rollouts" or "metrics", null if the check does not judge a series
        "series_from": finding.facts.get("series_from"),
    }


def _tested_json(tested: Tested) -> dict[str, Any]:
    """Return a limit that was crossed, and the value that crossed it."""
    return {
        "name": tested.limit.key,
        "op": tested.op,
        "limit": _json_value(tested.bound),
        "value": _json_value(tested.value),
        "unit": tested.limit.unit,
    }


def _example_json(example: Example) -> dict[str, Any]:
    return _fields(example, "step", "n", "token", "turn", "value", "unit", "excerpt")


def _fields(record: object, *names: str) -> dict[str, Any]:
    """Return the named fields of a record, as values for JSON."""
    return {name: _json_value(getattr(record, name)) for name in names}


def _json_value(value: Any) -> Any:
    """Return a value for JSON: NaN and infinity, which it lacks, become null."""
    if isinstance(value, Mapping):
        return {name: _json_value(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_json_value(part) for part in value]
    if isinstance(value, str):
        return str(value)  # a plain text, also of a message or a ``LogText``
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
