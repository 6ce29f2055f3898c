"""Produce the generated files of the package when it is built or installed."""

from __future__ import annotations

import runpy
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GeneratedFiles(BuildHookInterface[Any]):
    """Runs the modules that write them: the Vega bundle, the designs of charts, the catalogues.

    They import vl-convert, Altair, orjson and Babel (``build-system.requires``), and of the
    package only modules that need nothing else.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        sys.path.insert(0, self.root)
        for module in ("draw.bundle", "draw.designs", "text.language"):
            runpy.run_module(f"rlreport.{module}", run_name="__main__")
