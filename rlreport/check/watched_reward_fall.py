"""``watched_reward_fall``: the watched reward fell, whatever the trained one did."""

from __future__ import annotations

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.reward_collapse import fall_of
from rlreport.check.run import Run, Shown
from rlreport.text.messages import marked

GAO = marked("Gao, Schulman and Hilton 2023, Scaling Laws for Reward Model Overoptimization")


class WatchedRewardFall(Limits):
    """Thresholds of ``watched_reward_fall``."""

    lost = Limit(0.5, "of the gain", "warning: part of the watched reward's gain lost again", GAO)
    spread = Limit(0.5, "std of reward", "and lost by more than this, of the std inside a step")


def judge(run: Run) -> Result:
    """Judge the watched reward as ``reward_collapse`` judges the trained one."""
    if run.watched is None:
        return CHECK.not_run("a second reward (valid_reward), or responses of validation")
    seen, column = run.watched
    if seen.first is None:
        return CHECK.too_short(seen)
    fall = fall_of(seen, column, WatchedRewardFall.lost, WatchedRewardFall.spread)
    if fall is None:
        return None
    trained = run.change(run.column("reward"))
    return CHECK.finding(
        run,
        "critical" if fall.below_start else "warning",
        fall.met,
        # Validation has steps of its own.
        series=fall.series if seen is run else None,
        onset=seen.onset(fall.series, peak=fall.peak),
        shown=Shown(run.column(column), highest=False) if seen is run else None,
        start=fall.start,
        best=fall.top,
        end=fall.end,
        best_window=fall.best.span,
        below_start=fall.below_start,
        trained_start=trained.first,
        trained_end=trained.last,
    )


def title(facts: Facts) -> str:
    """Return from where to where the watched reward fell, and what the trained one did."""
    if facts["below_start"]:
        return marked(
            "The watched reward fell from {best:figure} to {end:figure}, below its start at "
            "{start:figure}, while the trained one went from {trained_start:figure} to "
            "{trained_end:figure}."
        )
    return marked(
        "The watched reward fell from {best:figure} to {end:figure}, after {start:figure} at "
        "first, while the trained one went from {trained_start:figure} to {trained_end:figure}."
    )


CHECK = Check(
    id="watched_reward_fall",
    name="the watched reward fell",
    rank="consequence",
    looks_for="the watched reward fell, whatever the trained one did",
    needs=(REWARD,),
    needs_also="a second reward (valid_reward), or responses of validation",
    charts=("reward",),
    judge=judge,
    limits=WatchedRewardFall,
    title=title,
    clause="the watched reward fell from {best:figure} to {end:figure}",
    why="What training pays for is no longer what was meant: the policy games or over-fits its "
    "reward.",
    suggestion="Keep the checkpoint of the watched reward's best steps and read what came after. "
    "Raise the KL coefficient, train for fewer steps, or mend the reward.",
    of_reward=False,
)
