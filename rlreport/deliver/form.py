"""What an output form is: how it encodes pages, and how it writes a report."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from rlreport.errors import UsageError
from rlreport.options import OutputOptions

if TYPE_CHECKING:  # imported late, so that the help of the command line is fast
    from typing import Self

    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.html import Node
    from rlreport.pages.page import RenderedPage
    from rlreport.pages.summary import Summary
    from rlreport.pages.table import Shell

T = TypeVar("T")


class Deliverable(Protocol):
    """What a form writes: the report of a run, or a comparison."""

    @property
    def title(self) -> str:
        """The title, also of the mail that has the report."""

    @property
    def options(self) -> OutputOptions:
        """The options that all reports share."""

    def pages(self) -> Iterator[EncodedPage]:
        """Yield every page, encoded by the form: the overview first."""

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path, content) of every file of a folder: pages, assets and data."""

    def frame(self) -> Shell:
        """Return title and navigation of a form that has all pages in one document."""

    def nodes(self) -> list[Node]:
        """Return the data elements of such a document."""

    def summary(self) -> Summary:
        """Return the report in short, for a form that shows no more."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned for this key when it was called first."""

    def fitted(
        self, write: Callable[[Self], int], limit: int, *, with_steps: bool
    ) -> tuple[Self, int]:
        """Write with as much detail as fits.

        Args:
            write: writes a version in place of the one before; returns its size in bytes.
            limit: most bytes that the last version may have.
            with_steps: whether the form has pages of steps.

        Returns:
            The version that was written last, and its size.

        Raises:
            OutputError: even the smallest version is too large.
        """


Write: TypeAlias = "Callable[[Deliverable, Path], None]"


def refuse_mail_options(options: OutputOptions) -> None:
    """Raise UsageError if an option is given that only mail has."""
    if options.to or options.sender or options.subject:
        raise UsageError(
            "--to, --from and --subject need the mail format; give -o NAME.eml"
        )


@dataclass(frozen=True, slots=True)
class Form:
    """An output form. Its module has it as ``FORM``, and ``deliver.forms`` lists it.

    Functions import slow packages when they are called, as the help of the command line lists all
    forms.

    Attributes:
        id: name for ``--format``, and in ``MARKS`` of ``system.own_output``, unless it is a folder.
        words: what it is, for the help of ``-o``.
        write: writes a report to a new path, or into an empty folder.
        encode: encodes a page; its ``weight`` is what the page adds to the size of the output.
        check: raises UsageError for options that the form does not have.
        suffix: suffix of the output path that selects the form, "" for a folder.
        folder: whether the output is a folder.
        pictures: whether pictures are in a folder next to the file.
        one_file: whether all pages are in one HTML file.
        pages: whether there is a page per step.
        comparable: whether ``compare`` can read its figures; else it refuses the suffix.
        default_size: most bytes without ``--max-size``.
    """

    id: str
    words: str
    write: Write
    encode: Callable[[RenderedPage], EncodedPage]
    check: Callable[[OutputOptions], None] = refuse_mail_options
    suffix: str = ""
    folder: bool = False
    pictures: bool = False
    one_file: bool = False
    pages: bool = False
    comparable: bool = True
    default_size: int = 10_000_000
