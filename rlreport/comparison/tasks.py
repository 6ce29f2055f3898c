"""For which tasks rewards differ: by environment, by difficulty, and prompt by prompt.

*Difficulty* is how hard a prompt is for BASE: what it earns there. Each third of the prompts is one
class, from hard to easy; prompts that earn the same are in one class. Had the classes been chosen
by the same responses that BASE is measured by, chance alone would make NEW better on the hard
prompts and worse on the easy ones (regression to the mean). By what both sides earn together, a
large difference would sort the prompts by what NEW lost. So BASE is cross-fitted: the responses of
each run to a prompt are split by chance in K = FOLDS parts (with fewer responses, in one part for
each). In turn each part is compared with NEW, and the other parts tell the class. With c_k the
class by all but part k, b_k the mean of part k and y that of NEW, a prompt of class c has the
weight w = Σ_k [c_k = c] / K, and counts with

    w y − Σ_k [c_k = c] b_k / K

whose expectation is 0 if runs do not differ. Where most prompts have a single response in the
window of a BASE run, the class is what BASE earns at its other steps; without these there is none.

*Prompt by prompt*: the responses of BASE and of NEW to a prompt are tested as
``summarise.prompt_courses`` tests early and late ones. "same" stands for no clear change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.comparison.data_file import EXTRA
from rlreport.comparison.means import Means, effect_on, means_of
from rlreport.comparison.statistics import LEVEL, Effect, p_of_parts, paired_effect
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference, rounded, significant
from rlreport.summarise.environments import ENVIRONMENT_FIELDS, environments_in
from rlreport.summarise.prompt_courses import (
    FALSE_DISCOVERIES,
    Measure,
    PromptCourse,
    courses_of,
    fisher_p,
    measure_of,
)
from rlreport.text.clean import number_as_text

DIFFICULTIES = ("hard", "medium", "easy")  # for BASE
# Prompts have classes if at least this part of them can have one
LEAST_CLASSED = 0.5
FOLDS = 8
_SEED = 63  # of the parts

# Values of ``change`` in ``prompt_changes``
CHANGES = {
    PromptCourse.IMPROVED: "improved",
    PromptCourse.REGRESSED: "regressed",
    PromptCourse.NEVER: "never",  # no response of any run is right
    PromptCourse.ALWAYS: "always",
    PromptCourse.UNCLEAR: "same",
}
COLUMNS = ("pair", "base", "new", "delta", "base_count", "new_count", "change")

TaskLevel = Literal["better", "worse", "none", "missing"]


class Task(NamedTuple):
    """Some of the prompts, with their mean rewards on both sides."""

    name: str  # one of DIFFICULTIES, or an environment as logged; "" for all others
    # those that are compared; if unpaired, of the side with fewer. Of a difficulty, the sum of
    # their weights
    prompts: int
    base: float
    new: float
    effect: Effect
    p: float = 1.0  # of environments and difficulties together, see ``p_of_parts``
    level: TaskLevel = "missing"  # "missing" without an interval


@dataclass(frozen=True, slots=True)
class Tasks:
    """The difference of rewards by task.

    Attributes:
        field: logged field that names the environments, "" if there are none.
        environments: the one with the most responses first; [] if all are of one.
        difficulties: from hard to easy for BASE; [] if prompts are not paired, all earn the same,
            or BASE has a single response to most of them.
    """

    field: str
    environments: list[Task]
    difficulties: list[Task]


def tasks_of(
    frames: Sequence[pd.DataFrame],
    base_count: int,
    effect: Effect,
    others: Sequence[pd.DataFrame] = (),
) -> Tasks:
    """Compare rewards by environment and by difficulty.

    Args:
        frames: the compared responses of each run, the BASE runs first.
        base_count: number of BASE runs.
        effect: the effect on the rewards of these responses.
        others: the responses of each BASE run at other steps.
    """
    paired = effect.paired
    field, names, indices = environments_of(frames)
    environments = []
    for number, name in enumerate(names):
        chosen = [
            frame[index == number] for frame, index in zip(frames, indices, strict=True)
        ]
        if all(map(len, chosen)):
            environments.append(_task(name, chosen, base_count, paired=paired))
    if len(environments) < 2:
        field = ""
        environments = []
    difficulties = []
    if paired:
        difficulties = _difficulties(frames, base_count, others)
    judged = _judged([*environments, *difficulties], effect)
    count = len(environments)
    return Tasks(field, judged[:count], judged[count:])


def environments_of(
    frames: Sequence[pd.DataFrame],
) -> tuple[str, list[str], list[Ints]]:
    """Return the field of environments, their names, and each run's index of them by response."""
    fields = {f"{EXTRA}{field}" for field in ENVIRONMENT_FIELDS}
    logged = []
    for frame in frames:
        names = [name for name in frame if str(name).lower() in fields]
        logged.append(frame[names])
    extras = pd.concat(logged, ignore_index=True)
    extras = extras.rename(columns=lambda name: name[len(EXTRA) :])
    for name, values in extras.items():
        if values.dtype.kind == "O":  # numbers in one run and texts in another, maybe
            extras[name] = values.map(_as_text, na_action="ignore")
    found = environments_in(extras)
    if found is None:
        return "", [], []
    ends = np.cumsum([len(frame) for frame in frames])
    indices = np.split(found.index, ends[:-1])
    # "" stands for the pooled ones, whose index is the number of names.
    return found.column, [*found.names, ""], indices


def _as_text(value: object) -> str:
    return number_as_text(value) if isinstance(value, float) else str(value)


class _Fold(NamedTuple):
    """Classes of the prompts, and what BASE earns in responses that did not tell the classes."""

    classes: pd.Series  # index of DIFFICULTIES by prompt
    bases: pd.DataFrame  # mean reward by prompt, in a column for each run


def _difficulties(
    frames: Sequence[pd.DataFrame], base_count: int, others: Sequence[pd.DataFrame]
) -> list[Task]:
    """Compare rewards by difficulty, see the module; [] unless there are two classes.

    Classes come from the same responses, cross-fitted, or from those at other steps (``others``).
    There are none if too few prompts have one by either, or if no prompt differs: such runs may
    have the very same responses, so that NEW is not independent of those that tell the classes.
    """
    means = means_of([_rewards(frame) for frame in frames], base_count)
    table = _by_prompt(means)
    all_prompts = table.index
    if np.array_equal(significant(table["base"]), significant(table["new"])):
        return []
    least_prompts = LEAST_CLASSED * len(all_prompts)
    folds = _folds(frames[:base_count], all_prompts)
    if len(folds[0].classes) < least_prompts:
        folds = [_fold_by_other_steps(others, means, all_prompts)]
    # All folds have the same prompts.
    prompts = folds[0].classes.index
    if prompts.empty or len(prompts) < least_prompts:
        return []
    news = _of_runs(means.news).reindex(prompts)
    tasks = []
    for number, name in enumerate(DIFFICULTIES):
        # By fold, which prompts are in the class
        members = [(fold.classes == number).to_numpy() for fold in folds]
        weights = np.mean(members, axis=0)
        if weights.any():
            tasks.append(_class_task(name, folds, members, weights, news))
    return tasks if len(tasks) > 1 else []


def _fold_by_other_steps(
    others: Sequence[pd.DataFrame], means: Means, prompts: pd.Index
) -> _Fold:
    """Return classes by what BASE earns at its other steps, and its means at the compared ones."""
    classes = _classes(others, prompts)
    return _Fold(classes, _of_runs(means.bases).reindex(classes.index))


def _class_task(
    name: str,
    folds: Sequence[_Fold],
    members: Sequence[NDArray[np.bool_]],
    weights: Floats,
    news: pd.DataFrame,
) -> Task:
    """Compare a class: each prompt counts by its weight, as in the module's formula."""
    is_in = weights > 0
    # Means over the prompts that are in are those weighted over all of them.
    scale = is_in.sum() / weights.sum()
    base = np.mean(
        [
            fold.bases.to_numpy() * one[:, None]
            for fold, one in zip(folds, members, strict=True)
        ],
        axis=0,
    )
    of_base = scale * base[is_in].T
    of_new = scale * (news.to_numpy() * weights[:, None])[is_in].T
    effect = paired_effect(of_base, of_new)
    count = round(float(weights.sum()))
    return Task(
        name,
        count,
        rounded(float(of_base.mean())),
        rounded(float(of_new.mean())),
        replace(effect, pairs=count),
    )


def _folds(bases: Sequence[pd.DataFrame], prompts: pd.Index) -> list[_Fold]:
    """Return each way to measure a part of BASE's responses, and to class prompts by the rest."""
    random = np.random.default_rng(_SEED)
    tables = []
    for frame in bases:
        rewards = _rewards(_in_order(frame))
        by_prompt = rewards.groupby("pair")["reward"]
        # By chance, as a logger may have sorted the responses by their rewards
        order = pd.Series(random.random(len(rewards)), rewards.index)
        number = order.groupby(rewards["pair"]).rank().to_numpy() - 1
        count = np.minimum(by_prompt.transform("size").to_numpy(), FOLDS)
        table = rewards.assign(part=number % count, parts=count)
        tables.append(table[count > 1])
    folds = []
    for fold in range(FOLDS):
        is_measured = [table["part"] == fold % table["parts"] for table in tables]
        rest = [table[~one] for table, one in zip(tables, is_measured, strict=True)]
        parts = [table[one] for table, one in zip(tables, is_measured, strict=True)]
        classes = _classes(rest, prompts)
        measured = _of_runs(means_of(parts, len(parts)).bases)
        folds.append(_Fold(classes, measured.reindex(classes.index)))
    return folds


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return responses in the order of the log, which a report of it has, too."""
    names = [name for name in ("step", "n") if name in frame]
    return frame.sort_values(names, kind="stable") if names else frame


def _classes(runs: Sequence[pd.DataFrame], prompts: pd.Index) -> pd.Series:
    """Return by prompt the index of DIFFICULTIES, of those prompts that all runs have."""
    tables = [_rewards(run) for run in runs]
    means = _of_runs(means_of(tables, len(tables)).bases) if tables else pd.DataFrame()
    known = means.index.intersection(prompts).sort_values()
    earned = pd.Series(significant(means.loc[known].mean(axis=1)), known)
    ranks = earned.rank() - 0.5  # equal ones have the same
    places = ranks / max(1, len(known))  # 0 to 1
    return (places * len(DIFFICULTIES)).astype(np.int64)


def _of_runs(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean rewards of the prompts that all of some runs have, a column for each run."""
    return pd.concat([run["reward"] for run in runs], axis=1, join="inner")


def _rewards(frame: pd.DataFrame) -> pd.DataFrame:
    rewards: pd.DataFrame = frame.loc[
        np.isfinite(frame["reward"].to_numpy(np.float64)), ["pair", "reward"]
    ]
    return rewards


def _by_prompt(means: Means) -> pd.DataFrame:
    """Return the mean rewards ``base`` and ``new`` of the prompts that all runs have."""
    sides = {}
    for name, runs in (("base", means.bases), ("new", means.news)):
        sides[name] = _of_runs(runs).mean(axis=1)
    return pd.concat(sides, axis=1, join="inner").sort_index()


def _task(
    name: str, frames: Sequence[pd.DataFrame], base_count: int, *, paired: bool
) -> Task:
    means = means_of([_rewards(frame) for frame in frames], base_count)
    effect = effect_on(means, "reward", paired=paired)
    # Each prompt counts once, as in the effect.
    if paired:
        table = _by_prompt(means)
        of_sides = [table["base"], table["new"]]
    else:
        of_sides = [_of_any_run(means.bases), _of_any_run(means.news)]
    base = rounded(of_sides[0].mean())
    new = rounded(of_sides[1].mean())
    return Task(name, effect.pairs, base, new, effect)


def _of_any_run(runs: Sequence[pd.DataFrame]) -> pd.Series:
    """Return the mean reward of each prompt over the runs of a side that have it."""
    rewards = pd.concat([run["reward"] for run in runs])
    means: pd.Series = rewards.groupby(level=0).mean()
    return means


def _judged(tasks: Sequence[Task], whole: Effect) -> list[Task]:
    """Return tasks with their levels; p-values are corrected for all that have an interval."""
    tested = [task.effect for task in tasks if np.isfinite(task.effect.low)]
    p_values = iter(p_of_parts(tested, whole))
    judged = []
    for task in tasks:
        if not np.isfinite(task.effect.low):
            judged.append(task)
            continue
        p = next(p_values)
        level: TaskLevel = "none"
        if p <= 1 - LEVEL and task.effect.value:
            level = "better" if task.effect.value > 0 else "worse"
        judged.append(task._replace(p=p, level=level))
    return judged


def solved_or_not(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return ``step``, ``pair`` and ``reward``, and ``solved``: 1 for right answers, 0, or NaN.

    As logged if that is known of half of the rewarded responses of each run, else by rewards if all
    of them together have two values. Without either, the tables have no such column.
    """
    tables = [frame[["step", "pair", "reward"]] for frame in frames]
    if all(_knows_right(frame) for frame in frames):
        return [
            table.assign(solved=frame["correct"])
            for table, frame in zip(tables, frames, strict=True)
        ]
    rewards = [table["reward"].dropna().unique() for table in tables]
    values = np.unique(np.concatenate(rewards))
    if len(values) != 2:
        return tables
    solved = []
    for table in tables:
        is_best = (table["reward"] == values[1]).astype(np.float64)
        solved.append(table.assign(solved=is_best.where(table["reward"].notna())))
    return solved


def _knows_right(frame: pd.DataFrame) -> bool:
    return "correct" in frame and measure_of(frame) == "solved"


def no_changes() -> pd.DataFrame:
    """Return the table of ``prompt_changes_of`` without rows."""
    return pd.DataFrame(columns=list(COLUMNS))


def prompt_changes_of(frames: Sequence[pd.DataFrame], base_count: int) -> pd.DataFrame:
    """Return a row per prompt that all runs have: how its rewards changed, and whether clearly.

    Columns: ``pair``, mean rewards ``base`` and ``new`` (each run counts the same), ``delta``, the
    numbers of responses ``base_count`` and ``new_count``, and ``change``, a value of CHANGES.

    Args:
        frames: the compared responses of each run, the BASE runs first; see ``solved_or_not``.
        base_count: number of BASE runs.
    """
    measure: Measure = "solved" if "solved" in frames[0] else "reward"
    sides = []
    for run, frame in enumerate(frames):
        value = frame["solved" if measure == "solved" else "reward"]
        known = np.isfinite(value) & np.isfinite(frame["reward"])
        columns = frame[["pair", "reward"]].assign(
            side=int(run >= base_count), value=value
        )
        sides.append(columns.loc[known.to_numpy()])
    means = _by_prompt(means_of(sides, base_count))
    if means.empty:
        return no_changes()
    responses = pd.concat(sides)
    responses = responses[responses["pair"].isin(means.index)]
    responses = responses.sort_values("pair", kind="stable")
    prompts = Grouped.by(responses["pair"].to_numpy())
    side = responses["side"].to_numpy(np.int64)
    values = responses["value"].to_numpy(np.float64)
    courses = courses_of(values, prompts, side, measure)
    counts = prompts.sum(side.astype(np.float64)).astype(np.int64)
    return pd.DataFrame(
        {
            "pair": means.index.to_numpy(),
            "base": significant(means["base"]),
            "new": significant(means["new"]),
            "delta": difference(means["new"], means["base"]),
            "base_count": prompts.counts - counts,
            "new_count": counts,
            "change": [CHANGES[PromptCourse(course)] for course in courses.tolist()],
        }
    )


def can_tell(changes: pd.DataFrame) -> bool:
    """Return whether one of the prompts in ``prompt_changes_of`` can be told from chance.

    The smallest p that n and m responses allow is that of the test where all of one side are better
    than all of the other; it has to be at most the false discovery rate over the number of prompts.
    """
    tested = changes[~changes["change"].isin(["never", "always"])]
    if tested.empty or tested["change"].isin(["improved", "regressed"]).any():
        return True
    n = tested["base_count"].to_numpy(np.int64)
    m = tested["new_count"].to_numpy(np.int64)
    none = np.zeros_like(m)
    furthest_apart = np.column_stack([n, n, none, m])
    smallest = fisher_p(furthest_apart).min()
    return bool(smallest <= FALSE_DISCOVERIES / len(tested))
