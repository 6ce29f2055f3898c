"""Run the checks, order their findings, and choose the checkpoint to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import (
    RANKS,
    SEVERITIES,
    Figure,
    Finding,
    Level,
    Moved,
    Muted,
    NotRun,
    Verdict,
)
from rlreport.check.judges.log import invalid_since, nan_metrics
from rlreport.check.limits import Thresholds
from rlreport.check.onset import smooth
from rlreport.check.registry import CHECKS
from rlreport.check.run import Run
from rlreport.check.wording import worded
from rlreport.tables import Tables
from rlreport.text.messages import message

# Check that runs first: after a change of the reward function, rewards are not comparable
FIRST_CHECK = "reward_shift"

# Ids of checks whose findings concern only the log, not the policy and its checkpoints
OF_THE_LOG = ("broken_log", "missing_grades")

# Ids of checks whose critical findings always come first: the policy no longer works
DEATHS = ("reward_collapse", "length_collapse")


def run_checks(
    tables: Tables,
    thresholds: Thresholds | None = None,
    checks: Sequence[Check] = CHECKS,
    muted: Mapping[str, str] | None = None,
) -> Verdict:
    """Run the checks on a run's tables and return the verdict with its texts.

    ``muted`` maps ids of checks to the reason why the user mutes their findings.
    """
    return worded(judge(Run(tables, thresholds), checks, muted))


# Figures may be close to the float64 maximum: sums that overflow become infinite or NaN.
@np.errstate(over="ignore", invalid="ignore")
def judge(
    run: Run, checks: Sequence[Check] = CHECKS, muted: Mapping[str, str] | None = None
) -> Verdict:
    """Run the checks and return the verdict, with findings in order but without texts.

    If NaN makes rewards or log-probabilities useless, only checks with ``whole_run`` judge the
    steps from the first NaN on. If the reward function changed, checks with ``of_reward`` judge
    the reward minus the reference policy's or, without one, only the longer of the two parts of
    the run before and after the change.
    """
    nan = nan_metrics.run(run)
    start = invalid_since(nan)
    judged = run if start is None else run.between(int(run.steps[0]), start)
    of_reward = judged
    results: dict[str, Result] = {}
    for check in sorted(checks, key=lambda check: check.id != FIRST_CHECK):
        subject = run if check.whole_run else of_reward if check.of_reward else judged
        result = nan if check is nan_metrics else _run_check(check, subject, start)
        results[check.id] = result
        if check.id == FIRST_CHECK and isinstance(result, Finding) and result.severity == "warning":
            of_reward = _comparable_run(judged, result)
    results = {check.id: results[check.id] for check in checks}
    findings = [result for result in results.values() if isinstance(result, Finding)]
    reasons = muted or {}
    active = [finding for finding in findings if finding.id not in reasons]
    ordered = _order(active, {check.id: check for check in checks}, run)
    lead = next((f.id for f in ordered if f.severity != "info" and not f.explained_by), None)
    return Verdict(
        level=_level(ordered, run),
        lead=lead,
        keep_step=_keep_step(run, ordered),
        findings=ordered,
        passed=[name for name, result in results.items() if result is None],
        not_run=[result for result in results.values() if isinstance(result, NotRun)],
        muted=[Muted(f, reasons[f.id]) for f in findings if f.id in reasons],
        moved=_moved(judged),
        windows=(judged.first.span, judged.last.span)  # type: ignore[arg-type]
        if judged.first
        else None,
        step_count=len(run.steps),
        reward_count=int(np.isfinite(run.reward.values).sum()),
    )


def _run_check(check: Check, run: Run, start: int | None) -> Result:
    """Run a check; a NotRun mentions ``start``, the step from which NaN makes the run useless."""
    if not len(run.steps) and not check.whole_run:
        needs = "responses"
        if start is not None:
            needs = message("steps before the first NaN (step {start})", start=start)
        return check.not_run(needs)
    result = check.run(run)
    # The steps before the NaN may be too few for the check even if the run has the fields.
    if isinstance(result, NotRun) and start is not None:
        needs = message(
            "{needs}, judged before the first NaN in step {start}", needs=result.needs, start=start
        )
        return NotRun(check.id, needs)
    return result


def _comparable_run(run: Run, shift: Finding) -> Run:
    """Return a run with comparable rewards, given the finding of a changed reward function.

    Its reward is the reward minus the reference policy's. Without a reference policy, it is the
    longer of the two parts of the run before and after the change.
    """
    if run.has("reward_gap"):
        return run.with_gap_as_reward()
    assert shift.onset is not None
    step, start, end = shift.onset.step, int(run.steps[0]), int(run.steps[-1]) + 1
    first_is_longer = np.mean(run.steps < step) >= 0.5
    return run.between(start, step) if first_is_longer else run.between(step, end)


def _order(findings: list[Finding], checks: Mapping[str, Check], run: Run) -> list[Finding]:
    """Return the findings, the most severe first, each followed by its effects.

    ``checks`` maps ids to checks; their order decides between findings of equal rank and severity.
    """
    order = list(checks)

    def place(finding: Finding) -> tuple[int, int, int]:
        severity = SEVERITIES.index(finding.severity)
        return _rank_index(finding), severity, order.index(finding.id)

    ranked = sorted(findings, key=place)
    roots: dict[str, str] = {}
    for finding in ranked:
        top: Finding | None = finding
        while top:
            roots[finding.id] = top.id
            top = next((g for g in ranked if _explains(g, top, checks, order, run)), None)

    def worst(top: Finding) -> tuple[int, int, int]:
        severity = min(SEVERITIES.index(f.severity) for f in ranked if roots[f.id] == top.id)
        # A critical death leads before any other finding.
        return -1 if _is_death(top) else severity, _rank_index(top), severity

    ordered = []
    for top in sorted((f for f in ranked if roots[f.id] == f.id), key=worst):
        explained = [f for f in ranked if roots[f.id] == top.id != f.id]
        ordered += [top, *(replace(finding, explained_by=top.id) for finding in explained)]
    return ordered


def _is_death(finding: Finding) -> bool:
    return finding.severity == "critical" and finding.id in DEATHS


def _rank_index(finding: Finding) -> int:
    """Return 0 (log invalid) to 3 (note) by rank of the finding, -1 if the policy has collapsed."""
    return -1 if _is_death(finding) else RANKS.index(finding.rank)


def _explains(
    cause: Finding, other: Finding, checks: Mapping[str, Check], order: list[str], run: Run
) -> bool:
    """Return whether ``cause`` explains ``other``; if each could, only the earlier one does."""
    if (
        cause.severity == "info"
        or other.id not in checks[cause.id].explains
        or (
            _rank_index(cause) > _rank_index(other)
            and not (_is_death(other) and cause.rank != "consequence")
        )
    ):
        return False
    if cause.rank == other.rank and cause.id in checks[other.id].explains:
        starts = [(f.onset.step if f.onset else -1, order.index(f.id)) for f in (cause, other)]
        if starts[0] > starts[1]:
            return False
    return _follows(other, cause, run)


def _follows(consequence: Finding, cause: Finding, run: Run) -> bool:
    """Return whether a consequence came mostly after its cause had begun.

    It did if at least half of the change of its series came later. Return True for notes, and if
    the cause has no onset or the consequence no series.
    """
    y = consequence.series
    if consequence.rank == "note" or cause.onset is None or y is None:
        return True
    if consequence.onset is not None and consequence.onset.step >= cause.onset.low:
        return True
    finite = np.flatnonzero(np.isfinite(y[: len(run.steps)]))
    if len(finite) < 2:
        return True
    y, steps = smooth(y[finite]), run.steps[finite]
    end = float(y[-max(1, len(y) // 5) :].mean())
    at = float(y[max(int(np.searchsorted(steps, cause.onset.low)) - 1, 0)])
    change = end - float(y[:3].mean())
    return change == 0 or (end - at) / change >= 0.5


def _level(findings: list[Finding], run: Run) -> Level:
    """Return the worst severity or, without problems, "healthy", "unclear" or "unjudged"."""
    severities = {finding.severity for finding in findings}
    for severity in ("critical", "warning"):
        if severity in severities:
            return severity
    if run.first is None or not np.isfinite(run.reward.values).any():
        return "unjudged"
    if run.learned or run.solved:
        return "healthy"
    return "unjudged" if run.reward_shape is None else "unclear"


def _keep_step(run: Run, findings: list[Finding]) -> int | None:
    """Return the step whose checkpoint to keep, or None if the reward did not rise before problems.

    Of the complete steps before the first problem began, it is the one with the best watched
    reward (one not trained on) or, without it, reward. Without problems it is the last step if
    the reward there is about the best. Steps before a change of the reward function are excluded.
    Effects of other findings are ignored: they may begin while the policy is still sound.
    """
    if not len(run.steps):
        return None
    judged = [f for f in findings if f.severity != "info"]
    first, end = int(run.steps[0]), int(run.steps[-1]) + 1
    first = max((f.onset.step for f in judged if f.id == FIRST_CHECK and f.onset), default=first)
    onsets = [
        f.onset.step if f.onset else first
        for f in judged
        if not f.explained_by and f.id not in (*OF_THE_LOG, FIRST_CHECK)
    ]
    if min(onsets, default=end) <= first:
        return None
    before = run.between(first, min(onsets, default=end))
    if not before.learned:
        return None
    shape = before.watched_shape or before.reward_shape
    if shape is None:
        return None
    steps, best = shape.series.steps, shape.best_index + shape.window // 2
    if not onsets and shape.best - shape.end <= shape.noise.of_mean(shape.window):
        best = len(steps) - 1
    complete = ~np.isin(steps, run.tables.steps.loc[run.tables.steps["incomplete"], "step"])
    usable = np.flatnonzero(complete[: best + 1])
    return int(steps[usable[-1]]) if len(usable) else None


def _moved(run: Run) -> tuple[Moved, ...]:
    """Return reward, KL and length in the first and last steps, from responses or else metrics."""
    in_tokens = run.length == "response_tokens" or run.responses.empty
    length: Figure = "tokens" if in_tokens else "characters"
    columns: dict[Figure, tuple[str, str]] = {
        "reward": ("reward", "reward"), "kl": ("kl_k1", "kl"), length: (run.length, "length")
    }  # fmt: skip
    figures = []
    for name, (column, role) in columns.items():
        rose = False
        if name == "reward" and run.first is not None and run.reward_shape is None:
            continue
        if run.has(column):
            moved = run.change(run.column(column))
            first, last, rose = moved.first, moved.last, moved.rose
        elif (series := run.series_of(role)) is not None and run.first is not None:
            first, last = run.ends_of(series)
        else:
            continue
        if name == "reward":
            windows, rose = run.reward_windows(), run.learned
            first, last = (windows["start"] if np.isfinite(first) else first), windows["end"]
        if not np.isfinite(last):
            continue
        first_value = first if np.isfinite(first) else None
        figures.append(
            Moved(name, first_value, last, rose or (None if run.windows_overlap else rose))
        )
    return tuple(figures)
