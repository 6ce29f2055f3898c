"""Style sheet and scripts as they are delivered: joined, named by their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from rlreport.bake.environment import package_folder
from rlreport.bake.scripts import join_scripts
from rlreport.draw.bundle import vega_bundle


@dataclass(frozen=True, slots=True)
class Assets:
    """Texts of the shared assets.

    Attributes:
        style: style sheet.
        report: scripts of the folder form's pages.
        one_file: scripts of the one-file form.
        vega: Vega's bundle.
    """

    style: str
    report: str
    one_file: str
    vega: str

    def files(self) -> dict[str, tuple[str, bytes]]:
        """Logical name -> (file below the root with its content hash, bytes)."""
        return {
            name: (f"assets/{name}.{_hash(text)}.{suffix}", text.encode())
            for name, text, suffix in (
                ("style", self.style, "css"),
                ("report", self.report, "js"),
                ("vega", self.vega, "js"),
            )
        }


@lru_cache(maxsize=1)
def assets() -> Assets:
    """The assets of this version."""
    static = package_folder("static")
    return Assets(
        (static / "style.css").read_text("utf-8"),
        join_scripts(static / "js"),
        join_scripts(static / "js", "one-file.js"),
        vega_bundle(),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
