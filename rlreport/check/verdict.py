"""The verdict: all checks run, findings worst first, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlreport.check.before import before
from rlreport.check.check import Check
from rlreport.check.finding import SEVERITIES, Finding, NotRun, Verdict
from rlreport.check.nan_metrics import first_step_with_nan
from rlreport.check.registry import CHECKS
from rlreport.check.thresholds import Thresholds
from rlreport.check.windows import first_and_last, last
from rlreport.check.words import count, figure, percent
from rlreport.tables import Tables

WHOLE_RUN = ("nan_metrics", "broken_log")
"""Checks that judge every step; the others judge those before the first NaN."""


def run_checks(
    tables: Tables, thresholds: Thresholds | None = None, checks: Sequence[Check] = CHECKS
) -> Verdict:
    """Run the checks on a run's tables and say what they found, worst first.

    Args:
        tables: the run; not changed.
        thresholds: limits of the checks, the defaults if None.
        checks: the checks to run.
    """
    limits = thresholds or Thresholds()
    start = first_step_with_nan(tables)
    judged = tables if start is None else before(tables, start)
    findings: list[Finding] = []
    passed: list[str] = []
    not_run: list[NotRun] = []
    for check in checks:
        result = _result(check, tables, judged, start, limits)
        if isinstance(result, Finding):
            findings.append(result)
        elif isinstance(result, NotRun):
            not_run.append(result)
        else:
            passed.append(check.id)
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    level = findings[0].severity if findings else "healthy"
    sentence = _sentence(judged, limits, findings, len(passed), len(not_run))
    return Verdict(sentence, level, findings, passed, not_run)


def _result(
    check: Check, tables: Tables, judged: Tables, start: int | None, limits: Thresholds
) -> Finding | NotRun | None:
    if check.id in WHOLE_RUN:
        return check.run(tables, limits)
    if judged.responses.empty:
        return check.not_run(f"steps before the first NaN (step {start})")
    # Fields are absent only if the whole run lacks them: a cut run may just be too short.
    result = check.run(judged, limits)
    if isinstance(result, NotRun) and start is not None:
        return NotRun(check.id, f"{result.needs}, judged before the first NaN in step {start}")
    return result


def _sentence(
    tables: Tables, limits: Thresholds, findings: list[Finding], passed: int, not_run: int
) -> str:
    ran = passed + len(findings)
    checks = f"{count(ran, 'check')} ran, {not_run} could not"
    worst = [f for f in findings if f.severity == findings[0].severity]
    if not worst or worst[0].severity == "info":
        notes = f"; worth knowing: {', '.join(f.id for f in findings)}" if findings else ""
        figures = _figures(tables, limits) or "nothing was found"
        return f"Healthy: {figures} ({checks}{notes})."
    opening = "Broken" if worst[0].severity == "critical" else "Look at this"
    rest = [f for f in findings if f.severity != "info"][1:]
    more = f"; also {', '.join(f.id for f in rest)}" if rest else ""
    title = worst[0].title
    return f"{opening}: {title}{more} ({checks})."


def _figures(tables: Tables, limits: Thresholds) -> str:
    """Return the figures that led to "healthy"."""
    if tables.responses.empty:
        return ""
    windows = first_and_last(tables, limits.trend)
    end = last(tables, limits.trend)

    def mean(column: str, part: slice) -> float:
        values = tables.responses[column].to_numpy(dtype=float)[part]
        return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan

    said = []
    reward = mean("reward", end.rows)
    if np.isfinite(reward):
        since = "" if windows is None else f"{figure(mean('reward', windows[0].rows))} → "
        said.append(f"reward {since}{figure(reward)}")
    gap = tables.responses["reward_gap"].to_numpy(dtype=float)[end.rows]
    if np.isfinite(gap).any():
        said.append(
            f"{percent(float((gap[np.isfinite(gap)] > 0).mean()))} of responses beat the reference"
        )
    kl = mean("kl_k1", end.rows)
    if np.isfinite(kl):
        said.append(f"KL {figure(kl)} nats a response")
    surprisal = mean("surprisal_mean", end.rows)
    if np.isfinite(surprisal):
        said.append(f"surprisal {figure(surprisal)} nats a token")
    ended = mean("finished", end.rows)
    if np.isfinite(ended):
        said.append(f"{percent(ended)} of responses end by themselves")
    return ", ".join(said)
