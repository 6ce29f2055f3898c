"""Checks of the reward: it fell or died, it did not rise, its function changed, one part rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import REF_REWARD, REWARD, Check, Result
from rlreport.check.finding import Fact, Facts, Met, Onset, Severity
from rlreport.check.limits import RL_BOARD, Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.check.series import DEATH_Z, FALL_Z, LOST, SOME_Z, Shape, running_mean
from rlreport.check.shapes import own_change
from rlreport.check.windows import window
from rlreport.text.messages import marked

GAO = marked("Gao, Schulman and Hilton 2023, Scaling Laws for Reward Model Overoptimization")
LMFLOW = marked("LMFlow post on PPO training")


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``."""

    lost = Limit(LOST, "of the gain", "warning: part of the reward's gain lost again", LMFLOW)
    z = Limit(FALL_Z, "std errors", "and clearer than chance by this")
    half = Limit(
        0.5, "of the gain", "the same where only rollouts tell it, which are fewer", LMFLOW
    )
    dip = Limit(0.15, "of steps", "warning: a fall that recovered lasted longer than this part")
    spread = Limit(0.5, "std of reward", "and by more than this, of the std inside a step")


class WatchedRewardFall(Limits):
    """Thresholds of ``watched_reward_fall``."""

    lost = Limit(0.25, "of the gain", "warning: part of the watched reward's gain lost again", GAO)
    least = Limit(0.02, "of its range", "and lost at least this part of the range it had", GAO)
    follow = Limit(0.5, "times", "does not rise, and ends below this part of training's reward")


class RewardStalled(Limits):
    """Thresholds of ``reward_stalled``."""

    solved = Limit(0.95, "of responses", "earn the best reward in all steps: solved from the start")


def judge_collapse(run: Run) -> Result:
    """Look for a reward that died, fell, or fell and recovered.

    It is critical where the reward stays at its lowest value to the end, or ends further below
    its start than it had ever been above. Where the watched reward rose, or the prompts at the
    end are others than those of the best steps, harder prompts explain a fall: a note.
    """
    shape = run.reward_shape
    if shape is None:
        return REWARD_COLLAPSE.too_short(run)
    steps = shape.series.steps
    facts: dict[str, Fact] = {"start": shape.start, "best": shape.best, "end": shape.end}
    severity: Severity = "warning"
    onset, until = None, None
    peak = (shape.best_place, shape.best_place + shape.window)
    if shape.dead is not None:
        kind, severity = "dead", "critical"
        facts |= {"since": int(steps[shape.dead]), "end": _tail(shape, shape.dead)}
        met = [Met("z", ">", DEATH_Z, max(shape.fall_z, DEATH_Z), "std errors")]
    elif shape.below_start or _fell(run, shape):
        kind = "below" if shape.below_start else "fell"
        facts |= run.reward_windows()
        severity = "critical" if shape.below_start else "warning"
        met = [
            *run.met(RewardCollapse.lost, ">", _lost(shape, shape.end)),
            *run.met(RewardCollapse.z, ">", max(shape.fall_z, -shape.rise_z)),
        ]
    elif shape.late is not None:
        kind = "late"
        facts |= {"since": int(steps[shape.late]), "end": _tail(shape, shape.late)}
        met = run.met(RewardCollapse.lost, ">", _lost(shape, _tail(shape, shape.late)))
        peak = (max(shape.late - shape.window, 0), shape.late)
    elif shape.dip is not None:
        kind = "dip"
        part = (shape.dip.stop - shape.dip.start + 1) / len(steps)
        met = run.met(RewardCollapse.dip, ">", part)
        severity = "warning" if met and shape.dip.stop - shape.dip.start >= 10 else "info"
        since, until = int(steps[shape.dip.start]), int(steps[shape.dip.stop])
        onset = Onset(since, since, since)
        facts |= {"best": shape.dip.level, "low": shape.dip.low, "since": since, "until": until}
    else:
        return None
    if kind != "dead":
        if _with_the_reference(run, shape):
            return None
        if _prompts_explain(run, shape):
            if kind == "dip":
                return None
            kind, severity = "prompts", "info"
    return REWARD_COLLAPSE.finding(
        run,
        severity,
        met,
        series=run.along(shape.series),
        onset=onset or run.onset_of(shape.series, peak),
        until=until,
        shown=Shown(run.column("reward"), highest=False),
        more=facts,
        kind=kind,
        series_from=shape.series.source,
    )


def _tail(shape: Shape, place: int) -> float:
    return float(shape.series.values[place:].mean())


def _lost(shape: Shape, end: float) -> float:
    """Return the part of the gain that is lost; all of it where there was none."""
    gain = shape.best - shape.start
    return (shape.best - end) / gain if gain > 0 else 1.0


def _fell(run: Run, shape: Shape) -> bool:
    """Say whether the reward fell: by the trainer's series, or by the responses' own errors."""
    limits, steps = run.limits[RewardCollapse], len(run.steps)
    if shape.series.source == "metrics":
        return shape.fell
    if shape.abrupt is not None:
        return bool(run.met(RewardCollapse.half, ">", _lost(shape, shape.end)))
    size = len(run.last.steps)
    series = np.nan_to_num(run.by_step(run.column("reward")), nan=-np.inf)
    place = int(np.argmax(running_mean(series, size)))
    best, end = window(run.tables, place, place + size), window(run.tables, steps - size, steps)
    reward = run.column("reward")
    loss = run.change(reward, first=best, last=end)
    gain = run.change(reward, first=run.first, last=best).difference
    least = max(limits.half * gain, limits.spread * run.spread())
    # The best of several windows lies above the others by chance.
    luck = np.sqrt(2 * np.log(steps / size))
    clear = shape.fall_z > SOME_Z and -shape.noise.deflate(loss.z) >= loss.least + luck
    return clear and -loss.difference > least


def _prompts_explain(run: Run, shape: Shape) -> bool:
    """Say whether other prompts explain a fall: the watched reward, or that of the same prompts.

    Where no prompt returns and nothing is watched, it cannot be told.
    """
    watched = run.watched_shape
    if watched is not None and watched.rose and not watched.fell:
        return True
    if shape.series.source == "metrics" or run.first is None:
        return False
    steps, dip, size = shape.series.steps, shape.dip, shape.window
    step = run.responses["step"].to_numpy(np.int64)

    def inside(start: int, stop: int) -> NDArray[np.bool_]:
        low, high = int(steps[max(start, 0)]), int(steps[min(stop, len(steps)) - 1])
        found: NDArray[np.bool_] = (step >= low) & (step <= high)
        return found

    reward = run.column("reward")
    if dip is not None and not shape.fell:
        own, drop = own_change(run, reward, inside(dip.start, dip.stop + 1)), dip.level - dip.low
    else:
        best = inside(shape.best_place - size, shape.best_place + 2 * size)
        late = inside(len(steps) - 2 * size, len(steps))
        own, drop = own_change(run, reward, late, best & ~late), shape.best - shape.end
    return own is not None and own > -drop / 2


def _with_the_reference(run: Run, shape: Shape) -> bool:
    """Say whether the frozen reference fell as well and the gap to it did not: harder prompts."""
    if shape.series.source == "metrics" or not run.has("reward_gap"):
        return False
    best = window(run.tables, shape.best_place, shape.best_place + shape.window)
    reference, gap = (
        run.change(run.column(name), first=best) for name in ("ref_reward", "reward_gap")
    )
    lost = shape.best - shape.end
    fell_alike = reference.fell and -reference.difference > lost / 2
    return fell_alike and not (gap.fell and -gap.difference > lost / 2)


def collapse_title(facts: Facts) -> str:
    """Return from where to where the reward fell."""
    return {
        "dead": marked(
            "The reward died: it stays at {end:figure} from step {since} on, after {best:figure} "
            "at its best."
        ),
        "late": marked(
            "The reward fell to {end:figure} in the last steps, from step {since} on; its best "
            "was {best:figure}."
        ),
        "below": marked(
            "The reward fell from {best:figure} to {end:figure}, below its start at {start:figure}."
        ),
        "fell": marked(
            "The reward fell from {best:figure} to {end:figure}; it had started at {start:figure}."
        ),
        "dip": marked(
            "The reward fell from {best:figure} to {low:figure} in steps {since} to {until} and "
            "recovered."
        ),
        "prompts": marked(
            "The reward fell from {best:figure} to {end:figure}, but the prompts changed: that of "
            "the same prompts, or the watched reward, did not fall."
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
    title=collapse_title,
    clause="the reward fell from {best:figure} to {end:figure}",
    why="What the run had learned is gone; its last checkpoint is worse than an earlier one.",
    suggestion="Keep a checkpoint from before the fall. Lower the learning rate, clip harder or "
    "raise the KL coefficient, and look at KL, entropy and the critic where the fall begins.",
    explains=(
        *("length_collapse", "diversity_collapse", "entropy_collapse", "missing_eos"),
        *("kl_explosion", "reward_stalled", "persistent_losers"),
        *("watched_reward_fall", "zero_variance_groups", "group_std_fall"),
        *("unclosed_thinking", "language_drift", "template_collapse"),
    ),
    of_reward=True,
)


def judge_watched(run: Run) -> Result:
    """Judge the watched reward, or that of validation: it fell, or does not follow training."""
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
    # On a scale of 0 to 1 a fall of 0.02 is hardly seen, whatever the noise.
    least = run.limits[WatchedRewardFall].least * (1.0 if watched.best <= 1 else span)
    # Where nothing was gained, the best of many windows lies above the others by chance.
    clear = watched.fell or (watched.gained and watched.fall_z > FALL_Z)
    fell = bool(lost) and clear and loss > least
    follows = trained is None or not _does_not_follow(run, watched, trained)
    if not fell and follows:
        return None
    own = run.watched is not None and run.watched[0] is run
    below = -watched.rise_z > FALL_Z
    return WATCHED_REWARD_FALL.finding(
        run,
        "critical" if fell and below else "warning",
        lost if fell else (),
        series=run.along(watched.series) if own else None,
        onset=run.onset_of(
            watched.series, (watched.best_place, watched.best_place + watched.window)
        )
        if fell
        else None,
        dated=False,
        shown=Shown(run.column("valid_reward"), highest=False) if own else None,
        start=watched.start,
        best=watched.best,
        end=watched.end,
        kind="stays" if not fell else "below" if below else "fell",
        trained_start=trained.start if trained else np.nan,
        trained_end=trained.end if trained else np.nan,
        series_from=watched.series.source,
    )


def _does_not_follow(run: Run, watched: Shape, trained: Shape) -> bool:
    """Say whether training's reward rises and the watched one, on the same scale, does not."""
    both = [watched.series.values, trained.series.values]
    in_unit = [float(values.min()) >= 0 and float(values.max()) <= 1 for values in both]
    if in_unit[0] != in_unit[1] or not trained.rose or watched.rose:
        return False
    least = run.limits[WatchedRewardFall].follow
    return trained.rise_z > FALL_Z and watched.end < least * trained.end


def watched_title(facts: Facts) -> str:
    """Return from where to where the watched reward fell, and what the trained one did."""
    return {
        "below": marked(
            "The watched reward fell from {best:figure} to {end:figure}, below its start at "
            "{start:figure}, while the trained one went from {trained_start:figure} to "
            "{trained_end:figure}."
        ),
        "fell": marked(
            "The watched reward fell from {best:figure} to {end:figure}, after {start:figure} at "
            "first, while the trained one went from {trained_start:figure} to "
            "{trained_end:figure}."
        ),
        "stays": marked(
            "The watched reward does not follow: it went from {start:figure} to {end:figure}, "
            "while the trained one rose from {trained_start:figure} to {trained_end:figure}."
        ),
    }[str(facts["kind"])]


WATCHED_REWARD_FALL = Check(
    id="watched_reward_fall",
    name="the watched reward fell",
    rank="consequence",
    looks_for="the watched reward fell or did not follow, whatever the trained one did",
    needs_also="a second reward (valid_reward), or responses or metrics of validation",
    charts=("reward",),
    judge=judge_watched,
    limits=WatchedRewardFall,
    title=watched_title,
    clause="the watched reward went from {best:figure} to {end:figure}",
    why="What training pays for is no longer what was meant: the policy games or over-fits its "
    "reward.",
    suggestion="Keep the checkpoint of the watched reward's best steps and read what came after. "
    "Raise the KL coefficient, train for fewer steps, or mend the reward.",
)


def judge_stalled(run: Run) -> Result:
    """Look for a rise over all steps, and for more wins than losses against the reference."""
    if run.first is None and not REF_REWARD.met(run):
        return REWARD_STALLED.too_short(run)
    facts: dict[str, Fact] = {}
    shape = run.reward_shape
    if shape is not None and not run.learned and not run.solved:
        facts |= {"start": shape.start, "end": shape.end, "series_from": shape.series.source}
    gap = run.column("reward_gap")
    end = gap[run.last.rows]
    end = end[np.isfinite(end)]
    if len(end) and np.mean(end > 0) <= np.mean(end < 0):
        facts |= {"wins": float(np.mean(end > 0)), "losses": float(np.mean(end < 0))}
    if not facts:
        return None
    by = gap if np.isfinite(gap).any() else run.column("reward")
    return REWARD_STALLED.finding(run, "info", shown=Shown(by, highest=False), more=facts)


def stalled_title(facts: Facts) -> str:
    """Return what was not gained."""
    if "wins" not in facts:
        return marked("The reward did not rise: {start:figure} at first, {end:figure} at the end.")
    if "start" not in facts:
        return marked(
            "The policy beats the reference in {wins:percent} of responses and loses in "
            "{losses:percent}."
        )
    return marked(
        "The reward did not rise: {start:figure} at first, {end:figure} at the end, where the "
        "policy beats the reference in {wins:percent} of responses and loses in "
        "{losses:percent}."
    )


REWARD_STALLED = Check(
    id="reward_stalled",
    name="no gain in reward",
    rank="note",
    looks_for="no gain over all steps, or none over the reference",
    needs=(REWARD,),
    charts=("reward", "win_rate"),
    judge=judge_stalled,
    limits=RewardStalled,
    title=stalled_title,
    why="The run cost its compute and the policy is no better by its own reward.",
    suggestion="Look at the spread of the reward inside a step and inside groups: without "
    "differences there is nothing to learn. Then try a higher learning rate, a lower KL "
    "coefficient or easier prompts.",
    source=RL_BOARD,
    trend=False,
    of_reward=True,
)
