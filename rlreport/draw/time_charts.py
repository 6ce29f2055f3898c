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
_LEAST_STEPS = 5  # with fewer, it is not known whether phases vary together
# A phase is a part of a longer one if the variance of the rest is below this part of its own
_FOLLOWS = 0.5
# Parts of the generation, of verl
_PARTS_OF_PHASES = ("generate_sequences", "reshard")
_LEAST_PHASE = 0.02  # of a step; shorter phases are drawn as the rest
# Colours of phases, the longest first: a scale of one hue, as phases are parts of a whole
_SCALE = tokens("light")
_COLOURS = tuple(_SCALE[f"seq-{number}"] for number in (8, 6, 5, 4, 3))


def time_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield the charts of times that the log tells."""
    yield _step_chart(tables, frame)
    yield _rollout_chart(tables, frame)


def _step_chart(tables: Tables, frame: Frame) -> Chart | None:
    """Return the time of each step, stacked by phase if phases are logged; None if it is not."""
    by_step = tables.times.by_step
    if "seconds" not in by_step or by_step["seconds"].notna().sum() < 2:
        return None
    total = _on_axis(by_step, "seconds", frame)
    phases = fitting_phases(tables.times.by_phase, by_step)
    axis = message("seconds")
    if not phases:
        # An area, as curves are smoothed, which would hide a single slow step
        whole = Part("seconds", message("step"), total, _COLOURS[1])
        title = message("Time per step")
        return stacked_chart(frame, STEP_TIME, title, [whole], axis=axis)
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
    longer ones, it takes longer than the step, or if it is a part of one of them: by its name, or
    as it is never longer and varies with it, so that only the rest of that one would be noise.
    """
    if by_phase.empty:
        return []
    seconds = by_step.set_index("step")["seconds"].reindex(by_phase["step"]).to_numpy()
    left = seconds * (1 + _TOLERANCE)
    chosen: list[str] = []
    medians = by_phase.drop(columns="step").median()
    for name in map(str, medians.sort_values(ascending=False, kind="stable").index):
        phase = by_phase[name].to_numpy(np.float64)
        is_known = np.isfinite(phase) & np.isfinite(left)
        if not is_known.any() or "/" in name or name in _PARTS_OF_PHASES:
            continue
        if any(_is_part(phase, by_phase[longer].to_numpy()) for longer in chosen):
            continue
        fits = np.mean(phase[is_known] <= left[is_known]) >= _FITTING
        if fits and medians[name] >= _LEAST_PHASE * np.median(seconds[is_known]):
            chosen.append(name)
            left = left - phase
        if len(chosen) == MOST_PHASES:
            break
    return chosen


def _is_part(phase: Floats, longer: Floats) -> bool:
    """Return whether a phase seems to be a part of a longer one."""
    is_known = np.isfinite(phase) & np.isfinite(longer)
    phase = phase[is_known]
    rest = longer[is_known] - phase
    if len(rest) < _LEAST_STEPS or np.mean(rest >= 0) < _FITTING:
        return False
    # Two phases that vary each on its own differ by more than one of them varies.
    return bool(np.var(rest) < _FOLLOWS * np.var(phase))


def _rollout_chart(tables: Tables, frame: Frame) -> Chart | None:
    """Return the chart of usual and of slow rollouts, None if durations are not logged."""
    steps = tables.steps
    title = message("Time of rollouts")
    style = ChartStyle(message("seconds"), smooths=False)
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
