"""Charts of a run's way through a plane: reward over another figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlreport.draw.chart import Axis, Chart, evenly, fill, limits, records
from rlreport.draw.curves import MOST_POINTS, DrawnCurve, curve_styles
from rlreport.figures.ragged import Floats
from rlreport.text.messages import message

# Labels of points in this left part of a plane are right of them
PATH_LABELS_LEFT = 0.8


class Path(NamedTuple):
    """A run's way through a plane: reward over another figure."""

    curve: DrawnCurve  # its values are y
    steps: Floats  # float64 (S,)
    x: Floats  # float64 (S,)
    labels: Mapping[int, str]  # index of a point, 0 or -1 -> text at it


def path_chart(
    name: str, title: str, description: str, axis: str, paths: Sequence[Path]
) -> Chart:
    """Return a chart of reward over another figure, whose name and unit is ``axis``."""
    rows: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for path in paths:
        # The first and the last point, which may have labels, always remain.
        selection = evenly(len(path.x), MOST_POINTS)
        x = path.x[selection]
        y = path.curve.values[selection]
        places = records({"x": x, "y": y})
        points = [
            {"step": int(step), "series": path.curve.key} | place
            for step, place in zip(path.steps[selection], places, strict=True)
        ]
        rows += points
        for index, text in path.labels.items():
            # A point whose figure is not finite has no place, and so no label.
            if None not in (points[index]["x"], points[index]["y"]):
                ends.append(points[index] | {"label": text})
    x_limits = limits([path.x for path in paths])
    for end in ends:
        # The edge of the plot is that of the page: labels near it are left of their point.
        is_left = end["x"] <= x_limits[0] + PATH_LABELS_LEFT * (
            x_limits[1] - x_limits[0]
        )
        end["side"] = "after" if is_left else "before"
    y_limits = limits([path.curve.values for path in paths])
    spec, vega = fill(
        "paths",
        {"rows": rows, "label": ends, "halo": ends},
        (Axis(*x_limits, axis), Axis(*y_limits, message("mean reward"))),
        curve_styles([path.curve for path in paths]),
    )
    return Chart(name=name, title=title, description=description, spec=spec, vega=vega)
