"""Run all checks, order their findings, choose the checkpoint to keep, and add excerpts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import progress, quantities
from rlreport.check.check import FALLS, Check
from rlreport.check.course import HELD_OUT, WATCHED, Course, Quantity
from rlreport.check.curve import PROBABLY_Z
from rlreport.check.excerpts import Excerpts
from rlreport.check.finding import (
    Close,
    Finding,
    NotRun,
    Rank,
    Result,
    Severity,
)
from rlreport.check.judges.kl import kl_above
from rlreport.check.judges.log import mixed_runs, nan_metrics
from rlreport.check.judges.reward import explanation_of_fall
from rlreport.check.limits import Thresholds
from rlreport.check.prepared import Kind
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.verdict import Judged, Level, Muted, Verdict
from rlreport.figures.ragged import Ints
from rlreport.metrics.roles import MISMATCHES
from rlreport.read.rollouts import Rollouts
from rlreport.tables import Tables
from rlreport.text.messages import listed, message, translatable


def with_excerpts(
    judged: Judged[Finding], responses: pd.DataFrame, rollouts: Rollouts
) -> Judged[Finding]:
    """Return the outcome with excerpts of the responses that its findings show.

    Args:
        judged: the outcome of all checks.
        responses: the table of all responses, whose rows are those of ``rollouts``.
        rollouts: where the texts are read from.
    """
    findings = [*judged.findings, *(muted.finding for muted in judged.muted)]
    examples = chain.from_iterable(finding.evidence for finding in findings)
    excerpts = Excerpts(examples, responses, rollouts)

    def with_texts_of_examples(finding: Finding) -> Finding:
        check = BY_ID.get(finding.id)
        evidence = [
            excerpts.of(
                example,
                shows=check.turn if check else None,
                place=check.place if check else None,
                facts=finding.facts,
            )
            for example in finding.evidence
        ]
        return replace(finding, evidence=tuple(evidence))

    return judged.map(with_texts_of_examples)


# Check that runs first: after a change of the reward function, rewards are not comparable
FIRST_CHECK = "reward_shift"

# Figure of the policy -> columns of responses and roles of trainer metrics; each of them shows it
OF_POLICY = {
    translatable("KL"): ("kl_k1", "kl", "kl_token"),
    translatable("entropy"): ("surprisal_mean", "entropy"),
    translatable("engine mismatch"): MISMATCHES,
}
# Figure that needs log-probabilities of a second policy -> that policy
SECOND_POLICY = {
    "KL": translatable("reference"),
    "engine mismatch": translatable("sampler"),
}
# Further columns and roles that show more than rewards and texts do
BEYOND_REWARDS = ("grad_norm", "clip_fraction", "ratio", "value_mean")

# Ids of checks whose findings spoil the checkpoints since then: losses of what was gained
LOSSES = (*FALLS, "part_falls")

# Ids of checks whose findings concern only the log, not the policy and its checkpoints
OF_THE_LOG = ("broken_log", "missing_grades")

# Ids of checks whose critical findings always come first: the policy no longer works
DEATHS = ("reward_collapse", "length_collapse")


def run_checks(
    tables: Tables,
    thresholds: Thresholds | None = None,
    muted: Mapping[str, str] | None = None,
) -> Verdict:
    """Run the checks and return the verdict with its texts; ``muted``: check id -> reason."""
    return with_texts(judge(Run(tables, thresholds), muted))


# Figures may be close to the float64 maximum: sums that overflow become infinite or NaN.
@np.errstate(over="ignore", invalid="ignore")
def judge(run: Run, muted: Mapping[str, str] | None = None) -> Judged[Finding]:
    """Run the checks and return their outcome, with findings in order but without texts.

    ``muted`` has the reason for each check id to mute. If NaN makes rewards or log-probabilities
    useless, only checks with ``whole_run`` judge the steps from the first NaN on. If the reward
    function changed, checks with ``of_reward`` judge the reward minus the reference policy's or,
    without one, only the longer of the two parts of the run before and after the change. Logs of
    several runs are not judged, as their mixture is no run.
    """
    reasons = muted or {}
    several = mixed_runs.run(run).finding
    if several is not None and several.id not in reasons:
        return _not_judged(run, several)
    outcome = _run_all(run)
    found = outcome.findings()
    ordered = _order([one for one in found if one.id not in reasons], run)
    serious = [finding for finding in ordered if finding.severity is not Severity.INFO]
    leading = [finding.id for finding in serious if not finding.explained_by]
    muted_findings = [one for one in found if one.id in reasons]
    close = outcome.close_ones() if _is_comparable(run, ordered) else ()
    return replace(
        _about_run(run),
        level=_level(ordered, run),
        lead=leading[0] if leading else None,
        keep_step=_keep_step(run, ordered),
        findings=ordered,
        close=close,
        passed=outcome.passed(close),
        not_run=outcome.not_run(),
        muted=[Muted(finding, reasons[finding.id]) for finding in muted_findings],
        courses=_courses(run, outcome.judged),
        windows=_spans_of_windows(outcome.judged),
        harder_prompts=_became_harder(outcome.comparable, ordered),
        one_prompt=_has_one_prompt_a_step(run),
        gained_format=progress.gained_format(run),
    )


def _courses(run: Run, judged: Run) -> dict[Quantity, Course]:
    """Return the courses of a run, that of the KL with when it is above the limit of its check.

    ``judged`` is the part of the run that the checks judge.
    """
    courses = dict(quantities.courses(run))
    kl = courses.get("kl")
    if kl is not None:
        courses["kl"] = replace(kl, above=kl_above(judged, kl))
    return courses


def _about_run(run: Run) -> Judged[Finding]:
    """Return what a run logs, as the outcome of no check."""
    steps = run.steps.tolist()
    return Judged(
        level="unjudged",
        not_observed=_not_observed(run),
        step_count=len(steps),
        first_step=steps[0] if steps else None,
        last_step=steps[-1] if steps else None,
        basis=_basis(run),
        reward_count=int(np.isfinite(quantities.reward(run).values).sum()),
    )


@dataclass
class _Outcome:
    """The results of all checks, by the id of the check."""

    judged: Run  # the part of the run before the first NaN that makes it useless
    comparable: Run  # the part of that with comparable rewards
    results: dict[str, Result] = field(default_factory=dict)
    close: dict[str, Close] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        results = [self.results[check.id] for check in CHECKS]
        return [one.finding for one in results if one.finding is not None]

    def close_ones(self) -> tuple[Close, ...]:
        """Return what checks without a finding were close to, in the order of the checks."""
        return tuple(self.close[one.id] for one in CHECKS if one.id in self.close)

    def passed(self, close: Sequence[Close]) -> list[str]:
        """Return the ids of the checks that ran and found nothing, without the ``close`` ones."""
        near = {one.id for one in close}
        return [
            check.id
            for check in CHECKS
            if self.results[check.id].passed and check.id not in near
        ]

    def not_run(self) -> list[NotRun]:
        return [
            NotRun(check.id, self.results[check.id].needs)
            for check in CHECKS
            if self.results[check.id].needs
        ]


def _run_all(run: Run) -> _Outcome:
    """Run each check on the part of the run that it can judge."""
    nan = nan_metrics.run(run)
    start = nan.finding.facts["cut"] if nan.finding else None
    assert start is None or isinstance(start, int)
    judged = run if start is None else run.between(int(run.steps[0]), start)
    outcome = _Outcome(judged, comparable=judged)
    for check in sorted(CHECKS, key=lambda check: check.id != FIRST_CHECK):
        subject = judged
        if check.whole_run:
            subject = run
        elif check.of_reward:
            subject = outcome.comparable
        result = nan
        if check is not nan_metrics:
            result = _run_check(check, subject, start)
        outcome.results[check.id] = result
        near = check.close_to_limit(result.tested) if result.passed else None
        if near is not None:
            outcome.close[check.id] = near
        shift = result.finding if check.id == FIRST_CHECK else None
        if shift is not None and shift.severity is Severity.WARNING:
            outcome.comparable = _comparable_run(judged, shift)
    return outcome


def _is_comparable(run: Run, findings: Sequence[Finding]) -> bool:
    """Return whether the run did not break within its first window.

    If it did, changes from that window are too small.
    """
    breaks = [
        finding.onset.step
        for finding in findings
        if finding.severity is Severity.CRITICAL and finding.onset is not None
    ]
    if run.first is None:
        return True
    return min(breaks, default=math.inf) > run.first.steps[-1]


def _spans_of_windows(run: Run) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return first and last step of the first and of the last window; None for a short run."""
    if run.first is None:
        return None
    first = run.first.span
    last = run.last.span
    assert first is not None and last is not None
    return first, last


def _became_harder(run: Run, findings: list[Finding]) -> bool:
    """Return whether harder prompts surely explain a fall of the reward, so that none is found."""
    for finding in findings:
        if finding.id == "reward_collapse" and finding.severity is not Severity.INFO:
            return False
    explanation = explanation_of_fall(run)
    return explanation is not None and explanation["kind"] == "prompts"


def _has_one_prompt_a_step(run: Run) -> bool:
    """Return whether most steps have a single prompt, but not all the same."""
    if run.responses["prompt_id"].nunique() <= 1:
        return False
    return float(run.tables.steps["prompts"].median()) == 1


def _not_judged(run: Run, several: Finding) -> Judged[Finding]:
    needs = message("the logs of one run")
    others = [check.id for check in CHECKS if check.id != several.id]
    return replace(
        _about_run(run),
        lead=several.id,
        findings=[several],
        not_run=[NotRun(name, needs) for name in others],
    )


def _logs(run: Run, *names: str) -> bool:
    """Return whether the run has any of these columns or metrics of these roles."""
    return any(run.has(name) or name in run.roles for name in names)


def _basis(run: Run) -> str:
    """Return what is logged if it is no more than rewards and texts, else ""."""
    if _logs(run, *BEYOND_REWARDS, *chain(*OF_POLICY.values())):
        return ""
    return message("rewards") if run.responses.empty else message("rewards and texts")


def _not_observed(run: Run) -> tuple[str, ...]:
    """Return phrases for what is not logged, such as "log-probabilities (no KL or entropy)"."""
    unseen = [figure for figure, names in OF_POLICY.items() if not _logs(run, *names)]
    has_rollouts = not run.responses.empty
    in_groups = run.has("value_mean") or run.responses["group"].duplicated().any()
    is_logged = {
        message("rewards"): _logs(run, "reward"),
        _logprobs_for(unseen, run): not unseen,
        message("gradient norms"): _logs(run, "grad_norm"),
        message("a validation score"): any(
            name in quantities.courses(run) for name in HELD_OUT
        ),
        message("rollouts (no texts, groups or finish reasons)"): has_rollouts,
        message("groups"): not has_rollouts or in_groups,
        message("finish reasons"): not has_rollouts
        or _logs(run, "finished", "truncated"),
    }
    return tuple(text for text, known in is_logged.items() if not known)


def _logprobs_for(figures: Sequence[str], run: Run) -> str:
    """Return the log-probabilities without which there are no such ``figures``, in words."""
    if not run.has("surprisal_mean"):
        return message("log-probabilities (no {figures})", figures=_either(figures))
    # Those of the policy are logged, those of a second policy are not.
    return message(
        "log-probabilities of the {policies} (no {figures})",
        policies=_either([SECOND_POLICY[figure] for figure in figures]),
        figures=_either(figures),
    )


def _either(literals: Sequence[str]) -> str:
    texts = [message(literal) for literal in literals]
    if len(texts) < 2:
        return listed(texts)
    return message("{some} or {last}", some=listed(texts[:-1]), last=texts[-1])


def _run_check(check: Check, run: Run, start: int | None) -> Result:
    """Run a check; ``start`` is the step of the first NaN from which on it may not look."""
    if not (len(run.steps) or check.whole_run):
        result = check.not_run("responses")
    else:
        result = check.run(run)
    # The steps before the NaN may be too few for the check even if the run has the fields.
    if result.needs and start is not None:
        literal = translatable("{needs} before the first NaN (step {start})")
        return Result(needs=message(literal, needs=result.needs, start=start))
    return result


def _comparable_run(run: Run, shift: Finding) -> Run:
    """Return the run with comparable rewards after a change of the reward function."""
    if run.has("reward_gap"):
        return run.with_gap_as_reward()
    assert shift.onset is not None
    step = shift.onset.step
    start = int(run.steps[0])
    end = int(run.steps[-1]) + 1
    first_is_longer = np.mean(run.steps < step) >= 0.5
    return run.between(start, step) if first_is_longer else run.between(step, end)


def _order(findings: list[Finding], run: Run) -> list[Finding]:
    """Return the findings, most important first, each followed by those that it explains."""
    ranked = sorted(findings, key=lambda f: (_rank_order(f), f.severity.order))
    # Id of a finding -> id of that which explains it in the end, its own if none does
    roots = {finding.id: _root(finding, ranked).id for finding in ranked}
    groups = []
    for top in ranked:
        if roots[top.id] == top.id:
            explained = [one for one in ranked if roots[one.id] == top.id]
            groups.append(_Group(top, explained))
    groups.sort(key=lambda group: group.order(run))
    ordered: list[Finding] = []
    for group in groups:
        ordered.append(group.top)
        for finding in group.findings:
            if finding.id != group.top.id:
                ordered.append(replace(finding, explained_by=group.top.id))
    return ordered


class _Group(NamedTuple):
    """A finding that no other explains, and all that it explains, itself included."""

    top: Finding
    findings: list[Finding]

    def order(self, run: Run) -> tuple[int, int, int, int]:
        """Return the place among the groups: the smallest comes first, of equals the earliest."""
        severity = min(finding.severity.order for finding in self.findings)
        rank = _rank_order(self.top)
        onset = self.top.onset
        always = onset is None or onset.step <= run.steps[0]
        # What was there from the start did not keep the reward from rising.
        if self.top.rank is Rank.CAUSE and always and progress.learned(run):
            rank = Rank.NOTE.order
        # A critical death leads before any other finding.
        first = -1 if _is_death(self.top) else severity
        step = onset.step if onset is not None else int(run.steps[0])
        return first, rank, severity, step


def _root(finding: Finding, ranked: Sequence[Finding]) -> Finding:
    """Return the finding that explains this one in the end, itself if none does."""
    root = finding
    while True:
        cause = next((other for other in ranked if _explains(other, root)), None)
        if cause is None:
            return root
        root = cause


def _is_death(finding: Finding) -> bool:
    return finding.severity is Severity.CRITICAL and finding.id in DEATHS


def _rank_order(finding: Finding) -> int:
    return -1 if _is_death(finding) else finding.rank.order


def _explains(cause: Finding, other: Finding) -> bool:
    """Return whether one finding may have caused another, by their checks, ranks and onsets."""
    if cause.severity is Severity.INFO or other.id not in BY_ID[cause.id].explains:
        return False
    explains_death = _is_death(other) and cause.rank is not Rank.CONSEQUENCE
    if _rank_order(cause) > _rank_order(other) and not explains_death:
        return False
    explain_each_other = cause.id in BY_ID[other.id].explains
    is_tie = cause.rank is other.rank and explain_each_other
    # The earlier one explains; of two with equal onsets, the first in the registry.
    if is_tie and _start(cause) > _start(other):
        return False
    if other.rank is Rank.NOTE or cause.onset is None or other.onset is None:
        return True
    if cause.rank is other.rank:
        return cause.onset.step <= other.onset.high
    return cause.onset.low <= other.onset.high


def _start(finding: Finding) -> tuple[int, int]:
    """Return the step of the onset, -1 if unknown, and the place in the registry."""
    step = finding.onset.step if finding.onset else -1
    return step, list(BY_ID).index(finding.id)


def _level(findings: list[Finding], run: Run) -> Level:
    """Return "critical" or "warning" if any finding is; else "healthy", "unclear" or "unjudged"."""
    severities = {finding.severity for finding in findings}
    if Severity.CRITICAL in severities:
        return "critical"
    if Severity.WARNING in severities:
        return "warning"
    if not np.isfinite(quantities.reward(run).values).any():
        return "unjudged"
    if progress.learned(run):
        watched = quantities.watched_course(run)
        # Of a reward that rises while validation probably falls, nothing is sure.
        is_doubtful = watched is not None and watched.curve.probably_fell
        return "unclear" if is_doubtful else "healthy"
    # Few steps can prove that the reward rose, but not that it did not.
    if run.first is None or quantities.reward_course(run) is None:
        return "unjudged"
    return "healthy" if progress.solved(run) else "unclear"


def _keep_step(run: Run, findings: list[Finding]) -> int | None:
    """Return the step whose checkpoint to keep, None if none is; docs/checks.md has the rule."""
    if not len(run.steps):
        return None
    serious = [one for one in findings if one.severity is not Severity.INFO]
    changes = [one.onset.step for one in serious if one.id == FIRST_CHECK and one.onset]
    first = max(changes, default=int(run.steps[0]))
    end = int(run.steps[-1]) + 1
    of_policy = [one for one in serious if one.id not in (*OF_THE_LOG, FIRST_CHECK)]
    onsets = [one.onset.step if one.onset else first for one in _spoiling(of_policy)]
    spoiled = min(onsets, default=end)
    if spoiled <= first:
        return None
    # Evaluations before the first step count, too.
    start = first if changes else np.iinfo(np.int64).min
    before = run.between(start, spoiled)
    quantity = _decisive_quantity(run, before)
    course = quantities.courses(before).get(quantity)
    if course is None or not _is_gain(run, before, course, quantity):
        return None
    declined = course.slipped and not any(
        finding.id == "mix_changed" for finding in findings
    )
    last = len(course.steps) - 1
    if onsets or declined:
        began = min((one.onset.step for one in of_policy if one.onset), default=end)
        last = _best_index(course, began)
    return _last_complete(run, course.steps[: last + 1])


def _spoiling(findings: list[Finding]) -> list[Finding]:
    """Return the findings that spoil a checkpoint: critical ones, without any losses of a score.

    The rest may be harmless.
    """
    critical = [one for one in findings if one.severity is Severity.CRITICAL]
    # What fell and recovered has an end.
    falls = [one for one in findings if one.id in LOSSES and one.until is None]
    return critical or falls


def _decisive_quantity(run: Run, before: Run) -> Quantity:
    """Return the score that tells which checkpoint is best: a watched one if it can."""
    for quantity in WATCHED:
        course = quantities.courses(run).get(quantity)
        # One evaluation in the whole run cannot tell which checkpoint is best.
        if course is None or course.is_single:
            continue
        return quantity if quantity in quantities.courses(before) else "reward"
    return "reward"


def _is_gain(run: Run, before: Run, course: Course, quantity: Quantity) -> bool:
    """Return whether the part of the run before a problem surely gained anything."""
    if course.top.value <= course.first.value:
        return False
    if progress.learned(before) or course.gained or course.curve.probably_rose:
        return True
    # Few steps may tell less about the noise than all steps do.
    whole = quantities.courses(run)[quantity]
    errors = []
    for one in (course, whole):
        errors.append(math.hypot(one.first.se, one.last.se))
    return course.last.value - course.first.value > PROBABLY_Z * min(errors)


def _best_index(course: Course, onset: int) -> int:
    """Return the index of the last step as good as the best; before step ``onset`` if any is.

    Steps are compared by the lines of the curve, whose noise is that of a level. Of evaluations,
    which are few and exist as checkpoints, the values themselves count.
    """
    curve = course.curve
    levels = curve.values if curve.kind is Kind.EVALUATIONS else curve.lines
    as_good = np.flatnonzero(levels >= levels.max() - course.last.se)
    before = as_good[course.steps[as_good] < onset]
    return int((before if len(before) else as_good)[-1])


def _last_complete(run: Run, steps: Ints) -> int | None:
    """Return the last of the steps that is not marked as incomplete, None if all are."""
    table = run.tables.steps
    incomplete = table.loc[table["incomplete"], "step"]
    complete = steps[~np.isin(steps, incomplete)]
    return int(complete[-1]) if len(complete) else None
