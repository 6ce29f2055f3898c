"""Vega, Vega-Lite and vega-embed for the browser, out of vl-convert's package."""

from __future__ import annotations

from importlib.metadata import version

from rlreport.draw.engine import convert
from rlreport.draw.kept import kept


def vega_bundle() -> str:
    """The script that defines ``vegaEmbed``, ``vega`` and ``vegaLite``, and no other global name.

    Making it takes seconds, so it is kept in the user's cache.
    """
    return kept("vega.js", made_of(), make)


def make() -> str:
    """Makes the script from vl-convert's bundle.

    The bundle is one function's body here, since as a classic script it would leave hundreds
    of names in the page.
    """
    bundle = convert("javascript_bundle")
    return f"/* Vega, from {made_of()} */\n(function () {{\n{bundle}\n}})();\n"


def made_of() -> str:
    """What the bundle depends on: vl-convert's version, and how it is wrapped."""
    return f"vl-convert-python {version('vl-convert-python')}, wrapped 2"
