"""Checks of the log: NaN, missing steps, several runs in one log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check import quantities
from rlreport.check.check import FAILURES, Check
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, LogText, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run
from rlreport.check.settings import SettingKind, also, lower
from rlreport.figures.ragged import Ints, spans
from rlreport.metrics.roles import without_prefixes
from rlreport.read.changed import changes_in_words
from rlreport.summarise.steps import most_common
from rlreport.system.in_memory import is_in_memory
from rlreport.tables import NoteKind, Tables
from rlreport.text.messages import Message, format_message, sentences, translatable

Bools = NDArray[np.bool_]

# NaN in at least this many consecutive steps is a lasting problem, not a single bad batch
LASTING = 3
# Roles of the trainer's metrics in which NaN is looked for
ROLES = ("loss", "grad_norm", "kl", "kl_token", "entropy", "reward")
# Metrics whose NaN is critical; estimates of KL or entropy may be NaN while training continues
FATAL_ROLES = ("loss", "grad_norm", "reward")
# Stands for the role of a critic's loss and gradient, which have none
CRITIC = "critic"

# Fewer steps do not tell what is usual
MIN_STEPS = 3
MAX_STEPS = 200  # Maximum number of steps that a finding names
# Files are taken for ranks of one run if this fraction of one's steps is in the other, too
SHARED_STEPS = 0.8


class _NanMetrics(Limits):
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of rewards",
        "rewards NaN or infinite, from the first such step on (critical)",
    )
    logprobs = Limit(
        0.05,
        LimitKind.SHARE,
        "of tokens",
        "share of a response's log-probabilities that are NaN",
    )
    death = Limit(
        0.1,
        LimitKind.SHARE,
        "of steps",
        "the reward collapses this soon after the NaN (critical)",
    )


class _Nan(NamedTuple):
    """A period of consecutive steps with NaN in a metric, or in some field of responses."""

    severity: Severity
    since: int  # its first step
    until: int  # its last step
    steps: tuple[int, ...]  # all steps with NaN, also those of other periods
    facts: Facts  # of the finding; ``kind`` is the key of its title
    rows: Bools | None = None  # the responses with NaN; None for a metric


@Check(
    name="NaN",
    rank=Rank.INVALID,
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
    suggestions={
        "from_start": "See how it is computed: NaN from the first step on is a fault of code or "
        "data, such as a division by 0 or an empty mask.",
    },
    advice=dict.fromkeys(
        ("metric", "rewards", "logprobs", "other"),
        also(*lower(SettingKind.GRADIENT_CLIP, SettingKind.STEP_SIZE)),
    ),
    before_setting="Go back to a checkpoint before the NaN, and look for an overflow.",
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
    """Find NaN or infinity in the trainer's metrics or in fields of responses."""
    nans = [*_metric_nans(run), *_response_nans(run)]
    if not nans:
        return Result()
    worst = min(nans, key=lambda nan: (nan.severity.order, nan.since))
    tested = []
    if worst.facts["kind"] == "rewards":
        share = worst.facts["share"]
        assert isinstance(share, float)
        tested.append(run.limits.test(_NanMetrics.share, ">", share))
    # Other checks judge the steps before the first of these, the fact ``cut``.
    unusable = [
        nan.since
        for nan in nans
        if nan.rows is not None and nan.severity is Severity.CRITICAL
    ]
    ranking = None
    if worst.rows is not None:
        # The first responses show how it began.
        ranking = Ranking(-run.step_index.astype(np.float64), worst.rows)
    facts: Facts = {
        **worst.facts,
        "since": worst.since,
        "until_step": worst.until,
        "cut": min(unusable, default=None),
        "series_from": "metrics" if worst.rows is None else "rollouts",
    }
    if worst.since == run.steps[0]:  # no update of the policy can have caused it
        facts = {**facts, "advice": "from_start"}
    return check.found(
        run,
        worst.severity,
        tested,
        facts,
        ranking,
        onset=worst.since,
        until=worst.until if worst.until < run.steps[-1] else None,
        steps=worst.steps[:MAX_STEPS],
    )


def _metric_nans(run: Run) -> Iterator[_Nan]:
    """Yield the worst period with NaN in each of the trainer's metrics."""
    broken = run.tables.metrics_broken  # metric -> steps with NaN or infinity
    metrics = run.tables.metrics
    for name, role in _judged_names(run):
        finite_steps = np.zeros(0, np.int64)
        if name in metrics:
            is_finite = np.isfinite(metrics[name])
            finite_steps = metrics["step"].to_numpy(np.int64)[is_finite]
        logged = np.union1d(finite_steps, np.asarray(broken[name], np.int64))
        is_bad = ~np.isin(logged, finite_steps)
        # A step may have several updates: NaN in one of them begins the steps without any number.
        has_nan = np.isin(logged, broken[name])
        is_bad[:-1] |= has_nan[:-1] & is_bad[1:]
        if not is_bad.any() or _is_no_fault(role, is_bad):
            continue
        fatal = Severity.CRITICAL if role in FATAL_ROLES else Severity.WARNING
        facts: Facts = {"kind": "metric", "metric": LogText(name)}
        yield _worst_period(run, logged, is_bad, fatal, facts)


# Names of the loss and the gradient of a critic
_OF_CRITIC = re.compile(r"critic/(?:vf_loss|grad_norm)|(?:vf|value|critic)_loss")


def _judged_names(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the metrics with NaN that are judged, with their roles; a critic's have none."""
    broken = run.tables.metrics_broken
    for role in ROLES:
        name = run.roles.get(role)
        if name in broken:
            yield name, role
    for name in broken:
        if _OF_CRITIC.fullmatch(without_prefixes(name)):
            yield name, CRITIC


def _is_no_fault(role: str, is_bad: Bools) -> bool:
    """Return whether NaN only means that a metric has no value.

    Args:
        role: the role of the metric.
        is_bad: which of the steps at which it is logged have NaN only.
    """
    if is_bad.all() and role not in (*FATAL_ROLES, CRITIC):
        return True  # such as KL without a reference
    # Often NaN, and again and again: a metric that most updates do not compute
    is_placeholder = 2 * is_bad.sum() >= len(is_bad) and len(spans(is_bad)) > LASTING
    return bool(is_placeholder)


class _NanRows(NamedTuple):
    """Responses with NaN in some of their fields."""

    kind: str  # of the fields: the key of the finding's title
    fatal: Severity  # how serious a lasting period is
    rows: Bools  # which responses, bool (rows,)


def _response_nans(run: Run) -> Iterator[_Nan]:
    """Yield the worst period with NaN in each kind of fields of responses."""
    numbers = run.responses["nan_values"].to_numpy()  # how many of a response are NaN
    is_graded = run.responses["missing_grade"].to_numpy() == 0
    for kind, fatal, rows in _nan_rows(run):
        if not rows.any():
            continue
        count = int(rows.sum())
        first = int(run.step_index[rows].min())
        # Of at least LASTING steps: the share in the last step alone says little.
        from_first = run.step_index >= min(first, len(run.steps) - LASTING)
        share = float(rows[from_first & is_graded].mean())
        facts: Facts = {
            "kind": kind,
            "share": share,
            "responses": count,
            "numbers": int(numbers[rows].sum()),
        }
        has_any = run.by_step(rows.astype(np.float64)) > 0
        nan = _worst_period(run, run.steps, has_any, fatal, facts)
        # NaN in many rewards is critical even if no period of it lasts.
        is_widespread = count >= LASTING and share > run.limits[_NanMetrics].share
        if kind == "rewards" and is_widespread:
            since = int(run.steps[first])
            nan = nan._replace(severity=Severity.CRITICAL, since=since)
        yield nan._replace(rows=rows)


def _nan_rows(run: Run) -> tuple[_NanRows, ...]:
    """Return which responses have NaN: in log-probabilities, in other fields, in rewards."""
    responses = run.responses
    has_nan = responses["nan_values"].to_numpy() > 0
    has_no_reward = responses["reward"].isna().to_numpy()
    is_graded = responses["missing_grade"].to_numpy() == 0
    # One token of a response, or a small share of them, may lack a log-probability.
    no_logprobs = np.zeros(len(responses), np.bool_)
    if run.has("surprisal_mean"):
        tokens = run.column("response_tokens")
        most = np.maximum(run.limits[_NanMetrics].logprobs * tokens, 1)
        tokens_without = tokens - run.column("logp_tokens")
        no_logprobs = tokens_without > most
        no_logprobs |= responses["surprisal_mean"].isna().to_numpy()
    if run.has("kl_k1"):
        no_logprobs = no_logprobs | responses["kl_k1"].isna().to_numpy()
    return (
        _NanRows("logprobs", Severity.CRITICAL, has_nan & no_logprobs),
        _NanRows("other", Severity.WARNING, has_nan & ~no_logprobs & ~has_no_reward),
        _NanRows("rewards", Severity.WARNING, has_nan & has_no_reward & is_graded),
    )


def _worst_period(
    run: Run, logged: Ints, is_bad: Bools, fatal: Severity, facts: Facts
) -> _Nan:
    """Return the most serious period of bad steps, of equally serious ones the first.

    Args:
        run: the run.
        logged: the steps at which there is a value or NaN, ascending.
        is_bad: which of them have NaN; at least one.
        fatal: how serious a lasting period is.
        facts: of the finding.
    """
    death = quantities.death(run)
    died = death.onset if death is not None else None
    # The reward may die some steps after the NaN that killed it.
    delay = max(run.limits[_NanMetrics].death * float(np.ptp(logged)), LASTING)
    steps = tuple(logged[is_bad].tolist())
    periods = []
    for start, stop in spans(is_bad).tolist():
        since = int(logged[start])
        last = int(logged[stop - 1])
        at_end = stop == len(logged)
        severity = _severity_of_period(start, stop, fatal, at_end=at_end)
        if died is not None and since <= died <= last + delay:
            severity = Severity.CRITICAL
        # A metric may be logged at some steps only: what lasts until its end lasts until the run's.
        until = max(last, int(run.steps[-1])) if at_end else last
        periods.append(_Nan(severity, since, until, steps, facts))
    return min(periods, key=lambda nan: nan.severity.order)


def _severity_of_period(
    start: int, stop: int, fatal: Severity, *, at_end: bool
) -> Severity:
    """Return how serious NaN is in the logged steps with indices from ``start`` to ``stop``.

    ``fatal`` is how serious a lasting period is; ``at_end`` tells whether it lasts until the end.
    """
    count = stop - start
    if at_end:
        # After NaN in the last step alone, the run may have ended or recovered.
        return fatal if count > 1 else Severity.WARNING
    # A start with NaN is normal: mixed precision skips updates until the loss scale fits.
    return fatal if count >= LASTING and start > 0 else Severity.INFO


class _BrokenLog(Limits):
    unreadable = Limit(
        0.001,
        LimitKind.SHARE,
        "of lines",
        "unreadable lines (warning; below it a note)",
    )
    usual = Limit(
        0.8,
        LimitKind.SHARE,
        "of steps",
        "steps of usual size or distance; with fewer not judged",
    )
    fewer = Limit(
        0.9,
        LimitKind.SHARE,
        "of the usual",
        "responses of a step; with fewer it is incomplete",
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
    "unreadable_rows": translatable(
        "{unreadable:count} of {lines:count} rows of the data could not be read, first row "
        "{bad_line:count} ({reason})."
    ),
}


def _log_title(facts: Facts) -> str:
    """Return a sentence for each fault, the most serious first."""
    faults = facts["faults"]
    assert isinstance(faults, tuple)
    return sentences(format_message(_FAULTS[str(key)], facts) for key in faults)


@Check(
    name="incomplete log",
    rank=Rank.INVALID,
    limits=_BrokenLog,
    title=_log_title,
    statement="the log is incomplete",
    why="Statistics of an incomplete log describe only the rows that could be read, not the "
    "whole run.",
    suggestion="Read the reasons on the Data page; check disk space and each rank's exit code.",
    whole_run=True,
)
def broken_log(check: Check, run: Run) -> Result:
    """Find lines, steps or responses that are missing in the log, or files that changed."""
    tables = run.tables
    limits = run.limits[_BrokenLog]
    faults = [
        *_changed_files(tables),
        *_unreadable_lines(tables, limits),
        *_incomplete_faults(run),
        *_missing_steps(_logged_steps(run), limits),
        *_early_ranks(tables, run.steps),
    ]
    # The reader cut token arrays of unequal length, which padding had caused.
    unequal = [
        note.count for note in tables.notes if note.kind == NoteKind.UNEQUAL_LENGTHS
    ]
    if sum(unequal):
        faults.append(_Fault(Severity.INFO, "unequal", {"unequal": sum(unequal)}))
    if not faults:
        return Result()
    # One finding tells them all, the most serious ones first; these date it.
    faults.sort(key=lambda fault: fault.severity.order)
    severity = faults[0].severity
    facts: Facts = {"faults": tuple(fault.key for fault in faults)}
    steps: list[int] = []
    serious_steps: list[int] = []
    for fault in faults:
        facts = {**facts, **fault.facts}
        steps += fault.steps
        if fault.severity is severity:
            serious_steps += fault.steps
    first = min(serious_steps, default=None)
    return check.found(run, severity, (), facts, onset=first, steps=steps)


def _changed_files(tables: Tables) -> Iterator[_Fault]:
    """Yield a warning if files changed while they were read."""
    text = changes_in_words(tables.notes, tables.judged_before)
    if text:
        yield _Fault(Severity.WARNING, "changed", {"changed": text})


def _unreadable_lines(tables: Tables, limits: _BrokenLog) -> Iterator[_Fault]:
    """Yield a note for files that end in the middle of a line, and a fault for unreadable lines."""
    torn = sum(line.torn for line in tables.bad_lines)
    bad = tables.bad_count - torn  # ``bad_lines`` has only the first ones of them
    if torn:
        yield _Fault(Severity.INFO, "torn", {"torn": torn})
    if bad <= 0:
        return
    # Files that do not consist of lines have fewer: count at least what was read or could not be.
    lines_of_files = sum(file.lines for file in tables.files)
    lines = max(lines_of_files, len(tables.responses) + bad)
    facts: Facts = {"unreadable": bad, "lines": lines}
    first = next((line for line in tables.bad_lines if not line.torn), None)
    kind = "unreadable"
    if first is not None:
        reason = first.reason
        kind = "unreadable_rows" if is_in_memory(first.file) else kind
        facts = {
            **facts,
            "bad_file": first.file,
            "bad_line": first.line,
            # Our own words, or text of the log, which --redact hides
            "reason": reason if isinstance(reason, Message) else LogText(reason),
        }
    are_many = bad > limits.unreadable * lines
    severity = Severity.WARNING if are_many else Severity.INFO
    yield _Fault(severity, kind, facts)


def _incomplete_faults(run: Run) -> Iterator[_Fault]:
    """Yield a warning if steps have too few responses, a note if the last one has (it may grow)."""
    limits = run.limits[_BrokenLog]
    steps = run.tables.steps
    # A step that a restarted run logged again has more responses than usual.
    repeated = steps["step"].map(run.tables.repeated).fillna(0)
    responses = (steps["responses"] - repeated).to_numpy(np.int64)
    usual = most_common(responses, limits.usual)
    # Without a usual number, none is incomplete.
    incomplete = run.steps[responses < limits.fewer * (usual or 0)]
    if len(responses) < MIN_STEPS or not len(incomplete):
        return
    last = int(run.steps[-1])
    inside = tuple(incomplete[incomplete < last].tolist())
    if inside:
        facts: Facts = {"few": len(inside), "usual": usual, "few_first": inside[0]}
        yield _Fault(Severity.WARNING, "few", facts, inside)
    if incomplete[-1] == last:
        facts = {"last": int(responses[-1]), "usual": usual}
        yield _Fault(Severity.INFO, "last", facts, (last,))


def _logged_steps(run: Run) -> Ints:
    """Return the steps that were logged, also where an evaluation overwrote their responses."""
    attempted = run.attempted_steps["step"].to_numpy(np.int64)
    overwritten = np.array(run.tables.overwritten, np.int64)
    return np.union1d(attempted, overwritten)


def _missing_steps(steps: Ints, limits: _BrokenLog) -> Iterator[_Fault]:
    """Yield a warning if steps are missing between those at the usual distance."""
    gaps = np.diff(steps)
    distance = most_common(gaps, limits.usual)
    if len(gaps) < MIN_STEPS or not distance:
        return
    before_gap = np.flatnonzero(gaps >= 2 * distance)
    if not len(before_gap):
        return
    facts: Facts = {
        # A gap of twice the distance lacks one step.
        "missing": int((gaps[before_gap] // distance - 1).sum()),
        "gap_low": int(steps[before_gap[0]]),
        "gap_high": int(steps[before_gap[0] + 1]),
    }
    next_to_gaps = steps[np.union1d(before_gap, before_gap + 1)]
    yield _Fault(Severity.WARNING, "missing", facts, tuple(next_to_gaps.tolist()))


def _early_ranks(tables: Tables, order: Ints) -> Iterator[_Fault]:
    """Yield a warning if a file ends two steps or more before others with the same steps.

    Args:
        tables: the tables of the run; ``file`` of a response is an index in ``tables.files``.
        order: the steps of the run, ascending. Distances count these, not their numbers.
    """
    # One row for each file and step
    pairs = tables.responses[["file", "step"]].drop_duplicates()
    # An earlier attempt at a step may end early.
    pairs = pairs[~pairs["step"].isin(tables.repeated)]
    pairs["at"] = np.searchsorted(order, pairs["step"].to_numpy())
    by_file = pairs.groupby("file")["at"]
    pairs["end"] = by_file.transform("max")
    # Other files are too short to be compared.
    pairs = pairs[by_file.transform("size") >= MIN_STEPS]
    # Of all files that have a step, where the last of them ends
    latest_end = pairs.groupby("at")["end"].transform("max")
    is_outlived = latest_end - pairs["end"] >= 2
    # Most of a file's steps have to be shared, or they are those of another part of the run.
    shared = is_outlived.groupby(pairs["file"]).transform("mean")
    early = pairs[shared >= SHARED_STEPS]
    if not len(early) or pairs["file"].nunique() > len(tables.files):
        return
    first = early.sort_values(["end", "file"]).iloc[0]
    facts: Facts = {
        "early": early["file"].nunique(),
        "early_file": tables.files[int(first["file"])].name,
        "early_step": int(order[first["end"]]),
    }
    steps = order[np.unique(early["end"])]
    yield _Fault(Severity.WARNING, "early", facts, tuple(steps.tolist()))


# Kind of a note that the logs are not those of one run -> kind of the finding
NOT_ONE_RUN = {NoteKind.SEVERAL_RUNS: "runs", NoteKind.SEVERAL_STARTS: "starts"}


@Check(
    name="several runs in one report",
    rank=Rank.INVALID,
    title="{text}",
    statement={
        "runs": "several runs are in one report",
        "starts": "{count} starts in one log",
    },
    why="Means over several runs describe none of them.",
    suggestion="Build a report of each run, or of each start (--restarts N); if they are one run, "
    "pass --merge.",
    source="this project's convention",
    whole_run=True,
)
def mixed_runs(check: Check, run: Run) -> Result:
    """Find that the log has several runs, or several starts of one."""
    note = next((note for note in run.tables.notes if note.kind in NOT_ONE_RUN), None)
    if note is None:
        return Result()
    # Our own words, or text of the log, which --redact hides
    text = note.text if isinstance(note.text, Message) else LogText(note.text)
    facts: Facts = {"text": text, "kind": NOT_ONE_RUN[note.kind], "count": note.count}
    return check.found(run, Severity.WARNING, (), facts, steps=())


@Check(
    name="steps logged twice",
    rank=Rank.NOTE,
    title="Steps logged again after a restart: {count:count}, from {low} to {high}. Their figures "
    "mix two attempts; --restarts last leaves out the {older:count} responses of the earlier one.",
    why="The checkpoints after a restart do not follow from the responses of the earlier attempt.",
    suggestion="Pass --restarts last to keep only the last attempt at each step.",
    source="this project's convention",
    whole_run=True,
)
def repeated_steps(check: Check, run: Run) -> Result:
    """Note steps that were logged again after a restart."""
    older = run.tables.repeated  # step -> number of responses of the earlier attempt
    if not older:
        return Result()
    facts: Facts = {
        "count": len(older),
        "low": min(older),
        "high": max(older),
        "older": sum(older.values()),
    }
    first = min(older)
    return check.found(run, Severity.INFO, (), facts, onset=first, steps=older)
