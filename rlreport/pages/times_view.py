"""When a run was and how long it took, for the overview, mail and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rlreport.draw.chart import Chart
from rlreport.draw.time_charts import STEP_TIME, fitting_phases
from rlreport.pages.page import Addresses
from rlreport.pages.table import Columns, ColumnView, Link, TableView, table
from rlreport.text.durations import duration
from rlreport.text.messages import listed, message, plural, sentences
from rlreport.text.numbers import written
from rlreport.times import SlowStep, Times

MOST_SLOW = 3  # slow steps with a sentence each
MOST_PHASES = 12  # rows of the table of phases


@dataclass(frozen=True, slots=True)
class SlowView:
    """A step that took far longer than the others."""

    link: Link
    duration: str
    factor: str
    median: str


@dataclass(frozen=True, slots=True)
class TimeView:
    """The section on time."""

    words: str
    slow: list[SlowView]
    more_slow: str
    charts: list[Chart]
    phases: TableView | None  # if they cannot be stacked in the chart


def times_in_words(times: Times) -> str:
    """Return when a run was and how long, "" if the log does not tell.

    Such as "2026-11-02 10:00 to 14:20 UTC (4 h 20 min)". Dates are those that the log has; without
    a time zone they are local times, of a place that is not known.
    """
    if times.start is None or times.end is None:
        if times.seconds is None:
            return ""
        return duration(times.seconds)
    start = datetime.fromtimestamp(round(times.start), UTC)
    end = datetime.fromtimestamp(round(times.end), UTC)
    dates = {
        "start": f"{start:%Y-%m-%d %H:%M}",
        "end": f"{end:%H:%M}"
        if start.date() == end.date()
        else f"{end:%Y-%m-%d %H:%M}",
        "zone": "UTC" if times.is_utc else message("local time"),
    }
    if times.end <= times.start:
        return message("{start} {zone}", **dates)
    length = duration(times.end - times.start)
    if times.pause_seconds:
        length = message(
            "{length}, {pauses} of it in pauses",
            length=length,
            pauses=duration(times.pause_seconds),
        )
    return message("{start} to {end} {zone} ({length})", **dates, length=length)


def speed_in_words(times: Times) -> str:
    """Return the usual durations and throughput as a sentence, "" if the log does not tell."""
    parts = []
    if times.step_seconds is not None:
        parts.append(message("{time} per step", time=duration(times.step_seconds)))
    for one in times.throughput[:1]:
        rate = written(one.tokens_per_second)
        if one.per_gpu:
            parts.append(message("{rate} tokens per second and GPU", rate=rate))
        else:
            parts.append(message("{rate} tokens per second", rate=rate))
    if times.turn_seconds is not None:
        parts.append(message("{time} per turn", time=duration(times.turn_seconds)))
    if not parts:
        return ""
    return message("Median: {parts}.", parts=listed(parts))


def slow_in_words(times: Times) -> str:
    """Return the slowest of the slow steps and their number as sentences, "" without any."""
    slow = times.slow_steps
    if not slow or times.step_seconds is None:
        return ""
    slowest = max(slow, key=lambda one: one.seconds)
    text = message(
        "{step:capital} took {time}, {factor} times the median ({median}).",
        step=_name(slowest),
        time=duration(slowest.seconds),
        factor=written(slowest.factor, "count"),
        median=duration(times.step_seconds),
    )
    return sentences([text, _more(len(slow) - 1)])


def time_view(
    times: Times, charts: Sequence[Chart], addresses: Addresses
) -> TimeView | None:
    """Return the section on time, None if the log tells nothing."""
    if not times:
        return None
    slow = times.slow_steps
    largest = sorted(slow, key=lambda one: -one.seconds)[:MOST_SLOW]
    return TimeView(
        words=_words(times),
        slow=[_slow_view(one, times, addresses) for one in largest],
        more_slow=_more(len(slow) - len(largest)),
        charts=list(charts),
        phases=_phases_table(times, charts),
    )


def time_lines(times: Times) -> list[str]:
    """Return what mail and Markdown say of the time."""
    return [line for line in (_words(times), slow_in_words(times)) if line]


def _words(times: Times) -> str:
    when = times_in_words(times)
    if when:
        when = message("Run: {when}.", when=when)
    return sentences([when, speed_in_words(times)])


def _more(count: int) -> str:
    if count <= 0:
        return ""
    return plural(
        "{count} more step took over ten times the median.",
        "{count} more steps took over ten times the median.",
        count,
    )


def _name(slow: SlowStep) -> str:
    if slow.first == slow.step:
        return message("step {step}", step=slow.step)
    return message("each of steps {first}–{last}", first=slow.first, last=slow.step)


def _slow_view(slow: SlowStep, times: Times, addresses: Addresses) -> SlowView:
    name = message("{step:capital}", step=_name(slow))
    return SlowView(
        link=Link(name, addresses.step(slow.step)),
        duration=duration(slow.seconds),
        factor=written(slow.factor, "count"),
        median=duration(times.step_seconds or 0.0),
    )


def _phases_table(times: Times, charts: Sequence[Chart]) -> TableView | None:
    """Return the phases that the chart does not show, None if it shows them."""
    is_drawn = any(chart.name == STEP_TIME for chart in charts)
    if not times.phases or (is_drawn and fitting_phases(times.by_phase, times.by_step)):
        return None
    phases = times.phases[:MOST_PHASES]
    columns: Columns = {
        ColumnView("phase", message("Phase"), kind="token"): [
            one.name for one in phases
        ],
        ColumnView("seconds", message("Median"), message("seconds")): [
            one.seconds for one in phases
        ],
    }
    note = ""
    if len(phases) < len(times.phases):
        note = message(
            "The {some} longest of {all} phases.",
            some=len(phases),
            all=len(times.phases),
        )
    return table("phases", message("Phases of a step"), columns, note=note)
