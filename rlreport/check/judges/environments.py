"""Checks of the environments (data sets, tasks, agents) whose mean the reward of a run is."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts, Finding, Limit, Limits, LogText, Severity, Thresholds
from rlreport.check.judges.reward import fall_windows, mix_of_fall, reward_collapse
from rlreport.check.noise import Trend
from rlreport.check.run import MixChanged, Ranking, Run
from rlreport.check.series import RewardCollapse
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
    responses = Limit(100, "responses", "an environment with fewer is not judged")
    steps = Limit(10, "steps", "an environment with fewer is not judged")
    carried = Limit(0.8, "of the fall", "part of a fall of the overall mean due to it (note)")


@Check(
    name="one environment falls",
    rank="consequence",
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
    source=translatable("the rules of reward collapse; Holm's correction (1979) for environments"),
    explains=("reward_stalled", "watched_reward_fall"),
    of_reward=True,
    trend=True,
    needs_also=ENVIRONMENTS,
)
def environment_fall(check: Check, run: Run) -> Result:
    environments = run.environments
    limits = run.limits[EnvironmentFall]
    if environments is None or run.first is None:
        return check.not_run(ENVIRONMENTS)
    parts = {name: _part(run, index) for index, name in enumerate(environments.names)}
    judged = [
        name
        for name, part in parts.items()
        if len(part.steps) >= limits.steps and len(part.responses) >= limits.responses
    ]
    # Holm's correction: after each fall, there is one environment less to correct for.
    fallen: dict[str, Finding] = {}
    rest = judged
    while found := {name: fall for name in rest if (fall := _fall(parts[name], len(rest)))}:
        fallen |= found
        rest = [name for name in rest if name not in found]
    severity: Severity = "warning"
    if isinstance(whole := reward_collapse.run(run), Finding) and whole.severity != "info":
        # The same fact, unless one environment carries the fall of the mean.
        severity = "info"
        mix = run.mix_change(*fall_windows(run, whole))
        carried = mix.within / (mix.mix + mix.rest) if mix else np.zeros(len(parts))
        fallen = {
            name: fallen[name]
            for index, name in enumerate(environments.names)
            if name in fallen and carried[index] >= limits.carried
        }
    if not fallen:
        return None
    name = max(fallen, key=lambda name: fallen[name].thresholds[-1].value)
    part = parts[name]
    best = parts[name].courses["reward"].best.steps
    moved = run.change(run.column("reward"))
    facts: Facts = {"environment": LogText(name), "fallen": len(fallen), "count": len(judged)}
    facts = {**facts, **part.reward_windows(), "mean_start": moved.first, "mean_end": moved.last}
    facts = {**facts, "best_from": best[0], "best_to": best[1]}
    ranking = Ranking(part.column("reward"), False, "reward")
    met = fallen[name].thresholds
    return check.finding(part, severity, met, facts, ranking, onset=fallen[name].onset)


def _part(run: Run, index: int) -> Run:
    """Return one environment's part of a run, without texts, metrics or steps of few responses."""
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
    raised = dict(part.limits.given)
    for limits in (part.limits[RewardCollapse], part.limits[Trend]):
        z = -NormalDist().inv_cdf(NormalDist().cdf(-limits.z) / count)
        raised[type(limits).__name__] = {**limits.given, "z": z}
    fall = reward_collapse.run(Run(part.tables, Thresholds(raised)))
    if not isinstance(fall, Finding) or fall.severity == "info" or fall.until is not None:
        return None
    return fall


@Check(
    name="harder tasks came in",
    rank="note",
    needs=(REWARD,),
    charts=("reward_environments", "reward"),
    limits=MixChanged,
    title="The reward fell from {before:figure} to {after:figure} because the mix changed: the "
    "share of {environment:quoted} (mean reward {level:figure}) rose from {share_start:percent} to "
    "{share:percent}. At the same mix, it would have changed by {rest:figure}.",
    why="The mean says nothing about the policy if its environments change.",
    suggestion="Compare the environments one by one, or keep their shares constant.",
    source=translatable("Δ = Σ m̄ Δs + Σ s̄ Δm over environments (s: share, m: mean reward)"),
    of_reward=True,
    trend=True,
    needs_also=ENVIRONMENTS,
)
def mix_changed(check: Check, run: Run) -> Result:
    if run.environments is None:
        return check.not_run(ENVIRONMENTS)
    mix = run.once(mix_of_fall)
    if mix is None:
        return None
    mean = mix.means.mean(axis=0)
    rise = mix.shares[1] - mix.shares[0]
    before, after = (mix.shares * mix.means).sum(axis=1).tolist()
    harder = int(np.argmin((mean - (before + after) / 2) * np.maximum(rise, 0)))
    labels = run.environments.labels
    name = labels[harder] if harder == len(labels) - 1 else LogText(labels[harder])
    first, last = mix.shares[:, harder].tolist()
    facts: Facts = {"environment": name, "level": float(mean[harder]), "rest": mix.rest}
    facts = {**facts, "before": before, "after": after, "share_start": first, "share": last}
    met = run.met(MixChanged.share, ">", mix.mix, of=mix.mix + mix.rest)
    series = run.by_step((run.environments.index == harder).astype(np.float64))
    return check.finding(run, "info", met, facts, series=series)
