"""Vega's one call, apart: a process that only draws imports nothing besides and is soon ready."""

from __future__ import annotations

from collections.abc import Callable

Vega = Callable[[str], str]
"""Draws a Vega specification (JSON) as SVG; nothing, given nothing."""


def vega_svg(specification: str, _: None = None) -> str:
    """Draw a Vega specification (JSON) as SVG; nothing, given nothing.

    Raises:
        ValueError: Vega refused it.
    """
    if not specification:
        return ""
    import vl_convert  # starts V8

    svg: str = vl_convert.vega_to_svg(specification, allowed_base_urls=[])
    return svg


def get_ready() -> None:
    """Called by a process that is to draw: V8 takes half a second to start."""
    vega_svg('{"width": 1, "height": 1, "marks": []}')
