"""Durations for people."""

from __future__ import annotations

from rlreport.text.messages import message


def duration(seconds: float) -> str:
    """Return a duration for people, such as ``0.52 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    if seconds < 60:
        return message("{seconds} s", seconds=f"{seconds:.3g}")
    whole = round(seconds)
    if whole < 3600:
        return message(
            "{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60
        )
    return message(
        "{hours:count} h {minutes} min",
        hours=whole // 3600,
        minutes=whole % 3600 // 60,
    )
