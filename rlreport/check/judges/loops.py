"""The check of responses that repeat a few words in a loop."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from rlreport.check import means, progress, quantities
from rlreport.check.check import FALLS, Check, Need
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, LogText, Onset, Rank, Result, Severity
from rlreport.check.judges.length import correlation_with_reward
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.run import Run, event_onset, onset_of
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import SettingKind, higher, lower
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change
from rlreport.figures.tokens import find_loops
from rlreport.tables import TextSample

MAX_LOOPS = 400  # Of so many late responses in a loop, the usual loop is found
MAX_SHOWN = 6  # Maximum number of words of a loop that a title quotes


class _Loops(Limits):
    rise = Limit(
        0.08,
        LimitKind.SHARE,
        "of responses",
        "rise of the share that repeat themselves",
    )
    z = Limit(4.0, LimitKind.ERRORS, "std errors", "significance of that rise")
    lost = Limit(
        0.25,
        LimitKind.VALUE,
        "std of reward",
        "reward of these responses below that of others (warning)",
    )


class _LoopRise(NamedTuple):
    """The rise of the share of responses in a loop, and how long it lasted."""

    before: float  # the share before the rise
    level: float  # the share after it
    z: float
    onset: Onset | None
    until: int | None  # None if it lasts until the end


class _LoopRewards(NamedTuple):
    """Mean rewards of responses in a loop and of others, in the late window."""

    earned: float
    others: float
    lost: Tested
    do_harm: bool  # whether loops surely earn less, or the reward fell


@Check(
    name="responses repeat themselves",
    rank=Rank.CONSEQUENCE,
    needs=(Need("response", ("response_chars",), ("loops",)),),
    charts=("loops", "reward"),
    sampled=("share",),
    limits=_Loops,
    title={
        "paid": "{share:percent} of responses repeat a few words in a loop, such as {text:quoted} "
        "({share_start:percent} at the start); these earn {earned:figure}, others {others:figure}.",
        "peak": "Up to {share:percent} of responses repeat a few words in a loop, such as "
        "{text:quoted} ({share_start:percent} at the start, {share_end:percent} at the end).",
        "metric": "The trainer counts {share:percent} of responses as repetitive "
        "({share_start:percent} at the start).",
    },
    statement={
        "paid": "{share:percent} of responses repeat themselves ({text:quoted})",
        "peak": "up to {share:percent} of responses repeat themselves ({text:quoted})",
        "metric": "{share:percent} of responses repeat themselves",
    },
    why="A response in a loop does not finish its answer, and its tokens teach the policy to loop.",
    suggestion="Lower the learning rate or raise the KL coefficient; penalise cut-off responses.",
    advice=lower(SettingKind.STEP_SIZE) + higher(SettingKind.KL),
    rules_out=higher(SettingKind.LENGTH_LIMIT),
    otherwise="Penalise cut-off responses.",
    explains=(
        *FALLS,
        "missing_eos",
        "diversity_collapse",
        "length_collapse",
        "reward_stalled",
    ),
    trend=True,
)
def loops(check: Check, run: Run) -> Result:
    """Find that more responses repeat a few words to their end, or did for some steps."""
    words = run.tables.words
    if words is None:
        return _judge_loop_metric(check, run)
    share = run.column("loop_share")  # of a response's words, 0 without a loop
    in_loop = np.sign(share)
    series = means.series(run, in_loop)
    rise = _loop_rise(series)
    if rise is None:
        return Result()
    tested = _test_rise(run, rise)
    if not all(one.met for one in tested):
        return Result(tested=tested)
    late = _rows_of_rise(run, rise)
    rewards = _rewards_of_loops(run, in_loop, late)
    text, has_loop = _usual_loop(run, share, words, late)
    # "paid" compares rewards in its title: both kinds of responses need some.
    is_paid = rise.until is None and np.isfinite(rewards.earned - rewards.others)
    assert series.curve is not None
    facts: Facts = {
        "share": rise.level,
        "share_start": rise.before,
        "share_end": series.curve.last.value,
        "text": text,
        "earned": rewards.earned,
        "others": rewards.others,
        "kind": "paid" if is_paid else "peak",
    }
    ranking = Ranking(share, has_loop, unit="of its words", look_for=text, at_end=True)
    is_serious = rewards.do_harm and rise.until is None
    return check.found(
        run,
        Severity.WARNING if is_serious else Severity.INFO,
        [*tested, rewards.lost],
        facts,
        ranking,
        onset=rise.onset,
        until=rise.until,
        texts=(text,),
    )


def _loop_rise(series: Series) -> _LoopRise | None:
    """Return the rise of the share to the end or, without one, for some steps; None without.

    An event has levels of its own beside the rise; without one, the first and last level count.
    """
    curve = series.curve
    if curve is None:
        return None
    event = curve.climb or curve.hump
    if event is not None:
        return _LoopRise(
            before=event.before,
            level=event.level,
            z=event.z or 0.0,
            onset=event_onset(event),
            until=None if curve.climb else event.until,
        )
    if not curve.rose:
        return None
    return _LoopRise(
        before=curve.first.value,
        level=curve.last.value,
        z=curve.changed or 0.0,
        onset=onset_of(curve),
        until=None,
    )


def _test_rise(run: Run, rise: _LoopRise) -> tuple[Tested, Tested]:
    """Compare the size of the rise, and its z, with their limits."""
    size = change(rise.before, rise.level)
    return (
        run.limits.test(_Loops.rise, ">=", size),
        run.limits.test(_Loops.z, ">=", rise.z),
    )


def _rows_of_rise(run: Run, rise: _LoopRise) -> slice:
    """Return the rows of the steps in which loops are common, from the onset on.

    Without an onset, they begin with the last window.
    """
    first = rise.onset.step if rise.onset else run.last.steps[0]
    last = int(run.steps[-1]) if rise.until is None else rise.until
    return run.window_of((first, last)).rows


def _rewards_of_loops(run: Run, in_loop: Floats, late: slice) -> _LoopRewards:
    """Return what responses in a loop earn, and whether loops do harm.

    Args:
        run: the run.
        in_loop: 1 for responses in a loop, 0 for others, NaN if unknown, float64 (rows,).
        late: the rows of the steps in which loops are common.
    """
    reward = run.column("reward")[late]
    earned = mean(reward[in_loop[late] == 1])
    others = mean(reward[in_loop[late] == 0])
    spread = means.spread(run)
    lost = run.limits.test(_Loops.lost, ">=", others - earned, of=spread)
    # Positive if responses without a loop earn more
    _, z = correlation_with_reward(run, -in_loop)
    course = quantities.reward_course(run)
    reward_fell = course is not None and course.lost
    least = run.limits[Trend].z
    # A fall of the reward is not due to loops that surely earn more.
    do_harm = (lost.met and z >= least) or (reward_fell and not z <= -least)
    return _LoopRewards(earned, others, lost, do_harm)


class _Loop(NamedTuple):
    """What a response repeats."""

    row: int
    text: LogText  # some words of it, as they are written
    words: tuple[str, ...]  # the same for all responses that repeat these words


def _usual_loop(
    run: Run, share: Floats, words: TextSample, late: slice
) -> tuple[LogText, Floats]:
    """Return what most late responses in a loop repeat, and which responses have this loop.

    The responses, float64 (rows,), are 1 if they have this loop, 0 if they have none, and NaN if
    they have another one, or are not read. Of loops that are equally frequent, the one that takes
    up most of its response comes first.
    """
    in_loop = np.flatnonzero(np.nan_to_num(share[late]) > 0) + late.start
    # Those that readers can see come first, of these the longest loops.
    has_no_text = run.responses["has_texts"].to_numpy()[in_loop] != 1
    order = np.lexsort((-share[in_loop], has_no_text))
    loops_found = [_loop_of(words, row) for row in in_loop[order][:MAX_LOOPS].tolist()]
    counts = Counter(one.words for one in loops_found)
    usual = max(loops_found, key=lambda one: counts[one.words])
    has_loop = np.where(share == 0, 0.0, np.nan)
    has_loop[[one.row for one in loops_found if one.words == usual.words]] = 1.0
    return usual.text, has_loop


def _judge_loop_metric(check: Check, run: Run) -> Result:
    """Judge the trainer's share of repetitive responses, for a log without texts."""
    metric = quantities.series_of(run, "loops", MIN_STEPS)
    if metric is None:
        return check.not_run("response")
    rise = _loop_rise(metric)
    if rise is None:
        return Result()
    tested = _test_rise(run, rise)
    if not all(one.met for one in tested):
        return Result(tested=tested)
    return check.found(
        run,
        Severity.INFO if progress.learned(run) else Severity.WARNING,
        tested,
        {"kind": "metric", "share": rise.level, "share_start": rise.before},
        series=metric,
        onset=rise.onset,
        until=rise.until,
    )


def _loop_of(words: TextSample, row: int) -> _Loop:
    """Return what the sampled response of a row repeats.

    Its text has two repetitions if that is one word, and at most MAX_SHOWN words.
    """
    index = int(np.searchsorted(words.rows, row))
    units = words.units[words.offsets[index] : words.offsets[index + 1]]
    loops_of_texts = find_loops(units, offsets=np.array([0, len(units)]))  # of one text
    start, period, _ = loops_of_texts[0].tolist()
    length = min(max(period, 2), MAX_SHOWN)
    # Where it comes the second time
    shown = units[start + period :][:length]
    text = "".join(words.vocabulary[unit] for unit in shown)
    repeated = [words.vocabulary[unit] for unit in units[start : start + period]]
    return _Loop(row, LogText(" ".join(text.split())), _in_one_order(repeated))


def _in_one_order(repeated: list[str]) -> tuple[str, ...]:
    """Return the words of a loop, which may begin at any of them, from the same one on."""
    stripped = [word.strip().lower() for word in repeated]
    # Without signs and blanks, unless there is nothing else
    plain = [word for word in stripped if word.isalnum()] or stripped
    twice = tuple(plain) * 2
    starts = range(len(plain))
    return min(twice[start : start + len(plain)] for start in starts)
