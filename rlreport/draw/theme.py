"""Theme of all charts: colours for light and dark mode, sizes, and the Vega-Lite configuration.

Vega-Lite specifications contain the light colours, so that exported charts look the same
everywhere. No two light colours are equal: on pages, each is replaced by a CSS custom property.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

Spec = dict[str, Any]  # A Vega-Lite or Vega specification
# File with the compiled chart designs (templates), written when the package is built
DESIGNS = Path(__file__).with_name("designs.json")

Theme = Literal["light", "dark"]

FONT = "sans-serif"
SMALL = 11  # font size of all texts in charts, in pixels
VALUE_FORMAT = ",.4~r"  # d3 format of values in tooltips: four significant digits

# Chart widths in pixels. In a 1400 px window, the page shows charts at this size, unscaled
WIDTH = {"step": 320, "third": 434, "half": 664, "wide": 1352}

HEIGHT = {"step": 220, "half": 200, "wide": 200}
PADDING = {"left": 52, "top": 32, "bottom": 38}
# Padding right of the plot. With ``PADDING["left"]`` it sets the edges of the plots of all charts
# over the steps, which are the same down a page
RIGHT = 16
# Vertical offsets of axis titles in pixels: x below the plot, y (negative) above it
TITLES = {"x": 33, "y": -15}

# Name prefix of layers that exist only in interactive charts, not in the static drawing
INTERACTION = "interaction"

# Colour of a curve, and the alternating lengths of its dashes and gaps in pixels
Style = tuple[str, tuple[int, ...]]

SOLID = (1, 0)
DASHED = (6, 3)
DOTTED = (2, 2)
# Widths of lines in pixels: the usual one, the leading of two of one quantity, and the other one
LINE = 1.75
BOLD = 2.5
THIN = 1.0

# Look of the logged values behind the smoothed line of a long curve
DOTS = {"size": 6, "opacity": 0.4}

# name: (in light mode, in dark mode)
_COLOURS = {
    "page": ("#ffffff", "#14171a"),
    "panel": ("#f7f8fa", "#1b1f24"),
    "line": ("#dfe3e8", "#30363d"),
    "text": ("#1b1f24", "#e6e9ed"),
    "muted": ("#59636e", "#9aa4af"),
    "policy": ("#1a63d2", "#6cb0ff"),
    "reference": ("#9a6700", "#e3a548"),
    "critical": ("#b42318", "#ff8f84"),
    "warning": ("#9a5b00", "#e0a83a"),
    "info": ("#3b5b7a", "#94b8da"),
    "healthy": ("#1a7f4b", "#5cc48a"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}
# Styles, in order of use, for curves without a fixed style; all colours differ
PALETTE: tuple[Style, ...] = (
    (LIGHT["policy"], SOLID),
    (LIGHT["reference"], DASHED),
    (LIGHT["healthy"], SOLID),
    (LIGHT["critical"], DOTTED),
    (LIGHT["info"], (8, 3)),
    (LIGHT["text"], SOLID),
    (LIGHT["muted"], (4, 4)),
    (LIGHT["warning"], (8, 2, 2, 2)),
)

_SIGNED = {
    "light": (
        "#b35806 #c37948 #d29875 #dfb8a0 #ecd7cb #f7f7f7 #ccdae9 #a2bddb #79a0cc #5083bc #2166ac"
    ),
    "dark": (
        "#f0a04b #c4853f #9a6a36 #70502e #463629 #1b1f24 #263c54 #335a85 #4178b2 #5595dc #6cb0ff"
    ),
}
_UNSIGNED = {
    "light": "#f3f7fc #d6e2f1 #b9cde5 #9db8da #82a3ce #668fc2 #4b7ab6 #2e66a9 #08519c",
    "dark": "#1d2631 #203247 #24405f #284f78 #2d5f92 #3571ad #4285c8 #559ae3 #6cb0ff",
}


def tokens(theme: Theme) -> dict[str, str]:
    """Return a theme's colours: CSS custom property (without ``--``) → ``#rrggbb``."""
    colours = dict(LIGHT if theme == "light" else DARK)
    for prefix, scale in (("div", _SIGNED), ("seq", _UNSIGNED)):
        for index, colour in enumerate(scale[theme].split(), start=1):
            colours[f"{prefix}-{index}"] = colour
    return colours


def sentinels() -> dict[str, str]:
    """Return a map of each light colour to the CSS property that replaces it (``--policy``)."""
    return {colour: f"--{name}" for name, colour in tokens("light").items()}


def vega_config() -> dict[str, Any]:
    """Return the Vega-Lite ``config`` of all charts; no position depends on the width of a text."""
    axis = {
        "domain": False,
        "ticks": False,
        "grid": True,
        "gridColor": LIGHT["line"],
        "labelColor": LIGHT["muted"],
        "labelFontSize": SMALL,
        "labelPadding": 6,
        "labelLimit": 0,
        "labelOverlap": False,
        "labelFlush": False,
        "titleColor": LIGHT["muted"],
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "titleLimit": 0,
    }
    return {
        "aria": False,
        "background": LIGHT["page"],
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        # Align texts at their baselines, so that no position depends on the text height.
        "axisX": {
            "grid": False,
            "domain": True,
            "domainColor": LIGHT["muted"],
            "labelBaseline": "alphabetic",
            "labelPadding": 15,
            "titleBaseline": "alphabetic",
        },
        # Place the title horizontally above its axis, where it is easier to read.
        "axisY": {
            "labelBaseline": "alphabetic",
            "labelOffset": 3,
            "titleAngle": 0,
            "titleAlign": "left",
            "titleBaseline": "alphabetic",
        },
        "line": {"strokeWidth": LINE, "strokeJoin": "round"},
        "rule": {"color": LIGHT["muted"]},
        "text": {"fontSize": SMALL, "color": LIGHT["muted"]},
    }


def design_sources() -> str:
    """Return the SHA-256 of ``designs.py`` and ``theme.py``, to detect outdated designs."""
    sources = [
        DESIGNS.with_name(name).read_bytes() for name in ("designs.py", "theme.py")
    ]
    return hashlib.sha256(b"".join(sources)).hexdigest()
