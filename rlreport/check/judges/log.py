"""Checks of the log itself: holes, several runs in one, cut texts, columns that end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Fact, Facts, LogText, Onset, Severity
from rlreport.check.limits import CONTRACT, Limit, Limits
from rlreport.check.run import Run
from rlreport.check.windows import step_numbers
from rlreport.figures.ragged import Ints
from rlreport.several_runs import SEVERAL_RUNS
from rlreport.summarise.steps import commonest
from rlreport.tables import Tables
from rlreport.text.messages import Message, marked, sentences, told


class CutTexts(Limits):
    """Thresholds of ``cut_texts``."""

    share = Limit(0.2, "of responses", "info: of exactly the largest length, or with an ellipsis")
    least = Limit(64, "characters", "shorter ones may be of equal length by chance")


class LostColumns(Limits):
    """Thresholds of ``lost_columns``."""

    share = Limit(0.9, "of responses", "info: held it in each step until it ended for good")


class BrokenLog(Limits):
    """Thresholds of ``broken_log``."""

    unreadable = Limit(0.001, "of lines", "warning: unreadable; below it, info")
    usual = Limit(0.8, "of steps", "alike in responses or distance, else neither is judged")
    fewer = Limit(0.9, "of the usual", "a step with fewer responses is incomplete")


SHOWN = 3
SHARED_STEPS = 0.8
"""Part of a file's steps that another holds too, if both are ranks of one run."""

ELLIPSES = frozenset(("…", "..."))
"""Last units of a text that a logger cut."""

MOST_NAMED = 5
LOGGED = {
    "surprisal_mean": "logprobs",
    "kl_k1": "ref_logprobs",
    "value_mean": "values",
    "ref_reward": "ref_reward",
    "valid_reward": "valid_reward",
    "response_tokens": "response_tokens",
}
"""Columns of the response table, and the logged field that feeds them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the log: how bad, its key in the facts, and the steps it touches."""

    severity: Severity
    key: str
    count: int
    steps: tuple[int, ...] = ()
    more: dict[str, Fact] = field(default_factory=dict)


def judge_log(run: Run) -> Result:
    """Collect what is wrong with the log; the finding is as severe as the worst of it."""
    tables, limits = run.tables, run.limits[BrokenLog]
    faults = [
        *_unreadable(tables, limits),
        *_incomplete(tables, limits),
        *_missing_steps(run.tried["step"].to_numpy(np.int64), limits),
        *_early_ranks(tables),
    ]
    # What the reader cut: padding makes token arrays of unequal length.
    if cut := sum(note.count for note in tables.notes if note.kind == "unequal_lengths"):
        faults.append(Fault("info", "unequal", cut))
    if not faults:
        return None
    faults.sort(key=lambda fault: fault.severity != "warning")
    severity = faults[0].severity
    steps = sorted({s for f in faults if f.severity == severity for s in f.steps})
    facts: dict[str, Fact] = {"faults": tuple(fault.key for fault in faults)}
    for fault in faults:
        facts |= {fault.key: fault.count, **fault.more}
    return BROKEN_LOG.finding(
        run,
        severity,
        onset=Onset(steps[0], steps[0], steps[0]) if steps else None,
        steps=[step for fault in faults for step in fault.steps],
        more=facts,
    )


def _unreadable(tables: Tables, limits: BrokenLog) -> list[Fault]:
    """Judge lines that could not be read; a torn last line is what a live file looks like."""
    torn = sum(bad.torn for bad in tables.bad_lines)
    bad = tables.bad_count - torn
    faults = []
    if bad > 0:
        lines = max(sum(file.lines for file in tables.files), len(tables.responses) + bad)
        severity: Severity = "warning" if bad > limits.unreadable * lines else "info"
        where = next((line for line in tables.bad_lines if not line.torn), None)
        more: dict[str, Fact] = {"lines": lines}
        if where:
            more |= {
                "bad_file": where.file,
                "bad_line": where.line,
                "reason": why if isinstance(why := where.reason, Message) else LogText(why),
            }
        faults.append(Fault(severity, "unreadable", bad, more=more))
    if torn:
        faults.append(Fault("info", "torn", torn))
    return faults


def _incomplete(tables: Tables, limits: BrokenLog) -> list[Fault]:
    """Find steps with fewer responses than the usual; runs without a usual size are not judged."""
    steps = step_numbers(tables)
    responses = tables.steps["responses"].to_numpy()
    if len(steps) < SHOWN:
        return []
    size = commonest(responses, limits.usual)
    if size is None:
        return []
    few = responses < limits.fewer * size
    faults = []
    inside = steps[:-1][few[:-1]]
    if len(inside):
        more: dict[str, Fact] = {"usual": size, "few_first": int(inside[0])}
        faults.append(Fault("warning", "few", len(inside), tuple(inside.tolist()), more))
    if few[-1]:
        more = {"usual": size}
        faults.append(Fault("info", "last", int(responses[-1]), (int(steps[-1]),), more))
    return faults


def _missing_steps(steps: Ints, limits: BrokenLog) -> list[Fault]:
    """Find gaps wider than the usual distance of steps."""
    gaps = np.diff(steps)
    if len(gaps) < SHOWN:
        return []
    distance = commonest(gaps, limits.usual)
    if not distance or not (gaps >= 2 * distance).any():
        return []
    at = np.flatnonzero(gaps >= 2 * distance)
    missing = int((gaps[at] // distance - 1).sum())
    more: dict[str, Fact] = {"gap_low": int(steps[at[0]]), "gap_high": int(steps[at[0] + 1])}
    touched = {int(step) for i in at for step in steps[i : i + 2]}
    return [Fault("warning", "missing", missing, tuple(sorted(touched)), more)]


def _early_ranks(tables: Tables) -> list[Fault]:
    """Find rank files that stop at least two steps before another that holds the same steps."""
    order = step_numbers(tables)
    held = tables.responses[["file", "step"]].drop_duplicates().sort_values(["file", "step"])
    files, starts = np.unique(held["file"].to_numpy(), return_index=True)
    if not 1 < len(files) <= len(tables.files):
        return []
    # Ranks of one run hold the same steps: what is compared are sets of steps, not files.
    sets: dict[tuple[int, ...], list[int]] = {}
    for file, own_steps in zip(
        files.tolist(), np.split(held["step"].to_numpy(), starts[1:]), strict=True
    ):
        # A file of fewer steps neither stops early nor holds most of one that does.
        if len(own_steps) >= SHOWN:
            sets.setdefault(tuple(own_steps.tolist()), []).append(file)
    early = []
    for steps, end in zip(sets, _ends_of_ranks(list(sets)), strict=True):
        own = steps[-1]
        if np.count_nonzero((order > own) & (order <= end)) >= 2:
            early += [(tables.files[file].name, file, own) for file in sets[steps]]
    if not early:
        return []
    name, _, step = min(early, key=lambda found: (found[2], found[1]))
    more: dict[str, Fact] = {"early_file": name, "early_step": step}
    steps_of = tuple(sorted({step for *_, step in early}))
    return [Fault("warning", "early", len(early), steps_of, more)]


def _ends_of_ranks(sets: list[tuple[int, ...]]) -> list[int]:
    """Return, for each set of steps, the last step of those that hold most of it."""
    holders: dict[int, list[int]] = {}
    for number, steps in enumerate(sets):
        for step in steps:
            holders.setdefault(step, []).append(number)
    by_step = {step: np.array(numbers) for step, numbers in holders.items()}
    lasts = np.array([steps[-1] for steps in sets])
    ends = []
    for steps in sets:
        shared = np.bincount(np.concatenate([by_step[step] for step in steps]), minlength=1)
        ranks = np.flatnonzero(shared >= SHARED_STEPS * len(steps))
        ends.append(int(lasts[ranks].max()))
    return ends


SAID = {
    "few": marked("{few:count} steps have fewer than {usual} responses, the first {few_first}."),
    "last": marked("The last step is incomplete: {last:count} of {usual} responses."),
    "missing": marked("{missing:count} steps are missing, first between {gap_low} and {gap_high}."),
    "early": marked("{early:count} files stop early, first {early_file} after step {early_step}."),
    "unequal": marked("{unequal:count} responses have token arrays of unequal length."),
    "torn": marked("{torn:count} last lines are torn, as in a file still written."),
    "unreadable": marked(
        "{unreadable:count} of {lines:count} lines could not be read, first {bad_file}:{bad_line} "
        "({reason})."
    ),
}


def log_title(facts: Facts) -> str:
    """Return one sentence for each kind of fault."""
    faults = facts["faults"]
    assert isinstance(faults, tuple)
    return sentences(told(SAID[str(key)], facts) for key in faults)


BROKEN_LOG = Check(
    id="broken_log",
    name="holes in the log",
    rank="invalid",
    looks_for="holes in the log: unreadable lines, missing or incomplete steps, early ends",
    judge=judge_log,
    limits=BrokenLog,
    title=log_title,
    why="Figures from a log with holes describe the rows that survived, not the run.",
    suggestion="Look at the Data page for each line and its reason; check disk space, the exit of "
    "each rank, and that every writer flushes whole lines.",
    trend=False,
    whole_run=True,
)


def judge_mixed(run: Run) -> Result:
    """Say what the reader noticed: the logs look like several runs."""
    note = next((note for note in run.tables.notes if note.kind == SEVERAL_RUNS), None)
    if note is None:
        return None
    text = note.text if isinstance(note.text, Message) else LogText(note.text)
    return MIXED_RUNS.finding(run, "warning", steps=(), text=text)


MIXED_RUNS = Check(
    id="mixed_runs",
    name="several runs in one report",
    rank="invalid",
    looks_for="logs that look like several runs, given as one",
    judge=judge_mixed,
    title="{text}",
    why="Means over several runs describe none of them, and what differs between runs looks like "
    "what changed in one.",
    suggestion="Build a report of each run, or pass --merge if these files are of one.",
    source=CONTRACT,
    trend=False,
    whole_run=True,
)


def judge_cut(run: Run) -> Result:
    """Look for texts that the logger cut: many of the largest length, or with an ellipsis."""
    chars = run.responses["response_chars"].to_numpy(np.int64)
    most = int(chars.max(initial=0))
    if most < run.limits[CutTexts].least:
        return None
    equal = _of_largest_length(run, chars)
    share = equal or _with_ellipsis(run, chars)
    met = run.met(CutTexts.share, ">", share)
    if not met:
        return None
    return CUT_TEXTS.finding(run, "info", met, share=share, most=most, ellipsis=not equal)


def _of_largest_length(run: Run, chars: Ints) -> float:
    """Return the share of responses of exactly the largest length; 0.0 if it is not cut.

    Responses at a limit of tokens differ in characters, unless they repeat one text.
    """
    longest = run.responses.loc[chars == chars.max(), "response_hash"]
    share = len(longest) / len(chars)
    cut = share > run.limits[CutTexts].share and 2 * longest.nunique() >= len(longest)
    return share if cut else 0.0


def _with_ellipsis(run: Run, chars: Ints) -> float:
    """Return the share of sampled responses that end with an ellipsis, if at about one length."""
    texts = run.tables.ngrams
    if texts is None or not len(texts.units):
        return 0.0
    mark = np.array([unit.strip() in ELLIPSES for unit in texts.vocabulary])
    written = np.diff(texts.offsets) > 0
    ends = written & mark[texts.units[np.maximum(texts.offsets[1:] - 1, 0)]]
    lengths = chars[texts.rows][ends]
    alike = len(lengths) and np.mean(lengths > 0.9 * chars.max()) > 0.9
    return float(ends.mean()) if alike else 0.0


def cut_title(facts: Facts) -> str:
    """Return what shows that texts were cut."""
    if facts["ellipsis"]:
        return marked(
            "{share:percent} of responses end with an ellipsis at about {most:count} characters: "
            "the logger cut them."
        )
    return marked(
        "{share:percent} of responses have exactly {most:count} characters, and none has more: the "
        "logger cut them."
    )


CUT_TEXTS = Check(
    id="cut_texts",
    name="texts cut by the logger",
    rank="note",
    looks_for="responses that the logger cut",
    judge=judge_cut,
    limits=CutTexts,
    title=cut_title,
    why="What is logged is not what the policy wrote: lengths in characters, ends of responses and "
    "texts that spread are those of the cut text.",
    suggestion="Log whole responses, and fewer of them if space is short.",
    trend=False,
    whole_run=True,
)


def judge_columns(run: Run) -> Result:
    """Look for columns that nearly all responses held until some step, and none after it."""
    tables, share = run.tables, run.limits[LostColumns].share
    rows = tables.responses
    held = {LOGGED[name]: rows[name].notna() for name in LOGGED if run.has(name)}
    held |= {str(name): tables.extras[name].notna() for name in tables.extras}
    lost: list[tuple[int, str]] = []
    for name, there in held.items():
        by_step = run.by_step(there.to_numpy().astype(np.float64))
        end = int(np.flatnonzero(by_step).max(initial=-1)) + 1
        if SHOWN <= end <= len(by_step) - SHOWN and (by_step[:end] >= share).all():
            lost.append((int(run.steps[end]), name))
    if not lost:
        return None
    lost.sort()
    first = lost[0][0]
    return LOST_COLUMNS.finding(
        run,
        "info",
        onset=Onset(first, first, first),
        at=first,
        names=tuple(LogText(name) for _, name in lost[:MOST_NAMED]),
        count=len(lost),
    )


LOST_COLUMNS = Check(
    id="lost_columns",
    name="columns that end",
    rank="note",
    looks_for="columns that the log holds up to some step, and not after it",
    judge=judge_columns,
    limits=LostColumns,
    title="{count:count} columns end before the run does, the first at step {at}: {names}.",
    why="Figures that need them describe the first part of the run alone.",
    suggestion="Compare the logger, its version and the settings on both sides of that step, such "
    "as after a restart.",
    trend=False,
    whole_run=True,
)
