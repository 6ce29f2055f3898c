"""``value_divergence``: the critic does not follow the returns."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import SEVERITIES, Facts, Finding
from rlreport.check.limits import Limit, Limits, above, below
from rlreport.check.run import Run, Shown, began, median
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import marked

CRITIC = marked("RLLoggingBoard post (critic variance); PPO practice")


class ValueDivergence(Limits):
    """Thresholds of ``value_divergence``."""

    explained = Limit(-0.5, "", "warning: explained variance of the last window", CRITIC)
    weak = Limit(0.0, "", "info: explained variance of the last window", CRITIC)
    spread = Limit(5.0, "times", "warning: std of values against std of returns", CRITIC)
    floor = Limit(0.01, "of the run's", "least variance of returns that can be followed")


RETURNS = (("return", "value_error"), ("mc_return", "mc_error"))
"""Columns of the returns and of the critic's error: λ-returns, and all rewards that came.

λ-returns are bootstrapped from the values, so a critic that runs away takes them along.
"""


def fit(
    run: Run, returns: str, error: str, group: Ints, size: int
) -> tuple[Floats, Floats, Floats]:
    """Return the variances of values, returns and errors over all tokens, float64 (size,) each.

    ``returns`` and ``error`` are prefixes of columns; ``group``, int64 (rows,), is what each
    response is counted to, one of ``size``, −1 to leave it out.
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

    return variance("value"), variance(returns), variance(error)


def judge(run: Run) -> Result:
    """Judge the critic's fit over the last window, all tokens pooled; the worse fit counts."""
    fits = [_judged(run, *names) for names in RETURNS if run.has(f"{names[1]}_m2")]
    found = [one for one in fits if isinstance(one, Finding)]
    return min(found, key=lambda one: SEVERITIES.index(one.severity), default=None)


def _judged(run: Run, returns: str, error: str) -> Result:
    """Judge the critic by one kind of returns.

    Where returns hardly vary any more there is nothing to follow, and a ratio of two small
    variances says nothing: their variance counts as no less than a part of the run's.
    """
    limits = run.limits[ValueDivergence]
    count = len(run.steps)
    inside = run.place >= count - len(run.last.steps)
    value, own_returns, wrong = fit(run, returns, error, run.place, count)
    late = fit(run, returns, error, np.where(inside, 0, -1), 1)
    end_value, end_returns, end_error = (float(variance[0]) for variance in late)
    _, whole, _ = fit(run, returns, error, np.zeros_like(run.place), 1)
    least = limits.floor * float(whole[0])
    scale = max(end_returns, least)
    if not np.isfinite(scale) or scale <= 0 or not np.isfinite(end_error):
        return None
    explained = 1 - end_error / scale
    spread = float(np.sqrt(end_value / scale))
    middle = median(run.late(1 - wrong / scale))
    bad, weak = (
        below(explained, limit) and below(middle, limit)
        for limit in (limits.explained, limits.weak)
    )
    wide = above(spread, limits.spread)
    if not (weak or wide):
        return None
    by_fit = bad or not wide
    fit_met = run.met(ValueDivergence.explained if bad else ValueDivergence.weak, "<", explained)
    met = [*(fit_met if by_fit else []), *run.met(ValueDivergence.spread, ">", spread)]
    # Each step against its own returns: their scale changes over a run.
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (wrong if by_fit else value) / np.fmax(own_returns, least)
    limit = 1 - (limits.explained if bad else limits.weak) if by_fit else limits.spread**2
    return CHECK.finding(
        run,
        "warning" if bad or wide else "info",
        met,
        series=np.log1p(own),
        always=above(began(own), limit),
        shown=Shown(np.abs(run.column(f"{error}_mean"))),
        explained=explained,
        spread=spread,
        weak=not (bad or wide),
    )


def title(facts: Facts) -> str:
    """Return how well the critic follows."""
    if facts["weak"]:
        return marked("The critic is weak: explained variance {explained:figure}.")
    return marked(
        "The critic does not follow the returns: explained variance {explained:figure}, std of "
        "values {spread:figure} × that of the returns."
    )


CHECK = Check(
    id="value_divergence",
    name="the critic diverged",
    rank="cause",
    looks_for="the critic does not follow the returns",
    needs=(Need("values and token_rewards", ("value_error_m2", "return_m2")),),
    charts=("explained_variance", "value"),
    judge=judge,
    limits=ValueDivergence,
    title=title,
    why="Advantages are returns less values: a critic that is worse than a constant adds noise to "
    "every update and can point it the wrong way.",
    suggestion="Warm the critic up before the policy moves, lower its learning rate, clip values, "
    "normalise returns, or start it from the reward model.",
    explains=(
        *(
            "reward_collapse",
            "watched_reward_fall",
            "kl_explosion",
            "entropy_collapse",
            "length_collapse",
        ),
        *("diversity_collapse", "missing_eos", "reward_stalled"),
    ),
)
