"""``reward_collapse``: the reward fell, after a rise or from the start."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.compare import above
from rlreport.check.finding import Facts
from rlreport.check.noise import change
from rlreport.check.onset import BASE
from rlreport.check.run import Run
from rlreport.check.thresholds import LMFLOW
from rlreport.check.windows import Window, window
from rlreport.text.messages import marked, told


def judge(run: Run) -> Result:
    """Compare the best smoothed window, wherever it lies, with the last and with the first.

    A loss must be beyond chance, more than half of the gain over the start and more than
    half of the reward's std inside a step. It is critical when the end lies below the start
    by the same measure.
    """
    assert run.first is not None
    limits, z = run.limits.reward_collapse, run.limits.trend.z
    size = len(run.first.steps)
    reward = run.column("reward")
    series = run.by_step(reward)
    means = np.nan_to_num(series, nan=-np.inf)
    smooth = np.lib.stride_tricks.sliding_window_view(means, size).mean(axis=1)
    start = int(np.argmax(smooth))
    best = window(run.tables, start, start + size)
    loss = change(run.tables, reward, best, run.last)
    gain = change(run.tables, reward, run.first, best)
    fall = change(run.tables, reward, run.first, run.last)
    least = limits.spread * run.spread()
    lost = -loss.difference
    if not (loss.z <= -z and above(lost, limits.lost * gain.difference) and above(lost, least)):
        return None
    if _with_the_reference(run, best, lost, z):
        return None
    below_start = fall.z <= -z and above(-fall.difference, least)
    # A slow fall may begin inside the best window: from its own best three steps on.
    best_steps = means[start : start + size]
    top = start + int(np.argmax(np.lib.stride_tricks.sliding_window_view(best_steps, BASE).mean(1)))
    onset = run.onset(series, peak=(top, top + BASE))
    met = [CHECK.met(run, "spread", ">", lost / run.spread())]
    if gain.difference > 0:
        met.append(CHECK.met(run, "lost", ">", lost / gain.difference))
    return CHECK.finding(
        run,
        "critical" if below_start else "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(reward, onset, highest=False),
        series=series,
        start=gain.first,
        best=loss.first,
        end=loss.last,
        best_window=best.span,
        below_start=below_start,
    )


def _with_the_reference(run: Run, best: Window, lost: float, z: float) -> bool:
    """Say whether the frozen reference fell as well and the gap to it did not: harder prompts."""
    reference, gap = (
        change(run.tables, run.column(name), best, run.last)
        for name in ("ref_reward", "reward_gap")
    )
    fell_alike = reference.z <= -z and -reference.difference > lost / 2
    return fell_alike and not (gap.z <= -z and -gap.difference > lost / 2)


def title(facts: Facts) -> str:
    """Return from where to where the reward fell."""
    if facts["below_start"]:
        return told(
            "The reward fell from {best:figure} to {end:figure}, below its start at "
            "{start:figure}.",
            facts,
        )
    return told(
        "The reward fell from {best:figure} to {end:figure}; it had started at {start:figure}.",
        facts,
    )


CHECK = Check(
    id="reward_collapse",
    name=marked("the reward collapsed"),
    rank="consequence",
    looks_for="the reward fell, after a rise or from the start",
    needs=(REWARD,),
    charts=("reward", "reward_distribution"),
    judge=judge,
    title=title,
    effect=marked("the reward fell from {best:figure} to {end:figure}"),
    why=marked(
        "What the run had learned is gone; its last checkpoint is worse than an earlier one."
    ),
    suggestion=marked(
        "Keep the checkpoint of the best window. Lower the learning rate, clip harder or raise "
        "the KL coefficient, and look at KL, entropy and the critic where the fall begins."
    ),
    source=LMFLOW,
    explains=(
        *("length_collapse", "diversity_collapse", "entropy_collapse", "missing_eos"),
        *("kl_explosion", "reward_stalled", "persistent_losers", "language_drift"),
    ),
    of_reward=True,
)
