"""Puts what is made of others into the package when it is built or installed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Made(BuildHookInterface[Any]):
    """Runs modules that make a file and import nothing of the package.

    ``rlreport/draw/bundle.py`` needs vl-convert, ``rlreport/text/catalogue.py`` Babel.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        for module in ("draw/bundle.py", "text/catalogue.py"):
            script = Path(self.root, "rlreport", module)
            runpy.run_path(str(script), run_name="__main__")
