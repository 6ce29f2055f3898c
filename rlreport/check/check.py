"""The ``Check`` class: what a check requires, how it judges a run, and its findings' texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rlreport.check.finding import (
    Close,
    Example,
    Fact,
    Facts,
    Finding,
    Limit,
    Limits,
    Met,
    NotRun,
    Onset,
    Rank,
    Severity,
)
from rlreport.check.noise import Change, Trend
from rlreport.check.run import LimitedFigure, Ranking, Run, met_from_start
from rlreport.check.series import MIN_STEPS, Series
from rlreport.figures.ragged import Floats
from rlreport.read.rollouts import Turn
from rlreport.text.messages import format_message, listed, message, percent, translatable
from rlreport.text.numbers import exact

Result = Finding | NotRun | None
CLOSE = 0.5  # A value of at least this part of its limit is close to it
# A text with {placeholders}, a dict of such texts (``facts["kind"]`` selects one), or a function
# that returns such a text. ``facts`` are the values filled into the placeholders
Template = str | Mapping[str, str] | Callable[[Facts], str]


class Need(NamedTuple):
    """Data that a check needs: all of ``columns``, or any of the metrics in ``roles``."""

    words: str  # names of the logged fields for readers, such as "logprobs and ref_logprobs"
    # columns of the table of responses; each must contain at least one number
    columns: tuple[str, ...]
    # roles of trainer metrics, see ``metrics.roles``: any of them suffices instead of the columns
    roles: tuple[str, ...] = ()

    def is_available(self, run: Run) -> bool:
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
    "kl_explosion",
    "entropy_collapse",
    "length_collapse",
    "diversity_collapse",
    "missing_eos",
    "reward_stalled",
    "loops",
)


class RiseOrShare(Limits):
    """Thresholds of a check that limits a fraction and its rise since the first window."""

    rise: Limit[float] | None = None
    share: Limit[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A health check: a function that judges a run, and the texts of the findings it returns."""

    name: str  # the problem in a few words ("reward hacking")
    rank: Rank  # "invalid" (log), "cause", "consequence" or "note"; severity info is always a note
    title: Template  # sentence that states a finding, with placeholders for its numbers
    why: str  # why the problem matters
    suggestion: str  # what to do about it
    id: str = ""  # key of the check in findings and in the thresholds file
    # function that judges a run; called only if ``needs`` are met
    judge: Callable[[Check, Run], Result] = lambda check, run: None
    needs: tuple[Need, ...] = ()  # data that the check requires
    charts: tuple[str, ...] = ()  # names of the charts in the report that show its findings
    limits: type[Limits] = Limits  # class that declares the thresholds of the check
    source: str = ""  # where the thresholds come from; by default the source of the first threshold
    # clause that states a finding in the verdict ("rewards are NaN"); by default ``name``
    statement: Template | None = None
    event: bool = False  # whether the problem happened in one step, rather than lasted since then
    # ids of other checks whose findings this check's finding may have caused
    explains: tuple[str, ...] = ()
    trend: bool = False  # whether it compares early with late steps; then short runs are not judged
    whole_run: bool = False  # whether it also judges the steps after the first NaN
    # whether it judges rewards, which a change of the reward function invalidates
    of_reward: bool = False
    # names of those numbers in ``title`` that come from a sample of the responses
    sampled: tuple[str, ...] = ()
    # Names of thresholds, and a clause with the {value} tested against each. If all of these values
    # are at least half of their thresholds, but there is no finding, the verdict says so
    close: Mapping[str, str] = field(default_factory=dict)
    turn: Callable[[Turn], bool] | None = None  # whether evidence is to point at a turn
    needs_also: str = ""  # data needed beyond ``needs``, in words; ``judge`` tests for it itself

    def __post_init__(self) -> None:
        if not self.source:
            first = next(iter(self.limits.declared().values()))
            object.__setattr__(self, "source", first.source)

    def __call__(self, judge: Callable[[Check, Run], Result]) -> Check:
        return replace(self, id=judge.__name__, judge=judge)

    def run(self, run: Run) -> Result:
        """Return a finding, None without a problem, or a NotRun if data or steps are too few."""
        missing = [message(need.words) for need in self.needs if not need.is_available(run)]
        if missing and run.responses.empty:
            return self.not_run(message("rollouts with {fields}", fields=listed(missing)))
        if missing:
            return self.not_run(listed(missing))
        if self.trend and run.first is None:
            return self.too_short(run)
        return self.judge(self, run)

    def format_title(self, facts: Facts) -> str:
        return _fill_template(self.title, facts)

    def format_statement(self, facts: Facts) -> str:
        return _fill_template(self.statement or self.name, facts)

    def close_to_limit(self, run: Run) -> Close | None:
        """Return the tested value with the lowest ratio to its limit, None if it is below CLOSE."""
        limits = self.limits.declared()
        tested = [run.tested[limits[name]] for name in self.close if limits[name] in run.tested]
        if any(not met.value >= CLOSE * met.limit > 0 for met in tested):
            return None
        met = min(tested, key=lambda met: met.value / met.limit, default=None)
        if met is None:
            return None
        limit = percent(met.limit) if met.unit.startswith("of ") else exact(met.limit)
        literal = translatable("{one:capital}; the limit is {limit}.")
        if met.value >= met.limit:
            literal = translatable("{one:capital} (limit {limit}); that alone is no finding.")
        text = message(self.close[met.name], value=met.value)
        title = message(literal, one=text, limit=limit)
        return Close(self.id, title, met.value, met.limit, met.unit)

    def too_short(self, run: Run, reward: Series | None = None) -> NotRun:
        """Return a NotRun that asks for more steps or, if these suffice, values of ``reward``."""
        if reward is not None and run.first is not None:
            literal = translatable("at least {least} steps with this reward (this run has {count})")
            count = int(np.isfinite(reward.values).sum())
            needs = message(literal, least=MIN_STEPS, count=count)
        else:
            shortest = run.limits[Trend].shortest_run
            steps = len(run.steps)
            literal = translatable("at least {shortest} steps (this run has {steps})")
            needs = message(literal, shortest=shortest, steps=steps)
        return self.not_run(needs)

    def not_run(self, needs: str) -> NotRun:
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
        """Return a finding of this check.

        ``facts`` are the values filled into the finding's texts (NaN becomes None), ``met`` the
        thresholds that were met. ``ranking`` selects example responses. ``fields`` are other fields
        of ``Finding``; ``onset`` may be an Onset, a step or None. Without it, the onset is computed
        from ``series``, the judged values by step (an array or a Series, whose source becomes a
        fact): where they left their baseline, or the first step if ``always=True``; None without
        a series. ``steps`` are by default those since the onset, without one the last window.
        """
        values = dict(facts or {})
        series = fields.pop("series", None)
        always = fields.pop("always", False)
        if isinstance(series, Series):
            values["series_from"] = series.source
            series = run.align(series)
        if "onset" not in fields:
            fields["onset"] = None if series is None else run.onset(series, always=always)
        elif isinstance(step := fields["onset"], int):
            fields["onset"] = Onset(step, step, step)
        steps = fields.pop("steps", run.since(fields["onset"]))
        examples: tuple[Example, ...] = ()
        unseen = 0
        if ranking is not None:
            examples = run.examples(ranking, fields["onset"], fields.get("until"))
            if not examples:
                unseen = run.with_texts_since(None if ranking.in_last_window else fields["onset"])
        return Finding(
            id=self.id,
            severity=severity,
            rank="note" if severity == "info" else self.rank,
            facts={
                name: None if isinstance(fact, float) and math.isnan(fact) else fact
                for name, fact in values.items()
            },
            thresholds=tuple(met),
            evidence=examples,
            unseen=unseen,
            steps=tuple(sorted(set(steps))),
            charts=self.charts,
            **fields,
        )

    def judge_share(
        self,
        run: Run,
        moved: Change,
        series: Series,
        facts: Facts = MappingProxyType({}),
        severity: Severity = "warning",
        **details: Any,
    ) -> Finding | None:
        """Return a finding if a fraction is too high at the end or rose too much, else None."""
        limits = self.limits
        assert issubclass(limits, RiseOrShare)
        rise = run.met(limits.rise, ">=", moved.difference) if limits.rise and moved.rose else []
        met = [*rise, *run.met(limits.share, ">", moved.last)]
        if not met:
            return None
        # A share that did not rise beyond noise was as high from the start.
        was_high = not moved.rose or bool(run.met(limits.share, ">", moved.first))
        details["always"] = not rise and was_high
        facts = {"share": moved.last, "before": moved.first, **facts}
        return self.finding(run, severity, met, facts, series=series, **details)

    def judge_rows(
        self,
        run: Run,
        values: Floats,
        weights: Floats | None = None,
        ranking: Ranking | None = None,
        **details: Any,
    ) -> Finding | None:
        """Judge the (weighted) mean of per-response ``values`` as ``judge_share`` does."""
        moved = run.change(values, weights)
        series = Series(run.steps, run.by_step(values, weights))
        ranking = ranking or Ranking(values, among=values > 0)
        return self.judge_share(run, moved, series, ranking=ranking, **details)

    def judge_metric(self, run: Run, role: str, **details: Any) -> Result:
        """Judge the trainer's metric of ``role`` by ``judge_share``; NotRun if values are few."""
        if (metric := run.series_of(role, MIN_STEPS)) is None:
            return self.not_run(self.needs_also or self.needs[0].words)
        return self.judge_share(run, metric.change(), metric, **details)

    def judge_figures(
        self, run: Run, figures: Sequence[LimitedFigure], ranking: Ranking, **facts: Fact
    ) -> Result:
        """Return a finding with the onset of the first figure that crosses its limit, or None."""
        exceeded = [(f, met) for f in figures for met in run.met(f.limit, f.op, f.end)]
        if not exceeded:
            return None
        figure, first = exceeded[0]
        series = figure.series
        always = met_from_start(figure.series, first)
        if figure.source == "metrics":
            facts["series_from"] = figure.source
        met = [met for _, met in exceeded]
        return self.finding(run, "warning", met, facts, ranking, series=series, always=always)


def share_of(
    column: str, per: str = "", role: str = "", facts: Facts = MappingProxyType({})
) -> Callable[[Check, Run], Result]:
    """Return a ``judge`` function for a fraction: ``column``, divided by ``per`` unless that is "".

    If the log lacks the column, it judges the trainer's metric of ``role``. Findings get ``facts``.
    """

    def judge(check: Check, run: Run) -> Result:
        if not run.has(column):
            return check.judge_metric(run, role, facts=facts)
        if not per:
            return check.judge_rows(run, run.column(column), facts=facts)
        part = run.column(column)
        whole = run.column(per)
        valid = np.isfinite(part) & (whole > 0)
        ratio = np.divide(part, whole, out=np.full(len(part), np.nan), where=valid)
        return check.judge_rows(run, ratio, whole, facts=facts)

    return judge


def _fill_template(template: Template, facts: Facts) -> str:
    if isinstance(template, Mapping):
        template = template[str(facts["kind"])]
    return format_message(template(facts) if callable(template) else template, facts)
