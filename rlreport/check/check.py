"""The ``Check`` class: what a check requires, how it judges a run, and its findings' texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rlreport.check import means, quantities
from rlreport.check.curve import Excursion, Level
from rlreport.check.evidence import Ranking, beyond, evidence_of, where_known
from rlreport.check.excerpts import Place
from rlreport.check.finding import (
    Close,
    Evidence,
    Fact,
    Facts,
    Finding,
    Onset,
    Rank,
    Result,
    Severity,
)
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import Run
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import Remedies, Remedy
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change
from rlreport.read.rollouts import Turn
from rlreport.text.messages import (
    format_message,
    listed,
    message,
    percent,
    translatable,
)
from rlreport.text.numbers import exact

# What was beyond a limit for at most so many steps, and is no longer, is a note
EPISODE_STEPS = 5
CLOSE = 0.5  # A value of at least this part of its limit is close to it
# A text with {placeholders}, a dict of such texts (``facts["kind"]`` selects one), or a function
# that returns such a text. ``facts`` are the values filled into the placeholders
Template = str | Mapping[str, str] | Callable[[Facts], str]


class Need(NamedTuple):
    """Data that a check needs: all of ``columns``, or any of the metrics in ``roles``.

    A check is not run, and the report says what it needs, if one of its needs is not met.
    """

    words: str  # names of the logged fields for readers, such as "logprobs and ref_logprobs"
    # columns of the table of responses; each must contain at least one number
    columns: tuple[str, ...]
    # roles of trainer metrics, see ``metrics.roles``: any of them suffices instead of the columns
    roles: tuple[str, ...] = ()

    def is_available(self, run: Run) -> bool:
        """Return whether a run has these columns, or any of these metrics."""
        metrics = any(role in run.roles for role in self.roles)
        return metrics or all(run.has(column) for column in self.columns)


REWARD = Need("reward", ("reward",))
ANY_REWARD = Need("reward", ("reward",), ("reward",))
REF_REWARD = Need("ref_reward", ("ref_reward",))
LOGPROBS = Need("logprobs", ("surprisal_mean",))
RESPONSE = Need("response", ("response_chars",))
LENGTH = Need("response", ("response_chars",), ("length",))
KL = Need("logprobs and ref_logprobs", ("kl_k1",))

FALLS = ("reward_collapse", "environment_fall", "watched_reward_fall")
# Ids of checks whose findings can be effects of a bad update of the policy
FAILURES = (
    *FALLS,
    "part_falls",
    "kl_explosion",
    "entropy_collapse",
    "length_collapse",
    "diversity_collapse",
    "missing_eos",
    "reward_stalled",
    "loops",
    "garbled",
)


def advice_key(facts: Facts) -> str:
    """Return what selects the advice on a finding: its kind, or ``advice`` if that says more."""
    return str(facts.get("advice", facts.get("kind")))


class RiseOrShare(Limits):
    """Thresholds of a check that limits a fraction, and its rise."""

    rise: Limit[float] | None = None
    share: Limit[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A health check: a function that judges a run, and the texts of the findings it returns."""

    name: str  # the problem in a few words ("reward hacking")
    rank: Rank  # severity info is always a note
    title: Template  # sentence that states a finding, with placeholders for its numbers
    why: str  # why the problem matters
    suggestion: str  # what to do about it
    id: str = ""  # key of the check in findings and in the thresholds file
    # function that judges a run; called only if ``needs`` are met
    judge: Callable[[Check, Run], Result] = lambda check, run: Result()
    needs: tuple[Need, ...] = ()  # data that the check requires
    # names of the charts in the report that show its findings
    charts: tuple[str, ...] = ()
    limits: type[Limits] = Limits  # class that declares the thresholds of the check
    # where the thresholds come from; by default the source of the first threshold
    source: str = ""
    # clause that states a finding in the verdict ("rewards are NaN"); by default ``name``
    statement: Template | None = None
    # whether the problem happened in one step, rather than lasted since then
    event: bool = False
    # ids of other checks whose findings this check's finding may have caused
    explains: tuple[str, ...] = ()
    # whether it compares early with late steps; then short runs are not judged
    trend: bool = False
    whole_run: bool = False  # whether it also judges the steps after the first NaN
    # whether it judges rewards, which a change of the reward function invalidates
    of_reward: bool = False
    # names of those numbers in ``title`` that come from a sample of the responses
    sampled: tuple[str, ...] = ()
    # Names of thresholds, and a clause with the {value} tested against each. If all of these values
    # are at least half of their thresholds, but there is no finding, the verdict says so
    close: Mapping[str, str] = field(default_factory=dict)
    turn: Callable[[Turn], bool] | None = None  # whether evidence is to point at a turn
    # where a response shows it, else where an example says (``look_for``, ``token``, ``at_end``)
    place: Place | None = None
    # data needed beyond ``needs``, in words; ``judge`` tests for it itself
    needs_also: str = ""
    # what to do with settings, the best first, instead of (or after) ``suggestion``, or a dict of
    # such tuples (``advice_key`` selects one); ``check.advice`` names the framework's own
    advice: Remedies | Mapping[str, Remedies] = ()
    # what no advice on the run may say while there is a finding
    rules_out: Remedies = ()
    # what no advice on less important findings may say, as it does not mend this
    no_cure: Remedies = ()
    # the words before a setting that is told after them, "" for ``suggestion``
    before_setting: str = ""
    # what stands in place of both for some findings, by ``advice_key``
    suggestions: Mapping[str, str] = field(default_factory=dict)
    # what to do if settings of ``advice`` exist, but their values allow none of it
    otherwise: str = ""

    def __post_init__(self) -> None:
        if not self.source:
            first = next(iter(self.limits.declared().values()))
            object.__setattr__(self, "source", first.source)

    def __call__(self, judge: Callable[[Check, Run], Result]) -> Check:
        """Decorate the function that judges; its name becomes the id of the check."""
        return replace(self, id=judge.__name__, judge=judge)

    def run(self, run: Run) -> Result:
        """Judge a run, unless data or steps are too few, which the result then says."""
        missing = [
            message(need.words) for need in self.needs if not need.is_available(run)
        ]
        if missing and run.responses.empty:
            fields = listed(missing)
            return self.not_run(message("rollouts with {fields}", fields=fields))
        if missing:
            return self.not_run(listed(missing))
        if self.trend and run.first is None:
            return self.too_short(run)
        return self.judge(self, run)

    def format_title(self, facts: Facts) -> str:
        """Return the sentence that states a finding with these facts."""
        return _fill_template(self.title, facts)

    def format_statement(self, facts: Facts) -> str:
        """Return the clause that states a finding with these facts in the verdict."""
        return _fill_template(self.statement or self.name, facts)

    def remedies(self, facts: Facts) -> Remedies:
        """Return what to do with settings after a finding with these facts, the best first."""
        if isinstance(self.advice, Mapping):
            return self.advice.get(advice_key(facts), ())
        return self.advice

    def opposites(self, facts: Facts) -> set[Remedy]:
        """Return what would undo the remedies for a finding with these facts."""
        opposites = (remedy.opposite for remedy in self.remedies(facts))
        return {one for one in opposites if one is not None}

    def close_to_limit(self, tested: Iterable[Tested]) -> Close | None:
        """Return the tested value nearest below its limit, None if one of them is not near.

        Args:
            tested: what the check compared without finding anything. Of several values for one
                limit, such as those of two windows, the largest counts.
        """
        largest: dict[str, Tested] = {}
        for one in tested:
            before = largest.get(one.limit.key)
            is_larger = before is None or one.value > before.value
            if math.isfinite(one.value) and is_larger:
                largest[one.limit.key] = one
        near = [largest[name] for name in self.close if name in largest]
        if not near or any(not one.value >= CLOSE * one.bound > 0 for one in near):
            return None
        nearest = min(near, key=lambda one: one.nearness)
        limit = exact(nearest.bound)
        if nearest.limit.kind is LimitKind.SHARE:
            limit = percent(nearest.bound)
        literal = translatable("{one:capital}; the limit is {limit}.")
        if nearest.value >= nearest.bound:
            literal = translatable(
                "{one:capital} (limit {limit}); that alone is no finding."
            )
        text = message(self.close[nearest.limit.key], value=nearest.value)
        return Close(
            id=self.id,
            title=message(literal, one=text, limit=limit),
            value=nearest.value,
            limit=nearest.bound,
            unit=nearest.limit.unit,
        )

    def too_short(self, run: Run, reward: Series | None = None) -> Result:
        """Return that more steps are needed or, if these suffice, more values of ``reward``."""
        if reward is not None and run.first is not None:
            literal = translatable(
                "at least {least} steps with this reward (this run has {count})"
            )
            count = int(np.isfinite(reward.values).sum())
            return self.not_run(message(literal, least=MIN_STEPS, count=count))
        shortest = run.limits[Trend].shortest_run
        literal = translatable("at least {shortest} steps (this run has {steps})")
        return self.not_run(message(literal, shortest=shortest, steps=len(run.steps)))

    def not_run(self, needs: str) -> Result:
        """Return that the run could not be judged, as it lacks what ``needs`` names."""
        return Result(needs=message(needs))

    def found(  # noqa: PLR0913 (what a finding may be given, by name)
        self,
        run: Run,
        severity: Severity,
        tested: Iterable[Tested] = (),
        facts: Facts = MappingProxyType({}),
        ranking: Ranking | None = None,
        *,
        series: Series | None = None,
        onset: Onset | int | None = None,
        until: int | None = None,
        steps: Iterable[int] | None = None,
        texts: tuple[str, ...] = (),
    ) -> Result:
        """Return a finding of this check.

        Args:
            run: the run that was judged.
            severity: how serious it is; ``Severity.INFO`` makes it a note.
            tested: the values compared with limits; the finding shows those that met them.
            facts: what fills the placeholders of the finding's texts; NaN becomes None.
            ranking: how to choose example responses; None for none.
            series: the judged values by step, if their source (rollouts or metrics) is a fact
                of the finding.
            onset: when the problem began, as a step or an interval; None if that is unknown.
            until: the last step of a problem that ended before the run did.
            steps: the steps that it concerns; by default those since the onset, and without one
                those of the last window.
            texts: what to highlight in responses.
        """
        tested = tuple(tested)
        if isinstance(series, Series):
            facts = {**facts, "series_from": series.source}
        if isinstance(onset, int):
            onset = Onset(onset, onset, onset)
        if steps is not None:
            steps = tuple(steps)
        shown = Evidence(())
        evidence_since = None
        if ranking is not None:
            evidence_since = partial(
                evidence_of, run, ranking, until=until, steps=steps
            )
            shown = evidence_since(onset)
        if steps is None:
            steps = run.since(onset)
        finding = Finding(
            id=self.id,
            severity=severity,
            rank=Rank.NOTE if severity is Severity.INFO else self.rank,
            facts={name: _without_nan(fact) for name, fact in facts.items()},
            onset=onset,
            until=until,
            met=tuple(one for one in tested if one.met),
            evidence=shown.examples,
            unseen=shown.unseen,
            steps=tuple(sorted(set(steps))),
            charts=self.charts,
            texts=texts,
        )
        return Result(finding, tested, evidence_since=evidence_since)

    def judge_share(
        self,
        run: Run,
        series: Series,
        facts: Facts = MappingProxyType({}),
        severity: Severity = Severity.WARNING,
        **details: Any,
    ) -> Result:
        """Return a finding if a fraction is too high for long, or rose too much.

        Args:
            run: the run that is judged.
            series: the fraction by step.
            facts: of the finding, beside ``share`` (where it is high) and ``before``.
            severity: of the finding; a note if the fraction is no longer too high.
            details: further arguments of ``found``.
        """
        limits = self.limits
        assert issubclass(limits, RiseOrShare)
        curve = series.curve
        if curve is None:
            return Result()
        high = LimitedFigure(limits.share, ">", series)
        excursion = high.excursion(run)
        tested = [run.limits.test(limits.share, ">", high.level(excursion))]
        has_risen = False
        if limits.rise is not None and curve.rose:
            rise = change(curve.first.value, curve.last.value)
            tested.insert(0, run.limits.test(limits.rise, ">=", rise))
            has_risen = tested[0].met
        if excursion is None and not has_risen:
            return Result(tested=tuple(tested))
        share = curve.last.value
        before = _of_many(run, series, curve.first)
        onset = run.onset(series)
        until = None
        if excursion is not None and not has_risen:
            onset = self._onset_of(run, high, excursion)
            if not excursion.lasts:
                share = excursion.level
                until = excursion.steps[1]
                severity = Severity.INFO  # it became better
        details = {"onset": onset, "until": until, **details}
        facts = {"share": share, "before": before, **facts}
        return self.found(run, severity, tested, facts, series=series, **details)

    def _onset_of(
        self, run: Run, figure: LimitedFigure, excursion: Excursion
    ) -> Onset | None:
        if excursion.from_start:
            return run.from_start()
        is_share = figure.limit.kind is LimitKind.SHARE
        bound = run.limits.value(figure.limit)
        return run.onset_beyond(figure.series, bound, figure.op, is_share=is_share)

    def judge_rows(
        self,
        run: Run,
        values: Floats,
        weights: Floats | None = None,
        ranking: Ranking | None = None,
        **details: Any,
    ) -> Result:
        """Judge the (weighted) mean of a fraction of each response as ``judge_share`` does.

        Args:
            run: the run that is judged.
            values: one fraction per response, float64 (rows,); NaN is left out.
            weights: the weight of each response, float64 (rows,); by default 1.
            ranking: how to choose examples; by default those with the largest values above 0.
            details: further arguments of ``judge_share`` and ``found``.
        """
        series = means.series(run, values, weights)
        if ranking is None:
            ranking = Ranking(values, where_known(values, values > 0))
        return self.judge_share(run, series, ranking=ranking, **details)

    def judge_metric(self, run: Run, role: str, **details: Any) -> Result:
        """Judge the trainer's metric of ``role`` by ``judge_share``, unless it is not logged.

        Args:
            run: the run that is judged.
            role: see ``metrics.roles``.
            details: further arguments of ``judge_share`` and ``found``.
        """
        metric = quantities.series_of(run, role)
        if metric is None:
            return self.not_run(self.needs_also or self.needs[0].words)
        return self.judge_share(run, metric, **details)

    def judge_figures(
        self,
        run: Run,
        figures: Sequence[LimitedFigure],
        shown: Mapping[str, Series],
        ranking: Ranking | None = None,
        facts: Facts = MappingProxyType({}),
    ) -> Result:
        """Return a finding about the first figure that is beyond its limit for long, if any.

        What ended soon comes after what did not, and what has no date after what has one.

        Args:
            run: the run that is judged.
            figures: what is compared with limits, in the order of importance.
            shown: name of a fact -> figure whose mean, in the steps of the finding, it is.
            ranking: how to choose examples; by default responses whose own figure, if it is
                known, is beyond the limit.
            facts: further facts of the finding.
        """
        excursions = [figure.excursion(run) for figure in figures]
        tested = [
            run.limits.test(figure.limit, figure.op, figure.level(excursion))
            for figure, excursion in zip(figures, excursions, strict=True)
        ]
        found = [
            (figure, excursion)
            for figure, excursion in zip(figures, excursions, strict=True)
            if excursion is not None
        ]
        if not found:
            return Result(tested=tuple(tested))
        figure, excursion = min(found, key=_precedence)
        facts = dict(facts)
        if figure.series.source == "metrics":
            facts["series_from"] = "metrics"
        for name, series in shown.items():
            level = mean_in(series, excursion.steps)
            if math.isfinite(level):
                facts[name] = level
        onset = self._onset_of(run, figure, excursion)
        steps = None
        if onset is None or not excursion.lasts:
            steps = run.window_of(excursion.steps).steps
        return self.found(
            run,
            severity_of(excursion),
            tested,
            facts,
            ranking or _beyond_limit(run, figure),
            onset=onset,
            until=None if excursion.lasts else excursion.steps[1],
            steps=steps,
        )


def _beyond_limit(run: Run, figure: LimitedFigure) -> Ranking | None:
    """Return how to choose responses whose own figure is beyond the limit, None without one."""
    if figure.of_rows is None:
        return None
    among = beyond(figure.of_rows, figure.op, run.limits.value(figure.limit))
    return Ranking(figure.of_rows, among, figure.op.startswith(">"), figure.unit)


# A share is told of so many responses at least
LEAST_RESPONSES = 30


def _of_many(run: Run, series: Series, level: Level) -> float:
    """Return the first level of a share or, if that is one of few responses, of more steps.

    These are as many as it takes, but not more than half of the run.
    """
    if series.source == "metrics" or run.responses.empty:
        return level.value  # of whole batches
    counts = np.bincount(run.step_index, minlength=len(run.steps)).cumsum()
    # Index of the first step up to which there are enough
    enough = int(np.searchsorted(counts, LEAST_RESPONSES))
    half = (len(run.steps) - 1) // 2
    last = int(run.steps[min(enough, half)])
    if last <= level.steps[1]:
        return level.value
    return mean_in(series, (int(run.steps[0]), last))


def _precedence(found: tuple[LimitedFigure, Excursion]) -> tuple[int, bool]:
    """Return the key by which a figure beyond its limit is told before others."""
    _, excursion = found
    has_date = excursion.is_dated or excursion.from_start
    return severity_of(excursion).order, not has_date


def severity_of(
    excursion: Excursion, severity: Severity = Severity.WARNING
) -> Severity:
    """Return how serious it is to be beyond a limit: what ended soon is a note."""
    is_brief = excursion.count <= EPISODE_STEPS
    return Severity.INFO if is_brief and not excursion.lasts else severity


def mean_in(series: Series | None, steps: tuple[int, int]) -> float:
    """Return the mean of a series from the first to the last of these steps, NaN without any."""
    if series is None:
        return math.nan
    inside = (series.steps >= steps[0]) & (series.steps <= steps[1])
    return means.mean(series.values[inside])


def _without_nan(fact: Fact) -> Fact:
    return None if isinstance(fact, float) and math.isnan(fact) else fact


def share_of(
    column: str,
    per: str = "",
    role: str = "",
    facts: Facts = MappingProxyType({}),
    *,
    at_end: bool = False,
) -> Callable[[Check, Run], Result]:
    """Return a ``judge`` function for a fraction of responses, or of their turns or calls.

    Args:
        column: the column of responses that is judged; each response has 0 or 1, or a number of
            those that ``per`` counts.
        per: the column that ``column`` is divided by, such as ``tool_calls``; "" for none.
        role: the role of the trainer's metric that is judged if the log lacks the column.
        facts: further facts of its findings.
        at_end: whether the end of a response shows it.
    """

    def judge(check: Check, run: Run) -> Result:
        if not run.has(column):
            return check.judge_metric(run, role, facts=facts)
        if not per:
            values = run.column(column)
            is_so = where_known(values, values > 0)
            ranking = Ranking(values, is_so, at_end=at_end)
            return check.judge_rows(run, values, ranking=ranking, facts=facts)
        part = run.column(column)
        whole = run.column(per)
        valid = np.isfinite(part) & (whole > 0)
        unknown = np.full(len(part), np.nan)
        ratio = np.divide(part, whole, out=unknown, where=valid)
        return check.judge_rows(run, ratio, whole, facts=facts)

    return judge


def _fill_template(template: Template, facts: Facts) -> str:
    if isinstance(template, Mapping):
        template = template[str(facts["kind"])]
    if callable(template):
        template = template(facts)
    return format_message(template, facts)
