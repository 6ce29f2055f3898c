"""Check of the KL to the reference policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rlreport.check import progress, quantities
from rlreport.check.check import KL, Check, mean_in, severity_of
from rlreport.check.course import SCORES, WATCHED, Course
from rlreport.check.curve import Excursion, Level, excursion_of
from rlreport.check.events import Event, EventKind
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Facts, Onset, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.prepared import Kind
from rlreport.check.run import Run, once_per_run, onset_of
from rlreport.check.series import Series
from rlreport.check.settings import SettingKind, higher, lower, see
from rlreport.figures.ragged import Floats
from rlreport.text.messages import translatable

TRL_KL = translatable(
    "TRL guide: keep the KL between 0 and 10; LMFlow's PPO runs reached 500 before failing"
)


class KlExplosion(Limits):
    """Thresholds of ``kl_explosion``."""

    warn = Limit(
        10.0,
        LimitKind.VALUE,
        "nats",
        "KL per response (warning)",
        TRL_KL,
    )
    critical = Limit(
        50.0,
        LimitKind.VALUE,
        "nats",
        "KL per response at the end (critical if a score fell, or none shows harm)",
        TRL_KL,
    )
    warn_token = Limit(0.1, LimitKind.VALUE, "nats per token", "KL per token (warning)")
    critical_token = Limit(
        0.5,
        LimitKind.VALUE,
        "nats per token",
        "KL per token at the end (critical if a score fell, or none shows harm)",
    )


class _Kl(NamedTuple):
    """The KL to the reference by step, in nats; None where it cannot be computed."""

    per_response: Series | None
    per_token: Series | None

    @property
    def series(self) -> Series:
        """The series that is shown: per response if that is known."""
        series = self.per_response or self.per_token
        assert series is not None
        return series


class _Excursion(NamedTuple):
    """Where the KL is too high, and what was tested for it."""

    severity: Severity
    stretch: Excursion | None  # None if it is not too high for long
    tested: tuple[Tested, ...]


_CLOSER = higher(SettingKind.KL) + lower(SettingKind.STEP_SIZE)

# Of a KL that is high at the end while no score fell
_COMPARE = translatable(
    "Compare late answers with the reference's; raise the KL coefficient only if they are worse."
)


@Check(
    name="KL explosion",
    rank=Rank.CONSEQUENCE,
    charts=("kl", "reward_kl_frontier"),
    limits=KlExplosion,
    close={
        "warn": "KL to the reference is {value:short} nats per response",
        "warn_token": "KL to the reference is {value:short} nats per token",
    },
    title={
        "level": "KL to the reference is {kl:figure} nats per response, {kl_token:figure} per "
        "token.",
        "token": "KL to the reference is {kl_token:figure} nats per token.",
        "kept": "KL to the reference is {kl:figure} nats per response, {kl_token:figure} per "
        "token; no harm to the reward is seen.",
        "kept_token": "KL to the reference is {kl_token:figure} nats per token; no harm to the "
        "reward is seen.",
        "start": "KL to the reference is {kl:figure} nats per response, {kl_token:figure} per "
        "token, from the first step on.",
        "start_token": "KL to the reference is {kl_token:figure} nats per token from the first "
        "step on.",
        "ended": "KL to the reference rose to {kl:figure} nats per response, {kl_token:figure} per "
        "token, in steps {since} to {until_step} and came back.",
        "ended_token": "KL to the reference rose to {kl_token:figure} nats per token in steps "
        "{since} to {until_step} and came back.",
    },
    statement={
        "level": "KL to the reference rises to {kl:short} nats per response",
        "token": "KL to the reference rises to {kl_token:short} nats per token",
        "kept": "KL to the reference rises to {kl:short} nats per response, with no harm seen in "
        "the reward",
        "kept_token": "KL to the reference rises to {kl_token:short} nats per token, with no harm "
        "seen in the reward",
        "start": "KL to the reference is {kl:short} nats per response from the first step on",
        "start_token": "KL to the reference is {kl_token:short} nats per token from the first "
        "step on",
        "ended": "KL to the reference rises to {kl:short} nats per response and comes back",
        "ended_token": "KL to the reference rises to {kl_token:short} nats per token and comes "
        "back",
    },
    why="Far from the reference policy, the reward model scores text unlike its training data. A "
    "KL that is high from the first step on means that the reference is another model.",
    suggestion="Raise the KL coefficient or lower the learning rate.",
    advice={
        "level": _CLOSER,
        "token": _CLOSER,
        "ended": _CLOSER,
        "ended_token": _CLOSER,
        "start": see(SettingKind.REFERENCE),
        "start_token": see(SettingKind.REFERENCE),
    },
    suggestions={"kept": _COMPARE, "kept_token": _COMPARE},
    rules_out=lower(SettingKind.KL) + higher(SettingKind.STEP_SIZE),
    otherwise="Go back to a checkpoint before the rise.",
    needs_also="logprobs and ref_logprobs, or the trainer's KL",
    explains=("watched_reward_fall",),
)
def kl_explosion(check: Check, run: Run) -> Result:
    """Find that the KL to the reference is, or was, too high for many steps."""
    judged = _judged_kls(run)
    if not judged:
        return check.not_run(KL.words)
    tested: tuple[Tested, ...] = ()
    for kl, excursion in judged:
        tested += excursion.tested
        if excursion.stretch is not None:
            return _too_high(check, run, kl, excursion)
    return Result(tested=tested)


@once_per_run
def _judged_kls(run: Run) -> list[tuple[_Kl, _Excursion]]:
    """Return the KL of the logged responses and the trainer's, if known, and where each is high.

    That whose course other outputs print comes first.
    """
    known = [kl for kl in (_rollouts_kl(run), _trainers_kl(run)) if kl is not None]
    course = quantities.courses(run).get("kl")
    known.sort(key=lambda kl: course is None or kl.series.source != course.source)
    return [(kl, _excursion(run, kl)) for kl in known]


def kl_is_high(run: Run) -> bool:
    """Return whether the KL is, or was, too high for many steps."""
    return any(excursion.stretch is not None for _, excursion in _judged_kls(run))


def kl_above(run: Run, course: Course) -> Event | None:
    """Return that the KL is above the limits of ``kl_explosion``, None if not or without a date.

    Args:
        run: the run, whose KL of the responses and of the trainer are judged.
        course: the course of one of them, whose values and steps the event has.
    """
    for kl, excursion in _judged_kls(run):
        stretch = excursion.stretch
        if stretch is None or kl.series.source != course.source:
            continue
        onset = _onset_of_kl(run, kl, stretch)
        if onset is None:
            continue
        curve = course.curve
        until = int(curve.steps[-1]) if stretch.lasts else stretch.steps[1]
        return Event(
            kind=EventKind.ABOVE,
            onset=onset.step,
            low=onset.low,
            high=onset.high,
            until=until,
            before=curve.mean_before(onset.step),
            level=curve.mean_in((onset.step, until)),
            z=None,
        )
    return None


def _too_high(check: Check, run: Run, kl: _Kl, excursion: _Excursion) -> Result:
    """Return the finding of a KL that is beyond its limit for long, or was."""
    stretch = excursion.stretch
    assert stretch is not None
    kind = "level"
    if stretch.from_start and not _rises(kl):
        kind = "start"
    elif not stretch.lasts:
        kind = "ended"
    onset = _onset_of_kl(run, kl, stretch)
    fallen = _fallen(run)
    is_harmful = any(_may_follow(score, onset) for score in fallen)
    has_reward = quantities.reward_course(run) is not None
    is_by_model = _is_by_model(run)
    if kind == "level" and has_reward and not fallen and not is_by_model:
        kind = "kept"
    level = _told_level(kl, kind, stretch)
    facts: Facts = {
        "kind": _kind_of(kind, kl),
        "kl": _mean_at(kl.per_response, level),
        "kl_token": _mean_at(kl.per_token, level),
        "since": stretch.steps[0],
        "until_step": stretch.steps[1],
    }
    ranking = None
    if KL.is_available(run):
        token = run.column("kl_max_position")
        ranking = Ranking(
            run.column("kl_k1"),
            _is_above(run, excursion.tested),
            unit="nats",
            token=token,
        )
    severity = severity_of(stretch, excursion.severity)
    # A distance alone breaks nothing where a score would show harm: the policy may have learned
    # what the reference cannot do.
    is_harmless = not is_harmful and not is_by_model
    if severity is Severity.CRITICAL and (kind == "start" or is_harmless):
        severity = Severity.WARNING
    return check.found(
        run,
        severity,
        excursion.tested,
        facts,
        ranking,
        series=kl.series,
        onset=onset,
        until=None if stretch.lasts else stretch.steps[1],
    )


def _fallen(run: Run) -> list[Course]:
    """Return the scores that are worse at the end than they were, surely or probably."""
    courses = quantities.courses(run)
    logged = [courses[name] for name in SCORES if name in courses]
    return [one for one in logged if one.lost or one.probable < 0]


def _is_by_model(run: Run) -> bool:
    """Return whether a reward model, as it seems, gives the only score.

    What a model scores may rise with the distance, so it shows no harm. Rules give few values, and
    their mean over a step is mostly one of -1 to 1.
    """
    courses = quantities.courses(run)
    reward = courses.get("reward")
    if reward is None or any(name in courses for name in WATCHED):
        return False
    if run.has("reward"):
        return not progress.verifiable(run)
    return bool(np.nanmax(np.abs(reward.values)) > 1)


def _may_follow(score: Course, onset: Onset | None) -> bool:
    """Return whether a score may have fallen because of what began at ``onset``."""
    if score.fall is None or onset is None:
        return True
    return score.fall.high >= onset.low


def _told_level(kl: _Kl, kind: str, stretch: Excursion) -> Level:
    """Return the level that is told: the first, the last or, if it ended, the highest.

    All outputs print these levels of the curve.
    """
    curve = kl.series.curve
    assert curve is not None  # else there is no stretch
    if kind == "start":
        return curve.first
    return curve.highest_in(stretch.steps) if kind == "ended" else curve.last


def _mean_at(series: Series | None, level: Level) -> float:
    """Return the mean of a series over the steps of a level, NaN without any."""
    if series is None:
        return math.nan
    first, last = level.steps
    inside = (series.steps >= first) & (series.steps <= last)
    usual = inside & ~np.isin(series.steps, level.without)
    return mean(series.values[usual])


def _is_above(run: Run, tested: Sequence[Tested]) -> Floats:
    """Return 1 for responses whose KL is above all limits that were crossed, float64 (rows,)."""
    kl = run.column("kl_k1")
    per_token = kl / np.fmax(run.column("response_tokens"), 1.0)
    among = np.where(np.isfinite(kl), 1.0, np.nan)
    for one in tested:
        if one.met:
            is_per_token = one.limit.key.endswith("_token")
            among *= beyond(per_token if is_per_token else kl, ">", one.bound)
    return among


def _kind_of(kind: str, kl: _Kl) -> str:
    """Return the key of the title, which names what is known: both figures, or that per token."""
    if kl.per_response is not None:
        return kind
    return "token" if kind == "level" else f"{kind}_token"


def _rises(kl: _Kl) -> bool:
    """Return whether it rises, also per token: that of longer responses is larger in any case."""
    for series in (kl.per_response, kl.per_token):
        curve = series.curve if series is not None else None
        if curve is not None and not (curve.rose or curve.climb is not None):
            return False
    return True


def _onset_of_kl(run: Run, kl: _Kl, stretch: Excursion) -> Onset | None:
    """Return when the KL became too high, None if it stays around the limit.

    One that climbs has to be a quarter of the way, too: a KL may be a little above the limit long
    before it explodes.
    """
    curve = kl.series.curve
    if stretch.from_start and not _rises(kl):
        return run.from_start()
    climb = curve.climb if curve is not None else None
    if climb is not None and climb.onset <= stretch.steps[1]:
        step = max(stretch.steps[0], climb.onset)
        return Onset(step, min(climb.low, step), step)
    if stretch.from_start:
        return onset_of(curve)
    if not stretch.is_dated:
        return None
    return Onset(stretch.steps[0], stretch.steps[0], stretch.steps[0])


def _rollouts_kl(run: Run) -> _Kl | None:
    """Return the KL of the logged responses, None without it."""
    if not KL.is_available(run):
        return None
    kl = run.column("kl_k1")
    tokens = np.where(np.isfinite(kl), run.column("response_tokens"), np.nan)
    per_response = quantities.series_by_step(run, "kl_k1", kind=Kind.SIZE)
    if not np.isfinite(tokens).any():
        return _Kl(per_response, None)
    per_token = run.by_step(kl / tokens, tokens)
    return _Kl(per_response, Series(run.steps, per_token, kind=Kind.SIZE))


def _trainers_kl(run: Run) -> _Kl | None:
    """Return the trainer's KL, a sum over the tokens of a response or their mean; None without."""
    per_response = quantities.series_of(run, "kl")
    per_token = quantities.series_of(run, "kl_token")
    series = per_response or per_token
    if series is None or not len(series.steps):
        return None
    length = quantities.mean_length(run, series)
    if length is None:
        return _Kl(per_response, None if per_response else per_token)
    if per_response is not None:
        by_token = replace(per_response, values=per_response.values / length)
        return _Kl(per_response, by_token)
    return _Kl(replace(series, values=series.values * length), series)


def _excursion(run: Run, kl: _Kl) -> _Excursion:
    """Return where the KL is above the limits per response and per token, and how serious it is.

    It must be above both, as that of long responses is large in any case.
    """
    limits = KlExplosion
    levels = (
        (Severity.CRITICAL, limits.critical, limits.critical_token),
        (Severity.WARNING, limits.warn, limits.warn_token),
    )
    tested: list[Tested] = []
    severity = Severity.WARNING
    stretch: Excursion | None = None
    for of_level, per_response, per_token in levels:
        pairs = [(per_response, kl.per_response), (per_token, kl.per_token)]
        known = [(limit, series) for limit, series in pairs if series is not None]
        # Above 1, it is above all of its limits.
        parts = [series.values / run.limits.value(limit) for limit, series in known]
        lowest = np.minimum.reduce(parts)
        beyond = excursion_of(known[0][1].steps, lowest, 1.0)
        for limit, series in known:
            curve = series.curve
            level = curve.last.value if curve is not None else np.nan
            if beyond is not None:
                level = mean_in(series, beyond.steps)
            test = run.limits.test(limit, ">", level)
            tested.append(replace(test, steps=beyond.steps if beyond else None))
        if beyond is None:
            continue
        stretch = beyond
        if of_level is Severity.CRITICAL and beyond.lasts:
            severity = of_level
    return _Excursion(severity, stretch, tuple(tested))
