"""The zip form: the folder, zipped, the same bytes every time."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rlreport import __version__
from rlreport.bake.report import ReportBuilder
from rlreport.choose import CostModel
from rlreport.deliver.form import Form

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold; a real one would make every build differ."""
_FILE_MODE = 0o100644 << 16
_UNIX = 3


class Zip(Form):
    """A zip with the files of the folder form at its root, ``index.html`` first."""

    id = "zip"
    suffix = ".zip"
    mark = b"rlreport "
    default_size = 100_000_000
    cost = CostModel(fixed=550_000, step=9_000, row=60, char=0.54, token=5.4, digit=0.32)

    def owns(self, start: bytes, end: bytes) -> bool:
        """A zip has its mark in the comment at its end."""
        return start.startswith(b"PK") and self.mark in end[-64:]

    def write(self, builder: ReportBuilder, place: Path) -> None:
        """See Form."""
        with zipfile.ZipFile(place, "w") as archive:
            for path, content in builder.files():
                entry = zipfile.ZipInfo(path, _EPOCH)
                entry.create_system = _UNIX
                entry.external_attr = _FILE_MODE
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
            archive.comment = self.mark + __version__.encode()


FORM = Zip()
