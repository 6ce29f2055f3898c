"""The base class of output formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rlreport.errors import UsageError
from rlreport.options import OutputOptions

if TYPE_CHECKING:
    from rlreport.bake.comparison import ComparisonBuilder
    from rlreport.bake.pages import Page
    from rlreport.bake.report import ReportBuilder

Builder: TypeAlias = "ReportBuilder | ComparisonBuilder"
"""What a format writes: a report of one run, or a comparison."""


class Form(ABC):
    """An output format.

    Attributes:
        id: name for ``--format``.
        suffix: suffix of OUT that selects it, "" for none.
        mark: bytes near the start of its files, by which a later build knows that it may replace
            them; a folder has a manifest instead.
        folder: whether it is a folder.
        pictures: whether it has a folder of pictures next to its file.
        one_file: whether its pages are views of one file.
        default_size: maximum bytes if the user gives none.
        pages: whether it has one page per step.
    """

    id: ClassVar[str]
    suffix: ClassVar[str] = ""
    mark: ClassVar[bytes] = b""
    folder: ClassVar[bool] = False
    pictures: ClassVar[bool] = False
    one_file: ClassVar[bool] = False
    default_size: ClassVar[int] = 10_000_000
    pages: ClassVar[bool] = False

    def owns(self, start: bytes, end: bytes) -> bool:
        """Return whether a file with these first and last bytes has this format."""
        return bool(self.mark) and self.mark in start

    def check(self, options: OutputOptions) -> None:
        """Raise UsageError if an option cannot be used with this format."""
        if options.to or options.sender or options.subject:
            raise UsageError("--to, --from and --subject are for mail: give -o NAME.eml")

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """Return a page as a path and bytes, and an upper bound of its size in this format.

        Called in the process that rendered the page, for formats with ``pages``; ``write`` gets
        the path and the bytes from ``builder.pages()``.
        """
        raise NotImplementedError

    @abstractmethod
    def write(self, builder: Builder, place: Path) -> None:
        """Write the report to ``place``, a new path, or an empty folder if this is a folder.

        Pictures are written to ``pictures_of(place)``.
        """
