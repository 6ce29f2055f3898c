"""Produce the generated files of the package when it is built or installed."""

from __future__ import annotations

import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GeneratedFiles(BuildHookInterface[Any]):
    """Runs the modules that write them: the Vega bundle, the designs of charts, the catalogues.

    They import vl-convert, Altair, orjson, Babel and Jinja (``build-system.requires``), and of the
    package only modules that need nothing else. Templates are compiled for wheels only: an editable
    installation shows changes of the templates.
    """

    _compiled = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        sys.path.insert(0, self.root)
        for module in ("draw.bundle", "draw.designs", "text.language"):
            runpy.run_module(f"rlreport.{module}", run_name="__main__")
        if version != "editable":
            from rlreport.pages.template_files import COMPILED, compile_templates

            self._compiled = tempfile.mkdtemp()
            compile_templates(Path(self._compiled))
            build_data["force_include"][self._compiled] = (
                f"rlreport/templates/{COMPILED}"
            )

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """See hatchling."""
        if self._compiled:
            shutil.rmtree(self._compiled)
