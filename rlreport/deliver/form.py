"""What an output form says of itself."""

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
"""What a form writes: a report of one run, or a comparison."""


class Form(ABC):
    """An output form: one module of this package with a ``FORM``, and one line in its registry.

    Attributes:
        id: name for ``--format``.
        suffix: suffix of OUT that chooses it, "" for none.
        mark: bytes near the start of each file of this form, by which a later build knows that
            it may replace it; a folder has a manifest instead.
        folder: whether it is a folder.
        pictures: whether it has a folder of pictures beside it.
        one_file: whether its pages are views of one file.
        default_size: bytes it may have unless told.
        pages: whether it has a page a step.
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
        """Whether a file with these first and last bytes (some thousand) is of this form."""
        return bool(self.mark) and self.mark in start

    def check(self, options: OutputOptions) -> None:
        """Raises UsageError when an option cannot be used with this form."""
        if options.to or options.sender or options.subject:
            raise UsageError("--to, --from and --subject are for mail: give -o NAME.eml")

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """What becomes of a page in this form (a path and bytes), and the bytes it takes there.

        For forms with ``pages``, whose ``write`` gets path and ``bytes(content)`` from
        ``builder.pages()``; called in the process that baked the page. The bytes it takes may be
        said too high, not too low.
        """
        raise NotImplementedError  # of a form without pages none is asked for

    @abstractmethod
    def write(self, builder: Builder, place: Path) -> None:
        """Writes the report to ``place``, a fresh path (an empty folder for folder forms).

        A form with pictures writes them to ``pictures_of(place)``.
        """
