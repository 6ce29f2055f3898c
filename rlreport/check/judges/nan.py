"""NaN and infinite numbers in training: in the trainer's metrics and in responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import SEVERITIES, Fact, Facts, Finding, LogText, Onset, Severity
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Ranking, Run
from rlreport.figures.ragged import Ints, spans
from rlreport.metrics.roles import roles_of
from rlreport.text.messages import marked, sentences, told

LASTING = 3
"""NaN in so many consecutive steps is more than a single bad batch."""

Bools = NDArray[np.bool_]

ROLES = ("loss", "grad_norm", "kl", "kl_token", "entropy")
FATAL_ROLES = ("loss", "grad_norm")
"""Metrics of the optimizer; an estimate of KL or entropy may be NaN while training continues."""


class NanMetrics(Limits):
    """Thresholds of ``nan_metrics``."""

    share = Limit(0.05, "of rewards", "critical: NaN or infinite from the first such step on")
    logprobs = Limit(0.05, "of tokens", "a response with more NaN log-probabilities counts")
    death = Limit(0.1, "of steps", "critical: the reward dies within this part after it")


@dataclass(frozen=True, slots=True)
class Nan:
    """NaN or infinite numbers of one kind: severity, steps, and the numbers in the title."""

    kind: str
    severity: Severity
    since: int
    until: int | None
    deadly: bool
    steps: tuple[int, ...]
    facts: dict[str, Fact]
    rows: Bools | None = None


def _worst(
    run: Run,
    kind: str,
    logged: Ints,
    bad: Bools,
    fatal: Severity,
    rows: Bools | None = None,
    **facts: Fact,
) -> Nan:
    """Return the worst period of NaN: critical if the reward dies after, ``fatal`` if it lasts."""
    shape = run.reward_shape
    died = None if shape is None or shape.dead is None else int(shape.series.steps[shape.dead])
    reach = max(run.limits[NanMetrics].death * float(np.ptp(logged)), LASTING)
    periods = []
    for start, stop in spans(bad).tolist():
        since, last, at_end = int(logged[start]), int(logged[stop - 1]), stop == len(logged)
        deadly = died is not None and since <= died <= last + reach
        # With mixed precision the first updates are skipped until the loss scale fits.
        long = stop - start > 1 if at_end else stop - start >= LASTING and start > 0
        # NaN in the last step may be the end of the run, or recover.
        mild: Severity = "warning" if at_end else "info"
        severity: Severity = "critical" if deadly else fatal if long else mild
        until, steps = None if at_end else last, tuple(logged[bad].tolist())
        periods.append(Nan(kind, severity, since, until, deadly, steps, facts, rows))
    return min(periods, key=lambda nan: SEVERITIES.index(nan.severity))


def _metric_nans(run: Run) -> Iterator[Nan]:
    """Judge NaN in the trainer's loss, gradient norm, KL and entropy."""
    broken, metrics = run.tables.metrics_broken, run.tables.metrics
    roles = roles_of(broken)
    for role in (role for role in ROLES if role in roles):
        name = roles[role]
        finite = np.zeros(0, np.int64)
        if name in metrics:
            finite = metrics["step"].to_numpy(np.int64)[np.isfinite(metrics[name])]
        logged = np.union1d(finite, np.asarray(broken[name], np.int64))
        bad = ~np.isin(logged, finite)
        always_nan = bad.all() and role not in FATAL_ROLES  # such as KL without a reference
        placeholder = 2 * bad.sum() >= len(bad) and len(spans(bad)) > LASTING
        if bad.any() and not always_nan and not placeholder:
            fatal: Severity = "critical" if role in FATAL_ROLES else "warning"
            yield _worst(run, "metric", logged, bad, fatal, metric=LogText(name))


def _response_nans(run: Run) -> Iterator[Nan]:
    """Judge NaN in the rewards, log-probabilities and other numbers of responses."""
    rows, numbers = run.responses, run.responses["nan_values"].to_numpy()
    has_nan, ungraded = numbers > 0, rows["reward"].isna().to_numpy()
    graded, bad = rows["missing_grade"].to_numpy() == 0, np.zeros(len(rows), np.bool_)
    if run.has("surprisal_mean"):
        tokens = run.column("response_tokens")
        limit = np.maximum(run.limits[NanMetrics].logprobs * tokens, 1)
        bad = tokens - run.column("logp_tokens") > limit
        bad |= rows["surprisal_mean"].isna().to_numpy()
    if run.has("kl_k1"):
        bad = bad | rows["kl_k1"].isna().to_numpy()
    kinds: tuple[tuple[str, Severity, Bools], ...] = (
        ("logprobs", "critical", has_nan & bad),
        ("other", "warning", has_nan & ~bad & ~ungraded),
        ("rewards", "warning", has_nan & ungraded & graded),
    )
    for kind, fatal, among in kinds:
        if not among.any():
            continue
        count, first = int(among.sum()), int(run.step_index[among].min())
        from_first = run.step_index >= min(first, len(run.steps) - LASTING)
        share = float(among[from_first & graded].mean())
        facts: dict[str, Fact] = {"responses": count, "numbers": int(numbers[among].sum())}
        nan = _worst(run, kind, run.steps, run.steps_of(among), fatal, among, share=share, **facts)
        widespread = count >= LASTING and share > run.limits[NanMetrics].share
        if kind == "rewards" and widespread:
            nan = replace(nan, severity="critical", since=int(run.steps[first]), deadly=False)
        yield nan


def judge_nan(run: Run) -> Result:
    """Find NaN and infinite numbers; the worst kind decides the severity."""
    nans = [*_metric_nans(run), *_response_nans(run)]
    if not nans:
        return None
    worst = min(nans, key=lambda nan: (SEVERITIES.index(nan.severity), nan.since))
    share = worst.facts.get("share") if worst.kind == "rewards" else None
    met = run.met(NanMetrics.share, ">", share) if isinstance(share, float) else []
    unusable = [nan.since for nan in nans if nan.rows is not None and nan.severity == "critical"]
    ranking, series = Ranking(run.column("reward"), highest=False), None
    if worst.rows is not None:
        # The first responses show how it began.
        ranking = Ranking(-run.step_index.astype(np.float64), among=worst.rows)
        series = run.by_step(worst.rows.astype(np.float64))
    return NAN_METRICS.finding(
        run,
        worst.severity,
        met,
        series=series,
        onset=Onset(worst.since, worst.since, worst.since),
        until=worst.until,
        ranking=ranking,
        steps=worst.steps[:200],
        more=worst.facts,
        kind=worst.kind,
        since=worst.since,
        until_step=worst.until,
        deadly=worst.deadly,
        cut=min(unusable, default=None),
        series_from="metrics" if worst.rows is None else "rollouts",
    )


def invalid_since(result: Result) -> int | None:
    """Return the step from which NaN makes responses useless, None without such a finding."""
    step = result.facts["cut"] if isinstance(result, Finding) else None
    return step if isinstance(step, int) else None


_NAN = {
    "metric": marked("The trainer's {metric} is NaN or infinite"),
    "rewards": marked("{responses:count} rewards are NaN or infinite"),
    "logprobs": marked("The log-probabilities of {responses:count} responses are NaN or infinite"),
    "other": marked(
        "{numbers:count} values, advantages or token rewards of {responses:count} responses are "
        "NaN or infinite"
    ),
}


def _nan_title(facts: Facts) -> str:
    what = told(_NAN[str(facts["kind"])], facts)
    if facts["until_step"] is None:
        when = marked("{what} from step {since} on.")
    elif facts["until_step"] == facts["since"]:
        when = marked("{what} at step {since}, and not after it.")
    else:
        when = marked("{what} in steps {since} to {until_step}, and not after them.")
    more = [marked("The reward died with it.")] if facts.get("deadly") else []
    if facts["cut"] is not None:
        more.append(marked("The other checks judge the steps before it."))
    return sentences([told(when, {**facts, "what": what}), *(told(one, {}) for one in more)])


NAN_METRICS = Check(
    id="nan_metrics",
    name="NaN",
    rank="invalid",
    looks_for="NaN or infinity in the loss, the gradient norm, log-probabilities or rewards",
    charts=("reward", "kl"),
    judge=judge_nan,
    limits=NanMetrics,
    title=_nan_title,
    why="One NaN in a batch makes the whole update NaN, and the weights after it are usually lost. "
    "A single bad batch that the trainer skipped does no harm.",
    suggestion="Go back to a checkpoint before this step and clip gradients. Look for an overflow "
    "in half precision, a division by a zero std, or an empty response.",
    source=marked("logs of diverged runs"),
    explains=(
        *("reward_collapse", "length_collapse", "length_hacking", "watched_reward_fall"),
        *("diversity_collapse", "entropy_collapse", "entropy_explosion", "kl_explosion"),
        *("missing_eos", "unclosed_thinking", "zero_variance_groups", "reward_stalled"),
        *("template_collapse", "group_std_fall", "language_drift", "reward_shift"),
    ),
    trend=False,
    whole_run=True,
)
