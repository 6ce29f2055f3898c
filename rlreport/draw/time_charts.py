"""Charts of the time that steps, their phases and their rollouts took."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart, unique_names
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart, floats
from rlreport.draw.frame import Frame
from rlreport.draw.stacked import Part, stacked_chart
from rlreport.draw.theme import LIGHT, tokens
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message

STEP_TIME = "step_time"
ROLLOUT_TIME = "rollout_time"
NAMES = (STEP_TIME, ROLLOUT_TIME)  # of these charts, in order

MOST_PHASES = 5
# Phases are stacked if together they take no longer than the step, but for this part of it...
_TOLERANCE = 0.02
# ... at this part of the steps
_FITTING = 0.95
_LEAST_PHASE = 0.02  # of a step; shorter phases are drawn as the rest
# Colours of phases, the longest first: a scale of one hue, as phases are parts of a whole
_SCALE = tokens("light")
_COLOURS = tuple(_SCALE[f"seq-{number}"] for number in (8, 6, 5, 4, 3))


def time_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield the charts of times that the log tells."""
    yield _step_chart(tables, frame)
    yield _rollout_chart(tables, frame)


def _step_chart(tables: Tables, frame: Frame) -> Chart | None:
    by_step = tables.times.by_step
    if "seconds" not in by_step or by_step["seconds"].notna().sum() < 2:
        return None
    total = _on_axis(by_step, "seconds", frame)
    phases = fitting_phases(tables.times.by_phase, by_step)
    axis = message("seconds")
    if not phases:
        curve = DrawnCurve("seconds", message("step"), total)
        title = message("Time per step")
        return curve_chart(frame, STEP_TIME, title, [curve], ChartStyle(axis))
    parts = []
    rest = total
    for key, name, colour in zip(unique_names(phases), phases, _COLOURS, strict=False):
        seconds = _on_axis(tables.times.by_phase, name, frame)
        rest = rest - seconds
        parts.append(Part(f"phase_{key}", name, seconds, colour))
    # Clocks that are read apart may make the phases longer than the step.
    others = Part("rest", message("other"), np.maximum(rest, 0.0), LIGHT["line"])
    return stacked_chart(
        frame,
        STEP_TIME,
        message("Time per step by phase"),
        [*parts, others],
        axis=axis,
    )


def fitting_phases(by_phase: pd.DataFrame, by_step: pd.DataFrame) -> list[str]:
    """Return names of the longest phases that can be stacked, the longest first; [] if none can.

    Trainers also log parts of phases, and phases that overlap. A phase is left out if, with the
    longer ones, it takes longer than the step, or if its name says that it is a part of one.
    """
    if by_phase.empty:
        return []
    seconds = by_step.set_index("step")["seconds"].reindex(by_phase["step"]).to_numpy()
    left = seconds * (1 + _TOLERANCE)
    chosen: list[str] = []
    medians = by_phase.drop(columns="step").median()
    for name in medians.sort_values(ascending=False, kind="stable").index:
        phase = by_phase[name].to_numpy(np.float64)
        is_known = np.isfinite(phase) & np.isfinite(left)
        is_part = any(str(name).startswith(f"{longer}/") for longer in chosen)
        if not is_known.any() or is_part:
            continue
        fits = np.mean(phase[is_known] <= left[is_known]) >= _FITTING
        if fits and medians[name] >= _LEAST_PHASE * np.median(seconds[is_known]):
            chosen.append(str(name))
            left = left - phase
        if len(chosen) == MOST_PHASES:
            break
    return chosen


def _rollout_chart(tables: Tables, frame: Frame) -> Chart | None:
    """Return the chart of usual and of slow rollouts, None if durations are not logged."""
    steps = tables.steps
    title = message("Time of rollouts")
    style = ChartStyle(message("seconds"), labels=120)
    if steps["seconds_p95"].notna().any():
        curves = [
            _curve("median", message("median"), floats(steps, "seconds_p50")),
            _curve("p95", message("95th percentile"), floats(steps, "seconds_p95")),
            _curve("slowest", message("slowest"), floats(steps, "seconds_max")),
        ]
        return curve_chart(frame, ROLLOUT_TIME, title, curves, style)
    by_rollout = tables.times.by_rollout
    if by_rollout.empty:
        return None
    curves = [
        _curve("mean", message("mean"), _on_axis(by_rollout, "mean", frame)),
        _curve("slowest", message("slowest"), _on_axis(by_rollout, "slowest", frame)),
    ]
    return curve_chart(frame, ROLLOUT_TIME, title, curves, style)


_LOOKS = {
    "median": (LIGHT["policy"], (1, 0)),
    "mean": (LIGHT["policy"], (1, 0)),
    "p95": (LIGHT["info"], (2, 2)),
    "slowest": (LIGHT["muted"], (4, 4)),
}


def _curve(key: str, title: str, values: Floats) -> DrawnCurve:
    colour, dash = _LOOKS[key]
    return DrawnCurve(key, title, values, colour=colour, dash=dash)


def _on_axis(table: pd.DataFrame, column: str, frame: Frame) -> Floats:
    """Return a column of a table by step at the steps of the axis."""
    by_step = table.drop_duplicates("step", keep="last").set_index("step")[column]
    return by_step.reindex(frame.steps).to_numpy(np.float64)
