"""Puts Vega's script for the browser into the package when it is built or installed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class VegaScript(BuildHookInterface[Any]):
    """Runs ``rlreport/draw/bundle.py``, which needs vl-convert alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        script = Path(self.root, "rlreport", "draw", "bundle.py")
        runpy.run_path(str(script), run_name="__main__")
