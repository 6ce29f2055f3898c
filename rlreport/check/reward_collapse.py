"""``reward_collapse``: the reward fell, after a rise or from the start."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.onset import BASE
from rlreport.check.run import Run, Shown
from rlreport.check.windows import Window, window
from rlreport.text.messages import marked


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``."""

    lost = Limit(
        0.5,
        "of the gain",
        "warning: part of the reward's gain lost again",
        "LMFlow post on PPO training",
    )
    spread = Limit(0.5, "std of reward", "and lost by more than this, of the std inside a step")


def judge(run: Run) -> Result:
    """Compare the best smoothed window, wherever it lies, with the last and with the first.

    A loss must be beyond chance, more than half of the gain over the start and more than
    half of the reward's std inside a step. It is critical when the end lies below the start
    by the same measure.
    """
    assert run.first is not None
    size = len(run.first.steps)
    reward = run.column("reward")
    series = run.by_step(reward)
    means = np.nan_to_num(series, nan=-np.inf)
    smooth = np.lib.stride_tricks.sliding_window_view(means, size).mean(axis=1)
    start = int(np.argmax(smooth))
    best = window(run.tables, start, start + size)
    loss = run.change(reward, first=best)
    gain = run.change(reward, last=best)
    fall = run.change(reward)
    lost, inside = -loss.difference, run.spread()
    of_gain = run.met(RewardCollapse.lost, ">", lost, of=gain.difference)
    met = run.met(RewardCollapse.spread, ">", lost, of=inside)
    if not (loss.fell and of_gain and met):
        return None
    if _with_the_reference(run, best, lost):
        return None
    below = run.met(RewardCollapse.spread, ">", -fall.difference, of=inside)
    below_start = bool(fall.fell and below)
    # A slow fall may begin inside the best window: from its own best three steps on.
    best_steps = means[start : start + size]
    top = start + int(np.argmax(np.lib.stride_tricks.sliding_window_view(best_steps, BASE).mean(1)))
    return CHECK.finding(
        run,
        "critical" if below_start else "warning",
        met + (of_gain if gain.difference > 0 else []),
        series=series,
        onset=run.onset(series, peak=(top, top + BASE)),
        shown=Shown(reward, highest=False),
        start=gain.first,
        best=loss.first,
        end=loss.last,
        best_window=best.span,
        below_start=below_start,
    )


def _with_the_reference(run: Run, best: Window, lost: float) -> bool:
    """Say whether the frozen reference fell as well and the gap to it did not: harder prompts."""
    reference, gap = (
        run.change(run.column(name), first=best) for name in ("ref_reward", "reward_gap")
    )
    fell_alike = reference.fell and -reference.difference > lost / 2
    return fell_alike and not (gap.fell and -gap.difference > lost / 2)


def title(facts: Facts) -> str:
    """Return from where to where the reward fell."""
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
    ),
    of_reward=True,
)
