"""Note of episodes that passed: a burst or a dip of some steps, from which a figure came back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rlreport.check import quantities
from rlreport.check.check import Check
from rlreport.check.curve import Curve, level_width
from rlreport.check.events import Event, EventKind
from rlreport.check.finding import Fact, Facts, Onset, Rank, Result, Severity
from rlreport.check.judges.kl import kl_explosion
from rlreport.check.judges.length import length_collapse, length_hacking, missing_eos
from rlreport.check.judges.policy import entropy_collapse, entropy_explosion
from rlreport.check.judges.reward import reward_collapse
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.text.messages import clauses, format_message, message, span, translatable

MOST_NAMED = 3  # Maximum number of episodes in a finding
LEAST_AFTER = 3  # Values that show that a figure came back

# Checks that tell of an episode of a figure themselves
_TOLD_BY: Mapping[str, tuple[Check, ...]] = {
    "reward": (reward_collapse,),
    "length": (length_collapse, length_hacking),
    "entropy": (entropy_explosion, entropy_collapse),
    "kl": (kl_explosion,),
    "cut off": (missing_eos,),
}


class _PassingEpisode(Limits):
    factor = Limit(
        2.0,
        LimitKind.RATIO,
        "times",
        "length, entropy or KL in the episode, against before and after (or the reverse)",
    )
    share = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "share cut off in the episode, minus that before and after",
    )
    lost = Limit(
        0.5,
        LimitKind.SHARE,
        "of the level",
        "what a score lost in the episode, of its lower level before and after",
    )
    part = Limit(0.25, LimitKind.SHARE, "of steps", "the longest episode")


class _Episode(NamedTuple):
    """A burst or a dip that is over."""

    figure: str  # key of ``_EPISODES``
    event: Event
    level: float
    before: float
    after: float


_EPISODES = {
    "reward": translatable("the reward was {level:short} in {steps} and came back"),
    "validation": translatable("validation was {level:short} in {steps} and came back"),
    "length": translatable(
        "the mean length was {level:short} in {steps} and came back"
    ),
    "entropy": translatable("entropy was {level:short} in {steps} and came back"),
    "kl": translatable("KL was {level:short} in {steps} and came back"),
    "cut off": translatable(
        "{level:percent} of responses were cut off in {steps} ({before:percent} before, "
        "{after:percent} after)"
    ),
}


def _statement(facts: Facts) -> str:
    """Return a clause on each episode."""
    texts = []
    for number, figure in enumerate(_items(facts, "figures")):
        steps = tuple(_items(facts, name)[number] for name in ("since", "until"))
        values = {
            name: _items(facts, name)[number] for name in ("level", "before", "after")
        }
        literal = _EPISODES[str(figure)]
        texts.append(format_message(literal, {**values, "steps": span(steps)}))
    return clauses(texts)


def _items(facts: Facts, name: str) -> tuple[Fact, ...]:
    value = facts[name]
    assert isinstance(value, tuple)
    return value


def _title(facts: Facts) -> str:
    return message("{one:capital}.", one=_statement(facts))


@Check(
    name="an episode that passed",
    rank=Rank.NOTE,
    charts=("reward", "length", "surprisal", "kl"),
    limits=_PassingEpisode,
    title=_title,
    statement=_statement,
    why="The run came back by itself; what set it off may come again, for longer.",
    suggestion="Read responses of these steps, and look at what was trained on just before.",
    trend=True,
)
def passing_episode(check: Check, run: Run) -> Result:
    """Note bursts and dips of scores, length, entropy, KL and cut-off responses that are over.

    What another check tells of the same figure is left to it.
    """
    found = []
    for figure, curve in _figures(run):
        for kind in (EventKind.VALLEY, EventKind.HUMP):
            event = curve.event(kind) if curve is not None else None
            if curve is None or event is None:
                continue
            episode = _episode(run, figure, curve, event)
            if episode is not None and not _is_told(run, figure):
                found.append(episode)
    if not found:
        return Result()
    found.sort(key=lambda one: -abs(one.event.z or 0.0))
    named = sorted(found[:MOST_NAMED], key=lambda one: one.event.onset)
    strongest = found[0].event
    inside = (run.steps >= strongest.onset) & (run.steps <= strongest.until)
    facts: Facts = {
        "figures": tuple(one.figure for one in named),
        "since": tuple(one.event.onset for one in named),
        "until": tuple(one.event.until for one in named),
        "level": tuple(one.level for one in named),
        "before": tuple(one.before for one in named),
        "after": tuple(one.after for one in named),
    }
    return check.found(
        run,
        Severity.INFO,
        (),
        facts,
        onset=Onset(strongest.onset, strongest.low, strongest.high),
        until=strongest.until,
        steps=run.steps[inside].tolist(),
    )


def _figures(run: Run) -> Iterator[tuple[str, Curve | None]]:
    """Yield the figures that may have episodes, and their curves."""
    courses = quantities.courses(run)
    for name in ("reward", "validation", "length", "entropy", "kl"):
        course = courses.get(name)
        if course is not None:
            yield name, course.curve
    cut_off = quantities.series_of(run, "truncated")
    if cut_off is None and run.has("finished"):
        finished = quantities.series_by_step(run, "finished")
        cut_off = Series(finished.steps, 1 - finished.values, finished.errors)
    if cut_off is not None:
        yield "cut off", cut_off.curve


def _is_told(run: Run, figure: str) -> bool:
    return any(check.run(run).finding for check in _TOLD_BY.get(figure, ()))


def _episode(run: Run, figure: str, curve: Curve, event: Event) -> _Episode | None:
    """Return the episode that an event is, None if it is long, small, or not over."""
    steps = curve.steps
    inside = (steps >= event.onset) & (steps <= event.until)
    later = np.flatnonzero(steps > event.until)
    longest = run.limits.value(_PassingEpisode.part) * len(curve)
    count = np.count_nonzero(inside)
    if not LEAST_AFTER <= count <= longest or len(later) < LEAST_AFTER:
        return None
    width = level_width(len(curve))
    after = float(curve.values[later[:width]].mean())
    before = curve.mean_before(event.onset)
    span_of_event = (event.onset, event.until)
    if event.kind is EventKind.HUMP:
        level = curve.highest_in(span_of_event).value
        gap = level - max(before, after)
    else:
        level = curve.lowest_in(span_of_event).value
        gap = min(before, after) - level
    episode = _Episode(figure, event, level, before, after)
    return episode if gap > 0 and _is_large(run, episode, gap) else None


def _is_large(run: Run, episode: _Episode, gap: float) -> bool:
    """Return whether an episode, ``gap`` away from what was around it, is worth telling."""
    limits = run.limits[_PassingEpisode]
    is_dip = episode.event.kind is EventKind.VALLEY
    lower = min(episode.before, episode.after)
    if episode.figure == "cut off":
        return not is_dip and gap >= limits.share
    if episode.figure in ("reward", "validation"):
        return is_dip and lower > 0 and gap >= limits.lost * lower
    if is_dip:
        return 0 <= episode.level * limits.factor <= lower
    return episode.level >= limits.factor * max(episode.before, episode.after, 0.0)
