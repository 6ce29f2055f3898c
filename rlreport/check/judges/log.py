"""Checks of the log itself: missing steps, several runs in one, cut texts, columns that end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Fact, Facts, LogText, Onset, Severity
from rlreport.check.limits import CONTRACT, Limit, Limits
from rlreport.check.noise import step_numbers
from rlreport.check.run import Run
from rlreport.figures.ragged import Ints
from rlreport.several_runs import SEVERAL_RUNS
from rlreport.summarise.steps import commonest
from rlreport.tables import Tables
from rlreport.text.messages import Message, marked, sentences, told


class CutTexts(Limits):
    """Thresholds of ``cut_texts``."""

    share = Limit(0.2, "of responses", "info: of exactly the largest length")
    least = Limit(64, "characters", "shorter ones may be of equal length by chance")


class LostColumns(Limits):
    """Thresholds of ``lost_columns``."""

    share = Limit(0.9, "of responses", "info: have the column in each step until it ends")


class BrokenLog(Limits):
    """Thresholds of ``broken_log``."""

    unreadable = Limit(0.001, "of lines", "warning: unreadable; below it, info")
    usual = Limit(0.8, "of steps", "have the usual size or distance, else not judged")
    fewer = Limit(0.9, "of the usual", "a step with fewer responses is incomplete")


MIN_STEPS = 3
SHARED_STEPS = 0.8
"""Two files are ranks of one run if this share of one's steps is in the other, too."""

MAX_NAMED = 5
LOGGED = {
    "surprisal_mean": "logprobs",
    "kl_k1": "ref_logprobs",
    "value_mean": "values",
    "ref_reward": "ref_reward",
    "valid_reward": "valid_reward",
    "response_tokens": "response_tokens",
}
"""Columns of the response table, and the logged field that each comes from."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the log: severity, key of its sentence, facts and steps."""

    severity: Severity
    key: str
    facts: dict[str, Fact]
    steps: tuple[int, ...] = ()


def judge_log(run: Run) -> Result:
    """Collect the faults of the log; the worst one decides the severity."""
    tables, limits = run.tables, run.limits[BrokenLog]
    faults = [
        *_unreadable(tables, limits),
        *_incomplete(tables, limits),
        *_missing_steps(run.attempted_steps["step"].to_numpy(np.int64), limits),
        *_early_ranks(tables),
    ]
    # The reader cut arrays that padding made unequal.
    if cut := sum(note.count for note in tables.notes if note.kind == "unequal_lengths"):
        faults.append(Fault("info", "unequal", {"unequal": cut}))
    if not faults:
        return None
    faults.sort(key=lambda fault: fault.severity != "warning")
    severity = faults[0].severity
    first = min((s for f in faults if f.severity == severity for s in f.steps), default=None)
    facts: dict[str, Fact] = {"faults": tuple(fault.key for fault in faults)}
    for fault in faults:
        facts |= fault.facts
    return BROKEN_LOG.finding(
        run,
        severity,
        onset=None if first is None else Onset(first, first, first),
        steps=[step for fault in faults for step in fault.steps],
        more=facts,
    )


def _unreadable(tables: Tables, limits: BrokenLog) -> Iterator[Fault]:
    """Judge lines that could not be read; an incomplete last line is normal in a live file."""
    torn = sum(line.torn for line in tables.bad_lines)
    bad = tables.bad_count - torn
    if torn:
        yield Fault("info", "torn", {"torn": torn})
    if bad <= 0:
        return
    lines = max(sum(file.lines for file in tables.files), len(tables.responses) + bad)
    facts: dict[str, Fact] = {"unreadable": bad, "lines": lines}
    if first := next((line for line in tables.bad_lines if not line.torn), None):
        why = first.reason if isinstance(first.reason, Message) else LogText(first.reason)
        facts |= {"bad_file": first.file, "bad_line": first.line, "reason": why}
    yield Fault("warning" if bad > limits.unreadable * lines else "info", "unreadable", facts)


def _incomplete(tables: Tables, limits: BrokenLog) -> Iterator[Fault]:
    """Find steps with fewer responses than usual, if the run has a usual number of responses."""
    steps, responses = step_numbers(tables), tables.steps["responses"].to_numpy()
    size = commonest(responses, limits.usual)
    if len(steps) < MIN_STEPS or size is None:
        return
    incomplete = responses < limits.fewer * size
    inside = tuple(steps[:-1][incomplete[:-1]].tolist())
    if inside:
        facts = {"few": len(inside), "usual": size, "few_first": inside[0]}
        yield Fault("warning", "few", facts, inside)
    if incomplete[-1]:
        yield Fault("info", "last", {"last": int(responses[-1]), "usual": size}, (int(steps[-1]),))


def _missing_steps(steps: Ints, limits: BrokenLog) -> Iterator[Fault]:
    """Find gaps wider than the usual distance of steps."""
    gaps = np.diff(steps)
    distance = commonest(gaps, limits.usual)
    if len(gaps) < MIN_STEPS or not distance:
        return
    at = np.flatnonzero(gaps >= 2 * distance)
    if len(at):
        low, high = int(steps[at[0]]), int(steps[at[0] + 1])
        missing = int((gaps[at] // distance - 1).sum())
        facts: dict[str, Fact] = {"missing": missing, "gap_low": low, "gap_high": high}
        yield Fault("warning", "missing", facts, tuple(steps[np.union1d(at, at + 1)].tolist()))


def _early_ranks(tables: Tables) -> Iterator[Fault]:
    """Find rank files that end at least two steps before others with mostly the same steps."""
    order = step_numbers(tables)
    pairs = tables.responses[["file", "step"]].drop_duplicates()
    step_counts = pairs.groupby("file")["step"].transform("size")
    # Files with fewer steps are too short to be compared.
    pairs = pairs[step_counts >= MIN_STEPS]
    files, file = np.unique(pairs["file"].to_numpy(), return_inverse=True)
    if not 1 < len(files) <= len(tables.files):
        return
    holds = np.zeros((len(files), len(order)), np.float32)
    holds[file, np.searchsorted(order, pairs["step"].to_numpy())] = 1
    # Ranks of one run hold the same steps: compare distinct sets of steps, not files.
    sets, of_file = np.unique(holds, axis=0, return_inverse=True)
    last = len(order) - 1 - sets[:, ::-1].argmax(axis=1)
    same = sets @ sets.T >= SHARED_STEPS * sets.sum(axis=1)[:, None]
    ends = np.where(same, last, 0).max(axis=1)
    early_files = np.flatnonzero((ends - last >= 2)[of_file.ravel()])
    if len(early_files):
        stops = order[last[of_file.ravel()[early_files]]]
        first = int(np.argmin(stops))
        name = tables.files[int(files[early_files[first]])].name
        facts: dict[str, Fact] = {"early": len(early_files), "early_file": name}
        facts["early_step"] = int(stops[first])
        yield Fault("warning", "early", facts, tuple(np.unique(stops).tolist()))


SENTENCES = {
    "few": marked("{few:count} steps have fewer than {usual} responses, the first {few_first}."),
    "last": marked("The last step is incomplete: {last:count} of {usual} responses."),
    "missing": marked("{missing:count} steps are missing, first between {gap_low} and {gap_high}."),
    "early": marked("{early:count} files stop early, first {early_file} after step {early_step}."),
    "unequal": marked("{unequal:count} responses have token arrays of unequal length."),
    "torn": marked("Files with an incomplete last line, as if still written: {torn:count}."),
    "unreadable": marked(
        "{unreadable:count} of {lines:count} lines could not be read, first {bad_file}:{bad_line} "
        "({reason})."
    ),
}


def _log_title(facts: Facts) -> str:
    faults = facts["faults"]
    assert isinstance(faults, tuple)
    return sentences(told(SENTENCES[str(key)], facts) for key in faults)


BROKEN_LOG = Check(
    id="broken_log",
    name="holes in the log",
    rank="invalid",
    looks_for="holes in the log: unreadable lines, missing or incomplete steps, early ends",
    judge=judge_log,
    limits=BrokenLog,
    title=_log_title,
    why="Figures from a log with holes describe the rows that survived, not the run.",
    suggestion="Look at the Data page for each line and its reason; check disk space, the exit of "
    "each rank, and that every writer flushes whole lines.",
    trend=False,
    whole_run=True,
)


def judge_mixed(run: Run) -> Result:
    """Report the reader's note that the logs look like several runs."""
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
    why="Means over several runs describe none of them.",
    suggestion="Build a report of each run, or pass --merge if these files are of one.",
    source=CONTRACT,
    trend=False,
    whole_run=True,
)


def judge_cut(run: Run) -> Result:
    """Find out whether the logger cut texts: many responses have exactly the largest length.

    Responses that end at a token limit differ in characters, unless they repeat one text.
    """
    chars = run.responses["response_chars"].to_numpy(np.int64)
    largest = int(chars.max(initial=0))
    longest = run.responses.loc[chars == largest, "response_hash"]
    if largest < run.limits[CutTexts].least or 2 * longest.nunique() < len(longest):
        return None
    share = len(longest) / len(chars)
    met = run.met(CutTexts.share, ">", share)
    return CUT_TEXTS.finding(run, "info", met, share=share, most=largest) if met else None


CUT_TEXTS = Check(
    id="cut_texts",
    name="texts cut by the logger",
    rank="note",
    looks_for="responses that the logger cut",
    judge=judge_cut,
    limits=CutTexts,
    title="{share:percent} of responses have exactly {most:count} characters, and none has more: "
    "the logger cut them.",
    why="Lengths in characters, ends of responses and texts that spread are those of the cut text.",
    suggestion="Log whole responses, and fewer of them if space is short.",
    trend=False,
    whole_run=True,
)


def judge_columns(run: Run) -> Result:
    """Find columns that nearly all responses have up to some step, and none after it."""
    columns = {LOGGED[name]: run.responses[name].notna() for name in LOGGED if run.has(name)}
    columns |= {str(name): values.notna() for name, values in run.tables.extras.items()}
    ended: list[tuple[int, str]] = []
    for name, present in columns.items():
        share = run.by_step(present.to_numpy().astype(np.float64))
        end = int(np.flatnonzero(share).max(initial=-1)) + 1
        always = (share[:end] >= run.limits[LostColumns].share).all()
        if MIN_STEPS <= end <= len(share) - MIN_STEPS and always:
            ended.append((int(run.steps[end]), name))
    if not ended:
        return None
    ended.sort()
    first = ended[0][0]
    return LOST_COLUMNS.finding(
        run,
        "info",
        onset=Onset(first, first, first),
        at=first,
        names=tuple(LogText(name) for _, name in ended[:MAX_NAMED]),
        count=len(ended),
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
    suggestion="Compare the logger, its version and the settings on both sides of that step.",
    trend=False,
    whole_run=True,
)
