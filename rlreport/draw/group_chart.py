"""The chart of groups by what they teach: all wrong, mixed, all right, dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlreport.check.group_signal import group_signal, signal_in_words
from rlreport.definitions import NO_SIGNAL
from rlreport.draw.chart import Chart
from rlreport.draw.curves import floats
from rlreport.draw.frame import Frame
from rlreport.draw.stacked import Part, stacked_chart
from rlreport.draw.theme import LIGHT, tokens
from rlreport.tables import Tables
from rlreport.text.messages import message

# As of the scale of tokens: wrong is its lower end, right the upper one, and mixed the middle
_SCALE = tokens("light")
_WRONG = _SCALE["div-2"]
_RIGHT = _SCALE["div-10"]


def group_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of the shares of groups, if some steps have groups."""
    steps = tables.steps
    wrong = floats(steps, "wrong_groups")
    equal = floats(steps, "equal_groups")
    right = floats(steps, "right_groups")
    dropped = floats(steps, "dropped_groups")
    mixed = 1 - floats(steps, "zero_variance_groups") - dropped
    mixed[abs(mixed) < 1e-9] = 0.0
    parts = [
        Part("wrong", message("all wrong"), wrong, _WRONG),
        Part("equal", message("equal in between"), equal, LIGHT["muted"]),
        Part("mixed", message("mixed"), mixed, LIGHT["line"]),
        Part("dropped", message("mixed, dropped"), dropped, LIGHT["info"]),
        Part("right", message("all right"), right, _RIGHT),
    ]
    signal = group_signal(tables)
    title = message("Groups")
    note = message(
        "Every response of a group that is all wrong, all right or equal has the same reward, so "
        "it gives no learning signal."
    )
    if signal is not None:
        title = message("Groups: {words}", words=signal_in_words(signal))
    chart = stacked_chart(
        frame,
        "groups",
        title,
        parts,
        axis=message("share of groups"),
        percent=True,
        note=note,
    )
    yield None if chart is None else replace(chart, term=NO_SIGNAL)
