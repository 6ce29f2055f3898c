"""Data classes for thresholds, findings and the verdict, and the JSON of a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.rounding import rounded
from rlreport.text.messages import message, sentences, translatable

Severity = Literal["critical", "warning", "info"]
Rank = Literal["invalid", "cause", "consequence", "note"]
Op = Literal[">", ">=", "<", "<="]
Quantity = Literal["reward", "watched_reward", "kl", "length", "entropy"]
PhaseKind = Literal["rise", "flat", "fall", "dead", "recovery"]
SeriesSource = Literal["rollouts", "metrics"]
Level = Literal["critical", "warning", "unclear", "healthy", "unjudged"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
# Symbol of each severity ("critical", ...) and of each verdict without one ("healthy", ...)
GLYPHS = dict(zip((*SEVERITIES, "unclear", "healthy", "unjudged"), "✕▲i?✓–", strict=True))
# Name of each severity, as shown to readers (info is called "note")
LEVELS = dict(
    zip(SEVERITIES, (message("critical"), message("warning"), message("note")), strict=True)
)
# First word of the verdict's sentence, by the verdict's level ("critical", "healthy", ...)
FIRST_WORDS = {
    "critical": message("Broken"),
    "warning": message("Warning"),
    "unclear": message("Unclear"),
    "healthy": message("Healthy"),
    "unjudged": message("Not judged"),
}
# Version of the schemas of ``findings.json`` and ``report.json``; see ``rlreport/schemas``
SCHEMA = 4
# ``Example.unit`` if the value is a reward of the reference model; not shown after the number
REFERENCE_REWARD = "reward of the reference"
RANKS: tuple[Rank, ...] = ("invalid", "cause", "consequence", "note")


class LogText(str):
    """A text copied from the logs; a redacted report replaces it with a placeholder."""

    __slots__ = ()


Fact = str | float | int | bool | None | tuple["Fact", ...]
Facts = Mapping[str, Fact]


def _rounded(fact: Fact) -> Fact:
    """Return a fact with its numbers rounded to 10 significant digits, as exports contain them."""
    if isinstance(fact, tuple):
        return tuple(map(_rounded, fact))
    return rounded(fact) if isinstance(fact, float) else fact


@dataclass(frozen=True, slots=True)
class Onset:
    """The step at which a problem began, and the interval (low to high) in which it may lie."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Met:
    """A threshold, its key (``name``) in a thresholds file, and the value compared with it."""

    name: str
    op: Op
    limit: float
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Example:
    # training step of the response, and its index among the responses of the step
    step: int
    n: int
    token: int | None = None  # index of the token to look at, or None
    turn: int | None = None  # index of the turn to look at, or None; set with the excerpt
    # the number for which the response was chosen, such as its reward, or None
    value: float | None = None
    unit: str = ""
    # at most 60 characters of the response; None until the responses are read
    excerpt: str | None = None
    # the last response to the same prompt before the problem began, or None
    before: Example | None = None
    look_for: str = ""  # text around which the excerpt is cut, "" to cut it around ``token``
    # whether, with neither of them, it is the end of the response, not the start
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a note about a run, with its evidence."""

    id: str  # id of the check
    severity: Severity
    rank: Rank
    # numbers and texts that fill the placeholders of its title and other texts
    facts: Facts = field(default_factory=dict)
    onset: Onset | None = None  # when the problem began, or None if unknown
    until: int | None = None  # last step of the problem if it ended before the run did, or None
    thresholds: tuple[Met, ...] = ()  # the thresholds that were met
    evidence: tuple[Example, ...] = ()
    unseen: int = 0  # number of responses since the onset whose texts were read, if none shows it
    steps: tuple[int, ...] = ()  # the steps that the problem concerns
    charts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # texts to highlight in responses
    # id of the finding that explains this one, or None. name, ..., source: texts, empty until
    # ``check.verdict`` fills them; ``sample`` tells in which responses phrases were counted
    explained_by: str | None = None
    name: str = ""
    title: str = ""
    clause: str = ""
    why: str = ""
    sample: str = ""
    suggestion: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        facts = {name: _rounded(fact) for name, fact in self.facts.items()}
        object.__setattr__(self, "facts", facts)

    @property
    def shown(self) -> tuple[Example, ...]:
        """All example responses of the finding, and those shown for comparison (``before``)."""
        return (*self.evidence, *(example.before for example in self.evidence if example.before))

    def at(self, step: int) -> Finding:
        """Return the finding for a step's page: its name as title, and evidence of that step."""
        return replace(
            self,
            facts={},
            onset=self.onset and Onset(*[self.onset.step] * 3),
            until=None,
            thresholds=(),
            evidence=tuple(replace(e, before=None) for e in self.evidence if e.step == step),
            unseen=0,
            steps=(step,),
            charts=(),
            title=self.name,
            clause="",
            sample="",
        )


@dataclass(frozen=True, slots=True)
class NotRun:
    """A check that could not run, and the data it needs."""

    id: str
    needs: str


@dataclass(frozen=True, slots=True)
class Close:
    """A check without a finding whose ``value`` is close to its limit: at least half of it."""

    id: str
    title: str  # "KL to the reference is 7.4 nats per response; the limit is 10."
    value: float
    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Muted:
    """A finding that the user muted, and the reason that the user gave."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class WindowMean:
    """The mean of consecutive values, and the first and last step that they cover."""

    value: float
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch (first step, last step), and both ends of the line fitted to its values."""

    kind: PhaseKind
    steps: tuple[int, int]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a series changed over a run: first, best and last window, gain and loss, and phases."""

    # int64 and float64 (n,), the steps with a value and their values
    steps: NDArray[np.int64] = field(repr=False, compare=False)
    values: NDArray[np.float64] = field(repr=False, compare=False)
    window: int  # number of values in a window
    error: float  # standard error of the difference of two windows
    source: SeriesSource
    column: str  # in ``data/steps.csv`` or, of the trainer's metrics, in ``data/metrics.csv``
    lower_is_better: bool
    first: WindowMean
    best: WindowMean  # the earliest of equals
    last: WindowMean
    phases: tuple[Phase, ...]  # none of a single value
    direction: int  # 1 if the last window lies above the first beyond noise, -1 if below, else 0
    gained: bool  # whether the best window is better than the first one beyond noise and luck
    lost: bool  # whether the best window is better than the last one beyond noise and luck
    slipped: bool  # whether the best window is better than the last one beyond luck alone

    @property
    def is_single(self) -> bool:
        """Whether there is only one value, which has no course."""
        return len(self.values) == 1

    @property
    def settled_since(self) -> int | None:
        """First step of the last phase if it is flat or dead, but not the only phase, else None."""
        end = self.phases[-1] if len(self.phases) > 1 else None
        return end.steps[0] if end and end.kind in ("flat", "dead") else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of all checks."""

    level: Level
    # id of the most important finding, None if there is no warning or critical finding
    lead: str | None = None
    keep_step: int | None = None  # step of the last good checkpoint, or None
    findings: list[Finding] = field(default_factory=list)  # the findings in the order of the report
    close: tuple[Close, ...] = ()  # checks that found nothing, but not by far
    passed: list[str] = field(default_factory=list)  # ids of the other checks that found nothing
    not_run: list[NotRun] = field(default_factory=list)  # the checks that could not run
    not_observed: tuple[str, ...] = ()  # what is not logged, and what it would have shown
    muted: list[Muted] = field(default_factory=list)
    courses: Mapping[Quantity, Course] = field(default_factory=dict)  # of reward, KL, length, ...
    # (first step, last step) of each of these two windows, None for a short run
    windows: tuple[tuple[int, int], tuple[int, int]] | None = None
    step_count: int = 0
    # first and last step of the run, None without any
    first_step: int | None = None
    last_step: int | None = None
    basis: str = ""  # what is logged ("rewards and texts") if it is no more than that, else ""
    reward_count: int = 0  # number of steps with a reward
    harder_prompts: bool = False  # whether a fall of the reward surely is due to harder prompts
    one_prompt: bool = False  # whether most steps have a single prompt, not the same at all steps
    # texts, empty until ``check.sentence`` writes them: what happened with the checkpoint to keep,
    # the course of the rewards, and all of it
    headline: str = ""
    course_text: str = ""
    sentence: str = ""

    def reaches(self, severity: Severity) -> bool:
        """Return whether any finding that is not muted has this severity or a worse one."""
        severities = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in severities for finding in self.findings)

    def map(self, change: Callable[[Finding], Finding]) -> Verdict:
        """Return the verdict with ``change`` applied to every finding, including muted ones."""
        findings = [change(finding) for finding in self.findings]
        muted = [Muted(change(one.finding), one.reason) for one in self.muted]
        return replace(self, findings=findings, muted=muted)

    def effects_of(self, finding: Finding) -> list[Finding]:
        return [other for other in self.findings if other.explained_by == finding.id]


def findings_json(verdict: Verdict) -> dict[str, Any]:
    """Return the content of ``findings.json``; see docs/data.md."""
    return {
        "schema": SCHEMA,
        "verdict": {
            **_fields(verdict, "level", "sentence", "lead", "keep_step"),
            "course": [_course_json(name, course) for name, course in verdict.courses.items()],
        },
        "findings": [_finding_json(finding) for finding in verdict.findings],
        "close": [_fields(one, "id", "title", "value", "limit", "unit") for one in verdict.close],
        "passed": list(verdict.passed),
        "not_run": [_fields(check, "id", "needs") for check in verdict.not_run],
        "not_observed": [str(text) for text in verdict.not_observed],
        "muted": [{"id": muted.finding.id, "reason": muted.reason} for muted in verdict.muted],
    }


def _course_json(quantity: Quantity, course: Course) -> dict[str, Any]:
    file = "steps.csv" if course.source == "rollouts" else "metrics.csv"
    parts = {"first": course.first, "best": course.best, "last": course.last}
    return {
        "quantity": quantity,
        "series": {"file": file, "column": course.column},
        "lower_is_better": course.lower_is_better,
        **{name: {"value": part.value, "steps": list(part.steps)} for name, part in parts.items()},
        "phases": [
            {"kind": p.kind, "steps": list(p.steps), "from": p.start, "to": p.end}
            for p in course.phases
        ],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        **_fields(finding, "id", "severity", "rank", "explained_by", "title", "facts", "until"),
        **_fields(finding, "steps", "source"),
        "onset": finding.onset and asdict(finding.onset),
        "thresholds": [_json_value(asdict(met)) for met in finding.thresholds],
        "evidence": [
            _example_json(example) | {"before": example.before and _example_json(example.before)}
            for example in finding.evidence
        ],
        "why": sentences([finding.why, finding.sample]),
        "try": finding.suggestion,
        "series_from": finding.facts.get("series_from"),
    }


def _example_json(example: Example) -> dict[str, Any]:
    return _fields(example, "step", "n", "token", "turn", "value", "unit", "excerpt")


def _fields(record: object, *names: str) -> dict[str, Any]:
    return {name: _json_value(getattr(record, name)) for name in names}


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json_value(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_json_value(part) for part in value]
    if isinstance(value, str):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


N = TypeVar("N", int, float)
L = TypeVar("L", bound="Limits")

CONTRACT = translatable("this project's convention")
EOS = translatable("TRL val/num_eos_tokens and --missing_eos_penalty")
RL_BOARD = translatable("RLLoggingBoard post")


class Limit(Generic[N]):
    """A threshold, declared as a class attribute: ``class KlExplosion(Limits): warn = Limit(...)``.

    ``KlExplosion.warn`` is this declaration; an instance's ``warn`` is the value for a run:
    ``default``, unless a thresholds file sets another. ``owner`` and ``key`` are the class and
    the name of the attribute; ``source`` is where the default comes from.
    """

    __slots__ = ("default", "key", "meaning", "owner", "source", "unit")
    owner: type[Limits]
    key: str

    def __init__(self, default: N, unit: str, meaning: str, source: str = CONTRACT) -> None:
        self.default: N = default
        self.unit = unit
        self.meaning = meaning
        self.source = source

    def __set_name__(self, owner: type[Limits], name: str) -> None:
        self.owner = owner
        self.key = name

    @overload
    def __get__(self, limits: None, owner: type[Limits]) -> Limit[N]: ...
    @overload
    def __get__(self, limits: Limits, owner: type[Limits]) -> N: ...
    def __get__(self, limits: Limits | None, owner: type[Limits]) -> Limit[N] | N:
        if limits is None:
            return self
        value: N = limits.given.get(self.key, self.default)
        return value


class Limits:
    """Base class for the thresholds of a check; subclasses declare ``Limit`` attributes."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given  # values that replace defaults: name of the threshold -> value

    @classmethod
    def declared(cls) -> dict[str, Limit[float]]:
        """Return name -> declaration of the thresholds of this class itself, not of its bases."""
        return {name: limit for name, limit in vars(cls).items() if isinstance(limit, Limit)}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All threshold values for a run; ``thresholds[KlExplosion].warn`` is one of them."""

    # values that replace defaults: class name -> name of the threshold -> value
    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, kind: type[L]) -> L:
        return kind(self.given.get(kind.__name__, {}))


def meets(op: Op, value: float, limit: float) -> bool:
    """Return whether ``value op limit`` (9 equal digits count as equal); False for NaN."""
    if math.isclose(value, limit, rel_tol=1e-9):
        return op.endswith("=")
    return value > limit if op.startswith(">") else value < limit
