"""Checks of grades and groups: responses without a grade, groups of unequal size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import Facts, Onset
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Ranking, Run, mean
from rlreport.check.series import running_mean
from rlreport.read.notes import Missing
from rlreport.summarise.steps import commonest
from rlreport.text.messages import marked, sentences, told

WINDOW = 3
"""Steps in the running mean of the share of missing grades."""


MIN_SHARE = 0.05
"""A step with a smaller share of missing grades is never a bad one."""


class MissingGrades(Limits):
    """Thresholds of ``missing_grades``."""

    window = Limit(0.3, "of responses", "warning: without a grade in some three steps")
    part = Limit(0.1, "of steps", "and in at least this part of the run, or at its end")
    unlike = Limit(2.0, "times", "longer or shorter than graded ones: they could not be parsed")


class UnevenGroups(Limits):
    """Thresholds of ``uneven_groups``."""

    sizes = Limit(0.05, "of groups", "info: of another size than most")
    split = Limit(0.2, "of prompts", "info: under several group ids in a step")


def judge_missing(run: Run) -> Result:
    """Count responses without a grade by step, and find out why grades are missing.

    Masked responses were left out on purpose: they are counted, but give no warning.
    """
    kinds, limits = run.responses["missing_grade"].to_numpy(), run.limits[MissingGrades]
    missing = kinds > 0
    if not missing.any():
        return None
    by_step = run.by_step(missing.astype(np.float64))
    failed = run.by_step((missing & (kinds != Missing.MASKED)).astype(np.float64))
    size = min(WINDOW, len(failed))
    windows = running_mean(failed, size)
    at = int(np.argmax(windows))
    met = run.met(MissingGrades.window, ">", float(windows[at]))
    bad_steps = failed > max(float(failed.max()) / 2, MIN_SHARE)
    persistent = bool(bad_steps[-size:].any()) or float(bad_steps.mean()) > limits.part
    steps = run.steps[bad_steps if met and bad_steps.any() else by_step > 0]
    since, last = int(steps[0]), int(steps[-1])
    reason = _reason(run, missing, bad_steps) if met else "few"
    groups = run.responses.assign(graded=~missing).groupby("group")["graded"]
    responses, grades = groups.size(), groups.sum()
    finding = MISSING_GRADES.finding(
        run,
        "warning" if met and persistent else "info",
        met,
        series=by_step,
        onset=Onset(since, since, since),
        until=last if last < run.steps[-1] else None,
        ranking=Ranking(-run.step_index.astype(np.float64), among=missing),
        steps=steps[:200].tolist(),
        missing=int(missing.sum()),
        responses=len(missing),
        share=float(missing.mean()),
        more={kind.name.lower(): int((kinds == kind).sum()) for kind in Missing},
        window=float(windows[at]),
        low=int(run.steps[at]),
        high=int(run.steps[at + size - 1]),
        reason=reason,
        groups=int(((responses > grades) & (responses > 1)).sum()),
        silent=int(((responses > 1) & (grades < 2)).sum()),
    )
    # Only a failed judge can explain changes of the reward.
    return finding if reason == "judge" else replace(finding, rank="note")


def _reason(run: Run, missing: NDArray[np.bool_], bad_steps: NDArray[np.bool_]) -> str:
    """Return whether the parser broke, the policy got worse or the judge was down."""
    if bad_steps.all():
        return "always"
    in_bad_steps = bad_steps[run.step_index]
    missing_rows, graded = in_bad_steps & missing, in_bad_steps & ~missing
    length, finished, reward = (run.column(one) for one in (run.length, "finished", "reward"))
    lengths = mean(length[missing_rows]), mean(length[graded])
    other_length = max(lengths) > run.limits[MissingGrades].unlike * max(min(lengths), 1.0)
    if other_length or mean(finished[graded]) - mean(finished[missing_rows]) > 0.5:
        return "parser"
    first, last = np.flatnonzero(bad_steps)[[0, -1]]
    around = (run.step_index >= first - 5) & (run.step_index <= last + 5) & ~in_bad_steps & ~missing
    error = run.spread() * np.sqrt(1 / max(graded.sum(), 1) + 1 / max(around.sum(), 1))
    return "policy" if mean(reward[around]) - mean(reward[graded]) > 4 * error else "judge"


_REASONS = {
    "always": marked("Grades are missing in all steps: most samples give no learning signal."),
    "judge": marked(
        "The judge was down: graded responses of these steps earn no less than those around them."
    ),
    "policy": marked(
        "Graded responses of these steps earn less, too: the policy got worse, not only the judge."
    ),
    "parser": marked(
        "They are cut off, or of another length than graded ones: the grader could not read them."
    ),
}


def _missing_title(facts: Facts) -> str:
    lines = [
        marked(
            "{missing:count} of {responses:count} responses ({share:percent}) have no grade and "
            "are left out of all reward figures: {null:count} null, {judge_failed:count} judge "
            "failed, {masked:count} masked, {error:count} grader errors."
        )
    ]
    if facts["reason"] != "few":
        lines.append(marked("In steps {low} to {high}, {window:percent} were not graded."))
        lines.append(_REASONS[str(facts["reason"])])
    if facts["groups"]:
        lines.append(
            marked(
                "{groups:count} groups are graded only in part; {silent:count} of them have "
                "fewer than two grades and give no learning signal."
            )
        )
    return sentences(told(line, facts) for line in lines)


MISSING_GRADES = Check(
    id="missing_grades",
    name="missing grades",
    rank="cause",
    looks_for="responses that nobody graded: null rewards, failed judges, masks, errors",
    charts=("reward",),
    judge=judge_missing,
    limits=MissingGrades,
    title=_missing_title,
    why="A failed grade that counts as 0 pulls down the mean of its group, and the others of the "
    "group gain an advantage that they did not earn.",
    suggestion="Grade again, or mask these responses in the loss. Look at the judge's time limits; "
    "if the logger writes NaN as null, look for its cause.",
    explains=(
        *("reward_collapse", "watched_reward_fall", "reward_stalled", "reward_shift"),
        *("zero_variance_groups", "group_std_fall"),
    ),
    trend=False,
    whole_run=True,
)


def judge_groups(run: Run) -> Result:
    """Find groups of unusual size, and prompts with several group ids in one step."""
    rows = run.responses
    if not (rows["group_hash"] != 0).any():
        return UNEVEN_GROUPS.not_run("group_id")
    sizes = rows.groupby("group").size().to_numpy()
    usual = commonest(sizes)
    odd = float((sizes != usual).mean()) if usual else 0.0
    split = float((rows.groupby(["step", "prompt_id"])["group"].nunique() > 1).mean())
    met = [*run.met(UnevenGroups.sizes, ">", odd), *run.met(UnevenGroups.split, ">", split)]
    if not met:
        return None
    least, most = int(sizes.min()), int(sizes.max())
    uneven = tuple(one.name for one in met)
    return UNEVEN_GROUPS.finding(
        run, "info", met, uneven=uneven, odd=odd, usual=usual, least=least, most=most, split=split
    )


_UNEVEN = {
    "sizes": marked(
        "{odd:percent} of groups do not have the usual {usual} responses, but {least} to {most}."
    ),
    "split": marked("{split:percent} of prompts have several group ids in one step."),
}


def _groups_title(facts: Facts) -> str:
    uneven = facts["uneven"]
    assert isinstance(uneven, tuple)
    return sentences(told(_UNEVEN[str(name)], facts) for name in uneven)


UNEVEN_GROUPS = Check(
    id="uneven_groups",
    name="uneven groups",
    rank="note",
    looks_for="groups of unequal size, or one prompt under several group ids in a step",
    judge=judge_groups,
    limits=UnevenGroups,
    title=_groups_title,
    why="A group's mean and std are its baseline: advantages are of other groups than meant.",
    suggestion="Log the id that the trainer groups by, not one of the response. Look for failed or "
    "filtered rollouts where groups are smaller.",
    needs_also="group_id",
    trend=False,
    whole_run=True,
)
