"""What a run was: its model, when it ran and how long, and its commit, for the overview's head."""

from __future__ import annotations

from typing import NamedTuple

from rlreport.about.identity import commit_of, model_of, short_commit, short_model
from rlreport.pages.context import JudgedRun
from rlreport.text.messages import message, plural
from rlreport.times import Times

_MINUTE = 60  # seconds; also minutes of an hour
_HOUR = 60 * _MINUTE
_HOURS_OF_DAY = 24


class RunFact(NamedTuple):
    """A fact about a run, such as "Model" and "Qwen/Qwen3-1.7B"."""

    label: str
    text: str
    exact: str = ""  # the whole value, on hover


def run_facts(run: JudgedRun) -> list[RunFact]:
    """Return the facts that the log and the configuration tell, without those they do not."""
    entries = run.card.entries
    times = run.tables.times
    model = model_of(entries)
    commit = commit_of(entries)
    facts = []
    if model:
        facts.append(RunFact(message("Model"), short_model(model), model))
    date = date_in_words(times)
    if date:
        facts.append(RunFact(message("Date"), date))
    if times.seconds:
        facts.append(RunFact(message("Duration"), duration_in_words(times.seconds)))
    if commit:
        shown = short_commit(commit)
        if entries.get("git.dirty") is True:
            shown = message("{commit} with changes", commit=shown)
        facts.append(RunFact(message("Commit"), shown, commit))
    return facts


def date_in_words(times: Times) -> str:
    """Return when a run was, such as "2026-11-02, 10:00–11:14 UTC"; "" if the log does not tell."""
    start = times.date(times.start)
    end = times.date(times.end)
    if start is None or end is None:
        return ""
    first_day, first_time = _day_and_minute(start)
    last_day, last_time = _day_and_minute(end)
    zone = " UTC" if times.is_utc else ""
    if first_day != last_day:
        return f"{first_day} {first_time} – {last_day} {last_time}{zone}"
    if first_time == last_time:
        return f"{first_day}, {first_time}{zone}"
    return f"{first_day}, {first_time}–{last_time}{zone}"


def _day_and_minute(date: str) -> tuple[str, str]:
    """Split a date such as ``2026-11-02T10:00:00Z`` into the day and the time of day."""
    day, _, time = date.partition("T")
    return day, time[:5]


def duration_in_words(seconds: float) -> str:
    """Return a duration in its two largest units, such as "3 h 20 min"."""
    hours = round(seconds / _HOUR)
    minutes = round(seconds / _MINUTE)
    whole = round(seconds)
    if hours >= _HOURS_OF_DAY:
        days, hours = divmod(hours, _HOURS_OF_DAY)
        counted = plural("{count} day", "{count} days", days)
        return message("{days} {hours} h", days=counted, hours=hours)
    if minutes >= _MINUTE:
        hours, minutes = divmod(minutes, _MINUTE)
        return message("{hours} h {minutes} min", hours=hours, minutes=minutes)
    if whole >= _MINUTE:
        minutes, rest = divmod(whole, _MINUTE)
        return message("{minutes} min {seconds} s", minutes=minutes, seconds=rest)
    return message("{seconds} s", seconds=f"{seconds:.3g}")
