"""For which tasks rewards differ: by environment, by difficulty, and prompt by prompt.

*Difficulty* is the mean reward that a prompt earns on both sides together. Each third of the
prompts is one class, from hard to easy; prompts that earn the same are in one class. Had the
classes been chosen by the rewards of one side, chance alone would make the other side better on the
hard prompts and worse on the easy ones (regression to the mean). So would classes by the middle of
both means if one side has fewer responses, as chance moves its mean more: each side weighs as much
as its mean is precise, so that with one run on each side every response counts the same.

*Prompt by prompt*: the responses of BASE and of NEW to a prompt are tested as
``summarise.prompt_courses`` tests early and late ones. "same" stands for no clear change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from rlreport.comparison.data_file import EXTRA
from rlreport.comparison.means import Means, effect_on, means_of
from rlreport.comparison.statistics import LEVEL, Effect, p_of_parts
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Ints
from rlreport.figures.rounding import difference, rounded, significant
from rlreport.summarise.environments import ENVIRONMENT_FIELDS, environments_in
from rlreport.summarise.prompt_courses import (
    Measure,
    PromptCourse,
    courses_of,
    measure_of,
)
from rlreport.text.clean import number_as_text

DIFFICULTIES = ("hard", "medium", "easy")

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
    prompts: int  # those that are compared; if unpaired, of the side with fewer
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
        difficulties: from hard to easy; [] if prompts are not paired, or all earn the same.
    """

    field: str
    environments: list[Task]
    difficulties: list[Task]


def tasks_of(frames: Sequence[pd.DataFrame], base_count: int, effect: Effect) -> Tasks:
    """Compare rewards by environment and by difficulty, given the compared responses of each run.

    The first ``base_count`` of ``frames`` are those of BASE; ``effect`` is that on all rewards.
    """
    paired = effect.paired
    field, names, indices = _environments(frames)
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
        for name, pairs in _classes(frames, base_count):
            chosen = [frame[frame["pair"].isin(pairs)] for frame in frames]
            difficulties.append(_task(name, chosen, base_count, paired=paired))
    judged = _judged([*environments, *difficulties], effect)
    count = len(environments)
    return Tasks(field, judged[:count], judged[count:])


def _environments(
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


def _classes(
    frames: Sequence[pd.DataFrame], base_count: int
) -> Iterator[tuple[str, pd.Index]]:
    """Yield each class of DIFFICULTIES that exists, with its prompts, if there are two or more."""
    rewards = [_rewards(frame) for frame in frames]
    table = _by_prompt(means_of(rewards, base_count))
    of_base = _precision(rewards[:base_count]).reindex(table.index)
    of_new = _precision(rewards[base_count:]).reindex(table.index)
    total = table["base"] * of_base + table["new"] * of_new
    pooled = significant(total / (of_base + of_new))
    ranks = pd.Series(pooled).rank().to_numpy() - 0.5  # equal ones have the same
    in_thirds = ranks / max(1, len(table)) * len(DIFFICULTIES)
    index = in_thirds.astype(np.int64)
    if len(np.unique(index)) < 2:
        return
    for number, name in enumerate(DIFFICULTIES):
        pairs = table.index[index == number]
        if len(pairs):
            yield name, pairs


def _precision(runs: Sequence[pd.DataFrame]) -> pd.Series:
    """Return by prompt how precise the mean over runs of their means is.

    It is proportional to 1 / variance: R² / Σ (1 / n) for R runs with n responses each.
    """
    inverse = [1 / run.groupby("pair")["reward"].size() for run in runs]
    of_all_runs = pd.concat(inverse, axis=1, join="inner")
    return len(runs) ** 2 / of_all_runs.sum(axis=1)


def _rewards(frame: pd.DataFrame) -> pd.DataFrame:
    rewards: pd.DataFrame = frame.loc[
        np.isfinite(frame["reward"].to_numpy(np.float64)), ["pair", "reward"]
    ]
    return rewards


def _by_prompt(means: Means) -> pd.DataFrame:
    """Return the mean rewards ``base`` and ``new`` of the prompts that all runs have."""
    sides = {}
    for name, runs in (("base", means.bases), ("new", means.news)):
        columns = [run["reward"] for run in runs]
        of_all_runs = pd.concat(columns, axis=1, join="inner")
        sides[name] = of_all_runs.mean(axis=1)
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
