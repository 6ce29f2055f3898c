"""Checks of the parts of the reward: a gain without right answers, a part that falls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlreport.check import means, parts, quantities
from rlreport.check.check import ANY_REWARD, Check
from rlreport.check.events import Event
from rlreport.check.evidence import Ranking, nearer
from rlreport.check.finding import Fact, Facts, LogText, Onset, Rank, Result, Severity
from rlreport.check.gain import VALIDATION, Gain, GainPart, UnearnedGain, gain_by_parts
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run, event_onset, onset_of
from rlreport.check.series import Series
from rlreport.check.settings import SettingKind, also, enabled, see
from rlreport.figures.ragged import Floats
from rlreport.text.messages import format_message, message, translatable

# What did not rise with the reward: (whether it is a part, its direction) -> clause
_STILL = {
    (True, 0): translatable(
        "{right:quoted} did not clearly rise ({right_start:figure} to {right_end:figure})"
    ),
    (True, 1): translatable(
        "{right:quoted} rose only from {right_start:figure} to {right_end:figure}"
    ),
    (True, -1): translatable(
        "{right:quoted} fell from {right_start:figure} to {right_end:figure}"
    ),
    (False, 0): translatable(
        "validation did not clearly rise ({right_start:figure} to {right_end:figure})"
    ),
    (False, 1): translatable(
        "validation rose only from {right_start:figure} to {right_end:figure}"
    ),
    (False, -1): translatable(
        "validation fell from {right_start:figure} to {right_end:figure}"
    ),
}

_OPEN = {
    True: translatable(
        "whether {right:quoted} rose is open ({right_start:figure} to {right_end:figure})"
    ),
    False: translatable(
        "whether validation rose is open ({right_start:figure} to {right_end:figure})"
    ),
}


def _unearned_title(facts: Facts) -> str:
    """Return the title: which parts the gain is, and which score did not rise with it."""
    gain = translatable(
        "The reward rose from {start:figure} to {end:figure}, {share:percent} of it "
        "{parts:quoted}"
    )
    direction = -1 if facts["right_fell"] else int(bool(facts.get("right_rose")))
    is_part = facts["right"] is not None
    still = _OPEN[is_part] if facts.get("is_open") else _STILL[is_part, direction]
    return message(
        "{gain}; {still}.",
        gain=format_message(gain, facts),
        still=format_message(still, facts),
    )


def _unearned_statement(facts: Facts) -> str:
    """Return the clause of the verdict."""
    if facts["right"] is None:
        return translatable(
            "{share:percent} of the gain is {parts:quoted}, while validation hardly rises"
        )
    if facts["right_fell"]:
        return translatable(
            "{share:percent} of the gain is {parts:quoted}, while {right:quoted} falls to "
            "{right_end:short}"
        )
    return translatable(
        "{share:percent} of the gain is {parts:quoted}, while {right:quoted} hardly rises"
    )


@Check(
    name="a gain without right answers",
    rank=Rank.CAUSE,
    needs=(ANY_REWARD,),
    charts=("reward_parts", "reward"),
    limits=UnearnedGain,
    title=_unearned_title,
    statement=_unearned_statement,
    why="The policy learns what these parts pay for, whether its answers are right or not.",
    suggestion="Pay these parts only where the answer is right, or lower their weight.",
    advice=see(SettingKind.REWARD_PARTS),
    explains=(
        "kl_explosion",
        "diversity_collapse",
        "entropy_collapse",
        "missing_eos",
        "language_drift",
        "length_collapse",
        "group_std_fall",
        "reward_part_dominance",
        "part_falls",
        "watched_reward_fall",
    ),
    needs_also="two parts of the reward or more, as reward_parts or metrics",
    of_reward=True,
    trend=True,
)
def unearned_gain(check: Check, run: Run) -> Result:
    """Find that the reward rose by other parts alone, while what tells right answers did not.

    Learning the answer format first is usual: it is a note. So is a gain of other parts while
    right answers may have risen by a little, which nothing shows.
    """
    if len(quantities.reward_parts(run)) < 2:
        return check.not_run(check.needs_also)
    gain = gain_by_parts(run)
    if gain is None or not (gain.is_unearned or gain.is_open):
        return Result()
    leading = gain.rose[0].name
    tested = run.limits.test(UnearnedGain.others, ">=", gain.of_others)
    logged = parts.of_rollouts(run).get(leading)
    series = quantities.reward_parts(run)[leading]
    is_note = gain.is_format or not gain.is_unearned
    return check.found(
        run,
        Severity.INFO if is_note else Severity.WARNING,
        [tested],
        _facts_of_gain(gain),
        None if logged is None else _risen(logged, series),
        series=series,
        onset=_climb_onset(series),
    )


def _risen(part: Floats, series: Series) -> Ranking | None:
    """Return how to choose responses with a part nearer to its last than to its first level."""
    curve = series.curve
    if curve is None:
        return None
    return Ranking(part, nearer(part, curve.last.value, curve.first.value))


def _facts_of_gain(gain: Gain) -> Facts:
    still = _told_still(gain)
    return {
        "parts": tuple(LogText(part.name) for part in gain.rose),
        "share": min(sum(part.share for part in gain.rose), 1.0),
        "start": gain.first,
        "end": gain.last,
        "right": LogText(still.name) if still.name != VALIDATION else None,
        "right_start": still.first,
        "right_end": still.last,
        "right_fell": still.fell,
        "right_rose": still.rose,
        "is_open": not gain.is_unearned,
    }


def _told_still(gain: Gain) -> GainPart:
    """Return the score to tell: validation if it is logged, else the first part."""
    validation = [one for one in gain.still if one.name == VALIDATION]
    return (validation or list(gain.still))[0]


def _climb_onset(series: Series) -> Onset | None:
    curve = series.curve
    if curve is None:
        return None
    return event_onset(curve.climb) or onset_of(curve)


class _PartFalls(Limits):
    lost = Limit(
        0.5,
        LimitKind.SHARE,
        "of its level",
        "level that a part of the reward lost, above its lowest possible or logged value",
        translatable("open-r1#255: format is learned, accuracy falls to 0"),
    )


class _PartFall(NamedTuple):
    """The fall of a part of the reward."""

    part: str
    series: Series
    event: Event
    start: float  # the level before
    end: float  # the last level
    lost: float  # what it lost, as a part of its level above the lowest possible one


@Check(
    name="a part of the reward falls",
    rank=Rank.CONSEQUENCE,
    needs=(ANY_REWARD,),
    charts=("reward_parts", "reward"),
    limits=_PartFalls,
    title="{part:quoted}, a part of the reward, fell from {start:figure} to {end:figure}, while "
    "the whole reward did not fall.",
    statement="{part:quoted} falls to {end:short} while the whole reward does not",
    why="The policy gives up this part for others that pay more or are easier.",
    suggestion="Raise the weight of this part, or pay the others only where it is earned, too.",
    advice=also(*enabled(SettingKind.REWARD_PARTS)) + see(SettingKind.REWARD_PARTS),
    # What the policy learns instead takes it away from the reference.
    explains=("kl_explosion",),
    needs_also="parts of the reward, as reward_parts or metrics",
    of_reward=True,
    trend=True,
)
def part_falls(check: Check, run: Run) -> Result:
    """Find that a part of the reward lost most of its level, while the whole reward did not."""
    components = quantities.components(run)
    if not components:
        return check.not_run(check.needs_also)
    total = quantities.reward_course(run)
    if total is None or total.lost:
        return Result()  # the whole reward is judged instead
    paid = parts.paid_parts(quantities.reward_parts(run), quantities.reward(run))
    each = [
        _fall_of(run, name, series)
        for name, series in components.items()
        if name in paid
    ]
    falls = [fall for fall in each if fall is not None]
    if not falls:
        return Result()
    worst = max(falls, key=lambda fall: fall.lost)
    tested = run.limits.test(_PartFalls.lost, ">", worst.lost)
    if not tested.met:
        return Result(tested=(tested,))
    ranking = None
    logged = parts.of_rollouts(run).get(worst.part)
    if logged is not None:
        is_low = nearer(logged, worst.end, worst.start)
        ranking = Ranking(logged, is_low, highest=False)
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {
            "part": worst.part,
            "start": worst.start,
            "end": worst.end,
        },
        ranking,
        series=worst.series,
        onset=event_onset(worst.event),
    )


def _fall_of(run: Run, name: str, series: Series) -> _PartFall | None:
    """Return the fall of a part, None without one or if the mix of environments explains it."""
    curve = series.curve
    if curve is None or curve.fall is None:
        return None
    fall = curve.fall
    best = curve.highest.value
    # A part that is never positive is a penalty under another name.
    if not best > 0:
        return None
    if _is_by_mix(run, name, fall):
        return None
    # Fitted lines may begin above all logged values.
    start = min(fall.before, best)
    end = curve.last.value
    # What a part can lose: all that it ever earned, and the largest penalty that it has
    lowest = min(0.0, float(curve.values.min()))
    lost = (start - end) / (best - lowest)
    return _PartFall(name, series, fall, start, end, lost)


def _is_by_mix(run: Run, name: str, fall: Event) -> bool:
    """Return whether a part fell as tasks that pay it became rare."""
    logged = parts.of_rollouts(run).get(name)
    if run.environments is None or logged is None:
        return False
    count = len(run.steps)
    places = np.searchsorted(run.steps, (fall.low, fall.onset))
    end, start = places.tolist()
    before = run.window(0, max(end, 1))
    after = run.window(min(start, count - 1), count)
    mix = means.mix(run, before, after, logged)
    return mix is not None and mix.explains_fall


class _PartStaysZero(Limits):
    steps = Limit(
        10, LimitKind.COUNT, "steps", "all steps, of which none has this part"
    )


@Check(
    name="a part of the reward is never earned",
    rank=Rank.NOTE,
    needs=(ANY_REWARD,),
    charts=("reward_parts", "reward"),
    limits=_PartStaysZero,
    title={
        "one": "{parts:quoted}, a part of the reward, is 0 in all {steps:count} steps.",
        "more": "{parts:quoted}, parts of the reward, are 0 in all {steps:count} steps.",
        "same": "{parts:quoted}, a part of the reward, is {value:figure} in all {steps:count} "
        "steps: it does not depend on the answers.",
    },
    why="A part that no response earns teaches nothing; its parser may not match any answer.",
    suggestion="Grade a response that should earn it by hand, or leave this part out.",
    needs_also="parts of the reward, as reward_parts or metrics",
    of_reward=True,
)
def part_stays_zero(check: Check, run: Run) -> Result:
    """Note the parts that are 0 in every step, or that tell right answers and never change."""
    series = quantities.reward_parts(run)
    if not series:
        return check.not_run(check.needs_also)
    if not np.nan_to_num(quantities.reward(run).values).any():
        return Result()  # without any reward, other checks tell
    never = [
        name
        for name, part in series.items()
        if parts.is_component(name) and not np.nan_to_num(part.values).any()
    ]
    same = [name for name in series if _is_same_grade(run, name, series[name])]
    told = same[:1] or never
    if not told:
        return Result()
    counts = [np.count_nonzero(np.isfinite(series[name].values)) for name in told]
    count = int(min(counts))
    tested = run.limits.test(_PartStaysZero.steps, ">=", count)
    if not tested.met:
        return Result(tested=(tested,))
    names = tuple(map(LogText, told))
    facts: dict[str, Fact] = {"parts": names, "steps": count}
    if same:
        facts["kind"] = "same"
        facts["value"] = float(np.nanmax(series[told[0]].values))
    else:
        facts["kind"] = "one" if len(never) == 1 else "more"
    return check.found(run, Severity.INFO, [tested], facts, onset=run.from_start())


def _is_same_grade(run: Run, name: str, part: Series) -> bool:
    """Return whether a part tells how many answers are right, and is partly earned by each.

    A grader that cannot read an answer may return a default, such as 0.5. Where all answers are
    right, the part is 1.
    """
    values = part.values[np.isfinite(part.values)]
    if not parts.tells_right(name) or not len(values) or np.ptp(values) > 0:
        return False
    of_rows = parts.of_rollouts(run).get(name)
    if of_rows is not None and np.nanmax(of_rows) > np.nanmin(of_rows):
        return False
    return 0 < float(values[0]) < 1
