"""Checks of the log: NaN, missing steps, several runs in one log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import FAILURES, Check, Result
from rlreport.check.evidence import Ranking
from rlreport.check.finding import SEVERITIES, Facts, LogText, Severity
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run
from rlreport.figures.ragged import Ints, spans
from rlreport.read.changed import changes_in_words
from rlreport.summarise.steps import most_common
from rlreport.tables import NoteKind, Tables
from rlreport.text.messages import Message, format_message, sentences, translatable

Bools = NDArray[np.bool_]

# NaN in at least this many consecutive steps is a lasting problem, not a single bad batch
LASTING = 3
ROLES = ("loss", "grad_norm", "kl", "kl_token", "entropy", "reward")
# Metrics whose NaN is critical; estimates of KL or entropy may be NaN while training continues
FATAL_ROLES = ("loss", "grad_norm", "reward")

MIN_STEPS = 3
# Files are taken for ranks of one run if this fraction of one's steps is in the other, too
SHARED_STEPS = 0.8


class _NanMetrics(Limits):
    share = Limit(
        0.05,
        "of rewards",
        "rewards NaN or infinite, from the first such step on (critical)",
    )
    logprobs = Limit(
        0.05, "of tokens", "share of a response's log-probabilities that are NaN"
    )
    death = Limit(
        0.1, "of steps", "the reward collapses this soon after the NaN (critical)"
    )


class _Nan(NamedTuple):
    """A period of consecutive steps with NaN in a metric, or in some field of responses."""

    severity: Severity
    since: int
    until: int
    steps: tuple[int, ...]  # all steps with NaN, also those of other periods
    facts: Facts
    rows: Bools | None = None  # the responses with NaN; None for a metric


@Check(
    name="NaN",
    rank="invalid",
    charts=("reward", "kl"),
    limits=_NanMetrics,
    title={
        "metric": "The trainer's {metric} is NaN or infinite from step {since} to {until_step}.",
        "rewards": "Rewards are NaN or infinite from step {since} to {until_step} (in the whole "
        "run: {responses:count}).",
        "logprobs": "Log-probabilities are NaN or infinite from step {since} to {until_step} "
        "(responses in the whole run: {responses:count}).",
        "other": "Values, advantages or token rewards are NaN or infinite from step {since} to "
        "{until_step} (in the whole run: {numbers:count} in {responses:count} responses).",
    },
    statement={
        "metric": "the trainer's {metric} is NaN",
        "rewards": "rewards are NaN",
        "logprobs": "log-probabilities are NaN",
        "other": "values, advantages or token rewards are NaN",
    },
    why="One NaN makes the whole update NaN, unless the trainer skips the batch.",
    suggestion="Go back to a checkpoint before the NaN, clip gradients, and look for an overflow.",
    source="logs of diverged runs",
    explains=(
        *FAILURES,
        "length_hacking",
        "entropy_explosion",
        "unclosed_thinking",
        "reward_shift",
        "zero_variance_groups",
        "group_std_fall",
        "template_collapse",
        "language_drift",
    ),
    whole_run=True,
)
def nan_metrics(check: Check, run: Run) -> Result:
    nans = [*_metric_nans(run), *_response_nans(run)]
    if not nans:
        return None
    worst = min(nans, key=lambda nan: (SEVERITIES.index(nan.severity), nan.since))
    share = worst.facts.get("share") if worst.facts["kind"] == "rewards" else None
    unusable = [
        nan.since for nan in nans if nan.rows is not None and nan.severity == "critical"
    ]
    facts = {**worst.facts, "since": worst.since, "until_step": worst.until}
    ranking = Ranking(run.column("reward"), False, "reward")
    source = "metrics"
    if worst.rows is not None:
        # The first responses show how it began.
        ranking = Ranking(-run.step_index.astype(np.float64), among=worst.rows)
        source = "rollouts"
    return check.finding(
        run,
        worst.severity,
        run.met(_NanMetrics.share, ">", share) if isinstance(share, float) else [],
        {**facts, "cut": min(unusable, default=None), "series_from": source},
        ranking,
        onset=worst.since,
        until=worst.until if worst.until < run.steps[-1] else None,
        steps=worst.steps[:200],
    )


def _metric_nans(run: Run) -> Iterator[_Nan]:
    broken = run.tables.metrics_broken
    metrics = run.tables.metrics
    for role in (role for role in ROLES if run.roles.get(role) in broken):
        name = run.roles[role]
        finite = np.zeros(0, np.int64)
        if name in metrics:
            finite = metrics["step"].to_numpy(np.int64)[np.isfinite(metrics[name])]
        logged = np.union1d(finite, np.asarray(broken[name], np.int64))
        bad = ~np.isin(logged, finite)
        # A step may have several updates: NaN in one of them begins the steps without any number.
        bad[:-1] |= np.isin(logged[:-1], broken[name]) & bad[1:]
        always_nan = (
            bad.all() and role not in FATAL_ROLES
        )  # such as KL without a reference
        placeholder = 2 * bad.sum() >= len(bad) and len(spans(bad)) > LASTING
        if bad.any() and not always_nan and not placeholder:
            fatal: Severity = "critical" if role in FATAL_ROLES else "warning"
            facts: Facts = {"kind": "metric", "metric": LogText(name)}
            yield _worst_period(run, logged, bad, fatal, facts)


def _response_nans(run: Run) -> Iterator[_Nan]:
    rows = run.responses
    numbers = run.responses["nan_values"].to_numpy()
    has_nan = numbers > 0
    ungraded = rows["reward"].isna().to_numpy()
    graded = rows["missing_grade"].to_numpy() == 0
    bad = np.zeros(len(rows), np.bool_)
    if run.has("surprisal_mean"):
        tokens = run.column("response_tokens")
        limit = np.maximum(run.limits[_NanMetrics].logprobs * tokens, 1)
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
        count = int(among.sum())
        first = int(run.step_index[among].min())
        from_first = run.step_index >= min(first, len(run.steps) - LASTING)
        share = float(among[from_first & graded].mean())
        facts: Facts = {"kind": kind, "share": share, "responses": count}
        facts = {**facts, "numbers": int(numbers[among].sum())}
        nan = _worst_period(
            run, run.steps, run.by_step(among.astype(np.float64)) > 0, fatal, facts
        )
        widespread = count >= LASTING and share > run.limits[_NanMetrics].share
        if kind == "rewards" and widespread:
            nan = nan._replace(severity="critical", since=int(run.steps[first]))
        yield nan._replace(rows=among)


def _worst_period(
    run: Run, logged: Ints, bad: Bools, fatal: Severity, facts: Facts
) -> _Nan:
    shape = run.reward_shape
    died = (
        None
        if shape is None or shape.dead is None
        else int(shape.series.steps[shape.dead])
    )
    reach = max(run.limits[_NanMetrics].death * float(np.ptp(logged)), LASTING)
    periods = []
    steps = tuple(logged[bad].tolist())
    for start, stop in spans(bad).tolist():
        since = int(logged[start])
        last = int(logged[stop - 1])
        at_end = stop == len(logged)
        # A start with NaN is normal: mixed precision skips updates until the loss scale fits.
        long = stop - start > 1 if at_end else stop - start >= LASTING and start > 0
        # After NaN in the last step alone, the run may have ended or recovered.
        severity: Severity = fatal if long else "warning" if at_end else "info"
        if died is not None and since <= died <= last + reach:
            severity = "critical"
        until = max(last, int(run.steps[-1])) if at_end else last
        periods.append(_Nan(severity, since, until, steps, facts))
    return min(periods, key=lambda nan: SEVERITIES.index(nan.severity))


class _BrokenLog(Limits):
    unreadable = Limit(0.001, "of lines", "unreadable lines (warning; below it a note)")
    usual = Limit(
        0.8, "of steps", "steps of usual size or distance; with fewer not judged"
    )
    fewer = Limit(
        0.9, "of the usual", "responses of a step; with fewer it is incomplete"
    )


class _Fault(NamedTuple):
    """A fault of the log, such as missing steps; ``key`` selects its sentence in ``_FAULTS``."""

    severity: Severity
    key: str
    facts: Facts
    steps: tuple[int, ...] = ()


_FAULTS = {
    "changed": "{changed}",
    "few": translatable(
        "Steps with fewer than {usual} responses: {few:count}, first step {few_first}."
    ),
    "last": translatable(
        "The last step is incomplete: {last:count} of {usual} responses."
    ),
    "missing": translatable(
        "Missing steps: {missing:count}, the first between {gap_low} and {gap_high}."
    ),
    "early": translatable(
        "Files that end early: {early:count}, the first is {early_file} after step {early_step}."
    ),
    "unequal": translatable(
        "Responses with token arrays of unequal length: {unequal:count}."
    ),
    "torn": translatable(
        "Files with an incomplete last line, as if still being written: {torn:count}."
    ),
    "unreadable": translatable(
        "{unreadable:count} of {lines:count} lines could not be read, first {bad_file}:{bad_line} "
        "({reason})."
    ),
}


def _log_title(facts: Facts) -> str:
    faults = facts["faults"]
    assert isinstance(faults, tuple)
    return sentences(format_message(_FAULTS[str(key)], facts) for key in faults)


@Check(
    name="incomplete log",
    rank="invalid",
    limits=_BrokenLog,
    title=_log_title,
    statement="the log is incomplete",
    why="Statistics of an incomplete log describe only the rows that could be read, not the "
    "whole run.",
    suggestion="Read the reasons on the Data page; check disk space and each rank's exit code.",
    whole_run=True,
)
def broken_log(check: Check, run: Run) -> Result:
    tables = run.tables
    limits = run.limits[_BrokenLog]
    faults = [
        *_changed_files(tables),
        *_unreadable_lines(tables, limits),
        *_incomplete_faults(run),
        *_missing_steps(run.attempted_steps["step"].to_numpy(np.int64), limits),
        *_early_ranks(tables, run.steps),
    ]
    # The reader cut token arrays of unequal length, which padding had caused.
    if cut := sum(
        note.count for note in tables.notes if note.kind == NoteKind.UNEQUAL_LENGTHS
    ):
        faults.append(_Fault("info", "unequal", {"unequal": cut}))
    if not faults:
        return None
    faults.sort(key=lambda fault: fault.severity != "warning")
    severity = faults[0].severity
    first = min(
        (s for f in faults if f.severity == severity for s in f.steps), default=None
    )
    facts: Facts = {"faults": tuple(fault.key for fault in faults)}
    for fault in faults:
        facts = {**facts, **fault.facts}
    steps = [step for fault in faults for step in fault.steps]
    return check.finding(run, severity, (), facts, onset=first, steps=steps)


def _changed_files(tables: Tables) -> Iterator[_Fault]:
    if text := changes_in_words(tables.notes, tables.judged_before):
        yield _Fault("warning", "changed", {"changed": text})


def _unreadable_lines(tables: Tables, limits: _BrokenLog) -> Iterator[_Fault]:
    torn = sum(line.torn for line in tables.bad_lines)
    bad = tables.bad_count - torn
    if torn:
        yield _Fault("info", "torn", {"torn": torn})
    if bad <= 0:
        return
    lines = max(sum(file.lines for file in tables.files), len(tables.responses) + bad)
    facts: Facts = {"unreadable": bad, "lines": lines}
    if first := next((line for line in tables.bad_lines if not line.torn), None):
        why = (
            first.reason if isinstance(first.reason, Message) else LogText(first.reason)
        )
        facts = {**facts, "bad_file": first.file, "bad_line": first.line, "reason": why}
    yield _Fault(
        "warning" if bad > limits.unreadable * lines else "info", "unreadable", facts
    )


def _incomplete_faults(run: Run) -> Iterator[_Fault]:
    """Yield a warning if steps have too few responses, a note if the last one has (it may grow)."""
    limits = run.limits[_BrokenLog]
    repeated = run.tables.steps["step"].map(run.tables.repeated)
    responses = (run.tables.steps["responses"] - repeated.fillna(0)).to_numpy(np.int64)
    usual = most_common(responses, limits.usual)
    incomplete = run.steps[responses < limits.fewer * (usual or 0)]
    if len(responses) < MIN_STEPS or not len(incomplete):
        return
    last = int(run.steps[-1])
    inside = tuple(incomplete[incomplete < last].tolist())
    if inside:
        facts: Facts = {"few": len(inside), "usual": usual, "few_first": inside[0]}
        yield _Fault("warning", "few", facts, inside)
    if incomplete[-1] == last:
        yield _Fault(
            "info", "last", {"last": int(responses[-1]), "usual": usual}, (last,)
        )


def _missing_steps(steps: Ints, limits: _BrokenLog) -> Iterator[_Fault]:
    gaps = np.diff(steps)
    distance = most_common(gaps, limits.usual)
    if len(gaps) < MIN_STEPS or not distance:
        return
    at = np.flatnonzero(gaps >= 2 * distance)
    if len(at):
        low = int(steps[at[0]])
        high = int(steps[at[0] + 1])
        missing = int((gaps[at] // distance - 1).sum())
        facts: Facts = {"missing": missing, "gap_low": low, "gap_high": high}
        yield _Fault(
            "warning", "missing", facts, tuple(steps[np.union1d(at, at + 1)].tolist())
        )


def _early_ranks(tables: Tables, order: Ints) -> Iterator[_Fault]:
    pairs = tables.responses[["file", "step"]].drop_duplicates()
    pairs = pairs[
        ~pairs["step"].isin(tables.repeated)
    ]  # an earlier attempt may end early
    pairs["at"] = np.searchsorted(order, pairs["step"].to_numpy())
    by_file = pairs.groupby("file")["at"]
    pairs["end"] = by_file.transform("max")
    pairs = pairs[
        by_file.transform("size") >= MIN_STEPS
    ]  # others are too short to be compared
    ends_early = pairs.groupby("at")["end"].transform("max") - pairs["end"] >= 2
    early = pairs[ends_early.groupby(pairs["file"]).transform("mean") >= SHARED_STEPS]
    if len(early) and pairs["file"].nunique() <= len(tables.files):
        first = early.sort_values(["end", "file"]).iloc[0]
        name = tables.files[int(first["file"])].name
        step = int(order[first["end"]])
        facts: Facts = {
            "early": early["file"].nunique(),
            "early_file": name,
            "early_step": step,
        }
        yield _Fault(
            "warning", "early", facts, tuple(order[np.unique(early["end"])].tolist())
        )


# Kind of a note that the logs are not those of one run -> kind of the finding
NOT_ONE_RUN = {NoteKind.SEVERAL_RUNS: "runs", NoteKind.SEVERAL_STARTS: "starts"}


@Check(
    name="several runs in one report",
    rank="invalid",
    title="{text}",
    statement={
        "runs": "several runs are in one report",
        "starts": "{count} starts in one log",
    },
    why="Means over several runs describe none of them.",
    suggestion="Build a report of each run, or pass --merge if they are one run.",
    source="this project's convention",
    whole_run=True,
)
def mixed_runs(check: Check, run: Run) -> Result:
    note = next((note for note in run.tables.notes if note.kind in NOT_ONE_RUN), None)
    if note is None:
        return None
    text = note.text if isinstance(note.text, Message) else LogText(note.text)
    facts: Facts = {"text": text, "kind": NOT_ONE_RUN[note.kind], "count": note.count}
    return check.finding(run, "warning", (), facts, steps=())


@Check(
    name="steps logged twice",
    rank="note",
    title="Steps logged again after a restart: {count:count}, from {low} to {high}. Their figures "
    "mix two attempts; --restarts last leaves out the {older:count} responses of the earlier one.",
    why="The checkpoints after a restart do not follow from the responses of the earlier attempt.",
    suggestion="Pass --restarts last to keep only the last attempt at each step.",
    source="this project's convention",
    whole_run=True,
)
def repeated_steps(check: Check, run: Run) -> Result:
    if not (older := run.tables.repeated):
        return None
    facts: Facts = {"count": len(older), "low": min(older), "high": max(older)}
    facts = {**facts, "older": sum(older.values())}
    return check.finding(run, "info", (), facts, onset=min(older), steps=older)
