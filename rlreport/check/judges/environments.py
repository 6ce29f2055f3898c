"""Checks of the environments (data sets, tasks, agents) whose mean the reward of a run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd

from rlreport.check import means, quantities
from rlreport.check.check import REWARD, Check
from rlreport.check.evidence import Ranking, beyond, nearer
from rlreport.check.fall import fall_windows, mix_of_fall
from rlreport.check.finding import Facts, Finding, LogText, Rank, Result, Severity
from rlreport.check.judges.reward import (
    RewardCollapse,
    reward_collapse,
)
from rlreport.check.limits import Limit, LimitKind, Limits, Thresholds
from rlreport.check.means import MixChanged
from rlreport.check.run import Run
from rlreport.check.windows import Trend
from rlreport.text.messages import translatable

ENVIRONMENTS = translatable(
    "a field that names the environment (data_source, env, task, dataset or agent), with 2 to 50 "
    "values"
)
# Columns of responses that ``reward_collapse`` and examples need
USED = (
    "step",
    "n",
    "prompt_id",
    "validation",
    "group",
    "has_texts",
    "response_tokens",
    "response_chars",
    "reward",
    "ref_reward",
    "reward_gap",
    "valid_reward",
)

MIN_STEP = 0.25  # A step counts if it has this part of an environment's usual number of responses


class EnvironmentFall(Limits):
    """Thresholds of ``environment_fall``."""

    responses = Limit(
        100, LimitKind.COUNT, "responses", "an environment with fewer is not judged"
    )
    steps = Limit(
        10, LimitKind.COUNT, "steps", "an environment with fewer is not judged"
    )
    carried = Limit(
        0.8,
        LimitKind.SHARE,
        "of the fall",
        "part of a fall of the overall mean due to it (note)",
    )


@Check(
    name="one environment falls",
    rank=Rank.CONSEQUENCE,
    needs=(REWARD,),
    charts=("reward_environments", "reward"),
    limits=EnvironmentFall,
    title="The reward in {environment:quoted} fell from {best:figure} (steps {best_from} to "
    "{best_to}) to {end:figure}; it had started at {start:figure}. {fallen} of {count} "
    "environments fell; the mean of all went from {mean_start:figure} to {mean_end:figure}.",
    statement="the reward in {environment:quoted} falls to {end:short}",
    why="A mean over environments hides that the policy gets worse in one of them while it gains "
    "in the others.",
    suggestion="Read its responses; change its share, its reward scale or its learning signal, or "
    "go back to a checkpoint before its fall.",
    source=translatable(
        "the rules of reward collapse; Holm's correction (1979) for environments"
    ),
    explains=("reward_stalled", "watched_reward_fall"),
    of_reward=True,
    trend=True,
    needs_also=ENVIRONMENTS,
)
def environment_fall(check: Check, run: Run) -> Result:
    """Find that the reward of an environment fell while the mean of all hides it."""
    environments = run.environments
    limits = run.limits[EnvironmentFall]
    if environments is None or run.first is None:
        return check.not_run(ENVIRONMENTS)
    # Name of an environment -> its part of the run, if it is large enough
    judged: dict[str, Run] = {}
    for index, name in enumerate(environments.names):
        part = _part(run, index)
        has_steps = len(part.steps) >= limits.steps
        if has_steps and len(part.responses) >= limits.responses:
            judged[name] = part
    fallen = _fallen(judged)
    severity = Severity.WARNING
    whole = reward_collapse.run(run).finding
    if whole is not None and whole.severity is not Severity.INFO:
        # The same fact, unless one environment carries the fall of the mean.
        severity = Severity.INFO
        carriers = [name for name in _carriers(run) if name in fallen]
        fallen = {name: fallen[name] for name in carriers}
    if not fallen:
        return Result()
    # The most significant fall: the last limit that ``reward_collapse`` compares is its z.
    worst = max(fallen, key=lambda name: fallen[name].met[0].value)
    part = judged[worst]
    of_part = quantities.courses(part)["reward"]
    best = of_part.top
    reward = quantities.courses(run)["reward"]
    facts: Facts = {
        "environment": LogText(worst),
        "fallen": len(fallen),
        "count": len(judged),
        **quantities.levels_of(of_part),
        "mean_start": reward.first.value,
        "mean_end": reward.last.value,
        "best_from": best.steps[0],
        "best_to": best.steps[1],
    }
    earned = part.column("reward")
    is_fallen = nearer(earned, of_part.last.value, best.value)
    return check.found(
        part,
        severity,
        fallen[worst].met,
        facts,
        Ranking(earned, is_fallen, highest=False, unit="reward"),
        onset=fallen[worst].onset,
    )


def _fallen(parts: Mapping[str, Run]) -> dict[str, Finding]:
    """Return name -> finding of the environments whose reward surely fell.

    Holm's correction: of n environments, a fall is judged as the most significant of n tests.
    Those found are certain, so the others are then judged again, as so many tests fewer.
    """
    fallen: dict[str, Finding] = {}
    rest = dict(parts)
    while rest:
        falls_of_round: dict[str, Finding] = {}
        for name, part in rest.items():
            fall = _fall(part, len(rest))
            if fall is not None:
                falls_of_round[name] = fall
        if not falls_of_round:
            break
        fallen |= falls_of_round
        for name in falls_of_round:
            del rest[name]
    return fallen


def _carriers(run: Run) -> list[str]:
    """Return the environments of which each alone carries most of a fall of the mean reward."""
    windows = fall_windows(run)
    if run.environments is None or windows is None:
        return []
    mix = means.mix(run, *windows)
    if mix is None:
        return []
    # Both are negative for a fall; the last one, of pooled environments, has no name.
    carried = mix.within / mix.total
    least = run.limits[EnvironmentFall].carried
    names = run.environments.names
    return [name for index, name in enumerate(names) if carried[index] >= least]


def _part(run: Run, index: int) -> Run:
    """Return one environment's part of a run, without texts, metrics or steps of few responses.

    ``index`` is that of the environment in ``run.environments.names``.
    """
    assert run.environments is not None
    responses = run.responses.loc[run.environments.index == index, list(USED)]
    # Noise is estimated from all steps, so none may have far fewer responses than usual.
    counts = responses.groupby("step")["step"].transform("size")
    responses = responses[counts >= MIN_STEP * counts.median()].reset_index(drop=True)
    steps = run.tables.steps[run.tables.steps["step"].isin(responses["step"])]
    tables = replace(
        run.tables.without_samples(),
        responses=responses,
        extras=pd.DataFrame(index=responses.index),
        steps=steps.reset_index(drop=True),
        metrics=pd.DataFrame({"step": []}),
    )
    return Run(tables, run.limits)


def _fall(part: Run, count: int) -> Finding | None:
    """Return the finding of a lasting fall, or None; z limits are raised for ``count`` tests."""
    normal = NormalDist()
    raised = dict(part.limits.given)
    for limits in (part.limits[RewardCollapse], part.limits[Trend]):
        # Bonferroni: the probability of so large a z by chance may be 1 / count of the usual one.
        probability = normal.cdf(-limits.z) / count
        z = -normal.inv_cdf(probability)
        raised[type(limits).__name__] = {**limits.given, "z": z}
    fall = reward_collapse.run(Run(part.tables, Thresholds(raised))).finding
    # A note is not certain; a fall with a last step recovered.
    if fall is None or fall.severity is Severity.INFO or fall.until is not None:
        return None
    return fall


@Check(
    name="harder tasks came in",
    rank=Rank.NOTE,
    needs=(REWARD,),
    charts=("reward_environments", "reward"),
    limits=MixChanged,
    title="The reward fell from {before:figure} to {after:figure} because the mix changed: the "
    "share of {environment:quoted} (mean reward {level:figure}) rose from {share_start:percent} to "
    "{share:percent}. At the same mix, it would have changed by {rest:figure}.",
    why="The mean says nothing about the policy if its environments change.",
    suggestion="Compare the environments one by one, or keep their shares constant.",
    source=translatable(
        "Δ = Σ m̄ Δs + Σ s̄ Δm over environments (s: share, m: mean reward)"
    ),
    of_reward=True,
    trend=True,
    needs_also=ENVIRONMENTS,
)
def mix_changed(check: Check, run: Run) -> Result:
    """Note that the mean reward fell because more responses are of a harder environment."""
    if run.environments is None:
        return check.not_run(ENVIRONMENTS)
    mix = mix_of_fall(run)
    if mix is None:
        return Result()
    level = mix.means.mean(axis=0)  # of each environment
    # The mean reward of all in both windows
    before, after = (mix.shares * mix.means).sum(axis=1).tolist()
    harder = mix.harder
    labels = run.environments.labels
    is_pooled = harder == len(labels) - 1  # a label of ours, not of the log
    facts: Facts = {
        "environment": labels[harder] if is_pooled else LogText(labels[harder]),
        "level": float(level[harder]),
        "rest": mix.rest,
        "before": before,
        "after": after,
        "share_start": float(mix.shares[0, harder]),
        "share": float(mix.shares[1, harder]),
    }
    share = run.limits.test(MixChanged.share, ">", mix.mix / mix.total)
    is_harder = (run.environments.index == harder).astype(np.float64)
    onset = run.onset(run.by_step(is_harder))
    reward = run.column("reward")
    # What lowers the mean: responses of this environment that earn less than the mean did
    is_lower = is_harder * beyond(reward, "<", before)
    ranking = Ranking(reward, is_lower, highest=False, unit="reward")
    return check.found(run, Severity.INFO, [share], facts, ranking, onset=onset)
