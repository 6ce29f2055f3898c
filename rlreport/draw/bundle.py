"""Vega, Vega-Lite and vega-embed for the browser, taken from the vl-convert package.

Generating the script takes more than a second, so it is generated when the package is built or
installed (``hatch_build.py``). A checkout that is not installed generates it each time.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

PATH = Path(__file__).with_name("vega.js")


def vega_bundle() -> str:
    """Return the Vega script from ``vega.js``, or a new one if that file does not exist."""
    # Reading bytes preserves newlines on every platform.
    return PATH.read_bytes().decode() if PATH.exists() else make_bundle()


def make_bundle() -> str:
    """Return a new Vega script; its only globals are ``vegaEmbed``, ``vega`` and ``vegaLite``."""
    import vl_convert  # starts V8

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg] # the stub is stricter
    source = f"vl-convert-python {version('vl-convert-python')}"
    return f"/* Vega, from {source} */\n(function () {{\n{bundle}\n}})();\n"


if __name__ == "__main__":
    PATH.write_bytes(make_bundle().encode())
