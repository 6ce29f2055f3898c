"""``reward_collapse``: the reward fell, after a rise or from the start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts, Met, Severity
from rlreport.check.limits import Limit, Limits
from rlreport.check.onset import BASE
from rlreport.check.run import Run, Shown
from rlreport.check.windows import Window, window
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked

OFTEN = 2
"""Steps in which a prompt of a window is seen on average, from which prompts return."""


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``."""

    lost = Limit(
        0.5,
        "of the gain",
        "warning: part of the reward's gain lost again",
        "LMFlow post on PPO training",
    )
    spread = Limit(0.5, "std of reward", "and lost by more than this, of the std inside a step")


@dataclass(frozen=True, slots=True)
class Fall:
    """How a reward fell from the best window it had.

    Attributes:
        met: thresholds.
        series: its mean by step.
        best: that window.
        peak: places of its best steps, from which the fall is dated.
        start, top, end: means of the first window, of the best and of the last.
        below_start: the end lies below the start by the same measure.
    """

    met: list[Met]
    series: Floats
    best: Window
    peak: tuple[int, int]
    start: float
    top: float
    end: float
    below_start: bool


def fall_of(run: Run, column: str, lost: Limit[float], spread: Limit[float]) -> Fall | None:
    """Compare the best smoothed window, wherever it lies, with the last and with the first.

    A loss must be beyond chance, more than ``lost`` of the gain over the start and more than
    ``spread`` of the reward's std inside a step.
    """
    assert run.first is not None
    size, reward = len(run.first.steps), run.column(column)
    series = run.by_step(reward)
    means = np.nan_to_num(series, nan=-np.inf)
    smooth = np.lib.stride_tricks.sliding_window_view(means, size).mean(axis=1)
    start = int(np.argmax(smooth))
    best = window(run.tables, start, start + size)
    loss = run.change(reward, first=best)
    gain = run.change(reward, last=best)
    fall = run.change(reward)
    inside = run.spread(column)
    of_gain = run.met(lost, ">", -loss.difference, of=gain.difference)
    met = run.met(spread, ">", -loss.difference, of=inside)
    if not (loss.fell and of_gain and met):
        return None
    below = run.met(spread, ">", -fall.difference, of=inside)
    # A slow fall may begin inside the best window: from its own best three steps on.
    best_steps = means[start : start + size]
    top = start + int(np.argmax(np.lib.stride_tricks.sliding_window_view(best_steps, BASE).mean(1)))
    return Fall(
        met + (of_gain if gain.difference > 0 else []),
        series,
        best,
        (top, top + BASE),
        gain.first,
        loss.first,
        loss.last,
        bool(fall.fell and below),
    )


def judge(run: Run) -> Result:
    """Look for a fall of the reward; it is critical when the end lies below the start.

    Where the prompts of the best steps are others than those of the last, as in a curriculum,
    their rewards cannot be compared.
    """
    fall = fall_of(run, "reward", RewardCollapse.lost, RewardCollapse.spread)
    if fall is None or _with_the_reference(run, fall.best, fall.top - fall.end):
        return None
    others = _other_prompts(run, fall.best)
    severity: Severity = "critical" if fall.below_start else "warning"
    return CHECK.finding(
        run,
        "info" if others else severity,
        fall.met,
        series=fall.series,
        onset=run.onset(fall.series, peak=fall.peak),
        shown=Shown(run.column("reward"), highest=False),
        start=fall.start,
        best=fall.top,
        end=fall.end,
        best_window=fall.best.span,
        below_start=fall.below_start,
        other_prompts=others,
    )


def _other_prompts(run: Run, best: Window) -> bool:
    """Say whether prompts return within the best and the last window, and none from one to other.

    Prompts that never return say nothing.
    """
    prompts, step = (run.responses[name].to_numpy() for name in ("prompt_id", "step"))
    parts = []
    for part in (best, run.last):
        seen = {(one, at) for one, at in zip(prompts[part.rows], step[part.rows], strict=True)}
        distinct = {one for one, _ in seen}
        if len(distinct) * OFTEN > len(seen):
            return False
        parts.append(distinct)
    return parts[0].isdisjoint(parts[1])


def _with_the_reference(run: Run, best: Window, lost: float) -> bool:
    """Say whether the frozen reference fell as well and the gap to it did not: harder prompts."""
    reference, gap = (
        run.change(run.column(name), first=best) for name in ("ref_reward", "reward_gap")
    )
    fell_alike = reference.fell and -reference.difference > lost / 2
    return fell_alike and not (gap.fell and -gap.difference > lost / 2)


def title(facts: Facts) -> str:
    """Return from where to where the reward fell."""
    if facts["other_prompts"]:
        return marked(
            "The reward fell from {best:figure} to {end:figure}, but no prompt of its best steps "
            "is among the last."
        )
    if facts["below_start"]:
        return marked(
            "The reward fell from {best:figure} to {end:figure}, below its start at {start:figure}."
        )
    return marked(
        "The reward fell from {best:figure} to {end:figure}; it had started at {start:figure}."
    )


CHECK = Check(
    id="reward_collapse",
    name="the reward collapsed",
    rank="consequence",
    looks_for="the reward fell, after a rise or from the start",
    needs=(REWARD,),
    charts=("reward", "reward_distribution"),
    judge=judge,
    limits=RewardCollapse,
    title=title,
    clause="the reward fell from {best:figure} to {end:figure}",
    why="What the run had learned is gone; its last checkpoint is worse than an earlier one.",
    suggestion="Keep the checkpoint of the best window. Lower the learning rate, clip harder or "
    "raise the KL coefficient, and look at KL, entropy and the critic where the fall begins.",
    explains=(
        *("length_collapse", "diversity_collapse", "entropy_collapse", "missing_eos"),
        *("kl_explosion", "reward_stalled", "persistent_losers", "language_drift"),
        "watched_reward_fall",
    ),
    of_reward=True,
)
