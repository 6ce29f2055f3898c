"""Data classes of findings: severity, facts, onset, and the responses that show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rlreport.check.limits import Met
from rlreport.figures.rounding import rounded
from rlreport.text.messages import message

Severity = Literal["critical", "warning", "info"]
Rank = Literal["invalid", "cause", "consequence", "note"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
# Symbol of each severity ("critical", ...) and of each verdict without one ("healthy", ...)
GLYPHS = dict(
    zip((*SEVERITIES, "unclear", "healthy", "unjudged"), "✕▲i?✓–", strict=True)
)
# Name of each severity, as shown to readers (info is called "note")
LEVELS = dict(
    zip(
        SEVERITIES,
        (message("critical"), message("warning"), message("note")),
        strict=True,
    )
)
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
class Example:
    # training step of the response, and its index among the responses of the step
    step: int
    n: int
    token: int | None = None  # index of the token to look at, or None
    turn: int | None = (
        None  # index of the turn to look at, or None; set with the excerpt
    )
    # the number for which the response was chosen, such as its reward, or None
    value: float | None = None
    unit: str = ""
    # at most 60 characters of the response; None until the responses are read
    excerpt: str | None = None
    # the last response to the same prompt before the problem began, or None
    before: Example | None = None
    look_for: str = (
        ""  # text around which the excerpt is cut, "" to cut it around ``token``
    )
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
    until: int | None = (
        None  # last step of the problem if it ended before the run did, or None
    )
    thresholds: tuple[Met, ...] = ()  # the thresholds that were met
    evidence: tuple[Example, ...] = ()
    unseen: int = (
        0  # number of responses since the onset whose texts were read, if none shows it
    )
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
        return (
            *self.evidence,
            *(example.before for example in self.evidence if example.before),
        )

    def at(self, step: int) -> Finding:
        """Return the finding for a step's page: its name as title, and evidence of that step."""
        return replace(
            self,
            facts={},
            onset=self.onset and Onset(*[self.onset.step] * 3),
            until=None,
            thresholds=(),
            evidence=tuple(
                replace(e, before=None) for e in self.evidence if e.step == step
            ),
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
