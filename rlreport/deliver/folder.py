"""The folder form: pages, shared assets and exported files."""

from __future__ import annotations

from pathlib import Path

from rlreport.bake.report import ReportBuilder
from rlreport.choose import CostModel
from rlreport.deliver.form import Form


class Folder(Form):
    """A folder of pages that open from ``file://`` and from any static host."""

    id = "folder"
    folder = True
    default_size = 100_000_000
    cost = CostModel(fixed=2_000_000, step=43_000, row=690, char=1.26, token=9.4, digit=0.55)

    def write(self, builder: ReportBuilder, place: Path) -> None:
        """See Form."""
        for path, content in builder.files():
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


FORM = Folder()
