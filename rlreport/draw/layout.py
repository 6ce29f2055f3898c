"""Sizes and names that the designs of charts share with what fills and draws them."""

from __future__ import annotations

from typing import Any

WIDTH = {"step": 320, "half": 664, "wide": 1352}
"""Pixels, as the page's columns are at a window 1400 pixels wide: text keeps its size there."""

HEIGHT = {"step": 220, "half": 220, "wide": 200}
PADDING = {"left": 52, "top": 32, "bottom": 38}
TITLES = {"x": 33, "y": -15}
"""Pixels below the plot at which the x axis has its title, and above it the y axis."""

VALUE_FORMAT = ",.4~r"
INTERACTION = "interaction"
"""Layers whose name starts so only serve the pointer; they are not drawn on paper."""

ROWS = "rows"
"""Dataset of the layers that share the chart's data."""

SERIES = ["series"]
"""Domain, in a design, of a scale that tells series apart."""

Spec = dict[str, Any]
