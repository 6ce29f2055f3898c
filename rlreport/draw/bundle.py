"""Vega, Vega-Lite and vega-embed for the browser, out of vl-convert's package.

Making the script takes more than a second, so it is made when the package is built or installed
(``hatch_build.py``), or by ``python -m rlreport.draw.bundle``. A checkout that is only run makes
it each time.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

PLACE = Path(__file__).with_name("vega.js")


def vega_bundle() -> str:
    """The script that defines ``vegaEmbed``, ``vega``, ``vegaLite`` and no other global name."""
    try:
        # By bytes: newlines stay as they are on every platform.
        return PLACE.read_bytes().decode()
    except FileNotFoundError:
        return make()


def make() -> str:
    """Makes the script from vl-convert's bundle.

    The bundle is one function's body here, since as a classic script it would leave hundreds
    of names in the page.
    """
    import vl_convert  # starts V8

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg] # the stub is stricter
    made_of = f"vl-convert-python {version('vl-convert-python')}"
    return f"/* Vega, from {made_of} */\n(function () {{\n{bundle}\n}})();\n"


if __name__ == "__main__":
    PLACE.write_bytes(make().encode())
