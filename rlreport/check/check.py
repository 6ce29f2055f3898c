"""The class of checks: requirements, judge, and texts of findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlreport.check.finding import Fact, Facts, Finding, Met, NotRun, Rank, Severity
from rlreport.check.limits import Limits
from rlreport.check.noise import Trend
from rlreport.check.run import Ranking, Run
from rlreport.text.messages import listed, message, told

Result = Finding | NotRun | None
Template = str | Mapping[str, str] | Callable[[Facts], str]
"""A sentence with placeholders for facts, one per value of the fact ``kind``, or a function."""


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of a check: its description, and the response columns that prove it.

    A trainer's metric with the ``role`` meets it as well.
    """

    words: str
    columns: tuple[str, ...]
    role: str = ""

    def met(self, run: Run) -> bool:
        """Return whether every column, or the trainer's metric, holds at least one number."""
        return self.role in run.roles or all(run.has(column) for column in self.columns)


REWARD = Need("reward", ("reward",))
ANY_REWARD = Need("reward", ("reward",), role="reward")
REF_REWARD = Need("ref_reward", ("ref_reward",))
LOGPROBS = Need("logprobs", ("surprisal_mean",))
RESPONSE = Need("response", ("response_chars",))
LENGTH = Need("response", ("response_chars",), role="length")
KL = Need("logprobs and ref_logprobs", ("kl_k1",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A health check; as a decorator it turns its judge into the check of that name.

    Attributes:
        id: its key in findings and in the thresholds file.
        name: what it finds, in a few words ("reward hacking").
        rank: the role of its findings in a run; a finding of severity info is always a note.
        judge: judges a run for the check; called only if ``needs`` are met.
        title: the sentence that states a finding.
        suggestion: what to try.
        looks_for: what it looks for, in one line; by default ``name``.
        needs: the fields it requires.
        charts: names of the charts that show its findings.
        source: where the thresholds come from; by default the source of the first one.
        clause: the finding as a clause, an effect of another finding; ``name`` if None.
        explains: ids of checks whose findings this one can explain.
        trend: compares windows of steps, so a run that is too short is not judged.
        whole_run: also judges the steps after the first NaN.
        of_reward: judges the reward, which is not comparable across a change of its function.
        sampled: names of facts that are computed from the sample of texts.
        needs_also: a requirement other than columns, which ``judge`` tests itself.
    """

    name: str
    rank: Rank
    title: Template
    why: str
    suggestion: str
    id: str = ""
    judge: Callable[[Check, Run], Result] = lambda check, run: None
    looks_for: str = ""
    needs: tuple[Need, ...] = ()
    charts: tuple[str, ...] = ()
    limits: type[Limits] = Limits
    source: str = ""
    clause: Template | None = None
    explains: tuple[str, ...] = ()
    trend: bool = False
    whole_run: bool = False
    of_reward: bool = False
    sampled: tuple[str, ...] = ()
    needs_also: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks_for", self.looks_for or self.name)
        if not self.source:
            first = next(iter(self.limits.declared().values()))
            object.__setattr__(self, "source", first.source)

    def __call__(self, judge: Callable[[Check, Run], Result]) -> Check:
        """Return the check with this judge, named after it."""
        return replace(self, id=judge.__name__, judge=judge)

    def run(self, run: Run) -> Result:
        """Judge the run; return a finding, a NotRun, or None if all is well."""
        missing = [message(need.words) for need in self.needs if not need.met(run)]
        if missing and run.responses.empty:
            return self.not_run(message("rollouts with {fields}", fields=listed(missing)))
        if missing:
            return self.not_run(listed(missing))
        if self.trend and run.first is None:
            return self.too_short(run)
        return self.judge(self, run)

    @property
    def requirements(self) -> str:
        """The fields and the run length that the check needs, as a message."""
        texts = [*(need.words for need in self.needs), self.needs_also]
        needs = listed(message(text) for text in texts if text)
        needs = needs or message("nothing beyond the log")
        return (
            message("{needs}; a run with at least five steps", needs=needs) if self.trend else needs
        )

    def format_title(self, facts: Facts) -> str:
        """Return the title of a finding with these facts."""
        return _filled(self.title, facts)

    def format_clause(self, facts: Facts) -> str:
        """Return a clause for sentences that name this finding as an effect of another one."""
        return _filled(self.clause or self.name, facts)

    def too_short(self, run: Run) -> NotRun:
        """Return a NotRun for a run with too few steps to judge a trend."""
        needs = message(
            "at least {shortest} steps (this run has {steps})",
            shortest=run.limits[Trend].shortest_run,
            steps=len(run.steps),
        )
        return self.not_run(needs)

    def not_run(self, needs: str) -> NotRun:
        """Return a NotRun that says what the check needs."""
        return NotRun(self.id, message(needs))

    def finding(
        self,
        run: Run,
        severity: Severity,
        met: Iterable[Met] = (),
        facts: Facts | None = None,
        ranking: Ranking | None = None,
        **fields: Any,
    ) -> Finding:
        """Return a finding of this check; its facts include both windows, and NaN becomes None.

        ``met`` are the thresholds met, ``fields`` other fields of ``Finding``. By default the
        onset is that of ``series``, and ``steps`` are those since the onset.
        """
        if "onset" not in fields:
            series = fields.get("series")
            fields["onset"] = None if series is None else run.onset(series)
        steps = fields.pop("steps", run.since(fields["onset"]))
        first_window = run.first.span if run.first else None
        windows = {"first_window": first_window, "last_window": run.last.span}
        values: Facts = {**(facts or {}), **windows}
        return Finding(
            id=self.id,
            severity=severity,
            rank="note" if severity == "info" else self.rank,
            facts={name: None if _is_nan(fact) else fact for name, fact in values.items()},
            thresholds=tuple(met),
            evidence=run.examples(ranking, fields["onset"]) if ranking else (),
            steps=tuple(sorted(set(steps))),
            charts=self.charts,
            **fields,
        )


def _filled(template: Template, facts: Facts) -> str:
    if isinstance(template, Mapping):
        template = template[str(facts["kind"])]
    return told(template(facts) if callable(template) else template, facts)


def _is_nan(fact: Fact) -> bool:
    return isinstance(fact, float) and math.isnan(fact)
