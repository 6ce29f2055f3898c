"""``value_divergence``: the critic does not follow the returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, below
from rlreport.check.finding import Facts
from rlreport.check.run import Run
from rlreport.check.thresholds import CRITIC
from rlreport.check.windows import Floats
from rlreport.check.words import figure, marked, message, span


@dataclass(frozen=True, slots=True)
class Fit:
    """Population variances over all tokens, of the run or by step: float64 (G,) each."""

    value: Floats
    returns: Floats
    error: Floats


def fit(run: Run, group: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> Fit:
    """Pool the critic's figures of responses into variances over all their tokens.

    Args:
        run: the run.
        group: int64 (rows,), what each response is counted to, −1 to leave it out.
        size: number of groups.
    """

    def variance(name: str) -> Floats:
        means, inside = run.column(f"{name}_mean"), run.column(f"{name}_m2")
        weights = run.column("value_tokens")
        known = np.isfinite(means) & np.isfinite(inside) & (weights > 0) & (group >= 0)
        at, mean, weight = group[known], means[known], weights[known]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = np.bincount(at, weight, minlength=size)
            centre = np.bincount(at, weight * mean, minlength=size) / total
            spread = inside[known] + weight * (mean - centre[at]) ** 2
            found: Floats = np.bincount(at, spread, minlength=size) / total
        return found

    return Fit(variance("value"), variance("return"), variance("value_error"))


def judge(run: Run) -> Result:
    """Judge the critic's fit over the last window, all tokens pooled.

    Where returns hardly vary any more there is nothing to follow, and a ratio of two small
    variances says nothing: their variance counts as no less than a part of the run's.
    """
    limits = run.limits.value_divergence
    inside = run.place >= len(run.steps) - len(run.last.steps)
    end = fit(run, np.where(inside, 0, -1), 1)
    steps = fit(run, run.place, len(run.steps))
    least = limits.floor * float(fit(run, np.zeros_like(run.place), 1).returns[0])
    scale = max(float(end.returns[0]), least)
    if not np.isfinite(scale) or scale <= 0 or not np.isfinite(end.error[0]):
        return None
    explained = 1 - float(end.error[0]) / scale
    spread = float(np.sqrt(end.value[0] / scale))
    own = 1 - steps.error / scale
    late = own[-len(run.last.steps) :]
    middle = float(np.nanmedian(late)) if np.isfinite(late).any() else np.nan
    bad = below(explained, limits.explained) and below(middle, limits.explained)
    weak = below(explained, limits.weak) and below(middle, limits.weak)
    wide = above(spread, limits.spread)
    if not (weak or wide):
        return None
    met = [CHECK.met(run, "spread", ">", spread)] if wide else []
    if bad or not wide:
        met.insert(0, CHECK.met(run, "explained" if bad else "weak", "<", explained))
    with np.errstate(invalid="ignore", divide="ignore"):
        # Each step against its own returns: their scale changes over a run.
        series = steps.error / np.fmax(steps.returns, least)
        series = (
            np.log1p(series)
            if bad or not wide
            else np.log1p(steps.value / np.fmax(steps.returns, least))
        )
    limit = (
        np.log1p(1 - (limits.explained if bad else limits.weak))
        if bad or not wide
        else np.log1p(limits.spread**2)
    )
    start = series[np.isfinite(series)][:3]
    always = bool(len(start)) and above(float(np.median(start)), float(limit))
    onset = run.onset(series, always=always)
    return CHECK.finding(
        run,
        "warning" if bad or wide else "info",
        onset=onset,
        thresholds=met,
        evidence=run.examples(np.abs(run.column("value_error_mean")), onset),
        series=series,
        explained=explained,
        spread=spread,
        weak=not (bad or wide),
    )


def title(facts: Facts) -> str:
    """Return how well the critic follows."""
    places = {
        "explained": figure(facts["explained"]),
        "spread": figure(facts["spread"]),
        "window": span(facts["last_window"]),
    }
    if facts["weak"]:
        return message("The critic is weak: explained variance {explained} ({window}).", **places)
    return message(
        "The critic does not follow the returns: explained variance {explained}, std of values "
        "{spread} × that of the returns ({window}).",
        **places,
    )


CHECK = Check(
    id="value_divergence",
    name=marked("the critic diverged"),
    rank="cause",
    looks_for="the critic does not follow the returns",
    needs=(Need("values and token_rewards", ("value_error_m2", "return_m2")),),
    charts=("explained_variance", "value"),
    judge=judge,
    title=title,
    why=marked(
        "Advantages are returns less values: a critic that is worse than a constant adds noise to "
        "every update and can point it the wrong way."
    ),
    suggestion=marked(
        "Warm the critic up before the policy moves, lower its learning rate, clip values, "
        "normalise returns, or start it from the reward model."
    ),
    source=CRITIC,
    explains=(
        *("reward_collapse", "kl_explosion", "entropy_collapse", "length_collapse"),
        *("diversity_collapse", "missing_eos", "reward_stalled"),
    ),
)
