"""Checks of labels: relations between a response's reward and whether its answer is its label.

The best reward is earned by right answers, and right answers earn it. Responses are *best* with the
run's highest reward, *low* with its lowest; a run with one value of the reward has neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rlreport.check.check import REWARD, Check, Need
from rlreport.check.evidence import Ranking, where_known
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.laws import (
    NOT_OBSERVED,
    BlockFigures,
    Bools,
    Figure,
    blocks,
    figures_by_block,
    found_in_blocks,
    with_start,
)
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.progress import SAME_REWARD
from rlreport.check.run import Run, once_per_run
from rlreport.check.settings import SettingKind, see
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats
from rlreport.figures.significance import holm, share_difference_z
from rlreport.text.messages import translatable

LABEL = Need("ground_truth and response", ("label_hit",))
# Shares of responses with a certain reward need more responses than other figures.
LEAST_ROWS = 64
MOST_BLOCKS = 5
# Rewards may belong to a row up to so many rows away
MOST_ROWS_AWAY = 8
# A block of steps with fewer responses of a reward does not tell how many hit their labels
LEAST_OF_REWARD = 30
# Share of the best responses that hit by a correct grader, for the error of a share near 1
CORRECT = 0.95
# Steps of which the first and the last rows have no row so far away show little.
LEAST_IN_STEP = 12


class Labelled(NamedTuple):
    """Rewards and labels of a run's responses; arrays are (rows,).

    Attributes:
        hit: 1 if the answer is the label, 0 if not, NaN if unknown or without a reward.
        is_best: which responses with a known ``hit`` have the run's highest reward.
        is_low: which of them have its lowest.
    """

    hit: Floats
    is_best: Bools
    is_low: Bools

    @property
    def is_known(self) -> Bools:
        return np.isfinite(self.hit)

    def share(self, among: Bools, window: Window) -> tuple[float, int]:
        """Return which share of some responses of a window hits, NaN for none, and their count."""
        hits = self.hit[window.rows][among[window.rows]]
        return mean(hits), len(hits)


@once_per_run
def labelled(run: Run) -> Labelled:
    """Return which responses hit their label, and which have the best and the lowest reward."""
    reward = run.column("reward")
    hit = np.where(np.isfinite(reward), run.column("label_hit"), np.nan)
    is_known = np.isfinite(hit)
    highest = np.nanmax(reward, initial=-np.inf)
    lowest = np.nanmin(reward, initial=np.inf)
    if highest - lowest <= SAME_REWARD:
        neither = np.zeros(len(reward), bool)
        return Labelled(hit, neither, neither)
    is_best = is_known & (reward >= highest - SAME_REWARD)
    is_low = is_known & (reward <= lowest + SAME_REWARD)
    return Labelled(hit, is_best, is_low)


def _by_block(run: Run, figure: Callable[[Window], Figure]) -> BlockFigures:
    """Return a figure by block; of the whole run, if no block has enough responses for it."""
    is_known = labelled(run).is_known
    by_block = figures_by_block(
        run, figure, among=is_known, least_rows=LEAST_ROWS, most=MOST_BLOCKS
    )
    whole = run.window(0, len(run.steps))
    if by_block.is_observed or is_known.sum() < LEAST_ROWS:
        return by_block
    figures = (figure(whole),)
    return with_start(
        run, (whole,), figures, figure, among=is_known, least_rows=LEAST_ROWS
    )


class _LabelLost(Limits):
    first = Limit(
        0.9,
        LimitKind.SHARE,
        "of the best responses",
        "share that hits its label at first, else not judged",
    )
    loss = Limit(
        0.1,
        LimitKind.SHARE,
        "of the best responses",
        "loss of that share in a later fifth of the run",
        translatable("Visual-RFT#176: empty answers earned 1"),
    )
    z = Limit(
        4.0,
        LimitKind.ERRORS,
        "std errors",
        "least significance of that loss",
    )
    best = Limit(10, LimitKind.COUNT, "responses", "least number of best responses")
    misses = Limit(
        4, LimitKind.COUNT, "responses", "least number of them that miss their label"
    )


@Check(
    name="best reward without the right answer",
    rank=Rank.CAUSE,
    needs=(REWARD, LABEL),
    charts=("reward",),
    limits=_LabelLost,
    title="Only {share:percent} of the responses with the best reward give the label as their "
    "answer ({before:percent} at the start).",
    statement="answers other than the label earn the best reward",
    why="The policy found wrong answers that the grader accepts, or the labels are those of other "
    "prompts.",
    suggestion="Read the best-rewarded responses: make the grader reject answers other than the "
    "label, or correct the labels.",
    advice=see(SettingKind.GRADER),
    source=translatable("Visual-RFT#176: empty answers earned 1"),
    explains=(
        "label_reward_mismatch",
        "watched_reward_fall",
        "length_collapse",
        "diversity_collapse",
        "template_collapse",
        "entropy_collapse",
        "zero_variance_groups",
        "group_std_fall",
    ),
)
def label_lost(check: Check, run: Run) -> Result:
    """Find that responses with the best reward hit their labels at first, and later do not."""
    limits = run.limits[_LabelLost]
    of = labelled(run)
    windows = blocks(run, among=of.is_known, least_rows=LEAST_ROWS, most=MOST_BLOCKS)
    shares = [of.share(of.is_best, window) for window in windows]
    enough = [i for i, (_, count) in enumerate(shares) if count >= limits.best]
    if not enough:
        return Result()
    first = enough[0]
    before = shares[first][0]
    if before < limits.first:
        return Result()
    losses = np.full(len(windows), np.nan)
    p_values: dict[int, float] = {}
    normal = NormalDist()
    for i in enough[1:]:
        share, count = shares[i]
        losses[i] = before - share
        z = share_difference_z(*shares[first], share, count)
        if round(count * (1 - share)) >= limits.misses:
            p_values[i] = normal.cdf(z)
    is_significant = np.zeros(len(windows), bool)
    corrected = np.array(holm([*p_values.values()]))
    is_significant[[*p_values]] = corrected <= normal.cdf(-limits.z)
    figures = [
        Figure(loss, bool(significant and loss > limits.loss))
        for loss, significant in zip(losses, is_significant, strict=True)
    ]
    by_block = BlockFigures(run, windows, tuple(figures), since_first=False)
    if not by_block.is_observed:
        return Result()
    tested = run.limits.test(_LabelLost.loss, ">", float(np.nanmax(losses)))
    if not by_block.is_violated:
        return Result(tested=(tested,))
    return found_in_blocks(
        check,
        by_block,
        (tested,),
        {"share": mean(of.hit[by_block.rows & of.is_best]), "before": before},
        Ranking(
            run.column("reward"),
            np.where(of.is_best, of.hit == 0, np.nan),
            unit="reward",
            at_end=True,
        ),
        severity=Severity.CRITICAL,
    )


class _LabelRewardMismatch(Limits):
    best = Limit(
        0.93,
        LimitKind.SHARE,
        "of the best responses",
        "upper bound (3 std errors) of the share that hits its label",
    )
    low = Limit(
        0.1,
        LimitKind.SHARE,
        "of the lowest responses",
        "share that hits its label, in the same steps",
    )


@Check(
    name="rewards do not follow the labels",
    rank=Rank.CAUSE,
    needs=(REWARD, LABEL),
    charts=("reward",),
    limits=_LabelRewardMismatch,
    title="{share:percent} of the responses with the best reward give the answer of their label, "
    "but so do {low:percent} of those with the lowest reward.",
    statement="rewards do not follow the labels",
    why="The policy is trained on rewards that are often not those of its answers.",
    suggestion="Grade some responses by hand; compare how rewards and labels are joined to rows.",
    advice=see(SettingKind.GRADER),
    explains=("format_rewarded", "reward_stalled"),
)
def label_reward_mismatch(check: Check, run: Run) -> Result:
    """Find that best responses miss their labels while some of the lowest hit theirs."""
    limits = run.limits[_LabelRewardMismatch]
    of = labelled(run)

    def upper_bound(window: Window) -> Figure:
        best, of_best = of.share(of.is_best, window)
        low, of_low = of.share(of.is_low, window)
        if min(of_best, of_low) < LEAST_OF_REWARD:
            return NOT_OBSERVED
        bound = best + 3 * math.sqrt(CORRECT * (1 - CORRECT) / of_best)
        return Figure(bound, bound < limits.best and low > limits.low)

    by_block = _by_block(run, upper_bound)
    if not by_block.is_violated:
        return Result()
    bounds = by_block.values[by_block.violated]
    tested = run.limits.test(_LabelRewardMismatch.best, "<", float(bounds.min()))
    rows = by_block.rows
    overpaid = of.is_best & (of.hit == 0)
    unpaid = of.is_low & (of.hit == 1)
    return found_in_blocks(
        check,
        by_block,
        (tested,),
        {
            "share": mean(of.hit[rows & of.is_best]),
            "low": mean(of.hit[rows & of.is_low]),
        },
        Ranking(
            run.column("reward"),
            np.where(of.is_best | of.is_low, overpaid | unpaid, np.nan),
            unit="reward",
            at_end=True,
        ),
    )


class _RewardsShifted(Limits):
    gain = Limit(
        0.02,
        LimitKind.SHARE,
        "of the best responses",
        "how much oftener a row at a fixed distance hits its label than the best row itself",
        translatable("NeMo-RL#3635: one score too many shifts all later ones"),
    )
    z = Limit(4.0, LimitKind.ERRORS, "std errors", "least significance of that")


@Check(
    name="rewards of other rows",
    rank=Rank.CAUSE,
    needs=(REWARD, LABEL),
    charts=("reward",),
    limits=_RewardsShifted,
    title={
        "before": "Rewards belong to other rows: where a response has the best reward, the one "
        "{away:count} before it hits its label in {share:percent}, itself in {here:percent}.",
        "after": "Rewards belong to other rows: where a response has the best reward, the one "
        "{away:count} after it hits its label in {share:percent}, itself in {here:percent}.",
    },
    statement="rewards belong to other rows: neighbours hit their labels instead",
    why="Each response is trained on the reward of another one.",
    suggestion="Look where scores and responses are joined: filters, failed answers, reordering.",
    explains=(
        "label_lost",
        "label_reward_mismatch",
        "right_answers_unpaid",
        "format_rewarded",
        "reward_stalled",
        "advantage_mismatch",
    ),
)
def rewards_shifted(check: Check, run: Run) -> Result:
    """Find that the row at a fixed distance from a best one hits its label oftener than it does."""
    by_distance = _gains_by_distance(run)

    def gain(window: Window) -> Figure:
        return _largest_gain(run, by_distance, window)[0]

    whole = run.window(0, len(run.steps))
    of_run, away = _largest_gain(run, by_distance, whole)
    by_block = _by_block(run, gain)
    if not by_block.is_violated and of_run.is_violated:
        by_block = BlockFigures(run, (whole,), (of_run,), since_first=False)
    if not by_block.is_violated:
        return Result()
    if not of_run.is_violated:
        # The distance of the first block, if others hide it in the whole run
        window = by_block.windows[by_block.first_violated]
        away = _largest_gain(run, by_distance, window)[1]
    of = labelled(run)
    gains = by_distance[away]
    is_judged = by_block.rows & np.isfinite(gains)
    here = mean(of.hit[is_judged])
    largest = float(by_block.values[by_block.violated].max())
    return found_in_blocks(
        check,
        by_block,
        (run.limits.test(_RewardsShifted.gain, ">", largest),),
        {
            "kind": "before" if away > 0 else "after",
            "away": abs(away),
            "share": here + mean(gains[is_judged]),
            "here": here,
        },
        Ranking(
            run.column("reward"),
            where_known(gains, gains == 1),
            unit="reward",
            at_end=True,
        ),
        severity=Severity.CRITICAL,
    )


@once_per_run
def _gains_by_distance(run: Run) -> dict[int, Floats]:
    """Return distance k -> hit of row i − k minus that of row i, for best rows i; NaN elsewhere.

    Both rows are of one step with at least LEAST_IN_STEP rows, in the order of the log. Each array
    is (rows,).
    """
    of = labelled(run)
    sizes = np.bincount(run.step_index, minlength=len(run.steps))
    is_judged = of.is_best & (sizes[run.step_index] >= LEAST_IN_STEP)
    rows = np.arange(len(of.hit))
    gains = {}
    for away in range(-MOST_ROWS_AWAY, MOST_ROWS_AWAY + 1):
        # Beyond the ends of the log, the nearest row; it is of no use for pairs of one step ...
        other = np.clip(rows - away, 0, len(rows) - 1)
        is_inside = other == rows - away
        # ... as are rows of other steps.
        is_one_step = run.step_index[other] == run.step_index
        is_pair = is_judged & is_inside & is_one_step
        gain = of.hit[other] - of.hit
        if away:
            gains[away] = np.where(is_pair, gain, np.nan)
    return gains


def _largest_gain(
    run: Run, by_distance: dict[int, Floats], window: Window
) -> tuple[Figure, int]:
    """Return the largest gain of any distance in a window, and that distance.

    A significant gain comes before all that are not.
    """
    limits = run.limits[_RewardsShifted]
    found: list[tuple[bool, float, int]] = []
    for away, gains in by_distance.items():
        values = gains[window.rows]
        values = values[np.isfinite(values)]
        if len(values) < LEAST_OF_REWARD:
            continue
        gain = float(values.mean())
        error = float(values.std()) / math.sqrt(len(values))
        is_violated = gain > limits.gain and gain > limits.z * error
        found.append((is_violated, gain, away))
    if not found:
        return NOT_OBSERVED, 0
    is_violated, gain, away = max(found)
    return Figure(gain, is_violated), away


class _RightAnswersUnpaid(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "share that hits its label where all earn the lowest reward",
        translatable("miles#330: reward 0 without </think>"),
    )


@Check(
    name="right answers earn nothing",
    rank=Rank.CAUSE,
    needs=(REWARD, LABEL),
    charts=("reward",),
    limits=_RightAnswersUnpaid,
    title="In steps {low} to {high}, all responses earn the lowest reward, but {share:percent} of "
    "them give the answer of their label.",
    statement="{share:percent} of answers are correct, but earn nothing",
    why="Where right answers earn no more than wrong ones, nothing can be learned.",
    suggestion="Look at the grader, not at the tasks: which format or tag it wants, and how it "
    "finds the answer.",
    advice=see(SettingKind.GRADER),
    explains=(
        "zero_variance_groups",
        "reward_stalled",
        "format_rewarded",
        "group_std_fall",
    ),
)
def right_answers_unpaid(check: Check, run: Run) -> Result:
    """Find steps in which all responses earn the lowest reward, although answers are right."""
    limits = run.limits[_RightAnswersUnpaid]
    of = labelled(run)
    reward = run.column("reward")
    lowest = np.nanmin(reward, initial=np.inf)
    has_higher = np.nanmax(reward, initial=-np.inf) - lowest > SAME_REWARD
    # Without a higher one, 0 and less are the lowest rewards of usual graders.
    if not (has_higher or lowest <= 0):
        return Result()

    def share_of_hits(window: Window) -> Figure:
        earned = reward[window.rows]
        share = mean(of.hit[window.rows])
        if np.nanmax(earned, initial=-np.inf) - lowest > SAME_REWARD:
            return Figure(0.0)  # some response earns more
        return Figure(share, share > limits.share)

    by_block = _by_block(run, share_of_hits)
    if not by_block.is_observed:
        return Result()
    tested = run.limits.test(
        _RightAnswersUnpaid.share, ">", float(np.nanmax(by_block.values))
    )
    if not by_block.is_violated:
        return Result(tested=(tested,))
    is_unpaid = (of.hit == 1) & (reward <= lowest + SAME_REWARD)
    return found_in_blocks(
        check,
        by_block,
        (tested,),
        {
            "share": mean(of.hit[by_block.rows]),
            "low": by_block.steps[0],
            "high": by_block.steps[-1],
        },
        Ranking(of.hit, where_known(of.hit, is_unpaid), at_end=True),
    )


class _FormatRewarded(Limits):
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of the lowest responses",
        "share that hits its label",
    )


@Check(
    name="the answer's format is rewarded",
    rank=Rank.NOTE,
    needs=(REWARD, LABEL),
    charts=("reward",),
    limits=_FormatRewarded,
    title="{share:percent} of the responses with the lowest reward give the answer of their label: "
    "probably the format of the answer decides.",
    why="A part of the reward's rise may be the format, not better answers.",
    suggestion="Compare the share of right answers with the reward to see what was learned.",
)
def format_rewarded(check: Check, run: Run) -> Result:
    """Note that many responses with the lowest reward are right, unless a fault explains it."""
    limits = run.limits[_FormatRewarded]
    of = labelled(run)
    for fault in (rewards_shifted, label_reward_mismatch, right_answers_unpaid):
        if fault.run(run).finding is not None:
            return Result()

    def share_of_hits(window: Window) -> Figure:
        share, count = of.share(of.is_low, window)
        if count < LEAST_OF_REWARD:
            return NOT_OBSERVED
        return Figure(share, share > limits.share)

    by_block = _by_block(run, share_of_hits)
    if not by_block.is_observed:
        return Result()
    tested = run.limits.test(
        _FormatRewarded.share, ">", float(np.nanmax(by_block.values))
    )
    if not by_block.is_violated:
        return Result(tested=(tested,))
    return found_in_blocks(
        check,
        by_block,
        (tested,),
        {"share": mean(of.hit[by_block.rows & of.is_low])},
        Ranking(
            run.column("reward"),
            np.where(of.is_low, of.hit == 1, np.nan),
            highest=False,
            unit="reward",
            at_end=True,
        ),
        severity=Severity.INFO,
    )
