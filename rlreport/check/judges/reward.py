"""Checks of the reward: it fell, died or did not rise, or the watched reward fell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import REF_REWARD, REWARD, Check, Result
from rlreport.check.finding import Fact, Facts, Onset, Severity
from rlreport.check.limits import RL_BOARD, Limit, Limits
from rlreport.check.noise import window
from rlreport.check.run import Ranking, RewardStalled, Run
from rlreport.check.series import FALL_Z, RewardCollapse, Shape, running_mean
from rlreport.check.shapes import same_prompt_change
from rlreport.text.messages import marked

GAO = marked("Gao, Schulman and Hilton 2023, Scaling Laws for Reward Model Overoptimization")


class WatchedRewardFall(Limits):
    """Thresholds of ``watched_reward_fall``."""

    lost = Limit(0.25, "of the gain", "warning: part of the watched reward's gain lost again", GAO)
    least = Limit(0.02, "of its range", "and lost at least this part of the range it had", GAO)
    follow = Limit(0.5, "times", "does not rise, and ends below this part of training's reward")


def judge_collapse(run: Run) -> Result:
    """Find a reward that died, fell, or fell and recovered.

    It is critical if the reward stays at its lowest value to the end, or ends further below its
    start than its best lay above it; info if harder prompts explain the fall.
    """
    shape = run.reward_shape
    if shape is None:
        return REWARD_COLLAPSE.too_short(run)
    steps, dip = shape.series.steps, shape.dip
    end = shape.end
    facts: dict[str, Fact] = {}
    severity: Severity = "critical" if shape.dead is not None or shape.below_start else "warning"
    peak, onset, until = shape.best_index, None, None
    fell = shape.below_start or _fell(run, shape)
    since = shape.dead if shape.dead is not None or fell else shape.late
    if since is not None:
        kind = "dead" if shape.dead is not None else "late"
        end = float(shape.series.values[since:].mean())
        facts["since"] = int(steps[since])
        peak = peak if shape.dead is not None else max(since - shape.window, 0)
    elif fell:
        kind = "fell"
        facts |= run.reward_windows()
    elif dip is not None:
        kind = "dip"
        since, until = int(steps[dip.start]), int(steps[dip.stop])
        facts |= {"best": dip.level, "low": dip.low, "since": since, "until": until}
        onset = Onset(since, since, since)
        length = dip.stop - dip.start
        met = run.met(RewardCollapse.dip, ">", (length + 1) / len(steps))
        severity = "warning" if met and length >= 10 else "info"
    else:
        return None
    if kind != "dip":
        met = run.met(RewardCollapse.lost, ">", _lost(shape, end))
        met += run.met(RewardCollapse.z, ">", max(shape.fall_z, -shape.rise_z))
    if kind != "dead" and _prompts_explain(run, shape):
        if kind == "dip":
            return None
        kind, severity = "prompts", "info"
    return REWARD_COLLAPSE.finding(
        run,
        severity,
        met,
        series=run.align(shape.series),
        onset=onset or run.onset_of(shape.series, (peak, peak + shape.window)),
        until=until,
        ranking=Ranking(run.column("reward"), highest=False),
        more={"start": shape.start, "best": shape.best, "end": end} | facts,
        kind=kind,
        series_from=shape.series.source,
    )


def _lost(shape: Shape, end: float) -> float:
    """Return the part of the gain that was lost, 1 if there was no gain."""
    gain = shape.best - shape.start
    return (shape.best - end) / gain if gain > 0 else 1.0


def _fell(run: Run, shape: Shape) -> bool:
    """Return whether the reward fell, by the trainer's series or by the responses' own errors."""
    if shape.series.source == "metrics":
        return shape.fell
    limits, steps, size = run.limits[RewardCollapse], len(run.steps), len(run.last.steps)
    if shape.abrupt is not None:
        return bool(run.met(RewardCollapse.half, ">", _lost(shape, shape.end)))
    reward = run.column("reward")
    means = running_mean(np.nan_to_num(run.by_step(reward), nan=-np.inf), size)
    place = int(np.argmax(means))
    best = window(run.tables, place, place + size)
    loss = run.change(reward, first=best)
    gain = run.change(reward, last=best).difference
    min_loss = max(limits.half * gain, limits.spread * run.spread())
    # The best of several windows lies above the others by chance.
    luck = np.sqrt(2 * np.log(steps / size))
    significant = -shape.noise.deflate(loss.z) >= loss.least + luck
    return bool(significant and -loss.difference > min_loss)


def _prompts_explain(run: Run, shape: Shape) -> bool:
    """Return whether harder prompts explain a fall.

    They do if the watched reward rose, if the frozen reference fell while the gap to it stayed,
    or if prompts on both sides of the fall earn what they earned before.
    """
    watched = run.watched_shape
    if watched is not None and watched.rose and not watched.fell:
        return True
    if shape.series.source == "metrics" or run.first is None:
        return False
    steps, dip, size = len(shape.series.steps), shape.dip, shape.window
    drop = shape.best - shape.end
    best = window(run.tables, shape.best_index, shape.best_index + size)
    reference, gap = (run.change(run.column(c), first=best) for c in ("ref_reward", "reward_gap"))
    if -reference.difference > drop / 2 and reference.fell and not gap.fell:
        return True
    index = np.searchsorted(shape.series.steps, run.responses["step"].to_numpy(np.int64))

    def in_steps(start: int, stop: int) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = (index >= start) & (index < stop)
        return chosen

    if dip is not None and not shape.fell:
        late_rows, drop = in_steps(dip.start, dip.stop + 1), dip.level - dip.low
        early_rows = ~late_rows
    else:
        late_rows = in_steps(steps - 2 * size, steps)
        early_rows = in_steps(shape.best_index - size, shape.best_index + 2 * size) & ~late_rows
    difference = same_prompt_change(run, run.column("reward"), late_rows, early_rows)
    return difference is not None and difference > -drop / 2


def _collapse_title(facts: Facts) -> str:
    return {
        "dead": marked(
            "The reward died: it stays at {end:figure} from step {since} on, after {best:figure} "
            "at its best."
        ),
        "late": marked(
            "The reward fell from {best:figure} to {end:figure} in the last steps, from step "
            "{since} on."
        ),
        "fell": marked(
            "The reward fell from {best:figure} to {end:figure}; it had started at {start:figure}."
        ),
        "dip": marked(
            "The reward fell from {best:figure} to {low:figure} in steps {since} to {until} and "
            "recovered."
        ),
        "prompts": marked(
            "The reward fell from {best:figure} to {end:figure}, but harder prompts explain it: "
            "the watched reward, that of the same prompts or the gap to the reference did not fall."
        ),
    }[str(facts["kind"])]


REWARD_COLLAPSE = Check(
    id="reward_collapse",
    name="the reward collapsed",
    rank="consequence",
    looks_for="the reward fell or died, whenever that was",
    needs=(REWARD,),
    charts=("reward", "reward_distribution"),
    judge=judge_collapse,
    limits=RewardCollapse,
    title=_collapse_title,
    clause="the reward fell from {best:figure} to {end:figure}",
    why="What the run had learned is gone; its last checkpoint is worse than an earlier one.",
    suggestion="Keep a checkpoint from before the fall. Lower the learning rate or raise the KL "
    "coefficient, and look at KL and entropy where the fall begins.",
    explains=(
        *("length_collapse", "diversity_collapse", "entropy_collapse", "missing_eos"),
        *("kl_explosion", "reward_stalled", "persistent_losers"),
        *("watched_reward_fall", "zero_variance_groups", "group_std_fall"),
        *("unclosed_thinking", "language_drift", "template_collapse"),
    ),
    of_reward=True,
)


def judge_watched(run: Run) -> Result:
    """Find a watched reward that fell, or does not follow the reward of training."""
    watched, trained = run.watched_shape, run.reward_shape
    if run.watched is None and run.series_of("validation") is None:
        return WATCHED_REWARD_FALL.not_run(
            "a second reward (valid_reward), or responses or metrics of validation"
        )
    if watched is None:
        return WATCHED_REWARD_FALL.too_short(run)
    loss = watched.best - watched.end
    lost = run.met(WatchedRewardFall.lost, ">", _lost(watched, watched.end))
    span = float(np.ptp(watched.series.values))
    # On a scale of 0 to 1 a fall below 0.02 does not matter, however small the noise.
    min_loss = run.limits[WatchedRewardFall].least * (1.0 if watched.best <= 1 else span)
    # Without a gain, the best of many windows lies above the others by chance.
    significant = watched.fell or (watched.gained and watched.fall_z > FALL_Z)
    fell = bool(lost) and significant and loss > min_loss
    follows = trained is None or not _does_not_follow(run, watched, trained)
    if not fell and follows:
        return None
    in_training = run.watched is not None and run.watched[0] is run
    peak = (watched.best_index, watched.best_index + watched.window)
    return WATCHED_REWARD_FALL.finding(
        run,
        "critical" if fell and -watched.rise_z > FALL_Z else "warning",
        lost if fell else (),
        series=run.align(watched.series) if in_training else None,
        onset=run.onset_of(watched.series, peak) if fell else None,
        dated=False,
        ranking=Ranking(run.column("valid_reward"), highest=False) if in_training else None,
        start=watched.start,
        best=watched.best,
        end=watched.end,
        fell=fell,
        trained_start=trained.start if trained else np.nan,
        trained_end=trained.end if trained else np.nan,
        series_from=watched.series.source,
    )


def _does_not_follow(run: Run, watched: Shape, trained: Shape) -> bool:
    """Return whether training's reward rises and the watched one, on the same scale, does not."""
    both = [watched.series.values, trained.series.values]
    in_unit = [float(values.min()) >= 0 and float(values.max()) <= 1 for values in both]
    if in_unit[0] != in_unit[1] or not trained.rose or watched.rose:
        return False
    min_ratio = run.limits[WatchedRewardFall].follow
    return trained.rise_z > FALL_Z and watched.end < min_ratio * trained.end


def _watched_title(facts: Facts) -> str:
    if not facts["fell"]:
        return marked(
            "The watched reward does not follow: it went from {start:figure} to {end:figure}, "
            "while the trained one rose from {trained_start:figure} to {trained_end:figure}."
        )
    return marked(
        "The watched reward fell from {best:figure} to {end:figure}, after {start:figure} at "
        "first, while the trained one went from {trained_start:figure} to {trained_end:figure}."
    )


WATCHED_REWARD_FALL = Check(
    id="watched_reward_fall",
    name="the watched reward fell",
    rank="consequence",
    looks_for="the watched reward fell or did not follow, whatever the trained one did",
    needs_also="a second reward (valid_reward), or responses or metrics of validation",
    charts=("reward",),
    judge=judge_watched,
    limits=WatchedRewardFall,
    title=_watched_title,
    clause="the watched reward went from {best:figure} to {end:figure}",
    why="The policy games or over-fits the reward that it is trained on.",
    suggestion="Keep the checkpoint of the watched reward's best steps. Raise the KL coefficient, "
    "train for fewer steps, or mend the reward.",
)


def judge_stalled(run: Run) -> Result:
    """Find a reward that did not rise, or a policy that wins no more often than the reference."""
    if run.first is None and not REF_REWARD.met(run):
        return REWARD_STALLED.too_short(run)
    gap = run.column("reward_gap")
    end = gap[run.last.rows]
    end = end[np.isfinite(end)]
    facts: dict[str, Fact]
    if run.reward_shape is not None and not run.learned and not run.solved:
        facts = {**run.reward_windows(), "series_from": run.reward.source}
    elif len(end) and np.mean(end > 0) <= np.mean(end < 0):
        facts = {"wins": float(np.mean(end > 0)), "losses": float(np.mean(end < 0))}
    else:
        return None
    by = gap if np.isfinite(gap).any() else run.column("reward")
    return REWARD_STALLED.finding(run, "info", ranking=Ranking(by, highest=False), more=facts)


def _stalled_title(facts: Facts) -> str:
    if "wins" in facts:
        return marked(
            "The policy beats the reference in {wins:percent} of responses and loses in "
            "{losses:percent}."
        )
    return marked("The reward did not rise: {start:figure} at first, {end:figure} at the end.")


REWARD_STALLED = Check(
    id="reward_stalled",
    name="no gain in reward",
    rank="note",
    looks_for="no gain over all steps, or none over the reference",
    needs=(REWARD,),
    charts=("reward", "win_rate"),
    judge=judge_stalled,
    limits=RewardStalled,
    title=_stalled_title,
    why="The run cost its compute and the policy is no better by its own reward.",
    suggestion="See whether rewards differ inside groups: without differences there is nothing to "
    "learn. Then try a higher learning rate, a lower KL coefficient or easier prompts.",
    source=RL_BOARD,
    trend=False,
    of_reward=True,
)
