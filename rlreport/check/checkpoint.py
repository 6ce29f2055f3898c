"""The checkpoint to keep: that of a step, or why none is named; docs/checks.md has the rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlreport.check import progress, quantities
from rlreport.check.check import FALLS
from rlreport.check.course import HELD_OUT, WATCHED, Course, Quantity
from rlreport.check.curve import PROBABLY_Z
from rlreport.check.fall import MIX
from rlreport.check.finding import Finding, Severity
from rlreport.check.prepared import Kind
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import message

# Id of the check that finds a change of the reward function: rewards before and after it are not
# comparable
REWARD_SHIFT = "reward_shift"

# Ids of checks whose findings spoil the checkpoints since then: losses of what was gained
LOSSES = (*FALLS, "part_falls")

# Ids of checks whose findings concern only the log, not the policy and its checkpoints
OF_THE_LOG = ("broken_log", "missing_grades")

# Id of the check that finds that only other parts of the reward than right answers rose
UNEARNED = "unearned_gain"

# Id of the check that finds a policy far from its reference: harm only if answers get worse
DISTANCE = "kl_explosion"

# Ids of checks whose findings say that the reward rises by what is not wanted
HACKS = ("reward_hacking_token", "length_hacking", "reward_part_dominance")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint to keep: that of a step, or why none is named."""

    step: int | None = None
    # Without a step: whether no checkpoint is better than the start. Else the log does not tell.
    none_is_better: bool = False
    why: str = ""  # the reason why no step is named, as a clause


def checkpoint_of(run: Run, findings: list[Finding]) -> Checkpoint:
    """Return the checkpoint to keep.

    It is the last one if the run gained anything and nothing spoiled it. After a decline or a
    fault, it is the latest that is as good as the best one before it.

    Args:
        run: the run that was judged.
        findings: what was found, in any order.
    """
    if not len(run.steps) or _is_ungraded(run):
        return Checkpoint(why=message("no reward is logged"))
    serious = [one for one in findings if one.severity is not Severity.INFO]
    for one in findings:
        if one.id == UNEARNED:
            return _of_unearned(one)
    changes = [
        one.onset.step for one in serious if one.id == REWARD_SHIFT and one.onset
    ]
    first = max(changes, default=int(run.steps[0]))
    end = int(run.steps[-1]) + 1
    of_policy = [one for one in serious if one.id not in (*OF_THE_LOG, REWARD_SHIFT)]
    spoiling = _spoiling([one for one in of_policy if not _is_refuted(run, one)])
    onsets = [one.onset.step if one.onset else first for one in spoiling]
    spoiled = min(onsets, default=end)
    if spoiled <= first:
        return _nothing_before(spoiling, since_change=bool(changes))
    # Evaluations before the first step count, too.
    start = first if changes else np.iinfo(np.int64).min
    before = run.between(start, spoiled)
    quantity = _decisive_quantity(run, before)
    course = quantities.courses(before).get(quantity)
    if course is None or not _is_gain(run, before, course, quantity):
        if spoiling or changes:
            return _nothing_before(spoiling, since_change=bool(changes))
        return _without_gain(run, course)
    declined = course.slipped and not any(map(_is_of_mix, findings))
    last = len(course.steps) - 1
    began = min((one.onset.step for one in of_policy if one.onset), default=end)
    if onsets or declined:
        last = _best_index(course, began)
    else:
        last = _index_before_harm(course, of_policy, last)
    step = _last_complete(run, course.steps[: last + 1])
    if step is None:
        return Checkpoint(why=message("no step is complete"))
    return Checkpoint(step)


def _is_of_mix(finding: Finding) -> bool:
    """Return whether a finding is that the reward fell, surely or far likelier, by harder tasks."""
    is_note = finding.severity is Severity.INFO
    return finding.id == "mix_changed" or (is_note and finding.facts.get("kind") == MIX)


def _of_unearned(finding: Finding) -> Checkpoint:
    """Return that no checkpoint is known to be better, as what rose is no better answer."""
    if finding.facts.get("is_open"):
        return Checkpoint(why=message("only other parts of the reward surely rose"))
    why = message("only the answers' format rose")  # which is a note
    if finding.severity is not Severity.INFO:
        why = message("what was gained is the fault")
    return Checkpoint(none_is_better=True, why=why)


def _is_ungraded(run: Run) -> bool:
    """Return whether there is neither a reward nor another score."""
    graded = quantities.courses(run)
    return not any(name in graded for name in ("reward", *WATCHED))


def _nothing_before(spoiling: list[Finding], *, since_change: bool) -> Checkpoint:
    """Return that nothing was gained before the fault.

    ``since_change``: whether only steps since a change of the reward function are compared.
    """
    if any(finding.id in HACKS for finding in spoiling):
        return Checkpoint(
            none_is_better=True, why=message("what was gained is the fault")
        )
    if since_change:
        return Checkpoint(why=message("the reward function changed"))
    why = message("nothing was gained before the fault")
    return Checkpoint(none_is_better=True, why=why)


def _without_gain(run: Run, course: Course | None) -> Checkpoint:
    """Return why no step is named of a run that surely gained nothing, and did not break."""
    if progress.solved(run):
        why = message("the tasks were solved from the start")
        return Checkpoint(none_is_better=True, why=why)
    if course is None or course.curve.changed is None:
        return Checkpoint(why=message("its steps are too few"))
    if _seems_higher(course):
        return Checkpoint(why=message("the gain may be noise"))
    why = message("nothing was gained")
    reward = quantities.reward_course(run)
    if course.quantity != "reward" and reward is not None and reward.rose:
        why = message("only the reward rose")
    return Checkpoint(none_is_better=True, why=why)


def _seems_higher(course: Course) -> bool:
    """Return whether it ends above its start, though not by more than noise."""
    if course.curve.is_flat:
        return course.curve.trend >= PROBABLY_Z
    return course.last.value > course.first.value


def _spoiling(findings: list[Finding]) -> list[Finding]:
    """Return the findings that spoil a checkpoint: the critical ones or else losses and hacks.

    Other warnings may be harmless.
    """
    critical = [one for one in findings if one.severity is Severity.CRITICAL]
    if critical:
        return critical
    losses_and_hacks = [one for one in findings if one.id in (*LOSSES, *HACKS)]
    # A finding with an end is about what has recovered.
    return [one for one in losses_and_hacks if one.until is None]


def _is_refuted(run: Run, finding: Finding) -> bool:
    """Return whether a held-out score still rose to its best after the policy was found far away.

    Evaluations tell what the distance cost; a fall of theirs has a finding of its own.
    """
    if finding.id != DISTANCE or finding.onset is None:
        return False
    courses = [quantities.courses(run).get(name) for name in HELD_OUT]
    return any(
        course is not None
        and course.gained
        and course.top.steps[0] > finding.onset.step
        for course in courses
    )


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
    # Where validation then fell, its best checkpoint is the one to go back to, even if the gain
    # before may be luck.
    is_held_out = quantity in HELD_OUT and not course.is_single
    if is_held_out and quantities.courses(run)[quantity].lost:
        return True
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
    levels = _levels(course)
    as_good = np.flatnonzero(levels >= levels.max() - course.last.se)
    before = as_good[course.steps[as_good] < onset]
    return int((before if len(before) else as_good)[-1])


def _index_before_harm(course: Course, findings: list[Finding], last: int) -> int:
    """Return the index of the last step, or of one before a lasting problem if as good.

    What lasts until the end and began after the gain brought nothing: the checkpoint before it is
    as good, without the problem.
    """
    began = [
        one.onset.step
        for one in findings
        if one.onset is not None and one.until is None
    ]
    levels = _levels(course)
    for onset in sorted(began):
        before = levels[course.steps < onset]
        if len(before) and before.max() >= levels.max() - course.last.se:
            return _best_index(course, onset)
    return last


def _levels(course: Course) -> Floats:
    """Return the values of evaluations, which exist as checkpoints; else the lines of the curve."""
    curve = course.curve
    return curve.values if curve.kind is Kind.EVALUATIONS else curve.lines


def _last_complete(run: Run, steps: Ints) -> int | None:
    """Return the last of the steps that is not marked as incomplete, None if all are."""
    table = run.tables.steps
    incomplete = table.loc[table["incomplete"], "step"]
    complete = steps[~np.isin(steps, incomplete)]
    return int(complete[-1]) if len(complete) else None
