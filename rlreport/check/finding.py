"""Data classes of findings: severity, facts, onset, and the responses that show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from rlreport.check.limits import Tested
from rlreport.figures.rounding import rounded
from rlreport.text.messages import message, plural
from rlreport.text.secrets import Scalar


class Severity(StrEnum):
    """How serious a finding is; the most serious comes first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"  # shown to readers as "note"

    @property
    def order(self) -> int:
        """Place among the severities: 0 is the most serious."""
        return list(Severity).index(self)


class Rank(StrEnum):
    """What a finding is in the story of a run; what explains the others comes first."""

    INVALID = "invalid"  # the log, or its figures, cannot be trusted
    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    NOTE = "note"

    @property
    def order(self) -> int:
        """Place among the ranks: 0 comes first."""
        return list(Rank).index(self)


# Symbol of each severity ("critical", ...), of each verdict without one ("healthy", ...), and of a
# report that cannot be read
GLYPHS: dict[str, str] = {
    Severity.CRITICAL: "✕",
    Severity.WARNING: "▲",
    Severity.INFO: "i",
    "unclear": "?",
    "healthy": "✓",
    "unjudged": "–",
    "unread": "!",
}
# Name of each severity, as shown to readers
LEVELS: dict[str, str] = {
    Severity.CRITICAL: message("critical"),
    Severity.WARNING: message("warning"),
    Severity.INFO: message("note"),
}
# ``Example.unit`` if the value is a reward of the reference model; not shown after the number
REFERENCE_REWARD = "reward of the reference"


class LogText(str):
    """A fact copied from the logs; a redacted report replaces it with a placeholder."""

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
    from_start: bool = False  # whether it was there from the first step of the run on


@dataclass(frozen=True, slots=True)
class Example:
    """A response that shows a finding."""

    # training step of the response, and its index among the responses of the step
    step: int
    n: int
    # index of the token to look at, or None
    token: int | None = None
    # index of the turn to look at, or None; set with the excerpt
    turn: int | None = None
    # the number for which the response was chosen, such as its reward, or None
    value: float | None = None
    unit: str = ""
    # at most 60 characters of the response; None until the responses are read
    excerpt: str | None = None
    # the last response to the same prompt before the problem began, or None
    before: Example | None = None
    # text around which the excerpt is cut, "" to cut it around ``token``
    look_for: str = ""
    # whether, with neither of them, it is the end of the response, not the start
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a note about a run, as facts: a ``ToldFinding`` has the words, too."""

    id: str  # id of the check
    severity: Severity
    rank: Rank
    # numbers and texts that fill the placeholders of its title and other texts
    facts: Facts = field(default_factory=dict)
    onset: Onset | None = None  # when the problem began, or None if unknown
    # last step of the problem if it ended before the run did, or None
    until: int | None = None
    met: tuple[Tested, ...] = ()  # the limits that were crossed
    evidence: tuple[Example, ...] = ()
    # number of responses since the onset whose texts were read, if none shows it
    unseen: int = 0
    steps: tuple[int, ...] = ()  # the steps that the problem concerns
    charts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # texts to highlight in responses
    explained_by: str | None = None  # id of the finding that explains this one, or None

    def __post_init__(self) -> None:
        facts = {name: _rounded(fact) for name, fact in self.facts.items()}
        # A frozen dataclass refuses plain assignments.
        object.__setattr__(self, "facts", facts)

    @property
    def shown(self) -> tuple[Example, ...]:
        """All example responses of the finding, and those shown for comparison (``before``)."""
        before = [example.before for example in self.evidence if example.before]
        return (*self.evidence, *before)

    @property
    def unseen_text(self) -> str:
        """That no response that was read shows the finding, in words; "" if one does."""
        if not self.unseen:
            return ""
        return plural(
            "Not visible in the {count} logged response of these steps.",
            "Not visible in the {count} logged responses of these steps.",
            self.unseen,
        )


class Setting(NamedTuple):
    """A setting of the framework that a finding's advice names."""

    key: str  # its name in the framework
    # its value in the run's configuration, None if that is unknown or null
    value: Scalar


@dataclass(frozen=True, slots=True)
class ToldFinding(Finding):
    """A finding with its words, which ``check.sentence`` writes."""

    name: str = ""  # the problem in a few words
    title: str = ""  # a sentence with its numbers
    clause: str = ""  # the problem as a part of the verdict's sentence
    why: str = ""
    sample: str = ""  # in which responses phrases were counted, "" if in all
    suggestion: str = ""
    settings: tuple[Setting, ...] = ()  # those that ``suggestion`` names
    source: str = ""

    @classmethod
    def of(
        cls, finding: Finding, settings: tuple[Setting, ...] = (), **words: str
    ) -> ToldFinding:
        """Return a finding with these words: ``name``, ``title`` and so on."""
        # Not ``asdict``, which would turn the evidence and limits inside into dicts
        facts: dict[str, Any] = {
            item.name: getattr(finding, item.name) for item in fields(Finding)
        }
        return cls(**(facts | words), settings=settings)

    def at(self, step: int) -> ToldFinding:
        """Return the finding for a step's page: its name as title, and evidence of that step.

        What concerns other steps is left out: numbers, limits, charts, the interval of the onset.
        """
        onset = self.onset
        if onset is not None:
            onset = Onset(step=onset.step, low=onset.step, high=onset.step)
        evidence = [
            replace(example, before=None)
            for example in self.evidence
            if example.step == step
        ]
        return replace(
            self,
            facts={},
            onset=onset,
            until=None,
            met=(),
            evidence=tuple(evidence),
            unseen=0,
            steps=(step,),
            charts=(),
            title=self.name,
            clause="",
            sample="",
        )


class Evidence(NamedTuple):
    """The responses that show a finding."""

    examples: tuple[Example, ...]
    # without any: the number of responses with texts in its steps, none of which shows it
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a check returns for a run: a finding, none, or that it could not judge the run."""

    finding: Finding | None = None
    # All values that were compared with limits, also those that did not cross them
    tested: tuple[Tested, ...] = ()
    # The data that is missing, if the run could not be judged, else ""
    needs: str = ""
    # Returns the evidence of the finding, if it is dated otherwise; None if it can have none
    evidence_since: Callable[[Onset | None], Evidence] | None = None

    @property
    def passed(self) -> bool:
        """Whether the run was judged without a finding."""
        return self.finding is None and not self.needs


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
